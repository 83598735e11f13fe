"""A client that comes back finds what it left: the question of a stopped daemon, the output of a command at work."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.provider.choose import ModelChoice
from tests.support.drivers.bridge import Raw, served
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call

WRITE = Call("write", {"file_path": "a.txt", "content": "hello"})


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    yield path
    shutil.rmtree(path)


async def left_waiting(folder: Path) -> str:
    """A session whose daemon was stopped while it waited for an answer."""
    async with served(WRITE, at=folder) as door:
        client = await door.client()
        created = await client.request("goalwright/session/new", {})
        session_id: str = created["session"]["trace"]["traceId"]
        await client.request("goalwright/session/load", {"sessionId": session_id})
        client.ask("goalwright/session/prompt", {"sessionId": session_id, "text": "go", "promptId": "p1"})
        await client.event("permission_asked")
    return session_id


async def come_back(client: Raw, session_id: str, how: str) -> None:
    params: dict[str, Any] = {"sessionId": session_id}
    await client.request(
        f"goalwright/session/{how}", params | ({"afterEventId": 3} if how == "events" else {})
    )


@pytest.mark.parametrize("how", ["load", "events"])
async def test_pending_request_is_asked_again_and_the_turn_resumes(folder: Path, how: str) -> None:
    session_id = await left_waiting(folder)
    async with served("All done.", at=folder) as door:
        client = await door.client()
        assert (await client.request("goalwright/permission/list", {}))["requests"] == []
        await come_back(client, session_id, how)
        await come_back(client, session_id, how)  # and again, as a second window would
        request = (await client.event("permission_asked"))["request"]
        listed = await client.request("goalwright/permission/list", {"sessionId": session_id})
        assert [entry["requestId"] for entry in listed["requests"]] == [request["requestId"]]
        answer = {"requestId": request["requestId"], "reply": "once"}
        assert (await client.request("goalwright/permission/reply", answer))["accepted"]
        assert (await client.event("turn_ended"))["promptId"] == "p1"
        assert (door.bench.workspace / "a.txt").read_text() == "hello"


async def test_client_without_a_key_does_not_resume_with_the_demo(folder: Path) -> None:
    async def demo(env: dict[str, str], configured: str | None) -> ModelChoice:
        return ModelChoice("demo/scripted", True, "No key.")

    session_id = await left_waiting(folder)
    async with served("All done.", at=folder, chooser=demo) as door:
        client = await door.client()
        await come_back(client, session_id, "load")
        session = door.bench.core.live(session_id)
        assert session is not None
        assert session.status == "waiting"
        assert not session.running
        # Somebody with a key comes, too.
        session.policy.use(default_model="fake/model")
        assert session.resume()
        await until(lambda: door.bench.core.permissions.pending() != [])
        await door.bench.answer()
        await client.event("turn_ended")


def command(line: str, *, background: bool = False) -> Call:
    return Call("bash", {"command": line, "background": background})


async def test_silent_job_is_listed_as_running() -> None:
    silent = command("until [ -e go ]; do sleep 0.01; done", background=True)
    async with served(silent, "Started.") as door:
        client = await door.client(settings={"permission": {"*": "allow"}})
        created = await client.request("goalwright/session/new", {})
        loading = {"sessionId": created["session"]["trace"]["traceId"]}
        await client.request("goalwright/session/load", loading)
        await client.request("goalwright/session/prompt", {**loading, "text": "go"})
        loaded = await client.request("goalwright/session/load", loading)
        assert loaded["underWay"] == [{"toolCallId": "call_1", "output": ""}]
        (door.bench.workspace / "go").touch()
        await client.event("notice", code="job_ended", exitCode=0)
        assert (await client.request("goalwright/session/load", loading))["underWay"] == []


async def test_loading_a_session_returns_output_of_running_commands() -> None:
    wait = "until [ -e go ]; do sleep 0.01; done"
    job, slow = command(f"echo from job; {wait}", background=True), command(f"echo tick; {wait}; echo more")
    async with served(job, slow, "All done.") as door:
        first = await door.client(settings={"permission": {"*": "allow"}})
        created = await first.request("goalwright/session/new", {})
        loading = {"sessionId": created["session"]["trace"]["traceId"]}
        await first.request("goalwright/session/load", loading)
        first.ask("goalwright/session/prompt", {**loading, "text": "go"})
        written = {"call_1": "from job\n", "call_2": "tick\n"}
        heard: dict[str, str] = {}
        while heard != written:
            message = await first.receive()
            if message.get("method") == "goalwright/session/delta":
                delta = message["params"]["delta"]
                if delta["kind"] == "tool_output":
                    heard[delta["toolCallId"]] = heard.get(delta["toolCallId"], "") + delta["text"]

        second = await door.client("other window")
        loaded = await second.request("goalwright/session/load", loading)
        assert {one["toolCallId"]: one["output"] for one in loaded["underWay"]} == written
        (door.bench.workspace / "go").touch()
        await second.event("turn_ended")
        await second.event("notice", code="job_ended", exitCode=0)
        assert (await second.request("goalwright/session/load", loading))["underWay"] == []
