from __future__ import annotations

import codecs
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.tool_context import FakeToolContext, fake_context, put
from tools.access import suggestions
from tools.edit import MAX_FILE_BYTES, EditInput, EditTool
from tools.matching.match import MAX_REPLACEMENTS
from tools.read import ReadInput, ReadTool
from tools.registry import builtin_tools, run_tool
from tools.tool import PermissionAsk, PermissionDeniedError, ToolError, ToolResult
from tools.write import WriteInput, WriteTool


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    (tmp_path / "ws").mkdir()
    return fake_context(tmp_path / "ws")


async def edit(ctx: FakeToolContext, path: str, old: str, new: str, replace_all: bool = False) -> ToolResult:
    args = EditInput(file_path=path, old_string=old, new_string=new, replace_all=replace_all)
    return await EditTool().run(args, ctx)


async def write(ctx: FakeToolContext, path: str, content: str) -> ToolResult:
    return await WriteTool().run(WriteInput(file_path=path, content=content), ctx)


async def test_edit_reports_the_replacement_in_the_first_line(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"x = 1\ny = 2\n")
    result = await edit(ctx, "a.py", "y = 2", "y = 3")
    assert path.read_bytes() == b"x = 1\ny = 3\n"
    assert result.content.split("\n")[0] == "Edit applied: a.py (+1 -1)"


async def test_repeated_edit_is_refused_and_changes_nothing(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"x = 1\n")
    await edit(ctx, "a.py", "x = 1", "x = 1\ny = 2")
    with pytest.raises(ToolError, match="Already applied"):
        await edit(ctx, "a.py", "x = 1", "x = 1\ny = 2")
    assert path.read_bytes() == b"x = 1\ny = 2\n"


async def test_edit_error_explains_how_old_string_differs(ctx: FakeToolContext) -> None:
    put(ctx, "a.py", b"def f():\n\treturn 1\n")
    result = await edit(ctx, "a.py", "    return 1", "    return 2")
    assert "tabs and spaces" in result.content


async def test_edit_with_empty_old_string_creates_a_file_and_folders(ctx: FakeToolContext) -> None:
    result = await edit(ctx, "pkg/new.py", "", "a = 1\n")
    assert (ctx.workspace / "pkg/new.py").read_bytes() == b"a = 1\n"
    assert result.content.startswith("Edit applied: pkg/new.py (+1 -0, new file)")


async def test_edit_with_empty_old_string_does_not_overwrite(ctx: FakeToolContext) -> None:
    put(ctx, "a.py", b"x\n")
    with pytest.raises(ToolError, match="not empty"):
        await edit(ctx, "a.py", "", "y")
    put(ctx, "empty.py", b"")
    await edit(ctx, "empty.py", "", "y")
    assert (ctx.workspace / "empty.py").read_bytes() == b"y"


async def test_edit_of_a_missing_file_suggests_names(ctx: FakeToolContext) -> None:
    put(ctx, "cart.py", b"x\n")
    with pytest.raises(ToolError, match=r"does not exist\. Did you mean: cart\.py"):
        await edit(ctx, "carts.py", "x", "y")


@pytest.mark.skipif(os.name == "nt", reason="no sparse files")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", {"file_path": "huge", "old_string": "a", "new_string": "b"}),
        ("write", {"file_path": "huge", "content": "x"}),
        ("patch", {"patch_text": "*** Begin Patch\n*** Delete File: huge\n*** End Patch"}),
        ("symbols", {"operation": "outline", "path": "huge"}),
    ],
)
async def test_file_larger_than_the_memory_is_refused(
    ctx: FakeToolContext, tool: str, arguments: dict[str, str]
) -> None:
    with (ctx.workspace / "huge").open("wb") as file:
        file.truncate(1 << 40)
    result = await run_tool(builtin_tools()[tool], json.dumps(arguments), ctx)
    assert result.is_error
    assert "have not read it" in result.content or "is too large" in result.content


async def test_edit_of_a_binary_file_is_refused(ctx: FakeToolContext) -> None:
    put(ctx, "a.bin", b"\0\1\2")
    with pytest.raises(ToolError, match="binary"):
        await edit(ctx, "a.bin", "x", "y")


async def test_edit_of_an_unread_or_dirty_file_is_refused_first(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"x = 1\n")
    ctx.files.buffers[path] = "x = 2\n"
    with pytest.raises(ToolError, match="changed in the editor, unsaved, since you read it"):
        await edit(ctx, "a.py", "nonsense", "y")
    ctx.files.buffers.clear()
    ctx.files.seen.clear()
    with pytest.raises(ToolError, match="have not read it"):
        await edit(ctx, "a.py", "nonsense", "y")


async def test_edit_through_a_link_writes_its_target_and_keeps_it(ctx: FakeToolContext) -> None:
    path = put(ctx, "real/a.py", b"x = 1\n")
    link = ctx.workspace / "link.py"
    link.symlink_to(path)
    await edit(ctx, "link.py", "x = 1", "x = 2")
    assert link.is_symlink()
    assert path.read_bytes() == b"x = 2\n"
    assert ctx.permission.asks[0].targets == ("real/a.py",)


