"""Open files over the wire: what editors do, and what they do wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.server.documents import writer
from lsp_bridge.server.documents.writer import EDITOR_SAVE
from tests.support.drivers.bridge import Door, Raw, served
from tests.support.drivers.lsp_editor import Editor, attached, results
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Step

ALLOW = {"permission": {"*": "allow"}}
READ = Call("read", {"file_path": "a.txt"})
EDIT = Call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})


@asynccontextmanager
async def editing(*steps: Step, data: bytes = b"one\r\nrest\r\n") -> AsyncGenerator[tuple[Door, Editor, Raw]]:
    """An editor that has a.txt open without unsaved changes, and a model."""
    async with served(*(steps or (READ, EDIT, "done"))) as door:
        path = door.bench.workspace / "a.txt"
        path.write_bytes(data)
        async with attached(door, path) as editor:
            yield door, editor, await door.client("chat", settings=ALLOW)


async def test_open_file_is_changed_by_one_versioned_edit_and_saved() -> None:
    async with editing() as (door, editor, client):
        _, edit = await results(client)
        assert not edit["isError"], edit["content"]
        assert editor.path.read_bytes() == b"two\r\nrest\r\n"
        assert editor.applied == ["two\r\nrest\r\n"]
        assert door.bridge.editors.unsaved(editor.path) is None


async def test_typing_during_an_edit_wins() -> None:
    async with editing() as (_, editor, client):
        editor.on_edit = lambda: editor.type("one, and typed\r\nrest\r\n")
        _, edit = await results(client)
        assert edit["isError"]
        assert "is open in the editor, which rejected the edit;" in edit["content"]
        assert (editor.path.read_bytes(), editor.applied) == (b"one\r\nrest\r\n", [])


@pytest.mark.parametrize("method", ["workspace/applyEdit", EDITOR_SAVE])
async def test_window_killed_during_an_edit_leaves_the_file_intact(
    method: str,
) -> None:
    async with editing(READ, EDIT, READ, EDIT, "done") as (door, editor, client):
        editor.leaves_on = method
        _, edit, _, again = await results(client)
        assert edit["isError"]
        assert "open was closed." in edit["content"]
        assert not again["isError"], again["content"]
        assert editor.path.read_bytes() == b"two\r\nrest\r\n"
        assert door.bridge.editors.opened(editor.path) is None


async def test_hanging_editor_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_S", 0.2)
    async with editing() as (_, editor, client):
        editor.silent_on.add("workspace/applyEdit")
        _, edit = await results(client)
        assert edit["isError"]
        assert "did not answer" in edit["content"]
        assert editor.path.read_bytes() == b"one\r\nrest\r\n"


async def test_the_editor_with_the_unsaved_text_wins() -> None:
    async with editing() as (door, editor, client), attached(door, editor.path, "other") as other:
        other.type("one\r\nrest\r\ntyped\r\n")
        await until(lambda: door.bridge.editors.unsaved(editor.path) == other.text)
        _, edit = await results(client)
        assert not edit["isError"], edit["content"]
        assert editor.path.read_bytes() == b"two\r\nrest\r\ntyped\r\n"
        assert (editor.applied, len(other.applied)) == ([], 1)


async def test_file_with_two_different_unsaved_texts_is_not_edited() -> None:
    async with editing() as (door, editor, client), attached(door, editor.path, "other") as other:
        other.type("one, typed there\r\n")
        editor.type("one, typed here\r\n")
        await until(lambda: (found := door.bridge.editors.opened(editor.path)) and found.refusal)
        _, edit = await results(client)
        assert edit["isError"]
        assert "in two places" in edit["content"]
        assert editor.path.read_bytes() == b"one\r\nrest\r\n"


async def test_a_moved_file_is_moved_by_its_editor() -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: sub/b.txt\n@@\n-one\n+two\n rest\n*** End Patch\n"
    async with editing(READ, Call("patch", {"patch_text": patch}), "done") as (door, editor, client):
        _, moved = await results(client)
        assert not moved["isError"], moved["content"]
        target = door.bench.workspace / "sub" / "b.txt"
        assert editor.path == target
        assert target.read_bytes() == b"two\r\nrest\r\n"
        assert not (door.bench.workspace / "a.txt").exists()


async def test_a_notebook_that_is_open_is_not_changed() -> None:
    read, write = (
        Call("read", {"file_path": "n.ipynb"}),
        Call("write", {"file_path": "n.ipynb", "content": "{}"}),
    )
    async with served(read, write, read, write, "done") as door:
        path = door.bench.workspace / "n.ipynb"
        path.write_text('{"cells": []}')
        editor = await door.connect()
        await editor.initialize("editor", {"notebookDocument": {"synchronization": {}}}, canSave=True)
        cell = {"uri": f"vscode-notebook-cell:{path}#1", "languageId": "python", "version": 1, "text": "x"}
        notebook: dict[str, Any] = {"uri": path.as_uri(), "notebookType": "jupyter-notebook", "version": 1}
        notebook["cells"] = [{"kind": 2, "document": cell["uri"]}]
        params = {"notebookDocument": notebook, "cellTextDocuments": [cell]}
        editor.notify("notebookDocument/didOpen", params)
        await editor.request("goalwright/daemon/status")
        client = await door.client("chat", settings=ALLOW)
        found = await results(client)
        assert "open as a notebook" in found[1]["content"]
        assert path.read_text() == '{"cells": []}'
        closed = {"notebookDocument": {"uri": path.as_uri()}, "cellTextDocuments": []}
        editor.notify("notebookDocument/didClose", closed)
        await editor.request("goalwright/daemon/status")
        assert door.bridge.editors.opened(path) is None


GARBAGE: list[tuple[str, Any]] = [
    (
        "textDocument/didChange",
        {"textDocument": {"uri": "file:///nowhere", "version": 3}, "contentChanges": []},
    ),
    ("textDocument/didChange", {"textDocument": {"uri": "file:///nowhere", "version": 3}}),
    ("textDocument/didChange", {"textDocument": None}),
    ("textDocument/didClose", {"textDocument": {"uri": "file:///nowhere"}}),
    ("textDocument/didClose", []),
    ("textDocument/didSave", {"textDocument": {"uri": "untitled:x"}}),
    ("textDocument/didOpen", {"textDocument": {"uri": 7}}),
    ("notebookDocument/didChange", {"notebookDocument": {"uri": "file:///n", "version": 1}, "change": {}}),
    ("notebookDocument/didClose", {"notebookDocument": {"uri": "file:///n"}, "cellTextDocuments": []}),
    ("workspace/didRenameFiles", {"files": [{"oldUri": "untitled:a", "newUri": "file:///b"}]}),
]


async def test_invalid_document_notifications_do_no_harm() -> None:
    async with editing() as (door, editor, _):
        editor.type("typed\r\n")
        client = await door.client("garbage")
        for method, params in GARBAGE:
            client.notify(method, params)
        await client.request("goalwright/daemon/status")
        await until(lambda: door.bridge.editors.unsaved(editor.path) == "typed\r\n")


async def test_unreadable_change_makes_the_text_unknown() -> None:
    async with editing() as (door, editor, client):
        broken = {"range": {"start": {"line": -1, "character": "x"}, "end": None}, "text": "?"}
        document = {"uri": editor.path.as_uri(), "version": 2}
        editor.client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [broken]})
        await until(lambda: (found := door.bridge.editors.opened(editor.path)) and found.refusal)
        _, edit = await results(client)
        assert edit["isError"]
        assert "content is unknown" in edit["content"]
        assert editor.path.read_bytes() == b"one\r\nrest\r\n"


async def test_read_state_follows_a_file_renamed_by_the_user() -> None:
    edit = Call("edit", {"file_path": "sub/b.txt", "old_string": "one", "new_string": "two"})

    async with served(READ, "seen", edit, "done") as door:
        old, new = door.bench.workspace / "a.txt", door.bench.workspace / "sub" / "b.txt"
        old.write_text("one\n")
        client = await door.client("chat", settings=ALLOW)
        session_id = (await client.request("goalwright/session/new"))["session"]["trace"]["traceId"]
        await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": "read"})
        new.parent.mkdir()
        old.rename(new)
        files: list[dict[str, str]] = [{"oldUri": old.as_uri(), "newUri": new.as_uri()}]
        client.notify("workspace/didRenameFiles", {"files": files})
        await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": "edit"})
        assert new.read_text() == "two\n"


async def test_server_announces_interest_in_renames_and_notebooks() -> None:
    async with served() as door:
        client = await door.connect()
        operations = {"fileOperations": {"didRename": True}, "workspaceFolders": True}
        wanted = {"workspace": operations, "notebookDocument": {"synchronization": {}}}
        capabilities = (await client.initialize("editor", wanted))["capabilities"]
        assert capabilities["workspace"]["fileOperations"]["didRename"]["filters"]
        assert capabilities["workspace"]["workspaceFolders"]["supported"]
        assert capabilities["notebookDocumentSync"]["notebookSelector"]
        folder = {"uri": Path("/elsewhere").as_uri(), "name": "elsewhere"}
        event = {"event": {"added": [folder], "removed": [folder, folder]}}
        client.notify("workspace/didChangeWorkspaceFolders", event)
        await client.request("goalwright/daemon/status")
