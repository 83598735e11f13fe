"""Retry model calls after temporary failures.

Exponential backoff with jitter in the upper half, as the services recommend; a delay that the server asks for takes
precedence the first time, and afterwards if it is longer. Time and randomness are injected.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from daemon.provider.model_calls import (
    ErrorKind,
    ModelRequest,
    Provider,
    ProviderError,
    ProviderEvents,
    Retry,
)
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 30.0
MAX_WAIT_S = 600.0
"""Nobody waits longer than this for a server that asks to be left alone."""
REPLACED_AFTER, REPLACED_WAIT_S = 3, 30.0
"""With another model ready: attempts at an overloaded server, and the longest delay that it may ask for."""

ATTEMPTS: Mapping[ErrorKind, int] = MappingProxyType(
    {"overloaded": 8, "rate_limit": 8, "network": 4, "server": 4, "malformed": 4}
)
"""How often a call is made at most, by what went wrong; the first time included."""

_WORDS: Mapping[ErrorKind, str] = MappingProxyType(
    {
        "overloaded": noted("the service is overloaded"),
        "rate_limit": noted("the rate limit is reached"),
        "network": noted("no response"),
        "server": noted("the service failed"),
        "malformed": noted("the response was not valid"),
    }
)


async def with_retry(
    provider: Provider,
    request: ModelRequest,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    rand: Callable[[], float] = random.random,
    now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    max_attempts: int | None = None,
    failed: Callable[[ProviderError], None] = lambda error: None,
) -> ProviderEvents:
    """Yield the events of one call as ``Provider.stream`` does, and a Retry before each further attempt.

    A Retry voids all parts before it. ``max_attempts`` overrides ``ATTEMPTS`` for all kinds. ``failed`` receives each
    failure. Raises the ProviderError of the last attempt; its text then has the number of attempts. A ``replaceable``
    request is given up sooner when the server is overloaded. Closing the iterator closes the call under way.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            async with aclosing(provider.stream(request)) as events:
                async for event in events:
                    yield event
            return
        except ProviderError as error:
            failed(error)
            if not error.retryable:
                raise
            attempts, longest = max_attempts or ATTEMPTS.get(error.kind, 1), MAX_WAIT_S
            if request.replaceable and error.overloaded:
                attempts, longest = min(attempts, REPLACED_AFTER), REPLACED_WAIT_S
            if attempt >= attempts:
                raise _given_up(error, attempt) from error
            asked = error.retry_after_s
            if asked is not None and asked > longest:
                raise _too_long(error, now() + timedelta(seconds=asked), now()) from error
            usual = _delay(attempt, rand)
            # 0 is a date that has passed, and what was too short once must not use up all attempts at once.
            delay = (asked or usual) if attempt == 1 else max(asked or 0.0, usual)
            reason = t(_WORDS[error.kind]) if error.kind in _WORDS else str(error)
        yield Retry(attempt, delay, reason, attempts)
        await sleep(delay)


def _delay(attempt: int, rand: Callable[[], float]) -> float:
    """Seconds before attempt ``attempt + 1``: between half of the backoff and all of it."""
    full = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1))
    return full * (0.5 + 0.5 * rand())


def _given_up(error: ProviderError, attempts: int) -> ProviderError:
    if attempts == 1:
        return error
    text = t("{error} (tried {attempts} times)", error=error, attempts=attempts)
    return ProviderError(error.kind, text, retryable=True, retry_after_s=error.retry_after_s)


def _too_long(error: ProviderError, until: datetime, now: datetime) -> ProviderError:
    when = f"{until:%H:%M}" if until.date() == now.date() else f"{until:%Y-%m-%d %H:%M}"
    said = str(error)
    stop = "" if said.endswith((".", "!", "?")) else "."
    text = t(
        "{said}{stop} It asks to wait until {when}. Try again then, or choose another model.",
        said=said,
        stop=stop,
        when=when,
    )
    return ProviderError(error.kind, text, retryable=True, retry_after_s=error.retry_after_s)
