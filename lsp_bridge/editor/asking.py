"""Requests of ours to an editor."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer


async def ask(server: LanguageServer, method: str, params: object, timeout_s: float | None = None) -> Any:
    """The editor's answer to a request of LSP's.

    Raises TimeoutError, and what the editor answers as an error. When the caller does not want the answer any more
    (cancellation, no answer in time) the editor is told so; an answer that comes all the same harms nobody, which is
    why pygls' own future is never cancelled: it takes no answer after that.
    """
    message_id = str(uuid.uuid4())
    answer = asyncio.wrap_future(server.protocol.send_request(method, params, msg_id=message_id))
    answer.add_done_callback(_seen)
    try:
        return await asyncio.wait_for(asyncio.shield(answer), timeout_s)
    except (asyncio.CancelledError, TimeoutError):
        server.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(id=message_id))
        raise


def _seen(answer: asyncio.Future[Any]) -> None:
    """An error that nobody waits for is no news."""
    if not answer.cancelled():
        answer.exception()
