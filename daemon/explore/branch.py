"""A branch that is worked on by a session in this process, in a copy of the workspace on this machine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from daemon.context.handover import last_words
from daemon.context.tokens import part_tokens
from daemon.copies.patch_writer import write_patch
from daemon.copies.working_copy import CopyError, WorkingCopy
from daemon.explore.branch_environment import BranchEnvironment, make_branch_environment
from daemon.explore.branch_notes import task_text, unfinished_summary
from daemon.explore.branch_task import BranchOutcome, BranchTask, TestCommand
from daemon.explore.ignored_changes import ignored_changes, left_out_note, recorded_changes, short_names
from daemon.explore.inherited_context import moved, places_moved, rewriter
from daemon.explore.results import in_workspace
from daemon.loop.children import close_child, open_child
from daemon.model.branches import CheckRun
from daemon.model.events import (
    BranchGoalAdded,
    BranchGoalUpdated,
    BranchMessageAdded,
    Delta,
    Event,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    MessageAdded,
    SessionUpdated,
)
from daemon.model.goals import GoalStats
from daemon.model.messages import FinishPart, Part, StopReason
from daemon.model.meters import Metered
from daemon.model.tags import plain
from daemon.plan.goal_stats import with_message
from daemon.state.projection import Projection
from daemon.store.trace_store import StoreError
from tools.localization import noted, t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from daemon.loop.queue import TurnResult
    from daemon.loop.session import Session
    from daemon.model.messages import Message
    from daemon.provider.model_calls import PromptMessage

log = logging.getLogger(__name__)

_NOTHING_TO_TEST = noted("it changed no files")
_ONLY_IGNORED = noted("it changed only ignored files")
_UNKNOWN = noted("its changes could not be read")
MAX_SUMMARY = 8_000
"""Characters of a branch's report that are kept as its summary; its record has the whole."""


OpenCopy = Callable[[str], Awaitable[WorkingCopy]]
"""Opens a working copy of the exploration's base for the branch of this session id. Raises CopyError."""


class BranchHost(Struct, frozen=True):
    """The exploration around a branch."""

    parent: Session
    """The main session: its permissions, budget and services are the branch's."""
    open_copy: OpenCopy
    test_command: Callable[[BranchTask], Awaitable[TestCommand]]
    """Returns what tests the branches; waits while the user has not said yet whether they may be tested."""
    keep: Callable[[BranchTask, BranchOutcome], Awaitable[None]]
    """Stores what the branch changed. Called before anything else can go wrong."""
    ended: Callable[[BranchTask, BranchOutcome, Session | None], None]
    """Called exactly once, with all that is known. The branch's session, if there is one, is still there."""
    copies_folder: Path | None = None
    """See ``make_branch_environment``."""


