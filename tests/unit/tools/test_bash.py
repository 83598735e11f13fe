from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.bash import NOT_STARTED, BashInput, BashTool, exact_suggestions
from tools.process import programs, supervised_process
from tools.tool import ChangeKind, CommandChange, PermissionDeniedError, ToolError, ToolResult


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    (tmp_path / "ws").mkdir()
    return fake_context(tmp_path / "ws")


async def bash(ctx: FakeToolContext, command: str, timeout: int = 20, grace: float = 3.0) -> ToolResult:
    return await BashTool(kill_grace_s=grace).run(BashInput(command=command, timeout=timeout), ctx)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.01)


def pids(ctx: FakeToolContext, name: str = "pids") -> list[int]:
    path = ctx.workspace / name
    return [int(word) for word in path.read_text().split()] if path.exists() else []


async def test_output_and_exit_code_are_returned(ctx: FakeToolContext) -> None:
    result = await bash(ctx, "pwd; echo err >&2; exit 3")
    assert result.content == f"Exit code: 3\n{ctx.workspace}\nerr\n"
    assert result.metadata["exit_code"] == 3
    assert not result.is_error
    assert "".join(ctx.output) == f"{ctx.workspace}\nerr\n"


async def test_the_command_is_asked_for_before_it_runs(ctx: FakeToolContext) -> None:
    ctx.permission.refuse = {"bash"}
    with pytest.raises(PermissionDeniedError):
        await bash(ctx, "touch made && git log -3")
    assert not (ctx.workspace / "made").exists()
    (ask,) = ctx.permission.asks
    assert ask.targets == ("touch made", "git log -3")
    assert [s.pattern for s in ask.suggestions] == ["touch made", "git log *"]
    assert ask.detail == "touch made && git log -3"


async def test_title_shows_the_command_and_not_the_description(ctx: FakeToolContext) -> None:
    line = f"echo one\necho {'x' * 300}"
    result = await BashTool().run(BashInput(command=line, description="Run the unit tests"), ctx)
    (ask,) = ctx.permission.asks
    assert result.title == f"echo one␊echo {'x' * 40}…(240 more characters)…{'x' * 20}"
    assert (ask.title, ask.detail) == (f"Run {result.title}", line)
    assert ask.model_says == "Run the unit tests"


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        ("npm test -- a", ["npm test -- a"]),
        ("git log -3 && npm test", ["npm test", "git log *"]),
        ("git log -3", ["git log *"]),
        ("make *.o", []),
    ],
)
async def test_without_a_sandbox_unbounded_commands_are_granted_as_is(
    ctx: FakeToolContext, line: str, patterns: list[str]
) -> None:
    ctx.permission.refuse = {"bash"}
    with pytest.raises(PermissionDeniedError):
        await bash(ctx, line)
    (ask,) = ctx.permission.asks
    assert [one.pattern for one in ask.suggestions if one.permission == "bash"] == patterns
    assert exact_suggestions(ask) == ask.suggestions


async def test_command_has_no_stdin_and_no_terminal(ctx: FakeToolContext) -> None:
    result = await bash(ctx, "read line || echo nothing; (cat < /dev/tty) 2>/dev/null || echo no terminal")
    assert result.content == "Exit code: 0\nnothing\nno terminal\n"


async def test_keys_are_not_in_the_environment(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OPENAI_ORG",
        "MY_API_KEY",
        "GH_TOKEN",
        "APP_SECRET",
        "GOALWRIGHT_X",
    ]
    for name in [*secret, "PYTHONHASHSEED", "TOKENIZERS_PARALLELISM", "HARMLESS", "ON_REQUEST"]:
        monkeypatch.setenv(name, "visible")
    monkeypatch.setenv("GOALWRIGHT_ENVIRONMENT", "ON_*")
    lines = (await bash(ctx, "env")).content.split("\n")
    assert "PYTHONHASHSEED=visible" in lines
    assert "TOKENIZERS_PARALLELISM=visible" in lines
    assert "ON_REQUEST=visible" in lines
    assert "HARMLESS=visible" not in lines
    assert not [line for line in lines if line.split("=")[0] in secret]


