"""Places for children: fair, never more than the limit, none lost to a cancel."""

from __future__ import annotations

import asyncio
import random

import pytest

from daemon.loop.services import ChildSlots
from tests.support.drivers.waiting import until


async def test_slots_are_given_in_order_and_never_exceed_the_limit() -> None:
    places, most = ChildSlots(), 0
    begun: list[int] = []
    go = asyncio.Event()

    async def work(number: int) -> None:
        nonlocal most
        async with places.place(2):
            begun.append(number)
            most = max(most, places.working)
            await go.wait()
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(work(n)) for n in range(7)]
    await until(lambda: len(begun) == 2)
    go.set()
    await asyncio.gather(*tasks)
    assert begun == list(range(7))
    assert most == 2
    assert places.working == 0


@pytest.mark.parametrize("seed", range(20))
async def test_cancellation_at_any_moment_loses_no_slot(seed: int) -> None:
    places, rolled = ChildSlots(), random.Random(seed)

    async def work() -> None:
        async with places.place(3):
            for _ in range(rolled.randrange(4)):
                await asyncio.sleep(0)
            if rolled.random() < 0.2:
                raise ValueError

    tasks = [asyncio.create_task(work()) for _ in range(30)]
    while not all(task.done() for task in tasks):
        if rolled.random() < 0.4:
            rolled.choice(tasks).cancel()
        await asyncio.sleep(0)
    assert places.working == 0
    async with asyncio.timeout(10):
        await work_once(places)


async def work_once(places: ChildSlots) -> None:
    async with places.place(1):
        assert places.working == 1


async def test_larger_limit_does_not_overtake_an_earlier_waiter() -> None:
    places = ChildSlots()
    first = asyncio.Event()
    order: list[str] = []

    async def work(name: str, limit: int, go: asyncio.Event | None = None) -> None:
        async with places.place(limit):
            order.append(name)
            if go is not None:
                await go.wait()

    one = asyncio.create_task(work("a", 1, first))
    await until(lambda: order == ["a"])
    two = asyncio.create_task(work("b", 1))
    three = asyncio.create_task(work("c", 5))
    await asyncio.sleep(0)
    first.set()
    await asyncio.gather(one, two, three)
    assert order == ["a", "b", "c"]
