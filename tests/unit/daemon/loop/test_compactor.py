"""Full compaction in real sessions: when it happens, what is asked and stored, and what the model is sent after it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from daemon.context.summaries import summary_text
from daemon.context.window import CLEARED
from daemon.loop.compactor import CompactResult
from daemon.loop.session import Session
from daemon.model.events import ContextMarked, ModelRetry, Notice
from daemon.model.messages import Message, TextPart, ToolCallPart, ToolResultPart, Usage
from daemon.provider.model_calls import ModelRequest, PromptMessage, Retry
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, End, Fail, Hold, Step

FREE = End(usage=Usage())
"""Nothing counted: the estimate stays as it is."""
DONE: Step = ["Done.", FREE]
HELLO: Step = ["Hello.", FREE]
SUMMARY: dict[str, Any] = {
    "current_work": "Reading files, half way.",
    "requests_and_rulings": ["never touch vendor/"],
    "decisions": ["read first: safer"],
    "findings": ["E42 comes from tabs"],
    "files_changed": [],
    "failed_attempts": [],
    "pending_actions": ["read the rest"],
    "key_paths": {"files": "f0.txt …"},
}
LINES = 350
"""Lines of each file; about 2 600 tokens when it is read."""


def settings(compact_at: int = 12_800, keep: int = 2, **more: Any) -> Mapping[str, Any]:
    return {"permission": {"*": "allow"}, "compact_at_tokens": compact_at, "keep_steps": keep, **more}


def reads(*numbers: int, text: str = "") -> list[Step]:
    return [
        [*([text] if text else []), Call("read", {"file_path": f"f{number}.txt"}), FREE] for number in numbers
    ]


def answer(summary: Mapping[str, Any] = SUMMARY, **usage: int) -> Step:
    return [json.dumps(summary), End(usage=Usage(**usage))]


def files(bench: Bench, count: int = 30, lines: int = LINES) -> None:
    for number in range(count):
        (bench.workspace / f"f{number}.txt").write_text(f"file {number}: some words\n" * lines)


def compactions(session: Session) -> list[list[Message]]:
    """The messages of each compaction, complete or not."""
    found: list[list[Message]] = []
    for message in session.state.messages:
        mark = message.compaction()
        if mark is not None:
            if mark.kind == "request":
                found.append([])
            found[-1].append(message)
    return found


def asked(bench: Bench) -> list[ModelRequest]:
    """The requests that ask for a summary."""
    return [request for request in bench.models.requests if request.max_tokens <= 4_000]


def sent(request: ModelRequest) -> str:
    """All that a request's messages hold."""
    return "\n".join(
        part.text
        if isinstance(part, TextPart)
        else part.content
        if isinstance(part, ToolResultPart)
        else str(part)
        for message in request.messages
        for part in message.content
    )


def notices(bench: Bench, level: str = "") -> list[str]:
    return [notice.text for notice in bench.events(Notice) if level in ("", notice.level)]


def results(messages: Sequence[PromptMessage]) -> list[str]:
    return [part.content for m in messages for part in m.content if isinstance(part, ToolResultPart)]


def check_valid(request: ModelRequest) -> None:
    """Calls have their results, and the model is to speak next."""
    open_calls: list[str] = []
    for message in request.messages:
        assert message.content
        if message.role == "tool":
            assert [p.tool_call_id for p in message.content if isinstance(p, ToolResultPart)] == open_calls
            open_calls = []
            continue
        assert not open_calls
        open_calls = [part.id for part in message.content if isinstance(part, ToolCallPart)]
    assert not open_calls
    assert request.messages[0].role == "user"
    assert request.messages[-1].role != "assistant"


async def compact(session: Session, instructions: str = "") -> CompactResult:
    """Compact by hand, as the user's request does."""
    await session.request_builder.prepare()
    return await session.compactor.compact("manual", instructions)


# -- at the threshold --


