"""Programs as hooks: real ones, and all the ways in which they go wrong."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.hooks.answer import NOTHING, HookAnswer, HookError
from daemon.hooks.executable import HookExecutable
from daemon.settings import Hook, HookName
from tests.support.drivers.waiting import until
from tests.support.fakes.hooks import answering, is_alive, pids, program

BEFORE: HookName = "tool.execute.before"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def hook(workspace: Path, *command: str | Path, trusted: bool = False, **options: Any) -> HookExecutable:
    return HookExecutable(Hook(command=tuple(map(str, command)), **options), workspace, trusted)


async def ask(executable: HookExecutable, name: HookName = BEFORE, **payload: Any) -> HookAnswer:
    async with asyncio.timeout(30):
        return await executable.ask(name, {"hook": name, **payload})


async def failure(executable: HookExecutable, name: HookName = BEFORE, **payload: Any) -> HookError:
    with pytest.raises(HookError) as failed:
        await ask(executable, name, **payload)
    return failed.value


# -- what it is told, and what it says --


async def test_hook_program_reads_and_answers_json_in_the_workspace(tmp_path: Path, workspace: Path) -> None:
    script = 'cat > "$HERE/in"; pwd > "$HERE/pwd"; echo \'{"arguments": {"command": "ls"}}\''
    said = await ask(hook(workspace, program(tmp_path, "h", script)), tool="bash", text="é 😀\n")
    assert said.arguments == {"command": "ls"}
    assert json.loads((tmp_path / "in").read_text()) == {"hook": BEFORE, "tool": "bash", "text": "é 😀\n"}
    assert (tmp_path / "pwd").read_text().strip() == str(workspace)


async def test_silent_hook_changes_nothing(tmp_path: Path, workspace: Path) -> None:
    assert await ask(hook(workspace, program(tmp_path, "h", "exit 0"))) == NOTHING


async def test_exit_code_2_refuses_with_what_is_on_stderr(tmp_path: Path, workspace: Path) -> None:
    refusing = hook(workspace, program(tmp_path, "h", "echo out; echo 'not on Fridays' >&2; exit 2"))
    assert await ask(refusing) == HookAnswer(denied=True, reason="not on Fridays")
    assert await ask(refusing, "prompt.submit") == HookAnswer(denied=True, reason="not on Fridays")
    silent = hook(workspace, program(tmp_path, "s", "exit 2"))
    assert (await ask(silent)).reason == "it gave no reason."


async def test_exit_code_2_is_a_failure_where_denying_is_impossible(tmp_path: Path, workspace: Path) -> None:
    refusing = hook(workspace, program(tmp_path, "h", "exit 2"))
    for name in ("compaction.before", "session.start", "permission.asked"):
        assert (await failure(refusing, name)).kind == "exit"


async def test_output_of_a_watcher_hook_is_ignored(tmp_path: Path, workspace: Path) -> None:
    assert await ask(hook(workspace, program(tmp_path, "h", "echo hello")), "session.start") == NOTHING


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
async def test_hook_may_answer_without_reading_its_input(tmp_path: Path, workspace: Path, size: int) -> None:
    said = await ask(hook(workspace, program(tmp_path, "h", 'echo \'{"context": "c"}\'')), text="x" * size)
    assert said.context == "c"


async def test_large_payload_reaches_the_hook(tmp_path: Path, workspace: Path) -> None:
    await ask(hook(workspace, program(tmp_path, "h", 'wc -c > "$HERE/size"')), text="x" * 3_000_000)
    assert int((tmp_path / "size").read_text()) > 3_000_000


async def test_keys_are_not_in_its_environment(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "t-secret")
    await ask(hook(workspace, program(tmp_path, "h", 'env > "$HERE/env"')))
    env = (tmp_path / "env").read_text()
    assert "secret" not in env
    assert f"GOALWRIGHT_HOOK={BEFORE}" in env
    assert f"GOALWRIGHT_WORKSPACE={workspace}" in env


# -- how it fails --


async def test_sleeping_hook_is_killed_after_the_timeout(tmp_path: Path, workspace: Path) -> None:
    sleeper = program(tmp_path, "h", 'echo $$ > "$HERE/pid"; trap "" TERM; while :; do sleep 1; done')
    failed = await failure(hook(workspace, sleeper, timeout_s=0.5))
    assert (failed.kind, str(failed)) == ("timeout", "took longer than 0.5 s and was stopped")
    assert not any(map(is_alive, pids(tmp_path / "pid")))


@pytest.mark.parametrize("to", ["", " >&2"])
async def test_ten_megabytes_are_too_much_only_on_stdout(tmp_path: Path, workspace: Path, to: str) -> None:
    script = f"head -c 10000000 /dev/zero | tr '\\0' x{to}; exit 1"
    failed = await failure(hook(workspace, program(tmp_path, "h", script)))
    assert failed.kind == ("exit" if to else "output")
    assert len(str(failed)) < 1_000


async def test_endlessly_printing_hook_is_killed(tmp_path: Path, workspace: Path) -> None:
    script = 'echo $$ > "$HERE/pid"; exec yes'
    assert (await failure(hook(workspace, program(tmp_path, "h", script)))).kind == "output"
    assert not any(map(is_alive, pids(tmp_path / "pid")))


async def test_non_json_output_is_a_failure(tmp_path: Path, workspace: Path) -> None:
    failed = await failure(hook(workspace, program(tmp_path, "h", "echo all is well")))
    assert (failed.kind, str(failed)) == ("answer", "printed output that is not JSON: all is well")


async def test_non_text_output_is_a_failure(tmp_path: Path, workspace: Path) -> None:
    assert (await failure(hook(workspace, program(tmp_path, "h", r"printf '\377\376\000'")))).kind == "answer"


async def test_other_exit_code_is_a_failure_with_stderr(tmp_path: Path, workspace: Path) -> None:
    script = 'echo \'{"decision": "deny"}\'; echo "no jq" >&2; exit 1'
    failed = await failure(hook(workspace, program(tmp_path, "h", script)))
    assert (failed.kind, str(failed)) == ("exit", "failed with exit code 1: no jq")


async def test_killed_hook_is_a_failure(tmp_path: Path, workspace: Path) -> None:
    failed = await failure(hook(workspace, program(tmp_path, "h", "kill -9 $$")))
    assert (failed.kind, str(failed)) == ("crash", "was killed by signal 9")


async def test_children_holding_the_pipe_are_killed(tmp_path: Path, workspace: Path) -> None:
    script = 'sleep 300 & echo $! > "$HERE/one"; setsid sleep 300 & echo $! > "$HERE/two"; echo \'{"context": "c"}\''
    said = await ask(hook(workspace, program(tmp_path, "h", script), timeout_s=20))
    assert said.context == "c"
    assert not any(map(is_alive, pids(tmp_path / "one", tmp_path / "two")))


async def test_cancellation_leaves_no_process(tmp_path: Path, workspace: Path) -> None:
    script = 'sleep 300 & echo $! > "$HERE/child"; echo $$ > "$HERE/pid"; wait'
    asking = asyncio.create_task(ask(hook(workspace, program(tmp_path, "h", script))))
    file = tmp_path / "pid"
    await until(lambda: file.exists() and file.read_text().strip(), "the hook")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not any(map(is_alive, pids(file, tmp_path / "child")))


async def test_missing_or_unusable_program_is_a_start_failure(tmp_path: Path, workspace: Path) -> None:
    assert (await failure(hook(workspace, "/nowhere/at/all"))).kind == "start"
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert (await failure(hook(workspace, plain))).kind == "start"
    assert (await failure(hook(workspace, "no-such-program-here"))).kind == "missing"
    assert (await failure(hook(workspace, "a\0b"))).kind in ("start", "missing")


# -- where it comes from --


async def test_program_is_not_looked_up_in_an_untrusted_workspace(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(workspace / "bin", "checker", {"context": "from the workspace"})
    monkeypatch.setenv("PATH", f"{workspace / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert (await failure(hook(workspace, "checker"))).kind == "missing"
    assert (await ask(hook(workspace, "checker", trusted=True))).context == "from the workspace"


async def test_a_relative_path_needs_trust(workspace: Path) -> None:
    answering(workspace / "hooks", "check", {"context": "c"})
    for name in ("hooks/check", "./hooks/check"):
        assert (await failure(hook(workspace, name))).kind == "missing"
        assert (await ask(hook(workspace, name, trusted=True))).context == "c"


async def test_absolute_path_runs_without_trust(workspace: Path) -> None:
    assert (await ask(hook(workspace, answering(workspace, "check", {"context": "c"})))).context == "c"


async def test_interpreter_gets_no_script_of_an_untrusted_workspace(tmp_path: Path, workspace: Path) -> None:
    (workspace / "check.py").write_text('print(\'{"context": "c"}\')')
    assert (await failure(hook(workspace, sys.executable, "check.py"))).kind == "missing"
    assert (await ask(hook(workspace, sys.executable, "check.py", trusted=True))).context == "c"
    assert (await ask(hook(workspace, sys.executable, workspace / "check.py"))).context == "c"


async def test_hook_children_do_not_search_an_untrusted_workspace(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (workspace, workspace / "bin"):
        program(folder, "helper", 'echo \'{"context": "from the workspace"}\'')
    (workspace / "json.py").write_text("raise SystemExit(9)")
    path = os.pathsep.join(["", ".", "bin", str(workspace / "bin"), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}{workspace}")
    assert await ask(hook(workspace, program(tmp_path, "h", "helper || true"))) == NOTHING
    python = hook(workspace, sys.executable, "-c", "import json; print(json.dumps({'context': 'c'}))")
    assert (await ask(python)).context == "c"
    trusting = hook(workspace, program(tmp_path, "h", "helper"), trusted=True)
    assert (await ask(trusting)).context == "from the workspace"


def test_hook_label_is_its_command_line(workspace: Path) -> None:
    assert hook(workspace, "my check", "-x").label == "'my check' -x"
    assert len(hook(workspace, "x" * 500).label) == 80
