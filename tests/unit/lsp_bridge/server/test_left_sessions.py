"""Sessions that a client has shown and left: they cost nothing any more, and nothing of them is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.drivers.bridge import Raw, new_session, prompt, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call

WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})


async def leave(client: Raw, session_id: str) -> None:
    await client.request("goalwright/session/unsubscribe", {"sessionId": session_id})
    client.seen.clear()


async def load(client: Raw, session_id: str) -> dict[str, Any]:
    return await client.request("goalwright/session/load", {"sessionId": session_id})


async def heard(client: Raw) -> set[str]:
    """The sessions of which the client was sent something, up to now."""
    await client.request("goalwright/daemon/status")
    return {
        message["params"]["sessionId"]
        for message in client.seen
        if message.get("method", "").startswith("goalwright/session/")
    }


async def test_nothing_is_sent_of_a_session_that_was_left() -> None:
    async with served("one", "two", "three") as door:
        client, other = await door.client(), await door.client()
        left, shown = await new_session(client), await new_session(client)
        await client.answer(prompt(client, left))
        await load(other, left)
        await leave(client, left)
        await other.answer(prompt(other, left))
        assert await heard(client) == set()
        assert left in await heard(other)
        await client.answer(prompt(client, shown))
        assert await heard(client) == {shown}


async def test_coming_back_shows_all_that_happened_and_goes_on() -> None:
    async with served("one", "two", "three") as door:
        client, other = await door.client(), await door.client()
        session_id = await new_session(client)
        await client.answer(prompt(client, session_id, "first"))
        await load(other, session_id)
        await leave(client, session_id)
        await other.answer(prompt(other, session_id, "second"))
        back = await load(client, session_id)
        assert back["messages"] == (await load(other, session_id))["messages"]
        assert len(back["messages"]) == 4
        await other.answer(prompt(other, session_id, "third"))
        await client.event("turn_ended")
        ids = [event["eventId"] for event in client.events()]
        assert ids == list(range(back["lastEventId"] + 1, ids[-1] + 1))


async def test_a_question_of_a_session_that_was_left_is_reported() -> None:
    async with served(WRITE, "Written.") as door:
        client = await door.client("VS Code", chat=True)
        session_id = await new_session(client)
        await leave(client, session_id)
        number = prompt(client, session_id)
        waits: dict[str, Any] = {}
        while not waits.get("asked"):
            message = await client.receive()
            if message.get("method") == "goalwright/sessions/activity":
                waits = next(iter(message["params"]["active"]), {})
        assert (waits["sessionId"], waits["waits"]) == (session_id, True)
        assert await heard(client) == set()
        listed = await client.request("goalwright/permission/list", {"sessionId": session_id})
        assert [one["requestId"] for one in listed["requests"]] == waits["asked"]
        (request,) = (await load(client, session_id))["pending"]
        reply = {"requestId": request["requestId"], "reply": "once"}
        await client.request("goalwright/permission/reply", reply)
        assert (await client.answer(number))["stopReason"] == "end_turn"
        assert (door.bench.workspace / "a.txt").read_text() == "hello\n"


async def test_a_session_that_was_left_is_closed() -> None:
    async with served("one", "two") as door:
        client, core = await door.client(), door.bench.core
        left, shown = await new_session(client), await new_session(client)
        for session_id in (left, shown):
            await client.answer(prompt(client, session_id))
        await leave(client, left)
        unloading = asyncio.create_task(core.trace_maintenance.unload_unused(after_s=0, look_s=0.01))
        await until(lambda: core.live(left) is None, "nobody shows it")
        unloading.cancel()
        assert core.live(shown) is not None
        assert len((await load(client, left))["messages"]) == 2
