from __future__ import annotations

import random
import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.scenarios.patches import applied, by_difflib, by_git, envelope, spoilings
from tools.patch import parse_patch
from tools.patching.plan import apply_hunks
from tools.tool import ToolError

SEED = 7
SHARED = settings(
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

WORDS = [
    "a",
    "b",
    "  a",
    "\tb",
    "",
    "",
    " ",
    "x = 1",
    "x = 1  ",
    "-- c",
    "++ c",
    "@@ -1 +1 @@",
    "--- a/x.txt",
    "diff",
    "\\ No",
    "é“",
]
ENDS = ["\n", "\n", "\n", "\r\n"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Few different lines, so that places are ambiguous; all line ends; with or without a final one."""
    drawn = draw(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(ENDS)), max_size=14))
    text = "".join(word + end for word, end in drawn)
    return text if draw(st.booleans()) else text.rstrip("\r\n")


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """A text and a changed one."""
    old = draw(texts())
    if draw(st.integers(0, 4)) == 0:
        return old, draw(texts())
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 2))] = draw(
            st.lists(st.sampled_from(["new\n", "a\n", "x = 1\r\n"]), max_size=2)
        )
    return old, "".join(lines)


@SHARED
@given(pair=pairs(), context=st.integers(0, 4), how=st.sampled_from(sorted(spoilings(random.Random(0)))))
@example(pair=("a\r\na", "a\r\nx = 1\r\n"), context=0, how="crlf")
@example(pair=("a\r\nb\r\n", "a\r\nx\r\n"), context=1, how="crlf")
def test_a_diff_of_git_gives_exactly_the_new_text_or_is_refused(
    tmp_path: Path, pair: tuple[str, str], context: int, how: str
) -> None:
    old, new = pair[0].encode(), pair[1].encode()
    patch = by_git(tmp_path, old, new, context).decode()
    if not patch:
        return
    result = applied(spoilings(random.Random(context))[how](patch), old)
    if how == "as it is":
        assert result == new
    else:
        assert isinstance(result, ToolError) or same(result, new, how == "crlf" or "\r" not in patch)


@settings(max_examples=examples(300))
@given(pair=pairs(), context=st.integers(0, 4))
def test_difflib_diff_gives_exactly_the_new_text_or_is_refused(pair: tuple[str, str], context: int) -> None:
    old, new = pair
    patch = by_difflib(old, new, context)
    if patch:
        result = applied(patch, old.encode())
        assert isinstance(result, ToolError) or same(result, new.encode(), "\r" not in patch)


def same(result: bytes, new: bytes, ends_untold: bool) -> bool:
    """A patch that shows no ``\\r`` (or only as its own) says nothing about line ends: the neighbours' are taken."""
    if ends_untold:
        return result.replace(b"\r\n", b"\n") == new.replace(b"\r\n", b"\n")
    return result == new


@settings(max_examples=examples(300))
@given(pair=pairs(), context=st.integers(0, 4))
def test_an_envelope_gives_the_new_lines_or_is_refused(pair: tuple[str, str], context: int) -> None:
    old, new = (text.replace("\r\n", "\n") for text in pair)
    if old.splitlines() != new.splitlines() and "+" in (patch := envelope(old, new, context)):
        result = applied(patch, old.encode())
        assert isinstance(result, ToolError) or result.decode().splitlines() == new.splitlines()


@settings(max_examples=examples(300))
@given(pair=pairs(), context=st.integers(1, 4), numbers=st.booleans())
def test_applied_patch_is_not_applied_again(pair: tuple[str, str], context: int, numbers: bool) -> None:
    old, new = (text.replace("\r\n", "\n") for text in pair)
    patch = by_difflib(old, new, context)
    if not numbers:
        patch = re.sub(r"(?m)^@@ -.*$", "@@", patch)
    added = [line for line in patch.split("\n")[2:] if line.startswith("+") and line[1:].strip()]
    if patch and added and isinstance(once := applied(patch, old.encode()), bytes):
        again = applied(patch, once)
        # The tool refuses a patch that leaves all as it is, too.
        assert isinstance(again, ToolError) or again == once


@settings(max_examples=examples(300))
@given(pair=pairs(), data=st.data())
def test_bytes_that_the_patch_does_not_change_stay(pair: tuple[str, str], data: st.DataObject) -> None:
    old, new = (text.replace("\r\n", "\n") for text in pair)
    patch = by_difflib(old, new, 3)
    file = "".join(
        line + data.draw(st.sampled_from(["", "", " ", "\t"])) + data.draw(st.sampled_from(["\n", "\r\n"]))
        for line in old.split("\n")[: -1 if old.endswith("\n") else None]
    )
    if not patch or not old.endswith("\n") or not new.endswith("\n"):
        return
    result = applied(patch, file.encode())
    if isinstance(result, bytes):
        assert [line.rstrip() for line in result.decode().splitlines()] == [
            line.rstrip() for line in new.splitlines()
        ]
        ours, theirs = Counter(file.encode().split(b"\n")), Counter(result.split(b"\n"))
        removed = sum(line.startswith("-") and not line.startswith("---") for line in patch.splitlines())
        assert sum((ours - theirs).values()) <= removed + patch.count("--- ")


@settings(max_examples=examples(400))
@given(
    st.text(alphabet=st.sampled_from("+-@ *\\\t\n\n\nabc/0,1\r\"'\ud800é~`"), max_size=300), st.integers(0, 9)
)
def test_any_patch_text_raises_only_tool_errors(text: str, fuzz: int) -> None:
    for patch in (
        text,
        f"*** Begin Patch\n*** Update File: a\n{text}",
        f"--- a/a\n+++ b/a\n@@ -1 +1 @@\n{text}",
    ):
        survives(patch, fuzz)


PIECES = [
    "*** Begin Patch", "*** Update File: a", "*** Add File: b", "*** Delete File: a", "*** Move to: c",
    "*** End of File", "*** End Patch", "diff --git a/a b/a", 'diff --git "a/\\303" "b/\\3',
    "index 1234567..89abcde 100644", "rename from a", "rename to b", "copy from a", "copy to c",
    "new file mode 100644", "deleted file mode 100644", "old mode 100644", "new mode 100755", "--- a/a",
    "+++ b/a", "--- /dev/null", "+++ /dev/null", "@@", "@@ -1,3 +1,3 @@", "@@ def f",
    "@@ -99999999999999999999,1 +1 @@", "@@ -0,0 +1 @@", " a", "-a", "+a", "+", "-", " ", "",
    "\\ No newline at end of file", "-- ", "2.39", "```", "EOF", "GIT binary patch",
    "Binary files a and b differ", "--- ", "+++ ", "\u2028", " \x0b", "\x00",
]  # fmt: skip


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["\n", "\r\n"]))
def test_any_mixture_of_patch_lines_raises_only_tool_errors(pieces: list[str], end: str) -> None:
    survives(end.join(pieces), 2)