async def test_invalid_utf8_is_replaced(ctx: FakeToolContext) -> None:
    assert (
        await bash(ctx, r"printf 'a\xffb\xc3'; sleep 0; printf '\xa9'")
    ).content == "Exit code: 0\na\ufffdb\u00e9"


async def test_empty_output_is_reported(ctx: FakeToolContext) -> None:
    assert (await bash(ctx, "true")).content == "Exit code: 0\n(no output)"


async def test_long_output_keeps_head_and_tail_and_all_of_it_in_a_file(ctx: FakeToolContext) -> None:
    result = await bash(ctx, "seq 1 20000")
    everything = "".join(f"{n}\n" for n in range(1, 20001))
    spill = ctx.scratch / "bash-call_1.txt"
    assert spill.read_text() == everything
    assert result.metadata["output_file"] == spill.as_posix()
    body = result.content.removeprefix("Exit code: 0\n")
    head, _, tail = body.partition(f"\n\n[… {len(everything) - 30_000} characters left out;")
    assert everything.startswith(head)
    assert len(head) == 15_000
    assert everything.endswith(tail.split("]\n\n", 1)[1])
    assert len(tail.split("]\n\n", 1)[1]) == 15_000


async def test_a_timeout_kills_the_whole_group(ctx: FakeToolContext) -> None:
    result = await bash(ctx, "(sleep 300 & echo $! >> pids; wait) & echo $! >> pids; sleep 300", timeout=1)
    assert result.is_error
    assert result.content.startswith("Timed out after 1 s")
    assert len(pids(ctx)) == 2
    await until(lambda: not any(alive(pid) for pid in pids(ctx)))


async def test_command_that_ignores_sigterm_is_killed(ctx: FakeToolContext) -> None:
    result = await bash(
        ctx, "trap '' TERM; echo $$ > pids; while :; do sleep 300; done", timeout=1, grace=0.2
    )
    assert result.is_error
    await until(lambda: not any(alive(pid) for pid in pids(ctx)))


async def test_command_may_clean_up_before_the_kill(ctx: FakeToolContext) -> None:
    await bash(ctx, "trap 'echo cleaned > done; exit' TERM; sleep 300 & wait", timeout=1)
    assert (ctx.workspace / "done").read_text() == "cleaned\n"


async def test_cancellation_kills_grandchildren_in_other_groups(ctx: FakeToolContext) -> None:
    task = asyncio.create_task(
        bash(ctx, "set -m; bash -c 'sleep 300 & echo $! >> pids; wait' & echo $! >> pids; wait")
    )
    await until(lambda: len(pids(ctx)) == 2)
    assert all(alive(pid) for pid in pids(ctx))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(alive(pid) for pid in pids(ctx)))


async def test_background_processes_do_not_outlive_the_command(ctx: FakeToolContext) -> None:
    for redirect in ("", ">/dev/null 2>&1"):
        result = await bash(ctx, f"sleep 300 {redirect} & echo $! > pids; echo started")
        assert "Processes that it left in the background were stopped." in result.content
        assert result.content.endswith("started\n")
        await until(lambda: not any(alive(pid) for pid in pids(ctx)))


