"""Terminals and pages write amounts and states alike: ``vscode-extension/test/amounts.test.ts`` has the same cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lsp_bridge.cli.text import SIGNS, state
from tools.text.amounts import amount, cost_words, duration, money

HERE = Path(__file__).parent
CASES = json.loads((HERE / "amounts.json").read_text())


@pytest.mark.parametrize("written", [money, amount, duration])
def test_amounts_are_written_as_in_the_chat(written: object) -> None:
    assert callable(written)
    cases = CASES[written.__name__]
    assert [written(value) for value, _ in cases] == [text for _, text in cases]


def test_unpriced_tokens_make_a_cost_the_least_that_was_spent() -> None:
    assert [money(0, 5), money(0.0123, 5), cost_words(0, 5)] == ["–", "≥ $0.012", "unknown price"]


def test_states_of_goals_are_shown_as_in_the_graph() -> None:
    shown = {status: [sign, state(status)] for status, sign in SIGNS.items()}
    assert shown == json.loads((HERE / "goal_states.json").read_text())
