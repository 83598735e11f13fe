from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.explore.test_command import count_tests, last_lines, not_run

JEST = """Test Suites: 1 failed, 2 passed, 3 total
Tests:       1 failed, 2 skipped, 12 passed, 15 total
Snapshots:   0 total
"""
VITEST = """ Test Files  1 failed | 3 passed (4)
      Tests  2 failed | 10 passed | 1 skipped (13)
   Start at  10:00:00
"""
CARGO = """running 3 tests
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests thing
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""
MOCHA = """  Cart
    ✔ adds

  12 passing (30ms)
  1 pending
  2 failing

  1) Cart adds:
"""


@pytest.mark.parametrize(
    ("output", "passed", "failed"),
    [
        ("..F\n======= 1 failed, 2 passed in 0.05s =======\n", 2, 1),
        ("..\n2 passed in 0.05s\n", 2, 0),
        ("\x1b[32m\x1b[1m12 passed\x1b[0m, \x1b[33m1 skipped\x1b[0m\x1b[32m in 1.20s\x1b[0m\n", 12, 0),
        (
            "1 failed, 5 passed, 2 skipped, 1 xfailed, 1 xpassed, 3 warnings, 2 errors in 61.00s (0:01:01)\n",
            6,
            3,
        ),
        ("==== 1 error in 0.10s ====\n", 0, 1),
        ("==== no tests ran in 0.01s ====\n", 0, 0),
        ("3 passed in 0.1s\nagain\n1 failed in 0.2s\n", 0, 1),
        ("3 passed in 0.1s\r\n", 3, 0),
        ("----\nRan 12 tests in 0.004s\n\nOK\n", 12, 0),
        ("Ran 12 tests in 0.004s\n\nFAILED (failures=1, errors=2, skipped=3)\n", 6, 3),
        ("Ran 3 tests in 0.004s\n\nFAILED (expected failures=1, unexpected successes=1)\n", 1, 1),
        ("Ran 1 test in 0.004s\n\nOK (skipped=1)\n", 0, 0),
        (JEST, 12, 1),
        ("Tests:       3 passed, 3 total\n", 3, 0),
        (VITEST, 10, 2),
        ("      Tests  3 passed (3)\n", 3, 0),
        (MOCHA, 12, 2),
        ("  3 passing (5ms)\n", 3, 0),
        (CARGO, 4, 2),
        ("ok  \texample.com/a\t0.01s\nok  \texample.com/b\t(cached)\n", None, 0),
        ("--- FAIL: TestAdd (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\texample.com/a\t0.01s\nFAIL\n", None, 1),
        (
            "--- PASS: TestA (0s)\n    --- PASS: TestA/x (0s)\n--- FAIL: TestB (0s)\nFAIL\texample.com/a\t0.01s\n",
            1,
            1,
        ),
        ("TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 # SKIP no\n1..3\n", 1, 1),
        ("# tests 4\n# pass 3\n# fail 1\n# cancelled 0\n", 3, 1),
        ("ℹ tests 3\nℹ pass 3\nℹ fail 0\n", 3, 0),
        ("", None, None),
        ("make: *** No rule to make target 'test'.\n", None, None),
        ("I passed 3 exams in 2 years\n", None, None),
        ("ok whatever\n", None, None),
    ],
)
def test_the_numbers_are_read_or_said_to_be_unknown(
    output: str, passed: int | None, failed: int | None
) -> None:
    assert count_tests(output) == (passed, failed)


def test_the_last_runner_counts() -> None:
    assert count_tests("Ran 3 tests in 0.1s\n\nOK\n" + JEST) == (12, 1)
    assert count_tests(JEST + "4 passed in 0.1s\n") == (4, 0)


@given(
    st.text() | st.from_regex(r"(\d+ (passed|failed)|Tests:|ok|Ran|test result:|1\.\.|\n| )*", fullmatch=True)
)
def test_no_output_breaks_it(output: str) -> None:
    passed, failed = count_tests(output)
    assert (passed is None or passed >= 0) and (failed is None or failed >= 0)
    assert len(last_lines(output, characters=50)) <= 50


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "junk", ["x", "ok ", " \n", "\n", "=", "= ", "1", "1 ", "Tests: 1, ", "\x1b[", "ok \t", "  1 passing ("]
)
def test_a_long_output_of_anything_does_not_take_for_ever(junk: str) -> None:
    assert count_tests(junk * 100_000 + "\n3 passed in 0.1s\n") == (3, 0)


def test_the_last_lines_are_the_end() -> None:
    text = "\n".join(str(n) for n in range(100)) + "\n\n"
    assert last_lines(text, lines=2) == "98\n99"
    assert last_lines("a" * 3000) == "…" + "a" * 1999


@pytest.mark.parametrize(
    ("command", "code", "output", "why"),
    [
        ("python3 -m pytest -q", 1, "/usr/bin/python3: No module named pytest\n", "No module named pytest"),
        ("pytest", 127, "bash: line 1: pytest: command not found\n", "pytest: command not found"),
        ("npm test", 1, 'npm error Missing script: "test"\nnpm error\n', "Missing script"),
        ("python3 -m pytest -q", 1, "E   ModuleNotFoundError: No module named 'shop'\n1 error in 0.1s\n", ""),
        ("python3 -m unittest", 1, "ModuleNotFoundError: No module named 'shop'\n", ""),
        ("python3 -m pytest -q", 0, "1 passed in 0.1s\n", ""),
        ("make test", 2, "FAIL\n", ""),
    ],
)
def test_a_command_that_could_not_run_is_no_failure_of_the_tests(
    command: str, code: int, output: str, why: str
) -> None:
    found = not_run(command, code, output)
    assert why in found
    assert bool(found) == bool(why)