async def test_above_threshold_context_is_summarized_and_turn_goes_on(
    tmp_path: Path,
) -> None:
    steps = [*reads(0, 1, 2, 3), answer(input=7, output=5), *reads(4), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        assert (await session.prompt("Read all files; never touch vendor/")).stop == "end_turn"
        (question,) = asked(bench)
        before, after = bench.models.requests[3], bench.models.requests[5]
        assert (question.max_tokens, question.temperature, question.thinking_tokens) == (4_000, 0.0, 0)
        assert question.tail == ""
        assert (question.system, question.tools) == (before.system, before.tools)
        # All that the provider has in its cache stands at the beginning.
        assert question.messages[: len(before.messages)] == before.messages
        assert "one JSON object" in str(question.messages[-1])
        ((request, summary, carried),) = compactions(session)
        assert [m.role for m in (request, summary, carried)] == ["user", "assistant", "user"]
        assert {m.goal_id for m in (request, summary, carried)} == {None}
        assert summary.text() == summary_text(SUMMARY)
        assert (summary.usage, summary.cost, summary.model) == (Usage(input=7, output=5), 0.01, "fake")
        mark = summary.compaction()
        assert mark is not None
        assert (mark.reason, mark.cut_results) == ("threshold", False)
        assert [m.content for m in after.messages[:3]] == [
            (TextPart(text=request.text()),),
            (TextPart(text=summary.text()),),
            (TextPart(text=carried.text()),),
        ]
        assert "Read all files; never touch vendor/" in carried.text()
        assert [re.findall(r"file \d", text)[0] for text in results(after.messages)] == ["file 2", "file 3"]
        check_valid(question)
        check_valid(after)
        # From here on the requests grow at their end again.
        assert bench.models.requests[6].messages[: len(after.messages)] == after.messages
        assert session.state.trace.usage == Usage(input=7, output=5)
        said = notices(bench)
        assert any("summar" in text for text in said)
        assert any(re.search(r"compacted from [\d,]+ to [\d,]+ tokens", text) for text in said)


async def test_below_the_threshold_nothing_is_asked(tmp_path: Path) -> None:
    async with daemon(tmp_path, *reads(0, 1, 2, 3, 4), DONE) as bench:
        files(bench)
        session = bench.session(settings=settings(100_000))
        await session.prompt("Read all files")
        assert not asked(bench)
        assert not compactions(session)


async def test_user_messages_survive_three_compactions_verbatim(tmp_path: Path) -> None:
    words = [
        "Mission: port the parser.\n  Keep   this spacing. 修改配置 🙂",
        "Rule: `vendor/` is never touched; ask before <b>deleting</b>.",
        "And use tabs.",
    ]
    steps: list[Step] = []
    for turn in range(3):
        base = 4 * turn
        steps += [*reads(base, base + 1, base + 2, base + 3)] if turn == 0 else reads(base, base + 1)
        steps += [answer(SUMMARY | {"current_work": f"summary {turn}"}), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        for text in words:
            assert (await session.prompt(text)).stop == "end_turn"
        assert len(compactions(session)) == 3
        last = bench.models.requests[-1]
        for text in words:
            assert sent(last).count(text) == 1
        # Only the newest compaction is sent; its summary was made from the one before and what came after.
        questions = asked(bench)
        assert "summary 0" in sent(questions[1])
        assert "summary 1" in sent(questions[2])
        assert "summary 1" not in sent(last)
        assert "summary 2" in sent(last)
        assert [sum(m.role == "assistant" for m in r.messages) for r in bench.models.requests[-1:]] == [3]
        for request in bench.models.requests:
            check_valid(request)


async def test_compaction_keeps_the_plan_and_summaries_of_ended_goals(
    tmp_path: Path,
) -> None:
    steps = [
        [Call("goal", {"add": "look, change", "focus": "1"}), FREE],
        *reads(0, 1),
        [Call("goal", {"done": "Users are in models/user.py, with bcrypt.", "focus": "2"}), FREE],
        *reads(2, 3, 4, 5),
        answer(),
        DONE,
    ]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings(14_000))
        await session.prompt("Do it")
        last = bench.models.requests[-1]
        assert len(compactions(session)) == 1
        carried = str(last.messages[2])
        assert "**look**\\nUsers are in models/user.py, with bcrypt." in carried
        assert "change" in last.tail
        assert "Do it" in sent(last)


async def test_on_demand_plan_is_part_of_the_carried_text(tmp_path: Path) -> None:
    steps = [[Call("goal", {"add": "look, change", "focus": "1"}), FREE], *reads(0, 1, 2, 3), answer(), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings(plan_placement="on_demand"))
        await session.prompt("Read all files")
        ((_, _, carried),) = compactions(session)
        assert "- look (in progress)\n- change" in carried.text()
        assert bench.models.requests[-1].tail == ""


@pytest.mark.parametrize("placement", ["last_message", "on_demand"])
async def test_with_step_tool_the_step_history_is_carried_over(tmp_path: Path, placement: str) -> None:
    steps = [
        [Call("step", {"plan": ["look", "change", "test"], "focus": "look"}), FREE],
        *reads(0),
        [Call("step", {"complete": True, "summary": "users in models/user.py", "focus": "change"}), FREE],
        *reads(1, 2, 3, 4),
        answer(),
        DONE,
    ]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings(plan_front="step", plan_placement=placement))
        await session.prompt("Read all files")
        ((_, summary, carried),) = compactions(session)
        assert summary.text() == summary_text(SUMMARY)
        told = carried.text()
        assert re.search(r"\[done\] look\n  → read\(.*\n  Summary: users in models/user.py", told), told
        assert re.search(r"\[in progress\] change\n  → read\(.*f1\.txt", told), told
        assert "[to do] test" in told
        assert "## Open goals" not in told


