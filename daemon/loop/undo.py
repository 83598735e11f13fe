"""Undo, redo and restore of a session's changes of files: by the user while the session is idle, and by the model for a
goal that it abandons.

The plan is a three-way merge against the disk (``daemon.files.restore``). The write goes through ``tools.change`` like
that of any tool: all files or none, on exactly the merged contents.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from daemon.files.changes import FileSetChange, changes_of, next_redo, next_undo
from daemon.files.restore import RestorePlanner, RestoreRefusedError
from daemon.loop.tool_context import SessionFiles
from daemon.model.events import FileChanged, FilesRestored, RestoredFile
from daemon.model.permissions import FileDiff
from tools.access import suggestions
from tools.change import write_approved
from tools.diff.unified_diff import limited, shown_name
from tools.localization import noted, t
from tools.paths import folder_patterns, rule_target
from tools.process.background import despite_cancel
from tools.text.truncate import head
from tools.tool import FileChange, Permission, PermissionAsk, ProposedFile, ToolError
from tools.writing.proposal import propose

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from daemon.files.changes import FileSetChange
    from daemon.files.history import SessionHistory
    from daemon.files.versions import Action, FileVersions, VersionRecord
    from daemon.loop.session import Session
    from daemon.model.messages import Message, ToolCallPart
    from tools.tool import Counts, FileChange

MAX_NAMED = 5
_TELL_S = 5.0
_PRIVATE = (".git", ".trace")

PERSON = "person"
"""Name of the actor when a client gives none: the model must see that it was not itself."""
FOREIGN = noted(
    "This session was not started by you on this machine, so its file history may have been made by "
    "anyone. Nothing of it is written to your files."
)
_STILL_OPEN = noted("The goal is still open: abandon it without revert_files to keep the files as they are.")
_NOT_TAKEN = {
    "undo": (
        noted("There is nothing to undo: no file was changed, or all changes are already undone."),
        noted("The {change} is already undone. It can be redone."),
    ),
    "redo": (
        noted("There is nothing to redo: nothing was undone."),
        noted("The {change} is not undone, so there is nothing to redo."),
    ),
}
"""Errors for an undo or redo without effect: there is no such change, or it was already undone or redone."""
BUSY = noted("The session is running. Cancel the turn or wait until it ends, then try again.")


class UnknownChangeError(Exception):
    """Raised when the change, message or goal does not exist, or has nothing to undo; the message lists the
    alternatives."""


class Caller(Struct, frozen=True):
    """Where a change was made: the message with the tool call, and the call."""

    message: Message
    index: int
    call: ToolCallPart
    goal_id: str | None
    """The goal in focus when the call ran: that of its result (the focus may change within one message)."""


class ChangeOverview(Struct, frozen=True):
    """All changes, oldest first, and those that undo and redo would take next."""

    changes: tuple[FileSetChange, ...]
    undo: FileSetChange | None
    redo: FileSetChange | None


class Restorer:
    """Takes a session's changes back and forward. Stateless: made for each request."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._services = session.services
        self._history = session.files.history

    async def overview(self) -> ChangeOverview:
        """Return the session's changes. Raises RestoreRefusedError when the history cannot be read."""
        record = await self._record()
        changes = changes_of(record)
        return ChangeOverview(tuple(changes), next_undo(changes), next_redo(changes, record.steps()))

    def callers(self) -> dict[str, Caller]:
        """Return the message and call of each change, by its id."""
        messages = self._session.state.messages
        goals = {m.tool_call_id: m.goal_id for m in messages if m.role == "tool"}
        return {
            call.id: Caller(message, index, call, goals.get(call.id, message.goal_id))
            for message in messages
            for index, call in enumerate(message.tool_calls())
        }

    async def undo(self, change_id: str | None = None, *, dry_run: bool = False, by: str = PERSON) -> Outcome:
        """Undo one change, the newest by default. Raises BusyError, Refused, UnknownChangeError."""
        return await self._one("undo", change_id, dry_run, by)

    async def redo(self, change_id: str | None = None, *, dry_run: bool = False, by: str = PERSON) -> Outcome:
        """Redo an undone change. Raises BusyError, Refused, UnknownChangeError."""
        return await self._one("redo", change_id, dry_run, by)

    async def restore(
        self,
        *,
        message_id: str | None = None,
        goal_id: str | None = None,
        dry_run: bool = False,
        by: str = PERSON,
    ) -> Outcome:
        """Undo all changes made since a message (including it), or for a goal and those below it.

        Raises BusyError, Refused, UnknownChangeError; ValueError unless exactly one of the two is given.
        """
        if (message_id is None) == (goal_id is None):
            raise ValueError(t("Choose either a message or a goal to restore, not both."))
        async with self._at_rest():
            overview = await self.overview()
            belongs, what = self._since(message_id) if message_id is not None else self._below(goal_id or "")
            changes, target = self._wanted(overview, belongs, what)
            return await self._step("restore", changes, target, dry_run, by)

    async def revert_goal(self, goal_id: str, permission: Permission) -> str:
        """Undo the changes for a goal and those below it, because the model abandons the goal.

        For a tool call: the turn holds ``files_lock``. ``permission`` is asked with the diffs, as for every write.
        Returns the result for the model. Raises ToolError when nothing was written and the goal should stay open, and
        PermissionDeniedError.
        """
        if self._session.foreign:
            raise ToolError(f"{t(FOREIGN)} {t(_STILL_OPEN)}")
        try:
            overview = await self.overview()
            changes, target = self._wanted(overview, *self._below(goal_id))
        except UnknownChangeError:
            return t("No file was changed for it, or all its changes are already undone.")
        except RestoreRefusedError as error:
            raise ToolError(f"{error} {t(_STILL_OPEN)}") from error
        try:
            planned = await self._planned("restore", changes, target)
            if planned.writes:
                approval = await permission.ask(revert_question(planned, self._display))
                if approval.changes is not None:
                    raise ToolError(
                        t(
                            "The user accepted only some of the files, but a goal's changes are undone "
                            "completely or not at all. Nothing was written. {still_open}",
                            still_open=t(_STILL_OPEN),
                        )
                    )
            await self._carry_out(planned, by="")
        except RestoreRefusedError as error:
            raise ToolError(f"{error} {t(_STILL_OPEN)}") from error
        return revert_words(planned, self._names)

    # -- internals --

    async def _one(
        self, action: Literal["undo", "redo"], change_id: str | None, dry_run: bool, by: str
    ) -> Outcome:
        none, done = _NOT_TAKEN[action]
        async with self._at_rest():
            overview = await self.overview()
            change = _find(overview.changes, change_id)
            change = change or (overview.undo if action == "undo" else overview.redo)
            if change is None:
                raise UnknownChangeError(t(none))
            name = self._name(change)
            if change.undone == (action == "undo"):
                raise RestoreRefusedError(t(done, change=name))
            return await self._step(action, [change], name, dry_run, by)

    def _wanted(
        self, overview: ChangeOverview, belongs: Callable[[Caller], bool], what: str
    ) -> tuple[list[FileSetChange], str]:
        """Return the changes to restore, newest first, and their description. Raises UnknownChangeError for none."""
        callers = self.callers()
        found = [
            change
            for change in overview.changes
            if (caller := callers.get(change.change_id)) is not None and belongs(caller)
        ]
        wanted = [change for change in reversed(found) if not change.undone and change.entries]
        if not wanted:
            undone = any(change.undone for change in found)
            why = (
                t("all changes {what} are already undone", what=what)
                if undone
                else t("no file was changed {what}", what=what)
            )
            raise UnknownChangeError(t("There is nothing to restore: {why}.", why=why))
        count = "1 change" if len(wanted) == 1 else f"{len(wanted)} changes"
        return wanted, f"{count} {what}"

    @contextlib.asynccontextmanager
    async def _at_rest(self) -> AsyncGenerator[None]:
        from daemon.loop.session import BusyError

        session = self._session
        if session.foreign:
            raise RestoreRefusedError(t(FOREIGN))
        if session.running:
            raise BusyError(t(BUSY))
        async with session.files.lock:  # a turn that begins now waits for it
            if session.running:
                raise BusyError(t(BUSY))
            session.check_writable()  # a branch may have ended meanwhile, and its result is final
            yield

    async def _record(self) -> VersionRecord:
        try:
            return await asyncio.to_thread(self._history.record)
        except OSError as error:
            raise RestoreRefusedError(
                t("The file history cannot be read ({strerror}).", strerror=error.strerror or error)
            ) from error

    async def _step(
        self, action: Action, changes: Sequence[FileSetChange], target: str, dry_run: bool, by: str
    ) -> Outcome:
        planned = await self._planned(action, changes, target)
        if not dry_run:
            await self._carry_out(planned, by or PERSON)
        return planned.outcome

    async def _planned(self, action: Action, changes: Sequence[FileSetChange], target: str) -> PlannedUndo:
        groups = [change.forward() if action == "redo" else change.backward() for change in changes]
        unknown = tuple(path for change in changes for path in change.unknown)
        if not any(change.entries for change in changes):
            raise RestoreRefusedError(
                t("The {target} cannot be undone: its previous content is unknown.", target=target)
            )
        writes, proposal = await asyncio.to_thread(self._plan, groups)
        if unknown:
            target += t(" (without {unknown}: the previous content is unknown)", unknown=self._names(unknown))
        return PlannedUndo(action, tuple(changes), target, unknown, writes, proposal)

    async def _carry_out(self, planned: PlannedUndo, by: str) -> None:
        changes, writes = planned.changes, planned.writes
        keeper = StepKeeper(self._history, planned.action, [change.change_id for change in changes])
        try:
            if writes:
                await self._write(writes, keeper)
            else:
                keeper.written(await keeper.keep((), ""))
        finally:
            # Continue when the turn is canceled meanwhile: the write has happened, and all listeners must learn of it.
            if keeper.done:
                self._done(planned, by)
                await despite_cancel(self._follow_up(changes, writes))

    async def _follow_up(self, changes: Sequence[FileSetChange], writes: Sequence[FileChange]) -> None:
        """Remove the folders that are empty now, and tell language servers of the files."""
        gone = {change.path for change in writes if change.after is None}
        folders = [folder for change in changes for folder in change.folders()]
        await asyncio.to_thread(remove_empty, folders, gone)
        if writes:
            changed = self._services.languages.diagnostics.changed
            told = [asyncio.ensure_future(changed(change.path)) for change in writes]
            await asyncio.wait(told, timeout=_TELL_S)

    def _done(self, planned: PlannedUndo, by: str) -> None:
        self._session.emit(
            FilesRestored(
                **self._session.record.here(),
                action=planned.action,
                files=tuple(restored_files(planned.proposal)),
                target=planned.target,
                changes=tuple(change.change_id for change in planned.changes),
                by=by,
            )
        )
        self._session.features.files_restored(self._session)  # it may have been the merge of a branch

    def _plan(
        self, groups: Sequence[Sequence[FileVersions]]
    ) -> tuple[list[FileChange], tuple[ProposedFile, ...]]:
        """Blocking."""
        planner = RestorePlanner(self._history.blobs, self._display, self._checker())
        planner.apply(groups)
        plan = planner.result()
        return plan, propose(plan, {change.path: self._display(change.path) for change in plan})

    def _checker(self) -> Callable[[Path], None]:
        """Return a function that rejects files that this session must not write: anyone may have made the history."""
        workspace, unsaved = self._services.workspace, self._services.editors.unsaved
        logged: set[str] | None = None

        def check(path: Path) -> None:
            nonlocal logged
            name = self._display(path)
            inside = path.is_relative_to(workspace) and not set(
                path.relative_to(workspace).parts
            ).intersection(_PRIVATE)
            if not inside:
                if logged is None:
                    events = self._services.store.events(self._session.session_id)
                    logged = {event.path for event in events if isinstance(event, FileChanged)}
                if name not in logged:
                    raise RestoreRefusedError(
                        t(
                            "{name} was not changed by this session. Nothing was changed.",
                            name=shown_name(name),
                        )
                    )
            if unsaved(path) is not None:
                raise RestoreRefusedError(
                    t(
                        "{name} has unsaved changes in the editor. Nothing was changed: save or discard them, "
                        "then try again.",
                        name=shown_name(name),
                    )
                )

        return check

    async def _write(self, plan: Sequence[FileChange], keeper: StepKeeper) -> None:
        services = self._services
        unseen = SessionFiles({}, services.editors)  # the model has not seen the new contents
        writing = StepWriting(services.workspace, keeper.action, unseen, keeper, services.folder.journal)
        try:
            await write_approved(plan, writing)
        except ToolError as error:
            keeper.failed()
            raise RestoreRefusedError(
                t("The change was not made. Try again. {error}", error=error)
            ) from error
        except BaseException:
            if not keeper.done:
                keeper.failed()
            raise

    def _since(self, message_id: str) -> tuple[Callable[[Caller], bool], str]:
        messages = self._session.state.messages
        message = next((m for m in messages if m.message_id == message_id), None)
        if message is None:
            raise UnknownChangeError(
                t("There is no message {message_id} in this session.", message_id=message_id[:100])
            )
        since = (message.sequence, 0)
        if message.role == "tool" and (caller := self.callers().get(message.tool_call_id or "")) is not None:
            since = (caller.message.sequence, caller.index)
        what = t("since message {sequence}", sequence=message.sequence)
        return (lambda caller: (caller.message.sequence, caller.index) >= since), what

    def _below(self, goal_id: str) -> tuple[Callable[[Caller], bool], str]:
        plan = self._session.state.plan
        goal = plan.goals.get(goal_id)
        if goal is None:
            raise UnknownChangeError(
                t("There is no goal with the id {goal_id} in this session.", goal_id=goal_id[:100])
            )

        def belongs(caller: Caller) -> bool:
            its = caller.goal_id
            if its is None or its not in plan.goals:
                return its == goal_id
            return its == goal_id or any(above.id == goal_id for above in plan.ancestors(its))

        number, name = plan.numbers().get(goal_id, ""), head(goal.description, 80)
        what = t("for the goal {numbers} {description}", numbers=number, description=name)
        return belongs, what.replace("  ", " ")

    def _name(self, change: FileSetChange) -> str:
        """Describe a change, e.g. ``edit of src/a.py``."""
        caller = self.callers().get(change.change_id)
        tool = caller.call.name if caller is not None else t("change")
        files = self._names([version.path for version in change.versions])
        return t("{tool} of {versions}", tool=tool, versions=files)

    def _names(self, paths: Sequence[Path]) -> str:
        names = [shown_name(self._display(path)) for path in dict.fromkeys(paths)]
        more = len(names) - MAX_NAMED
        return ", ".join(names[:MAX_NAMED]) + (t(" and {more} more", more=more) if more > 0 else "")

    def _display(self, path: Path) -> str:
        return rule_target(path, self._services.workspace)


