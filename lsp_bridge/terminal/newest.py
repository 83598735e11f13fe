"""The session that a command means when none is named: this person's newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsp_bridge.client import Client, RpcError
from lsp_bridge.terminal.loose import mapping, mappings, string
from lsp_bridge.terminal.text import one_line

_PAGE = 50


@dataclass(frozen=True, slots=True)
class Newest:
    """``session_id``: empty when there is none. ``foreign``: so many came with the folder and were passed over."""

    session_id: str
    foreign: int


async def newest(client: Client, timeout_s: float | None = None) -> Newest:
    """The newest session of this person; one that came with the folder is only taken by its name.

    Raises RpcError when the newest cannot be read: an older one is another conversation. Else as ``Client.request``.
    """
    foreign = 0
    params: dict[str, Any] = {"limit": _PAGE}
    while True:
        listed = await client.request("goalwright/session/list", params, timeout_s)
        sessions = mappings(listed.get("sessions"))
        found = ""
        for session in sessions:
            params["before"] = session_id = string(mapping(session.get("trace")).get("traceId"))
            if session.get("foreign") is not True:
                found = session_id
                break
            foreign += 1
        for left in mappings(listed.get("unreadable")):
            if (name := string(left.get("sessionId"))) > found:
                why = one_line(string(left.get("why")))
                then = f" To go on with the one before it: --session {found}." if found else ""
                words = f"The newest session, {one_line(name)}, cannot be gone on with: {why}{then}"
                raise RpcError(0, words)
        if found or listed.get("more") is not True or not sessions:
            return Newest(found, foreign)
