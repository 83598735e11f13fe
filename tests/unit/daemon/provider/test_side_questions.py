"""Small questions to model servers."""

from __future__ import annotations

import asyncio

import pytest

from daemon.provider.side_questions import json_from


@pytest.mark.parametrize("other", [b"X-Original-Content-Length: 5", b"x-stored-content-length: 500"])
async def test_only_the_length_of_the_answer_itself_counts(other: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.0 200 OK\r\n%b\r\nContent-Length: 12\r\n\r\n{"data": []}' % other)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await json_from(f"http://127.0.0.1:{port}/models") == {"data": []}
