"""``goalwright explore`` against a daemon without a mind: what is asked of it, and how its answers read."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.cli.console import Console
from lsp_bridge.cli.run.branch_lines import score_lines
from tests.support.drivers.terminal import Terminal
from tests.support.fakes.daemon_server import Connection, FakeDaemon

FILES = [
    {"path": "src/cart.py", "kind": "update", "diff": "-a\n+b", "added": 1, "removed": 1, "movedFrom": None},
    {"path": "docs/new.md", "kind": "create", "diff": "+n", "added": 1, "removed": 0, "movedFrom": None},
    {"path": "src/gone.py", "kind": "delete", "diff": "-g", "added": 0, "removed": 1, "movedFrom": None},
    {
        "path": "src/here.py",
        "kind": "update",
        "diff": "Moved from src/there.py\n",
        "added": 0,
        "removed": 0,
        "movedFrom": "src/there.py",
    },
]


def branch(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "description": f"Way {name}", "status": "completed", "summary": "done", **more}


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncGenerator[Terminal]:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        terminal = Terminal(fake, tmp_path / "home")
        fake.sessions.append({"trace": {"traceId": "s1"}, "foreign": False})
        branches = [branch("A"), branch("B"), branch("C")]
        terminal.answer("goalwright/explore/list", {"explorations": [{"branches": branches}]})
        terminal.answer("goalwright/explore/files", {"files": FILES})
        terminal.answer("goalwright/explore/select", {"applied": True, "title": "ok", "detail": ""})
        yield terminal


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        (["A"], ["A"]),
        (["a"], ["A"]),
        (["A", "src/cart.py", "docs/"], ["A:src/cart.py", "A:docs"]),
        (["A:src/cart.py", "B:docs"], ["A:src/cart.py", "B:docs"]),
        (["a:./src//cart.py", "b"], ["A:src/cart.py", "B"]),
        (["A:src", "docs", "C:docs"], ["A:src", "A:docs", "C:docs"]),
        (["A", "B", "src"], ["A", "B:src"]),
        (["A:"], ["A"]),
        (["A:C:odd.txt"], ["A:C:odd.txt"]),
        (["A", "{workspace}/src/cart.py"], ["A:src/cart.py"]),
        (["A", "{workspace}"], ["A"]),
        (["A", "-dash.txt"], ["A:-dash.txt"]),
    ],
)
async def test_pick_arguments_are_parsed_in_every_spelling(
    terminal: Terminal, words: list[str], choice: list[str]
) -> None:
    words = [word.format(workspace=terminal.workspace) for word in words]
    assert await terminal.play("explore", "pick", "--yes", "--", *words) == 0, terminal.told
    assert terminal.fake.params("goalwright/explore/select")[0]["choice"] == choice


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Q:src"], "There is no branch Q. Branches: A, B, C."),
        (["A", "Q:src"], "There is no branch Q. Branches: A, B, C."),
        (
            ["A", "b"],
            "b is both a file of branch A and the name of branch B: write A:b for the file; for the "
            "branch, write B:.",
        ),
    ],
)
async def test_ambiguous_pick_is_not_guessed(terminal: Terminal, words: list[str], said: str) -> None:
    terminal.answer("goalwright/explore/files", {"files": [*FILES, {**FILES[0], "path": "b"}]})
    assert await terminal.play("explore", "pick", "--yes", "--", *words) == 1
    assert said in terminal.told
    assert terminal.fake.params("goalwright/explore/select") == []


async def test_a_pick_that_cannot_be_shown_waits_for_nothing(terminal: Terminal) -> None:
    async def select(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        request = {"requestId": "r1", "toolCallId": "select_1", "title": "Merge A", "permission": "edit"}
        terminal.fake.event("s1", "permission_asked", request=request)
        await terminal.fake.stop.wait()
        return {}

    terminal.fake.handlers["goalwright/explore/select"] = select
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "w") as out:
        terminal.console = Console(out=out, err=terminal.err)
        async with asyncio.timeout(10) as limit:
            assert await terminal.play("explore", "pick", "--yes", "A") == 1
    assert not limit.expired()
    assert terminal.told == "The output cannot be written: No space left on device\n"


@pytest.mark.parametrize("output", [[], ["--json"]])
async def test_a_choice_that_is_not_made_has_exit_code_1(terminal: Terminal, output: list[str]) -> None:
    terminal.answer("goalwright/explore/select", {"applied": False, "title": "Not merged", "detail": ""})
    terminal.answer("goalwright/explore/leave", {"left": False})
    assert await terminal.play("explore", "pick", "A", *output) == 1
    assert await terminal.play("explore", "leave", *output) == 1


async def test_explore_show_lists_the_changes_of_each_file(terminal: Terminal) -> None:
    await terminal.play("explore", "show", "a")
    assert terminal.lines[-4:] == [
        "  changed  src/cart.py  +1 -1",
        "  created  docs/new.md  +1 -0",
        "  deleted  src/gone.py  +0 -1",
        "  renamed  src/there.py → src/here.py",
    ]


@pytest.mark.parametrize("words", [("A", "src/there.py"), ("a:src/here.py",), ("A", "./src/here.py")])
async def test_the_diff_of_a_file_is_found_by_its_names(terminal: Terminal, words: tuple[str, ...]) -> None:
    assert await terminal.play("explore", "diff", *words) == 0
    assert terminal.lines == ["Moved from src/there.py"]


async def test_diff_of_an_ignored_file_is_shown_only_by_name(terminal: Terminal) -> None:
    log = {
        "path": "logs/my.log",
        "kind": "create",
        "diff": "+log",
        "added": 1,
        "removed": 0,
        "movedFrom": None,
    }
    terminal.answer("goalwright/explore/files", {"files": FILES, "ignored": [log]})
    assert await terminal.play("explore", "diff", "A", "logs", "docs") == 0
    assert terminal.lines == ["+n", "+log"]
    assert await terminal.play("explore", "diff", "A:logs/my.log") == 0
    assert terminal.lines[2:] == ["+log"]
    assert await terminal.play("explore", "diff", "A") == 0
    assert "+log" not in terminal.lines[3:]
    assert await terminal.play("explore", "diff", "A", "logs/other.log", "docs") == 1
    assert (
        "Branch A did not change logs/other.log. Files it changed: src/cart.py, docs/new.md" in terminal.told
    )


async def test_diff_accepts_only_one_branch(terminal: Terminal) -> None:
    assert await terminal.play("explore", "diff", "A:src", "B:src") == 1
    assert "one branch at a time" in terminal.told


def outcome(**check: Any) -> str:
    known = {"command": "t", "exitCode": 0, "passed": 5, "failed": 0, "durationMs": 900, "detail": "…"}
    score = {"test": {**known, **check}, "files": 1, "durationMs": 5}
    header, row = score_lines([branch("A", score=score)])
    start, end = header.index("tests"), header.index("files")
    return row[start:end].strip()


def test_failed_test_command_never_looks_successful() -> None:
    assert outcome() == "5 passed, 0 failed"
    assert outcome(exitCode=3) == "5 passed, 0 failed, exit code 3"
    assert outcome(failed=2, exitCode=1) == "5 passed, 2 failed"
    assert outcome(failed=2) == "5 passed, 2 failed, exit code 0"
    assert outcome(passed=None, failed=None) == "ok"
    assert outcome(passed=None, failed=None, exitCode=127) == "exit code 127"
    assert outcome(exitCode=None, durationMs=600_000) == "timed out after 10 min 0 s"
    assert outcome(exitCode=None, durationMs=0, detail="no\nshell") == "not run: no shell"
    (_, row) = score_lines([branch("A", score={"test": None, "files": 1})])
    assert "not run" in row


def test_score_of_a_branch_without_a_price_is_not_zero() -> None:
    scores = [{"tokens": 5, "unpricedTokens": 5}, {"tokens": 9, "unpricedTokens": 5, "cost": 0.25}]
    _, *rows = score_lines([branch(name, score=score) for name, score in zip("AB", scores, strict=True)])
    assert "5 tokens  –        " in rows[0]
    assert "9 tokens  ≥ $0.25" in rows[1]


async def test_closed_pipe_ends_explore_patch_and_diff_quietly(terminal: Terminal) -> None:
    terminal.answer("goalwright/explore/patch", {"patch": "+x\n" * 100_000, "base64": False})
    for action in ("patch", "diff"):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            terminal.console = Console(out=out, err=io.StringIO())
            assert await terminal.play("explore", action, "A") == 0
