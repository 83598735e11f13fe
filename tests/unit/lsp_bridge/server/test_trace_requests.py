"""The messages behind an edge of the graph, over the real door: live and stored, of goals, of branches, by pages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.bridge import Raw, served
from tests.support.fakes.models import Call, Step
from tests.support.scenarios.branches import BranchModels, explore, repository

READ = Call("read", {"file_path": "src/a.py"})
EDIT = Call("edit", {"file_path": "src/a.py", "old_string": "a = 1", "new_string": "a = 2"})
PLAN = Call("goal", {"add": ["Look", "Compare"], "focus": "1"})
INNER = Call("goal", {"add": ["Look closely"], "focus": "1.1"})
MAIN: tuple[Step, ...] = (
    PLAN,
    INNER,
    READ,
    Call("goal", {"done": "seen", "focus": "2"}),
    explore("Make it two", "Leave it"),
    "Compared.",
)
SETTINGS: dict[str, Any] = {"test_command": "", "permission": {"edit": "allow"}}
"""No question is asked."""


class Asker:
    """A client with a session that has ended its turn."""

    def __init__(self, client: Raw, session_id: str) -> None:
        self.client, self.session_id = client, session_id

    async def messages(self, **params: Any) -> dict[str, Any]:
        return await self.client.request(
            "goalwright/trace/messages", {"sessionId": self.session_id, **params}
        )


@asynccontextmanager
async def asker() -> AsyncGenerator[Asker]:
    folder = Path(tempfile.mkdtemp(prefix="gw-")).resolve()
    try:
        repository(folder)
        models = BranchModels(MAIN, {"A": (READ, EDIT, "It is two now."), "B": (READ, "It stays.")})
        async with served(settings=SETTINGS, at=folder, models=models) as door:
            client = await door.client()
            created = await client.request("goalwright/session/new", {})
            session_id = created["session"]["trace"]["traceId"]
            done = await client.request(
                "goalwright/session/prompt", {"sessionId": session_id, "text": "try it"}
            )
            assert done["stopReason"] == "end_turn", done
            yield Asker(client, session_id)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def goals(found: dict[str, Any]) -> set[str | None]:
    return {message["goalId"] for message in found["messages"]}


def sequences(found: dict[str, Any]) -> list[int]:
    return [message["sequence"] for message in found["messages"]]


async def test_goal_messages_include_children_only_with_descendants() -> None:
    async with asker() as me:
        everything = await me.messages(limit=500)
        ids = goals(everything)
        assert {"1", "3"} <= ids, "Look and Look closely"
        assert goals(await me.messages(goalId="3")) == {"3"}
        assert goals(await me.messages(goalId="1")) == {"1"}
        assert goals(await me.messages(goalId="1", descendants=True)) == {"1", "3"}
        assert sequences(everything) == sorted(sequences(everything))
        assert everything["hasEarlier"] is False


async def test_message_pages_have_no_gap() -> None:
    async with asker() as me:
        whole = sequences(await me.messages(limit=500))
        found: list[int] = []
        before: int | None = None
        while True:
            page = await me.messages(limit=2, before=before)
            assert 1 <= len(page["messages"]) <= 2
            found = sequences(page) + found
            before = found[0]
            if not page["hasEarlier"]:
                break
        assert found == whole


async def test_ended_branch_is_read_from_the_store() -> None:
    async with asker() as me:
        found = await me.messages(branchId="A", limit=500)
        said = [part.get("text") for message in found["messages"] for part in message["content"]]
        assert "It is two now." in said
        assert {message["branchId"] for message in found["messages"]} == {"A"}
        nobody = await me.messages(branchId="B", goalId=None, before=1)
        assert nobody == {"messages": [], "hasEarlier": False}


async def test_branch_messages_can_exclude_inherited_ones() -> None:
    async with asker() as me:
        loaded = await me.client.request("goalwright/session/load", {"sessionId": me.session_id})
        for name in ("A", "B"):
            whole = await me.messages(branchId=name, limit=500)
            own = await me.messages(branchId=name, inherited=False, limit=500)
            count = loaded["branches"][name]["cumulativeStats"]["messageCount"]
            assert 0 < len(own["messages"]) == count < len(whole["messages"])
            assert own["messages"] == whole["messages"][-count:]
            assert own["hasEarlier"] is False
            found: list[int] = []
            while True:
                before = found[0] if found else None
                page = await me.messages(branchId=name, inherited=False, limit=1, before=before)
                found[:0] = sequences(page)
                if not page["hasEarlier"]:
                    break
            assert found == sequences(own)
            assert await me.messages(branchId=name, withoutGoal=True, limit=500) == own


async def test_unknown_ids_and_limits_are_refused() -> None:
    async with asker() as me:
        method = "goalwright/trace/messages"
        for params, code in (
            ({"sessionId": me.session_id, "goalId": "77"}, ErrorCode.INVALID_PARAMS),
            ({"sessionId": me.session_id, "branchId": "../A"}, ErrorCode.INVALID_PARAMS),
            ({"sessionId": me.session_id, "branchId": "Z"}, ErrorCode.UNKNOWN_SESSION),
            ({"sessionId": "nobody"}, ErrorCode.UNKNOWN_SESSION),
            ({"sessionId": me.session_id, "limit": 0}, ErrorCode.INVALID_PARAMS),
        ):
            error = await me.client.refused(method, params)
            assert error.code == code, (params, error)
            assert len(str(error)) > 20


async def test_exploration_messages_match_the_count_on_its_edge() -> None:
    async with asker() as me:
        loaded = await me.client.request("goalwright/session/load", {"sessionId": me.session_id})
        (explored,) = {branch["exploreStartId"] for branch in loaded["branches"].values()}
        found: list[dict[str, Any]] = []
        before: int | None = None
        while True:
            page = await me.messages(goalId=explored, descendants=True, limit=3, before=before)
            found = page["messages"] + found
            if not page["hasEarlier"]:
                break
            before = found[0]["sequence"]
        ids = [message["messageId"] for message in found]
        assert len(set(ids)) == len(ids)
        assert [message["sequence"] for message in found] == sorted(message["sequence"] for message in found)
        of = {name: [m for m in found if m["branchId"] == name] for name in (None, "A", "B")}
        for branch in loaded["branches"].values():
            assert len(of[branch["id"]]) == branch["cumulativeStats"]["messageCount"], branch["id"]
        goal = next(goal for goal in loaded["goalTree"]["goals"] if goal["id"] == explored)
        assert len(found) == goal["cumulativeStats"]["messageCount"]
        assert of[None] == (await me.messages(goalId=explored))["messages"] == []
