"""Answers to clients: every request, right and wrong, over the real wire."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode
from lsp_bridge.protocol.sessions import Notification
from lsp_bridge.server import connection
from tests.support.drivers.bridge import new_session, prompt, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold

ALLOW = {"permission": {"*": "allow"}}
WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})


# -- initialize --


async def test_initialize_returns_server_name_and_capabilities() -> None:
    async with served() as door:
        client = await door.connect()
        result = await client.initialize()
        assert result["serverInfo"] == {"name": "goalwright", "version": "0.0-test"}
        sync = result["capabilities"]["textDocumentSync"]
        assert sync["openClose"] is True


async def test_request_before_initialize_is_refused() -> None:
    async with served() as door:
        client = await door.connect()
        client.notify("textDocument/didOpen", {"textDocument": {}})
        error = await client.refused("goalwright/session/new")
        assert (error.code, "initialize" in str(error)) == (-32002, True)
        await client.initialize()
        assert await client.request("goalwright/session/new")


async def test_other_protocol_version_is_refused_with_advice() -> None:
    async with served() as door:
        client = await door.connect()
        with pytest.raises(Exception, match="goalwright stop") as caught:
            await client.initialize(protocolVersion=PROTOCOL_VERSION + 1)
        assert getattr(caught.value, "code", None) == ErrorCode.INCOMPATIBLE
        assert (await client.refused("goalwright/session/new")).code == -32002


@pytest.mark.parametrize(
    "options",
    [
        {"protocolVersion": "one"},
        {"settings": "all"},
        {"env": {"ANTHROPIC_API_KEY": 5}},
        {"env": ["a secret"]},
        {"client": None},
    ],
    ids=str,
)
async def test_invalid_options_are_refused_without_echoing_them(options: dict[str, Any]) -> None:
    async with served() as door:
        client = await door.connect()
        error = await client.refused(
            "initialize",
            {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": options},
        )
        assert error.code == ErrorCode.INVALID_PARAMS
        assert next(iter(options)).lower() in str(error).lower()
        assert "secret" not in str(error)
        assert "Traceback" not in json.dumps(client.seen)


@pytest.mark.parametrize("options", [None, [], 5, "x", {}])
async def test_plain_editor_can_initialize(options: object) -> None:
    async with served() as door:
        client = await door.connect()
        params = {"processId": 1, "rootUri": None, "capabilities": {}, "initializationOptions": options}
        assert await client.request("initialize", params)
        client.notify("initialized", {})
        assert await client.request("goalwright/daemon/status")


async def test_client_keys_reach_the_model_but_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # as daemon/logfile.py does
    env = {"ANTHROPIC_API_KEY": "key-of-the-test", "PATH": "/evil", "LD_PRELOAD": "/evil.so"}
    async with served("ok") as door:
        client = await door.client(env=env)
        session_id = await new_session(client)
        await client.answer(prompt(client, session_id))
        sent = door.bench.models.requests[0].env
        assert sent["ANTHROPIC_API_KEY"] == "key-of-the-test"
        assert "LD_PRELOAD" not in sent
        assert "/evil" not in sent.values()
    assert "key-of-the-test" not in caplog.text
    assert "key-of-the-test" not in json.dumps(client.seen)


async def test_client_settings_keep_their_keys_unchanged() -> None:
    settings = {"permission": {"edit": {"*": "deny", "a.txt": "allow", "src/*.py": "ask"}}, "max_tokens": 777}
    async with served(WRITE, "ok") as door:
        client = await door.client(settings=settings)
        session_id = await new_session(client)
        assert (await client.answer(prompt(client, session_id)))["stopReason"] == "end_turn"
        assert (door.bench.workspace / "a.txt").exists()
        assert door.bench.models.requests[0].max_tokens == 777


async def test_invalid_client_settings_are_reported() -> None:
    async with served() as door:
        client = await door.client("VS Code", settings={"max_tokens": "many", "colour": "red"})
        await new_session(client)
        status = await client.request("goalwright/daemon/status")
        assert "max_tokens" in status["notice"]
        assert "colour" in status["notice"]


@pytest.mark.usefixtures("english_again")
async def test_daemon_uses_the_language_of_the_last_editor() -> None:
    async with served() as door:
        await door.client("VS Code", settings={"language": "zh-CN"})
        terminal = await door.client()  # names none, so the language stays
        nowhere = {"sessionId": "nowhere"}
        assert "没有会话 nowhere。" in str(await terminal.refused("goalwright/session/load", nowhere))
        await door.client("VS Code", settings={"language": "en"})
        said = str(await terminal.refused("goalwright/session/load", nowhere))
        assert "There is no session nowhere" in said
        unknown = await door.client("VS Code", settings={"language": "fr"})
        status = await unknown.request("goalwright/daemon/status")
        assert "Choose one of: en, zh-CN." in status["notice"]


# -- requests --


@pytest.mark.parametrize(
    ("method", "params", "word"),
    [
        ("session/load", None, "sessionId"),
        ("session/load", {}, "sessionId"),
        ("session/load", {"sessionId": 5}, "sessionId"),
        ("session/load", {"sessionId": "x", "messages": -1}, "messages"),
        ("session/load", [], "params"),
        ("session/load", "x", "params"),
        ("session/new", {"agent": 1}, "agent"),
        ("session/new", {"agent": "nobody"}, "build"),
        ("session/new", {"model": "nonsense"}, "provider/model"),
        ("session/list", {"limit": 0}, "limit"),
        ("session/list", {"limit": "x"}, "limit"),
        ("session/prompt", {"sessionId": "x"}, "text"),
        ("session/prompt", {"sessionId": "x", "text": " "}, "empty"),
        ("session/prompt", {"sessionId": "x", "text": "x", "whenBusy": "never"}, "whenBusy"),
        ("session/prompt", {"sessionId": "x", "text": "x", "attachments": [{"name": 1}]}, "attachments"),
        ("session/messages", {"sessionId": "x"}, "before"),
        ("session/events", {"sessionId": "x", "afterEventId": -1}, "afterEventId"),
        ("session/cancel", {}, "sessionId"),
        ("session/set", {"title": "x"}, "sessionId"),
        ("queue/edit", {"sessionId": "x"}, "promptId"),
        ("permission/content", {"requestId": "x"}, "path"),
        ("permission/reply", {"requestId": "x"}, "reply"),
        ("permission/reply", {"requestId": "x", "reply": "yes"}, "reply"),
        ("permission/list", {"sessionId": 5}, "sessionId"),
    ],
)
async def test_invalid_params_are_refused_with_a_reason(method: str, params: object, word: str) -> None:
    async with served() as door:
        client = await door.client()
        error = await client.refused(f"goalwright/{method}", params)
        assert error.code == ErrorCode.INVALID_PARAMS
        assert word in str(error)
        assert await client.request("goalwright/daemon/status")


@pytest.mark.parametrize(
    "session_id", ["20250101-000000-nobody", "", "..", "../../etc", "/etc", "x" * 5000, "\0"]
)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/load", {}),
        ("session/preview", {}),
        ("session/prompt", {"text": "x"}),
        ("session/messages", {"before": 1}),
        ("session/events", {"afterEventId": 0}),
        ("session/set", {"title": "x"}),
        ("queue/edit", {"promptId": "p"}),
    ],
)
async def test_unknown_session_is_refused_with_advice(
    session_id: str, method: str, params: dict[str, Any]
) -> None:
    async with served() as door:
        client = await door.client()
        error = await client.refused(f"goalwright/{method}", {"sessionId": session_id, **params})
        assert error.code == ErrorCode.UNKNOWN_SESSION
        assert "`goalwright sessions`" in str(error)


async def test_unknown_method_is_refused_and_notification_ignored() -> None:
    async with served() as door:
        client = await door.client()
        client.notify("goalwright/nothing", {})
        client.notify("$/setTrace", {"value": "off"})
        assert (await client.refused("goalwright/nothing", {})).code == -32601
        assert (await client.refused("textDocument/hover", None)).code in (-32601, ErrorCode.INVALID_PARAMS)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "id": 99},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": 99, "error": 5},
        {"jsonrpc": "1.0", "id": 99, "method": "goalwright/daemon/status"},
        {"id": 99, "method": "goalwright/daemon/status"},
        {"jsonrpc": "2.0", "id": 99, "method": 5},
        {"jsonrpc": "2.0", "id": 99, "method": []},
        {"jsonrpc": "2.0", "id": {}, "method": "goalwright/daemon/status"},
        {"jsonrpc": "2.0", "id": None, "method": "goalwright/daemon/status"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "goalwright/daemon/status"},
        {"jsonrpc": "2.0", "method": "textDocument/didOpen"},
        {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 5}},
        {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest"},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 4711}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": []}},
        {"jsonrpc": "2.0", "id": 99, "method": "textDocument/hover", "params": {"position": 1}},
    ],
    ids=lambda m: json.dumps(m)[17:80],
)
async def test_unusual_messages_are_harmless(message: object) -> None:
    async with served() as door:
        client = await door.client()
        client.send(message)
        assert await client.request("goalwright/daemon/status")
        assert await (await door.client()).request("goalwright/daemon/status")


@pytest.mark.parametrize(
    ("message", "answered"),
    [
        ({"jsonrpc": "2.0"}, None),
        ({"jsonrpc": "2.0", "id": 99}, 99),
        ({"jsonrpc": "1.0", "id": 99, "method": "goalwright/daemon/status"}, 99),
        ({"jsonrpc": "2.0", "id": "x", "method": 5}, "x"),
        ({"jsonrpc": "2.0", "id": [1], "method": "goalwright/daemon/status"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "shutdown"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "goalwright/daemon/status"}, None),
    ],
    ids=lambda value: json.dumps(value)[17:70],
)
async def test_invalid_json_rpc_is_refused_with_an_error(
    message: object, answered: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as door:
        client = await door.client()
        client.send(message)
        answer = await client.receive()
        assert set(answer) == {"jsonrpc", "id", "error"}
        assert (answer["id"], answer["error"]["code"]) == (answered, -32600)
        assert set(answer["error"]) == {"code", "message"}
        assert "TypeError" not in answer["error"]["message"]
        assert await client.request("goalwright/daemon/status")
    assert "Traceback" not in caplog.text


async def test_a_jsonrpc_key_inside_of_params_is_data_like_any_other() -> None:
    nested = {"jsonrpc": "2.0", "id": 5, "method": "x", "nested": [{"jsonrpc": "2.0"}]}
    async with served("ok") as door:
        client = await door.client(settings={"jsonrpc": nested}, env={"jsonrpc": "2.0"})
        session_id = await new_session(client, jsonrpc="2.0", extra=nested)
        answer = await client.answer(prompt(client, session_id, jsonrpc="2.0", extra=[nested]))
        assert answer["stopReason"] == "end_turn"
        text = json.dumps(nested)
        uri = (door.bench.workspace / "a.json").as_uri()
        document = {"uri": uri, "languageId": "json", "version": 1, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": document, "jsonrpc": nested})
        await client.request("goalwright/daemon/status")
        assert door.bridge.editors.unsaved(door.bench.workspace / "a.json") == text


async def test_status_describes_the_daemon_and_running_turns() -> None:
    hold = Hold()
    async with served([hold, "x"]) as door:
        client = await door.client()
        session_id = await new_session(client)
        number = prompt(client, session_id)
        await hold.reached.wait()
        status = await client.request("goalwright/daemon/status")
        assert status["protocolVersion"] == PROTOCOL_VERSION
        assert (status["clients"], status["running"]) == (1, 1)
        assert status["workspace"] == str(door.bench.workspace)
        assert status["traceFolder"].endswith(".trace")
        assert (status["model"], status["demo"]) == ("fake/model", False)
        hold.go.set()
        await client.answer(number)


async def test_stop_is_answered_and_done() -> None:
    async with served() as door:
        client = await door.client()
        assert await client.request("goalwright/daemon/stop") == {}
        async with asyncio.timeout(20):
            await door.stopping.wait()


async def test_sessions_are_listed_renamed_and_given_a_model() -> None:
    async with served("ok") as door:
        client = await door.client()
        ids = [await new_session(client) for _ in range(3)]
        first = await client.request("goalwright/session/list", {"limit": 2})
        assert [s["trace"]["traceId"] for s in first["sessions"]] == ids[:0:-1]
        assert first["more"] is True
        rest = await client.request("goalwright/session/list", {"limit": 2, "before": ids[1]})
        assert [s["trace"]["traceId"] for s in rest["sessions"]] == ids[:1]
        assert rest["more"] is False
        params = {"sessionId": ids[0], "title": " a  new\nname ", "model": "other/one"}
        changed = await client.request("goalwright/session/set", params)
        assert changed["session"]["trace"]["title"] == "a new name"
        assert changed["session"]["model"] == "other/one"
        error = await client.refused("goalwright/session/set", {"sessionId": ids[0], "model": "nonsense"})
        assert error.code == ErrorCode.INVALID_PARAMS
        await client.answer(prompt(client, ids[0]))
        assert door.bench.models.models == ["other/one"]
        # The same model again as the default.
        changed = await client.request("goalwright/session/set", {"sessionId": ids[0], "agent": "plan"})
        assert changed["session"]["trace"]["agent"] == "plan"
        for agent, word in (("nobody", "nobody"), ("general", "needs a task")):
            refused = {"sessionId": ids[0], "agent": agent}
            error = await client.refused("goalwright/session/set", refused)
            assert (error.code, word in str(error)) == (ErrorCode.INVALID_PARAMS, True)
        changed = await client.request("goalwright/session/set", {"sessionId": ids[0], "model": ""})
        assert changed["session"]["model"] == "fake/model"


async def test_a_prompt_runs_with_updates_in_order() -> None:
    async with served([WRITE, Call("ls", {"path": "."})], "Done.") as door:
        client = await door.client(settings=ALLOW)
        session_id = await new_session(client)
        number = prompt(client, session_id, "write it", promptId="mine")
        answer = await client.answer(number)
        assert answer == {"promptId": "mine", "stopReason": "end_turn", "detail": "", "removed": False}
        ids = [event["eventId"] for event in client.events()]
        assert ids == sorted(ids)
        assert ids == list(range(ids[0], ids[-1] + 1))
        names = [event["event"] for event in client.events()]
        assert names[-2:] == ["turn_ended", "trace_completed"]
        assert names.count("tool_started") == 2
        deltas = [m["params"]["delta"] for m in client.seen if m.get("method") == "goalwright/session/delta"]
        assert "".join(d["text"] for d in deltas if d["kind"] == "text") == "Done."
        assert {d["name"] for d in deltas if d["kind"] == "tool_input"} == {"write", "ls", None}


async def test_events_reach_only_clients_that_loaded_the_session() -> None:
    async with served("ok", "ok") as door:
        one, other = await door.client(), await door.client()
        session_id = await new_session(one)
        await one.answer(prompt(one, session_id))
        await other.request("goalwright/daemon/status")
        assert other.events() == []


async def test_updates_are_encoded_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    encode, encoded = connection._encoded, list[str]()

    def counted(told: Notification) -> bytes:
        encoded.append(told.method)
        return encode(told)

    monkeypatch.setattr(connection, "_encoded", counted)
    async with served([WRITE, Call("ls", {"path": "."})], "Done.") as door:
        ann, bob = await door.client(settings=ALLOW), await door.client()
        session_id = await new_session(ann)
        await bob.request("goalwright/session/load", {"sessionId": session_id})
        encoded.clear()
        await ann.answer(prompt(ann, session_id))
        await bob.event("trace_completed")
        assert [event for event in bob.events() if event not in ann.events()] == []
        updates = [event["eventId"] for event in ann.events()]
        assert encoded.count("goalwright/session/update") == len(updates) == len(set(updates))


async def test_loading_twice_sends_events_once() -> None:
    async with served("ok") as door:
        client = await door.client()
        session_id = await new_session(client)
        await client.request("goalwright/session/load", {"sessionId": session_id})
        await client.request("goalwright/session/events", {"sessionId": session_id, "afterEventId": 0})
        await client.answer(prompt(client, session_id))
        ids = [event["eventId"] for event in client.events()]
        assert len(ids) == len(set(ids))


async def test_busy_session_refuses_on_request_and_else_queues() -> None:
    hold = Hold()
    async with served([hold, "one"], "two") as door:
        client = await door.client()
        session_id = await new_session(client)
        first = prompt(client, session_id, "first")
        await hold.reached.wait()
        params = {"sessionId": session_id, "text": "x", "whenBusy": "refuse"}
        assert (await client.refused("goalwright/session/prompt", params)).code == ErrorCode.BUSY
        second = prompt(client, session_id, "second", promptId="p2")
        third = prompt(client, session_id, "third", promptId="p3")
        await until(lambda: len(door.bench.core.running[0].queued()) == 2)
        edit = {"sessionId": session_id, "promptId": "p2", "text": "second, better"}
        assert await client.request("goalwright/queue/edit", edit) == {}
        assert (
            await client.request("goalwright/queue/edit", {"sessionId": session_id, "promptId": "p3"}) == {}
        )
        assert (await client.answer(third))["removed"] is True
        error = await client.refused("goalwright/queue/edit", {"sessionId": session_id, "promptId": "p3"})
        assert error.code == ErrorCode.UNKNOWN_REQUEST
        hold.go.set()
        await client.answer(first)
        assert (await client.answer(second))["stopReason"] == "end_turn"
        loaded = await client.request("goalwright/session/load", {"sessionId": session_id})
        assert [m["content"][0]["text"] for m in loaded["messages"] if m["role"] == "user"] == [
            *("first", "second, better")
        ]


async def test_prompt_whose_attachment_is_in_question_is_removed() -> None:
    hold = Hold()
    async with served([hold, "one"]) as door:
        (door.bench.workspace / "private.md").write_text("x")
        client = await door.client(settings={"permission": {"read": {"private.md": "ask"}}})
        session_id = await new_session(client)
        other = prompt(client, session_id, "the other's work")
        await hold.reached.wait()
        own = prompt(
            client, session_id, "look", promptId="p2", attachments=[{"name": "private.md", "mediaType": ""}]
        )
        asked = await client.event("permission_asked")
        edit = {"sessionId": session_id, "promptId": "p2", "text": None}
        assert await client.request("goalwright/queue/edit", edit) == {}
        assert (await client.answer(own))["removed"] is True
        replied = await client.event("permission_replied")
        assert replied["requestId"] == asked["request"]["requestId"]
        hold.go.set()
        assert (await client.answer(other))["stopReason"] == "end_turn"


async def test_cancel_stops_the_turn_and_is_answered_by_whether_it_did() -> None:
    hold = Hold()
    async with served(["Some words.", hold]) as door:
        client = await door.client()
        session_id = await new_session(client)
        number = prompt(client, session_id)
        await hold.reached.wait()
        cancel = {"sessionId": session_id}
        assert await client.request("goalwright/session/cancel", cancel) == {"canceled": True}
        assert (await client.answer(number))["stopReason"] == "canceled"
        assert await client.request("goalwright/session/cancel", cancel) == {"canceled": False}
        assert await client.request("goalwright/session/cancel", {"sessionId": "nobody"}) == {
            "canceled": False
        }


async def test_cancelling_the_request_leaves_the_turn_alone() -> None:
    hold = Hold()
    async with served([hold, "the end"]) as door:
        client = await door.client()
        session_id = await new_session(client)
        number = prompt(client, session_id)
        await hold.reached.wait()
        client.notify("$/cancelRequest", {"id": number})
        with pytest.raises(Exception, match="cancel") as caught:
            await client.answer(number)
        assert getattr(caught.value, "code", None) == -32800
        hold.go.set()
        ended = await client.event("turn_ended")
        assert ended["stopReason"] == "end_turn"


async def test_a_client_that_leaves_does_not_stop_the_turn() -> None:
    hold = Hold()
    async with served([hold, Call("ls", {"path": "."})], "the end") as door:
        client = await door.client()
        session_id = await new_session(client)
        prompt(client, session_id)
        await hold.reached.wait()
        await client.close()
        await until(lambda: door.bench.core.presence.clients == 0)
        hold.go.set()
        await until(lambda: not door.bench.core.running)
        again = await door.client()
        loaded = await again.request("goalwright/session/load", {"sessionId": session_id})
        assert loaded["messages"][-1]["content"][0]["text"] == "the end"
