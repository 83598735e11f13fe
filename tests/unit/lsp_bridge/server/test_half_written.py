"""A change over the wire that goes wrong in the middle: all of it or nothing, and the truth about what remains."""

from __future__ import annotations

import asyncio
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
from tests.support.fakes.models import Call

ALLOW = {"permission": {"*": "allow"}}
APPLY = "workspace/applyEdit"
DATA = b"zero\none\nrest\n"
READS = (Call("read", {"file_path": "a.txt"}), Call("read", {"file_path": "b.txt"}))
PATCH = Call(
    "patch",
    {
        "patch_text": "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n"
        "*** Update File: b.txt\n@@\n-one\n+two\n*** End Patch\n"
    },
)
EDIT = Call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})


@asynccontextmanager
async def patching() -> AsyncGenerator[tuple[Door, Editor, Editor, Raw]]:
    """A model that changes two files, each open in an editor of its own."""
    async with served(*READS, PATCH, "done") as door:
        a, b = (door.bench.workspace / name for name in ("a.txt", "b.txt"))
        for path in (a, b):
            path.write_bytes(DATA)
        async with attached(door, a, "one") as one, attached(door, b, "other") as other:
            yield door, one, other, await door.client("chat", settings=ALLOW)


@asynccontextmanager
async def editing() -> AsyncGenerator[tuple[Door, Editor, Raw]]:
    async with served(READS[0], EDIT, "done") as door:
        path = door.bench.workspace / "a.txt"
        path.write_bytes(DATA)
        async with attached(door, path) as editor:
            yield door, editor, await door.client("chat", settings=ALLOW)


async def typed(door: Door, editor: Editor, text: str) -> None:
    editor.type(text)
    await until(lambda: door.bridge.editors.unsaved(editor.path) == text)


def formats(editor: Editor) -> None:
    editor.on_save = lambda: editor.type(editor.text.rstrip() + "\n# formatted\n")


async def test_nothing_is_saved_before_all_editors_took_their_edit() -> None:
    async with patching() as (door, one, other, client):
        formats(one)
        await typed(door, one, "zero\none\nrest\nprecious\n")
        other.answers[APPLY] = {"applied": False}
        *_, patch = await results(client)
        assert patch["isError"]
        assert "Nothing was written" in patch["content"]
        assert (one.path.read_bytes(), one.text) == (DATA, "zero\none\nrest\nprecious\n")
        assert (other.path.read_bytes(), other.text) == (DATA, DATA.decode())
        assert door.bridge.editors.unsaved(one.path) == one.text


@pytest.mark.parametrize("more", ["typed\n", "elsewhere"])
async def test_typing_during_a_rolled_back_edit_is_kept(more: str) -> None:
    async with patching() as (_, one, other, client):

        def typing() -> None:
            text = one.text.replace("two\n", f"two\n{more}") if more != "elsewhere" else more + one.text
            one.type(text)

        other.on_edit = typing
        other.ahead = 1
        *_, patch = await results(client)
        assert patch["isError"]
        wanted = f"zero\none\n{more}rest\n" if more != "elsewhere" else more + DATA.decode()
        assert (one.text, one.path.read_bytes()) == (wanted, DATA)
        assert "Nothing was written" in patch["content"]


async def test_change_that_cannot_be_rolled_back_is_reported() -> None:
    async with patching() as (_, one, other, client):
        other.on_edit = lambda: one.type(one.text.replace("two", "two, and typed"))
        other.ahead = 1
        *_, patch = await results(client)
        assert patch["isError"]
        assert "Nothing was written" not in patch["content"]
        assert "a.txt still has the change in the editor, unsaved" in patch["content"]
        assert (one.path.read_bytes(), other.text) == (DATA, DATA.decode())


