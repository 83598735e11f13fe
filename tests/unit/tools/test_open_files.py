"""Changes of files that are open in an editor: through the editor, or on disk, but never half and never blindly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context, put
from tools.change import apply_changes, base_of
from tools.files.regular_files import sha256
from tools.patch import PatchInput, PatchTool
from tools.paths import resolve
from tools.tool import FileChange, PermissionAsk, ToolError


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    (tmp_path / "ws").mkdir()
    return fake_context(tmp_path / "ws")


def opened(ctx: FakeToolContext, name: str, data: bytes) -> Path:
    """A file that is open without unsaved changes, and that the model has read."""
    path = put(ctx, name, data)
    ctx.files.clean.add(path)
    return path


async def test_clean_open_file_is_changed_in_its_editor(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"one\n")
    await apply_changes([FileChange(path, b"one\n", b"two\n")], ctx)
    assert (path.read_bytes(), ctx.files.written) == (b"two\n", [path])
    assert ctx.files.last_read(path) == sha256(b"two\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\n", b"one\r\nthree\n"),
        (b"one\r\n", b"one\r\ntwo\n"),
        (b"one\rtwo\r", b"one\r"),
        ("größe ".encode("cp1252") * 40 + b"\n", "größe ".encode("cp1252") * 40 + b"x\n"),
    ],
)
async def test_file_an_editor_would_reencode_is_written_to_disk(
    ctx: FakeToolContext, before: bytes, after: bytes
) -> None:
    path = opened(ctx, "a.txt", before)
    await apply_changes([FileChange(path, before, after)], ctx)
    assert (path.read_bytes(), ctx.files.written) == (after, [])


async def test_editor_showing_an_old_text_does_not_overwrite_the_file(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"new\n")
    ctx.files.stale[path] = "old\n"
    await apply_changes([FileChange(path, b"new\n", b"newer\n")], ctx)
    assert (path.read_bytes(), ctx.files.written) == (b"newer\n", [])


async def test_saved_file_of_a_closed_editor_is_written_to_disk(
    ctx: FakeToolContext,
) -> None:
    path = opened(ctx, "a.py", b"one\n")
    ctx.files.gone.add(path)
    await apply_changes([FileChange(path, b"one\n", b"two\n")], ctx)
    assert path.read_bytes() == b"two\n"


async def test_unsaved_text_of_a_closed_editor_is_not_overwritten(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"one\n")
    ctx.files.buffers[path] = "typed\n"
    ctx.files.note_read(path, sha256(b"typed\n"))
    ctx.files.gone.add(path)
    with pytest.raises(ToolError, match="open no more"):
        await apply_changes([FileChange(path, b"typed\n", b"two\n")], ctx)
    assert path.read_bytes() == b"one\n"


async def test_an_editor_that_refuses_leaves_all_files_as_they_were(ctx: FakeToolContext) -> None:
    paths = [opened(ctx, f"{name}.py", b"one\n") for name in "abc"]
    closed = put(ctx, "closed.py", b"one\n")
    ctx.files.deaf.add(paths[2])
    with pytest.raises(ToolError, match="refused"):
        await apply_changes([FileChange(path, b"one\n", b"two\n") for path in (*paths, closed)], ctx)
    assert {path.read_bytes() for path in (*paths, closed)} == {b"one\n"}


async def test_failed_disk_write_restores_the_buffers(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"one\n")
    other = put(ctx, "b.py", b"one\n")

    async def meanwhile(ask: PermissionAsk) -> None:
        other.write_bytes(b"somebody else\n")

    ctx.permission.on_ask = meanwhile
    with pytest.raises(ToolError, match="changed while approval was pending"):
        await apply_changes([FileChange(p, b"one\n", b"two\n") for p in (path, other)], ctx)
    assert path.read_bytes() == b"one\n"


async def test_failed_editor_save_rolls_back_type_changes_on_disk(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"one\n")
    plain, inner = put(ctx, "plain", b"a file\n"), put(ctx, "folder/deep/x", b"x\n")
    plain.chmod(0o755)
    inner.chmod(0o600)
    ctx.files.unwilling.add(path)
    with pytest.raises(ToolError):
        await apply_changes(
            [
                FileChange(plain / "in" / "side", None, b"in\n"),
                FileChange(path, b"one\n", b"two\n"),
                FileChange(plain, b"a file\n", None),
                FileChange(ctx.workspace / "folder", None, b"a file now\n"),
                FileChange(inner, b"x\n", None),
            ],
            ctx,
        )
    assert [one.read_bytes() for one in (path, plain, inner)] == [b"one\n", b"a file\n", b"x\n"]
    assert (plain.stat().st_mode & 0o777, inner.stat().st_mode & 0o777) == (0o755, 0o600)


async def test_protected_open_file_is_refused_before_asking(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.ipynb", b"{}\n")
    ctx.files.refusals[path] = "a.ipynb is open as a notebook."
    with pytest.raises(ToolError, match="open as a notebook"):
        await base_of(resolve("a.ipynb", ctx), ctx)
    with pytest.raises(ToolError, match="open as a notebook"):
        await apply_changes([FileChange(path, b"{}\n", None)], ctx)
    assert path.read_bytes() == b"{}\n"


async def test_change_made_by_format_on_save_is_shown(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"one\n")
    ctx.files.format_on_save = str.upper
    outcome = await apply_changes([FileChange(path, b"one\n", b"two\n")], ctx)
    said = outcome.result().content
    assert said.startswith("Edit applied")
    assert "changed a.py while saving" in said
    assert "-two\n+TWO" in said
    assert ctx.files.last_read(path) != sha256(b"TWO\n")


MOVE = """*** Begin Patch
*** Update File: a.py
*** Move to: src/b.py
@@
-one
+two
 rest
*** End Patch
"""


async def test_an_open_file_that_is_moved_is_moved_by_its_editor(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"one\nrest\n")
    await PatchTool().run(PatchInput(patch_text=MOVE), ctx)
    target = ctx.workspace / "src" / "b.py"
    assert ctx.files.moves == [(path, target)]
    assert (path.exists(), target.read_bytes()) == (False, b"two\nrest\n")


async def test_a_move_that_the_editor_refuses_moves_nothing(ctx: FakeToolContext) -> None:
    path = opened(ctx, "a.py", b"one\nrest\n")
    ctx.files.deaf.add(path)
    with pytest.raises(ToolError, match="refused the move"):
        await PatchTool().run(PatchInput(patch_text=MOVE), ctx)
    assert (path.read_bytes(), (ctx.workspace / "src").exists()) == (b"one\nrest\n", False)


async def test_file_with_unsaved_changes_is_neither_moved_nor_deleted(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"one\nrest\n")
    ctx.files.buffers[path] = "one\nrest\ntyped\n"
    ctx.files.note_read(path, sha256(b"one\nrest\ntyped\n"))
    for patch in (MOVE, "*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n"):
        with pytest.raises(ToolError, match="save or discard"):
            await PatchTool().run(PatchInput(patch_text=patch), ctx)
    assert path.read_bytes() == b"one\nrest\n"