async def test_history_used_as_summary_is_not_carried_again(tmp_path: Path) -> None:
    steps = [
        [Call("step", {"plan": ["look", "change"], "focus": "look"}), FREE],
        *reads(0, 1, 2, 3, 4),
        ["no", FREE],
        ["still no", FREE],
        DONE,
    ]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings(plan_front="step"))
        await session.prompt("Read all files")
        ((_, summary, carried),) = compactions(session)
        assert "[in progress] look" in summary.text()
        assert "[in progress] look" not in carried.text()


# -- answers that are no summary --


async def test_invalid_summary_is_requested_once_more_with_the_error(
    tmp_path: Path,
) -> None:
    wrong = json.dumps(SUMMARY | {"decisions": "none"})
    steps = [*reads(0, 1, 2, 3), [wrong, End(usage=Usage(input=3))], answer(input=4), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        await session.prompt("Read all files")
        first, second = asked(bench)
        assert second.messages[: len(first.messages)] == first.messages
        assert second.messages[-2] == PromptMessage("assistant", (TextPart(text=wrong),))
        assert '"decisions" must be a list' in str(second.messages[-1])
        check_valid(second)
        ((request, summary, _),) = compactions(session)
        assert summary.text() == summary_text(SUMMARY)
        assert (summary.usage, summary.cost) == (Usage(input=7), 0.02)
        assert "cannot be used" not in request.text()


@pytest.mark.parametrize(
    "answers",
    [
        ["I have done a lot.", "{}"],
        [[Call("read", {"file_path": "f9.txt"}), FREE], [Call("read", {"file_path": "f9.txt"}), FREE]],
        [[json.dumps(SUMMARY)[:200], End("max_tokens", usage=Usage())], "sorry"],
        [Fail("server", "The service failed.")],
        [Fail("bad_request", "refused")],
        [End(silent=True)],
        [Fail("overflow", "too long")] * 3,
    ],
)
async def test_without_a_model_summary_step_history_is_the_fallback(
    tmp_path: Path, answers: list[Step]
) -> None:
    steps = [
        [Call("goal", {"add": "look, change", "focus": "1"}), FREE],
        *reads(0, 1, 2, 3),
        *answers,
        DONE,
    ]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        assert (await session.prompt("Read all files")).stop == "end_turn"
        ((_, summary, carried),) = compactions(session)
        assert summary.text().startswith("[in progress] look\n  → read(f0.txt): ")
        assert "[to do] change" in summary.text()
        assert "Read all files" in carried.text()
        (said,) = notices(bench, "warning")
        assert "The model could not write a summary:" in said
        assert not any(r.name == "read" and "f9" in r.content for r in _all_results(session))
        check_valid(bench.models.requests[-1])


def _all_results(session: Session) -> list[ToolResultPart]:
    return [result for m in session.state.messages if (result := m.tool_result()) is not None]


async def test_earlier_model_summary_survives_a_fallback(tmp_path: Path) -> None:
    steps = [
        *reads(0, 1, 2, 3),
        answer(),
        *reads(4, 5),
        Fail("server"),
        *reads(6, 7),
        Fail("server"),
        DONE,
    ]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        await session.prompt("Read all files")
        first, second, third = (summary.text() for _, summary, _ in compactions(session))
        assert first == summary_text(SUMMARY)
        for later in (second, third):
            assert later.startswith(first)
            assert later.count("compact_summary") == 2
        # The history begins where that summary ended: what it says need not be said again.
        assert "f0.txt)" not in second
        assert "read(f2.txt)" in second
        assert "read(f4.txt)" in third


async def test_failed_authentication_aborts_compaction_without_loss(tmp_path: Path) -> None:
    steps = [*reads(0, 1, 2, 3), Fail("auth", "The key was refused."), Fail("auth", "The key was refused.")]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        assert (await session.prompt("Read all files")).stop == "error"
        assert not compactions(session)
        assert any("was not compacted: The key was refused." in text for text in notices(bench, "warning"))


async def test_retry_during_summary_discards_the_partial_answer(tmp_path: Path) -> None:
    again = ['{"half', Retry(1, 0.0, "overloaded"), json.dumps(SUMMARY), FREE]
    async with daemon(tmp_path, *reads(0, 1, 2, 3), again, DONE) as bench:
        files(bench)
        session = bench.session(settings=settings())
        await session.prompt("Read all files")
        assert compactions(session)[0][1].text() == summary_text(SUMMARY)
        assert len(bench.events(ModelRetry)) == 1


async def test_overflow_of_the_summary_request_is_retried_shortened(tmp_path: Path) -> None:
    steps = [*reads(0, 1, 2, 3), Fail("overflow", "too long"), answer(), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        await session.prompt("Read all files")
        first, second = asked(bench)
        assert len(sent(second)) < len(sent(first)) / 2
        assert "characters left out here" in sent(second)
        check_valid(second)
        assert compactions(session)[0][1].text() == summary_text(SUMMARY)


# -- when it does not help --


async def test_long_results_are_truncated_if_compaction_is_not_enough(tmp_path: Path) -> None:
    steps = [*reads(0, 1, 2, 3), answer(), *reads(4), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings(11_000, keep=3))
        await session.prompt("Read all files")
        ((_, _, carried), *_) = compactions(session)
        mark = carried.compaction()
        assert mark is not None
        assert mark.cut_results
        after = next(r for r in bench.models.requests if "compact_summary" in sent(r))
        assert len(results(after.messages)) == 3
        assert all("chars omitted" in text for text in results(after.messages))
        assert any("were shortened" in text for text in notices(bench))


async def test_oversized_recent_steps_do_not_cause_endless_compaction(
    tmp_path: Path,
) -> None:
    # Arguments cannot be cut, so nothing helps against them.
    big: Step = [Call("write", {"file_path": "w.txt", "content": "some words " * 3_500}), FREE]
    async with daemon(tmp_path, big, *reads(*range(6)), DONE) as bench:
        files(bench, lines=2)
        session = bench.session(settings=settings(12_000, keep=9))
        assert (await session.prompt("Write it all")).stop == "end_turn"
        assert not asked(bench)
        (said,) = notices(bench, "warning")
        assert (
            "To make room, lower keep_steps, raise compact_at_tokens, or start a new session for the "
            "rest of the work."
        ) in said


async def test_first_message_above_the_trigger_stays_whole(
    tmp_path: Path,
) -> None:
    steps: list[Step] = [*reads(0, 1, 2), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench, lines=5)
        session = bench.session(settings=settings(12_000, keep=1))
        text = "BEGIN " + "log line " * 6_000 + " END"
        assert (await session.prompt(text)).stop == "end_turn"
        assert not asked(bench)
        assert all(text in sent(request) for request in bench.models.requests)
        (said,) = notices(bench, "warning")
        assert (
            "To make room, lower keep_steps, raise compact_at_tokens, or start a new session for the "
            "rest of the work."
        ) in said


async def test_after_a_poor_compaction_the_context_must_grow_first(
    tmp_path: Path,
) -> None:
    # The fixed part alone is above the trigger; each step adds a little.
    steps = [*reads(*range(0, 8))]
    async with daemon(tmp_path, *steps, *[answer()] * 3, DONE, check=False) as bench:
        files(bench, lines=15)
        session = bench.session(settings=settings(1_000, keep=1))
        task = prompted(session, "Read all files")
        await finish(task)
        assert len(asked(bench)) <= 3


# -- cancel, crash --


async def test_cancel_during_summary_stores_nothing_and_retries_later(
    tmp_path: Path,
) -> None:
    hold = Hold()
    steps = [*reads(0, 1, 2, 3), [json.dumps(SUMMARY)[:40], hold], answer(), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings())
        task = prompted(session, "Read all files")
        async with asyncio.timeout(30):
            await hold.reached.wait()
        assert bench.models.open == 1
        assert session.cancel()
        assert (await finish(task)).stop == "canceled"
        assert bench.models.open == 0
        assert not compactions(session)
        assert (await session.prompt("go on")).stop == "end_turn"
        assert len(compactions(session)) == 1
        assert "go on" in sent(bench.models.requests[-1])


@pytest.mark.parametrize("stored", [1, 2])
async def test_compaction_interrupted_by_a_crash_is_ignored(tmp_path: Path, stored: int) -> None:
    async with daemon(tmp_path, *reads(0, 1, 2, 3), answer(), DONE) as bench:
        files(bench)
        session = bench.session(settings=settings())
        await session.prompt("Read all files")
        session_id = session.session_id
    log = tmp_path / "workspace" / ".trace" / session_id / "events.jsonl"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    marks = [at for at, line in enumerate(lines) if '"type":"compaction"' in line.replace(" ", "")]
    assert len(marks) == 3
    log.write_text("".join(lines[: marks[stored]]), "utf-8")
    for name in ("meta.json", "goal.json"):
        (log.parent / name).unlink(missing_ok=True)
    for message in (log.parent / "messages").iterdir():
        message.unlink()
    async with daemon(tmp_path, HELLO) as bench:
        session = await bench.opened(session_id)
        session.policy.use(config=session.config.overlaid(settings(100_000), "editor", "test"))
        assert len(compactions(session)[0]) == stored
        await session.prompt("go on")
        request = bench.models.requests[-1]
        assert "one JSON object" not in sent(request)
        assert len(results(request.messages)) == 4
    async with daemon(tmp_path, answer(), HELLO) as bench:
        session = await bench.opened(session_id)
        session.policy.use(config=session.config.overlaid(settings(), "editor", "test"))
        await session.prompt("once more")
        assert [len(found) for found in compactions(session)] == [stored, 3]
        assert sent(bench.models.requests[-1]).count("one JSON object") == 1


async def test_compacted_session_sends_the_same_prefix_after_restart(tmp_path: Path) -> None:
    async with daemon(tmp_path, *reads(0, 1, 2, 3), answer(), *reads(4), DONE) as bench:
        files(bench)
        session = bench.session(settings=settings())
        await session.prompt("Read all files")
        session_id, before = session.session_id, bench.models.requests[-1].messages
    async with daemon(tmp_path, HELLO) as bench:
        session = await bench.opened(session_id)
        session.policy.use(config=session.config.overlaid(settings(100_000), "editor", "test"))
        await session.prompt("go on")
        assert bench.models.requests[-1].messages[: len(before)] == before


# -- old results --


async def test_old_results_are_cleared_instead_when_that_is_enough(tmp_path: Path) -> None:
    first = [*reads(*range(28)), DONE]
    rest = [*reads(28), DONE, *reads(29), DONE]
    async with daemon(tmp_path, *first, *rest) as bench:
        files(bench, lines=LINES)
        session = bench.session(settings=settings(100_000))
        for text in ("one", "two"):
            await session.prompt(text)
        session.policy.use(config=session.config.overlaid({"compact_at_tokens": 76_000}, "editor", "test"))
        assert (await session.prompt("three")).stop == "end_turn"
        assert not asked(bench)
        (marked,) = bench.events(ContextMarked)
        assert marked.pruned
        assert marked.freed_tokens >= 20_000
        cleared = [text for text in results(bench.models.requests[-1].messages) if text == CLEARED]
        assert len(cleared) == len(marked.pruned)
        assert any("old tool results are no longer sent" in text for text in notices(bench))


# -- the provider says that it is too long --


async def test_overflow_triggers_compaction_and_repeats_the_call(tmp_path: Path) -> None:
    steps = [*reads(0, 1, 2, 3), Fail("overflow", "prompt is too long"), answer(), DONE]
    async with daemon(tmp_path, *steps) as bench:
        files(bench)
        session = bench.session(settings=settings(100_000))
        assert (await session.prompt("Read all files")).stop == "end_turn"
        ((_, _, carried),) = compactions(session)
        mark = carried.compaction()
        assert mark is not None
        assert mark.reason == "overflow"
        check_valid(bench.models.requests[-1])


async def test_prompt_too_long_on_its_own_is_truncated_in_the_middle(
    tmp_path: Path,
) -> None:
    steps = [Fail("overflow", "prompt is too long"), answer(), DONE]
    async with daemon(tmp_path, *steps) as bench:
        session = bench.session(settings=settings(100_000))
        assert (await session.prompt("BEGIN " + "log line " * 20_000 + " END")).stop == "end_turn"
        last = sent(bench.models.requests[-1])
        assert "BEGIN log line" in last
        assert "log line  END" in last
        assert len(last) < 40_000


async def test_overflow_with_nothing_to_free_is_an_error_with_advice(
    tmp_path: Path,
) -> None:
    too_long = Fail("overflow", "prompt is too long")
    async with daemon(tmp_path, too_long) as bench:
        session = bench.session(settings=settings(100_000))
        result = await session.prompt("Hello")
        assert result.stop == "error"
        assert "new session" in result.detail
        assert not compactions(session)


async def test_permanent_overflow_ends_after_a_few_requests(tmp_path: Path) -> None:
    too_long = [Fail("overflow", "prompt is too long")] * 20
    async with daemon(tmp_path, *reads(0, 1, 2, 3), *too_long, check=False) as bench:
        files(bench)
        session = bench.session(settings=settings(100_000))
        result = await session.prompt("Read all files")
        assert result.stop == "error"
        assert len(bench.models.requests) <= 4 + 8


# -- by hand --


async def test_manual_compaction_passes_the_user_instructions(tmp_path: Path) -> None:
    async with daemon(tmp_path, *reads(0, 1, 2, 3), DONE, answer(), HELLO) as bench:
        files(bench)
        session = bench.session(settings=settings(100_000))
        await session.prompt("Read all files")
        done = await compact(session, "keep the API names")
        assert done.after < done.before
        assert "compacted from" in done.detail
        assert str(asked(bench)[0].messages[-1]).count("keep the API names") == 1
        assert asked(bench)[0].messages[-2].role == "assistant"
        await session.prompt("go on")
        assert "go on" in sent(bench.models.requests[-1])
        check_valid(bench.models.requests[-1])


async def test_manual_compaction_without_history_asks_no_model(tmp_path: Path) -> None:
    async with daemon(tmp_path, *reads(0), DONE) as bench:
        files(bench)
        session = bench.session(settings=settings(100_000, keep=3))
        assert "nothing to compact" in (await compact(session)).detail
        await session.prompt("Read a file")
        done = await compact(session)
        assert done.before == done.after
        assert "nothing to compact" in done.detail


async def test_pending_notes_for_the_model_survive_a_compaction(tmp_path: Path) -> None:
    async with daemon(tmp_path, *reads(0, 1, 2, 3), DONE, answer()) as bench:
        files(bench)
        session = bench.session(settings=settings(100_000))
        await session.prompt("Read all files")
        session.state.notes = ("the user undid your edit",)
        await compact(session)
        assert session.state.notes == ("the user undid your edit",)
        session.state.notes = ()


async def test_the_agent_decides_which_fields_are_asked_for(tmp_path: Path) -> None:
    async with daemon(tmp_path, *reads(0, 1, 2, 3), DONE, answer(), answer()) as bench:
        files(bench)
        session = bench.session(agent="execute", settings=settings(100_000))
        await session.prompt("Read all files")
        await compact(session)
        first, second = asked(bench)
        assert "evaluation_progress" in str(first.messages[-1])
        assert "fields are missing: generated_components" in str(second.messages[-1])


async def test_compaction_is_announced_before_the_summary_arrives(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, *reads(0, 1, 2, 3), [hold, json.dumps(SUMMARY), FREE], DONE) as bench:
        files(bench)
        session = bench.session(settings=settings())
        task = prompted(session, "Read all files")
        await until(lambda: any("summar" in text for text in notices(bench)), "the notice")
        async with asyncio.timeout(30):
            await hold.reached.wait()
        hold.go.set()
        assert (await finish(task)).stop == "end_turn"
