"""The files that an undo or redo writes, as data and as text for the user and the model. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.model.events import RestoredFile
from daemon.model.permissions import FileDiff
from tools.access import suggestions
from tools.diff.unified_diff import limited, shown_name
from tools.localization import t
from tools.paths import folder_patterns
from tools.tool import FileChange, PermissionAsk, ProposedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from daemon.files.changes import FileSetChange
    from daemon.files.versions import Action

_DIFF_LINES = 2_000
_MAX_TOLD = 20


@dataclass(frozen=True, slots=True)
class UndoOutcome:
    """The files that were written, or would be."""

    target: str
    files: tuple[FileDiff, ...]
    contents: tuple[bytes | None, ...] = ()
    """Their contents afterwards; None: the file is deleted."""


@dataclass(frozen=True, slots=True)
class PlannedUndo:
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
    def outcome(self) -> UndoOutcome:
        """Return the outcome for a client."""
        contents = tuple(file.change.after for file in self.proposal)
        return UndoOutcome(self.target, tuple(_shown(file) for file in self.proposal), contents)


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
