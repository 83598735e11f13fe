"""The table of rule cases, and the adapter that judges them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evals.rule_cases.table import Case, cases
from tests.support.drivers.rule_judge import answer

REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.number}-{case.question}")
def test_each_case_is_decided_as_the_table_says(case: Case) -> None:
    outcome = case.outcome()
    assert case.holds(outcome), (case, outcome)


def test_the_table_is_long_and_holds_each_outcome_of_each_kind() -> None:
    assert len(cases()) >= 150
    assert len({(case.layers, case.question, case.options) for case in cases()}) == len(cases())
    assert {case.expected for case in cases()} == {"allow", "ask", "deny"}
    assert {case.expected for case in cases() if case.question.startswith("$")} == {"allow", "ask", "deny"}


def run_adapter(lines: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )


@pytest.mark.parametrize("arguments", [("tests/rules.py",), ("-m", "tests.rules")])
def test_the_adapter_answers_each_line_whatever_stands_in_it(arguments: tuple[str, ...]) -> None:
    flat = [["read", "*", "allow"], ["read", "*.env", "deny"], ["bash", "*", "allow"]]
    lines = [
        json.dumps({"layers": [flat], "permission": "read", "target": "conf/.env"}),
        "not json",
        json.dumps({"layers": [flat], "bash": "cat .env", "id": 7}),
        json.dumps([1]),
        json.dumps({"layers": [[["read", "*"]]], "permission": "read", "target": "a"}),
        json.dumps({"layers": [flat], "permission": "read"}),
        json.dumps({"layers": "x", "bash": "ls"}),
        json.dumps({"layers": [flat], "bash": 3}),
        "[" * 100_000,
        json.dumps({"layers": [flat], "permission": "edit", "target": "\ud800"}),
        json.dumps({"layers": [], "permission": "edit", "target": "a", "mode": "never"}),
        json.dumps({"layers": [], "permission": "edit", "target": "a", "unknown": 1}),
    ]
    done = run_adapter(lines, *arguments)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(lines)
    assert found[0]["action"] == "deny"
    assert found[0]["rule"] == ["read", "*.env", "deny"]
    assert found[0]["layer"] == 0
    assert (found[2]["action"], found[2]["rule"], found[2]["id"]) == ("deny", ["read", "*.env", "deny"], 7)
    assert [index for index, outcome in enumerate(found) if "error" in outcome] == [1, 3, 4, 5, 6, 7, 8, 10]
    assert found[11] == {
        "action": "ask",
        "rule": None,
        "layer": None,
        "source": "unmatched",
        "why": "",
        "reasons": ["ask edit a: no rule matches, so you are asked"],
    }


def test_the_table_is_printed_with_its_outcomes() -> None:
    done = run_adapter([], "-m", "tests.rules", "--table")
    assert f"{len(cases())} cases, 0 not as expected" in done.stdout
    assert "| 1 | `edit * allow` | `edit src/a.py` |" in done.stdout


def test_the_adapter_keeps_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    line = {"layers": [[["read", "~/a/*", "allow"]]], "permission": "read", "target": "~/a/b", "home": "/h"}
    assert json.loads(json.dumps(answer(json.dumps(line))))["action"] == "allow"
    assert json.loads(json.dumps(answer(json.dumps(line | {"target": "/somewhere/a/b"}))))["action"] == "ask"