async def session_of(client: Raw) -> str:
    session_id: str = (await client.request("goalwright/session/new"))["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id})
    await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": "go"})
    return session_id


def content_of(client: Raw) -> dict[str, Any]:
    tools = [
        event["message"]["content"][0]
        for event in client.events()
        if event["event"] == "message_added" and event["message"]["role"] == "tool"
    ]
    return tools[-1]


async def test_failed_save_rolls_back_all_files_of_the_patch() -> None:
    async with patching() as (door, one, other, client):
        await typed(door, other, "zero\none\nrest\nprecious\n")
        other.may_save = False
        *_, patch = await results(client)
        assert patch["isError"]
        assert "could not save b.txt" in patch["content"]
        assert (one.path.read_bytes(), other.path.read_bytes()) == (DATA, DATA)
        assert other.text == "zero\none\nrest\nprecious\n"


async def test_change_remaining_on_disk_is_in_the_history() -> None:
    async with patching() as (door, one, other, client):
        other.may_save = False

        def meanwhile() -> None:
            # The person goes on with the agent's line and saves.
            one.path.write_bytes(DATA.replace(b"one", b"two!"))

        other.on_save = meanwhile
        session_id = await session_of(client)
        patch = content_of(client)
        assert patch["isError"]
        assert "a.txt still has the change, on disk" in patch["content"]
        changed = [
            event for event in door.bench.core.store.events(session_id) if event.event == "file_changed"
        ]
        assert [event.path for event in changed] == ["a.txt"]
        await client.request("goalwright/history/undo", {"sessionId": session_id})
        assert one.path.read_bytes() == DATA


@pytest.mark.parametrize("says", [False, None])
async def test_saved_file_counts_as_saved_whatever_the_editor_says(
    monkeypatch: pytest.MonkeyPatch, says: bool | None
) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_S", 0.5)
    async with editing() as (door, editor, client):
        if says is None:
            editor.mute_on.add(EDITOR_SAVE)
        editor.says_saved = says
        *_, edit = await results(client)
        assert edit["content"].startswith("Edit applied")
        assert (editor.text, editor.path.read_bytes()) == ("zero\ntwo\nrest\n", b"zero\ntwo\nrest\n")
        assert door.bridge.editors.unsaved(editor.path) is None


async def test_save_claimed_only_by_the_editor_does_not_count() -> None:
    async with editing() as (_, editor, client):
        editor.answers[EDITOR_SAVE] = {"saved": True}
        *_, edit = await results(client)
        assert edit["isError"]
        assert (editor.text, editor.path.read_bytes()) == (DATA.decode(), DATA)


async def test_save_after_its_timeout_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_S", 0.5)
    async with editing() as (_, editor, client):
        editor.silent_on.add(EDITOR_SAVE)
        *_, edit = await results(client)
        assert edit["isError"]
        assert "did not answer" in edit["content"]
        await until(lambda: editor.text == DATA.decode())
        editor.path.write_bytes(b"zero\ntwo\nrest\n")
        editor.client.notify("textDocument/didSave", {"textDocument": {"uri": editor.path.as_uri()}})
        await until(lambda: editor.path.read_bytes() == DATA)


async def test_typing_during_a_failed_save_is_kept() -> None:
    async with editing() as (_, editor, client):
        editor.may_save = False
        editor.on_save = lambda: editor.type(editor.text + "typed\n")
        *_, edit = await results(client)
        assert edit["isError"]
        assert "could not save" in edit["content"]
        assert (editor.text, editor.path.read_bytes()) == (DATA.decode() + "typed\n", DATA)


async def test_edit_applied_after_its_timeout_is_undone_keeping_typing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_S", 0.5)
    async with editing() as (door, editor, client):
        held = editor.held[APPLY] = asyncio.Event()
        *_, edit = await results(client)
        assert edit["isError"]
        held.set()
        await until(lambda: bool(editor.applied))
        editor.type(editor.text + "typed\n")
        await until(lambda: editor.text == DATA.decode() + "typed\n")
        assert editor.path.read_bytes() == DATA
        await until(lambda: door.bridge.editors.unsaved(editor.path) == editor.text)


@pytest.mark.parametrize(
    "answer", [None, {}, [], "x", {"applied": "yes"}, {"applied": None}, {"applied": True}]
)
async def test_an_answer_is_believed_only_as_far_as_the_text_shows(
    answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_NOTICE_S", 0.3)
    async with editing() as (_, editor, client):
        editor.answers[APPLY] = answer
        async with asyncio.timeout(10):
            *_, edit = await results(client)
        assert edit["isError"]
        assert "is open in the editor, which rejected the edit;" in edit["content"]
        assert (editor.text, editor.path.read_bytes()) == (DATA.decode(), DATA)


async def test_editor_without_versioned_edits_is_not_asked() -> None:
    async with served(READS[0], EDIT, "done") as door:
        path = door.bench.workspace / "a.txt"
        path.write_bytes(DATA)
        raw = await door.connect()
        await raw.initialize("old", {"workspace": {"applyEdit": True}}, canSave=True)
        editor = Editor(raw, path)
        await typed(door, editor, "zero\none\nprecious\n")
        *_, edit = await results(await door.client("chat", settings=ALLOW))
        assert edit["isError"]
        assert "save or discard" in edit["content"]
        assert path.read_bytes() == DATA


async def test_file_unsaved_in_two_windows_is_not_edited() -> None:
    async with editing() as (door, editor, client), attached(door, editor.path, "other") as other:
        for window in (editor, other):
            window.type("zero\none\nsame\n")
        await until(lambda: (found := door.bridge.editors.opened(editor.path)) and found.refusal)
        *_, edit = await results(client)
        assert edit["isError"]
        assert "in two places" in edit["content"]
        assert (editor.path.read_bytes(), editor.text, other.text) == (DATA, *["zero\none\nsame\n"] * 2)


@pytest.mark.parametrize("undone_as", ["two", "formatted"])
async def test_change_formatted_on_save_can_be_undone_and_redone(undone_as: str) -> None:
    async with editing() as (_, editor, client):
        editor.on_save = lambda: editor.type(editor.text.replace("two", "TWO").replace("one\n", "one \n"))
        session_id = await session_of(client)
        assert "changed a.txt while saving" in content_of(client)["content"]
        assert editor.path.read_bytes() == b"zero\nTWO\nrest\n"
        if undone_as == "two":
            editor.on_save = lambda: None
        await client.request("goalwright/history/undo", {"sessionId": session_id})
        wanted = DATA if undone_as == "two" else DATA.replace(b"one", b"one ")
        assert (editor.path.read_bytes(), editor.text.encode()) == (wanted, wanted)
        editor.on_save = lambda: None
        await client.request("goalwright/history/redo", {"sessionId": session_id})
        assert editor.path.read_bytes() == b"zero\nTWO\nrest\n"


async def test_history_records_the_saved_content_across_reloads(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from daemon.files.history import SessionHistory
    from tools.files.regular_files import sha256
    from tools.tool import FileChange

    path = tmp_path / "a.txt"
    path.write_bytes(b"one")
    history = SessionHistory(tmp_path / "files", lambda: datetime.now(UTC), tmp_path)
    versions = await history.keep([FileChange(path, b"one", b"two")], "call")
    await history.settle(versions, {path: b"two\n"})
    history.written(versions)
    for one in (history, SessionHistory(tmp_path / "files", lambda: datetime.now(UTC), tmp_path)):
        (version,) = one.record().versions()
        assert version.entry is not None
        assert version.entry.after == sha256(b"two\n")
        assert one.blobs.get(sha256(b"two\n")) == b"two\n"
