"""The Navigation port before anybody has asked anything: what answers is imported with the first question.

A daemon that is never asked where something is defined starts faster, and keeps less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tools.language import DefinitionKind, Navigation, Places, Position, RenamedText, Symbols


class LazyNavigation:
    """See tools.language.Navigation. ``make`` runs in a thread, because it imports; it touches no event loop."""

    def __init__(self, make: Callable[[], Navigation]) -> None:
        self._make = make
        self._made: Navigation | None = None

    async def definition(self, at: Position, kind: DefinitionKind = "definition") -> Places:
        """See the port."""
        return await (await self._real()).definition(at, kind)

    async def references(self, at: Position) -> Places:
        """See the port."""
        return await (await self._real()).references(at)

    async def outline(self, path: Path) -> Symbols:
        """See the port."""
        return await (await self._real()).outline(path)

    async def find(self, query: str, near: Path | None = None) -> Symbols:
        """See the port."""
        return await (await self._real()).find(query, near)

    async def hover(self, at: Position) -> str:
        """See the port."""
        return await (await self._real()).hover(at)

    async def rename(self, at: Position, new_name: str) -> tuple[RenamedText, ...]:
        """See the port."""
        return await (await self._real()).rename(at, new_name)

    async def _real(self) -> Navigation:
        if self._made is None:
            made = await asyncio.to_thread(self._make)
            # Two may have asked at once: one is kept.
            self._made = self._made or made
        return self._made
