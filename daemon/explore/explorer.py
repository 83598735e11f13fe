"""The work of the ``explore`` tool: alternative approaches, each in a branch of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.copies.working_copy import Base, CopyError, WorkingCopies
from daemon.explore.branch import Branch, BranchHost, OpenCopy
from daemon.explore.branch_choice import awaited_choice, carry_over, decided_early, exploration_ended
from daemon.explore.branch_notes import results_text, short_summary
from daemon.explore.branch_task import BranchOutcome, BranchTask, TestCommand
from daemon.explore.inherited_context import conversation
from daemon.explore.results import ResultError, save_result
from daemon.explore.score_text import score_table
from daemon.explore.test_command import agree_on_test
from daemon.model.branches import BranchMeta, branch_name
from daemon.model.events import (
    BranchStarted,
    Delta,
    Event,
    GoalRemoved,
    GoalUpdated,
)
from daemon.model.permissions import Rule
from daemon.model.tags import plain
from daemon.permission.service import CallPermission, WaitingTime
from daemon.plan.changes import stored_line
from daemon.plan.explore_goals import (
    is_given_up,
    plan_counted,
    plan_exploration,
    plan_explored,
    plan_given_up,
)
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import PlanError
from daemon.store.trace_store import StoreError
from tools.localization import n, t
from tools.ports import ToolResult
from tools.process.background import finish
from tools.text.truncate import head
from tools.tool import Permission, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.agents.loader import AgentProfile
    from daemon.explore.remote_branch import Nodes
    from daemon.loop.session import Session
    from daemon.model.meters import Metered
    from daemon.provider.model_calls import PromptMessage

log = logging.getLogger(__name__)


async def explore(
    session: Session, branches: Sequence[str], background: str | None, permission: Permission, call_id: str
) -> ToolResult:
    """Explore the directions of a call, each in a branch. Raises ToolError."""
    directions = checked_directions(branches)
    background = checked_background(background)
    if session.parent is not None:
        raise ToolError("A branch or a sub-agent cannot explore: work on your own task.")
    waited = permission.waited if isinstance(permission, CallPermission) else WaitingTime()
    return await RunningExploration(session, call_id, waited).run(directions, background)


class RunningExploration:
    """One exploration, from its goal to the report for the main session."""

    def __init__(self, session: Session, call_id: str, waited: WaitingTime) -> None:
        """``waited``: of the call; the time of the branches is added to it."""
        self._session = session
        self._call_id = call_id
        self._record = session.record
        self._waited = waited
        self._start_id = ""
        self._took_ms = 0
        self._places: dict[str, contextlib.AsyncExitStack] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._nodes: Nodes | None = None
        """The cluster that branches work on; None: they work here."""
        self._open: dict[str, BranchTask] = {}
        """Branches that were announced and have not ended."""

    async def run(self, directions: Sequence[str], background: str | None) -> ToolResult:
        """Work on all directions; returns when all have ended. Canceled, it ends them first. Raises ToolError."""
        session = self._session
        copies, base = await self._opened()
        try:
            unsaved = self._unsaved()
            if session.services.config().settings.agents.explore_on != "local":
                from daemon.explore.remote_branch import connected

                self._nodes = await connected(session, base, self._call_id)
            tasks = branch_tasks(session, directions, background, base)
            self._begin(tasks)
            session.services.bus.subscribe(session.session_id, self._heard)
            # Asked while the branches work, so that a slow answer delays none of them.
            self._test = asyncio.create_task(
                agree_on_test(session, self._call_id, on_nodes=self._nodes is not None)
            )
            began = time.monotonic()
            try:
                canceled = await self._work(tasks, partial(copies.open, base=base))
            finally:
                # The time belongs to the branches' goal, and no longer to the call that waited for them.
                seconds = time.monotonic() - began
                self._waited.seconds += seconds
                self._took_ms = int(seconds * 1000)
                session.services.bus.unsubscribe(self._heard)
                self._test.cancel()  # nobody needs to know any more whether tests may run
                withdrawn_late = await finish(self._test)
        finally:
            # A cancellation at this moment cancels the exploration as well, so its goal must end.
            canceled_late = await finish(asyncio.ensure_future(self._released(copies, base)))
        if canceled or canceled_late or withdrawn_late:
            self._break_off(t("Canceled before its branches ended."))
            raise asyncio.CancelledError
        if is_given_up(session.state.plan, self._start_id):
            return self._given_up()
        return await self._outcome(unsaved)

    async def _opened(self) -> tuple[WorkingCopies, Base]:
        open_copies = self._session.services.children.copies
        if open_copies is None:
            raise ToolError("Branches are not available here: try one approach after another.")
        try:
            copies = await open_copies(self._session.config.settings.agents.branch_links)
            return copies, await copies.base()
        except CopyError as error:
            raise ToolError(f"The workspace cannot be copied for branches. {error}") from error

    def _unsaved(self) -> list[str]:
        workspace = self._session.services.workspace
        paths = self._session.services.editors.unsaved_paths()
        return sorted(
            path.relative_to(workspace).as_posix() for path in paths if path.is_relative_to(workspace)
        )

    # -- start --

    def _begin(self, tasks: list[BranchTask]) -> None:
        """Add the goal and all branches, so that viewers see all of them from the start."""
        session = self._session
        ids = [task.branch_id for task in tasks]
        short = "; ".join(head(stored_line(task.direction), 80) for task in tasks)
        words = f"{n('Explore {count} approach', 'Explore {count} approaches', len(tasks))}: {short}"
        try:
            changes = plan_exploration(session.state.plan, head(words, 400), ids)
        except PlanError as error:
            raise ToolError(f"The exploration cannot be put into the plan. {error}") from error
        self._start_id = str(session.state.plan.last_id + 1)
        self._record.goals(changes)
        for at, task in enumerate(tasks):
            tasks[at] = task = replace(task, explore_start_id=self._start_id)
            self._open[task.branch_id] = task
            session.services.children.cancel_branch[task.session_id] = partial(
                self._cancel_one, task.branch_id
            )
            branch = BranchMeta(
                id=task.branch_id, explore_start_id=self._start_id, description=task.direction
            )
            session.emit(
                BranchStarted(**session.record.here(), explore_start_id=self._start_id, branch=branch)
            )

    # -- work --

    async def _work(self, tasks: Sequence[BranchTask], open_copy: OpenCopy) -> bool:
        """Returns when all branches have ended; True when we were canceled. Raises StoreError."""
        limit = self._session.config.settings.agents.max_parallel
        self._working = {
            task.branch_id: asyncio.create_task(
                self._branch(task, limit, open_copy), name=f"branch {task.session_id}"
            )
            for task in tasks
        }
        canceled = False
        while waiting := [work for work in self._working.values() if not work.done()]:
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                self._finish_unstarted()
            except asyncio.CancelledError:
                if not canceled:  # a second cancellation must not interrupt the clean-up of the first
                    self._cancel_all()
                canceled = True
        self._finish_unstarted()
        for work in self._working.values():
            if not work.cancelled() and (error := work.exception()) is not None:
                raise error
        return canceled

    async def _branch(self, task: BranchTask, limit: int, open_copy: OpenCopy) -> None:
        async with contextlib.AsyncExitStack() as place:
            await place.enter_async_context(self._session.services.children.parallel.place(limit))
            self._places[task.branch_id] = place
            host = BranchHost(self._session, open_copy, self._test_command, self._keep, self._ended)
            if self._nodes is None or not await self._nodes.ran(task, host):
                await Branch(task, host).run()

    async def _released(self, copies: WorkingCopies, base: Base) -> None:
        if self._nodes is not None:
            await self._nodes.cluster.close()
        await copies.done(base)

    def _cancel_one(self, branch_id: str) -> bool:
        work = self._working.get(branch_id)
        return work is not None and work.cancel()

    def _cancel_all(self) -> None:
        for work in self._working.values():
            work.cancel()

    def _finish_unstarted(self) -> None:
        """Branches that never got a place, or that failed, end here."""
        for task in list(self._open.values()):
            work = self._working[task.branch_id]
            if not work.done():
                continue
            failed = not work.cancelled() and work.exception() is not None
            how = t("It failed; see Goalwright's log.") if failed else t("Canceled before it started.")
            self._ended(task, BranchOutcome(task.session_id, "abandoned", how, "canceled"), None)

    def _heard(self, item: Event | Delta | Metered) -> None:
        """Handle an event: the user may abandon the exploration in the plan."""
        if isinstance(item, GoalUpdated | GoalRemoved) and is_given_up(
            self._session.state.plan, self._start_id
        ):
            self._cancel_all()

    # -- services for branches --

    async def _test_command(self, task: BranchTask) -> TestCommand:
        # While a branch waits for the user's answer, another one may use its slot.
        if not self._test.done():
            await self._places[task.branch_id].aclose()
        return await asyncio.shield(self._test)

    async def _keep(self, task: BranchTask, outcome: BranchOutcome) -> None:
        folder = self._session.services.store.folder(task.session_id) / "result"
        try:
            await asyncio.to_thread(save_result, folder, outcome.changes, outcome.patch, outcome.ignored)
        except ResultError as error:
            raise CopyError(str(error)) from error

    def _ended(self, task: BranchTask, outcome: BranchOutcome, child: Session | None) -> None:
        self._open.pop(task.branch_id, None)
        self._session.services.children.cancel_branch.pop(task.session_id, None)
        # Its own record comes first, so that recovery after a kill between the two can use it.
        for session in (child, self._session):
            if session is not None:
                outcome.record(session, task.branch_id)
        self._record.goals(plan_counted(self._session.state.plan, self._start_id, outcome.stats))

    # -- end --

    async def _outcome(self, unsaved: Sequence[str]) -> ToolResult:
        session = self._session
        branches = session.state.children.of(self._start_id)
        table = score_table(branches)
        text = results_text(branches, table, unsaved, decided_early(session, self._start_id))
        self._record.goals(plan_explored(session.state.plan, self._start_id, short_summary(branches), text))
        carry_over(session, self._start_id)
        self._completed(text)
        choice = await awaited_choice(session, self._start_id)
        done = sum(branch.status == "completed" for branch in branches)
        if choice and self._start_id in session.state.children.persons_choice:
            # Advice on merging a branch would contradict a user who has already chosen.
            text = results_text(branches, table, unsaved, choice)
        elif choice:
            text = f"{text}\n\n{choice}"
        return ToolResult(
            text,
            title=t("{done} of {count} branches completed", done=done, count=len(branches)),
            metadata=self._metadata(),
            is_error=done == 0,
        )

    def _given_up(self) -> ToolResult:
        session = self._session
        branches = session.state.children.of(self._start_id)
        text = t("The user stopped this exploration and its branches.\n\n") + results_text(
            branches, score_table(branches), ()
        )
        self._completed(text)
        return ToolResult(text, title=t("stopped by the user"), metadata=self._metadata(), is_error=True)

    def _break_off(self, why: str) -> None:
        try:
            branches = self._session.state.children.of(self._start_id)
            self._record.goals(
                plan_given_up(self._session.state.plan, self._start_id, f"{why}\n{short_summary(branches)}")
            )
            self._completed(why)
        except StoreError as error:
            log.warning("the end of an exploration is not in the log: %s", error)

    def _completed(self, text: str) -> None:
        exploration_ended(self._session, self._start_id, text, self._took_ms)

    def _metadata(self) -> dict[str, object]:
        branches = self._session.state.children.of(self._start_id)
        return {"explore_start_id": self._start_id, "branches": [branch.id for branch in branches]}


# -- the start of an exploration: its directions, and the task of each branch --

MAX_BRANCHES = 8
MAX_DIRECTION = 4_000
MAX_BACKGROUND = 100_000
"""Characters."""
_NOT_IN_BRANCHES = ("explore", "hand_over")
"""Permissions: a branch neither explores itself nor passes its work on."""


def checked_directions(branches: Sequence[str]) -> list[str]:
    """Return the directions, trimmed. Raises ToolError with the reason."""
    directions = [text.strip() for text in branches]
    if not directions or not any(directions):
        raise ToolError("branches is empty: give one text for each approach to explore.")
    if not all(directions):
        raise ToolError("One of the branches is empty: say what each should try.")
    if len(directions) > MAX_BRANCHES:
        raise ToolError(
            f"{len(directions)} branches are too many; the limit is {MAX_BRANCHES}. Choose the most "
            "promising."
        )
    for text in directions:
        if len(text) > MAX_DIRECTION:
            raise ToolError(
                f"A direction of {len(text)} characters is too long; the limit is {MAX_DIRECTION}. Put "
                "what all branches must know into background."
            )
    known = [" ".join(text.split()).casefold() for text in directions]
    twice = next((text for text, key in zip(directions, known, strict=True) if known.count(key) > 1), None)
    if twice is not None:
        raise ToolError(
            f"Two branches have the same direction ({head(twice, 100)!r}): make them differ, or drop one."
        )
    return directions


def checked_background(background: str | None) -> str | None:
    """Return the background, trimmed; None when there is none. Raises ToolError when it is too long."""
    if background is not None and len(background) > MAX_BACKGROUND:
        raise ToolError(
            f"The background has {len(background)} characters; the limit is {MAX_BACKGROUND}: summarize it."
        )
    return (background or "").strip() or None


def branch_tasks(
    session: Session, directions: Sequence[str], background: str | None, base: Base
) -> list[BranchTask]:
    """Return the task of each branch of an exploration; its explore goal is filled in once that exists."""
    state, services = session.state, session.services
    taken = len(state.children.branches)
    while branch_name(taken) in state.children.branches:
        taken += 1
    names = [branch_name(taken + at) for at in range(len(directions))]
    named = list(zip(names, directions, strict=True))
    inherits = background is None
    said: tuple[PromptMessage, ...] = ()
    if inherits:
        without = {call_id for _, call_id, _ in state.open_tool_calls()}
        said = conversation(session.request_builder.window().entries, without)
    return [
        BranchTask(
            trace_id=session.session_id,
            branch_id=name,
            explore_start_id="",
            base=base,
            direction=direction,
            others=tuple(other for other in named if other[0] != name),
            background=None if background is None else plain(background),
            workspace=str(services.workspace),
            conversation=said,
            seen=dict(state.given.files) if inherits else {},
            instructions=dict(state.given.instructions) if inherits else {},
            untrusted_instructions=dict(state.given.untrusted_instructions) if inherits else {},
            mission=state.plan.mission,
            plan=plan_to_prompt(state.plan) if inherits and state.plan.goals else "",
            agent=_within_branch(session.agent),
            model=session.model,
            settings=session.config.settings,
            home=str(Path.home()),
        )
        for name, direction in named
    ]


def _within_branch(agent: AgentProfile) -> AgentProfile:
    words = "a branch works on its own direction, to its end."
    denied = tuple(
        Rule(permission=name, pattern="*", action="deny", source="agent", words=words)
        for name in _NOT_IN_BRANCHES
    )
    return replace(agent, rules=(*agent.rules, *denied))
