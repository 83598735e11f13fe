from __future__ import annotations

import base64
import os
import tracemalloc
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.files.regular_files import sha256
from tools.ls import LsInput, LsTool
from tools.read import ReadInput, ReadTool
from tools.tool import PermissionDeniedError, ToolError, ToolResult

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    (tmp_path / "ws").mkdir()
    return fake_context(tmp_path / "ws")


async def read(ctx: FakeToolContext, path: str, offset: int = 1, limit: int = 2000) -> ToolResult:
    return await ReadTool().run(ReadInput(file_path=path, offset=offset, limit=limit), ctx)


async def test_a_file_is_shown_with_line_numbers_and_remembered(ctx: FakeToolContext) -> None:
    path = ctx.workspace / "src/a.py"
    path.parent.mkdir()
    path.write_bytes(b"import os\r\n\r\n\tx = 1\r\n")
    result = await read(ctx, "src/a.py")
    assert result.content == "1→import os\n2→\n3→\tx = 1"
    assert ctx.files.last_read(path) == sha256(path.read_bytes()) == result.metadata["sha256"]
    assert result.metadata["path"] == "src/a.py"
    assert ctx.diagnostics.warmed == [path]
    assert [(ask.permission, ask.targets) for ask in ctx.permission.asks] == [("read", ("src/a.py",))]


async def test_a_refused_read_is_not_remembered(ctx: FakeToolContext) -> None:
    (ctx.workspace / ".env").write_bytes(b"KEY=1\n")
    ctx.permission.refuse = {"read"}
    with pytest.raises(PermissionDeniedError):
        await read(ctx, ".env")
    assert not ctx.files.seen


async def test_long_files_come_in_pages(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 2501)))
    first = await read(ctx, "a.txt")
    assert first.content.endswith("2000→line 2000\n(Lines 1-2000 of 2500. Continue with offset=2001.)")
    last = await read(ctx, "a.txt", offset=2499)
    assert last.content == "2499→line 2499\n2500→line 2500\n(Lines 2499-2500 of 2500: the end of the file.)"
    with pytest.raises(ToolError, match="has only 2500 lines"):
        await read(ctx, "a.txt", offset=2501)


