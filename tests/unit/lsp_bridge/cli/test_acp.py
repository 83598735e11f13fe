"""The Agent Client Protocol: what an editor is shown and asked, from the daemon's words."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from acp import run_agent
from acp.helpers import text_block
from acp.schema import (
    AllowedOutcome,
    AudioContentBlock,
    BlobResourceContents,
    DeniedOutcome,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    McpServerStdio,
    NewSessionRequest,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ResourceContentBlock,
    TextResourceContents,
    ToolCallUpdate,
)

from lsp_bridge.cli.acp import editor_files, questions
from lsp_bridge.cli.acp.agent import AcpAgent
from lsp_bridge.cli.acp.content import (
    UnsupportedContentError,
    diffs,
    given_servers,
    plan_entries,
    prompt_of,
)
from lsp_bridge.cli.acp.editor_files import EditorFiles
from lsp_bridge.cli.acp.lines import Lines
from lsp_bridge.cli.acp.updates import Translator
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.protocol.editor import EDITOR_OPEN
from tests.support.fakes.daemon_server import Connection, FakeDaemon

WORK = Path("/work/shop")
NO_NEWLINE = "\\ No newline at end of file\n"


def said(updates: list[Any]) -> list[str]:
    return [update.content.text for update in updates]


def delta(text: str, message: str = "m1", index: int = 0) -> dict[str, Any]:
    return {"kind": "text", "messageId": message, "index": index, "text": text}


def added(*parts: dict[str, Any], role: str = "assistant", message: str = "m1") -> dict[str, Any]:
    return {"event": "message_added", "message": {"messageId": message, "role": role, "content": [*parts]}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# -- updates --


def test_text_is_sent_once_whatever_deltas_were_lost() -> None:
    follower = Translator(WORK)
    assert said(follower.delta(delta("Hel"))) == ["Hel"]
    part = {
        "event": "message_part_added",
        "role": "assistant",
        "messageId": "m1",
        "index": 0,
        "part": text("Hello."),
    }
    assert said(follower.event(part)) == ["lo."]
    assert said(follower.event(added(text("Hello."), text("More.")))) == ["More."]


def test_a_message_that_is_under_way_is_sent_from_its_start() -> None:
    follower = Translator(WORK)
    received = {"messageId": "m1", "parts": [text("Hel")]}
    assert said(follower.streaming(received)) == ["Hel"]
    assert said(follower.streaming(received)) == []  # once, whoever opens the session again
    assert said(follower.delta(delta("lo"))) == ["lo"]
    assert follower.event(added(text("Hello"))) == []


def test_an_interrupted_answer_is_sent_anew() -> None:
    follower = Translator(WORK)
    follower.delta(delta("Hel"))
    follower.event({"event": "message_discarded", "messageId": "m1"})
    assert said(follower.event(added(text("Hello.")))) == ["Hello."]


def test_the_editors_own_prompt_is_not_echoed() -> None:
    follower = Translator(WORK)
    follower.own_turn()
    assert follower.event(added(text("as it was stored"), role="user")) == []
    assert said(follower.event(added(text("do it"), role="user", message="m2"))) == ["do it"]


def test_a_command_is_shown_as_it_was_typed() -> None:
    follower = Translator(WORK)
    command = ({"type": "command", "text": "/fix 1"}, text("Fix issue 1."))
    assert said(follower.event(added(*command, role="user"))) == ["/fix 1"]
    follower.own_turn()
    assert follower.event(added(*command, role="user", message="m2")) == []


def replay(workspace: Path, prompt: list[Any]) -> list[Any]:
    """Send a prompt, store what the daemon stores of it, and load it."""
    words, files = prompt_of(prompt, workspace)
    parts = [{"type": "file", **file} for file in files]
    for part in parts:
        if "data" not in part:  # the daemon reads it
            part["data"] = base64.b64encode((workspace / part["name"]).read_bytes()).decode()
            part["mediaType"] = "image/png" if part["name"].endswith(".png") else "text/plain"
    updates: list[Any] = Translator(workspace).message(added(text(words), *parts, role="user")["message"])
    return [update.content for update in updates[1:]]


def test_earlier_attachments_come_back_as_what_they_were(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    (tmp_path / "s.png").write_bytes(b"png")
    place = tmp_path.as_uri()
    pdf = BlobResourceContents(uri=f"{place}/p.pdf", blob="AAAA", mime_type="application/pdf")
    prompt = [
        ImageContentBlock(type="image", data="AAAA", mime_type="image/png"),
        ImageContentBlock(type="image", data="AAAA", mime_type="image/png", uri=f"{place}/gone.png"),
        ResourceContentBlock(type="resource_link", name="a.py", uri=f"{place}/a.py"),
        ResourceContentBlock(type="resource_link", name="s.png", uri=f"{place}/s.png"),
        embedded('https://x.example/?q="><b>', "page"),
        embedded(f"{place}/c.py#L2:3", "grüß"),
        EmbeddedResourceContentBlock(type="resource", resource=pdf),
    ]
    got = replay(tmp_path, prompt)
    assert [one.type for one in got] == [*["image"] * 2, *["resource_link"] * 2, *["resource"] * 3]
    assert [(one.data, one.mime_type, one.uri) for one in got[:2]] == [("AAAA", "image/png", None)] * 2
    assert [one.uri for one in got[2:4]] == [f"{place}/a.py", f"{place}/s.png"]
    assert [one.resource.uri for one in got[4:]] == [cast("Any", one).resource.uri for one in prompt[4:]]
    assert [one.resource.text for one in got[4:6]] == ["page", "grüß"]
    assert (got[6].resource.blob, got[6].resource.mime_type) == ("AAAA", "application/pdf")


def test_replayed_attachments_are_bounded_and_never_invented(tmp_path: Path) -> None:
    names = ("gone.py", "a.py:1-2", "/mcp__x__y", "x:docs://a", "\0")
    parts = [{"type": "file", "name": name, "mediaType": "text/x-open-file"} for name in names]
    assert Translator(tmp_path).message(added(*parts, role="user")["message"]) == []
    image = {"type": "file", "name": "i\u202e", "mediaType": "image/png", "data": "A" * 20_000_000}
    updates: list[Any] = Translator(tmp_path).message(added(image, image, role="user")["message"])
    assert [one.content.type for one in updates] == ["image", "text"]
    assert updates[1].content.text == "[i<U+202E>]"


def test_a_plan_as_json_and_summaries_are_not_shown() -> None:
    follower = Translator(WORK)
    note = {"type": "note", "text": '<planning>\n{"steps": [{"goal": "…"}]}'}
    follower.event(added(text("plan it"), note, role="user"))
    assert follower.delta(delta("{")) == []
    assert follower.event(added(text('{"steps": []}'))) == []
    assert (
        follower.event(added({"type": "compaction", "kind": "summary"}, text("summary"), message="m3")) == []
    )


def test_plan_calls_are_hidden_and_others_have_a_kind() -> None:
    follower = Translator(WORK)
    calls = [
        {"type": "tool_call", "id": "c1", "name": "goal", "input": '{"add": "x"}'},
        {"type": "tool_call", "id": "c2", "name": "bash", "input": '{"command": "ls"}'},
        {"type": "tool_call", "id": "c3", "name": "mcp__x__y", "input": "not json"},
    ]
    shown: Any = follower.event(added(*calls))
    assert [(one.tool_call_id, one.kind, one.title) for one in shown] == [
        ("c2", "execute", "bash ls"),
        ("c3", "other", "mcp__x__y"),
    ]
    assert follower.event({"event": "tool_started", "toolCallId": "c1", "name": "goal"}) == []
    failed = {
        "type": "tool_result",
        "toolCallId": "c2",
        "name": "bash",
        "content": "no\u202e",
        "isError": True,
    }
    result: Any = follower.event(added(failed, role="tool", message="m2"))[0]
    assert (result.status, result.content[0].content.text) == ("failed", "no<U+202E>")


def test_notices_are_marked_as_no_words_of_the_model() -> None:
    follower = Translator(WORK)
    assert said(follower.event({"event": "notice", "text": "one\ntwo"})) == ["\n\n> one\n> two\n\n"]
    restored = {"event": "files_restored", "action": "redo", "target": "edit of a.py"}
    assert said(follower.event(restored)) == ["\n\n> Redone: edit of a.py\n\n"]


def test_the_cost_is_left_out_where_the_price_is_unknown() -> None:
    meter = {"contextTokens": 10, "contextWindow": 100, "cost": 0.0, "costKnown": False}
    [update] = Translator.meter(meter)
    assert (update.used, update.size, update.cost) == (10, 100, None)
    assert Translator.meter({}) == []


# -- content --


def embedded(uri: str, words: str) -> EmbeddedResourceContentBlock:
    return EmbeddedResourceContentBlock(type="resource", resource=TextResourceContents(uri=uri, text=words))


def test_diffs_become_old_and_new_text_hunk_by_hunk() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -9 +9,2 @@\n d\n+e\n"
    assert [(one.path, one.old_text, one.new_text) for one in diffs(patch, WORK)] == [
        ("/work/shop/x", "a\nc\n", "b\nc\n"),
        ("/work/shop/x", "d\n", "d\ne\n"),
    ]
    (new,) = diffs("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", WORK)
    assert (new.old_text, new.new_text) == (None, "a\n")
    (bare,) = diffs(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n{NO_NEWLINE}+b\n{NO_NEWLINE}", WORK)
    assert (bare.old_text, bare.new_text) == ("a\n", "b\n")
    assert diffs("no diff", WORK) == []
    assert diffs(f"{patch}… 9 more lines of this diff are not shown.\n", WORK) == []
    assert diffs("@@ -1 +1 @@\nbroken", WORK) == []


def test_a_prompt_keeps_its_order_and_attaches_files(tmp_path: Path) -> None:
    (tmp_path / "a b.py").write_text("x\n")
    blocks = [
        text_block("see "),
        ResourceContentBlock(type="resource_link", name="a b.py", uri=(tmp_path / "a b.py").as_uri()),
        text_block(" and "),
        ResourceContentBlock(type="resource_link", name="page", uri="https://example.org/x"),
        embedded(f"{(tmp_path / 'c.py').as_uri()}#L2:3", "grüß"),
        EmbeddedResourceContentBlock(
            type="resource",
            resource=BlobResourceContents(
                uri="file:///x.pdf", blob="AAAA" * 100_000, mime_type="application/pdf"
            ),
        ),
        ImageContentBlock(type="image", data="AAAA", mime_type="image/png"),
    ]
    words, files = prompt_of(blocks, tmp_path)
    assert words == "see @a b.py and [page](https://example.org/x) @c.py#L2:3 @/x.pdf"
    assert [file["name"] for file in files] == ["a b.py", "c.py#L2:3", "/x.pdf", "image"]
    assert base64.b64decode(files[1]["data"]).decode() == "grüß"
    with pytest.raises(UnsupportedContentError):
        prompt_of([AudioContentBlock(type="audio", data="AAAA", mime_type="audio/wav")], WORK)


def test_what_cannot_be_attached_is_named_only(tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()
    (tmp_path / "big.txt").write_text("x" * 300_000)
    (tmp_path / "build").mkdir()
    names = ("build", "", "empty.py", "big.txt", "gone.py", "%00")
    blocks: list[Any] = [text_block("see")]
    blocks += [
        ResourceContentBlock(type="resource_link", name="a", uri=f"{tmp_path.as_uri()}/{one}")
        for one in names
    ]
    place = tmp_path.as_uri()
    blocks += [embedded(f"{place}/a.py", ""), embedded(f"{place}/b.py", "x" * 300_000), text_block("and go")]
    words, files = prompt_of(blocks, tmp_path)
    assert words == "see @./build @. @empty.py @big.txt @gone.py @\0 @a.py @b.py and go"
    assert files == []


def test_a_file_of_another_computer_is_none_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    away, here = (f"file://{host}{tmp_path}/a.py" for host in ("evil.host", "localhost"))
    links = [ResourceContentBlock(type="resource_link", name="a", uri=uri) for uri in (away, here)]
    words, files = prompt_of(links, tmp_path)
    assert (words, [file["name"] for file in files]) == (f"[a]({away}) @a.py", ["a.py"])
    (file,) = prompt_of([embedded(away, "x")], tmp_path)[1]
    assert file["name"] == away


async def test_servers_that_are_left_out_are_named() -> None:
    def program(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "command": "x", "args": [], "env": [], **more}

    names = ("", "../x y", "My @a/b: 1", "twice", "twice", *(f"n{n}" for n in range(19)))
    given = [
        *map(program, names),
        {"name": "bare"},
        7,
        program("sse", type="sse", url="https://x", headers=[]),
    ]
    request = {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": given}}
    async with editor_and_lines() as (editor, lines):
        editor.send(json.dumps(request).encode() + b"\n")
        received: Any = await lines.receive()
    found, refused = given_servers(NewSessionRequest.model_validate(received["params"]).mcp_servers)
    assert [one["name"] for one in found] == ["My @a/b: 1", "twice", *(f"n{n}" for n in range(18))]
    assert refused == [
        "“” (its name is empty, too long or no name)",
        "../x y (its name is empty, too long or no name)",
        "twice (another one has this name)",
        "n18 (there are more than 20)",
        "bare (its entry is not in the form of the protocol)",
        "“” (its entry is not in the form of the protocol)",
        "sse (it speaks neither over stdio nor over streamable HTTP)",
    ]


def test_a_link_that_is_no_uri_is_named(tmp_path: Path) -> None:
    link = ResourceContentBlock(type="resource_link", name="odd", uri="http://[odd")
    assert prompt_of([link], tmp_path) == ("[odd](http://[odd)", [])


def test_the_plan_is_sorted_and_has_no_abandoned_goals() -> None:
    goals = [
        {"id": "1", "description": "one", "status": "completed"},
        {"id": "2", "description": "gone", "status": "abandoned"},
        {"id": "3", "description": "ten", "status": "pending"},
        {"id": "4", "description": "below", "status": "in_progress"},
    ]
    entries = plan_entries({"goals": goals}, {"1": "1", "3": "10", "4": "2.1"})
    assert [(one.content, one.status) for one in entries] == [
        ("1 one", "completed"),
        ("2.1 below", "in_progress"),
        ("10 ten", "pending"),
    ]


# -- questions --


class Asker:
    """Chooses the option with this number, or cancels."""

    def __init__(self, *numbers: int | None) -> None:
        self.calls: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self._numbers = list(numbers)

    async def __call__(
        self, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        self.calls.append((call, options))
        number = self._numbers.pop(0)
        if number is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = options[number].option_id
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))


COMMAND = {
    "toolCallId": "c1",
    "tool": "bash",
    "permission": "bash",
    "title": "Run rm -r build (and 1 more line)",
    "detail": "rm -r build\nmake",
    "modelSays": "harmless",
    "warnings": ["cannot be undone"],
    "suggestions": [{"permission": "bash", "pattern": "make *"}],
    "rule": {"permission": "bash", "pattern": "*", "action": "ask", "source": "shipped"},
}


@pytest.mark.parametrize(
    ("number", "reply"),
    [
        (0, {"reply": "once"}),
        (1, {"reply": "always", "scope": "session"}),
        (2, {"reply": "always", "scope": "workspace"}),
        (3, {"reply": "always", "scope": "user"}),
        (4, {"reply": "reject"}),
        (None, {"reply": "reject"}),
    ],
)
async def test_each_option_is_an_answer(number: int | None, reply: dict[str, str]) -> None:
    assert await questions.permission(COMMAND, WORK, Asker(number)) == reply


async def test_a_question_shows_all_and_the_models_words_last() -> None:
    asker = Asker(0)
    await questions.permission(COMMAND, WORK, asker)
    content: Any = asker.calls[0][0].content
    lines = content[0].content.text.split("\n")
    assert lines[:3] == ["rm -r build", "make", "! cannot be undone"]
    assert lines[-1] == 'the model says: "harmless"'


CUT = "… 9 more lines of this diff are not shown.\n"


@pytest.mark.parametrize(
    "diff",
    [
        f"--- /dev/null\n+++ b/x\n@@ -0,0 +1,10 @@\n+a\n{CUT}",
        f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n{CUT}",
        "rename from a.py\nrename to b.py\n",
        "Binary file x\n",
    ],
    ids=["cut in a hunk", "cut between hunks", "move", "binary"],
)
async def test_a_change_without_all_its_hunks_is_shown_as_text(diff: str) -> None:
    asker = Asker(0)
    await questions.permission({"files": [{"path": "x", "diff": diff, "hunks": 2}]}, WORK, asker)
    content: Any = asker.calls[0][0].content
    assert content[0].content.text == diff


async def test_a_question_of_a_sub_agent_has_an_id_of_its_own() -> None:
    asker = Asker(0, 0)
    await questions.permission({**COMMAND, "requestId": "r1"}, WORK, asker)
    await questions.permission({**COMMAND, "requestId": "r1", "branchId": "s1"}, WORK, asker)
    assert [call.tool_call_id for call, _ in asker.calls] == ["c1", "r1"]


async def test_a_budget_is_continued_or_stopped() -> None:
    asker = Asker(0)
    assert await questions.permission({"permission": "budget", "title": "Limit"}, WORK, asker) == {
        "reply": "once"
    }
    assert [option.kind for option in asker.calls[0][1]] == ["allow_once", "reject_once"]


async def test_questions_of_the_model_are_asked_one_by_one() -> None:
    options = [{"label": "A"}, {"label": "B", "description": "better"}]
    request = {"questions": [{"text": "Which?", "options": options}, {"text": "Sure?", "options": options}]}
    asked = Asker(1, 2)
    assert await questions.permission(request, WORK, asked) == {
        "reply": "once",
        "answers": [{"chosen": ["B"], "text": ""}, {"chosen": [], "text": ""}],
    }
    assert [option.name for option in asked.calls[0][1]] == ["A", "B — better", "Skip"]
    assert await questions.permission(request, WORK, Asker(2, None)) == {"reply": "reject"}


async def test_a_question_that_wants_text_goes_back_to_the_model() -> None:
    answer = await questions.permission({"questions": [{"text": "Name?"}]}, WORK, Asker())
    assert answer["reply"] == "reject"
    assert "cannot show this question" in answer["feedback"]


async def test_a_branch_is_chosen_or_left_to_the_model() -> None:
    branches = [
        {"id": "A", "description": "one", "status": "completed"},
        {"id": "B", "description": "two", "status": "abandoned"},
    ]
    exploration = {"exploreStartId": "1", "branches": branches}
    asker = Asker(0)
    assert await questions.branch(exploration, asker) == "A"
    assert [option.name for option in asker.calls[0][1]] == ["Merge A: one", "Let the model choose"]
    assert await questions.branch(exploration, Asker(1)) == ""
    assert await questions.branch(exploration, Asker(None)) == ""


# -- the editor's files --


class Buffers:
    """An editor that answers with ``text``; None: with what the protocol does not know."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.read: list[tuple[str, str]] = []

    async def read_text_file(self, session_id: str, path: str) -> ReadTextFileResponse:
        self.read.append((session_id, path))
        return ReadTextFileResponse.model_validate({} if self.text is None else {"content": self.text})


