"""The file history over the real wire."""

from __future__ import annotations

from typing import Any

from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.bridge import Door, Raw, served
from tests.support.fakes.models import Call, Hold

ALLOW = {"permission": {"*": "allow"}}
LINES = "".join(f"line {n}\n" for n in range(1, 11))
STEPS = (
    Call("read", {"file_path": "a.py"}),
    Call("edit", {"file_path": "a.py", "old_string": "line 5", "new_string": "five"}),
    Call("write", {"file_path": "b.txt", "content": "new\n"}),
    "Done.",
)


async def worked(door: Door) -> tuple[Raw, str]:
    """A client whose session has made these steps."""
    (door.bench.workspace / "a.py").write_text(LINES)
    client = await door.client(settings=ALLOW)
    result = await client.request("goalwright/session/new", {})
    session_id: str = result["session"]["trace"]["traceId"]
    await client.request("goalwright/session/load", {"sessionId": session_id})
    await client.request("goalwright/session/prompt", {"sessionId": session_id, "text": "go"})
    return client, session_id


async def test_changes_are_listed_undone_and_redone() -> None:
    async with served(*STEPS) as door:
        client, session_id = await worked(door)
        params: dict[str, Any] = {"sessionId": session_id}
        listed = await client.request("goalwright/history/list", params)
        edit, write = listed["changes"]
        assert (edit["tool"], edit["state"], edit["changeId"]) == ("edit", "applied", edit["toolCallId"])
        assert edit["files"] == [
            {"path": "a.py", "kind": "update", "added": 1, "removed": 1, "undoable": True}
        ]
        assert edit["messageId"].startswith("msg_")
        prompt = next(one for one in door.bench.core.open_sessions).state.messages[0]
        assert [(one["promptId"], one["prompt"]) for one in (edit, write)] == [(prompt.message_id, "go")] * 2
        assert (listed["undo"], listed["redo"]) == (write["changeId"], None)
        would = await client.request("goalwright/history/undo", {**params, "dryRun": True})
        assert would["files"][0]["kind"] == "delete"
        assert (door.bench.workspace / "b.txt").exists()
        await client.request("goalwright/history/undo", params)
        assert not (door.bench.workspace / "b.txt").exists()
        event = await client.event("files_restored")
        assert (event["action"], event["target"], event["by"]) == ("undo", "write of b.txt", "test")
        await client.request("goalwright/history/undo", {**params, "changeId": edit["changeId"]})
        assert (door.bench.workspace / "a.py").read_text() == LINES
        listed = await client.request("goalwright/history/list", params)
        assert [change["state"] for change in listed["changes"]] == ["undone", "undone"]
        assert (listed["undo"], listed["redo"]) == (None, edit["changeId"])
        await client.request("goalwright/history/redo", params)
        assert "five" in (door.bench.workspace / "a.py").read_text()


async def test_everything_since_a_message_is_taken_back() -> None:
    async with served(*STEPS) as door:
        client, session_id = await worked(door)
        messages = await client.request(
            "goalwright/session/messages", {"sessionId": session_id, "before": 100}
        )
        first = messages["messages"][0]["messageId"]
        since = {"sessionId": session_id, "messageId": first}
        looked = await client.request("goalwright/history/restore", {**since, "dryRun": True, "texts": True})
        assert dict(zip((file["path"] for file in looked["files"]), looked["texts"], strict=True)) == {
            "b.txt": None,
            "a.py": LINES,
        }
        assert "five" in (door.bench.workspace / "a.py").read_text()
        outcome = await client.request("goalwright/history/restore", since)
        assert outcome["texts"] == []
        assert [file["path"] for file in outcome["files"]] == ["b.txt", "a.py"]
        assert (door.bench.workspace / "a.py").read_text() == LINES


async def test_what_cannot_be_done_is_said_in_words() -> None:
    hold = Hold()
    async with served(*STEPS, [hold, "Never said."]) as door:
        client, session_id = await worked(door)
        params: dict[str, Any] = {"sessionId": session_id}
        path = door.bench.workspace / "a.py"
        listed = await client.request("goalwright/history/list", params)
        edit = listed["changes"][0]["changeId"]
        path.write_text(path.read_text().replace("five", "cinq"))
        conflict = await client.refused("goalwright/history/undo", {**params, "changeId": edit})
        assert (conflict.code, "a.py:5" in str(conflict)) == (ErrorCode.HISTORY_CONFLICT, True)
        for method, more, code in (
            ("undo", {"changeId": "nonsense"}, ErrorCode.UNKNOWN_REQUEST),
            ("redo", {}, ErrorCode.UNKNOWN_REQUEST),
            ("restore", {}, ErrorCode.INVALID_PARAMS),
            ("restore", {"messageId": "a", "goalId": "b"}, ErrorCode.INVALID_PARAMS),
            ("restore", {"messageId": "nonsense"}, ErrorCode.UNKNOWN_REQUEST),
            ("undo", {"sessionId": "nonsense"}, ErrorCode.UNKNOWN_SESSION),
        ):
            error = await client.refused(f"goalwright/history/{method}", {**params, **more})
            assert error.code == code, error
        running = client.ask("goalwright/session/prompt", {**params, "text": "more"})
        await hold.reached.wait()
        busy = await client.refused("goalwright/history/undo", params)
        assert (busy.code, "Cancel" in str(busy)) == (ErrorCode.BUSY, True)
        await client.request("goalwright/session/cancel", params)
        assert (await client.answer(running))["stopReason"] == "canceled"
