"""Calls between two processes: answers, streams, errors, cancellation, and an end in the middle."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from daemon.provider.model_calls import ProviderError
from daemon.remote.peer import Handler, Peer, PeerLostError, StreamPipe
from tests.support.drivers.waiting import until
from tools.tool import PermissionDeniedError


@asynccontextmanager
async def connected(handlers: dict[str, Handler]) -> AsyncGenerator[tuple[Peer, StreamPipe]]:
    """One end, and the pipe of the other one, which has these handlers."""
    ours, theirs = socket.socketpair()
    here = StreamPipe(*await asyncio.open_connection(sock=ours))
    there = StreamPipe(*await asyncio.open_connection(sock=theirs))
    peers = Peer(here, {}), Peer(there, handlers)
    running = [asyncio.create_task(peer.run()) for peer in peers]
    try:
        yield peers[0], there
    finally:
        here.close()
        there.close()
        await asyncio.gather(*running)


async def test_calls_are_answered_side_by_side() -> None:
    order: list[str] = []
    go = asyncio.Event()

    async def slow(text: str) -> str:
        await go.wait()
        order.append(text)
        return text.upper()

    def quick(text: str) -> str:
        order.append(text)
        go.set()
        return text

    async with connected({"slow": slow, "quick": quick}) as (peer, _):
        large = "x" * (1 << 20)
        assert await asyncio.gather(peer.call("slow", large), peer.call("quick", "b")) == [large.upper(), "b"]
        assert order == ["b", large]


async def test_errors_are_the_same_on_the_other_side() -> None:
    def rejects() -> None:
        raise PermissionDeniedError("no", "not that", metadata={"by": "me"})

    async def fails() -> AsyncGenerator[int]:
        yield 1
        raise ProviderError("overflow", "too long", retryable=True, window=7)

    async with connected({"rejects": rejects, "fails": fails}) as (peer, _):
        with pytest.raises(PermissionDeniedError) as denied:
            await peer.call("rejects")
        assert (denied.value.feedback, denied.value.metadata) == ("not that", {"by": "me"})
        got: list[int] = []
        with pytest.raises(ProviderError, match="too long") as failed:
            async for item in peer.stream("fails"):
                got.append(item)
        assert got == [1]
        assert (failed.value.kind, failed.value.retryable, failed.value.window) == ("overflow", True, 7)


async def test_a_canceled_call_is_canceled_there() -> None:
    state: list[str] = []

    async def waits() -> None:
        state.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            state.append("ended")

    async with connected({"waits": waits}) as (peer, _):
        calling = asyncio.create_task(peer.call("waits"))
        await until(lambda: state)
        calling.cancel()
        await until(lambda: state == ["began", "ended"])


async def test_an_end_in_the_middle_fails_all_calls() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async with connected({"waits": waits}) as (peer, pipe):
        calling = asyncio.create_task(peer.call("waits"))
        await asyncio.sleep(0)
        pipe.close()
        with pytest.raises(PeerLostError):
            await calling
        with pytest.raises(PeerLostError):
            await peer.call("waits")
