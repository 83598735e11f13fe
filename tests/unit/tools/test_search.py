from __future__ import annotations

import itertools
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.glob import GlobInput, GlobTool
from tools.grep import GrepInput, GrepTool
from tools.search import ripgrep
from tools.search.glob_pattern import compile_glob, split_base
from tools.tool import PermissionDeniedError, ToolError

RIPGREP = shutil.which("rg")
# The variant with ripgrep exists where ripgrep does; make test installs it in CI.
VARIANTS = ["plain", "ripgrep"] if RIPGREP else ["plain"]

FILES = {
    "src/cart.py": "class Cart:\n    total = 0\n",
    "src/cart.ts": "class Cart {}\r\nclass Total {}\r\n",
    "src/deep/er/item.py": "class Item:\n    price = 1\n",
    "test_cart.py": "from src import cart\n",
    ".hidden/conf.py": "class Hidden:\n",
    ".git/config.py": "class Git:\n",
    "node_modules/lib/x.py": "class Lib:\n",
    ".env": "class SECRET\n",
}


@pytest.fixture(params=VARIANTS)
def ctx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeToolContext:
    monkeypatch.setattr(ripgrep, "ripgrep", lambda workspace: RIPGREP if request.param == "ripgrep" else None)
    root = tmp_path / "ws"
    for index, (name, text) in enumerate(FILES.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (1_000_000 + index, 1_000_000 + index))
    (root / "image.bin").write_bytes(b"class \0Binary\n")
    return fake_context(root)


async def glob(ctx: FakeToolContext, pattern: str, path: str = ".") -> list[str]:
    return (await GlobTool().run(GlobInput(pattern=pattern, path=path), ctx)).content.split("\n")


async def grep(ctx: FakeToolContext, pattern: str, path: str = ".", include: str = "") -> list[str]:
    return (await GrepTool().run(GrepInput(pattern=pattern, path=path, include=include), ctx)).content.split(
        "\n"
    )


async def test_glob_lists_newest_first_without_git_and_packages(ctx: FakeToolContext) -> None:
    expected = [".hidden/conf.py", "test_cart.py", "src/deep/er/item.py", "src/cart.py"]
    assert await glob(ctx, "*.py") == expected
    assert await glob(ctx, "**/*.py") == expected


async def test_glob_of_a_folder_gives_paths_from_the_workspace(ctx: FakeToolContext) -> None:
    assert await glob(ctx, "*.{py,ts}", "src") == ["src/deep/er/item.py", "src/cart.ts", "src/cart.py"]
    assert await glob(ctx, "src/*.py") == ["src/cart.py"]
    assert await glob(ctx, f"{ctx.workspace}/src/**/item.*") == ["src/deep/er/item.py"]
    assert await glob(ctx, f"{ctx.workspace}/src/*.py") == ["src/cart.py"]
    assert await glob(ctx, f"{ctx.workspace}/src/**") == ["src/deep/er/item.py", "src/cart.ts", "src/cart.py"]
    assert await glob(ctx, "*.rs") == ["No files match."]


async def test_a_denied_file_is_not_shown_as_another_one(ctx: FakeToolContext) -> None:
    for name in ("private/a\nsrc/cart.py", "private\nsrc/cart.py"):
        (ctx.workspace / name).parent.mkdir(parents=True)
        (ctx.workspace / name).write_bytes(b"class Secret:\n")
    ctx.permission.rules.append(("read", "private*", "deny"))
    assert await grep(ctx, "Secret") == ["No lines match."]


@pytest.mark.parametrize("name", ["-", "-e", "./a", "~"])
async def test_a_file_is_searched_whatever_its_name(ctx: FakeToolContext, name: str) -> None:
    (ctx.workspace / name).write_bytes(b"class Odd:\n")
    assert await grep(ctx, "class", f"./{name}") == [str(Path(name)), "1→class Odd:"]


async def test_glob_shows_a_hundred(ctx: FakeToolContext) -> None:
    for n in range(120):
        (ctx.workspace / f"many_{n}.txt").touch()
    lines = await glob(ctx, "many_*")
    assert len(lines) == 101
    assert lines[-1].startswith("(120 files match; the 100 newest are shown.")


async def test_glob_hides_denied_files_and_asks(ctx: FakeToolContext) -> None:
    ctx.permission.rules = [("read", "src/*", "deny")]
    assert await glob(ctx, "cart.*") == ["No files match."]
    assert ctx.permission.asks[0].targets == ("cart.*",)
    ctx.permission.refuse = {"glob"}
    with pytest.raises(PermissionDeniedError):
        await glob(ctx, "*")


async def test_glob_in_a_missing_folder_is_refused(ctx: FakeToolContext) -> None:
    with pytest.raises(ToolError, match="is not a folder"):
        await glob(ctx, "*", "nowhere")