async def test_a_page_takes_little_memory(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.txt").write_bytes(b"1\n" * 200_000)
    tracemalloc.start()
    try:
        result = await read(ctx, "a.txt", limit=10)
        assert tracemalloc.get_traced_memory()[1] < 8 * 400_000
    finally:
        tracemalloc.stop()
    assert "(Lines 1-10 of 200000." in result.content


async def test_long_lines_and_many_bytes_are_cut(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.txt").write_text("x" * 5000 + "\n" + ("y" * 1000 + "\n") * 200)
    content = (await read(ctx, "a.txt")).content
    assert "x" * 2000 + "… [line cut: 5000 characters]" in content
    assert len(content) < 52_000
    assert "Continue with offset=" in content


async def test_an_empty_file_is_said_to_be_empty(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.txt").write_bytes(b"")
    assert (await read(ctx, "a.txt")).content == "(The file is empty.)"


async def test_unsaved_text_of_the_editor_is_shown_and_said(ctx: FakeToolContext) -> None:
    path = ctx.workspace / "a.txt"
    path.write_bytes("\ufeffold\r\n".encode())
    ctx.files.buffers[path] = "new\r\n"
    result = await read(ctx, "a.txt")
    assert "UNSAVED" in result.content
    assert "1→new" in result.content
    assert ctx.files.last_read(path) == sha256("\ufeffnew\r\n".encode())


async def test_binary_files_are_refused_with_their_size(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.bin").write_bytes(b"\0\1\2\3\4\5")
    with pytest.raises(ToolError, match=r"binary file of 6 bytes.*Use a command"):
        await read(ctx, "a.bin")


async def test_an_image_is_returned_as_an_image(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.png").write_bytes(PNG)
    result = await read(ctx, "a.png")
    assert [(i.media_type, base64.b64decode(i.data)) for i in result.images] == [("image/png", PNG)]


async def test_text_that_begins_like_an_image_is_text(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a.txt").write_bytes(b"GIF8 is how these files begin\n")
    assert (await read(ctx, "a.txt")).content == "1→GIF8 is how these files begin"


async def test_image_is_no_larger_than_providers_take(ctx: FakeToolContext) -> None:
    for size in range(3_800_000, 4_300_000, 100_000):
        (ctx.workspace / "a.png").write_bytes(PNG.ljust(size, b"\0"))
        try:
            (image,) = (await read(ctx, "a.png")).images
        except ToolError as error:
            assert "too large to show" in str(error)
            continue
        assert len(image.data) <= 5 * 1024 * 1024


async def test_a_missing_file_suggests_up_to_three_that_may_be_seen(ctx: FakeToolContext) -> None:
    for name in ("cart.py", "cart_test.py", "carts.py", "cart.pyi", "secret_cart.py"):
        (ctx.workspace / name).touch()
    ctx.permission.rules = [("read", "carts.py", "deny")]
    with pytest.raises(ToolError, match="does not exist") as caught:
        await read(ctx, "Cart.py")
    named = str(caught.value).split("Did you mean: ")[1].rstrip("?").split(", ")
    assert "cart.py" in named
    assert "carts.py" not in named
    assert len(named) <= 3


async def test_a_folder_is_listed(ctx: FakeToolContext) -> None:
    (ctx.workspace / "src/deep").mkdir(parents=True)
    (ctx.workspace / "src/a.py").touch()
    assert (await read(ctx, "src")).content == "src is a folder:\ndeep/\na.py"


async def test_a_pipe_is_refused_without_waiting(ctx: FakeToolContext) -> None:
    os.mkfifo(ctx.workspace / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        await read(ctx, "pipe")


async def test_a_file_of_the_sessions_scratch_folder_needs_no_question(
    ctx: FakeToolContext,
) -> None:
    ctx.scratch.mkdir()
    (ctx.scratch / "out.txt").write_text("all\n")
    assert (await read(ctx, str(ctx.scratch / "out.txt"))).content == "1→all"
    assert ctx.permission.asked == []


async def test_home_is_expanded_and_named_in_full(
    ctx: FakeToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").write_text("n\n")
    await read(ctx, "~/notes.txt")
    (ask,) = ctx.permission.asks
    assert (ask.permission, ask.targets) == ("read", ((tmp_path / "notes.txt").resolve().as_posix(),))


async def ls(ctx: FakeToolContext, path: str = ".", depth: int = 2) -> ToolResult:
    return await LsTool().run(LsInput(path=path, depth=depth), ctx)


async def test_ls_shows_a_tree_without_opening_git_and_the_like(ctx: FakeToolContext) -> None:
    for name in ("src/pkg/a.py", ".git/config", "node_modules/x/y.js", "README.md"):
        path = ctx.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (ctx.workspace / "link").symlink_to("src")
    lines = (await ls(ctx)).content.split("\n")
    assert lines[1:] == [".git/", "node_modules/", "src/", "  pkg/", "README.md", "link@"]


async def test_ls_is_bounded_and_shows_the_top_first(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a").mkdir()
    for n in range(400):
        (ctx.workspace / f"a/{n:03}").touch()
    (ctx.workspace / "z").touch()
    result = await ls(ctx)
    assert "\nz" in result.content
    assert "… 102 more" in result.content
    assert "Only the first 300 entries" in result.content


async def test_ls_of_what_is_no_folder_is_explained(ctx: FakeToolContext) -> None:
    (ctx.workspace / "a").touch()
    with pytest.raises(ToolError, match="a part of the path is a file"):
        await ls(ctx, "a")
    with pytest.raises(ToolError, match="does not exist"):
        await ls(ctx, "b")
