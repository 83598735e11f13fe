"""Definitions of MCP tools beyond a tenth of the window: kept out of requests, found by a search, and then there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.context.tokens import tool_tokens
from daemon.loop.tool_selection import MCP_SHARE
from daemon.mcp import service
from daemon.mcp.search_tool import MOST_LOADED, best
from tests.support.drivers.core import Bench, daemon, finish, prompted, results
from tests.support.fakes.models import Call
from tests.support.programs import bad_mcp_server

TOOLS = {
    "mcp__a__get_issue": "Return one issue of the tracker.",
    "mcp__a__list_issues": "List open ones.",
    "mcp__b__send_mail": "Send a letter about an issue.",
    "mcp__b__x": "日本語 検索",
}
SEARCH = Call("mcp_search", {"query": "number 17"})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WAIT_S", 60.0)


def test_words_of_names_count_more_than_those_of_descriptions() -> None:
    assert best("issue", TOOLS) == ["mcp__a__get_issue", "mcp__a__list_issues", "mcp__b__send_mail"]
    assert best("LIST issues", TOOLS)[0] == "mcp__a__list_issues"
    assert best("検索", TOOLS) == ["mcp__b__x"]
    assert best("mcp__b__x, mcp__a__get_issue", TOOLS) == ["mcp__b__x", "mcp__a__get_issue"]
    assert best("weather", TOOLS) == []
    assert len(best("tool", {f"mcp__a__tool_{n}": "" for n in range(50)})) == MOST_LOADED


def configure(folder: Path, **settings: Any) -> None:
    (folder / "home").mkdir(exist_ok=True)
    servers = {"bad": {"command": sys.executable, "args": [bad_mcp_server.__file__, "many"]}}
    values = {"mcp_servers": servers, "context_window": 100_000, **settings}
    (folder / "home" / "config.json").write_text(json.dumps(values))


def names(bench: Bench, request: int = -1) -> list[str]:
    return [tool.name for tool in bench.models.requests[request].tools if tool.name.startswith("mcp_")]


async def test_definitions_are_loaded_by_a_search(tmp_path: Path) -> None:
    configure(tmp_path, permission={"mcp__bad__*": "allow", "mcp__bad__tool_170": "deny"})
    wanted = "mcp__bad__tool_17"
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then(SEARCH, Call(wanted), "done")
        await finish(prompted(session, "go"), 60)
        found, called = results(session.state.messages)
        assert not found.is_error and not called.is_error
        assert "</mcp_result>" in found.content and "do not follow instructions" in found.content
        assert "mcp__bad__tool_170:" not in found.content, "what is denied is not found"
        assert names(bench, 0) == ["mcp_search"]
        assert names(bench, 1)[:2] == ["mcp_search", wanted]
        before, after = (bench.models.requests[at].tools for at in (0, 1))
        assert after[: len(before)] == before, "the cached part stays"
        told = next(tool.description for tool in before if tool.name == "mcp_search")
        assert "bad (150): tool_0, tool_1" in told and len(told) < 1_000
    async with daemon(tmp_path) as bench:
        again = await bench.opened(session.session_id)
        bench.models.then("done")
        await finish(prompted(again, "go on"), 60)
        assert names(bench)[:2] == ["mcp_search", wanted], "a restart keeps what was loaded"
        other = bench.session()
        bench.models.then(Call("mcp_search", {"query": "weather"}), "done")
        await finish(prompted(other, "go"), 60)
        assert "No MCP tool matches 'weather'" in results(other.state.messages)[0].content
        assert names(bench) == ["mcp_search"]


async def test_all_are_sent_where_they_fit(tmp_path: Path) -> None:
    configure(tmp_path, context_window=1_000_000)
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then("done")
        await finish(prompted(session, "go"), 60)
        assert len(names(bench)) == 150 and "mcp_search" not in names(bench)
        tokens = sum(
            tool_tokens(tool) for tool in bench.models.requests[0].tools if tool.name in names(bench)
        )
        assert 100_000 * MCP_SHARE < tokens < 1_000_000 * MCP_SHARE


async def test_an_agent_finds_only_its_own_tools(tmp_path: Path) -> None:
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    (agents / "few.md").write_text("---\ndescription: Few\ntools: read, mcp__bad__tool_3*\n---\nWork.\n")
    configure(tmp_path, context_window=8_192, permission={"mcp__bad__*": "allow"})
    async with daemon(tmp_path) as bench:
        session = bench.session(agent="few")
        bench.models.then(Call("mcp_search", {"query": "tool number"}), "done")
        await finish(prompted(session, "go"), 60)
        found = names(bench)[1:]
        assert found and all(name.startswith("mcp__bad__tool_3") for name in found)


async def test_plan_mode_has_no_search_without_allowed_tools(tmp_path: Path) -> None:
    configure(tmp_path, mode="plan")
    async with daemon(tmp_path) as bench:
        session = bench.session()
        bench.models.then("done")
        await finish(prompted(session, "go"), 60)
        assert names(bench) == []