def _find(changes: Sequence[FileSetChange], change_id: str | None) -> FileSetChange | None:
    if change_id is None:
        return None
    found = next((change for change in changes if change.change_id == change_id), None)
    if found is None:
        raise UnknownChangeError(
            t("There is no change {change_id} in this session's history.", change_id=change_id[:100])
        )
    return found


# -- writing an undo: it is recorded as a step of the history, not as a version of a tool call --


class StepKeeper:
    """The port ``VersionKeeper`` that keeps a step of the history."""

    def __init__(self, history: SessionHistory, action: Action, changes: Sequence[str]) -> None:
        self.action: Action = action
        self.done = False
        self._history = history
        self._changes = changes
        self._step: str | None = None

    async def keep(
        self, changes: Sequence[FileChange], tool_call_id: str, counts: Counts | None = None
    ) -> list[str]:
        self._step = await asyncio.to_thread(self._history.keep_step, self.action, self._changes, changes)
        return [self._step] * max(len(changes), 1)

    def written(self, versions: Sequence[str]) -> None:
        self.done = True
        if self._step is not None:
            self._history.step_done(self._step)

    async def settle(self, versions: Sequence[str], contents: Mapping[Path, bytes]) -> None:
        if self._step is not None:
            await asyncio.to_thread(self._history.settle_now, [self._step], contents)

    def remained(self, versions: Sequence[str]) -> None:
        # The step counts as not done: the next attempt finds what is done already, and does the rest.
        pass

    def failed(self, versions: Sequence[str] = ()) -> None:
        if self._step is not None:
            self._history.step_failed(self._step)
            self._step = None


