"""The history of a sub-agent's files: kept with its own session, and with its caller's.

So undo, redo and lists of changes in the main session cover its sub-agents, as the work of the ``task`` call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from daemon.files.history import LineHistory, Place, SessionHistory
    from tools.tool import CommandWatch, Counts, FileChange


@dataclass(frozen=True, slots=True)
class SharedHistory:
    """Implements ``LineHistory``. ``call_id``: the ``task`` call in the session above."""

    own: SessionHistory
    above: LineHistory
    call_id: str
    _names: dict[str, str] = field(default_factory=dict[str, str])
    """Names of unwritten versions in the parent's history."""

    async def keep(
        self, changes: Sequence[FileChange], tool_call_id: str, counts: Counts | None = None
    ) -> Sequence[str]:
        own = await self.own.keep(changes, tool_call_id, counts)
        above = await self.above.keep(changes, self.call_id, counts)
        # One name per change, as the writer expects.
        self._names.update(zip(own, above, strict=True))
        return own

    def written(self, versions: Sequence[str]) -> None:
        self.own.written(versions)
        self.above.written(self._done(versions))

    async def settle(self, versions: Sequence[str], contents: Mapping[Path, bytes]) -> None:
        await self.own.settle(versions, contents)
        await self.above.settle([self._names[name] for name in versions if name in self._names], contents)

    def remained(self, versions: Sequence[str]) -> None:
        self.own.remained(versions)
        self.above.remained(self._done(versions))

    async def watch_command(self, tool_call_id: str) -> CommandWatch:
        """Watch a command once for both histories: a second watch would take its changes for someone else's."""
        return await self.own.watch_command(tool_call_id, self.above.places(self.call_id))

    def places(self, tool_call_id: str) -> list[Place]:
        return [*self.own.places(tool_call_id), *self.above.places(self.call_id)]

    def _done(self, versions: Sequence[str]) -> list[str]:
        return [above for name in versions if (above := self._names.pop(name, None)) is not None]
