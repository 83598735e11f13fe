"""A file with unsaved changes is changed in its editor: versioned, and saved, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from lsp_bridge.language_client.text.positions import PositionEncoding
from lsp_bridge.server.documents import writer
from lsp_bridge.server.documents.writer import text_edits
from tests.support.drivers.bridge import Door, Raw, served
from tests.support.drivers.lsp_editor import CAPABILITIES, DID_CHANGE, Editor, attached, results
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call

ALLOW = {"permission": {"*": "allow"}}


@asynccontextmanager
async def editing(typed: str, *, can_save: bool = True) -> AsyncGenerator[tuple[Door, Editor, Raw]]:
    """An editor whose person has typed ``typed`` into a.txt, and a model that reads it and edits 😀."""
    steps = (
        Call("read", {"file_path": "a.txt"}),
        Call("edit", {"file_path": "a.txt", "old_string": "😀", "new_string": "smile"}),
        "done",
    )
    async with served(*steps) as door:
        path = door.bench.workspace / "a.txt"
        path.write_bytes(b"on disk\r\n")
        async with attached(door, path, can_save=can_save) as editor:
            editor.type(typed)
            await until(lambda: door.bridge.editors.unsaved(path) == typed)
            yield door, editor, await door.client("chat", settings=ALLOW)


async def test_edit_of_unsaved_text_is_applied_in_the_editor_and_saved() -> None:
    async with editing("on disk\r\ntyped 😀 and 😀😁\r\nlast".replace("😀😁", "x")) as (door, editor, client):
        _, edit = await results(client)
        assert not edit["isError"], edit["content"]
        assert editor.path.read_bytes() == b"on disk\r\ntyped smile and x\r\nlast"
        assert editor.applied == ["on disk\r\ntyped smile and x\r\nlast"]
        await until(lambda: door.bridge.editors.unsaved(editor.path) is None)


async def test_an_editor_that_cannot_save_is_not_touched() -> None:
    async with editing("typed 😀\r\n", can_save=False) as (_, editor, client):
        _, edit = await results(client)
        assert edit["isError"]
        assert "save or discard" in edit["content"]
        assert (editor.path.read_bytes(), editor.applied) == (b"on disk\r\n", [])


SAYS_NO_VERSIONS = {"workspace": {"applyEdit": True, "workspaceEdit": {"resourceOperations": ["rename"]}}}
"""As Neovim, which takes edits of a version nevertheless."""


@asynccontextmanager
async def shown(
    *later: Call | str, able: dict[str, Any] = CAPABILITIES
) -> AsyncGenerator[tuple[Door, Editor, Raw]]:
    """An editor that cannot save and has a.txt open, without changes, and a model that reads and edits it."""
    steps = (
        Call("read", {"file_path": "a.txt"}),
        Call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
        *later,
        "done",
    )
    async with served(*steps) as door:
        path = door.bench.workspace / "a.txt"
        path.write_bytes(b"one 1\nlast\n")
        async with attached(door, path, can_save=False, able=able) as editor:
            yield door, editor, await door.client("chat", settings=ALLOW)


@pytest.mark.parametrize("able", [CAPABILITIES, SAYS_NO_VERSIONS])
async def test_editor_that_cannot_save_shows_the_edit_written_to_disk(able: dict[str, Any]) -> None:
    again = Call("edit", {"file_path": "a.txt", "old_string": "last", "new_string": "end"})
    async with shown(again, able=able) as (door, editor, client):
        _, first, second = await results(client)
        assert not first["isError"] and not second["isError"], (first["content"], second["content"])
        assert editor.applied == ["two 1\nlast\n", "two 1\nend\n"]
        assert editor.path.read_bytes() == b"two 1\nend\n"
        assert door.bridge.editors.unsaved(editor.path) is None


async def test_undo_updates_the_buffer_of_an_editor_that_cannot_save() -> None:
    async with shown() as (door, editor, client):
        await results(client)
        [listed] = (await client.request("goalwright/session/list"))["sessions"]
        await client.request("goalwright/history/undo", {"sessionId": listed["trace"]["traceId"]})
        assert (editor.text, editor.path.read_bytes()) == ("one 1\nlast\n", b"one 1\nlast\n")
        assert door.bridge.editors.unsaved(editor.path) is None


@pytest.mark.parametrize("refusal", ["applied: false", "error", "gone"])
async def test_editor_that_rejects_the_edit_keeps_its_old_text(refusal: str) -> None:
    async with shown() as (_, editor, client):
        if refusal == "gone":
            editor.leaves_on = "workspace/applyEdit"
        else:
            editor.answers["workspace/applyEdit"] = {"applied": False} if refusal != "error" else []
        _, edit = await results(client)
        assert not edit["isError"], edit["content"]
        assert (editor.path.read_bytes(), editor.text) == (b"two 1\nlast\n", "one 1\nlast\n")


async def test_typing_during_an_edit_is_kept_if_the_editor_cannot_save() -> None:
    async with shown() as (_, editor, client):
        editor.on_edit = lambda: editor.type("one 1\nlast\ntyped\n")
        _, edit = await results(client)
        assert edit["isError"]
        assert "its text may have changed" in edit["content"]
        assert (editor.path.read_bytes(), editor.text) == (b"one 1\nlast\n", "one 1\nlast\ntyped\n")


async def test_failed_write_rolls_back_the_buffer_edit() -> None:
    async with shown() as (_, editor, client):
        # Somebody writes the file between the edit of the buffer and that of the file.

        def write() -> None:
            if not editor.applied:
                editor.path.write_bytes(b"other\n")

        editor.on_edit = write
        _, edit = await results(client)
        assert edit["isError"]
        assert editor.path.read_bytes() == b"other\n"
        assert editor.text == "one 1\nlast\n"


async def test_text_that_could_not_be_saved_is_restored() -> None:
    async with editing("typed 😀\r\n") as (_, editor, client):
        editor.may_save = False
        _, edit = await results(client)
        assert edit["isError"]
        assert "could not save" in edit["content"]
        assert editor.text == "typed 😀\r\n"
        assert editor.path.read_bytes() == b"on disk\r\n"


@pytest.mark.parametrize("first", ["change", "answer"])
async def test_edit_applied_too_late_is_undone(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_S", 0.05)
    async with editing("typed 😀\r\n") as (_, editor, client):
        applies = editor.held["workspace/applyEdit"] = asyncio.Event()
        _, edit = await results(client)
        assert edit["isError"]
        assert "did not answer" in edit["content"]
        monkeypatch.setattr(writer, "TIMEOUT_S", 20.0)
        if first == "answer":
            reports = editor.held[DID_CHANGE] = asyncio.Event()
            came_late, answered = writer.DocumentWriter._came_late, asyncio.Event()

            def heard(*given: Any) -> None:
                came_late(*given)
                answered.set()

            monkeypatch.setattr(writer.DocumentWriter, "_came_late", heard)
            applies.set()
            await until(answered.is_set)
            reports.set()
        applies.set()
        await until(lambda: editor.applied == ["typed smile\r\n", "typed 😀\r\n"])
        assert editor.text == "typed 😀\r\n"


async def test_edit_of_an_outdated_version_is_refused() -> None:
    async with editing("typed 😀\r\n") as (_, editor, client):
        editor.ahead = 1
        _, edit = await results(client)
        assert edit["isError"]
        assert "is open in the editor, which rejected the edit;" in edit["content"]
        assert (editor.path.read_bytes(), editor.applied) == (b"on disk\r\n", [])


PIECES = st.sampled_from(["a", "ä", "😀", "\u2028", "\x0c", "\n", "\r\n", "\r", "bb\n", ""])
TEXT = st.lists(PIECES, max_size=30).map("".join)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@given(before=TEXT, after=TEXT)
def test_the_edits_turn_one_text_into_the_other(encoding: PositionEncoding, before: str, after: str) -> None:
    text = before
    for edit in reversed(text_edits(before, after, encoding)):
        ends = [
            (edit.range.start.line, edit.range.start.character),
            (edit.range.end.line, edit.range.end.character),
        ]
        # Hunks are whole lines: columns are zero, but at the end of a text without a final line end.
        starts = line_starts(before)
        start, end = (
            starts[line] + len(before[starts[line] :].encode("utf-16-le")[: 2 * column].decode("utf-16-le"))
            if encoding == "utf-16"
            else starts[line] + column
            for line, column in ends
        )
        assert isinstance(edit, types.TextEdit)
        text = text[:start] + edit.new_text + text[end:]
    assert text == after


def line_starts(text: str) -> list[int]:
    starts, at = [0], 0
    while at < len(text):
        at += 2 if text.startswith("\r\n", at) else 1
        if text[at - 1] in "\r\n":
            starts.append(at)
    return starts
