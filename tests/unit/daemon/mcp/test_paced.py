"""Floods of notifications: what is held back of them is heard soon, and nothing goes on reading in the background."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from daemon.mcp.transports import Paced, Received

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from anyio.streams.memory import MemoryObjectSendStream

BUSY = JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": "busy"})
CHANGED = JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")


@asynccontextmanager
async def flooded(*, goes_on: bool) -> AsyncGenerator[Paced]:
    """Yield what reads a server that announces a change behind many messages."""

    async def flood(to: MemoryObjectSendStream[Received]) -> None:
        for at in range(10**9 if goes_on else 301):
            await to.send(SessionMessage(CHANGED if at == 300 else BUSY))

    async def seen(message: Received) -> None:
        pass

    to_session, read = anyio.create_memory_object_stream[Received](0)
    task = asyncio.create_task(flood(to_session))
    try:
        yield Paced(read, seen)
    finally:
        task.cancel()
        await asyncio.wait({task})
        to_session.close()
        read.close()


async def heard_change(paced: Paced) -> None:
    received: Any = None
    async with asyncio.timeout(30):
        while received is None or received.message != CHANGED:
            received = await paced.receive()


async def test_a_change_is_heard_in_a_flood_that_goes_on() -> None:
    async with flooded(goes_on=True) as paced:
        await heard_change(paced)


async def test_nothing_reads_on_once_a_change_is_heard() -> None:
    async with flooded(goes_on=False) as paced:
        await heard_change(paced)
        assert [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}] == []
