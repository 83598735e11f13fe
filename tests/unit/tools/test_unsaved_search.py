"""Searching sees text that the user has typed, with ripgrep and without."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.glob import GlobInput, GlobTool
from tools.grep import GrepInput, GrepTool
from tools.read import ReadInput, ReadTool
from tools.search import ripgrep

RIPGREP = shutil.which("rg")
VARIANTS = ["plain", "ripgrep"] if RIPGREP else ["plain"]
TYPED = " (as in the editor, with UNSAVED changes)"


@pytest.fixture(params=VARIANTS)
def ctx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeToolContext:
    monkeypatch.setattr(ripgrep, "ripgrep", lambda workspace: RIPGREP if request.param == "ripgrep" else None)
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one = 1\ntotal = 2\n")
    (root / "b.py").write_text("total = 3\n")
    return fake_context(root)


def typed(ctx: FakeToolContext, name: str, text: str) -> Path:
    path = ctx.workspace / name
    ctx.files.buffers[path] = text
    return path


async def grep(ctx: FakeToolContext, pattern: str, path: str = ".", include: str = "") -> set[str]:
    args = GrepInput(pattern=pattern, path=path, include=include)
    return set((await GrepTool().run(args, ctx)).content.split("\n"))


async def test_line_typed_but_unsaved_is_found(ctx: FakeToolContext) -> None:
    typed(ctx, "src/a.py", "\r\n\r\none = 1\r\nsubtotal = 2\r\n")
    expected = {f"src/a.py{TYPED}", "4→subtotal = 2", "b.py", "1→total = 3"}
    assert await grep(ctx, "total") == expected
    assert await grep(ctx, "^subtotal = 2$") == {f"src/a.py{TYPED}", "4→subtotal = 2"}
    assert await grep(ctx, "subtotal", "src/a.py") == {f"src/a.py{TYPED}", "4→subtotal = 2"}


async def test_text_of_a_file_whose_name_is_not_utf_8_is_found(ctx: FakeToolContext) -> None:
    name = os.fsdecode(b"src/caf\xe9.py")
    (ctx.workspace / name).write_text("subtotal on disk\n")
    typed(ctx, name, "subtotal typed\n")
    assert await grep(ctx, "subtotal") == {f"src/caf\ufffd.py{TYPED}", "1→subtotal typed"}


async def test_line_on_disk_replaced_by_typing_is_not_found(ctx: FakeToolContext) -> None:
    typed(ctx, "src/a.py", "one = 1\n")
    assert await grep(ctx, "total") == {"b.py", "1→total = 3"}
    assert await grep(ctx, "total", "src") == {"No lines match."}
    assert await grep(ctx, "total", "src/a.py") == {"No lines match."}


async def test_search_excludes_apply_to_buffers_too(ctx: FakeToolContext) -> None:
    typed(ctx, "node_modules/x.py", "total\n")
    typed(ctx, "src/c.txt", "total\n")
    ctx.files.buffers[ctx.workspace.parent / "elsewhere.py"] = "total\n"
    assert await grep(ctx, "total", include="*.py") == {"src/a.py", "2→total = 2", "b.py", "1→total = 3"}


async def test_unreadable_file_is_not_searched_even_when_open(ctx: FakeToolContext) -> None:
    typed(ctx, "src/a.py", "total = 9\n")
    ctx.permission.rules = [("read", "src/*", "deny")]
    assert "1→total = 9" not in await grep(ctx, "total")


async def test_never_saved_file_is_listed_searched_and_read(ctx: FakeToolContext) -> None:
    typed(ctx, "src/new.py", "brand_new = 1\n")
    assert await grep(ctx, "brand_new") == {f"src/new.py{TYPED}", "1→brand_new = 1"}
    assert await grep(ctx, "brand_new", "src/new.py") == {f"src/new.py{TYPED}", "1→brand_new = 1"}
    assert "src/new.py" in (await GlobTool().run(GlobInput(pattern="**/*.py"), ctx)).content
    assert "brand_new" in (await ReadTool().run(ReadInput(file_path="src/new.py"), ctx)).content


@pytest.mark.skipif(RIPGREP is None, reason="git's ignored files are left out by ripgrep alone")
async def test_typing_in_an_ignored_file_keeps_it_ignored(
    ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "ripgrep", lambda workspace: RIPGREP)
    (ctx.workspace / ".git").mkdir()
    (ctx.workspace / ".gitignore").write_text("/out/\n")
    (ctx.workspace / "out").mkdir()
    (ctx.workspace / "out" / "made.py").write_text("total\n")
    typed(ctx, "out/made.py", "total\n")
    assert await grep(ctx, "total") == {"src/a.py", "2→total = 2", "b.py", "1→total = 3"}
