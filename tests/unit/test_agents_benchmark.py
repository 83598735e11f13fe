"""The benchmark of the agents: its statistics, its targets, its work, and the words of each agent."""

from __future__ import annotations

import subprocess
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.model.events import MessageAdded
from daemon.model.messages import Message, ToolResultPart
from daemon.model.traces import Trace
from daemon.store.files import FileTraceStore
from tests.evals.benchmarks.agents import adapters, workload
from tests.evals.benchmarks.agents.installation import without_byte_code
from tests.evals.benchmarks.agents.summary import (
    GOALWRIGHT,
    JUST_STARTED,
    NO_BYTE_CODE,
    NO_DAEMON,
    SECOND,
    USED_HOME,
    Figures,
    Memory,
    Row,
    Run,
    figures,
    report,
    targets,
    to_json,
)
from tests.evals.benchmarks.agents.workload import Call
from tests.evals.benchmarks.sessions import edges
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_wires import frames

# -- statistics --


def run(start_s: float = 1.0, reads: tuple[float, ...] = (), edits: tuple[float, ...] = ()) -> Run:
    return Run(start_s, reads, edits, work_s=2 * start_s, cpu_s=start_s / 2, request_bytes=2048)


def row(agent: str, situation: str = "", *runs: Run, mb: float | None = None, off: bool = False) -> Row:
    memory = [] if mb is None else [Memory(mb, 2)]
    return Row(agent, situation, False if off else None, list(runs), memory)


def test_a_figure_is_the_median_of_the_runs() -> None:
    assert figures(row("a", "", run(3.0), run(1.0), run(9.0))).start_s == 3.0


def test_a_percentile_is_taken_in_each_run_first() -> None:
    slow_once = run(reads=tuple(range(1, 20)), edits=(1000.0,))
    even = run(reads=(5.0,) * 19, edits=(5.0,))
    found = figures(row("a", "", slow_once, even, even))
    assert (found.turn_p50_ms, found.turn_p95_ms) == (5.0, 5.0)
    assert figures(row("a", "", slow_once)).turn_p95_ms == 19.0


def test_edits_count_among_the_turns_and_by_themselves() -> None:
    found = figures(row("a", "", run(reads=(1.0, 2.0), edits=(30.0, 40.0))))
    assert (found.turn_p50_ms, found.turn_p95_ms) == (2.0, 40.0)
    assert (found.edit_p50_ms, found.edit_p95_ms) == (30.0, 40.0)


def test_what_was_not_measured_is_none() -> None:
    assert figures(row("a")) == Figures()
    assert figures(row("a", "", run(1.0))).turn_p50_ms is None
    assert figures(Row("a", memory=[Memory(None, 0)])).memory_mb is None


def test_memory_is_in_mb_and_the_request_in_kb() -> None:
    found = figures(row("a", "", run(), mb=80.0))
    assert (found.memory_mb, found.request_kb) == (80.0, 2.0)


# -- targets --


def measured(start_s: float, turn_ms: float = 10.0, mb: float = 90.0) -> list[Row]:
    turns = run(start_s, reads=(turn_ms,), edits=(turn_ms,))
    return [
        row(GOALWRIGHT, NO_BYTE_CODE, run(9.0), off=True),
        row(GOALWRIGHT, NO_DAEMON, turns, mb=mb, off=True),
        row(GOALWRIGHT, JUST_STARTED, run(0.05), off=True),
        row(GOALWRIGHT, SECOND, run(0.2), off=True),
    ]


def met(rows: list[Row]) -> dict[str, bool | None]:
    return {target.name: target.met for target in targets(rows)}


def test_targets_that_need_another_agent_are_open_without_it() -> None:
    found = met(measured(0.4))
    assert found["start with no daemon ≤ 1.0 × codex"] is None
    assert found["overhead a turn, p50 ≤ 0.5 × pi"] is None
    assert found["peak memory"] is True
    assert found["start of the first session of a daemon"] is True
    assert found["start of the second session"] is False


@pytest.mark.parametrize(("start_s", "expected"), [(0.5, True), (0.51, False)])
def test_the_start_is_compared_with_the_better_one_of_codex(start_s: float, expected: bool) -> None:
    codex = [row("codex", "", run(0.9), mb=200.0), row("codex", USED_HOME, run(0.5))]
    assert met([*measured(start_s), *codex])["start with no daemon ≤ 1.0 × codex"] is expected


@pytest.mark.parametrize(("turn_ms", "p50", "p95"), [(4, True, True), (5, False, True), (17, False, False)])
def test_turns_are_compared_with_those_of_pi(turn_ms: float, p50: bool, p95: bool) -> None:
    pi = row("pi", "", run(reads=(8.0,), edits=(8.0,)))
    found = met([*measured(0.4, turn_ms), pi])
    assert found["overhead a turn, p50 ≤ 0.5 × pi"] is p50
    assert found["overhead a turn, p95 ≤ 2 × pi"] is p95


