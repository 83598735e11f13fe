"""An exploration that is broken off leaves nothing: through the installed command. More rows:
``tests.evals.cleanliness``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.evals.cleanliness import How, Stage, check
from tests.support.examples import in_full

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


CASES: list[tuple[How, Stage, int]] = [
    ("kill -9", "tests run", 3),
    ("Ctrl-C", "copies are made", 0),
    ("stop", "questions wait", 3),
    ("kill -9", "tools run", 3),
    ("SIGTERM", "tools run", 3),
]


@pytest.mark.parametrize(("how", "stage", "kept"), CASES[: in_full(5, 3)])
async def test_nothing_is_left_and_what_branches_did_can_be_read(
    tmp_path: Path, how: How, stage: Stage, kept: int
) -> None:
    row = await check(tmp_path, how, stage)
    assert row.clean, row
    assert row.kept >= kept  # a branch may have been quicker than Ctrl-C
