"""Events, states and losses of clients of a session, over the real wire."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest

from daemon.model.messages import TextPart
from daemon.provider.choose import ModelChoice
from daemon.provider.model_calls import PartStop, TextDelta
from daemon.store.trace_store import StoreError
from lsp_bridge.protocol.handshake import ErrorCode
from lsp_bridge.server import connection
from tests.support.drivers.bridge import Door, Raw, choose, new_session, prompt, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Fail, FakeModels, Hold

ALLOW = {"permission": {"*": "allow"}}
WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})

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
        await until(lambda: door.bench.core.presence.clients == 0)
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


async def test_reply_to_an_unknown_permission_request_is_refused() -> None:
    async with served() as door:
        client = await door.client()
        error = await client.refused(
            "goalwright/permission/reply", {"requestId": "perm_nobody", "reply": "once"}
        )
        assert error.code == ErrorCode.UNKNOWN_REQUEST
        assert "request" in str(error)


async def test_binary_content_is_marked_as_binary() -> None:
    async with served(Call("write", {"file_path": "a.bin", "content": "a\0b"})) as door:
        client = await door.client()
        session_id = await new_session(client)
        number = prompt(client, session_id)
        request_id = (await client.event("permission_asked"))["request"]["requestId"]
        params = {"requestId": request_id, "path": "a.bin"}
        content = await client.request("goalwright/permission/content", params)
        assert content == {"before": None, "after": None, "binary": True}
        await client.request("goalwright/permission/reply", {"requestId": request_id, "reply": "reject"})
        await client.answer(number)


# -- load --


async def test_load_returns_the_state_and_events_continue_it() -> None:
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


async def test_preview_shows_what_load_shows_without_opening() -> None:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        steps = [Call("goal", {"add": "look, change"}), Call("goal", {"focus": "1"}), "Well."]
        async with served(*steps, Fail("auth", "no key"), at=Path(folder)) as door:
            client = await door.client()
            session_id = await new_session(client)
            await client.answer(prompt(client, session_id, "plan it"))
            await client.answer(prompt(client, session_id, "again"))
        async with served(at=Path(folder)) as door:
            client = await door.client()
            wanted = {"sessionId": session_id, "messages": 3}
            preview = await client.request("goalwright/session/preview", wanted)
            assert door.bench.core.live(session_id) is None
            loaded = await client.request("goalwright/session/load", wanted)
            for name in ("session", "messages", "hasEarlier", "goalTree", "goalNumbers", "notices"):
                assert preview[name] == loaded[name], name
            assert len(preview["messages"]) == 3
            assert preview["notices"] != []


async def test_load_includes_errors_of_earlier_turns() -> None:
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


async def test_load_is_answered_in_order_without_gaps() -> None:
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


async def test_tools_read_the_unsaved_buffer() -> None:
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
        assert door.bridge.editors.unsaved(path) == "on the 😀\n"
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
        assert door.bridge.editors.unsaved(path) is None


async def test_buffers_of_a_closed_editor_are_dropped() -> None:
    async with served() as door:
        path = door.bench.workspace / "a.txt"
        path.write_text("on disk\n")
        one, other = await door.client("one"), await door.client("other")
        for client, text in ((one, "one typed\n"), (other, "on disk\n")):
            document = {"uri": path.as_uri(), "languageId": "plaintext", "version": 1, "text": text}
            client.notify("textDocument/didOpen", {"textDocument": document})
            await client.request("goalwright/daemon/status")
        assert door.bridge.editors.unsaved(path) == "one typed\n"
        await one.close()
        await until(lambda: door.bench.core.presence.clients == 1)
        assert door.bridge.editors.unsaved(path) is None


async def test_language_servers_lose_the_text_of_a_closed_editor() -> None:
    async with served() as door:
        path = door.bench.workspace / "a.txt"
        path.write_text("on disk\n")
        client = await door.client()
        document = {"uri": path.as_uri(), "languageId": "plaintext", "version": 1, "text": "on disk\n"}
        client.notify("textDocument/didOpen", {"textDocument": document})
        changed = {"uri": path.as_uri(), "version": 2}
        typed = {"textDocument": changed, "contentChanges": [{"text": "typed\n"}]}
        client.notify("textDocument/didChange", typed)
        told = door.bench.diagnostics.buffers_changed
        await until(lambda: told == [path], "the text is shown to language servers")
        await client.close()
        await until(lambda: told == [path, path], "the text on disk is shown to them again")


# -- leaving --


async def test_exit_ends_only_its_own_connection() -> None:
    async with served("ok") as door:
        leaving, staying = await door.client(), await door.client()
        assert await leaving.request("shutdown") is None
        leaving.notify("exit", None)
        await leaving.hung_up()
        await until(lambda: door.bench.core.presence.clients == 1)
        session_id = await new_session(staying)
        assert (await staying.answer(prompt(staying, session_id)))["stopReason"] == "end_turn"
        assert not door.stopping.is_set()


async def test_requests_before_shutdown_are_answered() -> None:
    async with served() as door:
        client = await door.client()
        asked = [client.ask(method, {}) for method in ("goalwright/daemon/status", "goalwright/session/list")]
        assert await client.request("shutdown") is None
        assert "version" in await client.answer(asked[0])
        assert (await client.answer(asked[1]))["sessions"] == []


async def test_exit_without_shutdown_closes_the_connection() -> None:
    async with served() as door:
        for client in (await door.client(), await door.connect()):
            client.notify("exit", None)
            await client.hung_up()
        await until(lambda: door.bench.core.presence.clients == 0)


async def test_after_shutdown_requests_are_refused_but_turns_finish() -> None:
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


async def test_store_failure_is_returned_as_an_error() -> None:
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


async def test_internal_error_is_reported_without_a_traceback(
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


async def test_client_that_never_reads_is_dropped_and_can_catch_up(
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
        await until(lambda: door.bench.core.presence.clients == 1)
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


async def test_agent_models_of_a_client_apply_to_its_sessions() -> None:
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


async def test_chat_clients_get_activity_of_sessions_not_loaded() -> None:
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


# -- settings of the clients --


async def choose_by_key(env: dict[str, str], configured: str | None) -> ModelChoice:
    return ModelChoice("fake/paid" if "ANTHROPIC_API_KEY" in env else "fake/keyless", False, "")


EDITOR = {
    "env": {"ANTHROPIC_API_KEY": "sk-ant-of-the-editor"},
    "settings": {"permission": {"bash": {"*": "allow", "touch *": "deny"}}},
}
TOUCH = Call("bash", {"command": "touch here", "description": "Make a file"})


async def test_a_waiting_prompt_leaves_the_running_turn_as_it_is() -> None:
    hold = Hold()
    async with served([hold, TOUCH], "one", TOUCH, "two", chooser=choose_by_key) as door:
        editor = await door.client("editor", **EDITOR)
        session_id = await new_session(editor)
        first = prompt(editor, session_id, "first")
        await hold.reached.wait()
        terminal = await door.client("terminal", settings=ALLOW)
        second = prompt(terminal, session_id, "second")
        await editor.event("queue_changed")
        await terminal.request("goalwright/session/set", {"sessionId": session_id, "mode": "accept-edits"})
        hold.go.set()
        await editor.answer(first)
        assert not (door.bench.workspace / "here").exists()
        await terminal.answer(second)
        assert (door.bench.workspace / "here").exists()
        assert door.bench.models.models == ["fake/paid"] * 2 + ["fake/keyless"] * 2


async def test_an_untrusting_client_restricts_what_waits_too() -> None:
    hold = Hold()
    async with served([hold, "one"], TOUCH, "two") as door:
        editor = await door.client("editor", settings=ALLOW)
        session_id = await new_session(editor)
        first = prompt(editor, session_id, "first")
        await hold.reached.wait()
        second = prompt(editor, session_id, "second")
        await editor.event("queue_changed")
        reloaded = await door.client("editor", settings=ALLOW, trusted=False)
        await reloaded.request("goalwright/session/load", {"sessionId": session_id})
        hold.go.set()
        await editor.answer(first)
        await editor.answer(second)
        assert not (door.bench.workspace / "here").exists()


async def test_prompts_sent_from_the_queue_use_the_senders_settings() -> None:
    hold = Hold()
    async with served([hold, "one"], TOUCH, "two", chooser=choose_by_key) as door:
        editor = await door.client("editor", **EDITOR)
        session_id = await new_session(editor)
        prompt(editor, session_id, "first")
        await hold.reached.wait()
        second = prompt(editor, session_id, "second")
        await editor.event("queue_changed")
        await editor.request("goalwright/session/cancel", {"sessionId": session_id, "holdQueue": True})
        terminal = await door.client("terminal", settings=ALLOW)
        await until(lambda: not door.bench.core.running)
        await terminal.request("goalwright/queue/send", {"sessionId": session_id})
        await editor.answer(second)
        assert (door.bench.workspace / "here").exists()
        assert door.bench.models.models == ["fake/paid", "fake/keyless", "fake/keyless"]


async def test_a_rejected_change_of_a_session_changes_nothing() -> None:
    async with served() as door:
        client = await door.client(trusted=False)
        session_id = await new_session(client)
        changes = {"sessionId": session_id, "agent": "plan", "mode": "auto"}
        await client.refused("goalwright/session/set", changes)
        loaded = await client.request("goalwright/session/load", {"sessionId": session_id})
        assert loaded["session"]["trace"]["agent"] == "build"