@pytest.mark.parametrize("text", ["one\ntwo\n", "\ufeffone\ntwo\n", None])
async def test_text_as_on_disk_and_bad_answers_are_not_unsaved(tmp_path: Path, text: str | None) -> None:
    folder, link = tmp_path.resolve() / "real", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (folder / "a.py").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    editor = Buffers(text)
    files = EditorFiles(cast("Any", editor), link, lambda: "s1", print)
    assert await files.answer(EDITOR_OPEN, {"uri": (folder / "a.py").as_uri()}) == {}
    assert editor.read == [("s1", str(link / "a.py"))]  # as the editor names it


class SilentEditor(Buffers):
    """Never answers."""

    async def read_text_file(self, session_id: str, path: str) -> ReadTextFileResponse:
        await super().read_text_file(session_id, path)
        return await asyncio.get_running_loop().create_future()


async def test_a_silent_editor_is_asked_once_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editor_files, "ANSWER_S", 0.01)
    editor, told = SilentEditor(""), list[str]()
    folder = tmp_path.resolve()
    files = EditorFiles(cast("Any", editor), folder, lambda: "s1", told.append)
    for name in ("a.py", "b.py"):
        (folder / name).write_text("x\n")
    for turn in (1, 2):
        files.ask_again()
        for name in ("a.py", "b.py", "a.py"):
            assert await files.answer(EDITOR_OPEN, {"uri": (folder / name).as_uri()}) == {}
        assert len(editor.read) == len(told) == turn


