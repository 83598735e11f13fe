"""A few of the kills of ``python -m tests.evals.killing``, which makes two hundred and prints their table."""

from __future__ import annotations

import os

import pytest

from tests.evals.killing.__main__ import table
from tests.evals.killing.runs import kill_at
from tests.support.examples import in_full

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")

POINTS, SEED = in_full(12, 6), 8


@pytest.mark.timeout(300)
async def test_kill_loses_no_acknowledged_event_and_session_resumes() -> None:
    total, runs = await kill_at(POINTS, SEED)
    print(table(total, runs, SEED))
    assert [problem for run in runs for problem in run.problems] == []
    assert all(run.resumed and run.acknowledged >= run.after for run in runs)
    assert sum(run.logged < total for run in runs) > POINTS // 2  # most were killed in the middle
