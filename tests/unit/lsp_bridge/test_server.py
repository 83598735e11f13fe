"""What a client is told: every request, right and wrong, over the real wire."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from daemon.model.messages import TextPart
from daemon.provider.choose import ModelChoice
from daemon.provider.model_calls import PartStop, TextDelta
from daemon.store.trace_store import StoreError
from lsp_bridge.protocol.handshake import PROTOCOL_VERSION, ErrorCode
from lsp_bridge.server import connection
from tests.support.drivers.bridge import Door, Raw, choose, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, FakeModels, Hold

ALLOW = {"permission": {"*": "allow"}}
WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})


async def new_session(client: Raw, **params: Any) -> str:
    """A new session that the client has loaded, as an editor does."""
    result = await client.request("goalwright/session/new", params)
    session_id: str = result["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id})
    return session_id


def prompt(client: Raw, session_id: str, text: str = "go", **params: Any) -> int:
    return client.ask("goalwright/session/prompt", {"sessionId": session_id, "text": text, **params})


# -- initialize --


async def test_initialize_names_the_server_and_what_it_can() -> None:
    async with served() as door:
        client = await door.connect()
        result = await client.initialize()
        assert result["serverInfo"] == {"name": "goalwright", "version": "0.0-test"}
        sync = result["capabilities"]["textDocumentSync"]
        assert sync["openClose"] is True


async def test_a_request_before_initialize_is_refused_and_a_notification_ignored() -> None:
    async with served() as door:
        client = await door.connect()
        client.notify("textDocument/didOpen", {"textDocument": {}})
        error = await client.refused("goalwright/session/new")
        assert (error.code, "initialize" in str(error)) == (-32002, True)
        await client.initialize()
        assert await client.request("goalwright/session/new")


async def test_another_version_of_the_protocol_is_refused_with_what_to_do() -> None:
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
async def test_wrong_options_are_refused_in_words_without_repeating_them(options: dict[str, Any]) -> None:
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
async def test_an_editor_that_knows_nothing_of_goalwright_may_attach(options: object) -> None:
    async with served() as door:
        client = await door.connect()
        params = {"processId": 1, "rootUri": None, "capabilities": {}, "initializationOptions": options}
        assert await client.request("initialize", params)
        client.notify("initialized", {})
        assert await client.request("goalwright/daemon/status")


async def test_keys_of_the_client_reach_the_model_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_the_model_of_a_client_is_prepared_for_with_its_own_keys() -> None:
    asked: list[tuple[dict[str, str], str | None]] = []

    async def warm(env: dict[str, str], configured: str | None) -> None:
        asked.append((env, configured))
        raise OSError("must harm nobody")

    async with served() as door:
        door.bridge.warm = warm
        client = await door.client(env={"ANTHROPIC_API_KEY": "own"}, settings={"model": "anthropic/x"})
        assert await client.request("goalwright/daemon/status")
    assert [(env["ANTHROPIC_API_KEY"], model) for env, model in asked] == [("own", "anthropic/x")]


async def test_settings_of_the_client_hold_with_their_keys_unharmed() -> None:
    settings = {"permission": {"edit": {"*": "deny", "a.txt": "allow", "src/*.py": "ask"}}, "max_tokens": 777}
    async with served(WRITE, "ok") as door:
        client = await door.client(settings=settings)
        session_id = await new_session(client)
        assert (await client.answer(prompt(client, session_id)))["stopReason"] == "end_turn"
        assert (door.bench.workspace / "a.txt").exists()
        assert door.bench.models.requests[0].max_tokens == 777


async def test_wrong_settings_are_told_in_the_session() -> None:
    async with served() as door:
        client = await door.client("VS Code", settings={"max_tokens": "many", "colour": "red"})
        await new_session(client)
        status = await client.request("goalwright/daemon/status")
        assert "max_tokens" in status["notice"]
        assert "colour" in status["notice"]


@pytest.mark.usefixtures("english_again")
async def test_the_daemon_speaks_the_language_of_the_editor_that_came_last() -> None:
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
async def test_wrong_params_are_refused_in_words(method: str, params: object, word: str) -> None:
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
        ("session/prompt", {"text": "x"}),
        ("session/messages", {"before": 1}),
        ("session/events", {"afterEventId": 0}),
        ("session/set", {"title": "x"}),
        ("queue/edit", {"promptId": "p"}),
    ],
)
async def test_an_unknown_session_is_refused_in_words(
    session_id: str, method: str, params: dict[str, Any]
) -> None:
    async with served() as door:
        client = await door.client()
        error = await client.refused(f"goalwright/{method}", {"sessionId": session_id, **params})
        assert error.code == ErrorCode.UNKNOWN_SESSION
        assert "session/list" in str(error)


async def test_an_unknown_method_is_refused_and_an_unknown_notification_ignored() -> None:
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
async def test_odd_messages_harm_nothing(message: object) -> None:
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
async def test_what_is_no_json_rpc_is_refused_in_words(
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
        assert door.bridge.unsaved_text(door.bench.workspace / "a.json") == text


async def test_status_tells_what_the_daemon_is_and_does() -> None:
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


async def test_only_those_who_loaded_a_session_hear_of_it() -> None:
    async with served("ok", "ok") as door:
        one, other = await door.client(), await door.client()
        session_id = await new_session(one)
        await one.answer(prompt(one, session_id))
        await other.request("goalwright/daemon/status")
        assert other.events() == []


async def test_loading_twice_tells_everything_once() -> None:
    async with served("ok") as door:
        client = await door.client()
        session_id = await new_session(client)
        await client.request("goalwright/session/load", {"sessionId": session_id})
        await client.request("goalwright/session/events", {"sessionId": session_id, "afterEventId": 0})
        await client.answer(prompt(client, session_id))
        ids = [event["eventId"] for event in client.events()]
        assert len(ids) == len(set(ids))


async def test_a_busy_session_refuses_when_asked_to_and_queues_otherwise() -> None:
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
        await until(lambda: door.bench.core.clients == 0)
        hold.go.set()
        await until(lambda: not door.bench.core.running)
        again = await door.client()
        loaded = await again.request("goalwright/session/load", {"sessionId": session_id})
        assert loaded["messages"][-1]["content"][0]["text"] == "the end"


# -- permission --


async def test_two_clients_see_a_request_and_the_first_answer_wins() -> None:
    async with served(WRITE, "Written.") as door:
        ann, bob = await door.client("Ann's editor"), await door.client("Bob's editor")
        session_id = await new_session(ann)
        await bob.request("goalwright/session/load", {"sessionId": session_id})
        number = prompt(ann, session_id)
        asked = [(await client.event("permission_asked"))["request"] for client in (ann, bob)]
        assert asked[0] == asked[1]
        request_id = asked[0]["requestId"]
        listed = await bob.request("goalwright/permission/list", {"sessionId": session_id})
        assert listed["requests"] == [asked[0]]
        params = {"requestId": request_id, "path": "a.txt"}
        content = await bob.request("goalwright/permission/content", params)
        assert content == {"before": None, "after": "hello\n", "binary": False}
        mine = {"requestId": request_id, "files": [{"path": "a.txt", "text": "mine\n"}]}
        preview = await bob.request("goalwright/permission/preview", mine)
        assert "+mine" in preview["files"][0]["diff"]
        error = await bob.refused("goalwright/permission/preview", {**mine, "files": [{"path": "b"}]})
        assert error.code == ErrorCode.INVALID_PARAMS
        error = await bob.refused("goalwright/permission/content", {"requestId": request_id, "path": "b"})
        assert error.code == ErrorCode.UNKNOWN_REQUEST

        reply = {"requestId": request_id, "reply": "once"}
        first = await bob.request("goalwright/permission/reply", reply)
        second = await ann.request("goalwright/permission/reply", {**reply, "reply": "reject"})
        assert first == {"accepted": True, "by": "Bob's editor"}
        assert second == {"accepted": False, "by": "Bob's editor"}
        replied = await ann.event("permission_replied")
        assert (replied["reply"], replied["by"]) == ("once", "Bob's editor")
        assert (await ann.answer(number))["stopReason"] == "end_turn"
        assert (door.bench.workspace / "a.txt").read_text() == "hello\n"
        assert (await bob.refused("goalwright/permission/content", params)).code == ErrorCode.UNKNOWN_REQUEST


async def test_a_request_survives_the_reload_of_the_window() -> None:
    async with served(WRITE, "Written.") as door:
        client = await door.client()
        session_id = await new_session(client)
        prompt(client, session_id)
        await client.event("permission_asked")
        await client.close()
        await until(lambda: door.bench.core.clients == 0)
        again = await door.client()
        loaded = await again.request("goalwright/session/load", {"sessionId": session_id})
        assert loaded["session"]["status"] == "waiting"
        (request,) = loaded["pending"]
        reply = {"requestId": request["requestId"], "reply": "reject", "feedback": " not there "}
        assert (await again.request("goalwright/permission/reply", reply))["accepted"]
        ended = await again.event("turn_ended")
        assert ended["stopReason"] == "end_turn"
        replied = await again.event("permission_replied")
        assert replied["feedback"] == "not there"


async def test_an_unknown_permission_request_is_refused_in_words() -> None:
    async with served() as door:
        client = await door.client()
        error = await client.refused(
            "goalwright/permission/reply", {"requestId": "perm_nobody", "reply": "once"}
        )
        assert error.code == ErrorCode.UNKNOWN_REQUEST
        assert "request" in str(error)


async def test_binary_content_is_said_to_be_binary() -> None:
    edit = Call("write", {"file_path": "a.bin", "content": "text now"})
    async with served(Call("read", {"file_path": "a.bin"}), edit, "ok") as door:
        (door.bench.workspace / "a.bin").write_bytes(b"\x00\x01\x02")
        client = await door.client()
        session_id = await new_session(client)
        await client.answer(prompt(client, session_id))


# -- load --


async def test_load_gives_the_state_and_what_follows_continues_it() -> None:
    steps = [Call("goal", {"add": "look, change"}), Call("goal", {"focus": "1"}), "Well."]
    async with served(*steps) as door:
        client = await door.client()
        session_id = await new_session(client)
        await client.answer(prompt(client, session_id, "plan it"))
        other = await door.client()
        loaded = await other.request("goalwright/session/load", {"sessionId": session_id, "messages": 2})
        assert len(loaded["messages"]) == 2
        assert loaded["hasEarlier"] is True
        assert loaded["goalTree"]["currentId"] == "1"
        assert loaded["goalNumbers"] == {"1": "1", "2": "2"}
        assert loaded["queue"] == []
        assert loaded["streaming"] is None
        assert loaded["lastEventId"] == client.events()[-1]["eventId"]
        before = loaded["messages"][0]["sequence"]
        older = await other.request(
            "goalwright/session/messages", {"sessionId": session_id, "before": before, "limit": 100}
        )
        assert [m["sequence"] for m in older["messages"]] == list(range(1, before))
        assert older["hasEarlier"] is False
        none = await other.request("goalwright/session/load", {"sessionId": session_id, "messages": 0})
        assert none["messages"] == []
        assert none["hasEarlier"] is True
        events = await other.request(
            "goalwright/session/events", {"sessionId": session_id, "afterEventId": 3}
        )
        assert [e["eventId"] for e in events["events"]] == list(range(4, loaded["lastEventId"] + 1))


async def test_a_load_tells_how_earlier_turns_stopped() -> None:
    failure = Fail("auth", "no key")
    async with served(failure, "Well.", "Again.") as door:
        client = await door.client()
        session_id = await new_session(client)
        for words in ("one", "two", "three"):
            await client.answer(prompt(client, session_id, words))
        loaded = await client.request("goalwright/session/load", {"sessionId": session_id, "messages": 100})
        (told,) = loaded["notices"]
        assert (told["event"]["event"], told["event"]["stopReason"]) == ("turn_ended", "error")
        assert told["after"] == loaded["messages"][0]["sequence"]
        part = await client.request("goalwright/session/load", {"sessionId": session_id, "messages": 2})
        assert part["notices"] == []
        before = part["messages"][0]["sequence"]
        older = await client.request(
            "goalwright/session/messages", {"sessionId": session_id, "before": before, "limit": 100}
        )
        assert older["notices"] == [told]


async def test_load_in_mid_stream_gives_what_was_received_so_far() -> None:
    hold = Hold()
    async with served(["A whole part.", TextDelta(1, "half a sen"), hold, TextDelta(1, "tence")]) as door:
        client = await door.client()
        session_id = await new_session(client)
        number = prompt(client, session_id)
        await hold.reached.wait()
        other = await door.client()
        loaded = await other.request("goalwright/session/load", {"sessionId": session_id})
        assert loaded["session"]["status"] == "running"
        assert [p["text"] for p in loaded["streaming"]["parts"]] == ["A whole part.", "half a sen"]
        door.bench.models.then()
        hold.go.set()
        await client.answer(number)
        message = await other.event("message_added")
        assert message["message"]["messageId"] == loaded["streaming"]["messageId"]


async def busy_door(door: Door, client: Raw, count: int) -> tuple[str, list[int]]:
    """A session in which much happens at once."""
    session_id = await new_session(client)
    return session_id, [prompt(client, session_id, f"turn {n}") for n in range(count)]


async def test_nothing_newer_than_the_answer_comes_before_it_and_nothing_is_missing_behind_it() -> None:
    turns = 30
    steps = [step for n in range(turns) for step in (Call("goal", {"add": f"goal {n}"}), "Some words.")]
    chance = random.Random(1)

    async def dawdling(env: dict[str, str], configured: str | None) -> ModelChoice:
        for _ in range(chance.randrange(5)):
            await asyncio.sleep(0)
        return await choose(env, configured)

    async with served(*steps, chooser=dawdling) as door:
        working = await door.client("working")
        session_id, numbers = await busy_door(door, working, turns)
        followers = []
        while door.bench.core.running or not followers:
            follower = await door.client("follower")
            followers.append(follower)
            # Two at once: the second must not be answered behind what the first let through.
            asked = [
                follower.ask("goalwright/session/load", {"sessionId": session_id}),
                follower.ask("goalwright/session/events", {"sessionId": session_id, "afterEventId": 0}),
                follower.ask("goalwright/session/load", {"sessionId": session_id}),
            ]
            for number in asked:
                await follower.answer(number)
            if len(followers) == 12:
                break
        for number in numbers:
            await working.answer(number)
        last = working.events()[-1]["eventId"]
        for follower in followers:
            if not any(m.get("result", {}).get("lastEventId") == last for m in follower.seen):
                await follower.event("trace_completed", eventId=last)
            check_order(follower, last)


def check_order(follower: Raw, last: int) -> None:
    known: int | None = None
    for message in follower.seen:
        result = message.get("result")
        if isinstance(result, dict) and "lastEventId" in result:
            if known is not None:
                assert result["lastEventId"] >= known, "an event came before the answer that includes it"
            known = result["lastEventId"] if known is None else max(known, result["lastEventId"])
        elif isinstance(result, dict) and "events" in result:
            ids = [event["eventId"] for event in result["events"]]
            assert ids == list(range(1, len(ids) + 1))
            assert known is None or ids[-1] >= known
            known = max(known or 0, ids[-1])
        elif message.get("method") == "goalwright/session/update":
            event_id = message["params"]["event"]["eventId"]
            assert known is not None, f"event {event_id} came before the first answer"
            assert event_id <= known + 1, f"events between {known} and {event_id} are missing"
            known = max(known, event_id)
    assert known == last


# -- documents --


async def test_an_unsaved_buffer_is_what_the_tools_see() -> None:
    async with served(Call("read", {"file_path": "a.txt"}), WRITE, "ok") as door:
        path = door.bench.workspace / "a.txt"
        path.write_text("on disk\n")
        client = await door.client(settings=ALLOW)
        session_id = await new_session(client)
        document = {"uri": path.as_uri(), "languageId": "plaintext", "version": 1, "text": "on disk\n"}
        client.notify("textDocument/didOpen", {"textDocument": document})
        change = {
            "range": {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 7}},
            "text": "the 😀",
        }
        changed = {"textDocument": {"uri": path.as_uri(), "version": 2}, "contentChanges": [change]}
        client.notify("textDocument/didChange", changed)
        number = prompt(client, session_id, "read it, then write it")
        await client.answer(number)
        assert door.bridge.unsaved_text(path) == "on the 😀\n"
        results = [
            m["message"]["content"][0]
            for m in client.events()
            if m["event"] == "message_added" and m["message"]["role"] == "tool"
        ]
        assert "on the 😀" in results[0]["content"]
        assert "unsaved" in results[1]["content"]
        assert path.read_text() == "on disk\n"
        path.write_text("on the 😀\n")
        client.notify("textDocument/didSave", {"textDocument": {"uri": path.as_uri()}})
        await client.request("goalwright/daemon/status")
        assert door.bridge.unsaved_text(path) is None


async def test_the_buffers_of_an_editor_that_left_are_forgotten() -> None:
    async with served() as door:
        path = door.bench.workspace / "a.txt"
        path.write_text("on disk\n")
        one, other = await door.client("one"), await door.client("other")
        for client, text in ((one, "one typed\n"), (other, "on disk\n")):
            document = {"uri": path.as_uri(), "languageId": "plaintext", "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": document})
            await client.request("goalwright/daemon/status")
        assert door.bridge.unsaved_text(path) == "one typed\n"
        await one.close()
        await until(lambda: door.bench.core.clients == 1)
        assert door.bridge.unsaved_text(path) is None


# -- leaving --


async def test_exit_ends_one_connection_and_nothing_else() -> None:
    async with served("ok") as door:
        leaving, staying = await door.client(), await door.client()
        assert await leaving.request("shutdown") is None
        leaving.notify("exit", None)
        await leaving.hung_up()
        await until(lambda: door.bench.core.clients == 1)
        session_id = await new_session(staying)
        assert (await staying.answer(prompt(staying, session_id)))["stopReason"] == "end_turn"
        assert not door.stopping.is_set()


async def test_exit_without_shutdown_and_before_initialize_is_an_end_too() -> None:
    async with served() as door:
        for client in (await door.client(), await door.connect()):
            client.notify("exit", None)
            await client.hung_up()
        await until(lambda: door.bench.core.clients == 0)


async def test_after_shutdown_requests_are_refused_and_turns_go_on() -> None:
    hold = Hold()
    async with served([hold, "the end"]) as door:
        client = await door.client()
        session_id = await new_session(client)
        prompt(client, session_id)
        await hold.reached.wait()
        await client.request("shutdown")
        assert (await client.refused("goalwright/daemon/status")).code == -32600
        hold.go.set()
        await until(lambda: not door.bench.core.running)
        client.notify("exit", None)
        await client.hung_up()


# -- trouble --


async def test_a_store_that_fails_is_told_in_words() -> None:
    async with served() as door:
        client = await door.client()
        session_id = await new_session(client)

        def full(event: object) -> None:
            raise StoreError("The session's log cannot be written: No space left on device.")

        good = door.bench.core.store.append
        door.bench.core.store.append = full  # type: ignore[assignment,method-assign]  # a full disk
        error = await client.refused("goalwright/session/set", {"sessionId": session_id, "title": "x"})
        assert error.code == ErrorCode.STORE_FAILED
        assert "No space left" in str(error)
        door.bench.core.store.append = good  # type: ignore[method-assign]
        assert await client.request("goalwright/session/set", {"sessionId": session_id, "title": "x"})


async def test_a_bug_in_a_handler_is_an_error_without_the_daemons_insides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as door:
        client = await door.client()

        def broken(**_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(door.bench.core, "traces", broken)
        error = await client.refused("goalwright/session/list", {})
        assert error.code == -32603
        assert "log" in str(error)
        assert "traceback" not in json.dumps(client.seen).lower()
        assert await client.request("goalwright/daemon/status")


async def test_a_slow_client_misses_deltas_but_no_event() -> None:
    pieces = [TextDelta(0, "x" * 20_000) for _ in range(200)]
    text = "x" * 20_000 * 200
    async with served([*pieces, PartStop(0, TextPart(text=text))]) as door:
        client, slow = await door.client(), await door.client()
        session_id = await new_session(client)
        await slow.request("goalwright/session/load", {"sessionId": session_id})
        number = prompt(client, session_id)
        # ``slow`` reads nothing meanwhile.
        await client.answer(number)
        ended = await slow.event("turn_ended")
        assert ended["stopReason"] == "end_turn"
        await slow.event("trace_completed")
        assert slow.events() == client.events()
        deltas = [m for m in slow.seen if m.get("method") == "goalwright/session/delta"]
        assert len(deltas) < 200


async def test_a_client_that_never_reads_is_hung_up_on_and_can_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Above what one turn brings at once, or the client that reads would be hung up on, too.
    monkeypatch.setattr(connection, "_DEAD_CLIENT", 8_000_000)
    texts = ["y" * 1_500_000 for _ in range(6)]
    async with served(*texts) as door:
        # So much text is more than any model takes: it is not to be compacted.
        client = await door.client(settings={"compact_at_tokens": 100_000_000})
        dead = await door.client("dead")
        session_id = await new_session(client)
        await dead.request("goalwright/session/load", {"sessionId": session_id})
        for _ in texts:
            await client.answer(prompt(client, session_id))
        await until(lambda: door.bench.core.clients == 1)
        await dead.hung_up()
        last = dead.events()[-1]["eventId"] if dead.events() else 0
        back = await door.client("back")
        missed = await back.request(
            "goalwright/session/events", {"sessionId": session_id, "afterEventId": last}
        )
        ids = [e["eventId"] for e in missed["events"]]
        assert ids == list(range(last + 1, client.events()[-1]["eventId"] + 1))


async def test_files_outside_of_the_workspace_are_asked_for_by_name(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    async with served(Call("read", {"file_path": str(outside)}), "ok") as door:
        client = await door.client()
        session_id = await new_session(client)
        number = prompt(client, session_id)
        request = (await client.event("permission_asked"))["request"]
        assert request["targets"] == [outside.as_posix()]
        assert request["rule"]["permission"] == "external_directory"
        reply = {"requestId": request["requestId"], "reply": "once"}
        await client.request("goalwright/permission/reply", reply)
        assert (await client.answer(number))["stopReason"] == "end_turn"


async def test_a_clients_models_of_agents_hold_for_its_sessions_and_are_shown() -> None:
    models = FakeModels("Planned.")
    async with served(models=models) as door:
        client = await door.client(settings={"models": {"plan": "fake/planner"}})
        begun = await client.request("goalwright/session/new", {"agent": "plan"})
        assert begun["session"]["model"] == "fake/planner"
        session_id = begun["session"]["trace"]["traceId"]
        await client.answer(prompt(client, session_id))
        assert models.models == ["fake/planner"]
        listed = await client.request("goalwright/session/list", {})
        assert [session["model"] for session in listed["sessions"]] == ["fake/planner"]
        agents = (await client.request("goalwright/agent/list", {}))["agents"]
        assert {agent["name"]: agent["model"] for agent in agents}["plan"] == "fake/planner"


# -- what all sessions do --


async def test_clients_with_a_chat_hear_what_sessions_need_that_they_have_not_loaded() -> None:
    write = Call("write", {"file_path": "a.txt", "content": "x"})
    async with served(write, "Done.") as door:
        client, watcher = await door.client(), await door.client("VS Code", chat=True)
        session_id = await new_session(client)
        number = prompt(client, session_id, "write it")
        request = (await client.event("permission_asked"))["request"]

        def told() -> list[dict[str, Any]]:
            method = "goalwright/sessions/activity"
            return [one["params"] for one in watcher.seen if one.get("method") == method]

        await watcher.request("goalwright/daemon/status")
        (active,) = told()[-1]["active"]
        assert (active["sessionId"], active["asked"], active["waits"]) == (
            session_id,
            [request["requestId"]],
            True,
        )
        status = await watcher.request("goalwright/daemon/status")
        assert status["active"] == [active]
        await client.request(
            "goalwright/permission/reply", {"requestId": request["requestId"], "reply": "once"}
        )
        await client.answer(number)
        await watcher.request("goalwright/daemon/status")
        ended = [one for one in told() if one["ended"]]
        assert [(one["ended"], one["stopReason"], one["active"]) for one in ended] == [
            (session_id, "end_turn", [])
        ]
        assert not [one for one in client.seen if "activity" in one.get("method", "")]


async def test_a_stopped_queue_waits_for_the_client_to_send_it() -> None:
    hold = Hold()
    async with served([hold, "x"], "two") as door:
        client = await door.client()
        session_id = await new_session(client)
        first = prompt(client, session_id, "first")
        await hold.reached.wait()
        second = prompt(client, session_id, "second")
        await client.event("queue_changed")
        await client.request("goalwright/session/cancel", {"sessionId": session_id, "holdQueue": True})
        assert (await client.answer(first))["stopReason"] == "canceled"
        loaded = await client.request("goalwright/session/load", {"sessionId": session_id})
        assert (loaded["session"]["status"], len(loaded["queue"])) == ("idle", 1)
        await client.request("goalwright/queue/send", {"sessionId": session_id})
        assert (await client.answer(second))["stopReason"] == "end_turn"
