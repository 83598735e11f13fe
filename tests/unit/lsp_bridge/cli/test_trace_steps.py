"""``goalwright trace list|show|dump|tail`` over a stored trace, without any daemon."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from daemon.context.prompt import Layer
from daemon.context.prompt_record import changed_prompt, with_prompt
from daemon.model.branches import BranchMeta
from daemon.model.events import BranchCompleted, BranchStarted, TurnEnded
from daemon.model.goals import GoalStats
from daemon.model.messages import TextPart, Usage
from daemon.model.traces import RecordedPrompt
from daemon.runtime import RuntimePaths
from daemon.store.files import FileTraceStore
from lsp_bridge.cli.console import Console
from lsp_bridge.cli.invocation import Invocation
from lsp_bridge.cli.trace.steps import dump_trace, list_traces, show_trace, tail_trace
from tests.support.drivers.waiting import until
from tests.support.scenarios.step_events import TRACE, Recorded, configuration_change

OTHER = "20240116-090000-000000ffff"


class Screen:
    """A console whose output can be read."""

    def __init__(self, *, color: bool = False) -> None:
        self._out = io.BytesIO()
        self._err = io.StringIO()
        out = io.TextIOWrapper(self._out, "utf-8", write_through=True)
        self.console = Console(out=out, err=self._err, color=color, columns=100)

    def at(self, workspace: Path, *, json: bool = False) -> Invocation:
        return Invocation(workspace, self.console, json=json)

    @property
    def out(self) -> str:
        return self._out.getvalue().decode()

    @property
    def err(self) -> str:
        return self._err.getvalue()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOALWRIGHT_HOME", str(tmp_path / "home"))


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    return FileTraceStore(tmp_path / ".trace")


def test_trace_list_is_newest_first_and_json_has_the_api_fields(
    tmp_path: Path, store: FileTraceStore
) -> None:
    other = Recorded(OTHER)
    other.begin("another task")
    for log in (configuration_change(), other, Recorded("20240117-090000-000000eeee")):
        log.into(store)
    screen = Screen()
    assert asyncio.run(list_traces(screen.at(tmp_path))) == 0
    assert [line.split()[0] for line in screen.out.splitlines()] == [OTHER, TRACE]
    screen = Screen()
    asyncio.run(list_traces(screen.at(tmp_path, json=True), limit=1))
    (meta,) = screen.objects
    assert set(meta) == {
        "trace_id", "title", "summary", "task", "status", "agent", "model", "mode", "workspace", "created_at",
        "updated_at", "total_messages", "total_tokens", "total_cost",
        "unpriced_tokens", "last_event_id", "foreign",
    }  # fmt: skip
    assert (meta["trace_id"], meta["status"], meta["foreign"]) == (OTHER, "failed", True)


def test_empty_folder_has_no_traces_and_creates_none(tmp_path: Path) -> None:
    screen = Screen()
    assert asyncio.run(list_traces(screen.at(tmp_path))) == 0
    assert screen.err.startswith("There are no traces in ")
    assert asyncio.run(show_trace(screen.at(tmp_path))) == 2
    assert not (tmp_path / ".trace").exists()


def test_show_prints_the_tree_with_time_tokens_and_cost(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    screen = Screen()
    paths = RuntimePaths.for_workspace(tmp_path)
    paths.prepare()
    with paths.hold_lock():
        assert asyncio.run(show_trace(screen.at(tmp_path), trace="latest")) == 0
    lines = screen.out.splitlines()
    assert lines[0] == f"修改配置文件  {TRACE}"
    assert lines[1].startswith("running 10 messages, 440 tokens, $0.02")
    assert lines[3:8] == [
        "├─ [✓] goal: 探索代码库  450 ms · 330 tokens · $0.015",
        "│  ├─ [✓] thought: 需要先了解项目结构。  100 ms · 110 tokens · $0.005",
        "│  ├─ [✓] action: glob_files(**/*.py)  50 ms",
        "│  │  └─ [✓] result: 找到 15 个文件",
        "│  ├─ [✓] thought: 发现配置文件  100 ms · 110 tokens · $0.005",
    ]
    assert lines[-1] == "└─ [ ] goal: 运行测试"


@pytest.mark.parametrize(
    ("cost", "shown", "total", "step"),
    [(None, "–", "unknown price", "unknown price"), (0.5, "≥ $0.50", "≥ $0.50", "$0.50")],
)
def test_cost_of_a_model_without_a_price_is_not_zero(
    tmp_path: Path, store: FileTraceStore, cost: float | None, shown: str, total: str, step: str
) -> None:
    log = Recorded(TRACE)
    log.begin()
    log.message("assistant", TextPart(text="One."), tokens=30, cost=cost)
    log.message("assistant", TextPart(text="Two."), tokens=30, cost=None)
    log.into(store)
    screen = Screen()
    asyncio.run(list_traces(screen.at(tmp_path)))
    assert f" messages {shown:>9}  " in screen.out
    asyncio.run(show_trace(screen.at(tmp_path), trace="latest"))
    assert f" messages, 260 tokens, {total}, agent" in screen.out
    assert any(line.endswith(f"One.  130 tokens · {step}") for line in screen.out.splitlines())
    assert "$0.00" not in screen.out


def test_show_has_the_system_prompts_that_were_in_force(tmp_path: Path, store: FileTraceStore) -> None:
    log, recorded = Recorded(TRACE), RecordedPrompt()
    log.begin()
    for day in ("Monday", "Tuesday"):
        layers = [Layer("agent", "You work."), Layer("environment", f"It is \x1b[1m{day}.")]
        event = changed_prompt(layers, recorded, TRACE, log.now())
        assert event is not None
        recorded = with_prompt(recorded, event)
        log.emit(event)
        log.say("Done.")
    log.into(store)
    screen, prompts, objects = Screen(), Screen(), Screen()
    asyncio.run(show_trace(screen.at(tmp_path)))
    assert f"system prompt {recorded.sha256[:11]}…, changed once" in screen.out
    asyncio.run(show_trace(prompts.at(tmp_path), system_prompt=True))
    shown = prompts.out.splitlines()
    assert [line for line in shown if "You work." in line or "It is" in line] == [
        "You work.",
        "It is Monday.",
        "It is Tuesday.",
    ]
    assert sum("(shown above)" in line for line in shown) == 1
    asyncio.run(show_trace(objects.at(tmp_path, json=True), system_prompt=True))
    assert [[layer["text"] for layer in change["layers"]] for change in objects.objects] == [
        ["You work.", "It is \x1b[1mMonday."],
        ["You work.", "It is \x1b[1mTuesday."],
    ]


def test_a_trace_of_an_older_version_has_no_system_prompt(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    screen, prompts = Screen(), Screen()
    asyncio.run(show_trace(screen.at(tmp_path)))
    assert "system prompt" not in screen.out
    assert asyncio.run(show_trace(prompts.at(tmp_path), system_prompt=True)) == 0
    assert "no request was made, or it was written by an older version of Goalwright." in prompts.err


def test_unfinished_trace_without_a_daemon_is_shown_as_failed(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    log.trace = log.trace.model_copy(update={"running": True})
    log.into(store)
    screen = Screen()
    asyncio.run(dump_trace(screen.at(tmp_path)))
    assert "  status: failed\n" in screen.out
    screen = Screen()
    asyncio.run(list_traces(screen.at(tmp_path, json=True)))
    assert screen.objects[0]["status"] == "failed"


def test_trace_show_uses_its_own_colours_and_strips_escapes(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    log.say("\x1b[2J\x1b[31mred\x1b]0;title\x07 alert.", ("c9", "bash", '{"command": "\\u001b[31m"}'))
    log.end()
    log.into(store)
    plain, coloured = Screen(), Screen(color=True)
    asyncio.run(show_trace(plain.at(tmp_path), full=True))
    assert "\x1b" not in plain.out
    assert "red alert." in plain.out
    asyncio.run(show_trace(coloured.at(tmp_path)))
    assert "\x1b[32m[✓] goal\x1b[0m" in coloured.out
    assert "\x1b[31m" not in coloured.out
    assert "\x1b[2J" not in coloured.out


def test_full_shows_the_texts_below_their_steps(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    screen = Screen()
    asyncio.run(show_trace(screen.at(tmp_path), full=True))
    assert "port=1" in screen.out


@pytest.mark.parametrize("wanted", [TRACE, TRACE[:13], "latest", TRACE[:8]])
def test_trace_is_found_by_id_or_prefix(tmp_path: Path, store: FileTraceStore, wanted: str) -> None:
    configuration_change().into(store)
    screen = Screen()
    assert asyncio.run(dump_trace(screen.at(tmp_path), trace=wanted, form="json")) == 0
    assert json.loads(screen.out)["trace"]["trace_id"] == TRACE


@pytest.mark.parametrize(
    ("wanted", "branch", "told"),
    [
        ("2024", None, "matches 2 traces:"),
        ("1999", None, "There is no trace '1999'"),
        ("../x", None, "There is no trace"),
        (TRACE, "A", "has no branch or sub-agent 'A': it has none"),
        (TRACE, "../..", "has no branch or sub-agent"),
    ],
)
def test_unknown_trace_or_branch_error_lists_the_known(
    tmp_path: Path, store: FileTraceStore, wanted: str, branch: str | None, told: str
) -> None:
    for log in (configuration_change(), Recorded(OTHER)):
        log.into(store)
    screen = Screen()
    assert asyncio.run(dump_trace(screen.at(tmp_path), trace=wanted, branch=branch)) == 2
    assert told in screen.err
    assert screen.out == ""


@pytest.mark.parametrize(("form", "begins"), [("txt", "=" * 60), ("md", "# Step Tree Debug"), ("json", "{")])
def test_dump_writes_each_form_to_a_file_or_the_screen(
    tmp_path: Path, store: FileTraceStore, form: Any, begins: str
) -> None:
    configuration_change().into(store)
    screen, file = Screen(), tmp_path / "out" / "dump"
    assert asyncio.run(dump_trace(screen.at(tmp_path), form=form)) == 0
    assert screen.out.startswith(begins)
    assert asyncio.run(dump_trace(screen.at(tmp_path), form=form, output=file)) == 1
    assert "No such file" in screen.err
    file.parent.mkdir()
    assert asyncio.run(dump_trace(screen.at(tmp_path), form=form, output=file)) == 0
    assert file.read_text("utf-8").startswith(begins)


async def test_tail_prints_existing_events_and_ends(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    log.end()
    log.into(store)
    screen = Screen()
    assert await tail_trace(screen.at(tmp_path), follow=False) == 0
    lines = [line.split("  ", 1)[1] for line in screen.out.splitlines()]
    assert lines[0] == "[ ] goal: 探索代码库"
    assert "    [✓] result: 找到 15 个文件" in lines
    assert lines[-1].startswith("completed: ")
    some = Screen()
    assert await tail_trace(some.at(tmp_path), since=len(log.events) - 1, follow=False) == 0
    assert some.out.splitlines() == screen.out.splitlines()[-1:]


async def test_tail_follows_new_events_until_the_reader_leaves(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    log.into(store)
    steps, events = Screen(), Screen()
    tails = [
        asyncio.create_task(tail_trace(steps.at(tmp_path))),
        asyncio.create_task(tail_trace(events.at(tmp_path, json=True), since=3)),
    ]
    await until(lambda: len(events.objects) == len(log.events) - 3, "the events that are there")
    known = len(log.events)
    log.say("Now it is done.")
    log.append_to(store)
    await until(lambda: "Now it is done." in steps.out, "the step that is new")
    assert "探索代码库" not in steps.out
    log.end()
    log.append_to(store)
    await until(lambda: "completed:" in steps.out and len(events.objects) == len(log.events) - 3, "the end")
    assert [event["event_id"] for event in events.objects] == list(range(4, len(log.events) + 1))
    assert events.objects[known - 3]["event"] == "message_added"
    for screen in (steps, events):
        assert screen.console.on_gone is not None
        screen.console.on_gone()
    assert await asyncio.gather(*tails) == [0, 0]
    store.close()


async def test_tail_reports_a_deleted_trace(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    log.into(store)
    screen = Screen()
    tail = asyncio.create_task(tail_trace(screen.at(tmp_path), since=0))
    await until(lambda: "修改配置" in screen.out, "what is there")
    store.delete(TRACE)
    assert await asyncio.wait_for(tail, 30) == 2
    assert screen.err == f"Trace {TRACE} was deleted.\n"


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    (store.root / TRACE / "events.jsonl").unlink()
    (store.root / TRACE / "events.jsonl").symlink_to("/etc/passwd")
    screen = Screen()
    code = asyncio.run(show_trace(screen.at(tmp_path)))
    assert (code, screen.out) == (1, "")
    assert "cannot be read" in screen.err


def _worked(tmp_path: Path, name: str, *, force: bool = False) -> tuple[int, str, str]:
    screen = Screen()
    code = asyncio.run(dump_trace(screen.at(tmp_path), output=tmp_path / name, force=force))
    return code, screen.out, screen.err


def test_dump_replaces_a_file_only_with_force(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "link").symlink_to("mine.txt")
    for name in ("mine.txt", "link"):
        code, out, err = _worked(tmp_path, name)
        assert (code, out) == (1, "")
        assert err == f"{tmp_path / name} already exists. Choose another file, or replace it with --force.\n"
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert _worked(tmp_path, "link", force=True)[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert "Step Tree Debug" in (tmp_path / "mine.txt").read_text()


def test_dump_writes_into_a_pipe_without_replacing_it(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert _worked(tmp_path, "pipe")[0] == 0
    reader.join(60)
    assert "Step Tree Debug" in read[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["nowhere/out.md", "."])
def test_unwritable_target_is_named_as_given(tmp_path: Path, store: FileTraceStore, name: str) -> None:
    configuration_change().into(store)
    code, out, err = _worked(tmp_path, name)
    assert (code, out) == (1, "")
    assert err.startswith(f"{tmp_path / name} cannot be written: ")
    assert not list(tmp_path.glob("*.tmp*"))


def test_dash_dumps_to_stdout_and_creates_no_file(
    tmp_path: Path, store: FileTraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration_change().into(store)
    monkeypatch.chdir(tmp_path)
    screen = Screen()
    assert asyncio.run(dump_trace(screen.at(tmp_path), output=Path("-"))) == 0
    assert "Step Tree Debug" in screen.out
    assert not (tmp_path / "-").exists()


def test_call_of_a_dead_session_is_shown_as_failed(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    log.say("", ("c8", "bash", '{"command": "sleep 30"}'))
    log.into(store)
    screen = Screen()
    asyncio.run(show_trace(screen.at(tmp_path)))
    assert "[✗] action: bash(sleep 30)" in screen.out
    assert "nobody is working on it any more." in screen.out


def test_reason_of_a_failed_turn_is_shown(tmp_path: Path, store: FileTraceStore) -> None:
    log = Recorded()
    log.begin()
    log.emit(TurnEnded(trace_id=TRACE, time=log.now(), prompt_id="p1", stop_reason="error", detail="boom\nX"))
    log.into(store)
    for show in (show_trace, dump_trace):
        screen = Screen()
        assert asyncio.run(show(screen.at(tmp_path))) == 0
        assert "boom X" in screen.out
    screen = Screen()
    asyncio.run(tail_trace(screen.at(tmp_path), follow=False))
    assert screen.out.splitlines()[-1].endswith("error: boom X")


def test_truncated_answer_is_shown_as_failed(tmp_path: Path, store: FileTraceStore) -> None:
    log = Recorded()
    log.begin()
    log.say("cut off by", stop="max_tokens")
    log.emit(TurnEnded(trace_id=TRACE, time=log.now(), prompt_id="p1", stop_reason="max_tokens"))
    log.into(store)
    screen = Screen()
    asyncio.run(show_trace(screen.at(tmp_path)))
    assert "failed 2 messages" in screen.out
    assert "[✗] response: cut off by" in screen.out
    assert "The last response was cut off:" in screen.out


def test_line_breaks_in_a_call_id_are_escaped(tmp_path: Path, store: FileTraceStore) -> None:
    log = Recorded()
    log.begin()
    log.say("", ("x\n[ok] forged", "glob", '{"pattern": "*"}'))
    log.answer("x\n[ok] forged", "glob", "a")
    log.into(store)
    screen = Screen()
    asyncio.run(dump_trace(screen.at(tmp_path)))
    assert not [line for line in screen.out.splitlines() if line.startswith("[ok]")]
    assert "id: call_x [..." in screen.out


def test_all_times_of_a_dump_are_in_utc(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    screen = Screen()
    asyncio.run(dump_trace(screen.at(tmp_path), form="json"))
    dumped = json.loads(screen.out)
    trace = dumped["trace"]
    times = [dumped["generated"], trace["created_at"], trace["updated_at"], dumped["steps"][0]["created_at"]]
    assert [time[-1] for time in times] == ["Z"] * 4


def test_empty_branch_name_is_unknown(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    for wanted, branch in (("latest", ""), (f"{TRACE}:", None)):
        screen = Screen()
        assert asyncio.run(show_trace(screen.at(tmp_path), trace=wanted, branch=branch)) == 2
        assert "has no branch or sub-agent ''" in screen.err


async def test_missing_log_is_reported(tmp_path: Path, store: FileTraceStore) -> None:
    configuration_change().into(store)
    (store.folder(TRACE) / "events.jsonl").unlink()
    screen = Screen()
    assert await show_trace(screen.at(tmp_path)) == 1
    assert await tail_trace(screen.at(tmp_path)) == 1
    assert screen.err.count(f"The log of {TRACE} is missing") == 2


def test_a_missing_trace_is_json_for_programs(tmp_path: Path) -> None:
    screen = Screen()
    assert asyncio.run(show_trace(screen.at(tmp_path, json=True))) == 2
    assert [list(found) for found in screen.objects] == [["error"]]


async def test_tail_reports_a_completed_branch(tmp_path: Path, store: FileTraceStore) -> None:
    log = configuration_change()
    branch = BranchMeta(id="A", explore_start_id="1", description="one way")
    log.emit(BranchStarted(trace_id=TRACE, time=log.now(), explore_start_id="1", branch=branch))
    log.emit(
        BranchCompleted(
            trace_id=TRACE,
            time=log.now(),
            branch_id="A",
            summary="ok",
            cumulative_stats=GoalStats(),
            usage=Usage(input=70),
            cost=0.5,
        )
    )
    log.into(store)
    screen = Screen()
    await tail_trace(screen.at(tmp_path), follow=False)
    assert screen.out.splitlines()[-1].endswith("branch A completed: 0 messages, 70 tokens, $0.50")


@pytest.mark.parametrize("stdout", [">&-", "> /dev/full"])
@pytest.mark.parametrize(
    "command", ["trace show", "trace list", "completion bash", "version", "--version", "--help", "run --help"]
)
def test_unwritable_output_ends_without_a_traceback(
    tmp_path: Path, store: FileTraceStore, command: str, stdout: str
) -> None:
    configuration_change().into(store)
    place = f"--workspace {shlex.quote(str(tmp_path))}" if command.startswith("trace") else ""
    line = f"{shlex.quote(sys.executable)} -m daemon {command} {place} {stdout}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.count("cannot be written") <= 1
    assert done.returncode == (0 if "&" in stdout else 1)
