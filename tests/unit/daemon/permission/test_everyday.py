from __future__ import annotations

import pytest

from tests.evals.rule_cases.everyday import GROWTH, SETS, baseline, lines, tally
from tools.localization import set_language


def test_the_table_holds_five_hundred_lines_and_none_twice() -> None:
    assert len(lines()) >= 500
    assert len({line.command for line in lines()}) == len(lines())


@pytest.mark.parametrize("name", SETS)
def test_the_sandbox_does_not_bring_more_questions(name: str) -> None:
    found = tally(name, sandboxed=True)
    assert found.counts["ask"] <= baseline()[name]["sandboxed"] * GROWTH
    denied = [
        line.command for line, action, wanted in found.decided if (action == "deny") > (wanted == "deny")
    ]
    assert denied == []


@pytest.mark.parametrize("name", SETS)
def test_without_a_sandbox_nothing_passes_that_breaks_a_rule(name: str) -> None:
    laxer = tally(name, sandboxed=False).laxer
    assert [line.command for line in laxer if line.security or line.letters[name] == "d"] == []
    assert len(laxer) <= baseline()[name]["laxer"]


@pytest.mark.parametrize("name", SETS)
def test_the_language_decides_nothing(name: str, english_again: None) -> None:
    english = tally(name, sandboxed=False).decided
    set_language("zh-CN")
    assert tally(name, sandboxed=False).decided == english
