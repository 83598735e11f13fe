"""Writing an undo: it is recorded as a step of the history, not as a version of a tool call."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from daemon.files.history import SessionHistory
    from daemon.files.versions import Action
    from daemon.loop.tool_context import SessionFiles
    from tools.tool import Counts, FileChange


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

    def failed(self) -> None:
        if self._step is not None:
            self._history.step_failed(self._step)


@dataclass(frozen=True, slots=True)
class StepWriting:
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
