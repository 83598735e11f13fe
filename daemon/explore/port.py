"""The ``Explorer`` of a call, imported when it is used: most turns explore nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.base import Permission
from tools.exploring import Told

if TYPE_CHECKING:
    from daemon.loop.session import Session


class LazyExplorer:
    """Implements ``tools.exploring.Explorer`` for one call of ``session``."""

    def __init__(self, session: Session, call_id: str, permission: Permission) -> None:
        self._session = session
        self._call_id = call_id
        self._permission = permission

    async def explore(self, branches: Sequence[str], background: str | None) -> Told:
        """See Explorer."""
        from daemon.explore.exploring import SessionExplorer

        explorer = SessionExplorer(self._session, self._call_id, self._permission)
        return await explorer.explore(branches, background)

    async def select(self, choice: Sequence[str]) -> Told:
        """See Explorer."""
        from daemon.explore.merging import select

        return await select(self._session, choice, self._permission, self._call_id)
