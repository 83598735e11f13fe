"""Ask a model server something small outside the conversation. By hand: an HTTP library takes longer to import than the
answer takes. Redirects are not followed, so a key goes nowhere else."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from daemon.provider.errors import host_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ANSWER = 4_000_000
"""Bytes. A list of all models of a large provider has about one million."""


class NotAnsweredError(Exception):
    """Nobody there, or no answer of the kind that was asked for. ``status``: the HTTP status when it was not 200."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


async def json_from(
    url: str, *, headers: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
) -> Any:
    """Return the JSON that answers a GET, or a POST of ``body``. Raises NotAnsweredError. Callers set the timeout.

    Any: it is what a server sends, so callers must check it.
    """
    said = f"no answer from {host_of(url)}"
    try:
        status, data = await _fetch(url, headers or {}, body)
        if status == b"200":
            return json.loads(data)
    except (OSError, ValueError, RecursionError, EOFError, asyncio.LimitOverrunError) as error:
        raise NotAnsweredError(f"{said}: {error}") from error
    raise NotAnsweredError(f"{said}: {data.decode('latin-1')}", int(status) if status else None)


async def _fetch(url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None) -> tuple[bytes, bytes]:
    """Return the status, empty when there is none, and the body; for another status than 200 its line."""
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
        status = re.match(rb"HTTP/1\.\d (\d{3})\b", head)
        if status is None or status[1] != b"200":
            return status[1] if status else b"", head.partition(b"\r\n")[0]
        length = re.search(rb"\ncontent-length: *(\d+)", head, re.IGNORECASE)
        if length and int(length[1]) > MAX_ANSWER:
            raise ValueError("the answer is too long")
        if length:
            return status[1], await reader.readexactly(int(length[1]))
        data = await reader.read(MAX_ANSWER)
        while piece := await reader.read(MAX_ANSWER):
            data += piece
            if len(data) > MAX_ANSWER:
                raise ValueError("the answer is too long")
        return status[1], data
    finally:
        writer.close()
