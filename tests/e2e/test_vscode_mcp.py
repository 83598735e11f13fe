"""MCP servers in real VS Code: their list, a server's question, and its request for the model."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.accessibility import assert_accessible
from tests.e2e.vscode.parcels import make_parcels
from tests.support.fakes.model_replies import Reply
from tests.support.programs import asking_mcp_server, guarded_mcp_server

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

FORM = {
    "type": "object",
    "properties": {
        "carrier": {"type": "string", "title": "Carrier", "enum": ["Night post", "Bicycle"]},
        "parcels": {"type": "integer", "description": "How many parcels?", "minimum": 1},
    },
    "required": ["carrier", "parcels"],
}


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


async def test_servers_ask_in_the_chat(with_model: WithModel, configure: Configure, workspace: Path) -> None:
    guarded = await asyncio.create_subprocess_exec(
        sys.executable,
        guarded_mcp_server.__file__,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert guarded.stdout is not None
    configure(
        mcpServers={
            "asking": {"command": sys.executable, "args": [asking_mcp_server.__file__]},
            "guarded": {"url": f"http://127.0.0.1:{int(await guarded.stdout.readline())}/mcp"},
        },
        permission={"mcp__*": "allow"},
    )
    replies = [
        task.call("mcp__asking__form", schema=FORM, message="Who brings the parcels?"),
        task.call("mcp__asking__sample"),
        Reply(text="Green."),
        Reply(text="All asked."),
    ]
    try:
        async with with_model(replies) as (model, window):
            await window.command("Goalwright: MCP Servers…")
            rows = window.page.locator(".quick-input-widget .monaco-list-row")
            await expect(rows.filter(has_text="asking")).to_contain_text("ready, tools: 4", timeout=60_000)
            await expect(rows.filter(has_text="guarded")).to_contain_text("needs sign-in")
            await window.pictures("mcp-servers")
            await window.page.keyboard.press("Escape")

            await window.show_chat()
            await window.widen_chat(120)
            await window.say("Ask the server")
            card = window.chat.get_by_role("region", name="Question")
            await expect(card).to_contain_text("The MCP server asking asks you")
            await expect(card).to_contain_text(
                re.compile(r"Do not enter passwords or keys\.\s*Who brings the parcels?")
            )
            await card.get_by_role("radio", name="Night post").check()
            await card.get_by_role("textbox").last.fill("none")
            await assert_accessible(window)
            await window.pictures("mcp-question")
            await window.button("Send answer", card).click()
            await expect(card).to_contain_text("parcels: write a whole number.")
            await expect(card.get_by_role("radio", name="Night post")).to_have_count(0)
            await card.get_by_role("textbox").last.fill("12")
            await window.button("Send answer", card).click()

            await expect(window.approval).to_contain_text("The MCP server asking wants an answer of")
            await expect(window.approval).to_contain_text("user: Say hello.")
            sent = str(model.requests[1].json["messages"][-1])
            assert '"parcels": 12' in sent and "Night post" in sent
            await window.pictures("mcp-sampling")
            await window.accept.click()
            await expect(window.answers().last).to_contain_text("All asked.")
            assert "Green." in str(model.requests[-1].json["messages"][-1])
    finally:
        guarded.kill()
        await guarded.wait()
