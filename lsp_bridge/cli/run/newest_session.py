"""The session that a command means when none is named: the user's own that was used last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lsp_bridge.cli.client import Client, RpcError
from lsp_bridge.cli.text import one_line
from tools.json_access import mapping, mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE = 50


class NewestSession(NamedTuple):
    """``session_id``: empty when there is none. ``foreign``: number of imported sessions that were skipped."""

    session_id: str
    foreign: int


def trace_id(about: Mapping[str, Any]) -> str:
    """Return the id of a session: of a ``SessionInfo``, or of an answer with one as ``session``."""
    info = mapping(about.get("session")) or about
    return string(mapping(info.get("trace")).get("traceId"))


async def newest(client: Client, timeout_s: float | None = None) -> NewestSession:
    """Return the session that the user worked with last; one that came with the folder is only taken by its name.

    Raises RpcError when it cannot be read: an older one is another conversation. Else as ``Client.request``.
    """
    foreign = 0
    params: dict[str, Any] = {"limit": _PAGE}
    while True:
        listed = await client.request("goalwright/session/list", params, timeout_s)
        sessions = mappings(listed.get("sessions"))
        last = string(listed.get("lastUsed"))
        found = ""
        for session in sessions:
            if trace_id(session) == last:
                return NewestSession(last, foreign)
        for session in sessions:
            params["before"] = session_id = trace_id(session)
            if session.get("foreign") is not True:
                found = session_id
                break
            foreign += 1
        for left in mappings(listed.get("unreadable")):
            if (name := string(left.get("sessionId"))) == last or (not last and name > found):
                name, why = one_line(name), one_line(string(left.get("why")))
                then = t(" To continue the one before it: --session {found}.", found=found) if found else ""
                raise RpcError(
                    0,
                    t(
                        "The last session used, {name}, cannot be continued: {why}{then}",
                        name=name,
                        why=why,
                        then=then,
                    ),
                )
        if last:
            return NewestSession(last, foreign)
        if found or listed.get("more") is not True or not sessions:
            return NewestSession(found, foreign)