def test_diagnostics_do_not_count_for_the_targets() -> None:
    shipped = Row(GOALWRIGHT, NO_DAEMON, True, [run(0.1)], [Memory(1.0, 1)])
    assert met([shipped])["peak memory"] is None


# -- the report --


def test_the_report_has_every_row_and_every_target() -> None:
    rows = [*measured(0.4), Row("pi", problem="pi ended with exit code 1")]
    shown = report(rows, targets(rows), [0.1, 0.2])
    assert all(one.name in shown for one in (*rows, *targets(rows)))
    assert "0.10 / 0.20 ms" in shown
    assert "pi: pi ended with exit code 1" in shown


def test_edits_without_a_verdict_are_shown_of_all_runs() -> None:
    runs = [replace(run(edits=(5.0, 6.0)), unjudged=missed) for missed in (0, 1)]
    rows = [Row(GOALWRIGHT, NO_DAEMON, True, runs), row("pi", "", run(edits=(5.0,)))]
    assert "1 of 4 edits" in report(rows, [], [])
    assert "of 1 edits" not in report(rows, [], [])


def test_the_edges_of_a_session_have_as_many_reads_as_edits() -> None:
    grown = run(reads=(1.0, 2.0, 100.0, 30.0, 40.0), edits=(9.0, 9.0, 100.0, 50.0, 60.0))
    assert edges(grown, 4) == (5.25, 45.0)


def test_the_json_has_each_run_and_the_medians() -> None:
    found = to_json(row("pi", "", run(1.0, (4.0,), (6.0,)), run(2.0)))
    assert [one["start_s"] for one in found["runs"]] == [1.0, 2.0]
    assert found["medians"]["start_s"] == 1.5
    assert found["runs"][0]["edits_ms"] == (6.0,)


# -- the work --


def test_reads_and_edits_of_the_same_file_take_turns() -> None:
    work = workload.calls(40)
    assert [call.kind for call in work] == ["read", "edit"] * 20
    assert all(read.path == edit.path for read, edit in zip(work[::2], work[1::2], strict=True))


