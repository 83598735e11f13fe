"""Requests of clients about branches, over the real wire: real git, real copies, a model that plays each branch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.protocol.handshake import ErrorCode
from lsp_bridge.server.requests.router import REQUESTS
from tests.support.drivers.bridge import Raw, served
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.branches import BranchModels, explore, repository

READ = Call("read", {"file_path": "src/a.py"})
SETTINGS: dict[str, Any] = {"test_command": "", "permission": {"edit": {"*.py": "ask"}}}
"""Edits of the copies ask, because a rule names the files."""
ALLOWED: dict[str, Any] = {**SETTINGS, "permission": {"edit": "allow"}}
MAIN: tuple[Step, ...] = (explore("Make it two", "Make it three"), "Compared.")


def edit(new: str) -> Call:
    return Call("edit", {"file_path": "src/a.py", "old_string": "a = 1", "new_string": new})


class Person:
    """A client with a session that explores."""

    def __init__(self, client: Raw, session_id: str, file: Path) -> None:
        self.client, self.session_id, self.file = client, session_id, file

    def ask(self, method: str, **params: Any) -> int:
        return self.client.ask(f"goalwright/{method}", {"sessionId": self.session_id, **params})

    async def get(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.client.answer(self.ask(method, **params))

    async def refused(self, method: str, **params: Any) -> tuple[int, str]:
        error = await self.client.refused(f"goalwright/{method}", {"sessionId": self.session_id, **params})
        return error.code, str(error)

    async def explored(self) -> None:
        """The prompt, to its end."""
        done = await self.get("session/prompt", text="try it")
        assert done["stopReason"] == "end_turn", done


@asynccontextmanager
async def person(settings: dict[str, Any] = ALLOWED, main: tuple[Step, ...] = MAIN) -> AsyncGenerator[Person]:
    folder = Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    try:
        workspace = repository(folder)
        models = BranchModels(
            main,
            {"A": (READ, edit("a = 2"), "It is two now."), "B": (READ, edit("a = 3"), "It is three now.")},
        )
        async with served(settings=settings, at=folder, models=models) as door:
            client = await door.client()
            created = await client.request("goalwright/session/new", {})
            found = Person(client, created["session"]["trace"]["traceId"], workspace / "src/a.py")
            await found.get("session/load")
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_session_lists_its_branches_and_their_changes() -> None:
    async with person() as me:
        assert (await me.get("explore/list"))["explorations"] == []
        await me.explored()
        loaded = await me.get("session/load")
        assert {name: (b["status"], b["summary"]) for name, b in loaded["branches"].items()} == {
            "A": ("completed", "It is two now."),
            "B": ("completed", "It is three now."),
        }
        assert (loaded["awaitsChoice"], loaded["subagents"], loaded["sealed"]) == ([], {}, "")
        (exploration,) = (await me.get("explore/list"))["explorations"]
        assert [branch["id"] for branch in exploration["branches"]] == ["A", "B"]
        assert (exploration["selectedBranch"], exploration["awaitsChoice"]) == (None, False)
        assert exploration["exploreMergeId"] in {goal["id"] for goal in loaded["goalTree"]["goals"]}
        (file,) = (await me.get("explore/files", branchId="A"))["files"]
        assert (file["path"], file["kind"], file["added"], file["removed"]) == ("src/a.py", "update", 1, 1)
        sides = await me.get("explore/content", branchId="B", path="src/a.py")
        assert sides == {"base": "a = 1\n", "branch": "a = 3\n", "binary": False}
        patch = await me.get("explore/patch", branchId="A")
        assert patch["base64"] is False
        assert "+a = 2" in patch["patch"]
        assert me.file.read_text() == "a = 1\n"


async def test_branch_session_can_be_loaded_but_takes_no_prompt() -> None:
    async with person() as me:
        await me.explored()
        child = f"{me.session_id}:B"
        record = await me.client.request("goalwright/session/load", {"sessionId": child})
        assert record["session"]["trace"]["traceId"] == child
        # What it has of its own, so that a reader sees where it begins.
        trace = record["session"]["trace"]
        given = [m for m in record["messages"] if m["sequence"] <= trace["inherited"]]
        assert (trace["id"], [m["content"][0]["text"] for m in given]) == ("B", ["try it"])
        assert "transcript" in record["sealed"]
        assert record["messages"][-1]["content"][0]["text"] == "It is three now."
        prompt = await me.client.refused("goalwright/session/prompt", {"sessionId": child, "text": "go on"})
        assert prompt.code == ErrorCode.SEALED
        assert "session that started it" in str(prompt)
        compact = await me.client.refused("goalwright/session/compact", {"sessionId": child})
        assert compact.code == ErrorCode.SEALED
        gone = await me.client.refused("goalwright/session/load", {"sessionId": f"{me.session_id}:Z"})
        assert gone.code == ErrorCode.UNKNOWN_SESSION


CHANGES = {method for method, declared in REQUESTS.items() if declared.changes}
MORE: dict[str, dict[str, Any]] = {
    "session/prompt": {"text": "go on"},
    "session/set": {"title": "another"},
    "queue/edit": {"promptId": "x", "text": None},
    "goal/add": {"description": "x"},
    "goal/rename": {"goalId": "1", "description": "x"},
    "goal/move": {"goalId": "1"},
    "goal/focus": {"goalId": "1"},
    "goal/done": {"goalId": "1", "summary": "x"},
    "goal/abandon": {"goalId": "1", "reason": "x"},
    "history/restore": {"goalId": "1"},
    "permission/forget": {"grantIds": []},
    "explore/select": {"choice": ["A"]},
    "explore/remove": {"branchId": "A"},
    "job/kill": {"jobId": "job1"},
    "command/stop": {"toolCallId": "c1"},
}


async def test_branch_session_is_read_only_for_every_request() -> None:
    async with person() as me:
        await me.explored()
        child = f"{me.session_id}:B"
        before = await me.client.request("goalwright/session/load", {"sessionId": child})
        for method in sorted(CHANGES):
            more = MORE.get(method.removeprefix("goalwright/"), {})
            error = await me.client.refused(method, {"sessionId": child, **more})
            assert (method, error.code) == (method, ErrorCode.SEALED)
            assert "session that started it" in str(error)
        after = await me.client.request("goalwright/session/load", {"sessionId": child})
        assert after == before
        await me.client.request("goalwright/history/list", {"sessionId": child})


@pytest.mark.parametrize("method", ["goal/add", "session/set"])
async def test_main_session_still_accepts_changes(method: str) -> None:
    async with person() as me:
        assert await me.get(method, **MORE[method])


async def test_requests_of_two_branches_share_one_inbox_in_any_order() -> None:
    async with person(SETTINGS) as me:
        turn = me.ask("session/prompt", text="try it")
        await me.client.event("branch_started")
        asked: dict[str, str] = {}
        while len(asked) < 2:
            await me.client.receive()
            waiting = [
                event["request"] for event in me.client.events() if event["event"] == "permission_asked"
            ]
            asked = {request["branchId"]: request["requestId"] for request in waiting}
        listed = (await me.get("permission/list"))["requests"]
        assert {(request["traceId"], request["branchId"]) for request in listed} == {
            (me.session_id, "A"),
            (me.session_id, "B"),
        }
        for branch in ("B", "A"):
            params = {"requestId": asked[branch], "reply": "once"}
            assert (await me.client.request("goalwright/permission/reply", params))["accepted"]
            await me.client.event("branch_completed", branchId=branch)
        assert (await me.client.answer(turn))["stopReason"] == "end_turn"
        assert me.file.read_text() == "a = 1\n"


async def test_choice_of_the_user_is_reviewed_and_written() -> None:
    async with person(SETTINGS) as me:
        turn = me.ask("session/prompt", text="try it")
        for _ in range(2):
            await me.client.event("permission_asked")
        answered: set[str] = set()
        while not any(event["event"] == "explore_completed" for event in me.client.events()):
            for event in me.client.events():
                request = event.get("request", {}).get("requestId")
                if event["event"] == "permission_asked" and request not in answered:
                    answered.add(request)
                    me.client.ask("goalwright/permission/reply", {"requestId": request, "reply": "once"})
            await me.client.receive()
        await me.client.answer(turn)
        for reply, applied, text in (("reject", False, "a = 1\n"), ("once", True, "a = 3\n")):
            choice = me.ask("explore/select", choice=["B:src"])
            while not (listed := (await me.get("permission/list"))["requests"]):
                pass
            assert listed[0]["branchId"] is None
            await me.client.request(
                "goalwright/permission/reply", {"requestId": listed[0]["requestId"], "reply": reply}
            )
            assert (await me.client.answer(choice))["applied"] is applied
            assert me.file.read_text() == text
        (exploration,) = (await me.get("explore/list"))["explorations"]
        assert exploration["selectedBranch"].startswith("B")


async def test_invalid_branch_requests_are_refused_with_codes() -> None:
    async with person() as me:
        await me.explored()
        wrong: tuple[tuple[str, dict[str, Any], int, str], ...] = (
            (
                "explore/files",
                {"branchId": "Q"},
                ErrorCode.UNKNOWN_BRANCH,
                "Branches: A (Make it two; completed), B (",
            ),
            ("explore/select", {"choice": ["Q:a"]}, ErrorCode.UNKNOWN_BRANCH, "no branch Q"),
            ("explore/select", {"choice": []}, ErrorCode.INVALID_PARAMS, "Nothing is chosen"),
            ("explore/select", {"choice": [""]}, ErrorCode.INVALID_PARAMS, "Nothing is chosen"),
            (
                "explore/select",
                {"choice": ["a:nowhere"]},
                ErrorCode.HISTORY_CONFLICT,
                "Branch A did not change nowhere",
            ),
            (
                "explore/content",
                {"branchId": "A", "path": "other"},
                ErrorCode.UNKNOWN_BRANCH,
                "did not change other",
            ),
            ("explore/list", {"exploreStartId": "99"}, ErrorCode.UNKNOWN_BRANCH, "99"),
            ("plan/build", {}, ErrorCode.INVALID_PARAMS, "not plan"),
        )
        for method, params, code, words in wrong:
            told = await me.refused(method, **params)
            assert told[0] == code, told
            assert words in told[1]
        me.file.write_text("a = 4\n")
        conflict = await me.refused("explore/select", choice=["A"])
        assert conflict[0] == ErrorCode.HISTORY_CONFLICT
        assert "a = 4" in conflict[1]
        assert me.file.read_text() == "a = 4\n"
        me.file.write_text("a = 1\n")
        await me.get("explore/remove", branchId="A")
        assert (await me.refused("explore/files", branchId="A"))[0] == ErrorCode.UNKNOWN_BRANCH
        assert (await me.get("session/load"))["branches"]["A"]["removed"] is True
        assert await me.get("explore/leave") == {"left": False}


async def test_awaited_choice_is_reported_until_left_to_the_model() -> None:
    async with person({**ALLOWED, "explore_choice": "person"}) as me:
        turn = me.ask("session/prompt", text="try it")
        notice = await me.client.event("notice", code="explore_choice_awaited")
        loaded = await me.get("session/load")
        assert loaded["awaitsChoice"] == [notice["about"]]
        (exploration,) = (await me.get("explore/list"))["explorations"]
        assert exploration["awaitsChoice"] is True
        assert (await me.refused("plan/build"))[0] == ErrorCode.BUSY
        assert await me.get("explore/leave", exploreStartId="99") == {"left": False}
        assert await me.get("explore/leave") == {"left": True}
        assert (await me.client.answer(turn))["stopReason"] == "end_turn"
        assert (await me.get("session/load"))["awaitsChoice"] == []


async def test_agent_list_includes_user_agents_and_file_problems() -> None:
    async with person() as me:
        folder = me.file.parents[2] / "home" / "agents"
        folder.mkdir(parents=True)
        (folder / "review.md").write_text("---\ndescription: Reads only\ntools: [read, grep]\n---\nReview.\n")
        (folder / "Bad Name.md").write_text("x")
        found = await me.get("agent/list")
        agents = {agent["name"]: agent for agent in found["agents"]}
        assert agents["build"]["source"] == "shipped"
        review = agents["review"]
        assert (review["source"], review["description"], review["tools"]) == (
            "user",
            "Reads only",
            ["read", "grep"],
        )
        assert "compaction" not in agents
        assert any("Bad Name" in problem for problem in found["problems"])