async def test_edit_outside_the_workspace_asks_once_for_the_real_path(
    ctx: FakeToolContext, tmp_path: Path
) -> None:
    outside = tmp_path / "other/a.py"
    put(ctx, str(outside), b"x = 1\n")
    (ctx.workspace / "way").symlink_to(outside.parent, target_is_directory=True)
    for name in (str(outside), "../other/a.py", "way/a.py"):
        ctx.permission.asks.clear()
        ctx.permission.refuse = {"edit"}
        with pytest.raises(PermissionDeniedError):
            await edit(ctx, name, "x = 1", "x = 2")
        (ask,) = ctx.permission.asks
        assert ask.targets == (outside.resolve().as_posix(),)
    ctx.permission.refuse = set()
    await edit(ctx, "../other/a.py", "x = 1", "x = 2")
    assert ctx.permission.asks[-1].targets == (outside.resolve().as_posix(),)


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
async def test_edit_refuses_an_invalid_path(ctx: FakeToolContext, path: str) -> None:
    with pytest.raises(ToolError):
        await edit(ctx, path, "", "x")


async def test_write_creates_nothing_before_approval(ctx: FakeToolContext) -> None:
    async def look(ask: PermissionAsk) -> None:
        assert list(ctx.workspace.iterdir()) == []

    ctx.permission.on_ask = look
    await write(ctx, "new/a.py", "x\n")
    assert (ctx.workspace / "new/a.py").read_bytes() == b"x\n"


async def test_write_keeps_encoding_mark_and_line_ends(ctx: FakeToolContext) -> None:
    raw = codecs.BOM_UTF16_LE + "a\r\nb\r\n".encode("utf-16-le")
    path = put(ctx, "a.txt", raw)
    await write(ctx, "a.txt", "a\nc\nd\n")
    assert path.read_bytes() == codecs.BOM_UTF16_LE + "a\r\nc\r\nd\r\n".encode("utf-16-le")


async def test_write_keeps_mixed_line_ends_of_lines_that_stay(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.txt", b"a\r\nb\nc\r\n")
    await write(ctx, "a.txt", "a\nb\nnew\nc\n")
    assert path.read_bytes() == b"a\r\nb\nnew\r\nc\r\n"


async def test_write_to_an_existing_file_needs_a_fresh_read(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.txt", b"a\n")
    with pytest.raises(ToolError, match="nothing to change"):
        await write(ctx, "a.txt", "a\n")
    path.write_bytes(b"b\n")
    with pytest.raises(ToolError, match="changed since"):
        await write(ctx, "a.txt", "c\n")


async def test_write_to_a_folder_is_refused(ctx: FakeToolContext) -> None:
    (ctx.workspace / "src").mkdir()
    with pytest.raises(ToolError, match="it is a folder"):
        await write(ctx, "src", "x")


LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b b", "é", "x = 1", "", "  y"]), st.sampled_from(["\n", "\r\n"]))
)
KINDS = st.sampled_from(
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
    ]
)


