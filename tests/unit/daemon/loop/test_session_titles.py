"""Titles and summaries by a small model, beside the turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from daemon.loop.session import Session
from daemon.loop.session_titles import plain_line
from daemon.model.events import Notice, SessionUpdated
from daemon.model.traces import Budget, Trace
from daemon.provider.model_calls import ModelRequest, ProviderEvent
from daemon.steps.fold import StepFold
from daemon.store.replay import read_state
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, FakeModels, Hold, Step
from tests.support.scenarios.step_sums import check_sums

SMALL = "fake/small"
MODELS = {"models": {"title": SMALL}}


class TwoModels(FakeModels):
    """The model of the session and the small one, each with steps of its own: they are asked at the same time."""

    def __init__(self, steps: tuple[Step, ...], names: tuple[Step, ...]) -> None:
        super().__init__(*steps)
        self.small = FakeModels(*names)

    async def stream(self, model: str, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        played = self.small.stream(model, request) if model == SMALL else super().stream(model, request)
        try:
            async for event in played:
                yield event
        finally:
            await played.aclose()


def named(folder: Path, *steps: Step, names: tuple[Step, ...], **options: Any) -> Any:
    return daemon(folder, models=TwoModels(steps, names), command_line={**MODELS, **options})


def small(bench: Bench) -> FakeModels:
    assert isinstance(bench.models, TwoModels)
    return bench.models.small


async def titled(session: Session, title: str) -> Trace:
    await until(lambda: session.state.trace.title == title, f"the title {title}")
    return session.state.trace


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ('"Mend the cart"', "Mend the cart"),
        ("**Title: Mend the cart**\n\nbecause", "Mend the cart"),
        ("\n# 标题：修复购物车\n", "修复购物车"),
        ("「修复购物车」", "修复购物车"),
        ("x" * 80, "x" * 59 + "…"),
        ("  \n ", ""),
        ("It's done", "It's done"),
    ],
)
def test_answer_becomes_one_plain_line(answer: str, line: str) -> None:
    assert plain_line(answer, 60) == line


async def test_turn_does_not_wait_for_the_title_but_its_cost_counts(tmp_path: Path) -> None:
    hold = Hold()
    async with named(tmp_path, "Done.", "Again.", names=([hold, '"Mend the cart"'],)) as bench:
        session = bench.session()
        await session.prompt("Please   mend\nthe cart")
        assert session.state.trace.title == "Please mend the cart"
        usage, cost = session.state.trace.usage, session.state.trace.total_cost
        hold.go.set()
        trace = await titled(session, "Mend the cart")
        assert trace.titled_by == "model"
        assert trace.usage.total == 2 * usage.total
        assert trace.total_cost == pytest.approx(2 * cost)
        await session.prompt("And again")
        (request,) = small(bench).requests
        assert request.model == "small"
        assert request.tools == ()
        assert [message.content[0].text for message in request.messages] == [  # type: ignore[union-attr]
            "<said>\nPlease   mend\nthe cart\n</said>"
        ]
        fold = StepFold(session.session_id)
        for event in bench.core.store.events(session.session_id):
            fold.apply(event)
        check_sums(fold)
        assert fold.head.trace.usage.total == session.state.trace.usage.total
        again = read_state(bench.core.store, session.session_id)
        assert (again.trace.title, again.trace.usage) == ("Mend the cart", session.state.trace.usage)


async def test_a_title_of_the_user_stays(tmp_path: Path) -> None:
    hold = Hold()
    async with named(tmp_path, "Done.", "Again.", names=([hold, "Another title"],)) as bench:
        session = bench.session()
        await session.prompt("go")
        bench.core.update_session(session, {"title": "go", "titled_by": "user"})
        before = session.state.trace.usage.total
        hold.go.set()
        await until(lambda: session.state.trace.usage.total > before, "the answer")
        await session.prompt("again")
        assert (session.state.trace.title, session.state.trace.titled_by) == ("go", "user")


async def test_a_failure_is_silent_and_is_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with named(tmp_path, "Done.", "Again.", names=(Fail("auth", "no such key"),)) as bench:
        session = bench.session()
        await session.prompt("Mend the cart")
        await until(lambda: "no such key" in caplog.text, "the line in the log")
        await session.prompt("again")
        assert session.state.trace.title == "Mend the cart"
        assert bench.events(Notice) == []
        assert len(small(bench).requests) == 1


async def test_no_title_is_generated_without_setting_or_budget(tmp_path: Path) -> None:
    async with daemon(tmp_path / "", "Done.") as bench:
        session = bench.session()
        await session.prompt("Mend the cart")
        assert len(bench.models.requests) == 1
        assert all(event.usage is None for event in bench.events(SessionUpdated))
    async with named(tmp_path, names=()) as bench:
        session = bench.session()
        bench.core.update_session(session, {"budget": Budget(session_usd=0.0).model_dump()})
        turn = prompted(session, "Mend the cart")
        await bench.asked()
        await bench.answer("reject")
        await finish(turn)
        assert small(bench).requests == []


async def test_a_daemon_that_stops_does_not_wait_for_the_title(tmp_path: Path) -> None:
    hold = Hold()
    async with named(tmp_path, "Done.", names=([hold, "Never"],)) as bench:
        session = bench.session()
        await session.prompt("Mend the cart")
        await hold.reached.wait()
    assert session.state.trace.title == "Mend the cart"


async def test_handed_over_session_is_named_by_its_first_prompt(tmp_path: Path) -> None:
    async with named(tmp_path, "Done.", names=("Build the shop",)) as bench:
        session = bench.session(agent="execute")
        bench.core.update_session(session, {"title": "execute: old", "titled_by": "prompt", "mission": "m"})
        session.begin_with("What init knows.")
        await session.prompt("Build it")
        await titled(session, "Build the shop")


async def test_finished_plan_is_summarized_once(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (
        [Call("goal", {"add": "mend the cart", "focus": "1"})],
        [Call("goal", {"done": "The sum was wrong."})],
        "No problems found.",
        "You are welcome.",
        [Call("goal", {"add": "mend more", "focus": "2"})],
        "I began.",
    )
    async with named(tmp_path, *steps, names=("A title", "The cart adds up.")) as bench:
        session = bench.session()
        await session.prompt("Mend the cart")
        await until(lambda: session.state.trace.summary == "The cart adds up.", "the summary")
        assert "The sum was wrong." in str(small(bench).requests[1].messages)
        await session.prompt("Thanks")
        assert session.state.trace.summary == "The cart adds up."
        await session.prompt("There is more")
        assert session.state.trace.summary == "I began."
        assert len(small(bench).requests) == 2