class StepWriting(Struct, frozen=True):
    """The ports for the write of an undo, which is recorded as a step of the history."""

    workspace: Path
    tool_call_id: str
    files: SessionFiles
    history: StepKeeper
    journal: Path


def remove_empty(folders: Sequence[Path], gone: set[Path]) -> None:
    """Folders that were made for files which are gone again, when nothing else is in them."""
    for folder in sorted(set(folders), key=lambda path: len(path.parts), reverse=True):
        if any(path.is_relative_to(folder) for path in gone):
            with contextlib.suppress(OSError):  # not empty or a link, so not ours
                folder.rmdir()


# -- the files that an undo writes, as data and as text for the user and the model --

_DIFF_LINES = 2_000
_MAX_TOLD = 20


class Outcome(Struct, frozen=True):
    """The files that were written, or would be."""

    target: str
    files: tuple[FileDiff, ...]
    contents: tuple[bytes | None, ...] = ()
    """Their contents afterwards; None: the file is deleted."""


class PlannedUndo(Struct, frozen=True):
    """The planned writes of an undo or redo."""

    action: Action
    changes: tuple[FileSetChange, ...]
    target: str
    """Description for the user, e.g. ``edit of src/a.py``."""
    unknown: tuple[Path, ...]
    """Files that stay unchanged, because their old content is unknown."""
    writes: list[FileChange]
    proposal: tuple[ProposedFile, ...]

    @property
    def outcome(self) -> Outcome:
        """Return the outcome for a client."""
        contents = tuple(file.change.after for file in self.proposal)
        return Outcome(self.target, tuple(_shown(file) for file in self.proposal), contents)


