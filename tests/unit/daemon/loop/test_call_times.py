"""How long calls ran, alone and at the same time."""

from __future__ import annotations

from daemon.loop.parallel_calls import CallTime, CallTimes
from daemon.permission.service import WaitingTime


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_time_in_which_a_call_waited_is_not_counted() -> None:
    clock = Clock()
    times, waited = CallTimes(clock), WaitingTime()
    times.asks("c1", waited)
    assert times.begin("c1") == 100.0
    clock.seconds += 5
    waited.seconds += 3
    assert times.end("c1") == CallTime(2000)
    assert times.end("c1") == times.end("never run") == CallTime()


def test_concurrent_calls_count_their_overlap_only_once() -> None:
    clock = Clock()
    times = CallTimes(clock)
    for call in ("c1", "c2", "c3"):
        times.begin(call)
    clock.seconds += 2
    first = times.end("c1")
    second = times.end("c2")
    clock.seconds += 1
    third = times.end("c3")
    assert [first, second, third] == [CallTime(2000), CallTime(2000, 2000), CallTime(3000, 2000)]
    times.begin("c4")
    clock.seconds += 1
    assert times.end("c4") == CallTime(1000)
