from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from unidiff.patch import PatchSet

from tools.diff.unified_diff import limited, of_change, shown_name, unified
from tools.tool import FileChange

LINE = st.sampled_from(["a", "b", "c", "", "x = 1", "-- y", "++ z", "@@", "\\ n", "\x0cpage", "u\u2028v"])
TEXT = st.tuples(st.lists(LINE, max_size=25), st.booleans()).map(
    lambda made: "\n".join(made[0]) + ("\n" if made[1] and made[0] else "")
)


def patched(old: str, diff: str) -> str:
    """The text that a diff makes of ``old``, by the numbers in its hunks."""
    lines = old.split("\n")
    out: list[str] = []
    at = 0
    for hunk in (hunk for file in PatchSet(diff) for hunk in file):
        first = hunk.source_start - 1 if hunk.source_length else hunk.source_start
        out += lines[at:first]
        at = first
        parsed = [f"{line.line_type}{line.value}".removesuffix("\n") for line in hunk]
        for index, line in enumerate(parsed):
            if line[0] in " -":
                assert lines[at] == line[1:]
                at += 1
            if line[0] in " +":
                out.append(line[1:])
            no_end = line[0] == "\\"
            if no_end and parsed[index - 1][0] in "+ ":
                return "\n".join(out)
            if no_end and lines[at : at + 1] == []:
                lines.append("")
    rest = lines[at:]
    return "\n".join(out + (rest or [""]))


@given(TEXT, TEXT)
def test_a_diff_parses_back_and_makes_the_new_text_of_the_old(old: str, new: str) -> None:
    diff = unified(old, new, "a.txt")
    if old == new:
        assert diff.text == ""
        return
    (file,) = PatchSet(diff.text)
    assert (file.added, file.removed) == (diff.added, diff.removed)
    assert patched(old, diff.text) == new


@given(st.integers(0, 1999), st.integers(0, 3), st.lists(LINE, max_size=3))
def test_a_diff_of_a_long_file_has_the_numbers_of_the_whole_file(at: int, gone: int, put: list[str]) -> None:
    lines = [f"line {n % 7}" for n in range(2000)]
    old = "\n".join(lines) + "\n"
    new = "\n".join(lines[:at] + put + lines[at + gone :]) + "\n"
    diff = unified(old, new, "a.txt")
    assert diff.text == "" if old == new else patched(old, diff.text) == new


def test_created_and_deleted_files_name_no_other_side() -> None:
    assert unified(None, "a\n", "d/x").text.startswith("--- /dev/null\n+++ b/d/x\n@@ -0,0 +1 @@\n+a\n")
    assert unified("a\n", None, "d/x").text.startswith("--- a/d/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n")
    assert unified(None, "", "x").text == "--- /dev/null\n+++ b/x\n"


def test_a_missing_final_line_end_is_shown() -> None:
    assert unified("a\n", "a", "x").text.endswith("-a\n+a\n\\ No newline at end of file\n")


def test_line_ends_are_shown_only_when_they_differ() -> None:
    assert "␍" not in unified("a\r\nb\r\n", "a\r\nc\r\n", "x").text
    assert "-a␍\n+a\n" in unified("a\r\n", "a\n", "x").text


def test_a_long_diff_is_cut_with_a_note() -> None:
    diff = unified(None, "x\n" * 1000, "x").text
    cut = limited(diff)
    assert cut.endswith("… 603 more lines of this diff are not shown.\n")
    assert len(limited("y" * 100 + "\n" + "z" * 100 + "\n", max_bytes=150).split("\n")[0]) == 100
    assert limited("a\nb\n") == "a\nb\n"


def test_a_change_is_read_in_the_encoding_of_its_old_side() -> None:
    before, after = "größe äöü äöü\n".encode("cp1252"), "größe ÄÖÜ äöü\n".encode("cp1252")
    diff = of_change(FileChange(Path("/x"), before, after), "x")
    assert (diff.added, diff.removed, diff.binary) == (1, 1, False)


def test_binary_changes_are_only_named() -> None:
    assert of_change(FileChange(Path("/x"), b"\0\1\2", b"text"), "x").binary


def test_a_name_with_line_ends_adds_no_lines_to_a_diff() -> None:
    name = "a\n+++ b/safe.txt\r\x1b[2K\u2028\u202etxt"
    shown = "a\\n+++ b/safe.txt\\r\\x1b[2K\\u2028\\u202etxt"
    assert unified("x\n", "y\n", name).text == f"--- a/{shown}\n+++ b/{shown}\n@@ -1 +1 @@\n-x\n+y\n"
    assert of_change(FileChange(Path("/x"), None, b"\0\1"), name).text == f"Binary file {shown}\n"
    assert shown_name("sømé file-名.txt") == "sømé file-名.txt"
