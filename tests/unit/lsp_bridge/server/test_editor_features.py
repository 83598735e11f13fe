"""The pure parts of what any LSP editor is offered: actions, prompts, places of hunks, decisions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from daemon.model.permissions import FileDiff, PermissionRequest, Rule, ShownHunk
from daemon.model.tags import OURS, plain
from lsp_bridge.server.editor.code_actions import code_actions
from lsp_bridge.server.editor.given import (
    COMMANDS,
    EXPLAIN,
    FIX,
    CodeActionRequest,
    GivenProblem,
    LspRange,
    Point,
)
from lsp_bridge.server.editor.lenses import Decisions, hunk_positions, parts
from lsp_bridge.server.editor.prompts import (
    MOST_LINES,
    MOST_PROBLEMS,
    excerpt,
    prompt,
    reference,
    visible_line,
)
from tools.diff.unified_diff import unified
from tools.tool import FileChange, ProposedFile

BASE = "".join(f"line {number}\n" for number in range(1, 31))
AFTER = BASE.replace("line 3\n", "third\n").replace("line 20\n", "").replace("line 30\n", "line 30\nlast\n")


def proposed(base: str | None = BASE, after: str | None = AFTER) -> ProposedFile:
    old, new = (None if side is None else side.encode() for side in (base, after))
    return ProposedFile("a.txt", FileChange(Path("/w/a.txt"), old, new), unified(base, after, "a.txt"))


def shown(base: str = BASE, after: str = AFTER) -> FileDiff:
    diff = unified(base, after, "a.txt")
    hunks = tuple(ShownHunk(**asdict(hunk)) for hunk in diff.hunks)
    return FileDiff(
        path="a.txt",
        kind="update",
        diff=diff.text,
        added=diff.added,
        removed=diff.removed,
        hunks=len(hunks),
        shown_hunks=hunks,
    )


def request(*files: FileDiff) -> PermissionRequest:
    return PermissionRequest(
        request_id="perm_1",
        trace_id="t",
        tool_call_id="c",
        tool="write",
        permission="edit",
        targets=("a.txt",),
        title="Edit",
        files=files,
        rule=Rule(permission="edit", pattern="*", action="ask"),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def params(*problems: str, only: list[str] | None = None, automatic: bool = False) -> CodeActionRequest:
    place = {"line": 1, "character": 2}
    at = {"start": place, "end": place}
    found = [{"range": at, "message": one} for one in problems]
    return CodeActionRequest("file:///w/a.py", at, found, only or [], automatic)


def offered(given: CodeActionRequest, *, restricted: bool = False) -> list[str]:
    return [one["title"] for one in code_actions(given, 1, restricted=restricted, literals=True)]


@pytest.mark.parametrize(
    ("only", "count"),
    [
        (None, 4),
        ([""], 4),
        (["quickfix"], 2),
        (["refactor"], 2),
        (["refactor.extract"], 0),
        (["source.fixAll"], 0),
        (["quickfix", "refactor"], 4),
    ],
)
def test_only_the_kinds_that_are_wanted_are_offered(only: list[str] | None, count: int) -> None:
    assert len(offered(params("bad", only=only))) == count


def test_automatic_code_actions_need_a_problem_or_a_selection() -> None:
    assert offered(params(automatic=True)) == []


def test_titles_are_short_and_on_one_line() -> None:
    titles = offered(params("a\nb\t" + "x" * 500 + "\u202e"))
    assert titles[0].startswith("Fix with Goalwright: a b xxx")
    assert all(len(title) < 100 and title.isprintable() for title in titles)


def test_ten_of_many_problems_have_their_own_action() -> None:
    titles = offered(params(*map(str, range(50))))
    assert sum(title.startswith("Fix with") for title in titles) == 10
    assert "Fix all 50 problems here with Goalwright" in titles


def test_untrusted_folder_offers_no_fixes() -> None:
    assert not any(title.startswith("Fix") for title in offered(params("a", "b"), restricted=True))


def test_the_names_of_commands_are_not_those_of_the_extension() -> None:
    import json

    manifest = json.loads(Path("vscode-extension/package.json").read_text())
    own = {one["command"] for one in manifest["contributes"]["commands"]}
    assert own.isdisjoint(COMMANDS)


TRICKS = st.sampled_from(
    [f"<{tag}>" for tag in OURS] + ["</said>", "\n", "\r\n", "\u2028", "```", "> ", "`" * 7]
)


@given(st.lists(st.one_of(TRICKS, st.text(max_size=8)), max_size=12).map("".join))
def test_diagnostics_and_files_cannot_escape_their_prompt_block(text: str) -> None:
    problem = GivenProblem(message=text, source=text, code=text)
    made = prompt(FIX, reference(text, 0, 0), excerpt(text, text, 0, 5, around=True), [problem])
    assert plain(made) == made
    assert re.fullmatch(
        r"Fix this problem in @[^\n]*\.\n\n(> [^\n]*\n)+\nThe file as [^\n]*:\n\n(?P<fence>`{3,})\n"
        r"(\d+\t[^\n]*\n)+(?P=fence)\n\nThe lines marked with[^\n]*",
        made,
    )


def test_long_prompts_are_truncated() -> None:
    text = "x" * 10_000 + "\n" + "y\n" * 10_000
    problems = [GivenProblem(message="m" * 9_000)] * 200
    made = prompt(FIX, "@a:1", excerpt("a", text, 0, 10**9, around=False), problems)
    assert len(made) < 60_000
    assert f"and {200 - MOST_PROBLEMS} more" in made
    assert f"and {10_001 - MOST_LINES} more lines" in made


def test_excerpt_has_context_lines_and_stays_within_the_file() -> None:
    assert excerpt("a", BASE, 9, 9, around=True).lines == tuple(f"line {n}" for n in range(7, 14))
    assert excerpt("a", "a\r\nb", 700, 900, around=False).lines == ("b",)
    assert excerpt("a", "", 0, 0, around=True).lines == ("",)


def test_explain_prompt_forbids_changes_and_names_the_place() -> None:
    span = LspRange(start=Point(line=2), end=Point(line=2))
    made = prompt(
        EXPLAIN,
        "@a.py:3",
        excerpt("a.py", BASE, 2, 2, around=True),
        [GivenProblem(message="odd", range=span)],
    )
    assert made.startswith("Explain this problem in @a.py:3. Change nothing.")
    assert "> error in line 3: odd" in made


def test_hunks_land_at_their_lines_also_with_other_line_ends() -> None:
    assert hunk_positions(proposed(), BASE).lines == (2, 19, 29)
    crlf = hunk_positions(proposed(), BASE.replace("\n", "\r\n"))
    assert (crlf.lines, crlf.current) == ((2, 19, 29), True)


def test_hunks_move_with_the_text_and_vanish_with_their_lines() -> None:
    moved = hunk_positions(proposed(), "new\nnew\n" + BASE.replace("line 20\n", "typed here\n"))
    assert (moved.lines, moved.current) == ((4, None, 31), False)


def test_new_deleted_and_binary_files_have_no_lines() -> None:
    assert hunk_positions(proposed(None, "x\n"), "").lines == ()
    assert hunk_positions(proposed("x\n", None), "x\n") == hunk_positions(proposed("x\n", None), "x\r\n")
    binary = ProposedFile("b", FileChange(Path("/w/b"), b"\0\1", b"\0\2"), unified("", "", "b"))
    assert hunk_positions(binary, "anything").lines == ()


def test_hunks_of_a_truncated_diff_are_one_part() -> None:
    file = shown()
    assert parts(file) == 3
    assert parts(file.model_copy(update={"shown_hunks": file.shown_hunks[:2]})) == 1
    assert parts(file.model_copy(update={"shown_hunks": ()})) == 1


def test_the_answer_names_the_hunks_that_were_accepted() -> None:
    other = shown().model_copy(update={"path": "b.txt", "hunks": 0, "shown_hunks": ()})
    asked, decisions = request(shown(), other), Decisions()
    decisions.decide(asked, "a.txt", 1, False)
    assert decisions.undecided(asked) == 3
    decisions.decide_rest(asked, asked.files, True)
    answers = decisions.answers(asked)
    assert answers is not None
    assert [(one.path, one.hunks) for one in answers] == [("a.txt", (0, 2))]
    decisions.keep(())
    assert decisions.undecided(asked) == 4


def test_rejecting_everything_gives_no_accepting_answer() -> None:
    asked, decisions = request(shown()), Decisions()
    decisions.decide_rest(asked, asked.files, False)
    assert decisions.answers(asked) is None


@given(st.text(max_size=300), st.integers(1, 50))
def test_visible_line_is_a_single_bounded_line(text: str, most: int) -> None:
    assert len(visible_line(text, most)) <= most
    assert len(visible_line(text, most).splitlines()) <= 1