def survives(patch: str, fuzz: int) -> None:
    try:
        files = parse_patch(patch)
    except ToolError:
        return
    for file in files:
        for base in (b"", b"a\nb\n", b"a\n\na\nb", b"a\rb\r\nc"):
            try:
                apply_hunks(base, file, fuzz)
            except ToolError:
                continue


# -- real files --


def sources(rng: random.Random, count: int) -> list[str]:
    found = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    rng.shuffle(found)
    read = (path.read_bytes().decode("utf-8", "replace") for path in found)
    return [
        text for text in read if "\r" not in text and "\ufffd" not in text and 80 < text.count("\n") < 2500
    ][:count]


def edited(rng: random.Random, text: str) -> str:
    lines = text.split("\n")[:-1]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines) - 3)
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        match rng.choice(["change", "insert", "delete", "word", "repeat"]):
            case "change":
                lines[at] = f"{indent}changed({rng.randrange(99)})"
            case "insert":
                lines.insert(at, f"{indent}inserted({rng.randrange(99)})")
            case "delete":
                del lines[at : at + rng.randint(1, 3)]
            case "word":
                lines[at] = lines[at].replace("self", "that").replace("=", "= ") + "  # x"
            case _:
                source = rng.randrange(len(lines))
                lines[at:at] = lines[source : source + 2]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    rng, folder = random.Random(SEED), tmp_path_factory.mktemp("git")
    rates: dict[str, Counter[str]] = {}

    def count(kind: str, patch: str, old: str, new: str) -> None:
        result = applied(patch, old.encode())
        outcome = (
            "refused" if isinstance(result, ToolError) else "right" if result == new.encode() else "wrong"
        )
        rates.setdefault(kind, Counter())[outcome] += 1

    for old in sources(rng, 40):
        new = edited(rng, old)
        if new == old:
            continue
        for context in (1, 3):
            patch = by_git(folder, old.encode(), new.encode(), context).decode()
            for how, spoil in spoilings(rng).items():
                count(f"{how}, {context}", spoil(patch), old, new)
            count(f"envelope, {context}", envelope(old, new, context), old, new)
            count(f"headings, {context}", envelope(old, new, context, headings=True), old, new)
    return rates


def test_damaged_patch_of_a_real_file_never_writes_wrong_text(table: dict[str, Counter[str]]) -> None:
    assert {kind: rates["wrong"] for kind, rates in table.items() if rates["wrong"]} == {}


def test_nearly_all_damaged_patches_of_real_files_apply(table: dict[str, Counter[str]]) -> None:
    assert table["as it is, 1"]["refused"] == table["as it is, 3"]["refused"] == 0
    low = {
        kind: dict(rates)
        for kind, rates in table.items()
        if rates["right"] < 0.9 * rates.total() and "3" in kind
    }
    assert low == {}


def test_patch_for_another_version_lands_correctly_or_not_at_all(tmp_path: Path) -> None:
    """The expected text is what git's own three-way merge makes of both changes."""
    rng = random.Random(SEED)
    landed = 0
    for old in sources(rng, 25):
        lines = old.split("\n")
        at = rng.randrange(20, len(lines) - 20)
        mine = [*lines[:at], "inserted(1)", *lines[at:]]
        shift = rng.choice([-9, 9])
        theirs = [*lines[: at + shift], "drift()", "drift()", *lines[at + shift :]]
        both = [*theirs[: at + 2 * (shift < 0)], "inserted(1)", *theirs[at + 2 * (shift < 0) :]]
        patch = re.sub(
            r"(?m)^index .*\n", "", by_git(tmp_path, old.encode(), "\n".join(mine).encode(), 3).decode()
        )
        result = applied(patch, "\n".join(theirs).encode())
        assert isinstance(result, ToolError) or result == "\n".join(both).encode()
        landed += isinstance(result, bytes)
    assert landed >= 22
