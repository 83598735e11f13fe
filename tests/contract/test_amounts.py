"""Terminals and pages write amounts alike: ``vscode-extension/test/amounts.test.ts`` reads the same cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.text.amounts import amount, cost_words, duration, money

CASES = json.loads((Path(__file__).parent / "amounts.json").read_text())


@pytest.mark.parametrize("written", [money, amount, duration])
def test_amounts_are_written_as_in_the_chat(written: object) -> None:
    assert callable(written)
    cases = CASES[written.__name__]
    assert [written(value) for value, _ in cases] == [text for _, text in cases]


def test_unpriced_tokens_make_a_cost_the_least_that_was_spent() -> None:
    assert [money(0, 5), money(0.0123, 5), cost_words(0, 5)] == ["–", "≥ $0.012", "unknown price"]