# -- lines --


@asynccontextmanager
async def editor_and_lines() -> AsyncGenerator[tuple[socket.socket, Lines]]:
    editor, agent = socket.socketpair()
    editor.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=agent)
    with editor:
        yield editor, Lines(reader, writer)
        writer.close()


async def test_lines_that_are_no_messages_are_answered() -> None:
    async with editor_and_lines() as (editor, lines):
        editor.send(b'\xff\n[]\nnull\n{"id": 1}\r\n')
        assert await lines.receive() == {"id": 1}
        answers = [json.loads(line) for line in editor.recv(10_000).splitlines()]
        assert [answer["error"]["code"] for answer in answers] == [-32700, -32600, -32600]
        editor.shutdown(socket.SHUT_WR)
        assert await lines.receive() is None


async def test_an_answer_with_an_error_of_no_form_is_an_error() -> None:
    async with editor_and_lines() as (editor, lines):
        editor.send(b'{"id": 1, "error": "no such file"}\n{"id": 2, "error": null}\n')
        assert await lines.receive() == {"id": 1, "error": {"message": "no such file"}}
        assert await lines.receive() == {"id": 2, "error": None}


async def test_notifications_that_cannot_be_used_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    sent: list[Any] = [
        {"method": "session/cancel", "params": {"sessionId": 7}},
        {"method": "session/cancel"},
        {"method": "$/odd", "params": 7},
        {"method": [1], "id": 1},
        {"method": "session/cancel", "params": {"sessionId": "s1"}},
    ]
    async with editor_and_lines() as (editor, lines):
        editor.send("".join(f"{json.dumps(one)}\n" for one in sent).encode())
        assert await lines.receive() == sent[-1]
        assert json.loads(editor.recv(10_000))["error"]["code"] == -32600
    assert [(one.exc_info, one.levelname) for one in caplog.records] == [(None, "INFO")] * 3
    assert caplog.messages[0].endswith("session/cancel: sessionId must be text in double quotes")


