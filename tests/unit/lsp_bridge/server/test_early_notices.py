"""Notices about what is wrong before a turn begins: a client that opened the session hears them during the turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.drivers.bridge import Raw, new_session, prompt, served

BROKEN = {
    ".mcp.json is not used": (".mcp.json", "{"),
    "The MCP server lost does not work: the program no-such-program is not found": (
        ".vscode/mcp.json",
        json.dumps({"servers": {"lost": {"command": "no-such-program"}}}),
    ),
    "bad.json": (".goalwright/tools/bad.json", "{"),
}
"""Files of a trusted folder, by a part of the notice about each."""
ADDRESS = "The address for telemetry must begin with http:// or https://."


def break_all(folder: Path) -> None:
    settings = {"telemetry": True, "telemetry_endpoint": "localhost:4318"}
    for path, text in [("home/config.json", json.dumps(settings))] + [
        (f"workspace/{name}", text) for name, text in BROKEN.values()
    ]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def heard(client: Raw, after: int) -> list[str]:
    """The notices that the terminal prints: of events after those that were there when it opened the session."""
    events: list[dict[str, Any]] = client.events()
    return [one["text"] for one in events if one["event"] == "notice" and one["eventId"] > after]


async def test_a_client_hears_what_was_wrong_before_its_turn(tmp_path: Path) -> None:
    break_all(tmp_path)
    async with served("one", "two", "three", at=tmp_path) as door:

        async def session() -> tuple[Raw, str, int]:
            client = await door.client()
            session_id = await new_session(client)
            loaded = await client.request("goalwright/session/load", {"sessionId": session_id, "messages": 0})
            await client.answer(prompt(client, session_id))
            said = heard(client, loaded["lastEventId"])
            for words in (*BROKEN, ADDRESS):
                assert sum(words in text for text in said) == 1, (words, said)
            return client, session_id, loaded["lastEventId"]

        await session()
        client, session_id, opened = await session()  # this daemon knows all of it
        before = len(heard(client, opened))
        await client.answer(prompt(client, session_id))
        assert len(heard(client, opened)) == before, "each is said once"
        status = (await client.request("goalwright/daemon/status", {}))["notice"]
        assert all(words in status for words in (*BROKEN, ADDRESS)), status


async def test_the_status_reads_the_files_before_any_session(tmp_path: Path) -> None:
    break_all(tmp_path)
    async with served(at=tmp_path) as door:
        client = await door.client()
        status = (await client.request("goalwright/daemon/status", {}))["notice"]
        assert all(words in status for words in list(BROKEN)[:2]), status
