"""Init and execute hand over to each other until the design holds (source: seed 001)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.loop.children import close_child
from daemon.loop.queue import TurnResult
from daemon.loop.session import ReadOnlySessionError, Session
from daemon.model.branches import SubagentMeta
from daemon.model.events import PermissionAsked, SubagentCompleted, SubagentStarted
from daemon.model.messages import ToolResultPart
from daemon.store.replay import replayed
from daemon.subagents import runner
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, Hold, Step
from tests.support.scenarios import design_task as task
from tests.support.scenarios.iterations import FREE, designing, over


def results(session: Session, name: str = "hand_over") -> list[ToolResultPart]:
    found = [result for m in session.state.messages if m.role == "tool" and (result := m.tool_result())]
    return [result for result in found if result.name == name]


def iterations(session: Session) -> list[SubagentMeta]:
    return list(session.state.children.subagents.values())


def first_words(bench: Bench, request: int) -> str:
    """Return the first prompt of a session."""
    return "".join(
        str(getattr(part, "text", "")) for part in bench.models.requests[request].messages[0].content
    )


def of_agent(bench: Bench, agent: str) -> list[int]:
    return [at for at, r in enumerate(bench.models.requests) if r.env["GOALWRIGHT_AGENT"] == agent]


async def answers(bench: Bench, *wanted: str | None) -> None:
    """Answer the questions that come: None is a yes, words are a no with them."""
    for words in wanted:
        await bench.answer("once" if words is None else "reject", words)


def project(*, refused: bool) -> list[Step]:
    init = task.init_steps(Call, refused=refused)
    at = next(i for i, step in enumerate(init) if getattr(step[0], "name", "") == "hand_over") + 1
    second = len(init) - 1
    steps: Sequence[Step] = (
        *init[:at],
        *task.execute_steps(Call, 1),
        *init[at:second],
        *task.execute_steps(Call, 2),
        *init[second:],
    )
    return list(steps)


async def test_small_project_is_designed_fixed_and_reaches_its_target(tmp_path: Path) -> None:
    async with daemon(tmp_path, *project(refused=True)) as bench:
        session = designing(bench)
        turn = prompted(session, "Recognise postal codes. Never use regular expressions.")
        # Both files of the design, the first change of it (sent back), the second one. Nothing of execute's.
        await answers(bench, None, None, "letters are no codes: ignore spaces instead", None)
        assert (await finish(turn, 60)).stop == "end_turn"
        asked = [event.request for event in bench.events(PermissionAsked)]
        assert [request.targets for request in asked] == [
            ("design/rules.md",),
            ("design/format.md",),
            ("design/rules.md",),
            ("design/rules.md",),
        ]
        assert all(request.branch_id is None and request.suggestions == () for request in asked)
        assert "asks before each change" in asked[0].rule.words
        assert (bench.workspace / "design/rules.md").read_text() == task.RULES_2

        one, two = iterations(session)
        assert [(i.id, i.agent, i.iteration, i.success_rate, i.status) for i in (one, two)] == [
            ("s1", "execute", 1, 0.5, "completed"),
            ("s2", "execute", 2, 1.0, "completed"),
        ]
        assert [one.summary, two.summary] == [task.REPORT_1, task.REPORT_2]
        assert len(bench.events(SubagentStarted)) == len(bench.events(SubagentCompleted)) == 2
        assert session.state.trace.total_cost == pytest.approx(0.01 * len(bench.models.requests))
        assert one.cost == two.cost == pytest.approx(0.05)

        executes = of_agent(bench, "execute")
        given_1, given_2 = first_words(bench, executes[0]), first_words(bench, executes[5])
        assert given_1.startswith("<init_to_execute_context>\n")
        for words in (
            "This is iteration 1 of at most 10.",
            "a success rate of 0.9 or more",
            "<said>\nRecognise postal codes. Never use regular expressions.\n</said>",
            "rules and format are in design/",
            "- design/rules.md",
            task.DESIGNED,
        ):
            assert words in given_1
        assert "What the last iteration reported" not in given_1
        for words in (
            "This is iteration 2",
            "Success rate: 0.5",
            task.REPORT_1,
            task.CHANGED,
            "out/iteration_1/checker.py",
        ):
            assert words in given_2
        assert "Never use regular expressions" in given_2

        back_1, back_2 = (result.content for result in results(session))
        for back in (back_1, back_2):
            assert back.startswith("<execute_to_init_context>\n")
            assert "\n</execute_to_init_context>\n" in back
        for words in ("Iteration: 1 of", "Success rate: 0.5", task.REPORT_1, "out/iteration_1/samples.json"):
            assert words in back_1
        assert "is not reached" in back_1
        assert "Success rate: 1." in back_2
        assert "was reached in iteration 2" in back_2

        trace = bench.workspace / ".trace" / session.session_id
        for name in ("s1", "s2"):
            meta = json.loads((trace / "agents" / name / "meta.json").read_text())
            assert meta["agent"] == "execute"
            assert (trace / "agents" / name / "events.jsonl").exists()
        ran = replayed(bench.core.store, f"{session.session_id}:s2")
        (bash,) = (
            r for m in ran.messages if m.role == "tool" and (r := m.tool_result()) and r.name == "bash"
        )
        assert "4/4" in bash.content


async def test_after_the_target_another_iteration_needs_a_new_prompt(tmp_path: Path) -> None:
    done = over("All good.", success_rate=0.95)
    async with daemon(tmp_path, over(), done, over(), "I see.", over(), done, "Again.") as bench:
        session = designing(bench)
        await session.prompt("design it")
        _, refused = results(session)
        assert refused.is_error
        assert "reached in iteration 1 (0.95)" in refused.content
        await session.prompt("once more")
        assert [i.iteration for i in iterations(session)] == [1, 2]


async def test_without_a_target_the_model_judges_the_result(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (over(), "Half of it works.", over(), over("Done."), "I see.")
    async with daemon(tmp_path, *steps) as bench:
        session = designing(bench, success_target=None)
        await session.prompt("design it")
        one, two = iterations(session)
        assert (one.summary, one.success_rate) == ("Half of it works.", None)
        assert (two.summary, two.success_rate) == ("Done.", None)
        assert "Half of it works." in results(session)[0].content
        assert "Success rate: not reported." in results(session)[0].content
        assert "No success target is set" in results(session)[0].content


async def test_last_iteration_is_announced_and_enforced(tmp_path: Path) -> None:
    poor = over("Poor.", success_rate=0.1)
    async with daemon(tmp_path, over(), poor, over(), poor, over(), "I see.", over(), "So be it.") as bench:
        session = designing(bench, max_iterations=2)
        await session.prompt("design it")
        assert "not reached" in results(session)[0].content
        assert "All 2 iterations" in results(session)[1].content
        assert results(session)[2].is_error
        await session.prompt("go on")
        assert results(session)[3].is_error
        assert len(iterations(session)) == 2


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        (0.85, 0.85),
        ("0.85", 0.85),
        ("85%", 0.85),
        ("17/20", 0.85),
        ("12/15 (80%)", 0.8),
        (1, 1.0),
        ("", None),
    ],
)
async def test_success_rate_is_parsed_in_the_spellings_of_models(
    tmp_path: Path, given: object, rate: float | None
) -> None:
    async with daemon(tmp_path, over(), over("Done.", success_rate=given), "I see.") as bench:
        session = designing(bench)
        await session.prompt("design it")
        assert iterations(session)[0].success_rate == rate


@pytest.mark.parametrize("given", [85, -0.1, 1.01, "85", "much", True, "9/0", [1]])
async def test_ambiguous_success_rate_is_refused(tmp_path: Path, given: object) -> None:
    wrong, right = over("Done.", success_rate=given), over("Done.", success_rate=0.85)
    async with daemon(tmp_path, over(), wrong, right, "I see.") as bench:
        session = designing(bench)
        await session.prompt("design it")
        child = replayed(bench.core.store, f"{session.session_id}:s1")
        (answer, _) = (r for m in child.messages if m.role == "tool" and (r := m.tool_result()))
        assert answer.is_error
        assert "from 0 to 1" in answer.content
        assert iterations(session)[0].success_rate == 0.85


async def test_canceled_iteration_returns_and_blocks_the_next(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, over(), ["Half ", hold, "done"], over(), "I see.") as bench:
        session = designing(bench)
        turn = prompted(session, "design it")
        await hold.reached.wait()
        child = bench.core.live(f"{session.session_id}:s1")
        assert child is not None
        child.cancel()
        assert (await finish(turn)).stop == "end_turn"
        back, refused = results(session)
        assert "The user canceled it" in back.content
        assert refused.is_error
        assert "stopped iteration 1" in refused.content
        assert (iterations(session)[0].status, iterations(session)[0].stop_reason) == ("failed", "canceled")


async def test_prompt_to_an_iteration_that_ends_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[asyncio.Task[TurnResult]] = []

    async def closing(child: Session) -> None:
        late.append(prompted(child, "one more thing"))
        await close_child(child)

    monkeypatch.setattr(runner, "close_child", closing)
    async with daemon(tmp_path, over(), "Done.", "I see.") as bench:
        session = designing(bench, success_target=None)
        assert (await finish(prompted(session, "design it"))).stop == "end_turn"
        with pytest.raises(ReadOnlySessionError, match="has ended"):
            await late[0]


async def test_canceling_the_session_ends_the_iteration(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, over(), [hold, "x"]) as bench:
        session = designing(bench)
        turn = prompted(session, "design it")
        await hold.reached.wait()
        session.cancel()
        assert (await finish(turn)).stop == "canceled"
        assert bench.core.running == []
        assert iterations(session)[0].stop_reason == "canceled"
        assert list(bench.core._at_hand.live) == [session.session_id]  # pyright: ignore[reportPrivateUsage]


async def test_rejection_in_an_iteration_stops_it_but_not_the_session(tmp_path: Path) -> None:
    run = Call("bash", {"command": "touch x"})
    async with daemon(tmp_path, over(), run, "I see.") as bench:
        session = designing(bench, permission={"bash": "ask"}, mode="ask")
        turn = prompted(session, "design it")
        (request,) = await bench.asked()
        assert (request.trace_id, request.branch_id) == (session.session_id, "s1")
        assert list(session.state.pending) == [request.request_id]
        await bench.answer("reject")
        assert (await finish(turn)).stop == "end_turn"
        assert "The user rejected" in results(session)[0].content


async def test_failed_iteration_is_reported_and_can_be_repeated(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (
        over(),
        [Fail("bad_request", "no such model")],
        over(),
        over("Done.", success_rate=1),
        "Ok",
    )
    async with daemon(tmp_path, *steps) as bench:
        session = designing(bench)
        await session.prompt("design it")
        first, second = results(session)
        assert first.is_error
        assert "It stopped with an error" in first.content
        assert "no such model" in first.content
        assert not second.is_error


async def test_hand_over_of_a_standalone_execute_session_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path, over("Done.", success_rate=1), "Done.") as bench:
        session = bench.session(agent="execute", settings=FREE)
        assert (await session.prompt("go")).stop == "end_turn"
        assert "No init agent is waiting for this report:" in results(session)[0].content


async def test_imported_session_is_not_handed_over(tmp_path: Path) -> None:
    async with daemon(tmp_path, over(), "I see.") as bench:
        session = designing(bench)
        session.record.foreign = True
        await session.prompt("design it")
        assert "came with the folder" in results(session)[0].content
        assert iterations(session) == []


async def test_a_rule_may_ask_before_each_hand_over(tmp_path: Path) -> None:
    rules = {"permission": {"*": "allow", "hand_over": "ask"}, "mode": "ask"}
    async with daemon(tmp_path, over()) as bench:
        session = designing(bench, **rules)
        turn = prompted(session, "design it")
        (request,) = await bench.asked()
        assert request.title == "Hand over to the execute agent (iteration 1 of at most 10)?"
        await bench.answer("reject")
        assert (await finish(turn)).stop == "permission_denied"
        assert iterations(session) == []


async def test_iteration_left_by_a_killed_daemon_is_closed_and_redone(tmp_path: Path) -> None:
    folder, copy, hold = tmp_path / "here", tmp_path / "copy", Hold()
    folder.mkdir()
    write = Call("write", {"file_path": "out/tool.py", "content": "x = 1\n"})
    async with daemon(folder, over(), write, [hold, "x"], check=False) as bench:
        session = designing(bench)
        turn = prompted(session, "design it")
        await hold.reached.wait()
        shutil.copytree(folder, copy)
        session.cancel()
        await finish(turn)
    shutil.rmtree(folder)
    copy.rename(folder)
    async with daemon(folder, over("Once more."), over("Done.", success_rate=1), "Good.") as bench:
        again = await bench.opened(session.session_id)
        again.policy.use(default_model="fake/model")
        again.policy.use(config=again.config.overlaid(FREE, "editor", "test"))
        assert not again.running
        assert "Interrupted" in results(again)[0].content
        await again.prompt("go on")
        one, two = iterations(again)
        assert (one.status, one.stop_reason, one.iteration) == ("failed", "error", 1)
        assert (two.status, two.success_rate, two.iteration, two.id) == ("completed", 1.0, 2, "s2")
        given = first_words(bench, of_agent(bench, "execute")[0])
        assert "This is iteration 2" in given
        assert "it is not complete" in given
        assert "- out/tool.py" in given
        await until(lambda: not bench.core.running, "rest")


async def test_compaction_summary_of_an_iteration_is_handed_back(tmp_path: Path) -> None:
    summary = {
        "generated_components": {"tools": ["t.py: adds"], "checkers": [], "samples": "15"},
        "evaluation_progress": {
            "current_iteration": 1,
            "success_rate": "12/15 (80%)",
            "layer_status": "3 done",
        },
        "identified_issues": {"layer2_problems": ["t.py"], "layer3_problems": [], "fix_attempts": []},
        "pending_work": ["evaluate again"],
        "key_paths": {"execution_output_dir": "out/iteration_1"},
    }
    look = Call("read", {"file_path": "long.txt"})
    async with daemon(tmp_path) as bench:
        (bench.workspace / "long.txt").write_text("many words of a long file\n" * 900)
        session = designing(bench, compact_at_tokens=20_000, context_window=60_000, keep_steps=1)
        bench.models.then(
            over(), look, look, look, look, json.dumps(summary), over("Some pass.", success_rate=0.8), "Ok"
        )
        await session.prompt("design it")
        child = replayed(bench.core.store, f"{session.session_id}:s1")
        assert any(m.compaction() is not None for m in child.messages)
        back = results(session)[0].content
        assert "out/iteration_1" in back
        assert "Some pass." in back
        given = of_agent(bench, "execute")[-1]
        sent = "".join(str(m.content) for m in bench.models.requests[given].messages)
        assert "<said>" in sent
        assert "design it" in sent
