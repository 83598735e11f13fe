"""Messages of the Agent Client Protocol as lines of JSON.

The SDK's own transport ends at a line that is no object, and never ends while an editor that is gone has left output
unread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, cast

from acp.meta import AGENT_METHODS
from acp.schema import CancelNotification, NewSessionRequest
from pydantic import ValidationError

from lsp_bridge.cli.acp.content import odd_server
from tools.json_access import mapping, mappings
from tools.localization import t
from tools.text.terminal import shown_brief
from tools.text.validation import reasons, wrong_values

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

log = logging.getLogger(__name__)

MAX_LINE = 50 * 1024 * 1024
"""Bytes that are held of a line at once; longer lines arrive, too."""
_ENTERING = [AGENT_METHODS[f"session_{name}"] for name in ("new", "load", "resume", "fork")]
_MOST_CHECKED = 100
"""MCP servers of a session whose form is checked; 20 of them are used."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class Lines:
    """A transport of the SDK (``acp._transport.Transport``)."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; returns when there is room for the next one."""
        self._writer.write(_encoded(_worded(message)))
        # All who wait share one future, which must survive that one of them is cancelled.
        await asyncio.shield(asyncio.ensure_future(self._writer.drain()))

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None when the editor has hung up.

        A line that is none is answered with an error. A notification that cannot be used has no answer: it is left out.
        """
        while line := await self._line():
            try:
                message: object = json.loads(line) if line.strip() else {}
            except (ValueError, RecursionError):
                await self._reject(_PARSE_ERROR, "Not JSON")
                continue
            if not isinstance(message, dict):
                await self._reject(_INVALID_REQUEST, "Not an object: batches are not supported")
                continue
            found = cast("dict[str, Any]", message)
            if not isinstance(found.get("method", ""), str):
                await self._reject(_INVALID_REQUEST, "The method is not text")
            elif why := _unused(found):
                log.info("a notification of the editor is not used: %s", shown_brief(why, 300))
            else:
                if not isinstance(error := found.get("error") or {}, dict):  # the SDK would fail
                    found["error"] = {"message": shown_brief(str(error), 300)}
                return _with_odd_servers(found)
        return None

    async def close(self) -> None:
        """Do nothing: stdin and stdout end with the process."""

    async def _reject(self, code: int, message: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})

    async def _line(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            try:
                return b"".join([*pieces, await self._reader.readuntil(b"\n")])
            except asyncio.LimitOverrunError as long:
                pieces.append(await self._reader.readexactly(long.consumed))
            except asyncio.IncompleteReadError as end:
                return b"".join([*pieces, end.partial])


def _unused(message: dict[str, Any]) -> str:
    """Return why a message is a notification that cannot be used; empty for all others. The SDK writes a traceback for
    those to stderr, with all that was received."""
    method = message.get("method")
    if method is None or "id" in message or method.startswith("_"):
        return ""
    if method != AGENT_METHODS["session_cancel"]:
        return f"there is no notification {method}"
    try:
        CancelNotification.model_validate(message.get("params"))
    except ValidationError as error:
        return f"{method}: {wrong_values(error)}"
    return ""


def _with_odd_servers(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that names MCP servers with those of no form in it: the SDK leaves them out without a word."""
    params = mapping(message.get("params"))
    given = params.get("mcpServers")
    if message.get("method") not in _ENTERING or not isinstance(given, list):
        return message
    servers = [
        one if at > _MOST_CHECKED or _is_server(one) else odd_server(one)
        for at, one in enumerate(cast("list[Any]", given), 1)
    ]
    return {**message, "params": {**params, "mcpServers": servers}}


def _is_server(entry: object) -> bool:
    try:
        return bool(NewSessionRequest.model_validate({"cwd": "/", "mcpServers": [entry]}).mcp_servers)
    except ValidationError:
        return False


def _worded(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer about wrong params in our words. The SDK sends pydantic's, with all that was received."""
    error = mapping(message.get("error"))
    wrong = mappings(mapping(error.get("data")).get("errors"))
    if not wrong:
        return message
    why = reasons(wrong)
    told = {"code": error.get("code"), "message": t("Invalid params: {why}.", why=shown_brief(why, 1_000))}
    return {**message, "error": told}


def _encoded(message: dict[str, Any]) -> bytes:
    """Return the line. A half of a surrogate pair, as in names of files that are not UTF-8, becomes ``?``: many parsers
    reject the whole message for it. Line separators are escaped, because Node's readline ends lines there."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    line = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return line.encode("utf-8", "replace") + b"\n"
