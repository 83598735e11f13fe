"""Any LSP editor over ``goalwright connect --stdio``: pytest-lsp's client, real processes, a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient

from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode
from lsp_bridge.server.editor_server import converter
from tests.support.drivers.command_line import PROGRAM, CommandLine
from tests.support.drivers.waiting import until

pytestmark = pytest.mark.timeout(180)


class Editor:
    """An LSP editor with goalwright's requests on top."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.events: list[dict[str, Any]] = []
        self.deltas: list[dict[str, Any]] = []

    async def initialize(self, workspace: Path, options: dict[str, Any] | None) -> types.InitializeResult:
        return await self.client.initialize_session(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(),
                root_uri=workspace.as_uri(),
                initialization_options=options,
            )
        )

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        async with asyncio.timeout(60):
            result: dict[str, Any] = await self.client.protocol.send_request_async(
                f"goalwright/{method}", params
            )
        return result

    def prompt(self, session_id: str, text: str, **params: Any) -> asyncio.Task[dict[str, Any]]:
        """A prompt under way."""
        return asyncio.create_task(self.request("session/prompt", sessionId=session_id, text=text, **params))

    async def event(self, name: str) -> dict[str, Any]:
        """The first event of this name, come already or still to come."""
        await until(lambda: any(e["event"] == name for e in self.events), f"the event {name}", within_s=60)
        return next(e for e in self.events if e["event"] == name)

    def open(self, path: Path, text: str) -> None:
        document = types.TextDocumentItem(path.as_uri(), "plaintext", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def change(self, path: Path, text: str) -> None:
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(2, path.as_uri()),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    def save(self, path: Path, text: str) -> None:
        path.write_text(text)
        document = types.TextDocumentIdentifier(path.as_uri())
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def leave(self) -> int | None:
        """``shutdown`` and ``exit``; the exit code of ``connect``."""
        await self.client.shutdown_session()
        server = self.client._server
        assert server is not None
        return server.returncode


class House:
    """A workspace with its daemon, and the editors that attach to it."""

    def __init__(self, command_line: CommandLine) -> None:
        self.command_line = command_line
        self.workspace = command_line.workspace
        self._editors: list[Editor] = []

    async def attach(self) -> Editor:
        """An editor whose server runs, not initialized yet."""

        def make() -> LanguageClient:
            # A client that leaves params as they are, like the one of VS Code.
            return LanguageClient(converter_factory=converter)

        self.command_line.have_daemon()
        arguments = ("connect", "--stdio", "--workspace", str(self.workspace))
        config = ClientServerConfig(
            server_command=[*PROGRAM, *arguments], client_factory=make, server_env=self.command_line.env
        )
        client = await config.start()
        assert isinstance(client, LanguageClient)
        editor = Editor(client)
        client.feature("goalwright/session/update")(lambda params: editor.events.append(params["event"]))
        client.feature("goalwright/session/delta")(lambda params: editor.deltas.append(params["delta"]))
        self._editors.append(editor)
        return editor

    async def editor(self, name: str = "editor", model: str = "", **settings: Any) -> Editor:
        """An initialized editor."""
        editor = await self.attach()
        given = {**settings, **({"model": model} if model else {})}
        options = {"protocolVersion": PROTOCOL_VERSION, "client": name, "settings": given}
        await editor.initialize(self.workspace, options)
        return editor

    async def close(self) -> None:
        for editor in self._editors:
            server = editor.client._server
            if server is not None and server.returncode is None:
                server.kill()
            await editor.client.stop()


@pytest.fixture
async def house(goalwright: CommandLine) -> AsyncIterator[House]:
    house = House(goalwright)
    yield house
    await house.close()
    await asyncio.to_thread(goalwright.end)
    assert "Traceback" not in goalwright.log(), goalwright.log()


WRITE = {"name": "write", "input": {"file_path": "${workspace}/a.txt", "content": "hello\n"}}
READ = {"name": "read", "input": {"file_path": "${workspace}/a.txt"}}
ALLOW = {"permission": {"*": "allow"}}


async def loaded(editor: Editor) -> str:
    session_id: str = (await editor.request("session/new"))["session"]["trace"]["traceId"]
    await editor.request("session/load", sessionId=session_id)
    return session_id


async def test_editor_session_from_prompt_to_approved_file_change(house: House) -> None:
    plan = {"name": "goal", "input": {"add": "write the file"}}
    model = house.command_line.script(
        [{"text": "I plan.", "tool_calls": [plan]}, {"tool_calls": [WRITE]}, {"text": "Written."}]
    )
    editor = await house.editor("My editor", model)
    session_id = await loaded(editor)
    turn = editor.prompt(session_id, "Write a.txt", promptId="p1")
    asked = (await editor.event("permission_asked"))["request"]
    assert not (house.workspace / "a.txt").exists()
    assert asked["files"][0]["path"] == "a.txt"
    content = await editor.request("permission/content", requestId=asked["requestId"], path="a.txt")
    assert content == {"before": None, "after": "hello\n", "binary": False}
    reply = await editor.request("permission/reply", requestId=asked["requestId"], reply="once")
    assert reply == {"accepted": True, "by": "My editor"}
    result = await turn
    assert (result["promptId"], result["stopReason"]) == ("p1", "end_turn")
    assert (house.workspace / "a.txt").read_text() == "hello\n"
    ids = [event["eventId"] for event in editor.events]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert {"goal_added", "file_changed", "turn_ended"} <= {event["event"] for event in editor.events}
    assert "".join(d["text"] for d in editor.deltas if d["kind"] == "text") == "I plan.Written."
    state = await editor.request("session/load", sessionId=session_id)
    assert state["goalTree"]["goals"][0]["description"] == "write the file"
    assert (house.workspace / ".trace" / session_id / "events.jsonl").is_file()
    await editor.leave()


async def test_plain_lsp_editor_can_attach(house: House) -> None:
    editor = await house.attach()
    result = await editor.initialize(house.workspace, None)
    assert result.server_info is not None
    assert result.server_info.name == "goalwright"
    assert result.capabilities.text_document_sync is not None
    path = house.workspace / "a.txt"
    path.write_text("x\n")
    editor.open(path, "x\n")
    editor.change(path, "y\n")
    editor.save(path, "y\n")
    document = types.TextDocumentIdentifier(path.as_uri())
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
    with pytest.raises(JsonRpcException):
        await editor.client.text_document_hover_async(types.HoverParams(document, types.Position(0, 0)))
    await editor.leave()


async def test_connect_ends_without_an_error_when_the_editor_is_done(house: House) -> None:
    editor = await house.editor()
    assert await editor.leave() == 0


async def test_first_reply_of_two_editors_wins_and_one_may_exit(
    house: House,
) -> None:
    model = house.command_line.script(
        [{"tool_calls": [WRITE]}, {"text": "Written."}], [{"text": "Still here."}]
    )
    ann, bob = await house.editor("Ann", model), await house.editor("Bob", model)
    pid = (await ann.request("daemon/status"))["pid"]
    assert (await bob.request("daemon/status"))["pid"] == pid
    session_id = await loaded(ann)
    await bob.request("session/load", sessionId=session_id)
    turn = ann.prompt(session_id, "Write a.txt")
    request_id = (await bob.event("permission_asked"))["request"]["requestId"]
    replies = await asyncio.gather(
        bob.request("permission/reply", requestId=request_id, reply="once"),
        ann.request("permission/reply", requestId=request_id, reply="reject"),
    )
    assert sorted(reply["accepted"] for reply in replies) == [False, True]
    winner = "Bob" if replies[0]["accepted"] else "Ann"
    assert {reply["by"] for reply in replies} == {winner}
    stop = (await turn)["stopReason"]
    assert stop == ("end_turn" if winner == "Bob" else "permission_denied")
    assert (house.workspace / "a.txt").exists() == (winner == "Bob")
    assert (await ann.event("permission_replied"))["by"] == winner
    await bob.leave()
    assert (await ann.prompt(session_id, "And now?"))["stopReason"] == "end_turn"
    status = await ann.request("daemon/status")
    assert (status["pid"], status["clients"]) == (pid, 1)


async def test_an_editor_that_dies_leaves_the_turn_and_the_question(house: House) -> None:
    model = house.command_line.script([{"tool_calls": [WRITE]}, {"text": "Written."}])
    editor = await house.editor("first", model)
    session_id = await loaded(editor)
    turn = editor.prompt(session_id, "Write a.txt")
    await editor.event("permission_asked")
    assert editor.client._server is not None
    editor.client._server.kill()
    turn.cancel()
    again = await house.editor("second", model)
    state = await again.request("session/load", sessionId=session_id)
    assert state["session"]["status"] == "waiting"
    request_id = state["pending"][0]["requestId"]
    await again.request("permission/reply", requestId=request_id, reply="once")
    assert (await again.event("turn_ended"))["stopReason"] == "end_turn"
    assert (house.workspace / "a.txt").exists()


async def test_unsaved_buffer_is_read_as_typed_and_not_overwritten(house: House) -> None:
    model = house.command_line.script(
        [{"tool_calls": [READ, WRITE]}, {"text": "Not now."}],
        [{"tool_calls": [READ, WRITE]}, {"text": "Done."}],
    )
    path = house.workspace / "a.txt"
    path.write_text("on disk\n")
    editor = await house.editor("editor", model, **ALLOW)
    session_id = await loaded(editor)
    editor.open(path, "on disk\n")
    editor.change(path, "typed and not saved\n")
    await editor.prompt(session_id, "Write it")
    results = [
        e["message"]["content"][0] for e in editor.events if e.get("message", {}).get("role") == "tool"
    ]
    assert "typed and not saved" in results[0]["content"]
    assert "unsaved changes" in results[1]["content"]
    assert path.read_text() == "on disk\n"
    editor.save(path, "typed and saved\n")
    await editor.prompt(session_id, "Again")
    assert path.read_text() == "hello\n"


async def test_invalid_requests_get_an_error_and_daemon_survives(house: House) -> None:
    editor = await house.editor()
    for method, params, code, word in (
        ("session/prompt", {"text": "x"}, ErrorCode.INVALID_PARAMS, "sessionId"),
        ("session/load", {"sessionId": "nobody"}, ErrorCode.UNKNOWN_SESSION, "goalwright sessions"),
        ("session/new", {"model": "nonsense"}, ErrorCode.INVALID_PARAMS, "provider/model"),
        ("no/such", {}, -32601, "no/such"),
    ):
        with pytest.raises(JsonRpcException, match=word) as caught:
            await editor.request(method, **params)
        assert caught.value.code == code
    assert (await editor.request("daemon/status"))["clients"] == 1


GARBAGE = (
    b"hello?\r\n\r\n",
    b"Content-Length: 7\r\n\r\nnot json",
    b"Content-Length: 99999\r\n\r\n{",
    b"X: " + b"x" * 100_000,
    b"\x00\xff" * 1000,
)


async def test_garbage_on_stdin_ends_that_connection_alone(house: House) -> None:
    editor = await house.editor()
    for garbage in GARBAGE:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *("connect", "--stdio", "--workspace", str(house.workspace)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=house.command_line.env,
        )
        async with asyncio.timeout(60):
            await process.communicate(garbage)
        assert process.returncode in (0, 1), garbage[:20]
        assert (await editor.request("daemon/status"))["clients"] == 1


async def test_session_resumes_in_the_editor_after_daemon_kill(house: House) -> None:
    slow = {"name": "bash", "input": {"command": "echo begun > begun; sleep 60"}}
    model = house.command_line.script(
        [{"text": "I run it.", "tool_calls": [slow]}, {"text": "never"}], [{"text": "Here I am again."}]
    )
    editor = await house.editor("editor", model, **ALLOW)
    session_id = await loaded(editor)
    turn = editor.prompt(session_id, "Run it")
    await until((house.workspace / "begun").exists, "the command", within_s=60)
    pid = (await editor.request("daemon/status"))["pid"]
    os.kill(pid, signal.SIGKILL)
    assert editor.client._server is not None
    async with asyncio.timeout(60):
        await editor.client._server.wait()
    turn.cancel()

    again = await house.editor("editor", model, **ALLOW)
    assert (await again.request("daemon/status"))["pid"] != pid
    listed = await again.request("session/list")
    assert [s["trace"]["traceId"] for s in listed["sessions"]] == [session_id]
    state = await again.request("session/load", sessionId=session_id)
    assert state["session"]["status"] == "idle"
    roles = [message["role"] for message in state["messages"]]
    assert roles == ["user", "assistant", "tool"]
    assert state["messages"][2]["content"][0]["isError"] is True
    assert (await again.prompt(session_id, "Go on"))["stopReason"] == "end_turn"
    assert [message["sequence"] for message in state["messages"]] == [1, 2, 3]
    lines = (house.workspace / ".trace" / session_id / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["event_id"] for line in lines] == list(range(1, len(lines) + 1))


async def test_a_stopped_daemon_ends_its_editors_connections(house: House) -> None:
    editor = await house.editor()
    await editor.request("daemon/stop")
    assert editor.client._server is not None
    async with asyncio.timeout(60):
        await editor.client._server.wait()
    await asyncio.to_thread(house.command_line.wait_until_gone)


EDIT = {
    "name": "edit",
    "input": {"file_path": "${workspace}/a.txt", "old_string": "one", "new_string": "two"},
}


class Buffer:
    """One open file of a standard editor that can save, and its undo."""

    def __init__(self, editor: Editor, path: Path) -> None:
        self.editor, self.path, self.version = editor, path, 1
        self.text = path.read_text()
        self.undo: list[str] = []
        client = editor.client

        @client.feature(types.WORKSPACE_APPLY_EDIT)  # pyright: ignore[reportUntypedFunctionDecorator] - of pygls
        def _(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            (change,) = params.edit.document_changes or []
            assert isinstance(change, types.TextDocumentEdit)
            if change.text_document.version != self.version:
                return types.ApplyWorkspaceEditResult(applied=False)
            self.undo.append(self.text)
            lines = self.text.splitlines(keepends=True)
            starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
            for edit in reversed(change.edits):
                start, end = (starts[at.line] + at.character for at in (edit.range.start, edit.range.end))
                assert isinstance(edit, types.TextEdit)
                self.text = self.text[:start] + edit.new_text + self.text[end:]
            self.tell()
            return types.ApplyWorkspaceEditResult(applied=True)

        @client.feature("goalwright/editor/save")  # pyright: ignore[reportUntypedFunctionDecorator] - of pygls
        def _(params: Any) -> dict[str, bool]:
            editor.save(self.path, self.text)
            return {"saved": True}

        editor.open(path, self.text)

    def tell(self) -> None:
        self.version += 1
        change = types.TextDocumentContentChangeWholeDocument(self.text)
        identifier = types.VersionedTextDocumentIdentifier(self.version, self.path.as_uri())
        self.editor.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))


@pytest.mark.parametrize("typed", ["", "typed\n"])
async def test_edit_reaches_saving_lsp_editor_as_an_undoable_edit(house: House, typed: str) -> None:
    model = house.command_line.script([{"tool_calls": [READ, EDIT]}, {"text": "Done."}])
    path = house.workspace / "a.txt"
    path.write_text("one\nrest\n")
    editor = await house.attach()
    edits = types.WorkspaceEditClientCapabilities(document_changes=True)
    workspace = types.WorkspaceClientCapabilities(apply_edit=True, workspace_edit=edits)
    options = {
        "protocolVersion": PROTOCOL_VERSION,
        "client": "any",
        "canSave": True,
        "settings": {"model": model, **ALLOW},
    }
    await editor.client.initialize_session(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(workspace=workspace),
            root_uri=house.workspace.as_uri(),
            initialization_options=options,
        )
    )
    session_id = await loaded(editor)
    buffer = Buffer(editor, path)
    if typed:
        buffer.text += typed
        buffer.tell()
    await editor.prompt(session_id, "Edit it")
    assert path.read_text() == "two\nrest\n" + typed
    assert buffer.undo == ["one\nrest\n" + typed]
