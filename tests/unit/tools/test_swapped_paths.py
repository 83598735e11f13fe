from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context, put
from tools.edit import EditInput, EditTool
from tools.files.protected_names import SECRET_FOLDERS
from tools.grep import GrepInput, GrepTool
from tools.patch import PatchInput, PatchTool
from tools.read import ReadInput, ReadTool
from tools.tool import PermissionAsk, PermissionDeniedError, ToolError
from tools.write import WriteInput, WriteTool
from tools.writing import disk


@pytest.fixture
def ctx(root: Path) -> FakeToolContext:
    return fake_context(root)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "elsewhere"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder / "a.py"


def when_asked(ctx: FakeToolContext, swap: Callable[[], None]) -> None:
    async def asked(ask: PermissionAsk) -> None:
        await asyncio.to_thread(swap)

    ctx.permission.on_ask = asked


def link_file(ctx: FakeToolContext, victim: Path) -> Callable[[], None]:
    def swap() -> None:
        path = ctx.workspace / "src/a.py"
        path.unlink(missing_ok=True)
        path.symlink_to(victim)

    return swap


def link_folder(ctx: FakeToolContext, victim: Path) -> Callable[[], None]:
    def swap() -> None:
        (ctx.workspace / "src").rename(ctx.workspace / "old")
        (ctx.workspace / "src").symlink_to(victim.parent)

    return swap


SWAPS = [link_file, link_folder]


@pytest.mark.parametrize("swap", SWAPS)
async def test_an_edit_never_lands_where_it_was_not_approved(
    ctx: FakeToolContext, victim: Path, swap: Callable[[FakeToolContext, Path], Callable[[], None]]
) -> None:
    put(ctx, "src/a.py", b"x = 1\n")
    when_asked(ctx, swap(ctx, victim))
    with pytest.raises(ToolError, match="leads somewhere else now"):
        await EditTool().run(EditInput(file_path="src/a.py", old_string="x = 1", new_string="x = 2"), ctx)
    assert victim.read_text() == "x = 1\n"
    assert list(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize("name", ["src/new.py", "src/deep/new.py"])
async def test_a_new_file_never_lands_where_it_was_not_approved(
    ctx: FakeToolContext, victim: Path, name: str
) -> None:
    (ctx.workspace / "src").mkdir()
    when_asked(ctx, link_folder(ctx, victim))
    with pytest.raises(ToolError, match="leads somewhere else now"):
        await WriteTool().run(WriteInput(file_path=name, content="x\n"), ctx)
    assert list(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize("swap", SWAPS)
async def test_a_deletion_never_reaches_what_was_not_approved(
    ctx: FakeToolContext, victim: Path, swap: Callable[[FakeToolContext, Path], Callable[[], None]]
) -> None:
    put(ctx, "src/a.py", b"x = 1\n")
    when_asked(ctx, swap(ctx, victim))
    with pytest.raises(ToolError, match="leads somewhere else now"):
        await PatchTool().run(
            PatchInput(patch_text="*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch"), ctx
        )
    assert victim.exists()


async def test_folder_swapped_just_before_the_rename_is_noticed(
    ctx: FakeToolContext, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(ctx, "src/a.py", b"x = 1\n")
    read_stamped, swap = disk.read_stamped, link_folder(ctx, victim)

    def compare(path: Path, *, follow: bool = True) -> object:
        found = read_stamped(path, follow=follow)
        if not follow:
            swap()
        return found

    monkeypatch.setattr(disk, "read_stamped", compare)
    with pytest.raises(ToolError, match="leads somewhere else now"):
        await PatchTool().run(
            PatchInput(patch_text="*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch"), ctx
        )
    assert victim.exists()


@pytest.mark.parametrize("swap", SWAPS)
async def test_swapped_path_is_not_read(
    ctx: FakeToolContext, victim: Path, swap: Callable[[FakeToolContext, Path], Callable[[], None]]
) -> None:
    put(ctx, "src/a.py", b"mine\n")
    when_asked(ctx, swap(ctx, victim))
    with pytest.raises(ToolError, match="cannot be read"):
        await ReadTool().run(ReadInput(file_path="src/a.py"), ctx)


async def test_swapped_in_pipe_is_refused_without_waiting(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"x\n")

    def swap() -> None:
        path.unlink()
        os.mkfifo(path)

    when_asked(ctx, swap)
    with pytest.raises(ToolError):
        await ReadTool().run(ReadInput(file_path="a.py"), ctx)
    with pytest.raises(ToolError):
        await EditTool().run(EditInput(file_path="a.py", old_string="x", new_string="y"), ctx)


# -- hard links


@pytest.mark.parametrize("secret", [".env", "conf/.env", ".git/config"])
async def test_a_hard_link_is_asked_about_by_its_protected_name(ctx: FakeToolContext, secret: str) -> None:
    put(ctx, secret, b"KEY=1\n")
    os.link(ctx.workspace / secret, ctx.workspace / "harmless.txt")
    ctx.permission.refuse = {"read"}
    with pytest.raises(PermissionDeniedError):
        await ReadTool().run(ReadInput(file_path="harmless.txt"), ctx)
    (ask,) = ctx.permission.asks
    assert [access.target for access in ask.all_accesses] == ["harmless.txt", secret]


@pytest.mark.parametrize(
    "name",
    [
        *(name if "." in name[1:] else f"{name}/key" for name in SECRET_FOLDERS),
        ".netrc",
        ".aws/sso/cache/a.json",
    ],
)
async def test_a_hard_link_to_a_secret_of_the_home_is_asked_about(
    ctx: FakeToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = tmp_path.resolve() / "home" / name
    secret.parent.mkdir(parents=True)
    secret.write_text("KEY")
    monkeypatch.setenv("HOME", str(tmp_path.resolve() / "home"))
    os.link(secret, ctx.workspace / "notes")
    await ReadTool().run(ReadInput(file_path="notes"), ctx)
    assert secret.as_posix() in [a.target for a in ctx.permission.asks[0].all_accesses]


async def test_search_leaves_out_hard_links_to_protected_files(ctx: FakeToolContext) -> None:
    put(ctx, ".env", b"KEY=1\n")
    os.link(ctx.workspace / ".env", ctx.workspace / "harmless.txt")
    ctx.permission.rules = [("read", ".env", "ask")]
    result = await GrepTool().run(GrepInput(pattern="KEY"), ctx)
    assert "KEY=1" not in result.content
    assert "2 files with matches are left out" in result.content


async def test_a_write_does_not_go_through_a_hard_link(ctx: FakeToolContext, victim: Path) -> None:
    os.link(victim, ctx.workspace / "a.py")
    put_again = ctx.workspace / "a.py"
    await ReadTool().run(ReadInput(file_path="a.py"), ctx)
    await EditTool().run(EditInput(file_path="a.py", old_string="x = 1", new_string="x = 2"), ctx)
    assert put_again.read_text() == "x = 2\n"
    assert victim.read_text() == "x = 1\n"