# Each leaves the session of the command, and most its family: by setsid, by two forks, without their environment.
RUNAWAYS = [
    "setsid sleep 300 & echo $! >> pids",
    "(setsid bash -c 'echo $$ >> pids; exec sleep 300' >/dev/null 2>&1 &)",
    "setsid --fork bash -c 'echo $$ >> pids; trap \"\" TERM; while :; do sleep 300; done' >/dev/null 2>&1",
    "setsid env -i /bin/bash -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 300; done' &",
    "setsid env -i /bin/bash -c 'echo $$ >> pids; exec sleep 300' &",
    "setsid bash -c 'echo $$ >> pids; env -i setsid sleep 300 & echo $! >> pids; wait' >/dev/null 2>&1 &",
]
on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@on_linux
@pytest.mark.parametrize("runaway", RUNAWAYS)
async def test_cancellation_kills_processes_that_left_the_session(ctx: FakeToolContext, runaway: str) -> None:
    task = asyncio.create_task(bash(ctx, f"{runaway}\necho $$ >> pids; wait; sleep 300", grace=0.2))
    await until(lambda: len(pids(ctx)) == 1 + runaway.count(">> pids"))
    assert all(alive(pid) for pid in pids(ctx))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(alive(pid) for pid in pids(ctx))


@on_linux
@pytest.mark.parametrize("runaway", RUNAWAYS[:3])
async def test_processes_that_left_the_session_die_with_the_command(
    ctx: FakeToolContext, runaway: str
) -> None:
    result = await bash(
        ctx, f"{runaway}\nuntil [ -s pids ]; do sleep 0.01; done; sleep 300", timeout=1, grace=0.2
    )
    assert result.content.startswith("Timed out")
    assert not any(alive(pid) for pid in pids(ctx))
    (ctx.workspace / "pids").unlink()
    result = await bash(ctx, f"{runaway}\nuntil [ -s pids ]; do sleep 0.01; done", grace=0.2)
    assert "Processes that it left in the background were stopped." in result.content
    assert len(pids(ctx)) == 1
    assert not any(alive(pid) for pid in pids(ctx))


@on_linux
async def test_end_of_one_command_does_not_affect_another(ctx: FakeToolContext) -> None:
    other = asyncio.create_task(bash(ctx, "setsid sleep 300 & echo $! $$ >> pids; wait"))
    await until(lambda: len(pids(ctx)) == 2)
    await bash(ctx, "setsid sleep 300 & true", grace=0.2)
    assert all(alive(pid) for pid in pids(ctx))
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert not any(alive(pid) for pid in pids(ctx))


async def test_killing_signal_is_reported(ctx: FakeToolContext) -> None:
    assert (await bash(ctx, "kill -9 $$")).content.startswith("Killed by signal 9.")


async def test_missing_shell_is_an_error(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(ctx.workspace))
    (ctx.workspace / "bash").write_text("#!/bin/sh\n")
    (ctx.workspace / "bash").chmod(0o755)
    with pytest.raises(ToolError, match="No shell found"):
        await bash(ctx, "true")


async def test_empty_commands_are_refused(ctx: FakeToolContext) -> None:
    with pytest.raises(ToolError):
        await bash(ctx, "  ")


async def test_a_reader_that_has_enough_ends_the_program(tmp_path: Path) -> None:
    got = bytearray()

    def take(fd: int, data: bytes) -> bool:
        got.extend(data)
        return len(got) < 100_000

    ended = await programs.run(["yes"], cwd=tmp_path, env=dict(os.environ), on_output=take, timeout_s=60)
    assert not ended.timed_out
    assert len(got) >= 100_000


async def test_cancellation_during_process_start_leaves_no_process(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, go_on = supervised_process._reaper.begin, threading.Event()

    def slow_begin(request: Mapping[str, object], descriptors: Sequence[int]) -> None:
        begin(request, descriptors)
        go_on.wait(20)

    monkeypatch.setattr(supervised_process._reaper, "begin", slow_begin)
    task = asyncio.create_task(bash(ctx, "sleep 300 & echo $! $$ >> pids; wait"))
    await until(lambda: len(pids(ctx)) == 2)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(alive(pid) for pid in pids(ctx)))


# -- what it changed


def seen(
    workspace: Path, name: str, kind: ChangeKind = "update", version: str | None = "v1"
) -> CommandChange:
    return CommandChange(workspace / name, kind, version, 2, 1)


