"""An LSP editor with one open file, that does what editors do; and what goes wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

from lsp_bridge.server.documents.writer import EDITOR_SAVE
from tests.support.drivers.bridge import ClosedError, Door, Raw

DID_CHANGE = "textDocument/didChange"
CAPABILITIES = {
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True, "resourceOperations": ["create", "rename", "delete"]},
    }
}


def offset(text: str, position: dict[str, int]) -> int:
    """Where a position of LSP (UTF-16) is."""
    lines = text.replace("\r\n", "\r\0").replace("\r", "\n").split("\n")
    start = sum(len(line) + 1 for line in lines[: position["line"]])
    start += text.startswith("\n", start) and text[start - 1 : start] == "\r"
    units = text[start:].encode("utf-16-le")[: 2 * position["character"]]
    return start + len(units.decode("utf-16-le"))


class Editor:
    """An editor with one open file; it does what an LSP client does."""

    def __init__(self, client: Raw, path: Path) -> None:
        self.client = client
        self.path = path
        self.text = path.read_bytes().decode()
        self.version = 1
        self.applied: list[str] = []
        self.may_save = True
        self.silent_on: set[str] = set()
        """Methods that it never answers."""
        self.held: dict[str, asyncio.Event] = {}
        """Methods that it does only when the event is set. A held ``textDocument/didChange``: it answers to an edit
        before it reports the change."""
        self.mute_on: set[str] = set()
        """Methods that it carries out and never answers."""
        self.answers: dict[str, Any] = {}
        """Its answers by method, which it gives without doing anything."""
        self.on_save = lambda: None
        """Called before it saves: it formats, or the user types."""
        self.says_saved: bool | None = None
        """Its answer to a save, whatever it did; None: the truth."""
        self.leaves_on = ""
        """The method at which the window is killed, without having done what it was asked for."""
        self.on_edit = lambda: None
        """Called before it processes an edit."""
        self.ahead = 0
        """How many versions the user is ahead of the version that the daemon knows."""
        self.client.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": path.as_uri(), "languageId": "x", "version": 1, "text": self.text}},
        )

    def type(self, text: str) -> None:
        self.text = text
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        params = {"uri": self.path.as_uri(), "version": self.version}
        self.client.notify(DID_CHANGE, {"textDocument": params, "contentChanges": [{"text": self.text}]})

    async def serve(self) -> None:
        """Answer the daemon's requests until the connection ends."""
        with suppress(ClosedError):
            while True:
                message = await self.client.receive()
                if "method" in message and "id" in message:
                    if message["method"] == self.leaves_on:
                        await self.client.close()
                        return
                    if message["method"] in self.silent_on:
                        continue
                    if (held := self.held.get(message["method"])) is not None:
                        await held.wait()
                    if message["method"] in self.mute_on:
                        self._answer(message["method"], message["params"])
                        continue
                    result = self._answer(message["method"], message["params"])
                    self.client.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
                    if result == {"applied": True} and (held := self.held.get(DID_CHANGE)) is not None:
                        await held.wait()
                        self._changed()

    def _answer(self, method: str, params: Any) -> object:
        if method in self.answers:
            return self.answers[method]
        if method == EDITOR_SAVE:
            self.on_save()
            if self.may_save:
                self.path.write_bytes(self.text.encode())
                self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.path.as_uri()}})
            return {"saved": self.may_save if self.says_saved is None else self.says_saved}
        if method != "workspace/applyEdit":
            return None
        self.on_edit()
        (change,) = params["edit"]["documentChanges"]
        if change.get("kind") == "rename":
            return self._rename(change["oldUri"], change["newUri"])
        if change["textDocument"]["version"] != self.version + self.ahead:
            return {"applied": False}
        for edit in reversed(change["edits"]):
            start, end = (offset(self.text, edit["range"][name]) for name in ("start", "end"))
            self.text = self.text[:start] + edit["newText"] + self.text[end:]
        self.applied.append(self.text)
        if DID_CHANGE not in self.held:
            self._changed()
        return {"applied": True}

    def _rename(self, old: str, new: str) -> object:
        assert old == self.path.as_uri()
        target = Path(url2pathname(new.removeprefix("file://")))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.path.rename(target)
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": old}})
        self.path, self.version = target, 1
        item = {"uri": new, "languageId": "x", "version": 1, "text": self.text}
        self.client.notify("textDocument/didOpen", {"textDocument": item})
        return {"applied": True}


@asynccontextmanager
async def attached(
    door: Door,
    path: Path,
    name: str = "editor",
    *,
    can_save: bool = True,
    able: dict[str, Any] = CAPABILITIES,
) -> AsyncGenerator[Editor]:
    """An editor that is attached and has ``path`` open."""
    client = await door.connect()
    await client.initialize(name, able, canSave=can_save)
    editor = Editor(client, path)
    await client.request("goalwright/daemon/status")  # the file is known to be open
    task = asyncio.create_task(editor.serve())
    try:
        yield editor
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def results(client: Raw) -> list[dict[str, Any]]:
    """Let a new session do its turn; the results of its tool calls."""
    session_id = (await client.request("goalwright/session/new"))["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id})
    await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": "go"})
    return [
        event["message"]["content"][0]
        for event in client.events()
        if event["event"] == "message_added" and event["message"]["role"] == "tool"
    ]
