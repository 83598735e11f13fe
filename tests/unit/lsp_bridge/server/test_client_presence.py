"""Clients that can answer the requests of a turn, over the real wire."""

from __future__ import annotations

from typing import Any

from tests.support.drivers.bridge import Door, Raw, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call

WRITE = Call("write", {"file_path": "a.txt", "content": "hello\n"})
LENSES: dict[str, Any] = {"textDocument": {"codeLens": {}}}


async def asking(door: Door) -> tuple[Raw, str]:
    """A script whose turn waits for an answer."""
    script = await door.client("script", chat=True, unattended=True)
    created = await script.request("goalwright/session/new", {})
    session_id: str = created["session"]["trace"]["traceId"]
    await script.request("goalwright/session/load", {"sessionId": session_id})
    script.ask("goalwright/session/prompt", {"sessionId": session_id, "text": "go"})
    await script.event("permission_asked")
    return script, session_id


async def there(client: Raw, session_id: str) -> list[str]:
    listed = await client.request("goalwright/permission/list", {"sessionId": session_id})
    assert len(listed["requests"]) == 1
    names: list[str] = listed["attendedBy"]
    return names


async def shown(door: Door, session_id: str, name: str, **options: Any) -> Raw:
    client = await door.client(name, chat=True, **options)
    await client.request("goalwright/session/load", {"sessionId": session_id})
    return client


async def gone(door: Door, client: Raw) -> None:
    clients = door.bench.core.presence.clients
    await client.close()
    await until(lambda: door.bench.core.presence.clients == clients - 1, "the end of the connection")


async def test_whoever_sent_the_prompt_is_there_until_it_goes() -> None:
    async with served(WRITE) as door:
        script, session_id = await asking(door)
        assert await there(script, session_id) == []  # it asks who is there but itself
        other = await shown(door, session_id, "another script", unattended=True)
        assert await there(other, session_id) == ["script"]
        await gone(door, script)
        assert await there(other, session_id) == []


async def test_a_person_is_there_for_what_is_shown_to_them() -> None:
    async with served(WRITE) as door:
        script, session_id = await asking(door)
        elsewhere = await door.client("a window with another session", chat=True)
        assert await there(script, session_id) == []
        window = await shown(door, session_id, "VS Code")
        assert await there(script, session_id) == ["VS Code"]
        await gone(door, window)
        assert await there(script, session_id) == []
        await elsewhere.request("goalwright/session/events", {"sessionId": session_id, "afterEventId": 0})
        assert await there(script, session_id) == ["a window with another session"]


async def test_an_editor_with_lenses_is_there_for_every_session() -> None:
    async with served(WRITE) as door:
        script, session_id = await asking(door)
        editor = await door.connect()
        await editor.initialize("Neovim", LENSES)
        await door.client("no editor")
        assert await there(script, session_id) == ["Neovim"]
