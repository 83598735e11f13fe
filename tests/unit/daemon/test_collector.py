from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from daemon.collector import Collector
from tests.support.drivers.waiting import until


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector(busy=lambda: 0.0)
    found.install()
    yield found
    found.uninstall()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_what_a_full_collection_has_left_is_not_looked_at_again(collector: Collector) -> None:
    kept = [[number] for number in range(1000)]
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())
    assert collector.settlings == 1


def test_what_dies_is_freed_all_the_same_by_counting(collector: Collector) -> None:
    class Kept:
        pass

    kept = Kept()
    seen = weakref.ref(kept)
    gc.collect()
    del kept
    assert seen() is None


def test_circles_that_die_unseen_are_found_by_a_look_at_everything(collector: Collector) -> None:
    circle = Circle()
    seen = weakref.ref(circle)
    gc.collect()
    del circle
    gc.collect()
    assert seen() is not None
    collector.look_at_all()
    assert seen() is None
    assert collector.settlings == 0


async def test_everything_is_looked_at_when_nothing_else_is_to_be_done(collector: Collector) -> None:
    circle = Circle()
    seen = weakref.ref(circle)
    gc.collect()
    del circle
    collector.settlings = 1000
    tending = asyncio.create_task(collector.tend(looks_s=0.001))
    await until(lambda: seen() is None, "the look at everything")
    tending.cancel()


async def test_what_died_out_of_sight_is_looked_for_soon(collector: Collector) -> None:
    mark = collector.born()
    circle = Circle()
    seen = weakref.ref(circle)
    gc.collect()
    del circle
    tending = asyncio.create_task(collector.tend(looks_s=0.001))
    collector.died(collector.born())  # never out of sight: no reason to look
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert seen() is not None
    collector.died(mark)
    await until(lambda: seen() is None, "the look at everything")
    tending.cancel()


async def test_nothing_is_looked_at_while_there_is_work() -> None:
    times = iter(range(10**6))
    asked: list[int] = []

    def busy() -> float:
        asked.append(next(times))
        return float(asked[-1])

    collector = Collector(busy=busy)
    collector.install()
    try:
        collector.settlings = 1000
        tending = asyncio.create_task(collector.tend(looks_s=0.001))
        await until(lambda: len(asked) > 5, "several looks")
        tending.cancel()
        assert collector.settlings >= 1000
    finally:
        collector.uninstall()


def test_nothing_is_collected_while_much_is_made_and_it_is_settled_then(collector: Collector) -> None:
    with collector.building():
        made = [[number] for number in range(50_000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not any(each is made[0] for each in gc.get_objects())


def test_little_that_was_made_stays_in_sight(collector: Collector) -> None:
    with collector.building():
        made = [[number] for number in range(100)]
    assert any(each is made[0] for each in gc.get_objects())
    assert collector.settlings == 0


def test_the_last_of_several_threads_lets_the_collector_go_on(collector: Collector) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        inside.set()
        leave.wait(30)

    other = threading.Thread(target=collector.run, args=(work,))
    other.start()
    inside.wait(30)
    with pytest.raises(ZeroDivisionError), collector.building():
        raise ZeroDivisionError
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()


def test_one_that_is_not_installed_changes_nothing() -> None:
    with Collector().building():
        assert gc.isenabled()
