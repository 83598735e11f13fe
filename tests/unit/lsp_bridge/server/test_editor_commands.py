"""Commands of an LSP editor at the daemon's real door: who may accept what, what goes on, what is not quoted."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from daemon.provider.choose import ModelChoice
from lsp_bridge.server.requests import sessions
from tests.support.drivers.bridge import ClosedError, Door, Raw, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call, Hold

ABLE = {"window": {"workDoneProgress": True}}
EXECUTE = "workspace/executeCommand"
TEXT = "LOCAL = 400\n"
WRITE = Call("write", {"file_path": "new.py", "content": "x = 1\n"})


async def editor(door: Door, *, silent: bool = False, **options: Any) -> tuple[Raw, asyncio.Task[None]]:
    """A plain LSP client that answers every request with null, or none at all."""
    client = await door.connect()
    await client.initialize("Plain", ABLE, **options)

    async def read() -> None:
        with contextlib.suppress(ClosedError):
            while True:
                message = await client.receive()
                if "method" in message and "id" in message and not silent:
                    client.send({"jsonrpc": "2.0", "id": message["id"], "result": None})

    return client, asyncio.create_task(read())


def explain(door: Door, **more: Any) -> dict[str, Any]:
    path = door.bench.workspace / "a.py"
    path.write_text(TEXT)
    return {"command": "goalwright.explain", "arguments": [{"uri": path.as_uri()}], **more}


def answers(client: Raw, request_id: int) -> list[dict[str, Any]]:
    return [one for one in client.seen if one.get("id") == request_id and "method" not in one]


def stops(door: Door) -> list[str]:
    store = door.bench.core.store
    events = [event for trace in store.trace_ids() for event in store.events(trace)]
    return [event.stop_reason for event in events if event.event == "turn_ended"]


@pytest.mark.parametrize("polite", [False, True])
async def test_turn_continues_when_the_waiting_client_disconnects(polite: bool) -> None:
    hold = Hold()
    async with served([hold, "answer"]) as door:
        client, reading = await editor(door)
        client.ask(EXECUTE, explain(door, workDoneToken="mine"))
        await hold.reached.wait()
        if polite:
            goodbye = client.ask("shutdown", None)
            await until(lambda: answers(client, goodbye), "the answer to shutdown")
            client.notify("exit", None)
        else:
            await client.close()
        await reading
        await until(lambda: not door.bench.core.presence.clients, "the end of the connection")
        hold.go.set()
        await until(lambda: stops(door), "the end of the turn")
        assert stops(door) == ["end_turn"]


async def test_a_canceled_request_cancels_its_turn() -> None:
    hold = Hold()
    async with served([hold, "answer"]) as door:
        client, reading = await editor(door)
        number = client.ask(EXECUTE, explain(door, workDoneToken="mine"))
        await hold.reached.wait()
        client.notify("$/cancelRequest", {"id": number})
        await until(lambda: stops(door), "the end of the turn")
        assert stops(door) == ["canceled"]
        reading.cancel()


async def test_prompt_canceled_before_it_is_in_the_queue_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    hold, reading_files, read = Hold(), asyncio.Event(), asyncio.Event()
    whole = sessions.attached

    async def slow(*of: Any) -> Any:
        found = await whole(*of)
        reading_files.set()
        await read.wait()
        return found

    async with served([hold, "answer"]) as door:
        client, reading = await editor(door)
        client.ask(EXECUTE, explain(door, workDoneToken="first"))
        await hold.reached.wait()
        monkeypatch.setattr(sessions, "attached", slow)
        second = client.ask(EXECUTE, explain(door, workDoneToken="second"))
        await reading_files.wait()
        client.notify("window/workDoneProgress/cancel", {"token": "second"})
        heard = client.ask("goalwright/daemon/status", {})
        await until(lambda: answers(client, heard), "an answer after the cancellation")
        read.set()
        await until(lambda: answers(client, second), "the end of the second prompt")
        assert not stops(door)
        hold.go.set()
        await until(lambda: stops(door), "the end of the first turn")
        assert stops(door) == ["end_turn"]
        reading.cancel()


async def test_client_that_never_creates_progress_delays_nothing() -> None:
    async with served("answer") as door:
        client, reading = await editor(door, silent=True)
        client.ask(EXECUTE, explain(door))
        await until(lambda: stops(door), "the end of the turn")
        assert not [one for one in client.seen if one.get("method") == "$/progress"]
        reading.cancel()


async def test_a_token_that_is_used_twice_is_the_first_turns() -> None:
    hold = Hold()
    async with served([hold, "answer"], "second") as door:
        client, reading = await editor(door)
        first = client.ask(EXECUTE, explain(door, workDoneToken=1))
        await hold.reached.wait()
        second = client.ask(EXECUTE, explain(door, workDoneToken=1))
        (running,) = door.bench.core.running
        await until(lambda: running.queued(), "the second prompt")
        hold.go.set()
        await until(lambda: answers(client, first) and answers(client, second), "both answers")
        steps = [one["params"]["value"]["kind"] for one in client.seen if one.get("method") == "$/progress"]
        assert (steps.count("begin"), steps.count("end")) == (1, 1)
        reading.cancel()


async def test_an_answer_is_shown_when_the_next_turn_began() -> None:
    hold = Hold()
    async with served([hold, "first"], "second") as door:
        client, reading = await editor(door)
        client.ask(EXECUTE, explain(door))
        await hold.reached.wait()
        client.ask(EXECUTE, explain(door))
        (running,) = door.bench.core.running
        await until(lambda: running.queued(), "the second prompt")
        hold.go.set()

        def shown() -> list[str]:
            said = [one for one in client.seen if one.get("method") == "window/showMessage"]
            return [one["params"]["message"].split()[-1] for one in said]

        await until(lambda: "second" in shown(), "the second answer")
        assert shown() == ["first", "second"]
        reading.cancel()


async def test_after_its_session_was_deleted_an_editor_gets_a_new_one() -> None:
    async with served("one", "two") as door:
        client = await door.client("Plain")
        first = await client.request(EXECUTE, explain(door, workDoneToken=1))
        other = await door.client("other")
        await other.request("goalwright/session/delete", {"sessionId": first["sessionId"]})
        second = await client.request(EXECUTE, explain(door, workDoneToken=2))
        assert second["sessionId"] != first["sessionId"]


async def test_two_commands_at_once_work_in_one_session() -> None:
    begun, chosen = asyncio.Event(), asyncio.Event()

    async def choose_slowly(env: dict[str, str], configured: str | None) -> ModelChoice:
        begun.set()
        await chosen.wait()
        return ModelChoice("fake/model", False, "")

    async with served("one", "two", chooser=choose_slowly) as door:
        client = await door.client("Plain")
        asked = [client.ask(EXECUTE, explain(door, workDoneToken=token)) for token in (1, 2)]
        await begun.wait()
        for _ in range(20):  # then the second command has come as far, too
            await client.request("goalwright/config/problems")
        chosen.set()
        first, second = [await client.answer(number) for number in asked]
        assert first["sessionId"] == second["sessionId"]


async def begin(door: Door) -> tuple[Raw, int]:
    """Somebody else's turn, which asks."""
    other = await door.client("cli")
    session = (await other.request("goalwright/session/new"))["session"]["trace"]["traceId"]
    number = other.ask("goalwright/session/prompt", {"sessionId": session, "text": "go"})
    await until(lambda: door.bench.core.permissions.pending(), "the question")
    return other, number


