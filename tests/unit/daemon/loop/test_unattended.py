"""Runs that nobody watches end: by model calls, money and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.model import notice_codes
from daemon.model.events import Notice
from tests.support.drivers.core import daemon
from tests.support.fakes.models import Call, Hold

ALLOW = {"permission": {"*": "allow"}}


def looks(count: int) -> list[Any]:
    return [Call("ls", {"path": f"{'./' * at}."}) for at in range(count)]


@pytest.mark.parametrize(
    ("settings", "calls", "said"),
    [
        ({"unattended_steps": 3}, 3, "3 model calls (--max-steps,"),
        ({"unattended_usd": 0.02}, 2, "$0.02 (--max-usd,"),  # each call costs a cent
    ],
)
async def test_a_run_that_nobody_watches_stops_at_its_limit(
    tmp_path: Path, settings: dict[str, Any], calls: int, said: str
) -> None:
    async with daemon(tmp_path, *looks(calls)) as bench:
        session = bench.session(settings=ALLOW | settings)
        session.policy.use(unattended=True)
        result = await session.prompt("go on for ever")
        assert result.stop == "permission_denied"
        assert said in result.detail
        assert [notice.text for notice in bench.events(Notice) if notice.code == notice_codes.RUN_LIMIT] == [
            result.detail
        ]


async def test_the_limit_is_of_each_run(tmp_path: Path) -> None:
    async with daemon(tmp_path, *looks(1), "Done.", *looks(1), "Done.") as bench:
        session = bench.session(settings=ALLOW | {"unattended_steps": 2, "unattended_usd": 0.03})
        session.policy.use(unattended=True)
        for _ in range(2):
            assert (await session.prompt("look")).stop == "end_turn"


async def test_time_ends_a_call_that_does_not_answer(tmp_path: Path) -> None:
    hold = Hold()
    async with daemon(tmp_path, [hold, "Too late."]) as bench:
        session = bench.session(settings=ALLOW | {"unattended_minutes": 0.002})
        session.policy.use(unattended=True)
        result = await session.prompt("wait")
        assert result.stop == "permission_denied"
        assert "0.002 minutes (--max-minutes," in result.detail
        assert bench.models.open == 0


@pytest.mark.parametrize(
    ("unattended", "settings"),
    [
        (False, {"unattended_steps": 1, "unattended_usd": 0.01, "unattended_minutes": 0.0001}),
        (True, {"unattended_steps": 0, "unattended_usd": 0, "unattended_minutes": 0}),
    ],
)
async def test_a_run_that_somebody_watches_or_without_limits_goes_on(
    tmp_path: Path, unattended: bool, settings: dict[str, Any]
) -> None:
    async with daemon(tmp_path, *looks(4), "Done.") as bench:
        session = bench.session(settings=ALLOW | settings)
        session.policy.use(unattended=unattended)
        assert (await session.prompt("look around")).stop == "end_turn"


async def test_what_sub_agents_do_counts_for_the_run(tmp_path: Path) -> None:
    task = Call("task", {"agent": "explore", "description": "look", "prompt": "look"})
    async with daemon(tmp_path, task, *looks(2)) as bench:
        session = bench.session(settings=ALLOW | {"unattended_steps": 3})
        session.policy.use(unattended=True)
        result = await session.prompt("have it looked at")
        assert "3 model calls" in result.detail
        assert len(bench.models.requests) == 3
