"""What a client gets of many messages: all of them, in their order, in few pieces."""

from __future__ import annotations

import asyncio
import socket

from lsp_bridge.server.editor_server import Frames


class Client:
    """The two ends of a connection."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)

    async def frames(self) -> Frames:
        self._reader, writer = await asyncio.open_connection(sock=self._ours)
        return Frames(writer)

    async def reads(self) -> bytes:
        async with asyncio.timeout(10):
            return await asyncio.get_running_loop().sock_recv(self._theirs, 100)


async def test_messages_of_one_moment_arrive_as_one_piece() -> None:
    client = Client()
    frames = await client.frames()
    for letter in (b"a", b"b", b"c"):
        frames.write_soon(letter)
    assert frames.waiting == 3
    assert await client.reads() == b"abc"
    assert frames.waiting == 0
    frames.close()


async def test_answers_take_waiting_messages_with_them_in_order() -> None:
    client = Client()
    frames = await client.frames()
    frames.write_soon(b"a")
    frames.write(b"b")
    frames.write_soon(b"c")
    frames.write(b"d")
    assert await client.reads() == b"abcd"
    frames.write(b"e")
    assert await client.reads() == b"e"
    frames.close()


async def test_closing_sends_what_waits() -> None:
    client = Client()
    frames = await client.frames()
    frames.write_soon(b"last")
    frames.close()
    frames.write_soon(b"too late")
    frames.flush()
    assert await client.reads() == b"last"
    assert await client.reads() == b""
