from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.gc_tuning import GcTuner, give_back
from tests.support.drivers.waiting import until


@pytest.fixture
def collector() -> Iterator[GcTuner]:
    found = GcTuner(busy=lambda: 0.0)
    found.install()
    yield found
    found.uninstall()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.freeze()  # the collected tests again, see tests/conftest.py


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_objects_surviving_a_full_collection_are_frozen(collector: GcTuner) -> None:
    kept = [[number] for number in range(1000)]
    gc.collect()
    assert not any(each is kept[0] for each in gc.get_objects())
    assert collector.settlings == 1


def test_frozen_objects_are_freed_by_reference_counting(collector: GcTuner) -> None:
    class Kept:
        pass

    kept = Kept()
    seen = weakref.ref(kept)
    gc.collect()
    del kept
    assert seen() is None


def test_full_collection_finds_frozen_reference_cycles(collector: GcTuner) -> None:
    circle = Circle()
    seen = weakref.ref(circle)
    gc.collect()
    del circle
    gc.collect()
    assert seen() is not None
    collector.look_at_all()
    assert seen() is None
    assert collector.settlings == 0


async def test_full_collection_runs_when_idle(collector: GcTuner) -> None:
    circle = Circle()
    seen = weakref.ref(circle)
    gc.collect()
    del circle
    collector.settlings = 1000
    tending = asyncio.create_task(collector.tend(looks_s=0.001))
    await until(lambda: seen() is None, "the look at everything")
    tending.cancel()


async def test_dead_frozen_objects_trigger_a_full_collection(collector: GcTuner) -> None:
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


async def test_no_full_collection_runs_while_busy() -> None:
    times = iter(range(10**6))
    asked: list[int] = []

    def busy() -> float:
        asked.append(next(times))
        return float(asked[-1])

    collector = GcTuner(busy=busy)
    collector.install()
    try:
        collector.settlings = 1000
        tending = asyncio.create_task(collector.tend(looks_s=0.001))
        await until(lambda: len(asked) > 5, "several looks")
        tending.cancel()
        assert collector.settlings >= 1000
    finally:
        collector.uninstall()


def test_collection_is_off_while_building_and_objects_are_frozen(collector: GcTuner) -> None:
    with collector.building():
        made = [[number] for number in range(50_000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not any(each is made[0] for each in gc.get_objects())


def test_few_new_objects_stay_under_the_collector(collector: GcTuner) -> None:
    with collector.building():
        made = [[number] for number in range(100)]
    assert any(each is made[0] for each in gc.get_objects())
    assert collector.settlings == 0


def test_collection_resumes_after_the_last_building_thread(collector: GcTuner) -> None:
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


def test_uninstalled_collector_changes_nothing() -> None:
    with GcTuner().building():
        assert gc.isenabled()


def test_free_memory_goes_back_to_the_system() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    pieces = [bytes(2_000) for _ in range(40_000)]
    kept, before = pieces[::100], resident()  # between the others, so that the C library alone keeps these
    del pieces
    give_back()
    assert resident() < before - 40_000_000
    assert len(kept) == 400


def test_threads_share_one_pool_of_memory() -> None:
    program = """
import ctypes, sys, threading
from daemon.gc_tuning import share_memory
if sys.argv[1] == "shared":
    share_memory()
pieces = []
def work(gate=threading.Barrier(8)):
    gate.wait()
    pieces.extend(bytes(2_000) for _ in range(100))
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
ctypes.CDLL(None).malloc_stats()
"""

    def pools(how: str) -> int:
        run = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True)
        return run.stderr.count("Arena ")

    assert pools("shared") == 1 < pools("apart")
