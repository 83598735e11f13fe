"""Changes of the plan by the user, over the real wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.loop.session import Session
from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.bridge import Door, Raw, served
from tests.support.fakes.models import Call, Hold

ALLOW = {"permission": {"*": "allow"}}
LINES = "".join(f"line {n}\n" for n in range(1, 11))


def goal(**arguments: Any) -> Call:
    return Call("goal", arguments)


def edit(old: str, new: str) -> Call:
    return Call("edit", {"file_path": "a.py", "old_string": old, "new_string": new})


READ = Call("read", {"file_path": "a.py"})


class Person:
    """A client with a session, and its plan by display numbers."""

    def __init__(self, door: Door, client: Raw, session_id: str) -> None:
        self.door, self.client, self.session_id = door, client, session_id
        self.plan: dict[str, Any] = {"goalTree": {"goals": []}, "goalNumbers": {}}

    @property
    def session(self) -> Session:
        session = self.door.bench.core.live(self.session_id)
        assert session is not None
        return session

    @property
    def file(self) -> Path:
        return self.door.bench.workspace / "a.py"

    async def load(self) -> dict[str, Any]:
        self.plan = await self.client.request("goalwright/session/load", {"sessionId": self.session_id})
        return self.plan

    def id(self, number: str) -> str:
        return next(i for i, shown in self.plan["goalNumbers"].items() if shown == number)

    def goal(self, goal_id: str) -> dict[str, Any]:
        return next(g for g in self.plan["goalTree"]["goals"] if g["id"] == goal_id)

    @property
    def tree(self) -> dict[str, str]:
        """Descriptions by number."""
        numbers = self.plan["goalNumbers"]
        goals = self.plan["goalTree"]["goals"]
        return {numbers[g["id"]]: g["description"] for g in goals if g["id"] in numbers}

    async def do(self, method: str, **params: Any) -> dict[str, Any]:
        done = await self.client.request(
            f"goalwright/goal/{method}", {"sessionId": self.session_id, **params}
        )
        await self.load()
        assert done["number"] == self.plan["goalNumbers"].get(done["goalId"])
        assert done["currentId"] == self.plan["goalTree"]["currentId"]
        return done

    async def refused(self, method: str, **params: Any) -> tuple[int, str]:
        error = await self.client.refused(
            f"goalwright/goal/{method}", {"sessionId": self.session_id, **params}
        )
        return error.code, str(error)


async def person(door: Door) -> Person:
    (door.bench.workspace / "a.py").write_text(LINES)
    client = await door.client(settings=ALLOW)
    result = await client.request("goalwright/session/new", {})
    found = Person(door, client, result["session"]["trace"]["traceId"])
    await found.load()
    return found


async def prompt(person: Person, text: str = "go") -> None:
    await person.client.request("goalwright/session/prompt", {"sessionId": person.session_id, "text": text})
    await person.load()


async def test_plan_edits_are_applied_and_broadcast() -> None:
    async with served() as door:
        me = await person(door)
        cart = (await me.do("add", description=" Cart\n ", reason="wrong totals"))["goalId"]
        docs = (await me.do("add", description="Docs"))["goalId"]
        await me.do("add", description="Coupons", parentId=cart)
        await me.do("add", description="Rounding", parentId=cart, beforeId=me.id("1.1"))
        assert me.tree == {"1": "Cart", "1.1": "Rounding", "1.2": "Coupons", "2": "Docs"}
        await me.do("move", goalId=docs, parentId=None, beforeId=cart)
        await me.do("rename", goalId=docs, description="Manual")
        await me.do("focus", goalId=me.id("2.1"))
        assert me.tree == {"1": "Manual", "2": "Cart", "2.1": "Rounding", "2.2": "Coupons"}
        assert me.plan["goalTree"]["currentId"] == me.id("2.1")
        assert me.goal(cart)["status"] == "in_progress"
        rounding = me.id("2.1")
        await me.do("done", goalId=rounding, summary="rounds half up")
        assert (me.goal(rounding)["status"], me.goal(rounding)["summary"]) == ("completed", "rounds half up")
        await me.do("abandon", goalId=docs, reason="nobody reads it")
        assert "Manual" not in me.tree.values()
        seen = [await me.client.event(kind) for kind in ("goal_added", "goal_moved", "goal_updated")]
        assert {event["by"] for event in seen} == {"test"}
        removed = await me.client.event("goal_removed")
        assert (removed["goalId"], removed["reason"]) == (docs, "nobody reads it")
        assert removed["description"] == "Manual"


async def test_plan_edits_reach_the_model_with_the_next_prompt() -> None:
    async with served(goal(add=["Cart", "Docs"], focus="1"), "Planned.", "Seen.") as door:
        me = await person(door)
        await prompt(me)
        await me.do("rename", goalId=me.id("2"), description="Manual")
        await me.do("focus", goalId=me.id("2"))
        await prompt(me, "go on")
        said = str(door.bench.models.requests[-1].messages[-1].content)
        assert 'renamed the goal "Docs" to "Manual"' in said
        assert 'put the focus on "Manual"' in said
        assert me.session.state.notes == ()


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("add", {"description": "  "}, "needs a description"),
        ("add", {"description": "x" * 501}, "too long"),
        ("add", {"description": "x", "parentId": "99"}, "no goal with the id '99'"),
        ("add", {"description": "x", "beforeId": "99"}, "no goal with the id '99'"),
        ("rename", {"goalId": "1", "description": ""}, "needs a description"),
        ("rename", {"goalId": "3", "description": "x"}, "completed"),
        ("rename", {"goalId": "nonsense", "description": "x"}, "Ids by number: 1 is 1"),
        ("move", {"goalId": "1", "parentId": "2"}, "choose another parent"),
        ("move", {"goalId": "1", "parentId": "1"}, "choose another parent"),
        ("move", {"goalId": "2", "beforeId": "99"}, "no goal with the id '99'"),
        ("focus", {"goalId": "3"}, "completed"),
        ("focus", {"goalId": "\ud83d"}, "no goal with the id"),
        ("done", {"goalId": "1", "summary": "x"}, "open goals"),
        ("done", {"goalId": "2", "summary": " "}, "needs a summary"),
        ("done", {"goalId": "2", "summary": "x" * 8001}, "8001 characters"),
        ("abandon", {"goalId": "2", "reason": ""}, "needs a summary"),
        ("abandon", {"goalId": "99", "reason": "x", "revertFiles": True}, "no goal with the id '99'"),
        ("abandon", {"goalId": "3", "reason": "x"}, "completed"),
    ],
)
async def test_invalid_plan_request_is_refused_and_changes_nothing(
    method: str, params: dict[str, Any], words: str
) -> None:
    async with served() as door:
        me = await person(door)
        await me.do("add", description="one")
        await me.do("add", description="two", parentId="1")
        await me.do("add", description="three", parentId="1")
        await me.do("done", goalId="3", summary="ok")
        before, last = me.session.state.plan.snapshot(), me.session.state.trace.last_event_id
        code, said = await me.refused(method, **params)
        assert (code, words in said) == (ErrorCode.INVALID_PARAMS, True), said
        assert me.session.state.plan.snapshot() == before
        assert me.session.state.trace.last_event_id == last
        session = await me.client.refused(f"goalwright/goal/{method}", {**params, "sessionId": "nonsense"})
        assert session.code == ErrorCode.UNKNOWN_SESSION


async def test_lone_surrogates_in_goals_are_harmless() -> None:
    async with served() as door:
        me = await person(door)
        await me.do("add", description="x \ud83d y", reason="\ud83d")
        await me.do("rename", goalId="1", description="\ude00 z")
        await me.do("abandon", goalId="1", reason="\ud83d\ude00 \ud83d")
        assert me.tree == {}


async def test_the_plan_is_changed_while_a_turn_runs_and_files_are_not() -> None:
    hold = Hold()
    async with served(
        goal(add=["Cart", "Docs"], focus="1"), READ, edit("line 5\n", "five\n"), [hold, "Done."]
    ) as door:
        me = await person(door)
        running = me.client.ask("goalwright/session/prompt", {"sessionId": me.session_id, "text": "go"})
        await hold.reached.wait()
        await me.load()
        await me.do("add", description="Coupons", parentId=me.id("1"))
        cart = me.id("1")
        code, said = await me.refused("abandon", goalId=cart, reason="no", revertFiles=True)
        assert (code, "Cancel the turn" in said, "revertFiles" in said) == (ErrorCode.BUSY, True, True)
        assert me.session.state.plan.goals[cart].status == "in_progress"
        await me.do("abandon", goalId=cart, reason="another way")
        assert me.goal(cart)["status"] == "abandoned"
        hold.go.set()
        assert (await me.client.answer(running))["stopReason"] == "end_turn"
        assert "five" in me.file.read_text()


async def test_abandoning_a_goal_reverts_only_its_own_changes() -> None:
    steps = (
        goal(add=["Cart"], focus="1"),
        # One message, two goals: each change belongs to the goal that had the focus when it was made.
        [
            READ,
            edit("line 2\n", "two\n"),
            goal(add=["Rounding", "Docs"]),
            goal(focus="1.1"),
            edit("line 5\n", "five\n"),
        ],
        [goal(done="ok", focus="1.2"), edit("line 8\n", "eight\n")],
        "Done.",
    )
    async with served(*steps) as door:
        me = await person(door)
        await prompt(me)
        all_three = me.file.read_text()
        docs, reason = me.id("1.2"), "nobody reads it"
        me.file.write_text(all_three.replace("line 1\n", "mine\n"))
        would = await me.do("abandon", goalId=docs, reason="", dryRun=True)
        assert "-eight\n+line 8" in would["files"][0]["diff"]
        assert me.goal(docs)["status"] == "in_progress"
        done = await me.do("abandon", goalId=docs, reason=reason, revertFiles=True)
        assert [file["path"] for file in done["files"]] == ["a.py"]
        assert (me.goal(docs)["status"], me.goal(docs)["summary"]) == ("abandoned", reason)
        assert me.file.read_text() == all_three.replace("line 1\n", "mine\n").replace("eight\n", "line 8\n")
        assert [note.split(".")[0] for note in me.session.state.notes] == [
            "the user reverted 1 change for the goal 1",
            'the user abandoned the goal "Docs": nobody reads it',
        ]


async def test_goal_without_file_changes_is_abandoned_with_revert() -> None:
    async with served(goal(add=["Cart"], focus="1"), "Done.") as door:
        me = await person(door)
        await prompt(me)
        done = await me.do("abandon", goalId=me.id("1"), reason="no", revertFiles=True)
        assert (done["files"], me.tree) == ([], {})


async def test_revert_conflict_leaves_files_and_plan_unchanged() -> None:
    async with served(goal(add=["Cart"], focus="1"), READ, edit("line 5\n", "five\n"), "Done.") as door:
        me = await person(door)
        await prompt(me)
        me.file.write_text(me.file.read_text().replace("five", "cinq"))
        code, said = await me.refused("abandon", goalId=me.id("1"), reason="no", revertFiles=True)
        assert (code, "a.py:5" in said, "still open" in said) == (ErrorCode.HISTORY_CONFLICT, True, True)
        assert "cinq" in me.file.read_text()
        await me.load()
        assert me.goal(me.id("1"))["status"] == "in_progress"
        await me.do("abandon", goalId=me.id("1"), reason="no")
        assert "cinq" in me.file.read_text()


async def test_imported_session_allows_plan_edits_but_no_file_reverts() -> None:
    async with served(goal(add=["Cart"], focus="1"), READ, edit("line 5\n", "five\n"), "Done.") as door:
        me = await person(door)
        await prompt(me)
        me.session.record.foreign = True
        code, said = await me.refused("abandon", goalId=me.id("1"), reason="no", revertFiles=True)
        assert (code, "not started by you" in said) == (ErrorCode.HISTORY_CONFLICT, True)
        await me.do("abandon", goalId=me.id("1"), reason="no")
        assert me.tree == {}


async def test_budget_limits_are_set_and_invalid_ones_refused() -> None:
    async with served() as door:
        me = await person(door)
        params = {"sessionId": me.session_id}
        for wrong in (
            {},
            {"bogus": 1},
            {"sessionUsd": -1},
            {"goalTokens": -5},
            {"sessionUsd": float("nan")},
            {"goalUsd": float("inf")},
        ):
            error = await me.client.refused("goalwright/session/set", {**params, "budget": wrong})
            assert error.code == ErrorCode.INVALID_PARAMS
            assert "null" in str(error).lower()
        assert me.session.state.budget is None
        await me.client.request(
            "goalwright/session/set", {**params, "budget": {"sessionUsd": 2.5, "goalTokens": 0}}
        )
        budget = me.session.state.budget
        assert budget is not None
        assert (budget.session_usd, budget.session_tokens, budget.goal_tokens) == (2.5, None, 0)
        await me.client.request("goalwright/session/set", {**params, "title": "other"})
        assert me.session.state.budget == budget
