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
            async with http.post("http://127.0.0.1:1/", {}, b""):
                pass

    await asyncio.gather(ask(), ask())
    await http.aclose()
    gc.collect()
    assert left == []
