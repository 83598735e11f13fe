from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context, put
from tools.diagnostics import MAX_CANDIDATES, MAX_CHARACTERS
from tools.language_ports import CurrentProblems, Severity
from tools.registry import builtin_tools, run_tool
from tools.tool import PermissionDeniedError, Problem, ToolResult


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    context = fake_context(tmp_path / "workspace")
    for number, name in enumerate(("old.py", "src/new.py", "README.md")):
        os.utime(put(context, name, b"x = 1\n"), (number + 1, number + 1))
    return context


async def diagnostics(ctx: FakeToolContext, **arguments: object) -> ToolResult:
    return await run_tool(builtin_tools()["diagnostics"], json.dumps(arguments), ctx)


def problem(path: Path, line: int, severity: Severity = "error", message: str = "bad") -> Problem:
    return Problem(path, line, 1, severity, message, "fake", "E1")


def asked(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Severity]]:
    calls: list[tuple[list[str], Severity]] = []

    async def current(paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        calls.append(([path.relative_to(ctx.workspace).as_posix() for path in paths], least))
        return ctx.diagnostics.now

    monkeypatch.setattr(ctx.diagnostics, "current", current)
    return calls


async def test_the_workspace_is_looked_at_newest_files_first(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = asked(ctx, monkeypatch)
    old, new = ctx.workspace / "old.py", ctx.workspace / "src/new.py"
    found = (problem(new, 3, "warning"), problem(old, 9), problem(old, 2))
    ctx.diagnostics.now = CurrentProblems(found, ("fake",), (), (ctx.workspace / "README.md",))
    result = await diagnostics(ctx)
    assert calls == [(["README.md", "src/new.py", "old.py"], "warning")]
    assert result.content == (
        '3 problems, 2 of them errors, in 2 of 2 files (fake):\n<diagnostics file="old.py">\nERROR [2:1] '
        'bad (fake E1)\nERROR [9:1] bad (fake E1)\n</diagnostics>\n<diagnostics file="src/new.py">\n'
        "WARNING [3:1] bad (fake E1)\n</diagnostics>\n(No language server for: .md (1).)"
    )
    assert result.metadata["verdict"] == "problems"
    assert [each["path"] for each in result.metadata["diagnostics"]] == ["old.py", "old.py", "src/new.py"]
    assert ctx.permission.asked == ["diagnostics"]


async def test_a_file_is_asked_about_alone(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(ctx, monkeypatch)
    ctx.diagnostics.now = CurrentProblems((), ("fake",))
    result = await diagnostics(ctx, path="old.py", severity="hint")
    assert calls == [(["old.py"], "hint")]
    assert result.content == "No problems in 1 file (fake), from severity hint up."
    assert ctx.permission.asked == ["diagnostics", "read"]


async def test_silence_never_reads_as_clean(ctx: FakeToolContext) -> None:
    ctx.diagnostics.now = CurrentProblems((), (), ("slow",))
    result = await diagnostics(ctx, path="old.py")
    assert result.content == (
        "Nothing is known about 1 file.\n"
        "NO FRESH ANSWER from slow in time. This does not mean the code is clean: ask again later."
    )
    assert (result.metadata["verdict"], "no fresh answer" in result.title) == ("no_fresh_answer", True)
    # One answered, the other did not; and an eye that fails says nothing at all.
    ctx.diagnostics.now = CurrentProblems((), ("fake",), ("slow",))
    assert "No problems" not in (await diagnostics(ctx, path="old.py")).content
    ctx.diagnostics.now = CurrentProblems(())
    assert "does not mean" in (await diagnostics(ctx, path="old.py")).content


async def test_files_that_nobody_looks_after_are_no_success(ctx: FakeToolContext) -> None:
    ctx.diagnostics.now = CurrentProblems((), (), (), (ctx.workspace / "README.md",))
    result = await diagnostics(ctx, path="README.md")
    assert result.is_error
    assert result.content.startswith(
        "No language server is available for README.md. `goalwright doctor` shows the user which one "
        "to install."
    )


async def test_denied_files_are_neither_asked_about_nor_shown(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = asked(ctx, monkeypatch)
    secret = put(ctx, "secret.py", b"KEY = 'abc'\n")
    ctx.permission.rules = [("read", "secret.py", "deny"), ("read", "src/*", "ask")]
    ctx.diagnostics.now = CurrentProblems((problem(secret, 1, message="abc"),), ("fake",))
    result = await diagnostics(ctx)
    assert calls == [(["README.md", "old.py"], "warning")]
    assert "abc" not in result.content
    assert "(1 files are left out" in result.content
    assert not result.metadata["diagnostics"]
    ctx.permission.refuse = {"read"}
    with pytest.raises(PermissionDeniedError):
        await diagnostics(ctx, path="secret.py")


async def test_much_is_bounded_and_said(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(ctx, monkeypatch)
    for number in range(MAX_CANDIDATES + 5):
        put(ctx, f"many/f{number}.py", b"")
    paths = [ctx.workspace / f"many/f{number}.py" for number in range(200)]
    found = tuple(problem(path, line, message="long " * 500) for path in paths for line in range(1, 60))
    ctx.diagnostics.now = CurrentProblems(found, ("fake",), left_out=300)
    result = await diagnostics(ctx, path="many")
    assert len(calls[0][0]) == MAX_CANDIDATES
    assert len(result.content) < MAX_CHARACTERS + 1_000
    assert result.content.startswith("11800 problems, 11800 of them errors, in 200 of 200 files")
    assert "(305 older files were not checked: too many. Name a folder or a file.)" in result.content
    assert len(result.metadata["diagnostics"]) == 200


async def test_what_does_not_exist_is_an_error(ctx: FakeToolContext) -> None:
    assert (await diagnostics(ctx, path="nowhere")).content == "nowhere does not exist."
    assert (await diagnostics(ctx, severity="fatal")).is_error


async def test_a_server_that_starts_is_asked_again(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        CurrentProblems((), (), ("slow",)),
        CurrentProblems((), (), ("slow",)),
        CurrentProblems((), ("slow",)),
    ]

    async def current(paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        return answers.pop(0)

    monkeypatch.setattr(ctx.diagnostics, "current", current)
    result = await diagnostics(ctx, path="old.py")
    assert (result.content, answers) == ("No problems in 1 file (slow), from severity warning up.", [])
