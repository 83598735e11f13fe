"""Assembling a request: what a long session adds to it (issue: 5 ms at most for 2 000 messages against 20).

As a session does it: the window is built before each step, so the measured one has a message or two more than the one
before. A first one, after the daemon has begun or the session was opened, is measured too.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import time

from daemon.context.tokens import request_tokens
from daemon.context.window import WindowCache, build_window
from daemon.provider import anthropic_wire, openai_wire
from daemon.provider.model_calls import ModelRequest
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tests.support.scenarios.sessions import PROFILE, FakeSession

SHORT, LONG = 20, 2_000
GOALS = 300
TARGET_MS = 5.0
_ROUNDS = 15
_KINDS = ("plain", f"{GOALS} goals")


async def measure(stage: Stage) -> list[Measure]:
    """Window, wires and token count, each after 20 and after 2 000 messages."""
    return await asyncio.to_thread(_measure, stage)


def _measure(stage: Stage) -> list[Measure]:
    found: list[Measure] = []
    for kind in _KINDS:
        stage.say(f"a session of {LONG} messages, {kind}")
        short, long = (_took(_session(count, kind), max(3, stage.runs)) for count in (SHORT, LONG))
        for name in long:
            baseline = Baseline(f"after {SHORT}", statistics.median(short[name]))
            # The first one also reads the whole session; the others are what every step waits for.
            every = name.startswith("request") and not name.endswith("(first)")
            target = TARGET_MS + baseline.value if every else None
            found.append(Measure(f"{name}, {kind}", "ms", tuple(long[name]), target, baseline))
    return found


def _session(count: int, kind: str) -> FakeSession:
    """``count`` messages: turns of a prompt and steps with one or two calls; finished goals when there are any."""
    session = FakeSession(profile=PROFILE)
    goals = 0 if kind == "plain" else max(1, GOALS * count // LONG)
    each = count // goals if goals else count
    for number in range(goals):
        session.prompt()
        session.change("add", 0)
        session.change("focus", len(session.plan.goals) - 1)
        _work(session, each * (number + 1) - 1)
        session.step(("done", 1))
    _work(session, count)
    return session


def _work(session: FakeSession, until: int) -> None:
    while len(session.messages) < until:
        if len(session.messages) % 40 == 0:
            session.prompt()
        session.step(*[("long", 1)] * (1 + len(session.messages) % 2), text=True)


def _took(session: FakeSession, runs: int) -> dict[str, list[float]]:
    """Milliseconds of each part of assembling, ``runs`` medians each."""
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        cache = WindowCache()
        rounds: dict[str, list[float]] = {}
        gc.collect()
        for number in range(_ROUNDS):
            for name, took in _assembled(session, cache).items():
                rounds.setdefault(f"{name} (first)" if number == 0 else name, []).append(took)
            session.step(("read", 1))
        for name, values in rounds.items():
            found.setdefault(name, []).append(statistics.median(values))
    return found


def _assembled(session: FakeSession, cache: WindowCache) -> dict[str, float]:
    """Milliseconds of each part, once."""
    begin = time.perf_counter()
    window = build_window(session.messages, session.plan, session.marks, session.profile, cache=cache)
    request = ModelRequest(
        model="claude-sonnet-5-5", system=(), messages=window.messages, tail="## Current Plan"
    )
    times = [begin, time.perf_counter()]
    for act in (anthropic_wire.build, request_tokens, openai_wire.to_messages):
        act(request)
        times.append(time.perf_counter())
    names = ("window", "anthropic wire", "token count", "openai wire")
    found = {
        name: (end - start) * 1000
        for name, (start, end) in zip(names, itertools.pairwise(times), strict=True)
    }
    both = found["window"] + found["token count"]
    return found | {
        "request to Anthropic": both + found["anthropic wire"],
        "request to others": both + found["openai wire"],
    }