@pytest.mark.parametrize("abilities", [7, {"fs": 7}, {"fs": []}])
async def test_abilities_of_no_form_are_refused_in_words(abilities: Any) -> None:
    request = {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": abilities},
    }
    async with editor_and_lines() as (editor, lines):
        editor.send(json.dumps(request).encode() + b"\n")
        editor.shutdown(socket.SHUT_WR)
        await run_agent(cast("Any", AcpAgent(Launcher())), cast("Any", lines))
        error = json.loads(editor.recv(10_000))["error"]
        assert error["code"] == -32602
        assert error["message"].endswith("must be an object, in curly brackets.")


async def test_lines_are_valid_for_every_parser() -> None:
    async with editor_and_lines() as (editor, lines):
        await lines.send({"path": "n\udcff 𝄞\u2028\u2029\n"})
        line = editor.recv(10_000)
        assert json.loads(line) == {"path": "n? 𝄞\u2028\u2029\n"}
        assert len(line.decode().splitlines()) == 1


async def test_an_agent_ends_though_its_output_is_not_read() -> None:
    request = {"id": 1, "method": "initialize", "params": {"protocolVersion": 0}}
    line = json.dumps(request).encode() + b"\n"
    async with editor_and_lines() as (editor, lines):
        serving = asyncio.create_task(run_agent(cast("Any", AcpAgent(Launcher())), cast("Any", lines)))
        await asyncio.get_running_loop().sock_sendall(editor, line * 2_000)
        editor.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(20):
            await serving
        first = json.loads(editor.recv(10_000).splitlines()[0])
        assert first["result"]["protocolVersion"] == 1  # what it speaks, whatever the editor asks for


async def test_an_agent_ends_though_its_daemon_hangs(tmp_path: Path) -> None:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        hangs = False

        async def answer(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
            while hangs:
                await fake.stop.wait()
            return {}

        for name in ("agent/list", "prompt/list", "model/list", "mcp/session"):
            fake.handlers[f"goalwright/{name}"] = answer
        agent = AcpAgent(Launcher(home=tmp_path / "home", command=("/bin/false",)))
        agent.on_connect(cast("Any", Listening()))
        server = McpServerStdio(name="mine", command="/bin/mine", args=[], env=[])
        await agent.new_session(str(tmp_path), mcp_servers=[server])
        hangs = True
        async with asyncio.timeout(10):
            await agent.close()


class Listening:
    async def session_update(self, session_id: str, update: object) -> None:
        pass