async def test_grep_groups_lines_by_file_newest_first(ctx: FakeToolContext) -> None:
    ctx.permission.rules = [("read", ".env", "ask")]
    assert await grep(ctx, r"^class \w+") == [
        ".hidden/conf.py", "1→class Hidden:",
        "src/deep/er/item.py", "1→class Item:",
        "src/cart.ts", "1→class Cart {}", "2→class Total {}",
        "src/cart.py", "1→class Cart:",
        "(1 files with matches are left out: reading them needs approval.)",
    ]  # fmt: skip


async def test_grep_of_one_file_asks_to_read_it(ctx: FakeToolContext) -> None:
    ctx.permission.rules = [("read", ".env", "ask")]
    assert await grep(ctx, "SECRET", ".env") == [".env", "1→class SECRET"]
    assert ctx.permission.asked == ["grep", "read"]
    ctx.permission.refuse = {"read"}
    with pytest.raises(PermissionDeniedError):
        await grep(ctx, "SECRET", ".env")


async def test_grep_can_be_limited_to_names(ctx: FakeToolContext) -> None:
    assert await grep(ctx, "class", include="*.ts") == ["src/cart.ts", "1→class Cart {}", "2→class Total {}"]
    assert await grep(ctx, "class", "src", include="deep/**") == ["src/deep/er/item.py", "1→class Item:"]
    assert await grep(ctx, "nowhere to be found") == ["No lines match."]


async def test_matches_in_other_files_leave_room_for_included_ones(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "MAX_BYTES", 20_000)
    for number in range(50):
        (ctx.workspace / f"{number}.jsonl").write_bytes(b"needle\n" * 1000)
        (ctx.workspace / f"{number}.py").write_bytes(b"needle\n")
    result = await GrepTool().run(GrepInput(pattern="needle", include="*.py"), ctx)
    assert result.metadata["count"] == 50
    assert "stopped early" not in result.content


async def test_grep_matches_the_end_of_crlf_lines(ctx: FakeToolContext) -> None:
    assert await grep(ctx, r"Cart \{\}$") == ["src/cart.ts", "1→class Cart {}"]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
async def test_no_line_is_after_the_last_line_end(ctx: FakeToolContext, codec: str) -> None:
    (ctx.workspace / "lines.txt").write_bytes("first\n\nlast\n".encode(codec))
    assert await grep(ctx, "^$", include="lines.txt") == ["lines.txt", "2→"]


async def test_grep_takes_patterns_that_look_like_options(ctx: FakeToolContext) -> None:
    (ctx.workspace / "o.txt").write_text("--files\n")
    assert await grep(ctx, "--files") == ["o.txt", "1→--files"]


async def test_invalid_pattern_is_an_error(ctx: FakeToolContext) -> None:
    with pytest.raises(ToolError, match="regex parse error"):
        await grep(ctx, "foo(")


async def test_grep_is_bounded_in_lines_and_width(ctx: FakeToolContext) -> None:
    (ctx.workspace / "big.txt").write_text(("needle " + "x" * 2000 + "\n") * 300)
    lines = await grep(ctx, "needle")
    assert len(lines) == 102
    assert max(map(len, lines)) < 600
    assert lines[-1].startswith("(300 lines match; the first 100")


async def test_links_are_not_followed(ctx: FakeToolContext, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("class Outside:\n")
    (ctx.workspace / "way").symlink_to(tmp_path, target_is_directory=True)
    (ctx.workspace / "file.py").symlink_to(tmp_path / "outside.py")
    assert await grep(ctx, "class Outside") == ["No lines match."]


@pytest.mark.parametrize("limit", ["TIMEOUT_S", "FINISH_S"])
async def test_walk_that_times_out_returns_partial_results_with_a_note(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    left = itertools.count(9 if limit == "TIMEOUT_S" else 3, -1)

    def over(deadline: ripgrep.Deadline) -> bool:
        deadline.hit = deadline.hit or (deadline.seconds == 0 and next(left) <= 0)
        return deadline.hit

    monkeypatch.setattr(ripgrep, limit, 0)
    monkeypatch.setattr(ripgrep.Deadline, "over", over)
    if limit == "TIMEOUT_S" and ripgrep.ripgrep(ctx.workspace):
        return  # its process has a timeout, tested below
    *found, said = await glob(ctx, "**/*.py")
    assert said == "(The search was stopped early: too many files, or it took too long.)"
    assert found
    assert set(found) < {"src/cart.py", "src/deep/er/item.py", "test_cart.py", ".hidden/conf.py"}
    if limit == "FINISH_S":
        left = itertools.count(1, -1)
        *found, said = await grep(ctx, "class")
        assert said.startswith("(The search was stopped early:")
        assert found


def test_folders_without_files_do_not_keep_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "TIMEOUT_S", 0)
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/x.py").touch()
    assert ripgrep._walk(tmp_path) == ripgrep.SearchResult(cut=True)  # pyright: ignore[reportPrivateUsage]


async def test_a_search_that_takes_too_long_is_stopped(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "ripgrep", lambda workspace: None)
    monkeypatch.setattr(ripgrep, "TIMEOUT_S", 0.5)
    (ctx.workspace / "evil.txt").write_text("a" * 60 + "!\n")
    assert (await grep(ctx, "(a+)+$", "evil.txt"))[-1].startswith("(The search was stopped early:")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="of POSIX")
