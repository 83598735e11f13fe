"""Bring what branches did into the main tree, as one change that the person reviews (source: issue 7, merge)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.base import Permission, ToolError
from tools.exploring import Told

if TYPE_CHECKING:
    from daemon.loop.session import Session


async def select(session: Session, choice: Sequence[str], permission: Permission, tool_call_id: str) -> Told:
    """Apply branches (``A``) or parts of them (``A:src/a.py``, ``B:docs``). Raises ToolError, PermissionDenied."""
    raise ToolError("There are no branches here.")
