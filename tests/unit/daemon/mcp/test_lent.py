"""MCP servers that a client passes for one session: there alone, in memory only, and gone with the client."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.mcp import service
from daemon.mcp.lent import EDITOR
from tests.support.drivers.bridge import Door, Raw, new_session, prompt, served
from tests.support.drivers.core import results
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call
from tests.support.programs import mcp_server

SECRET = "hunter2-very-secret-value"
LOOK = Call("mcp__mine__surroundings")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAIT_S", "LISTING_WAIT_S"):
        monkeypatch.setattr(service, name, 60.0)


def given(name: str = "mine", **more: Any) -> dict[str, Any]:
    env = {"API_TOKEN": SECRET, "PLAIN": "${HOME}"}
    return {"name": name, "command": sys.executable, "args": [mcp_server.__file__], "env": env, **more}


async def lend(client: Raw, session_id: str, *servers: dict[str, Any]) -> None:
    await client.request("goalwright/mcp/session", {"sessionId": session_id, "servers": list(servers)})


def offered(door: Door) -> set[str]:
    return {
        tool.name.split("__")[1]
        for tool in door.bench.models.requests[-1].tools
        if tool.name.startswith("mcp__")
    }


def lent(door: Door) -> list[str]:
    """The names of passed servers that run."""
    return [spec.name for spec in door.bench.core.mcp._connections if spec.source == EDITOR]


async def test_a_server_of_one_session_ends_with_its_client(tmp_path: Path) -> None:
    settings = {"permission": {"mcp__mine__*": "allow"}}
    async with served(LOOK, "done", "done", settings=settings, at=tmp_path) as door:
        editor, other = await door.client("editor"), await door.client("other")
        session_id, elsewhere = await new_session(editor), await new_session(other)
        await lend(editor, session_id, given())
        await editor.answer(prompt(editor, session_id))
        assert offered(door) == {"mine"}
        (found,) = results((await door.bench.core.session(session_id)).state.messages)
        assert '"API_TOKEN": "' in found.content and SECRET not in found.content, found.content
        assert '"PLAIN": "${HOME}"' in found.content, "values are literal"
        await other.answer(prompt(other, elsewhere))
        assert offered(door) == set()

        listed = (await other.request("goalwright/mcp/list", {}))["servers"]
        assert [(one["name"], one["source"], one["state"]) for one in listed] == [("mine", "editor", "ready")]
        (connection,) = (
            one for spec, one in door.bench.core.mcp._connections.items() if spec.source == EDITOR
        )
        await until(lambda: connection.content.resources, "the resources, which come after the tools")
        params = {"sessionId": session_id, "query": "guide"}
        assert (await other.request("goalwright/mcp/resources", params))["resources"]
        params = {"sessionId": session_id}
        commands = (await editor.request("goalwright/prompt/list", params))["commands"]
        assert [one["name"] for one in commands] == ["mcp__mine__picture", "mcp__mine__review"]
        assert (await other.request("goalwright/prompt/list", {}))["commands"] == []

        await editor.close()
        await until(lambda: not lent(door), "the end of the server")
        (again,) = [one for one in door.bench.core.open_sessions if one.session_id == session_id]
        assert not again.policy.tools.keys() - door.bench.core._services.tools.keys()
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file


async def test_passed_servers_are_replaced_and_keep_to_their_names(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    own = {"command": sys.executable, "args": [mcp_server.__file__], "disabled": True}
    (tmp_path / "home" / "config.json").write_text(json.dumps({"mcp_servers": {"own": own}}))
    async with served("done", "done", at=tmp_path) as door:
        client = await door.client()
        session_id = await new_session(client)
        broken = {"name": "broken", "command": "no-such-program-here"}
        await lend(client, session_id, given("own"), given("mine"), broken, {"name": "web", "url": "ftp://x"})
        await client.answer(prompt(client, session_id))
        assert offered(door) == {"mine"}
        said = " ".join(event["text"] for event in client.events() if event["event"] == "notice")
        assert "MCP server own is not used, because config.json has a server of this name" in said
        assert "broken does not work: the program no-such-program-here is not found" in said
        assert "web does not work: it needs a command, or a url" in said
        for enabled, running in ((False, []), (True, ["mine"])):
            await client.request("goalwright/mcp/set", {"name": "mine", "enabled": enabled})
            door.bench.models.then("done")
            await client.answer(prompt(client, session_id))
            assert (offered(door), lent(door)) == (set(running), running)
        await lend(client, session_id)
        assert lent(door) == []
        await client.answer(prompt(client, session_id))
        assert offered(door) == set()
        assert "name" in str(
            await client.refused("goalwright/mcp/session", {"sessionId": "x", "servers": [{}]})
        )


async def test_nothing_starts_in_a_folder_that_is_not_trusted(tmp_path: Path) -> None:
    async with served("done", at=tmp_path) as door:
        door.bench.core.configuration.trusted.remove(door.bench.workspace)
        client = await door.client()
        session_id = await new_session(client)
        await lend(client, session_id, given())
        await client.answer(prompt(client, session_id))
        assert lent(door) == []
        said = " ".join(event["text"] for event in client.events() if event["event"] == "notice")
        assert "editor's MCP servers are not used, because the folder is not trusted" in said
