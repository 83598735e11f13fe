"""The trace API with its page: a real uvicorn over traces that the test makes and goes on with, and a real Chromium."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, Self

import uvicorn
from playwright.async_api import Locator, Page

from daemon.api.app import make_app, warm_up
from daemon.api.hub import ClientLimits
from daemon.api.security import RequiredAccess
from daemon.api.watch import WatchServer, websocket_settings
from daemon.model.branches import BranchMeta, child_id
from daemon.model.events import (
    BranchCompleted,
    BranchGoalAdded,
    BranchMessageAdded,
    BranchStarted,
    Event,
    ExploreCompleted,
    GoalAdded,
    GoalUpdated,
    MessageAdded,
    SessionCreated,
    SessionUpdated,
    TraceCompleted,
    TurnEnded,
    TurnStarted,
)
from daemon.model.goals import Goal, GoalStats, GoalStatus
from daemon.model.messages import FinishPart, Part, Role, TextPart, ToolCallPart, ToolResultPart, Usage
from daemon.model.traces import BranchTrace, Trace
from daemon.state.session_state import SessionState
from daemon.store.trace_store import TraceStore
from tests.e2e.vscode.window import chromium, picture_folder
from tests.support.drivers.watched import Watched
from tests.support.fakes.memory_store import MemoryTraceStore

TOKEN = "t" * 43
LARGE = "20260102-030405-00000002"
DESIGN = "20260102-030405-00000001"


class PageBench(Watched):
    """Traces that a page shows, and what happens in them."""

    @classmethod
    def over(cls, store: TraceStore, limits: ClientLimits | None = None, port: int = 0) -> Self:
        """Over a store, with nobody listening yet."""
        bench = cls(store, limits or ClientLimits())
        bench.port = port
        return bench

    @classmethod
    def over_memory(cls, limits: ClientLimits, port: int) -> Self:
        """Return a bench over a store in memory."""
        return cls.over(MemoryTraceStore(), limits, port)

    def trace(self, trace_id: str, mission: str, title: str = "") -> None:
        """A new trace with a turn under way."""
        now = self.time()
        trace = Trace(
            trace_id=trace_id,
            workspace="/w",
            title=title or mission,
            model="fake/sonnet",
            created_at=now,
            updated_at=now,
        )
        self._begin(trace)
        self.emit(SessionUpdated(trace_id=trace_id, time=now, updates={"mission": mission}))
        self.emit(TurnStarted(trace_id=trace_id, time=self.time(), prompt_id="p1"))

    def _begin(self, trace: Trace) -> None:
        self.store.create(trace)
        self.states[trace.trace_id] = SessionState(trace)
        self.emit(SessionCreated(trace_id=trace.trace_id, time=trace.created_at, trace=trace))

    def add(
        self, trace_id: str, goal_id: str, description: str, parent: str | None = None, **fields: object
    ) -> None:
        """A goal."""
        known = {"id": goal_id, "description": description, "parent_id": parent, **fields}
        goal = Goal.model_validate(known)
        self.emit(GoalAdded(trace_id=trace_id, time=self.time(), goal=goal, parent_id=parent))

    def set(
        self,
        trace_id: str,
        goal_id: str,
        status: GoalStatus,
        summary: str | None = None,
        focus: str | None = None,
    ) -> None:
        """Set the outcome of a goal, and the new focus."""
        updates = {"status": status} | ({"summary": summary} if summary else {})
        current = focus or (goal_id if status == "in_progress" else None)
        event = GoalUpdated(
            trace_id=trace_id, time=self.time(), goal_id=goal_id, updates=updates, current_id=current
        )
        self.emit(event)

    def message(
        self, *parts: Part, role: Role = "assistant", goal_id: str | None = None, session_id: str = DESIGN
    ) -> Event:
        """Return a message event with usage, from which the totals are computed."""
        event = super().message(*parts, role=role, goal_id=goal_id, session_id=session_id)
        assert isinstance(event, MessageAdded)
        message = event.message.model_copy(update={"usage": Usage(input=80, output=20)})
        return event.model_copy(update={"message": message})

    def say(self, trace_id: str, goal_id: str | None, text: str, *tools: str) -> None:
        """The model says something, and runs tools."""
        self._tell(trace_id, goal_id, text, tools)

    def _tell(
        self, session_id: str, goal_id: str | None, text: str, tools: tuple[str, ...]
    ) -> list[MessageAdded]:
        calls = [
            ToolCallPart(
                id=f"c{self._ticks}x{at}", name=name, input='{"path": "src/models/user.py", "limit": 40}'
            )
            for at, name in enumerate(tools)
        ]
        told: list[Part] = [TextPart(text=text), *calls]
        if not calls:
            told.append(FinishPart(reason="end_turn", time=self.time()))
        stored = self.emit(self.message(*told, goal_id=goal_id, session_id=session_id))
        for call in calls:
            content = "\n".join(f"{n:>5}\tdef field_{n}(self): ..." for n in range(1, 9))
            result = ToolResultPart(
                tool_call_id=call.id, name=call.name, content=content, title="src/models/user.py"
            )
            stored += self.emit(self.message(result, role="tool", goal_id=goal_id, session_id=session_id))
        return [event for event in stored if isinstance(event, MessageAdded)]

    def branch(
        self, trace_id: str, start: str, name: str, description: str, *, inherited: tuple[str, ...] = ()
    ) -> None:
        """Start a branch, with some messages of the main session."""
        now = self.time()
        session_id = child_id(trace_id, name)
        fields = {"trace_id": session_id, "workspace": "/w", "created_at": now, "updated_at": now}
        self._begin(
            BranchTrace.model_validate(
                {
                    **fields,
                    "id": name,
                    "explore_start_id": start,
                    "description": description,
                    "inherited": len(inherited),
                }
            )
        )
        for text in inherited:
            self._tell(session_id, None, text, ())
        meta = BranchMeta(id=name, explore_start_id=start, description=description)
        self.emit(BranchStarted(trace_id=trace_id, time=now, explore_start_id=start, branch=meta))

    def in_branch(self, trace_id: str, name: str, goal_id: str, description: str, *tools: str) -> None:
        """A branch adds a goal to its plan, and works on it."""
        session_id = child_id(trace_id, name)
        self.add(session_id, goal_id, description)
        self.set(session_id, goal_id, "in_progress")
        goal = Goal(id=goal_id, description=description)
        numbers = {goal_id: self.states[session_id].plan.number_of(goal_id)}
        now = self.time()
        self.emit(
            BranchGoalAdded(trace_id=trace_id, time=now, branch_id=name, goal=goal, goal_numbers=numbers)
        )
        self.say_in_branch(trace_id, name, goal_id, f"{description}, as one would.", *tools)
        self.set(session_id, goal_id, "completed", f"{description}: done")

    def say_in_branch(self, trace_id: str, name: str, goal_id: str | None, text: str, *tools: str) -> None:
        """The model says something in a branch, and runs tools."""
        for event in self._tell(child_id(trace_id, name), goal_id, text, tools):
            told = BranchMessageAdded(
                trace_id=trace_id,
                time=self.time(),
                branch_id=name,
                message=event.message,
                affected_goals=event.affected_goals,
            )
            self.emit(told)

    def branch_done(
        self, trace_id: str, name: str, summary: str, status: Literal["completed", "abandoned"] = "completed"
    ) -> None:
        """A branch has ended."""
        branch = self.states[trace_id].children.branches[name]
        done = BranchCompleted(
            trace_id=trace_id,
            time=self.time(),
            branch_id=name,
            status=status,
            summary=summary,
            cumulative_stats=branch.cumulative_stats,
        )
        self.emit(done)

    def end(self, trace_id: str) -> None:
        """The turn is over."""
        state = self.states[trace_id]
        self.emit(
            TurnEnded(trace_id=trace_id, time=self.time(), prompt_id="p1", stop_reason="end_turn"),
            TraceCompleted(
                trace_id=trace_id,
                time=self.time(),
                status="completed",
                total_messages=state.trace.message_count,
                total_tokens=state.trace.usage.total,
                total_cost=state.trace.total_cost,
            ),
        )


def tell_design(bench: PageBench, *, ended: bool = False) -> None:
    """A trace with all that a graph can have: goals within goals, an abandoned one, an exploration of two branches."""
    t = DESIGN
    bench.trace(t, "Add user authentication", "User authentication")
    bench.add(t, "1", "Analyse the code", reason="know what is there")
    bench.add(t, "2", "Implement it with server sessions")
    bench.set(t, "1", "in_progress")
    bench.say(t, "1", "I look at what is there first.", "glob", "read", "read")
    bench.set(
        t,
        "1",
        "completed",
        "The user model is in models/user.py, passwords are hashed with bcrypt",
        focus="2",
    )
    bench.set(t, "2", "in_progress")
    bench.say(t, "2", "Sessions in the database.", "read", "edit", "bash")
    bench.set(t, "2", "abandoned", "The database cannot keep sessions: no migrations")
    bench.add(t, "3", "Explore 2 ways", type="explore_start", branch_ids=["A", "B"])
    bench.add(t, "5", "Finish the feature")
    bench.add(t, "6", "Design the interface", "5")
    bench.add(t, "7", "Write the code", "5")
    bench.add(t, "8", "Log in", "7")
    bench.add(t, "9", "Log out", "7")
    bench.add(t, "10", "Test it")
    bench.set(t, "3", "in_progress")
    bench.say(t, "3", "Two ways are possible.", "explore")
    bench.branch(t, "3", "A", "JWT: stateless tokens")
    bench.branch(t, "3", "B", "Sessions in Redis")
    bench.in_branch(t, "A", "1", "Design the token", "read", "write")
    bench.in_branch(t, "A", "2", "Issue and verify it", "edit", "bash", "bash")
    bench.in_branch(t, "B", "1", "Connect to Redis", "bash", "edit")
    if not ended:
        return
    bench.branch_done(t, "A", "Works without state; tokens are large")
    bench.branch_done(t, "B", "Works; needs Redis")
    fields = {"type": "explore_merge", "explore_start_id": "3", "merge_summary": "Both work"}
    bench.emit(
        GoalAdded(
            trace_id=t,
            time=bench.time(),
            goal=Goal.model_validate({"id": "4", "description": "Choose a way", **fields}),
            index=3,
        ),
        ExploreCompleted(
            trace_id=t,
            time=bench.time(),
            explore_start_id="3",
            explore_merge_id="4",
            merge_summary="Both work",
        ),
    )
    bench.set(t, "3", "completed", "Two ways were tried", focus="4")
    updates = {"status": "completed", "summary": "JWT", "selected_branch": "A"}
    bench.emit(GoalUpdated(trace_id=t, time=bench.time(), goal_id="4", updates=updates, current_id="6"))
    bench.set(t, "5", "in_progress")
    bench.set(t, "6", "in_progress")
    bench.say(t, "6", "The interface comes first.", "read", "write")
    bench.set(t, "6", "completed", "POST /login, POST /logout", focus="8")
    bench.set(t, "8", "in_progress")
    bench.say(t, "8", "Now the code for logging in.", "edit", "edit", "bash")


def tell_large(bench: PageBench, goals: int = 2000) -> None:
    """A plan of very many goals: each fifth one has the four behind it within."""
    bench.trace(LARGE, f"A plan of {goals} goals", "Very many goals")
    state = bench.states[LARGE]
    stats = GoalStats(message_count=12, total_tokens=6800, total_cost=0.08, preview="glob → read × 2 → edit")
    for number in range(1, goals + 1):
        top = (number - 1) // 5 * 5 + 1
        parent = None if number == top else str(top)
        status = "completed" if number < goals * 0.7 else "abandoned" if number % 97 == 0 else "pending"
        bench.add(
            LARGE,
            str(number),
            f"Goal number {number} of many",
            parent,
            status=status,
            self_stats=stats,
            cumulative_stats=stats,
        )
    assert len(state.plan.snapshot().goals) == goals


@asynccontextmanager
async def page_bench(store: TraceStore | None = None) -> AsyncGenerator[PageBench]:
    """The API with its page, over live traces."""
    limits = ClientLimits()
    bench = PageBench(store or MemoryTraceStore(), limits)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        bench.port = listening.getsockname()[1]
        async with served(bench, listening, limits):
            yield bench


@asynccontextmanager
async def served(bench: PageBench, listening: socket.socket, limits: ClientLimits) -> AsyncGenerator[None]:
    """Serve answers on a socket until it is left; then it may be served again, like a restarted daemon."""
    bench.server = WatchServer(
        lambda _: bench.reader, bench.bus, attached=lambda: None, left=lambda: None, limits=limits
    )
    app = make_app(lambda _: bench.reader, RequiredAccess(TOKEN, bench.port), watch=bench.server)
    await asyncio.to_thread(warm_up, app)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", **websocket_settings(limits)
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve([listening]))  # pyright: ignore[reportPrivateUsage] - no signals
    try:
        while not server.started:
            assert not running.done(), running.exception()
            await asyncio.sleep(0.01)
        yield
    finally:
        await bench.server.close()
        server.should_exit = True
        await running


@asynccontextmanager
async def browser_page(
    *,
    theme: Literal["light", "dark"] = "light",
    errors: list[str] | None = None,
    locale: str | None = None,
) -> AsyncGenerator[Page]:
    """A page of a real Chromium in the language ``locale``. What goes wrong in it is added to ``errors``."""
    async with chromium() as browser:
        context = await browser.new_context(
            viewport={"width": 1440, "height": 900}, color_scheme=theme, locale=locale
        )
        page = await context.new_page()
        if errors is not None:
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on(
                "console",
                lambda said: errors.append(said.text) if said.type in ("error", "warning") else None,
            )
        try:
            yield page
        finally:
            await context.close()


def page_address(port: int, trace_id: str = "", view: str = "") -> str:
    """Return the address of the page, with the token."""
    return f"http://127.0.0.1:{port}/?token={TOKEN}" + (f"#/{trace_id}{view}" if trace_id else "")


async def pictures(page: Page, name: str) -> None:
    """The page in both themes, when and where ``Window.pictures`` takes those of VS Code."""
    if (folder := picture_folder()) is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    await page.mouse.move(0, 0)
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        await page.screenshot(path=folder / f"{name}-{theme}.png", animations="disabled", caret="hide")


def node(page: Page, key: str) -> Locator:
    """A node of the graph."""
    return page.locator(f'.dag-node[data-key="{key}"]')


def edge(page: Page, key: str) -> Locator:
    """The edge that leads to a node."""
    return page.locator(f'.dag-edge[data-to="{key}"]')


async def toggle(page: Page, key: str, opens: bool) -> None:
    """Open or close what an edge stands for."""
    place = page.locator(f'.dag-edge [data-toggle="{key}"][data-opens="{str(opens).lower()}"]')
    await place.first.click()