class Branch:
    """One branch on its way."""

    def __init__(self, task: BranchTask, host: BranchHost) -> None:
        self._task = task
        self._host = host
        self._began = time.monotonic()
        self._copy: WorkingCopy | None = None
        self._around: BranchEnvironment | None = None
        self._child: Session | None = None
        self._mirror: EventMirror | None = None
        self._canceled = False
        self._stop: StopReason = "canceled"
        self._detail = ""
        self._outcome: BranchOutcome | None = None
        """None until its work is kept."""
        self._compared = False
        """Whether its changes are known."""
        self._note = ""
        """Text about its changes, for the user and the model."""

    async def run(self) -> None:
        """Open, work, keep, score, close: whatever becomes of a step, those that bring it to rest are done.

        Called once. Canceled, it ends the branch in order; nothing is left of it but its record and the outcome.
        """
        try:
            await self._step(self._work(), interruptible=True)
            if self._canceled:
                self._stop, self._detail = "canceled", ""
            await self._step(self._keep())
            if not self._was_canceled:
                await self._step(self._score(), interruptible=True)
            if self._outcome is not None and self._outcome.score is None:
                await self._step(self._measure(self._outcome))
            # Not even the branch's work could be read when there is none.
            outcome = self._outcome or self._with_summary(self._without_changes())
            ended = replace(outcome, duration_ms=self._elapsed())
            self._host.ended(self._task, ended, self._child)
        finally:
            await self._step(self._close())

    async def _step(self, work: Coroutine[None, None, None], *, interruptible: bool = False) -> None:
        """Do one step, to its end however often we are canceled; an interruptible one is canceled, too, once.

        Errors become part of the outcome.
        """
        doing = asyncio.create_task(work)
        interrupted = False
        while not doing.done():
            try:
                await asyncio.wait({doing})
            except asyncio.CancelledError:
                self._canceled = True
                if interruptible and not interrupted:
                    interrupted = True
                    doing.cancel()
        if not doing.cancelled() and (error := doing.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._stop = "error"
        if isinstance(error, CopyError | StoreError):
            self._detail = str(error)
        elif isinstance(error, OSError):
            self._detail = t(
                "the copy of the workspace cannot be used ({strerror})", strerror=error.strerror or error
            )
        elif isinstance(error, Exception):
            log.error("a branch failed", exc_info=error)
            self._detail = f"Goalwright has a bug ({type(error).__name__}: {error}); see its log."
        else:
            raise error

    # -- work --

    async def _work(self) -> None:
        task, parent = self._task, self._host.parent
        self._copy = copy = await self._host.open_copy(task.session_id)
        self._around = await make_branch_environment(
            parent.services, copy, session_id=task.session_id, copies_folder=self._host.copies_folder
        )
        child = self._child = open_child(
            parent,
            task.branch_id,
            task.agent,
            services=self._around.services,
            model=task.model or None,
            explore_start_id=task.explore_start_id,
            description=task.direction,
            inherited=len(task.conversation),
        )
        await self._first_prompt(child, copy.root)
        child.state.share_order(parent.state.order)
        self._mirror = EventMirror(parent, child, task.branch_id)
        prompt = task_text(
            task.branch_id,
            task.direction,
            task.others,
            copy.root,
            background=task.background,
            plan=task.plan if task.conversation else "",
        )
        result = await self._talk(child, plain(prompt))
        self._stop, self._detail = result.stop, result.detail

    async def _first_prompt(self, child: Session, root: Path) -> None:
        """Copy the main session's knowledge to the branch, with the paths of its copy."""
        task, parent = self._task, self._host.parent
        old, home = Path(task.workspace), Path(task.home) if task.home else None

        def move() -> tuple[tuple[PromptMessage, ...], dict[str, str]]:
            return moved(task.conversation, rewriter(old, root, home)), places_moved(task.seen, old, root)

        conversation, seen = await asyncio.to_thread(move)
        mission = f"{task.mission}\n\nThis branch: {task.direction}".strip()
        child.emit(SessionUpdated(**child.record.here(), updates={"mission": mission}))
        recorder = child.record
        for message in conversation:
            recorder.add(
                message.role,
                _content(message, child),
                goal_id=None,
                tool_call_id=next((p.tool_call_id for p in message.content if p.type == "tool_result"), None),
                tokens=sum(map(part_tokens, message.content)),
            )
            await asyncio.sleep(0)  # each is written to disk, so let other tasks run in between
        child.state.given.include(seen, task.instructions, task.untrusted_instructions)
        child.state.set_calibration(parent.state.calibration)

    async def _talk(self, child: Session, prompt: str) -> TurnResult:
        """Run all turns of the branch: users' messages to it are part of its work. Then it becomes read-only, so that
        tests and scores are about exactly the stored result."""
        name = self._task.branch_id
        turns = asyncio.create_task(self._turns(child, prompt))
        canceled = False
        while not turns.done():
            try:
                await asyncio.wait({turns}, timeout=0.05 if canceled else None)
            except asyncio.CancelledError:
                canceled = True
            if canceled:
                child.break_off(
                    t("Branch {name} was canceled. Continue in the session that started it.", name=name)
                )
        if canceled:
            turns.exception()  # it is read-only before its first turn if it is canceled that early
            raise asyncio.CancelledError
        return turns.result()

    async def _turns(self, child: Session, prompt: str) -> TurnResult:
        first = await child.prompt(prompt)
        await child.seal(self._has_ended)
        return child.turn.last_result or first

    # -- the outcome --

    def _without_changes(self) -> BranchOutcome:
        return BranchOutcome(self._task.session_id, "abandoned", "", self._stop, self._detail)

    async def _keep(self) -> None:
        """Stop the branch's commands, compare its files, and store the result."""
        child, copy, mirror = self._child, self._copy, self._mirror
        outcome = self._without_changes()
        if child is not None:
            await child.commands.jobs.close()  # no command may change the files while they are compared
            trace = child.state.trace
            outcome = replace(outcome, usage=trace.usage, cost=trace.total_cost)
        if mirror is not None:
            outcome = replace(outcome, stats=mirror.stats, last_message=mirror.last_message)
        if copy is not None:
            try:
                found, patch = await copy.outcome()
                changes, above = in_workspace(found)
                outcome = replace(outcome, changes=changes, patch=patch)
                self._compared = True
                if above:
                    why = t("they are outside the workspace, and only in its patch")
                    self._note = left_out_note(why, above)
                if child is not None:
                    outcome = await self._with_ignored(outcome, child, copy)
                await self._host.keep(self._task, outcome)
            except (CopyError, OSError) as error:
                log.warning("what %s changed could not be read or kept: %s", self._task.session_id, error)
                if self._stop != "canceled":
                    self._stop, self._detail = (
                        "error",
                        t("Its changes could not be read: {error}", error=error),
                    )
                if not self._compared and child is not None:
                    outcome = await self._rescued(outcome, child, copy, error)
        self._outcome = self._with_summary(outcome)

    async def _with_ignored(self, outcome: BranchOutcome, child: Session, copy: WorkingCopy) -> BranchOutcome:
        """Keep and name files that git ignores: comparing leaves them out, so they would be lost with the copy
        unnoticed."""
        try:
            origin = self._host.parent.services.workspace
            files, note = await asyncio.to_thread(
                ignored_changes, child.files.history, copy.root, origin, outcome.changes
            )
        except OSError as error:
            log.warning("what %s wrote beside its changes is not known: %s", self._task.session_id, error)
            return outcome
        if files:
            first = f"{self._task.branch_id}:{files[0].name}"
            note += t(
                " They are kept, but merged only when selected by name, for example {first}.",
                first=head(first, 200),
            )
            self._note = f"{self._note}\n{note}".strip()
        return replace(outcome, ignored=files)

    async def _rescued(
        self, outcome: BranchOutcome, child: Session, copy: WorkingCopy, error: Exception
    ) -> BranchOutcome:
        """Keep the work that the branch's file history knows: its copy is removed, whether it could be read or not."""
        why = "" if self._detail.endswith(str(error)) else f" ({error})"
        head = t("Its changes could not be compared with its starting point{why}.", why=why)
        try:
            found = await asyncio.to_thread(recorded_changes, child.files.history, copy.root)
            patch = await asyncio.to_thread(write_patch, found)
            outcome = replace(outcome, changes=found, patch=patch)
            await self._host.keep(self._task, outcome)
        except (CopyError, OSError) as more:
            log.warning("the work of %s could not be kept: %s", self._task.session_id, more)
            folder = child.services.store.folder(self._task.session_id) / "files"
            self._note = t(
                "{head} The versions of the files that its tools wrote are in {folder}.",
                head=head,
                folder=folder,
            )
            return outcome
        kept = (
            t("The files that its tools wrote are kept: {found}.", found=short_names(found))
            if found
            else t("Its tools wrote nothing.")
        )
        self._note = t("{head} {kept} Other changes may be lost.", head=head, kept=kept)
        return outcome

    def _with_summary(self, outcome: BranchOutcome) -> BranchOutcome:
        words = own_words(self._child)
        done = self._stop == "end_turn" and bool(words)
        summary = words if done else unfinished_summary(self._stop, self._detail, words)
        return replace(
            outcome,
            status="completed" if done else "abandoned",
            summary=f"{head(summary, MAX_SUMMARY)}\n\n{self._note}".strip()
            if self._note
            else head(summary, MAX_SUMMARY),
            stop=self._stop,
            detail=self._detail,
        )

    async def _score(self) -> None:
        """Add the outcome with its score."""
        from daemon.explore.scoring import score_branch
        from daemon.explore.test_command import run_test

        child, copy, around = self._child, self._copy, self._around
        outcome, worked = self._outcome, self._elapsed()
        if child is None or copy is None or around is None or outcome is None or not self._compared:
            return
        try:
            why = _ONLY_IGNORED if outcome.ignored else _NOTHING_TO_TEST
            test = CheckRun(command="", detail=t(why))
            if outcome.changes:
                agreed = await self._host.test_command(self._task)
                test = CheckRun(command="", detail=agreed.why_not)
                if (command := agreed.command) is not None:
                    limit = self._task.settings.commands.test_timeout_s
                    test = await run_test(command, copy, child, limit, approved=agreed.approved)
            score = await score_branch(child, copy, outcome.changes, test=test, duration_ms=worked)
        except Exception:  # the branch is done, and its score only describes it
            log.exception("%s could not be scored", outcome.session_id)
            return
        self._outcome = replace(outcome, score=score)

    async def _measure(self, outcome: BranchOutcome) -> None:
        """Add the facts that cost nothing: a canceled branch waits neither for tests nor for language servers."""
        from daemon.explore.scoring import measured

        if self._child is None:
            return
        why = t("its copy could not be tested") if self._compared else t(_UNKNOWN)
        if self._was_canceled:
            why = t("it was canceled")
        test = CheckRun(command="", detail=why)
        changes = outcome.changes if self._compared else None
        score = await measured(self._child, changes, test=test, duration_ms=self._elapsed())
        self._outcome = replace(outcome, score=score)

    @property
    def _was_canceled(self) -> bool:
        """Whether its exploration was canceled, or this branch alone."""
        return self._canceled or self._stop == "canceled"

    async def _close(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
        if self._child is not None:
            self._child.make_read_only(self._has_ended)
            await close_child(self._child)
        if self._around is not None:
            await self._around.close()
        if self._copy is not None:
            await self._copy.close()

    @property
    def _has_ended(self) -> str:
        return t(
            "Branch {branch_id} has ended. Continue in the session that started it.",
            branch_id=self._task.branch_id,
        )

    def _elapsed(self) -> int:
        return int((time.monotonic() - self._began) * 1000)


def _content(message: PromptMessage, child: Session) -> tuple[Part, ...]:
    if message.role != "assistant":
        return message.content
    reason: StopReason = "tool_use" if any(p.type == "tool_call" for p in message.content) else "end_turn"
    return (*message.content, FinishPart(reason=reason, time=child.services.now()))


def own_words(child: Session | None) -> str:
    """Return the last text of the branch's own messages; empty when there is none."""
    if child is None:
        return ""
    inherited = getattr(child.state.trace, "inherited", 0)
    return last_words([message for message in child.state.messages if message.sequence > inherited])


class EventMirror:
    """Mirrors the events of one branch into the main session's log, as ``branch_…`` events, until ``close``."""

    def __init__(self, main: Session, branch: Session, branch_id: str) -> None:
        self._main = main
        self._branch_id = branch_id
        self.stats = GoalStats()
        """Statistics of the branch's own messages."""
        self.last_message: Message | None = None
        self._shown = Projection(branch.state, branch.state.plan)
        self._bus = main.services.bus
        self._bus.subscribe(branch.session_id, self._heard)

    def close(self) -> None:
        """Stop listening."""
        self._bus.unsubscribe(self._heard)

    def _heard(self, item: Event | Delta | Metered) -> None:
        if isinstance(item, Delta | Metered):
            return
        if isinstance(item, MessageAdded):
            message = item.message
            self.stats = with_message(self.stats, message)
            self.last_message = message
        view = self._shown.changes(item)
        numbers = None if view is None else view.goal_numbers
        if (event := self._mirrored(item, numbers or {})) is not None:
            self._main.emit(event)

    def _mirrored(self, event: Event, numbers: dict[str, str | None]) -> Event | None:
        where: dict[str, Any] = {
            "trace_id": self._main.session_id, "time": event.time, "branch_id": self._branch_id,
        }  # fmt: skip
        match event:
            case MessageAdded():
                return BranchMessageAdded(**where, message=event.message, affected_goals=event.affected_goals)
            case GoalAdded():
                return BranchGoalAdded(
                    **where,
                    goal=event.goal,
                    parent_id=event.parent_id,
                    index=event.index,
                    goal_numbers=numbers,
                )
            case GoalUpdated():
                updates, affected = event.updates, event.affected_goals
            case GoalMoved():
                updates = {"parent_id": event.parent_id, "before_id": event.before_id}
                affected = event.affected_goals
            case GoalRemoved():
                updates, affected = {"removed": True}, ()
            case _:
                return None
        current_id = None if isinstance(event, GoalMoved) else event.current_id
        return BranchGoalUpdated(
            **where,
            goal_id=event.goal_id,
            updates=updates,
            affected_goals=affected,
            current_id=current_id,
            goal_numbers=numbers,
        )
