"""``goalwright goals``, ``goal``, ``context``, ``sessions``, ``compact``, ``budget``, against a fake daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.cli.command_line import parse
from lsp_bridge.cli.text import share, tokens
from tests.support.drivers.terminal import Terminal
from tests.support.drivers.waiting import until
from tests.support.fakes.daemon_server import Connection, FakeDaemon


def a_goal(goal_id: str, description: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    stats = {"totalTokens": more.pop("tokens", 0), "totalCost": more.pop("cost", 0)}
    return {
        "id": goal_id,
        "parentId": parent,
        "description": description,
        "status": "pending",
        "cumulativeStats": stats,
        **more,
    }


TREE = {
    "mission": "Make the shop right",
    "currentId": "3",
    "goals": [
        a_goal("1", "Cart", status="in_progress", cost=0.034),
        a_goal("2", "Round\x1b[31m", "1", status="completed", summary="rounds\nhalf up", tokens=1),
        a_goal("3", "Coupons", "1", status="in_progress", tokens=8000),
        a_goal("4", "Redis cache", status="abandoned", summary="too slow"),
        a_goal("5", "Docs"),
    ],
}
NUMBERS = {"1": "1", "2": "1.1", "3": "1.2", "5": "2"}
METER: dict[str, Any] = {
    "contextTokens": 40_000,
    "contextWindow": 200_000,
    "compactAt": 150_000,
    "usage": {"input": 1000, "output": 500, "cacheRead": 10_000, "cacheWrite": 500},
    "cost": 1.25,
    "costKnown": True,
    "budget": {"sessionUsd": 5.0, "sessionTokens": None, "goalUsd": None, "goalTokens": 100_000},
    "withoutGoal": {"input": 900, "output": 100, "cacheRead": 0, "cacheWrite": 0},
    "withoutGoalCost": 0.01,
    "goals": [
        {
            "goalId": "1",
            "usage": {"input": 10_000, "output": 2_000, "cacheRead": 300, "cacheWrite": 0},
            "cost": 0.05,  # with what sub-agents took, which no message of the goal holds
        }
    ],
}


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncGenerator[Terminal]:
    async with FakeDaemon(tmp_path, tmp_path / "home") as fake:
        terminal = Terminal(fake, tmp_path / "home")
        fake.sessions.append({"trace": {"traceId": "s1"}, "foreign": False})
        terminal.answer("goalwright/session/load", {"goalTree": TREE, "goalNumbers": NUMBERS, "meter": METER})
        for action in ("add", "rename", "move", "focus", "done", "abandon"):
            terminal.answer(
                f"goalwright/goal/{action}", {"goalTree": TREE, "goalNumbers": NUMBERS, "files": []}
            )
        yield terminal


PLAN = [
    "Mission: Make the shop right",
    "◐ 1. Cart  (in progress, 12,300 tokens, $0.05)",
    "    ✓ 1.1 Round  (completed, 1 token)",
    "          → rounds half up",
    "    ◐ 1.2 Coupons  (in progress, 8,000 tokens)  ← current",
    "⊘ Redis cache  (abandoned)",
    "      → too slow",
    "○ 2. Docs  (pending)",
    "  Without a goal  (1,000 tokens, $0.01)",
]


async def test_plan_is_printed_with_numbers_states_and_usage(terminal: Terminal) -> None:
    assert await terminal.play("goals") == 0
    assert terminal.lines == PLAN
    terminal.out.truncate(0)
    await terminal.play("goals", "--json")
    assert json.loads(terminal.out.getvalue().lstrip("\0"))["goalNumbers"] == NUMBERS


async def test_empty_plan_shows_usage_without_a_goal(terminal: Terminal) -> None:
    loaded = {"goalTree": {"goals": []}, "goalNumbers": {}, "meter": METER}
    terminal.answer("goalwright/session/load", loaded)
    await terminal.play("goals")
    assert terminal.lines[0].startswith("The plan is empty")
    assert terminal.lines[1:] == ["  Without a goal  (1,000 tokens, $0.01)"]


@pytest.mark.parametrize("name", ["1.2", "#1.2", "1.2.", "g3"])
async def test_goal_is_found_by_number_or_model_name(terminal: Terminal, name: str) -> None:
    assert await terminal.play("goal", "focus", name) == 0
    assert terminal.fake.params("goalwright/goal/focus")[0]["goalId"] == "3"


async def test_lines_fit_a_terminal_and_lose_no_colour_in_the_middle(terminal: Terminal) -> None:
    terminal.console.live, terminal.console.columns, terminal.console.color = True, 24, True
    await terminal.play("goals")
    assert "◐ 1. Cart  (in progress," in terminal.lines
    assert all(line.count("\x1b[") % 2 == 0 for line in terminal.lines)


@pytest.mark.parametrize(
    ("argv", "sent"),
    [
        (["add", "X", "--reason", "why"], {"description": "X", "reason": "why"}),
        (["add", "X", "--under", "1.2."], {"parentId": "3", "beforeId": None}),
        (["add", "X", "--before", "1.2"], {"parentId": "1", "beforeId": "3"}),
        (["rename", "2", "X"], {"goalId": "5", "description": "X"}),
        (["move", "1.1"], {"goalId": "2", "parentId": None, "beforeId": None}),
        (["move", "2", "--before", "1.1"], {"goalId": "5", "parentId": "1", "beforeId": "2"}),
        (["move", "2", "--under", "1"], {"goalId": "5", "parentId": "1", "beforeId": None}),
        (["focus", "2"], {"goalId": "5"}),
        (["done", "1.2", "--summary", "ok"], {"goalId": "3", "summary": "ok"}),
        (
            ["abandon", "1", "--reason", "no", "--revert-files"],
            {"goalId": "1", "reason": "no", "revertFiles": True, "dryRun": False},
        ),
    ],
)
async def test_goal_numbers_are_sent_as_ids_and_the_plan_is_printed(
    terminal: Terminal, argv: list[str], sent: dict[str, Any]
) -> None:
    assert await terminal.play("goal", *argv) == 0
    (params,) = terminal.fake.params(f"goalwright/goal/{argv[0]}")
    assert params == {**params, "sessionId": "s1", **sent}
    assert terminal.lines[-len(PLAN) :] == PLAN


async def test_reverted_files_are_named(terminal: Terminal) -> None:
    files = [
        {"path": "a.py", "kind": "update", "added": 1, "removed": 2, "diff": "--- a\n+++ b\n-x\n+y\n"},
        {"path": "b\n.py", "kind": "delete", "added": 0, "removed": 3, "diff": ""},
    ]
    terminal.answer("goalwright/goal/abandon", {"goalTree": TREE, "goalNumbers": NUMBERS, "files": files})
    await terminal.play("goal", "abandon", "1", "--reason", "no", "--revert-files")
    assert terminal.lines[:3] == ["Reverted:", "  changed  a.py  +1 -2", "  deleted  b␊.py  +0 -3"]
    await terminal.play("goal", "abandon", "1", "--reason", "no", "--dry-run")
    assert {"-x", "+y", "Would be reverted:"} <= set(terminal.lines)


async def test_goal_errors_are_printed_to_stderr_or_as_json(terminal: Terminal) -> None:
    assert await terminal.play("goal", "focus", "7.1") == 1
    assert terminal.told == "There is no goal 7.1. Goals: 1, 1.1, 1.2, 2.\n"
    terminal.refuse("goalwright/goal/focus", -32602, "Goal 1.1 is completed.")
    assert await terminal.play("goal", "focus", "1.1", "--json") == 1
    assert json.loads(terminal.out.getvalue()) == {
        "error": {"code": -32602, "message": "Goal 1.1 is completed."}
    }


@pytest.mark.parametrize(("status", "canceled"), [("idle", [{"sessionId": "s1"}]), ("running", [])])
async def test_ctrl_c_at_replan_cancels_the_turn_it_began(
    terminal: Terminal, status: str, canceled: list[Any]
) -> None:
    async def replan(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    terminal.fake.handlers["goalwright/plan/replan"] = replan
    terminal.answer("goalwright/session/load", {"session": {"status": status}})
    terminal.answer("goalwright/session/cancel", {"canceled": True})
    replanning = asyncio.create_task(terminal.play("plan", "replan"))
    await until(lambda: terminal.fake.params("goalwright/plan/replan"), "the request")
    replanning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replanning
    assert terminal.fake.params("goalwright/session/cancel") == canceled


@pytest.mark.parametrize("output", [[], ["--json"]])
async def test_a_plan_that_is_not_made_has_exit_code_1(terminal: Terminal, output: list[str]) -> None:
    terminal.answer("goalwright/plan/replan", {"stopReason": "error", "detail": "no answer"})
    assert await terminal.play("plan", "replan", *output) == 1


async def test_cancel_says_whether_something_was_running(terminal: Terminal) -> None:
    for canceled in (True, False):
        terminal.answer("goalwright/session/cancel", {"canceled": canceled})
        assert await terminal.play("cancel", "s7") == 0
    assert terminal.lines == ["Canceled.", "Nothing is running in the session."]
    assert terminal.fake.params("goalwright/session/cancel")[0] == {"sessionId": "s7"}
    # Where nothing ran, the session is opened, which takes up a turn that waits and fails for an unknown id.
    assert len(terminal.fake.params("goalwright/session/load")) == 1
    assert len(terminal.fake.params("goalwright/session/cancel")) == 3


async def test_default_session_is_the_newest_own_one(terminal: Terminal) -> None:
    terminal.fake.sessions.insert(0, {"trace": {"traceId": "theirs"}, "foreign": True})
    await terminal.play("goals")
    assert terminal.fake.params("goalwright/session/load")[0]["sessionId"] == "s1"
    terminal.fake.sessions.clear()
    assert await terminal.play("goals") == 1
    assert "There are no sessions in" in terminal.told


CONTEXT: dict[str, Any] = {
    "model": "fake/model",
    "system": ["You are an agent.\nBe\x07 good.", "<environment>"],
    "tools": [{"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}],
    "messages": [
        {
            "role": "user",
            "goalId": None,
            "kind": "message",
            "tokens": 12,
            "content": [
                {"type": "text", "text": "do it"},
                {"type": "file", "name": "x.png", "mediaType": "image/png", "data": "AAAA"},
            ],
        },
        {
            "role": "user",
            "goalId": "4",
            "kind": "goal_summary",
            "tokens": 1,
            "content": [{"type": "text", "text": "Redis was too slow"}],
        },
        {
            "role": "assistant",
            "goalId": "3",
            "kind": "message",
            "tokens": 30,
            "content": [
                {"type": "reasoning", "text": "hmm"},
                {"type": "tool_call", "id": "c", "name": "read", "input": '{"file_path": "a.py"}'},
            ],
        },
        {
            "role": "tool",
            "goalId": "3",
            "kind": "message",
            "tokens": 400,
            "content": [
                {
                    "type": "tool_result",
                    "toolCallId": "c",
                    "name": "read",
                    "isError": True,
                    "content": "1\n" * 9,
                }
            ],
        },
    ],
    "tail": "## Current Plan",
    "parts": [
        {"layer": "system", "name": "agent", "goalId": None, "tokens": 100},
        {"layer": "messages", "name": "1.2 Coupons", "goalId": "3", "tokens": 430},
        {"layer": "plan", "name": "plan", "goalId": None, "tokens": 2},
    ],
    "tokens": 1000,
    "meter": METER,
}


async def test_the_context_is_shown_whole(terminal: Terminal) -> None:
    terminal.answer("goalwright/session/context", CONTEXT)
    assert await terminal.play("context") == 0
    assert terminal.lines == [
        "session s1 · fake/model",
        "about 1,000 tokens of 200,000 (<1 %); compacted above 150,000",
        "",
        "system    agent        100  10 %",
        "messages  1.2 Coupons  430  43 %",
        "plan      plan           2  <1 %",
        "",
        "── system · agent",
        "You are an agent.",
        "Be␇ good.",
        "",
        "── system · plan",
        "<environment>",
        "",
        "── 1 tool",
        "read  28 bytes",
        "",
        "── 1 user · 12 tokens",
        "do it",
        "[file x.png (image/png, 3 bytes)]",
        "",
        "── 2 user · goal 4 · replaces the messages of an ended goal · 1 token",
        "Redis was too slow",
        "",
        "── 3 assistant · goal 1.2 Coupons · 30 tokens",
        "[reasoning]",
        "hmm",
        "[call read]",
        '{"file_path": "a.py"}',
        "",
        "── 4 tool · goal 1.2 Coupons · 400 tokens",
        "[result of read, failed]",
        *["1"] * 9,
        "",
        "── the plan, at the end of the last message",
        "## Current Plan",
    ]


async def test_context_is_cut_only_with_brief_and_tools_show_schemas(terminal: Terminal) -> None:
    terminal.answer("goalwright/session/context", CONTEXT)
    await terminal.play("context", "--brief", "--tools")
    assert "… 3 more lines" in terminal.lines
    assert '{"type": "object"}' in terminal.lines


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        (10_000, 2_000, "The context was compacted from 10,000 to 2,000 tokens."),
        (3_288, 3_555, "The context was compacted from 3,288 to 3,555 tokens: the summary is no shorter."),
        (100, 100, "There is nothing to compact yet: the conversation has only the most recent steps."),
    ],
)
async def test_compaction_result_is_printed_once(
    terminal: Terminal, before: int, after: int, detail: str
) -> None:
    terminal.answer("goalwright/session/compact", {"before": before, "after": after, "detail": detail})
    assert await terminal.play("compact", "--keep", "the SQL") == 0
    assert terminal.lines == [detail]
    assert terminal.fake.params("goalwright/session/compact") == [
        {"sessionId": "s1", "instructions": "the SQL"}
    ]


async def test_compaction_without_detail_is_reported_in_numbers(terminal: Terminal) -> None:
    terminal.answer("goalwright/session/compact", {"before": 10_000, "after": 2_000})
    await terminal.play("compact")
    assert terminal.lines == ["Context: about 10,000 → 2,000 tokens (80 % less)."]


async def test_a_session_is_handed_over_and_the_new_one_is_named(terminal: Terminal) -> None:
    begun = {"session": {"trace": {"traceId": "s2", "agent": "execute"}}}
    terminal.answer("goalwright/session/handover", begun)
    assert await terminal.play("handover", "execute", "s1") == 0
    assert terminal.lines == [
        "Session s2 starts from the context of session s1.",
        'Continue with: goalwright run --session s2 "…"',
    ]
    assert terminal.fake.params("goalwright/session/handover") == [{"sessionId": "s1", "agent": "execute"}]
    with pytest.raises(SystemExit):
        parse(["handover", "build"])


async def test_limits_are_shown_and_set_without_losing_the_others(terminal: Terminal) -> None:
    terminal.answer("goalwright/session/set", {})
    assert await terminal.play("budget") == 0
    assert terminal.lines == [
        "session s1: 12,000 tokens used, $1.25",
        "limit for the session: $5.00",
        "limit for each goal: 100,000 tokens",
    ]
    assert not terminal.fake.params("goalwright/session/set")
    await terminal.play("budget", "--tokens", "7", "--goal-tokens", "none")
    assert terminal.fake.params("goalwright/session/set")[-1]["budget"] == {
        "sessionUsd": 5.0,
        "sessionTokens": 7,
        "goalUsd": None,
        "goalTokens": None,
    }
    await terminal.play("budget", "--usd", "none", "--goal-tokens", "none")
    assert terminal.lines[-1] == "No limits are set."


@pytest.mark.parametrize(
    ("argv", "changes"),
    [
        (["--usd", "$2.5", "--tokens", "500k"], {"sessionUsd": 2.5, "sessionTokens": 500_000}),
        (["--goal-usd", "0", "--goal-tokens", "1_000"], {"goalUsd": 0.0, "goalTokens": 1000}),
        (["--usd", "None"], {"sessionUsd": None}),
        (
            ["--none", "--tokens", "1.5M"],
            {"sessionUsd": None, "sessionTokens": 1_500_000, "goalUsd": None, "goalTokens": None},
        ),
    ],
)
async def test_limits_on_the_command_line(
    terminal: Terminal, argv: list[str], changes: dict[str, float | None]
) -> None:
    terminal.answer("goalwright/session/set", {})
    assert await terminal.play("budget", *argv) == 0
    (sent,) = terminal.fake.params("goalwright/session/set")
    assert sent["budget"] == {**METER["budget"], **changes}


def test_amounts_are_formatted_for_people() -> None:
    assert [tokens(1), tokens(1234567)] == ["1 token", "1,234,567 tokens"]
    assert [share(0, 0), share(1, 1000), share(0, 5), share(2, 3)] == ["0 %", "<1 %", "0 %", "67 %"]


async def test_sessions_are_listed_with_time_state_and_title(terminal: Terminal) -> None:
    mine = {"traceId": "s1", "updatedAt": "2026-11-23T10:04:59Z", "title": "Round\nprices"}
    theirs = {"traceId": "s2", "updatedAt": "2026-11-22T09:00:00Z", "title": ""}
    listed: dict[str, Any] = {
        "sessions": [
            {"trace": mine, "status": "waiting", "foreign": False},
            {"trace": theirs, "status": "idle", "foreign": True},
        ],
        "unreadable": [{"sessionId": "s3", "why": "not JSON"}],
        "more": True,
    }
    terminal.answer("goalwright/session/list", listed)
    assert await terminal.play("sessions") == 0
    assert terminal.lines == [
        "s1  2026-11-23 10:04  waiting  Round prices",
        "s2  2026-11-22 09:00  idle     (no title) (came with the folder)",
        "… and older sessions",
    ]
    assert "cannot be listed: s3: not JSON" in terminal.told