@pytest.mark.parametrize("where", [".gitignore", "src/deep/.gitignore", "src/.ignore"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
async def test_endless_ignore_file_does_not_block_a_search(
    ctx: FakeToolContext, where: str, kind: str
) -> None:
    path = ctx.workspace / where
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    assert await grep(ctx, "class", include="*.ts") == ["src/cart.ts", "1→class Cart {}", "2→class Total {}"]
    assert await glob(ctx, "src/*.py") == ["src/cart.py"]


def test_ripgrep_of_the_workspace_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ripgrep.ripgrep(tmp_path) is None
    assert ripgrep.ripgrep(tmp_path / "ws") == str(program)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a/py"]),
        ("./src/*.py", ["src/a.py"], ["src/x/a.py", "a.py"]),
        ("**/*.py", ["a.py", "x/a.py"], ["a.ts"]),
        ("src/**", ["src/a", "src/x/y"], ["a", "srcs/a"]),
        ("src/**/test_*", ["src/test_a", "src/x/y/test_b"], ["src/x/a"]),
        ("**", ["a", "x/y"], []),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
        ("[!a]*.{py,p[xy]i}", ["b.py", "b.pyi", "b.pxi"], ["a.py"]),
        ("{src,test}/**/*.py", ["src/a.py", "test/x/a.py"], ["doc/a.py"]),
        ("a{b", ["a{b"], ["ab"]),
        (r"a\*b", ["a*b"], ["axb"]),
        ("[a-", ["[a-"], ["a"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt"]),
    ],
)
def test_globs_match_as_people_expect(pattern: str, matches: list[str], others: list[str]) -> None:
    compiled = compile_glob(pattern)
    assert [name for name in matches + others if compiled.match(name)] == matches


@pytest.mark.parametrize(
    "pattern",
    [
        "**/" * 200 + "x",
        "**/*" * 100 + "x",
        "*a" * 200 + "b",
        "{a,aa}" * 100 + "b",
        "{*,**/}" * 100 + "b",
        "{" * 200 + "a" + ",a}" * 200 + "b",
        "[a-z]*" * 100 + "!",
        "**a" * 200 + "?b",
    ],
)
def test_glob_matching_never_backtracks(pattern: str) -> None:
    compiled = compile_glob(pattern)
    # A matcher that backtracks does not return from these within the test's time limit.
    for path in ("a/" * 100 + "a", "a" * 400, "ab" * 200 + "!"):
        assert not compiled.match(path + "c")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("a" * 2_001, "at most 2000"), ("[z-a]", "bad character range"), ("{a,[}]", "not closed")],
)
def test_a_glob_that_cannot_be_used_is_explained(pattern: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        compile_glob(pattern)


_EXPRESSIONS = {
    "a": "a", "b": "b", "/": "/", "?": "[^/]", "*": "[^/]*", "**": ".*", "**/": "(?:.*/)?", "[ab]": "[ab]",
    "[!a]": "[^/a]", "{a,b}": "(?:a|b)", "{a,*/b}": "(?:a|[^/]*/b)", "{,*b/}": "(?:|[^/]*b/)",
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(_EXPRESSIONS)), max_size=8), st.text("ab/", max_size=8))
def test_glob_matches_the_same_as_its_regular_expression(pieces: list[str], rest: str) -> None:
    pieces = ["a", "/", *pieces]
    for one, two in itertools.pairwise(pieces):
        assume(not (one.endswith("*") and two.startswith(("*", "/"))))  # together they are another token
        assume(not two.startswith("**/") or one.endswith("/"))
    expression = "".join(_EXPRESSIONS[piece] for piece in pieces)
    assert compile_glob("".join(pieces)).match("a/" + rest) == bool(re.fullmatch(expression, "a/" + rest))


def test_an_absolute_glob_is_split_at_its_first_wildcard() -> None:
    assert split_base("/a/b/**/*.py") == ("/a/b", "**/*.py")
    assert split_base("/*.py") == ("/", "*.py")
    assert split_base("/a/b.py") == ("/a", "b.py")
