"""Full compactions that free little or nothing: they do not go on and on, and nobody's words are lost for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.core import Daemon
from daemon.loop.session import Session
from daemon.model.events import Notice
from daemon.model.messages import CompactionPart, Message, Usage
from daemon.provider.model_calls import ModelRequest, ProviderEvent
from tests.support.drivers.core import check_record
from tests.support.fakes.models import Call, End, Fail, FakeModels, Hold, Step
from tests.support.fakes.tool_context import FakeDiagnostics

FREE = End(usage=Usage())
SUMMARY: dict[str, Any] = {
    "current_work": "Reading files.",
    "requests_and_rulings": ["never touch vendor/"],
    "decisions": [],
    "findings": ["E42 comes from tabs"],
    "files_changed": [],
    "failed_attempts": [],
    "pending_actions": ["read the rest"],
    "key_paths": {},
}
Answers = Callable[[int], Step]
"""Answers to the n-th request for a summary, from 0."""


def good(number: int, length: int = 0, end: End = FREE) -> Step:
    return [json.dumps(SUMMARY | {"current_work": f"summary {number} " + "detail " * (length // 7)}), end]


class Worker(FakeModels):
    """Reads a file a step, ``steps`` of them a turn, and answers requests for a summary."""

    def __init__(self, steps: int, answers: Answers = good) -> None:
        super().__init__()
        self.steps = steps
        self.answers = answers
        self.questions = 0
        self.fails: list[Step] = []
        """Steps that are played next instead of work."""
        self._done = 0

    async def stream(self, model: str, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self.then(self._next(request))
        async for event in super().stream(model, request):
            yield event

    def _next(self, request: ModelRequest) -> Step:
        if request.max_tokens <= 4_000:
            self.questions += 1
            return self.answers(self.questions - 1)
        if self.fails:
            return self.fails.pop(0)
        self._done += 1
        if self._done % (self.steps + 1) == 0:
            return ["Done.", FREE]
        return [f"Step {self._done}.", Call("read", {"file_path": f"f{self._done % 40}.txt"}), FREE]


@asynccontextmanager
async def running(folder: Path, models: Worker, lines: int) -> AsyncGenerator[Daemon]:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    for number in range(40):
        (workspace / f"f{number}.txt").write_text(f"file {number}: some words\n" * lines)
    core = Daemon(workspace, diagnostics=FakeDiagnostics(), models=models, state_folder=folder / "home")
    try:
        yield core
    finally:
        await core.close()
    for trace_id in core.store.trace_ids():
        check_record(core.store, trace_id)


def settled(core: Daemon, session: Session, compact_at: int, **more: Any) -> list[str]:
    """Set the settings of a session; the list receives the notices to the user."""
    values = {"permission": {"*": "allow"}, "compact_at_tokens": compact_at, "keep_steps": 2, **more}
    session.policy.use(config=session.config.overlaid(values, "editor", "test"))
    told: list[str] = []
    core.bus.subscribe(
        session.session_id, lambda item: told.append(item.text) if isinstance(item, Notice) else None
    )
    return told


def marks(session: Session, kind: str = "carried") -> list[CompactionPart]:
    found = [message.compaction() for message in session.state.messages]
    return [mark for mark in found if mark is not None and mark.kind == kind]


def stored(session: Session, kind: str) -> list[Message]:
    return [m for m in session.state.messages if (mark := m.compaction()) is not None and mark.kind == kind]


def window(session: Session) -> str:
    return "\n".join(str(part) for m in session.request_builder.window().messages for part in m.content)


def tokens(session: Session) -> int:
    return session.request_builder.tokens()


# -- a low trigger --


@pytest.mark.parametrize(("summary", "trigger"), [("long", 8_000), ("none", 5_500)])
async def test_trigger_below_the_minimum_does_not_cause_a_loop(
    tmp_path: Path, summary: str, trigger: int
) -> None:
    def answers(number: int) -> Step:
        return good(number, 6_000) if summary == "long" else "Sorry, I cannot."

    models = Worker(25, answers)
    async with running(tmp_path, models, lines=120) as core:
        session = core.new_session(model="fake/model")
        told = settled(core, session, trigger)
        for number in range(6):
            assert (await session.prompt(f"PERSON {number} " + "please " * 100)).stop == "end_turn"
        assert 2 <= len(marks(session)) <= 20
        assert all(mark.after < mark.before for mark in marks(session))
        assert (
            sum(
                "To make room, lower keep_steps, raise compact_at_tokens, or start a new session for the "
                "rest of the work." in text
                for text in told
            )
            == 1
        )
        for number in range(6):
            assert f"PERSON {number} " in window(session)


async def test_backoff_and_warning_state_survive_a_restart(tmp_path: Path) -> None:
    models = Worker(20, lambda n: good(n, 8_000))
    async with running(tmp_path, models, lines=60) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 6_000)
        while len(marks(session)) < 3:
            await session.prompt("go on")
        session_id = session.session_id
    again = Worker(2, lambda n: good(n, 8_000))
    async with running(tmp_path, again, lines=60) as core:
        session = await core.session(session_id)
        told = settled(core, session, 6_000)
        while len(marks(session)) == 3:
            await session.prompt("go on")
        before, last = marks(session)[-2:]
        assert last.before - before.after > 2_000
        assert not any(
            "To make room, lower keep_steps, raise compact_at_tokens, or start a new session for the "
            "rest of the work." in text
            for text in told
        )


async def test_higher_trigger_resets_the_backoff(tmp_path: Path) -> None:
    models = Worker(20, lambda n: good(n, 8_000))
    async with running(tmp_path, models, lines=60) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 6_000)
        while len(marks(session)) < 4:
            await session.prompt("go on")
        settled(core, session, 40_000)
        while len(marks(session)) < 5:
            await session.prompt("go on")
        assert marks(session)[-1].before < 43_000
        assert marks(session)[-1].after < 20_000


async def test_carried_text_and_step_history_fit_a_low_trigger(tmp_path: Path) -> None:
    goals = [f"goal {number}" for number in range(12)]

    models = Worker(12, lambda n: "Sorry, I cannot.")
    async with running(tmp_path, models, lines=60) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 12_000)
        adds: list[Step] = [[Call("goal", {"add": goals, "focus": "1"}), FREE]]
        for number in range(2, 13):
            fields = {"done": f"result {number} " + "fact about src/x.py " * 60, "focus": str(number)}
            adds.append([Call("goal", fields), FREE])
        models.fails = adds
        await session.prompt("Do it all")
        while not marks(session):
            await session.prompt("go on")
        assert all(mark.after <= 12_000 for mark in marks(session))
        assert "Do it all" in window(session)


async def test_reported_size_equals_the_next_request(tmp_path: Path) -> None:
    models = Worker(6)
    async with running(tmp_path, models, lines=300) as core:
        core.configuration.trusted.add(core.workspace)
        (core.workspace / "AGENTS.md").write_text("RULE")
        (core.workspace / "sub").mkdir()
        (core.workspace / "sub" / "AGENTS.md").write_text("RULE OF SUB " + "tabs " * 200)
        (core.workspace / "sub" / "a.py").write_text("x = 1\n")
        session = core.new_session(model="fake/model")
        settled(core, session, 100_000)
        models.fails = [[Call("read", {"file_path": "sub/a.py"}), FREE]]
        await session.prompt("Read")
        for _ in range(2):
            done = await session.compact()
            assert done.after == tokens(session) == marks(session)[-1].after
            assert window(session).count("RULE OF SUB tabs") == 1
            await session.prompt("more")


# -- no gain --


async def test_a_summary_that_makes_the_context_larger_is_not_stored(tmp_path: Path) -> None:
    # Longer than all that it sums up.
    models = Worker(20, lambda n: good(n, 13_000))
    async with running(tmp_path, models, lines=60) as core:
        session = core.new_session(model="fake/model")
        told = settled(core, session, 7_000)
        await session.prompt("Read all")
        # As soon as there is enough to sum up, it is.
        assert all(mark.after < mark.before for mark in marks(session))
        assert len(marks(session)) < models.questions <= 5
        assert (
            sum(
                "To make room, lower keep_steps, raise compact_at_tokens, or start a new session for the "
                "rest of the work." in text
                for text in told
            )
            == 1
        )
        assert any("would have" in text for text in told)
        assert "summary 0" not in stored(session, "summary")[0].text()


async def test_longer_summary_after_overflow_is_dropped_and_turn_ends(
    tmp_path: Path,
) -> None:
    models = Worker(8, lambda n: good(n, 13_000))
    async with running(tmp_path, models, lines=60) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 100_000)
        await session.prompt("Read all")
        models.fails = [Fail("overflow", "prompt is too long")] * 2
        result = await session.prompt("more")
        assert result.stop == "error"
        assert "new session" in result.detail
        assert not marks(session)
        assert len(models.fails) == 1
        assert (await session.prompt("again")).stop == "error"


@pytest.mark.parametrize("how", ["dropped", "refused", "canceled"])
async def test_answers_without_a_result_are_paid_for(tmp_path: Path, how: str) -> None:
    paid = End(usage=Usage(input=1_000))
    hold = Hold()
    after: dict[str, Step] = {"refused": Fail("auth", "The key was refused."), "canceled": [hold, "x"]}

    def answers(number: int) -> Step:
        if number:
            return after[how]
        return good(0, 13_000, paid) if how == "dropped" else ["Sorry, I cannot.", paid]

    models = Worker(8, answers)
    async with running(tmp_path, models, lines=60) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 100_000)
        await session.prompt("Read all")
        models.fails = [Fail("overflow", "prompt is too long")] * 2
        turn = asyncio.create_task(session.prompt("more"))
        if how == "canceled":
            await hold.reached.wait()
            assert session.cancel()
        assert (await turn).stop in ("error", "canceled")
        assert not marks(session)
        assert session.state.trace.usage == Usage(input=1_000)


async def test_step_history_is_shortened_until_compaction_frees_tokens(tmp_path: Path) -> None:
    # The earlier summary is nearly all there is: with it repeated nothing would be gained.
    answers: list[Step] = [good(0, 14_000), "Sorry.", "Sorry."]
    models = Worker(4, lambda n: answers[n] if n < 3 else "Sorry.")
    async with running(tmp_path, models, lines=200) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 11_000)
        for _ in range(3):
            await session.prompt("Read")
        assert len(marks(session)) >= 2
        assert all(mark.after < mark.before for mark in marks(session))


async def test_overflow_at_a_small_context_keeps_the_last_steps(tmp_path: Path) -> None:
    models = Worker(2)
    async with running(tmp_path, models, lines=65) as core:
        session = core.new_session(model="fake/model")
        settled(core, session, 100_000)
        await session.prompt("Read")
        before = session.request_builder.window().messages[:-1]  # without "Go on."
        models.fails = [Fail("overflow", "prompt is too long")]
        assert (await session.prompt("more")).stop == "error"
        assert not models.questions
        assert session.request_builder.window().messages[: len(before)] == before


# -- the person's words --


async def test_user_messages_survive_an_overflow_at_a_small_context(tmp_path: Path) -> None:
    words = [f"WORD{number} " + "please " * 150 for number in range(8)]
    models = Worker(4)
    async with running(tmp_path, models, lines=100) as core:
        session = core.new_session(model="fake/model")
        told = settled(core, session, 100_000)
        for text in words:
            await session.prompt(text)
        models.fails = [Fail("overflow", "prompt is too long")]
        assert (await session.prompt("more")).stop == "end_turn"
        assert [mark.reason for mark in marks(session)] == ["overflow"]
        for text in words:
            assert text in window(session)
        assert not any("of your" in text for text in told)


async def test_long_user_messages_stay_whole_below_a_low_trigger(tmp_path: Path) -> None:
    words = [
        f"BEGIN{n} " + f"w{n} " * 8_000 + f" MIDDLE{n} " + f"v{n} " * 8_000 + f" END{n}" for n in range(2)
    ]
    models = Worker(8)
    async with running(tmp_path, models, lines=300) as core:
        session = core.new_session(model="fake/model")
        told = settled(core, session, 16_000)
        for text in words:
            await session.prompt(text)
        for number in range(2):
            await session.prompt(f"more {number}")
        assert len(marks(session)) >= 1
        for text in words:
            assert text in window(session)
        assert not any("of yours" in text for text in told)


async def test_user_messages_beyond_the_window_are_cut_with_a_notice(tmp_path: Path) -> None:
    models = Worker(3)
    async with running(tmp_path, models, lines=100) as core:
        session = core.new_session(model="fake/model")
        told = settled(core, session, 30_000, context_window=40_000, max_tokens=6_000)
        await session.prompt("MISSION stays whole")
        for number in range(3):
            await session.prompt(f"BEGIN{number} " + "log line " * 4_000 + f" END{number}")
        await session.compact()
        text = stored(session, "carried")[-1].text()
        assert "MISSION stays whole" in text
        for number in range(3):
            assert f"BEGIN{number} " in window(session)
            assert f" END{number}" in window(session)
        assert any("long messages of yours were shortened" in said for said in told)
        assert tokens(session) < 30_000  # there is room for work