@given(LINES, LINES, KINDS, st.sampled_from(["NEW", "NEW\nline", ""]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
async def test_bytes_outside_the_edit_are_identical(
    tmp_path_factory: pytest.TempPathFactory,
    head: list[tuple[str, str]],
    tail: list[tuple[str, str]],
    kind: tuple[str, bytes],
    new: str,
) -> None:
    codec, bom = kind
    ctx = fake_context(tmp_path_factory.mktemp("ws"))
    before, after = ("".join(b + e for b, e in part) for part in (head, tail))
    raw = bom + f"{before}TARGET\r\nSECOND{after}".encode(codec)
    path = put(ctx, "a.txt", raw)
    await edit(ctx, "a.txt", "TARGET\nSECOND", new)
    written = path.read_bytes()
    start, end = bom + before.encode(codec), after.encode(codec)
    assert written.startswith(start)
    assert written.endswith(end)
    assert written[len(start) : len(written) - len(end)].decode(codec) == new.replace("\n", "\r\n")


async def test_a_file_too_large_to_be_edited_is_refused_at_once(ctx: FakeToolContext) -> None:
    path = put(ctx, "huge.txt", b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ToolError, match="Use a command"):
        await edit(ctx, "huge.txt", "y", "z")
    assert path.stat().st_size == MAX_FILE_BYTES + 1


async def test_replacing_too_many_places_at_once_is_refused(ctx: FakeToolContext) -> None:
    path = put(ctx, "many.txt", b"x" * (MAX_REPLACEMENTS + 1))
    with pytest.raises(ToolError, match="more than 10,000 times"):
        await edit(ctx, "many.txt", "x", "y", replace_all=True)
    assert set(path.read_bytes()) == {ord("x")}


@pytest.mark.parametrize(
    ("path", "patterns"),
    [
        ("src/b/c.py", ("src/b/*",)),
        ("top.py", ("top.py",)),
        ("src/*.py", ("src/*",)),
        ("*", ()),
        ("?", ()),
        ("a*b", ()),
        ("*/x", ()),
        ("src/*/x.py", ()),
        ("?/x", ()),
        ("a\\b", ()),
        ("d/../~/x", ()),
        ("d/../~", ()),
    ],
)
async def test_always_is_not_suggested_for_names_with_wildcards(
    ctx: FakeToolContext, path: str, patterns: tuple[str, ...]
) -> None:
    await write(ctx, path, "x\n")
    assert ctx.permission.asks[-1].suggestions == suggestions("edit", patterns)
    await ReadTool().run(ReadInput(file_path=path), ctx)
    assert ctx.permission.asks[-1].suggestions == suggestions("read", patterns)


@pytest.mark.parametrize(("folder", "offered"), [("plain", True), ("*", False), ("a?/b", False)])
async def test_always_is_not_suggested_for_wildcard_outside_folders(
    ctx: FakeToolContext, tmp_path: Path, folder: str, offered: bool
) -> None:
    await write(ctx, (tmp_path / folder / "x").as_posix(), "x\n")
    (outside,) = ctx.permission.asks
    pattern = f"{(tmp_path / folder).resolve().as_posix()}/*"
    assert outside.suggestions == (suggestions("edit", (pattern,)) if offered else ())


async def test_in_the_root_of_all_folders_only_the_file_is_offered(ctx: FakeToolContext) -> None:
    ctx.permission.refuse = {"edit"}
    with pytest.raises(PermissionDeniedError):
        await write(ctx, "/no-such-file", "x\n")
    assert ctx.permission.asks[0].suggestions == suggestions("edit", ("/no-such-file",))


async def test_file_name_with_a_line_end_is_shown_on_one_line(ctx: FakeToolContext) -> None:
    result = await write(ctx, "a\nEdit applied: b", "x\n")
    assert result.content.split("\n")[0] == "Edit applied: a\\nEdit applied: b (+1 -0, new file)"
    assert "\n" not in ctx.permission.asks[0].title + result.title


@pytest.mark.parametrize(
    ("content", "old", "told"),
    [
        (b"x = 1\n", "y = 1", "The text to replace is not in the file."),
        (b"x = 1\nx = 1\n", "x = 1", "The text to replace occurs several times in the file."),
        (b"x = 2\n", "x = 2", "The file already has the agent's change."),
        (None, "x = 1", "The file does not exist."),
    ],
)
async def test_failed_edit_shows_the_user_the_reason(
    ctx: FakeToolContext, content: bytes | None, old: str, told: str
) -> None:
    if content is not None:
        put(ctx, "a.py", content)
    args = {"file_path": "a.py", "old_string": old, "new_string": "x = 2"}
    result = await run_tool(EditTool(), json.dumps(args), ctx)
    assert result.is_error
    assert result.metadata["told"] == told


async def test_failed_write_shows_the_user_the_reason(
    ctx: FakeToolContext,
) -> None:
    path = ctx.workspace / "a.py"
    path.write_text("x = 1\n")

    async def told(content: str) -> object:
        arguments = json.dumps({"file_path": "a.py", "content": content})
        return (await run_tool(WriteTool(), arguments, ctx)).metadata["told"]

    assert await told("x = 2\n") == "The agent had not read the file."
    await ReadTool().run(ReadInput(file_path="a.py"), ctx)
    assert await told("x = 1\n") == "The file already has the agent's change."
    path.write_text("x = 3\n")
    assert await told("x = 2\n") == "The file has changed since the agent read it."


HUNGARIAN = (
    "árvíztűrő tükörfúrógép, öt szép szűzlány őrült írót nyúz\nkulcs = 'egy kép'\n" * 3 + "vége = 'é'\n"
)
RUSSIAN = (
    "# Сценарий обработки заказов, основная часть\nдля каждого заказа выполнить проверку\nx = 1  # — x\n"
)


@pytest.mark.parametrize(
    ("codec", "text", "old", "new"),
    [
        ("cp1250", HUNGARIAN, "vége = 'é'", "vége = 'ő'"),
        ("cp1251", RUSSIAN, "x = 1  # —", "x = 1  # — проверка"),
        ("cp1252", "Menü: Preis 5 Euro für Gäste\r\n", "5 Euro für", "5 € für"),
        ("cp1252", "Le café est prêt. Où êtes-vous ?\n", "Le café est prêt", "L’œuvre est prête"),
    ],
)
async def test_new_text_gets_the_code_page_that_was_shown(
    ctx: FakeToolContext, codec: str, text: str, old: str, new: str
) -> None:
    path = put(ctx, "a.txt", text.encode(codec))
    assert codec in str((await ReadTool().run(ReadInput(file_path="a.txt"), ctx)).metadata)
    await edit(ctx, "a.txt", old, new)
    assert path.read_bytes().decode(codec) == text.replace(old, new)


async def test_character_of_another_code_page_is_refused(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.txt", RUSSIAN.encode("cp1251"))
    with pytest.raises(ToolError, match="cp1251, which has no character 'é'"):
        await edit(ctx, "a.txt", "x = 1  # —", "x = 1  # — é")
    assert path.read_bytes() == RUSSIAN.encode("cp1251")
