"""Sessions of init in which all is allowed that can be."""

from __future__ import annotations

from typing import Any

from daemon.loop.session import Session
from tests.support.drivers.core import ALLOW_ALL, Bench
from tests.support.fakes.models import Call

FREE = {**ALLOW_ALL, "mode": "auto", "success_target": 0.9}
"""All that can be allowed is."""


def over(report: str = "Designed.", **more: Any) -> Call:
    return Call("hand_over", {"report": report, **more})


def designing(bench: Bench, **settings: Any) -> Session:
    return bench.session(agent="init", settings={**FREE, **settings})
