"""Calls that are made again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from daemon.model.messages import Usage
from daemon.provider.model_calls import (
    Complete,
    ErrorKind,
    ModelRequest,
    ProviderError,
    ProviderEvent,
    ProviderEvents,
    Retry,
    TextDelta,
)
from daemon.provider.retry import ATTEMPTS, with_retry
from tests.support.scenarios.model_requests import collect, request

DONE = Complete((), "end_turn", Usage(), "m")


class Flaky:
    """Fails with the given errors, one a call, and then answers."""

    def __init__(self, *errors: ProviderError) -> None:
        self.left = list(errors)
        self.calls = 0
        self.closed = 0

    async def stream(self, request: ModelRequest) -> ProviderEvents:
        self.calls += 1
        try:
            yield TextDelta(0, "a")
            if self.left:
                raise self.left.pop(0)
            yield DONE
        finally:
            self.closed += 1


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def error(kind: ErrorKind = "server", after: float | None = None, *, retryable: bool = True) -> ProviderError:
    return ProviderError(kind, f"it is {kind}", retryable=retryable, retry_after_s=after)


async def play(
    provider: Flaky, clock: Clock, rand: float = 1.0, tries: int | None = None
) -> list[ProviderEvent]:
    noon = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
    return await collect(
        with_retry(
            provider, request(), sleep=clock.sleep, rand=lambda: rand, now=lambda: noon, max_attempts=tries
        )
    )


async def test_a_call_that_works_is_passed_through() -> None:
    clock = Clock()
    assert await play(Flaky(), clock) == [TextDelta(0, "a"), DONE]
    assert clock.slept == []


async def test_a_passing_failure_is_told_and_tried_again() -> None:
    provider, clock = Flaky(error("overloaded")), Clock()
    events = await play(provider, clock)
    assert events[1] == Retry(1, 1.0, "the service is overloaded", ATTEMPTS["overloaded"])
    assert events[-1] == DONE
    assert provider.closed == provider.calls == 2


async def test_delays_double_up_to_the_limit() -> None:
    provider, clock = Flaky(*[error("overloaded") for _ in range(7)]), Clock()
    await play(provider, clock)
    assert clock.slept == [1, 2, 4, 8, 16, 30, 30]


async def test_chance_takes_up_to_half_of_a_delay_off() -> None:
    clock = Clock()
    await play(Flaky(error(), error()), clock, rand=0.0)
    assert clock.slept == [0.5, 1.0]


async def test_the_wait_that_the_server_asks_for_comes_first() -> None:
    clock = Clock()
    await play(Flaky(error("rate_limit", after=42.0)), clock)
    assert clock.slept == [42.0]


async def test_a_server_that_asks_for_no_wait_gets_the_usual_one() -> None:
    clock = Clock()
    await play(Flaky(error("rate_limit", after=0.0), error("rate_limit", after=0.0)), clock)
    assert clock.slept == [1.0, 2.0]


async def test_tiny_waits_do_not_use_up_all_attempts_at_once() -> None:
    clock = Clock()
    asked = (0.001, 0.001, 42.0, 0.3)
    await play(Flaky(*[error("rate_limit", after=after) for after in asked]), clock)
    assert clock.slept == [0.001, 2.0, 42.0, 8.0]


async def test_an_absurd_wait_is_not_waited_for_but_told() -> None:
    clock = Clock()
    with pytest.raises(ProviderError, match=r"^it is rate_limit\. It asks to wait until 14:00") as caught:
        await play(Flaky(error("rate_limit", after=7200.0)), clock)
    assert clock.slept == []
    assert caught.value.overloaded


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [("overloaded", 8), ("rate_limit", 8), ("network", 4), ("server", 4), ("malformed", 4)],
)
async def test_each_kind_has_its_number_of_attempts(kind: ErrorKind, attempts: int) -> None:
    provider = Flaky(*[error(kind) for _ in range(20)])
    with pytest.raises(ProviderError, match=f"tried {attempts} times") as caught:
        await play(provider, Clock())
    assert provider.calls == attempts
    assert caught.value.kind == kind


async def test_the_number_of_attempts_can_be_given() -> None:
    provider = Flaky(error(), error())
    with pytest.raises(ProviderError) as caught:
        await play(provider, Clock(), tries=1)
    assert provider.calls == 1
    assert str(caught.value) == "it is server"


async def test_what_will_not_pass_is_not_tried_again() -> None:
    wrong_key = error("auth", retryable=False)
    provider = Flaky(wrong_key)
    with pytest.raises(ProviderError) as caught:
        await play(provider, Clock())
    assert caught.value is wrong_key
    assert provider.calls == 1


async def test_closing_closes_the_call_under_way() -> None:
    provider = Flaky()
    events = with_retry(provider, request(), sleep=Clock().sleep)
    assert await anext(events) == TextDelta(0, "a")
    await events.aclose()
    assert provider.closed == 1
