"""Failed tests that ``make test`` runs once more."""

from __future__ import annotations

import pytest

from tests.suite import to_try_again

E2E = [f"tests/e2e/test_{name}.py::test" for name in "gfedcba"]


@pytest.mark.parametrize("failed", [[], E2E[:1], E2E[:6]])
def test_a_few_end_to_end_tests_are(failed: list[str]) -> None:
    assert to_try_again(failed) == sorted(failed)


@pytest.mark.parametrize(
    "failed", [E2E, [*E2E[:1], "tests/unit/test_x.py::test"], ["tests/contract/test_y.py::test"]]
)
def test_others_and_many_are_not(failed: list[str]) -> None:
    assert to_try_again(failed) == []