@pytest.mark.parametrize("call", [Call("bash", {"command": "touch here"}), WRITE], ids=["command", "file"])
@pytest.mark.parametrize("command", ["goalwright.acceptChanges", "goalwright.rejectChanges"])
async def test_request_not_shown_here_is_named_and_not_answered(call: Call, command: str) -> None:
    async with served(call, "done") as door:
        await begin(door)
        client = await door.client("Plain")
        (question,) = door.bench.core.permissions.pending()
        error = await client.refused(EXECUTE, {"command": command, "arguments": []})
        assert "nothing was done" in str(error)
        assert question.request_id in str(error)
        assert door.bench.core.permissions.pending() == [question]


async def test_a_file_that_is_open_here_is_accepted_by_its_name() -> None:
    async with served(Call("read", {"file_path": "a.py"}), EDIT, "done") as door:
        path = door.bench.workspace / "a.py"
        path.write_text(TEXT)
        other, number = await begin(door)
        client = await door.client("Plain")
        accept = {"command": "goalwright.acceptChanges", "arguments": [{"path": "a.py"}]}
        assert "nothing was done" in str(await client.refused(EXECUTE, accept))
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": TEXT}
        client.notify("textDocument/didOpen", {"textDocument": document})
        await client.request(EXECUTE, accept)
        await other.answer(number)
        assert path.read_text() == "LOCAL = 350\n"


