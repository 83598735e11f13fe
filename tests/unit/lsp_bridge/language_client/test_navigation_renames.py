"""Renames by a server process that answers anything at all: all of it, or nothing with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from tests.support.scenarios.language_workspace import HANG_S
from tests.support.scenarios.navigated import Navigated, edit, span
from tools.language_ports import RenamedText, ToolError

RENAME = "textDocument/rename"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Navigated]:
    root = tmp_path / "workspace"
    root.mkdir()
    navigated = Navigated(root)
    yield navigated
    if navigated.servers is not None:
        await asyncio.wait_for(navigated.servers.close(), HANG_S)


async def refused(asked: Awaitable[object]) -> str:
    with pytest.raises(ToolError) as error:
        await asyncio.wait_for(asked, HANG_S)
    return str(error.value)


async def test_rename_returns_the_new_text_of_every_file(here: Navigated) -> None:
    changes = {
        here.a.as_uri(): edit(here.a, (1, 0, 5, "drei"))["edits"],
        here.b.as_uri(): edit(here.b, (0, 0, 5, "drei"), (1, 0, 5, "drei"))["edits"],
    }
    here.serve(
        {
            RENAME: [
                {"changes": changes},
                {"documentChanges": [edit(here.b, (1, 0, 5, "drei")), edit(here.b, (0, 0, 5, "drei"))]},
            ]
        }
    )
    port = here.port()
    assert await port.rename(here.at(2, 1), "drei") == (
        RenamedText(here.a, "one = '😀é'; two\nthree\n", "one = '😀é'; two\ndrei\n"),
        RenamedText(here.b, "three\nthree\n", "drei\ndrei\n"),
    )
    assert here.sent(RENAME)[0]["newName"] == "drei"
    assert [file.after for file in await port.rename(here.at(2, 1), "drei")] == ["drei\ndrei\n"]


async def test_a_rename_may_move_a_file_with_its_text(here: Navigated) -> None:
    target = here.root / "new.txt"
    move = {"kind": "rename", "oldUri": here.b.as_uri(), "newUri": target.as_uri()}
    here.serve(
        {RENAME: [{"documentChanges": [edit(here.b, (0, 0, 5, "drei")), move]}, {"documentChanges": [move]}]}
    )
    port = here.port()
    before = "three\nthree\n"
    assert await port.rename(here.at(2, 1), "drei") == (RenamedText(target, before, "drei\nthree\n", here.b),)
    assert await port.rename(here.at(2, 1), "drei") == (RenamedText(target, before, before, here.b),)


def bad_edits(here: Navigated) -> list[tuple[Any, str]]:
    a, b = here.a, here.b
    snippet = {
        "textDocument": {"uri": b.as_uri()},
        "edits": [{"range": span(0, 0, 1), "snippet": {"value": "$1"}}],
    }
    move = {"kind": "rename", "oldUri": b.as_uri(), "newUri": a.as_uri()}
    return [
        ({"documentChanges": [edit(b, (0, 0, 5, "x"), (0, 3, 4, "y"))]}, "its edits overlap"),
        ({"documentChanges": [edit(b, (7, 0, 1, "x"))]}, "lines that the file does not have"),
        ({"documentChanges": [edit(b, (0, 5, 0, "x"))]}, "malformed"),
        ({"documentChanges": [snippet]}, "malformed"),
        ({"documentChanges": [edit(b, (0, 0, 5, "x")), 7]}, "no file"),
        ({"documentChanges": [{"textDocument": {"uri": b.as_uri()}, "edits": None}]}, "malformed"),
        ({"documentChanges": [{"kind": "create", "uri": b.as_uri()}]}, "create files"),
        ({"documentChanges": [{"kind": "delete", "uri": b.as_uri()}]}, "delete files"),
        ({"documentChanges": [{"kind": "explode"}]}, "malformed"),
        ({"documentChanges": [move]}, "where something is already"),
        ({"changes": {"untitled:x": []}}, "no file"),
        ({"changes": {f"{here.root.as_uri()}/gone": edit(b, (0, 0, 0, "x"))["edits"]}}, "no file that can be read"),
        ({"changes": {(here.root / f"f{n}.txt").as_uri(): edit(b, (0, 0, 0, "x"))["edits"] for n in range(600)}}, "more than 500 files"),  # noqa: E501
        ({"documentChanges": [edit(b, *[(0, 0, 0, "x")] * 20_001)]}, "20000 places"),
        ({"documentChanges": [edit(b, (0, 0, 5, "x" * 20_000_000))]}, "too large"),
    ]  # fmt: skip


async def test_invalid_rename_edit_is_refused_as_a_whole(here: Navigated) -> None:
    cases = bad_edits(here)
    here.serve({RENAME: [answer for answer, _ in cases]})
    port = here.port()
    for _, reason in cases:
        said = await refused(port.rename(here.at(2, 1), "drei"))
        assert reason in said
        assert "proposes for this rename are rejected:" in said and "Nothing was changed" in said
    assert here.b.read_bytes() == b"three\nthree\n"


@pytest.mark.parametrize("answer", [None, {}, {"changes": {}}, {"documentChanges": []}, 7, "x", []])
async def test_an_empty_rename_is_empty(here: Navigated, answer: Any) -> None:
    here.serve({RENAME: [answer]})
    assert await here.port().rename(here.at(2, 1), "drei") == ()


async def test_impossible_rename_gives_the_server_reason(here: Navigated) -> None:
    error = {"$error": {"code": -32803, "message": "a keyword"}}
    here.serve(
        {"textDocument/prepareRename": [None, error, {"defaultBehavior": True}], RENAME: [error]},
        renameProvider={"prepareProvider": True},
    )
    port = here.port()
    assert await port.rename(here.at(2, 1), "drei") == ()
    assert await refused(port.rename(here.at(2, 1), "drei")) == "fake: this cannot be renamed: a keyword"
    assert await refused(port.rename(here.at(2, 1), "drei")) == "fake rejected the new name drei: a keyword"


async def test_rename_of_a_stale_text_is_retried_and_then_abandoned(here: Navigated) -> None:
    old = edit(here.a, (1, 0, 5, "drei"))
    old["textDocument"]["version"] = 0
    here.serve({RENAME: [{"documentChanges": [old]}]})
    said = await refused(here.port().rename(here.at(2, 1), "drei"))
    assert said.startswith("The files changed while fake computed the rename.")
    assert len(here.sent(RENAME)) == 3


async def test_rename_in_an_unsaved_buffer_uses_the_buffer(here: Navigated) -> None:
    here.serve(
        {
            "textDocument/documentSymbol": [[]],
            RENAME: [{"documentChanges": [edit(here.b, (1, 0, 5, "drei"))]}],
        }
    )
    port = here.port()
    await port.outline(here.b)
    here.buffers[here.b] = "unsaved\nthree\n"
    assert await port.rename(here.at(2, 1), "drei") == (
        RenamedText(here.b, "unsaved\nthree\n", "unsaved\ndrei\n"),
    )


async def test_file_under_two_names_is_changed_once(here: Navigated, tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(here.b)
    twice = [edit(here.b, (0, 0, 5, "drei")), edit(link, (0, 0, 5, "drei"))]
    here.serve({RENAME: [{"documentChanges": twice}]})
    assert [file.path for file in await here.port().rename(here.at(2, 1), "drei")] == [here.b]
