"""A fork on the wire: the provider gets the same bytes up to the message, so its cache has them."""

from __future__ import annotations

import json

from tests.support.drivers.forker import shared_forker
from tests.support.drivers.goalwright import installed
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer


async def test_fork_from_terminal_resends_the_same_request_prefix() -> None:
    replies = [
        Reply(
            tool_calls=(
                Call("goal", {"add": "Look, Change", "focus": "1"}),
                Call("read", {"file_path": "a.txt"}),
            )
        ),
        Reply(text="It says one."),
        Reply(text="Two it is."),
        Reply(text="Three it is."),
    ]
    async with (
        ModelServer(replies) as server,
        installed(url=server.url, forker=shared_forker()) as goalwright,
    ):
        (goalwright.workspace / "a.txt").write_text("one\n")
        (await goalwright.run("What does a.txt say?", "--yes")).check()
        (await goalwright.run("Make it two.", "--yes", "--continue")).check()
        (session_id,) = [path.name for path in (goalwright.workspace / ".trace").glob("2*")]
        prompts = [
            message["message_id"]
            for message in map(
                json.loads,
                (path.read_text() for path in goalwright.workspace.glob(".trace/2*/messages/*.json")),
            )
            if message["role"] == "user"
        ]
        await goalwright.stop()
        done = await goalwright.run("Make it three.", "--yes", "--fork", f"{session_id}:{max(prompts)}")
        done.check()
        assert "Three it is." in done.stdout
        refused = await goalwright.run(
            "Make it four.", "--yes", "--fork", f"{session_id}:msg_000099_00000000"
        )
        assert refused.code == 1
        assert "This session has no user message msg_000099_00000000 to fork from." in refused.stderr
        listed = json.loads((await goalwright.command("sessions", "--json")).stdout)["sessions"]
    before, after = (request.json for request in (server.requests[2], server.requests[3]))
    assert json.dumps(after["system"]) == json.dumps(before["system"])
    assert json.dumps(after["tools"]) == json.dumps(before["tools"])
    assert len(after["messages"]) == len(before["messages"]) > 3
    assert json.dumps(after["messages"][:-1]) == json.dumps(before["messages"][:-1])
    assert "Make it three." in json.dumps(after["messages"][-1])
    assert "Make it two." not in json.dumps(after["messages"])
    assert [info["trace"]["title"] for info in listed] == [
        "Fork: What does a.txt say?",
        "What does a.txt say?",
    ]
