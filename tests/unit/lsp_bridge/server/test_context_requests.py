"""The model's next request, compaction and hand-over, over the real wire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from daemon.provider.model_calls import ModelRequest
from lsp_bridge.protocol.handshake import ErrorCode
from tests.support.drivers.bridge import Door, Raw, served
from tests.support.fakes.models import Call, Hold, Step

ALLOW = {"permission": {"*": "allow"}}
RULES = "Always write tests for the cart."
SUMMARY = json.dumps(
    {
        "current_work": "the cart",
        "requests_and_rulings": ["make the cart right"],
        "decisions": ["round half up: the law"],
        "findings": [],
        "files_changed": [],
        "failed_attempts": [],
        "pending_actions": ["coupons"],
        "key_paths": {"cart": "cart.py"},
    }
)


def goal(**arguments: Any) -> Call:
    return Call("goal", arguments)


def read(path: str = "a.py") -> Call:
    return Call("read", {"file_path": path})


async def begun(door: Door, **settings: Any) -> tuple[Raw, dict[str, Any]]:
    """A client with a new session it listens to, and the params that name it."""
    (door.bench.workspace / "AGENTS.md").write_text(RULES)
    (door.bench.workspace / "a.py").write_text("x = 1\n" * 200)
    client = await door.client(settings={**ALLOW, **settings})
    result = await client.request("goalwright/session/new", {})
    params = {"sessionId": result["session"]["trace"]["traceId"]}
    await client.request("goalwright/session/load", params)
    return client, params


async def prompt(client: Raw, params: dict[str, Any], text: str = "go") -> dict[str, Any]:
    return await client.request("goalwright/session/prompt", {**params, "text": text})


def texts(content: Sequence[dict[str, Any]]) -> str:
    return "\n".join(str(part.get("text") or part.get("content") or part.get("input")) for part in content)


def same_request(shown: dict[str, Any], sent: ModelRequest) -> None:
    assert list(shown["system"]) == [block.text for block in sent.system]
    assert [tool["name"] for tool in shown["tools"]] == [tool.name for tool in sent.tools]
    assert [tool["inputSchema"] for tool in shown["tools"]] == [tool.schema for tool in sent.tools]
    assert [(m["role"], m["content"]) for m in shown["messages"]] == [
        (m.role, [part.wire() for part in m.content]) for m in sent.messages
    ]
    assert shown["tail"] == sent.tail


@pytest.mark.parametrize("placement", ["tail", "system", "on_demand"])
async def test_context_request_returns_what_the_model_receives(placement: str) -> None:
    hold = Hold()
    steps: tuple[Step, ...] = (
        [goal(add=["Cart", "Docs"], focus="1"), read()],
        goal(done="the cart is right", focus="2"),
        [hold, "Done."],
    )
    async with served(*steps) as door:
        client, params = await begun(door, plan_placement=placement)
        running = client.ask("goalwright/session/prompt", {**params, "text": "go"})
        await hold.reached.wait()
        shown = await client.request("goalwright/session/context", params)
        same_request(shown, door.bench.models.requests[-1])
        assert any(RULES in text for text in shown["system"])
        assert shown["tokens"] == shown["meter"]["contextTokens"] > 0
        hold.go.set()
        await client.answer(running)


async def test_context_shares_by_layer_and_goal_add_up() -> None:
    steps: tuple[Step, ...] = (
        [goal(add=["Cart", "Docs"], focus="1")],
        [read()],
        goal(done="the cart is right", focus="2"),
        [read()],
        goal(abandon="nobody reads it"),
        "Done.",
    )
    async with served(*steps) as door:
        client, params = await begun(door)
        await prompt(client, params)
        shown = await client.request("goalwright/session/context", params)
        parts = {(part["layer"], part["name"]): part["tokens"] for part in shown["parts"]}
        for key in (
            ("system", "agent"),
            ("system", "environment"),
            ("tools", f"{len(shown['tools'])} tools"),
            ("messages", "1 Cart"),
            ("messages", "Docs"),
            ("messages", "no goal"),
            ("plan", "plan"),
        ):
            assert parts[key] > 0, parts
        assert abs(sum(parts.values()) - shown["tokens"]) <= len(parts)
        kinds = {m["kind"]: texts(m["content"]) for m in shown["messages"] if m["kind"] == "goal_summary"}
        assert "nobody reads it" in kinds["goal_summary"]
        assert "x = 1" not in json.dumps(shown["messages"])
        loaded = await client.request("goalwright/session/load", params)
        assert loaded["meter"] == shown["meter"]


async def test_context_names_each_instruction_file_with_its_tokens() -> None:
    async with served([read()], [read()], "Done.") as door:
        client, params = await begun(door)
        rule = door.bench.workspace / ".cursor" / "rules" / "py.mdc"
        rule.parent.mkdir(parents=True)
        rule.write_text("---\nglobs: *.py\n---\nType everything, and test the cart well.")
        await prompt(client, params)
        shown = await client.request("goalwright/session/context", params)
        parts = {part["name"]: part["tokens"] for part in shown["parts"]}
        assert parts[f"instructions {door.bench.workspace / 'AGENTS.md'}"] > 0
        assert 10 < parts["instructions .cursor/rules/py.mdc"] < 60
        assert abs(sum(parts.values()) - shown["tokens"]) <= len(parts)


async def test_the_context_of_an_empty_session_has_no_messages() -> None:
    async with served() as door:
        client, params = await begun(door)
        shown = await client.request("goalwright/session/context", params)
        assert (shown["messages"], shown["tail"]) == ([], "")
        assert shown["model"] == "fake/model"
        error = await client.refused("goalwright/session/context", {"sessionId": "nonsense"})
        assert error.code == ErrorCode.UNKNOWN_SESSION


LONG: tuple[Step, ...] = (*([read()] for _ in range(8)), "Done.")


async def test_compact_request_summarizes_and_the_session_continues() -> None:
    async with served(*LONG, SUMMARY, "And done.") as door:
        client, params = await begun(door)
        await prompt(client, params, "make the cart right")
        done = await client.request("goalwright/session/compact", {**params, "instructions": "keep the SQL"})
        assert done["after"] < done["before"], done
        assert "keep the SQL" in str(door.bench.models.requests[-1].messages[-1].content)
        shown = await client.request("goalwright/session/context", params)
        assert [m["kind"] for m in shown["messages"][:3]] == ["compaction"] * 3
        assert "make the cart right" in texts(shown["messages"][2]["content"])
        assert any((p["layer"], p["name"]) == ("messages", "compaction") for p in shown["parts"])
        assert (await prompt(client, params, "more"))["stopReason"] == "end_turn"


async def test_user_plan_change_before_compaction_is_noted_after_it() -> None:
    async with served([goal(add=["Cart"])], *LONG, SUMMARY, "Seen.") as door:
        client, params = await begun(door)
        await prompt(client, params)
        goal_id = (await client.request("goalwright/session/load", params))["goalTree"]["goals"][0]["id"]
        await client.request("goalwright/goal/rename", {**params, "goalId": goal_id, "description": "Basket"})
        await client.request("goalwright/session/compact", params)
        await prompt(client, params, "more")
        assert 'renamed the goal "Cart" to "Basket"' in str(
            door.bench.models.requests[-1].messages[-1].content
        )


async def test_compact_request_without_history_asks_no_model() -> None:
    async with served("Hello.") as door:
        client, params = await begun(door)
        await prompt(client, params)
        done = await client.request("goalwright/session/compact", params)
        assert done["after"] == done["before"]
        assert done["detail"]


async def test_compact_and_hand_over_are_refused_during_a_turn() -> None:
    hold = Hold()
    async with served([hold, "Done."]) as door:
        client, params = await begun(door)
        running = client.ask("goalwright/session/prompt", {**params, "text": "go"})
        await hold.reached.wait()
        for method, more in (("compact", {}), ("handover", {"agent": "execute"})):
            error = await client.refused(f"goalwright/session/{method}", {**params, **more})
            assert (error.code, "Cancel the turn" in str(error)) == (ErrorCode.BUSY, True)
        hold.go.set()
        await client.answer(running)


async def test_canceled_compaction_changes_nothing_and_reports_it() -> None:
    hold = Hold()
    async with served(*LONG, [hold, SUMMARY]) as door:
        client, params = await begun(door)
        await prompt(client, params)
        before = (await client.request("goalwright/session/context", params))["messages"]
        compacting = client.ask("goalwright/session/compact", params)
        await hold.reached.wait()
        assert (await client.request("goalwright/session/load", params))["compacting"] is True
        assert (await client.request("goalwright/session/cancel", params))["canceled"] is True
        done = await client.answer(compacting)
        assert (await client.request("goalwright/session/load", params))["compacting"] is False
        assert done["before"] == done["after"]
        assert "Canceled" in done["detail"]
        assert (await client.request("goalwright/session/context", params))["messages"] == before


async def test_with_rules_that_cannot_be_read_the_model_is_not_asked() -> None:
    async with served("Hello.") as door:
        client, params = await begun(door)
        await prompt(client, params)
        folder = door.bench.workspace / ".goalwright"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("{")
        error = await client.refused("goalwright/session/compact", params)
        assert error.code == ErrorCode.CONFIG_BROKEN


async def test_work_is_handed_over_to_a_session_of_the_other_agent() -> None:
    steps: tuple[Step, ...] = (
        [goal(add=["Design the cart"], focus="1")],
        "Designed: see cart.md.",
        "Carried out.",
    )
    async with served(*steps) as door:
        client, params = await begun(door)
        await prompt(client, params, "design a cart that rounds half up")
        result = await client.request("goalwright/session/handover", {**params, "agent": "execute"})
        trace = result["session"]["trace"]
        assert trace["agent"] == "execute"
        assert trace["title"] == "execute: design a cart that rounds half up"
        loaded = await client.request("goalwright/session/load", {"sessionId": trace["traceId"]})
        (message,) = loaded["messages"]
        said = texts(message["content"])
        assert message["role"] == "user"
        assert "<init_to_execute_context>" in said
        assert "design a cart that rounds half up" in said
        assert "Designed: see cart.md." in said
        assert "Design the cart" in said
        assert loaded["goalTree"]["mission"] == "design a cart that rounds half up"
        assert loaded["goalTree"]["goals"] == []
        await prompt(client, {"sessionId": trace["traceId"]}, "carry it out")
        assert "Designed: see cart.md." in str(door.bench.models.requests[-1].messages[0].content)


async def test_empty_or_imported_session_is_not_handed_over() -> None:
    async with served("Hello.") as door:
        client, params = await begun(door)
        error = await client.refused("goalwright/session/handover", {**params, "agent": "init"})
        assert (error.code, "empty" in str(error)) == (ErrorCode.INVALID_PARAMS, True)
        await prompt(client, params)
        session = door.bench.core.live(params["sessionId"])
        assert session is not None
        session.record.foreign = True
        error = await client.refused("goalwright/session/handover", {**params, "agent": "init"})
        assert (error.code, "came with the folder" in str(error)) == (ErrorCode.INVALID_PARAMS, True)
        wrong = await client.refused("goalwright/session/handover", {**params, "agent": "build"})
        assert wrong.code == ErrorCode.INVALID_PARAMS