async def test_files_changed_by_a_command_are_reported(ctx: FakeToolContext) -> None:
    w = ctx.workspace
    ctx.history.seen = (
        seen(w, "a.py"),
        seen(w, "b.txt", "create"),
        seen(w, "c.txt", "delete"),
        seen(w, "d.bin", version=None),
    )
    result = await bash(ctx, "true")
    assert result.content.endswith(
        "\nFiles changed by the command: "
        "a.py (+2 -1), b.txt (new), c.txt (deleted), d.bin (updated; cannot be undone)."
    )
    assert result.metadata["files"][0] == {
        "path": "a.py",
        "kind": "update",
        "added": 2,
        "removed": 1,
        "version": "v1",
    }
    assert ctx.history.watched == ["call_1"]


async def test_only_the_first_of_many_changed_files_are_named(ctx: FakeToolContext) -> None:
    ctx.history.seen = tuple(seen(ctx.workspace, f"{n:03}.txt") for n in range(500))
    result = await bash(ctx, "true")
    assert "019.txt (+2 -1) and 480 more." in result.content
    assert "020.txt" not in result.content
    assert len(result.metadata["files"]) == 200
    assert result.metadata["files_changed"] == 500


async def test_canceled_command_is_checked_for_changes(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []
    began = asyncio.Event()

    class Watch:
        async def ended(self) -> tuple[CommandChange, ...]:
            await asyncio.sleep(0)
            ended.append(True)
            return ()

    async def watch_command(tool_call_id: str) -> Watch:
        began.set()
        return Watch()

    monkeypatch.setattr(ctx.history, "watch_command", watch_command)
    running = asyncio.create_task(bash(ctx, "sleep 60"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == [True]


async def test_refused_command_is_not_watched(ctx: FakeToolContext) -> None:
    ctx.permission.refuse = {"bash"}
    with pytest.raises(PermissionDeniedError):
        await bash(ctx, "true")
    assert ctx.history.watched == []


async def test_a_stopped_command_reports_what_it_wrote(ctx: FakeToolContext) -> None:
    stopped: list[ToolResult] = []
    ctx = replace(ctx, on_stop=stopped.append)
    task = asyncio.create_task(bash(ctx, "echo tick; echo tock; touch there; sleep 300", grace=0.2))
    await until((ctx.workspace / "there").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (result,) = stopped
    first, *rest = result.content.split("\n")
    assert re.fullmatch(r"Stopped by the user after \d+\.\d s, .*", first)
    assert rest == ["tick", "tock", ""]
    assert result.is_error
    assert (result.metadata["canceled"], result.metadata["output_lines"]) == (True, 3)


async def test_command_stopped_before_approval_is_reported_not_started(ctx: FakeToolContext) -> None:
    stopped: list[ToolResult] = []
    asked = asyncio.Event()

    async def wait(ask: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    ctx.permission.on_ask = wait
    task = asyncio.create_task(bash(replace(ctx, on_stop=stopped.append), "touch there"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(result.content, result.metadata["not_run"]) for result in stopped] == [(NOT_STARTED, True)]


async def test_colours_are_kept_for_the_display_and_not_for_the_model(ctx: FakeToolContext) -> None:
    result = await bash(ctx, r"printf '\033[32mo'; printf 'k\033[0m\033]0;title\007\n\033[2Kend\n'")
    assert result.content == "Exit code: 0\nok\nend\n"
    assert result.metadata["colored"] == "\x1b[32mok\x1b[0m\nend\n"
    assert "".join(ctx.output) == "\x1b[32mok\x1b[0m\nend\n"
    assert "colored" not in (await bash(ctx, "echo plain")).metadata


def _starred(text: str) -> str:
    return text.replace("secret", "***")


async def test_colours_never_hide_a_secret(ctx: FakeToolContext) -> None:
    ctx = replace(ctx, redact=_starred)
    result = await bash(ctx, r"printf 'sec\033[1mret\n'")
    assert "colored" not in result.metadata
