"""Imperfect edits of real files through the real tools: each lands where it was meant, or nowhere.

The files are those of this Python, so that every machine makes the same edits; ``python -m tests.evals.corpus`` does
the same, and more of it, with the installed packages and edits between released versions of real packages.
"""

from __future__ import annotations

import random

import pytest

from tests.evals.corpus.build import GROUPS, build
from tests.evals.corpus.judge import Verdict, judge, table
from tests.evals.corpus.sources import installed
from tests.support.examples import in_full

SEED = 14
SIZE = in_full(900, 300)


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    rng = random.Random(SEED)
    return judge(build(installed(rng, 4 * SIZE, packages=False), rng, SIZE))


def rate(verdicts: list[Verdict], group: str) -> float:
    of_group = [verdict for verdict in verdicts if verdict.case.group == group]
    return sum(verdict.good for verdict in of_group) / len(of_group)


def test_no_imperfect_edit_writes_the_wrong_thing(verdicts: list[Verdict]) -> None:
    wrong = [(v.case.group, v.case.kind, v.case.args, v.message) for v in verdicts if v.outcome == "wrong"]
    assert wrong == []


def test_clean_edits_land(verdicts: list[Verdict]) -> None:
    # All but one of these: the files of another Python may have an edit that looks as if it was made already.
    assert rate(verdicts, "clean") >= 0.99, "\n".join(table(verdicts))


def test_recoverable_edits_land(verdicts: list[Verdict]) -> None:
    assert rate(verdicts, "recoverable") >= 0.95, "\n".join(table(verdicts))


def test_what_must_be_refused_is_refused(verdicts: list[Verdict]) -> None:
    assert rate(verdicts, "refuse") == 1


def test_nearly_every_kind_is_there(verdicts: list[Verdict]) -> None:
    kinds = {kind for _, makers in GROUPS for kind in makers}
    # Distributions leave out the tests of the standard library, in which the rare kinds are.
    missing = kinds - {verdict.case.kind for verdict in verdicts}
    assert len(missing) <= len(kinds) // 10, missing
