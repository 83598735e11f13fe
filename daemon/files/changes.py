"""A session's changes as users think of them: one for each tool call, done or undone. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.files.restore import reversed_entries
from daemon.files.versions import FileVersions, RestoreStep, Version, VersionRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class FileSetChange(Struct):
    """The changes that one tool call made to files; ``last`` is the user's latest undo or redo of them."""

    change_id: str
    """The id of the tool call."""
    versions: list[Version] = field(default_factory=list[Version])
    last: RestoreStep | None = None

    @property
    def time(self) -> datetime:
        """When it was made, with a time zone."""
        try:
            found = datetime.fromisoformat(self.versions[0].time)
        except ValueError:
            found = datetime.fromtimestamp(0, UTC)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    @property
    def undone(self) -> bool:
        """Whether it was undone (and can be redone)."""
        return self.last is not None and self.last.action != "redo"

    @property
    def entries(self) -> list[FileVersions]:
        """The files it changed, as far as their contents are known."""
        return [version.entry for version in self.versions if version.entry is not None]

    @property
    def unknown(self) -> list[Path]:
        """Files whose old content is not known: they cannot be undone."""
        return [version.path for version in self.versions if version.entry is None]

    def forward(self) -> list[FileVersions]:
        """Return what redoing it applies: the reversed undo, so that undo and redo lead back to the same bytes."""
        step = self._own_step
        return self.entries if step is None else reversed_entries(step.files)

    def backward(self) -> list[FileVersions]:
        """Return what undoing it applies."""
        step = self._own_step
        return reversed_entries(self.entries if step is None else step.files)

    def folders(self) -> list[Path]:
        """Folders that were made for its files, outer ones first."""
        made = [*self.entries, *(self.last.files if self.last is not None else ())]
        return list(dict.fromkeys(folder for entry in made for folder in entry.folders))

    @property
    def _own_step(self) -> RestoreStep | None:
        """The last step, when it was about this change only: turning it round is exact."""
        return self.last if self.last is not None and self.last.changes == (self.change_id,) else None


def changes_of(record: VersionRecord) -> list[FileSetChange]:
    """Return all changes, oldest first."""
    found: dict[str, FileSetChange] = {}
    for version in record.versions():
        found.setdefault(version.tool_call_id, FileSetChange(version.tool_call_id)).versions.append(version)
    for step in record.steps():
        for change_id in step.changes:
            if change_id in found:
                found[change_id].last = step
    return list(found.values())


def next_undo(changes: Sequence[FileSetChange]) -> FileSetChange | None:
    """Return the newest change that can be undone."""
    return next((c for c in reversed(changes) if not c.undone and c.entries), None)


def next_redo(changes: Sequence[FileSetChange], steps: Sequence[RestoreStep]) -> FileSetChange | None:
    """Return the change that was undone last; of those undone together the oldest, so that they come back in order."""
    by_id = {change.change_id: change for change in changes}
    for step in reversed(steps):
        for change_id in reversed(step.changes):  # a step lists the newest change first
            change = by_id.get(change_id)
            if change is not None and change.undone and change.last is step:
                return change
    return None