def _shown(file: ProposedFile) -> FileDiff:
    return FileDiff(
        path=file.name,
        kind=file.change.kind,
        diff=limited(file.diff.text, max_lines=_DIFF_LINES),
        added=file.diff.added,
        removed=file.diff.removed,
        moved_from=file.source_name or None,
    )


def restored_files(proposal: Sequence[ProposedFile]) -> list[RestoredFile]:
    """Return the files as they are on disk afterwards; a move has both of its files."""
    found: list[RestoredFile] = []
    for file in proposal:
        if file.source is not None:
            found.append(RestoredFile(path=file.source_name, kind="delete", added=0, removed=0))
        found.append(
            RestoredFile(
                path=file.name, kind=file.change.kind, added=file.diff.added, removed=file.diff.removed
            )
        )
    return found


def revert_question(planned: PlannedUndo, name: Callable[[Path], str]) -> PermissionAsk:
    """May the model take these changes back? ``name``: of a file, as rules know it."""
    targets = tuple(name(change.path) for change in planned.writes)
    added = sum(file.diff.added for file in planned.proposal)
    removed = sum(file.diff.removed for file in planned.proposal)
    return PermissionAsk(
        permission="edit",
        targets=targets,
        title=t("Revert {target} (+{added} -{removed})", target=planned.target, added=added, removed=removed),
        suggestions=suggestions("edit", folder_patterns(targets)),
        proposal=planned.proposal,
    )


def revert_words(planned: PlannedUndo, names: Callable[[Sequence[Path]], str]) -> str:
    """Describe a revert for the model that requested it. ``names``: describes several files."""
    told = [_counted(file) for file in planned.proposal[:_MAX_TOLD]]
    more = len(planned.proposal) - len(told)
    words = "Its files already have their previous content."
    if told:
        listed = ", ".join(told) + (f" and {more} more" if more > 0 else "")
        words = f"Undone: {listed}. Read these files again before you rely on them."
    if planned.unknown:
        words += f" Not undone, because the previous content is unknown: {names(planned.unknown)}."
    return words


def _counted(file: ProposedFile) -> str:
    name = shown_name(file.name)
    if file.source is not None:
        return f"{shown_name(file.source_name)} (moved back to {name})"
    if file.change.after is None:
        return f"{name} (deleted)"
    new = "restored, " if file.change.before is None else ""
    return f"{name} ({new}+{file.diff.added} -{file.diff.removed})"