PATCH = """*** Begin Patch
*** Update File: a.py
@@
-LOCAL = 400
+LOCAL = 350
*** Add File: b.py
+x = 1
*** End Patch"""
EDIT = Call("write", {"file_path": "a.py", "content": "LOCAL = 350\n"})


@pytest.mark.parametrize(
    ("call", "titles"),
    [
        (EDIT, ["Show diff", "Accept", "Reject"]),
        (
            Call("patch", {"patch_text": PATCH}),
            ["Show diff", "Accept 2 files", "Reject 2 files", "Accept", "Reject"],
        ),
    ],
    ids=["one", "two"],
)
async def test_code_lenses_contain_no_duplicates(call: Call, titles: list[str]) -> None:
    async with served(Call("read", {"file_path": "a.py"}), call, "done") as door:
        path = door.bench.workspace / "a.py"
        path.write_text(TEXT)
        await begin(door)
        client = await door.client("Plain")
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": TEXT}
        client.notify("textDocument/didOpen", {"textDocument": document})
        lenses: Any = await client.request("textDocument/codeLens", {"textDocument": {"uri": path.as_uri()}})
        assert [one["command"]["title"] for one in lenses] == titles


@pytest.mark.parametrize("name", [".env", "../outside.txt"])
async def test_file_that_needs_approval_is_named_but_not_quoted(name: str) -> None:
    async with served() as door:
        path = (door.bench.workspace / name).resolve()
        path.write_text("SECRET WORD\n")
        client = await door.client("Plain", chat=True)
        at = {"start": {"line": 10**10, "character": 0}, "end": {"line": 10**10, "character": 0}}
        for more in ({}, {"range": at}):
            about = {"uri": path.as_uri(), **more}
            made = await client.request(EXECUTE, {"command": "goalwright.explain", "arguments": [about]})
            assert "not quoted here" in made["text"]
            assert "SECRET WORD" not in made["text"]


async def test_position_beyond_the_end_is_the_last_line() -> None:
    async with served() as door:
        command = explain(door)
        at = {"start": {"line": 10**10, "character": 0}, "end": {"line": 10**10, "character": 0}}
        command["arguments"][0]["range"] = at
        client = await door.client("Plain", chat=True)
        made = await client.request(EXECUTE, command)
        assert made["text"].startswith("Explain the code in @a.py:1. ")


async def test_a_flood_of_problems_is_answered_in_a_few_kilobytes() -> None:
    async with served() as door:
        command = explain(door)
        client = await door.client("Plain")
        at = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
        flood = [{"range": at, "message": f"{number}" + "m" * 200} for number in range(5_000)]
        params = {
            "textDocument": {"uri": command["arguments"][0]["uri"]},
            "range": at,
            "context": {"diagnostics": flood},
        }
        assert len(str(await client.request("textDocument/codeAction", params))) < 40_000