def test_a_second_run_has_files_of_its_own() -> None:
    for count in (2, 3, 40, 199):
        first = {call.path for call in workload.calls(count)}
        assert not first & {call.path for call in workload.calls(count, count // 2 + 1)}


def test_the_repository_is_large_enough_for_all_calls(tmp_path: Path) -> None:
    count = workload.FILES + 51
    workload.plant(tmp_path, workload.files_for(count))
    both = [*workload.calls(count), *workload.calls(count, count // 2 + 1)]
    assert all(call.old in (tmp_path / call.path).read_text() for call in both)


def test_edits_fit_the_repository_and_are_missed_until_made(tmp_path: Path) -> None:
    workload.plant(tmp_path)
    work = workload.calls(4)
    assert len(list(tmp_path.rglob("*.py"))) == workload.FILES
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=tmp_path) == b""
    edits = [call for call in work if call.kind == "edit"]
    assert workload.unfinished(tmp_path, work) == [edit.path for edit in edits]
    for edit in edits:
        file = tmp_path / edit.path
        assert file.read_text().count(edit.old) == 1
        file.write_text(file.read_text().replace(edit.old, edit.new))
    assert workload.unfinished(tmp_path, work) == []


# -- the agents --

ROOT = Path("/shop")
READ, EDIT = Call("read", "a.py", "X = 1"), Call("edit", "a.py", "X = 1", "X = 2")
ALL = '[peers]\npi = ["pi"]\ncodex = ["npx", "codex"]\nopencode = ["opencode"]\nclaude-code = ["claude"]\n'


def named(tmp_path: Path, text: str) -> list[adapters.Agent]:
    file = tmp_path / "peers.toml"
    file.write_text(text)
    return adapters.peers(file)


def test_the_shipped_file_names_pi_and_codex() -> None:
    assert [agent.name for agent in adapters.peers()] == ["pi", "codex"]


def test_every_known_agent_can_be_named(tmp_path: Path) -> None:
    found = {agent.name: agent.command for agent in named(tmp_path, ALL)}
    assert list(found) == ["pi", "codex", "opencode", "claude-code"]
    assert found["codex"] == ("npx", "codex")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[peers", "cannot read"),
        ('[peers]\naider = ["aider"]', "no agent 'aider' is known"),
        ('[peers]\npi = "pi"', "must be a list of texts"),
        ("[peers]\npi = []", "must be a list of texts"),
        ("[peers]\npi = [1]", "must be a list of texts"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        named(tmp_path, text)


def test_each_agent_is_asked_in_its_own_words(tmp_path: Path) -> None:
    pi, codex, opencode, claude = named(tmp_path, ALL)
    assert words(adapters.floor(), EDIT) == ("edit", {"path": "a.py", "old": "X = 1", "new": "X = 2"})
    edits = [{"oldText": "X = 1", "newText": "X = 2"}]
    assert words(pi, READ) == ("read", {"path": "a.py"})
    assert words(pi, EDIT) == ("edit", {"path": "a.py", "edits": edits})
    assert words(codex, READ) == ("exec_command", {"cmd": "cat a.py"})
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-X = 1\n+X = 2\n*** End Patch\n"
    assert words(codex, EDIT) == ("apply_patch", patch)
    changed = {"filePath": "/shop/a.py", "oldString": "X = 1", "newString": "X = 2"}
    assert words(opencode, EDIT) == ("edit", changed)
    changed = {"file_path": "/shop/a.py", "old_string": "X = 1", "new_string": "X = 2"}
    assert words(claude, READ) == ("Read", {"file_path": "/shop/a.py"})
    assert words(claude, EDIT) == ("Edit", changed)


def words(agent: adapters.Agent, call: Call) -> tuple[str, Any]:
    told = agent.tool(call, ROOT)
    return told.name, told.input


def test_each_agent_is_told_where_the_model_is(tmp_path: Path) -> None:
    url = "http://127.0.0.1:4711"
    for agent in (adapters.goalwright(Path("goalwright"), diagnostics=False), *named(tmp_path, ALL)):
        home = tmp_path / agent.name
        agent.prepare(home, url)
        written = [file.read_text() for file in home.rglob("*") if file.is_file()]
        assert url in str((agent.env(url), written)), agent.name


def test_diagnostics_are_only_off_when_asked(tmp_path: Path) -> None:
    adapters.goalwright(Path("goalwright"), diagnostics=True).prepare(tmp_path, "")
    assert not list(tmp_path.iterdir())
    adapters.goalwright(Path("goalwright"), diagnostics=False).prepare(tmp_path, "")
    assert (tmp_path / ".goalwright" / "config.json").read_text() == '{"diagnostics": false}'


def test_no_limit_of_the_settings_ends_a_long_run() -> None:
    arguments = " ".join(adapters.goalwright(Path("goalwright"), diagnostics=True).arguments())
    assert "--max-steps 0 --max-usd 0" in arguments


def test_edits_without_a_fresh_verdict_are_counted(tmp_path: Path) -> None:
    shipped = adapters.goalwright(Path("goalwright"), diagnostics=True)
    store_results(tmp_path / ".trace", "20260101-000000-aaaaaa", [adapters.NO_VERDICT])
    store_results(tmp_path / ".trace", "20260102-000000-aaaaaa", ["clean", adapters.NO_VERDICT, "problems"])
    assert shipped.unjudged(tmp_path) == 1
    assert adapters.goalwright(Path("goalwright"), diagnostics=False).unjudged(tmp_path) is None


def store_results(root: Path, trace_id: str, verdicts: list[str]) -> None:
    """Store a session with an edit for each verdict."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with closing(FileTraceStore(root)) as store:
        store.create(Trace(trace_id=trace_id, workspace="/w", created_at=now, updated_at=now))
        for number, verdict in enumerate(verdicts, 1):
            part = ToolResultPart(
                tool_call_id=f"c{number}", name="edit", content="", metadata={"verdict": verdict}
            )
            message = Message(
                message_id=f"msg_{number:06d}_aaaaaa",
                trace_id=trace_id,
                role="tool",
                sequence=number,
                goal_id=None,
                tool_call_id=part.tool_call_id,
                content=(part,),
                description="edit",
                created_at=now,
            )
            store.append(MessageAdded(trace_id=trace_id, time=now, message=message))


def test_a_patch_for_codex_is_a_custom_call_on_the_wire(tmp_path: Path) -> None:
    _, codex, *_ = named(tmp_path, ALL)
    usage = {"input_tokens": 1, "output_tokens": 1}
    usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    reply = Reply(tool_calls=(codex.tool(EDIT, ROOT), codex.tool(READ, ROOT)))
    sent = b"".join(frames("responses", reply, usage, 1, {})).decode()
    assert '"type": "custom_tool_call"' in sent
    assert "event: response.custom_tool_call_input.done" in sent
    assert "event: response.function_call_arguments.done" in sent


# -- the installation --


def test_a_copy_without_byte_code_runs_and_compiles_into_itself(tmp_path: Path) -> None:
    program = without_byte_code(tmp_path)
    assert not list(tmp_path.rglob("*.pyc"))
    said = subprocess.run([program, "--version"], env={}, capture_output=True, text=True, check=True)
    assert said.stdout
    assert list((tmp_path / "source").rglob("*.pyc"))
