from __future__ import annotations

from pathlib import Path

import pytest

from tests.part_times import Part, PartTimes, grown, part_of, read, table, write


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("tests/unit/tools/test_bash.py", "unit"),
        ("tests/contract/store/test_records.py", "contract"),
        ("tests/evals/attacks/test_attacks.py", "evals"),
        ("tests/e2e/test_vscode_goals.py", "e2e VS Code"),
        ("tests/e2e/test_desktop_vscode.py", "e2e VS Code"),
        ("tests/e2e/test_trace_page_graph.py", "e2e trace page"),
        ("tests/e2e/test_crash.py", "e2e other"),
        ("tests/test_at_the_top.py", "other"),
    ],
)
def test_each_file_belongs_to_one_part(file: str, part: str) -> None:
    assert part_of(file) == part


def test_part_time_sums_all_phases_and_counts_a_test_once() -> None:
    times = PartTimes()
    for when in ("setup", "call", "teardown"):
        report = pytest.TestReport(
            "tests/unit/test_a.py::test_b", ("", 0, ""), {}, "passed", None, when, duration=0.5
        )
        times.pytest_runtest_logreport(report)
    assert times.parts() == {"unit": Part(1, 1.5)}


def test_written_part_times_are_read_back(tmp_path: Path) -> None:
    parts = {"unit": Part(10_000, 300.0), "contract": Part(3, 7.0)}
    write(tmp_path / "made" / "times.json", parts)
    assert read(tmp_path / "made" / "times.json") == parts
    assert read(tmp_path / "missing.json") == {}


@pytest.mark.parametrize(
    ("measured", "is_named"),
    [
        (Part(10, 100.0), False),
        (Part(10, 125.0), False),  # below 30 %
        (Part(10, 131.0), True),
        (Part(12, 131.0), True),
        (Part(9, 131.0), False),  # only some of the tests ran
    ],
)
def test_notably_slower_part_is_reported(measured: Part, is_named: bool) -> None:
    lines = grown({"unit": measured}, {"unit": Part(10, 100.0)})
    assert bool(lines) is is_named
    assert all(line.startswith("SLOWER: unit took 131 s, expected 100 s") for line in lines)


def test_short_part_may_double_and_unknown_part_is_not_compared() -> None:
    assert grown({"contract": Part(1, 10.0), "new": Part(1, 99.0)}, {"contract": Part(1, 5.0)}) == []


def test_the_table_begins_with_the_longest_part() -> None:
    lines = table({"a": Part(1, 1.0), "b": Part(2, 20.0)}, {"b": Part(2, 18.0)}).splitlines()
    assert [line.split() for line in lines] == [
        ["part", "tests", "seconds", "expected"],
        ["b", "2", "20", "18"],
        ["a", "1", "1", "-"],
    ]
