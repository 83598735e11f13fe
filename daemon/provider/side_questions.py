"""Ask a model server something small beside the conversation. By hand: an HTTP library takes longer to import than the
answer takes. Redirects are not followed, so a key goes nowhere else."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ANSWER = 4_000_000
"""Bytes. A list of all models of a large provider has about one million."""


class NotAnsweredError(Exception):
    """Nobody there, or no answer of the kind that was asked for. ``status``: the HTTP status when it was not 200."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _RefusedError(ValueError):
    """An answer with another status than 200."""

    def __init__(self, line: str, status: int | None) -> None:
        super().__init__(line)
        self.status = status


async def json_from(
    url: str, *, headers: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
) -> Any:
    """Return the JSON that answers a GET, or a POST of ``body``. Raises NotAnsweredError. Callers set the timeout.

    Any: it is what a server sends, so callers must check it.
    """
    try:
        return json.loads(await _fetch(url, headers or {}, body))
    except (OSError, ValueError, RecursionError, EOFError, asyncio.LimitOverrunError) as error:
        status = error.status if isinstance(error, _RefusedError) else None
        raise NotAnsweredError(f"no answer from {urlsplit(url).hostname}: {error}", status) from error


async def _fetch(url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None) -> bytes:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    sent = b"" if body is None else json.dumps(body).encode()
    # HTTP/1.0, so that the answer ends with the connection and is never chunked.
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.0"]
    lines += [f"Host: {parts.netloc.rpartition('@')[2]}", *(f"{k}: {v}" for k, v in headers.items())]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(sent)}"]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header has more than one line")
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secure or None)
    try:
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        if not re.match(rb"HTTP/1\.\d 200\b", head):
            status = re.match(rb"HTTP/1\.\d (\d{3})\b", head)
            raise _RefusedError(
                head.partition(b"\r\n")[0].decode("latin-1"), int(status[1]) if status else None
            )
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if length and int(length[1]) > MAX_ANSWER:
            raise ValueError("the answer is too long")
        if length:
            return await reader.readexactly(int(length[1]))
        data = await reader.read(MAX_ANSWER)
        while piece := await reader.read(MAX_ANSWER):
            data += piece
            if len(data) > MAX_ANSWER:
                raise ValueError("the answer is too long")
        return data
    finally:
        writer.close()
