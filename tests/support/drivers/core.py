"""The real daemon core over a folder, with models that play a script; and what must hold of every record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from daemon.api.lazy_server import LazyApiServer
from daemon.core import Daemon
from daemon.explore.copy_manager import OpenCopies, copies_for
from daemon.loop.interrupted_turn import waits_for_answer
from daemon.loop.queue import TurnResult
from daemon.loop.session import Session
from daemon.model.events import Delta, Event
from daemon.model.messages import Message, ToolResultPart
from daemon.model.meters import Meter, Metered
from daemon.model.permissions import PermissionRequest, Reply
from daemon.state.session_state import SessionState
from daemon.store.replay import replayed
from daemon.store.trace_store import TraceStore
from daemon.trust import TrustedFolders
from tests.support.drivers.waiting import until
from tests.support.fakes.models import FakeModels, Step
from tests.support.fakes.tool_context import FakeDiagnostics, FakeFiles
from tools.language_ports import Navigation
from tools.ports import Editors

EventT = TypeVar("EventT", bound=Event)
ALLOW_ALL = {"permission": {"*": "allow"}}


class Bench:
    """A daemon under test. ``heard`` holds the events that clients of its sessions receive."""

    def __init__(
        self, core: Daemon, models: FakeModels, unsaved: dict[Path, str], diagnostics: FakeDiagnostics
    ) -> None:
        self.core = core
        self.diagnostics = diagnostics
        self.api = LazyApiServer(core)
        self.models = models
        self.unsaved = unsaved
        self.heard: list[Event | Delta | Metered] = []

    @property
    def workspace(self) -> Path:
        return self.core.workspace

    def session(self, *, agent: str = "build", settings: Mapping[str, Any] | None = None) -> Session:
        """A new session that is listened to. ``settings`` as an editor sends them."""
        session = self.core.new_session(model="fake/model", agent=agent)
        if settings is not None:
            session.policy.use(config=session.config.overlaid(settings, "editor", "test"))
        self.core.bus.subscribe(session.session_id, self.heard.append)
        return session

    async def opened(self, session_id: str) -> Session:
        """A stored session, listened to."""
        self.core.bus.subscribe(session_id, self.heard.append)
        return await self.core.session(session_id)

    def events(self, kind: type[EventT]) -> list[EventT]:
        """All events of a kind that were published, in order."""
        return [item for item in self.heard if isinstance(item, kind)]

    @property
    def meter(self) -> Meter:
        """The numbers that were published last."""
        return next(item.meter for item in reversed(self.heard) if isinstance(item, Metered))

    def text(self, kind: str = "text") -> str:
        """All deltas of a kind, joined."""
        return "".join(item.text for item in self.heard if isinstance(item, Delta) and item.kind == kind)

    async def asked(self, count: int = 1) -> list[PermissionRequest]:
        """The pending requests, as soon as there are ``count``."""
        await until(lambda: len(self.core.permissions.pending()) >= count, f"{count} pending requests")
        return self.core.permissions.pending()

    async def answer(self, reply: Reply = "once", feedback: str | None = None, by: str = "test") -> None:
        """Wait for a request and answer the oldest."""
        request = (await self.asked())[0]
        assert self.core.permissions.reply(request.request_id, reply, feedback, by) == (True, by)


@asynccontextmanager
async def daemon(
    folder: Path,
    *steps: Step,
    command_line: Mapping[str, Any] | None = None,
    editors: Editors | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    navigation: Navigation | None = None,
    check: bool = True,
    trusted: bool = True,
    models: FakeModels | None = None,
    copies: OpenCopies = copies_for,
) -> AsyncGenerator[Bench]:
    """A daemon over ``folder/workspace``, which the user trusts unless said otherwise.

    At the end every record of it is checked, see ``check_record``.
    """
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    if trusted:
        TrustedFolders(folder / "home").add(workspace.resolve())
    else:
        TrustedFolders(folder / "home").remove(workspace.resolve())
    models = models or FakeModels(*steps)
    unsaved: dict[Path, str] = {}
    diagnostics = FakeDiagnostics()
    core = Daemon(
        workspace,
        diagnostics=diagnostics,
        models=models,
        state_folder=folder / "home",
        command_line=command_line,
        now=now,
        navigation=navigation,
        editors=editors or FakeFiles(unsaved),
        copies=copies,
    )
    bench = Bench(core, models, unsaved, diagnostics)
    try:
        yield bench
    finally:
        await core.close()
    assert not models.exhausted, "a turn called the model once more than the test says"
    assert models.open == 0, "a stream was left open"
    if check:
        for trace_id in core.store.trace_ids():
            live = core.live(trace_id)
            check_record(core.store, trace_id, live.state if live is not None else None)


def check_record(store: TraceStore, trace_id: str, live: SessionState | None = None) -> None:
    """Check what holds for every session at rest, whatever happened in it."""
    events = store.events(trace_id)
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    messages = store.messages(trace_id)
    sequences = [m.sequence for m in messages]
    assert sequences == sorted(set(sequences))  # with gaps: branches and sub-agents count along
    again = replayed(store, trace_id)
    assert again.messages == messages
    if not waits_for_answer(again):  # a turn that stopped at a question goes on later
        check_pairs(again)
        assert again.turn is None
        assert not again.pending
    assert not again.open.streaming
    assert again.trace.message_count == len(messages)
    counted = sum(goal.self_stats.message_count for goal in again.plan.snapshot().goals)
    goals = {goal.id for goal in again.plan.snapshot().goals}
    assert counted == sum(m.goal_id in goals for m in messages)
    if live is not None:
        assert live.messages == messages
        assert live.plan.snapshot() == again.plan.snapshot()
        assert live.trace == again.trace
        assert live.granted == again.granted
        assert live.queue == again.queue
        assert live.notes == again.notes
        assert live.marks == again.marks
        assert live.budget == again.budget
        assert live.given.instructions == again.given.instructions
        assert live.spending == again.spending
        assert live.plan.replaced == again.plan.replaced
        # A write whose result could not be stored any more is known only to the living.
        assert live.given.files.keys() >= again.given.files.keys()


def check_pairs(state: SessionState) -> None:
    """Every tool call has exactly one result, behind it."""
    open_calls: dict[str, str] = {}
    for message in state.messages:
        if message.role == "tool":
            result = message.tool_result()
            assert isinstance(result, ToolResultPart)
            assert open_calls.pop(result.tool_call_id) == result.name
            continue
        assert not open_calls, f"calls without a result: {open_calls}"
        for call in message.tool_calls():
            assert call.id not in open_calls
            open_calls[call.id] = call.name
    assert not open_calls, f"calls without a result: {open_calls}"


async def finish(turn: asyncio.Task[TurnResult], within_s: float = 30.0) -> TurnResult:
    """Return the result of a prompt that must end on its own."""
    async with asyncio.timeout(within_s):
        return await turn


def prompted(session: Session, text: str, **options: Any) -> asyncio.Task[TurnResult]:
    """A prompt under way."""
    return asyncio.create_task(session.prompt(text, **options))


def results(messages: list[Message]) -> list[ToolResultPart]:
    return [result for m in messages if (result := m.tool_result()) is not None]


def roles(messages: list[Message]) -> list[str]:
    return [m.role for m in messages]
