"""The pool of connections to model servers."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import aiohttp

from daemon.provider.http import Http


async def test_requests_at_once_share_one_pool() -> None:
    left: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context["message"]))
    http = Http(read_timeout_s=5)

    async def ask() -> None:
        with contextlib.suppress(aiohttp.ClientError):
            async with http.post("http://127.0.0.1:1/", {}, [b""]):
                pass

    await asyncio.gather(ask(), ask())
    await http.aclose()
    gc.collect()
    assert left == []


async def test_an_error_that_comes_before_the_whole_body_is_sent() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge")
        await writer.drain()
        await done.wait()
        writer.close()

    done = asyncio.Event()
    http = Http(read_timeout_s=60)
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with (
            asyncio.timeout(30),
            http.post(f"http://127.0.0.1:{port}/", {}, [b"x" * 131_072] * 400) as response,
        ):
            assert (response.status, await response.text()) == (413, "large")
        done.set()
    await http.aclose()
