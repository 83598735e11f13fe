"""Steering and sub-agents by the user in real VS Code: a prompt for the next step, and ``@explore`` in a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode.parcels import make_parcels
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


async def test_ctrl_enter_steers_the_turn_and_mention_starts_an_agent(
    with_model: WithModel, workspace: Path
) -> None:
    write = Call("write", {"file_path": str(workspace / "note.txt"), "content": "hello\n"})
    replies = [
        Reply(tool_calls=(write,)),
        Reply(text="Written, and in French."),
        Reply(text="carriers.md names them."),
        Reply(text="They are in carriers.md."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("Write a note")
        await expect(window.accept).to_be_visible()
        await window.composer.fill("In French, please")
        await expect(window.button("Send for the next step")).to_be_enabled()
        await window.pictures("steering")
        await window.composer.press("Control+Enter")
        waiting = window.chat.get_by_role("list", name="Waiting prompts")
        await expect(waiting).to_contain_text("Next step")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text("in French.")
        # Delivered within the turn that ran: two requests, the second with the words.
        await until(lambda: len(model.requests) == 2, "the second step")
        assert "In French, please" in str(model.requests[1].json)

        await window.say("@explore who names the carriers?")
        await expect(window.chat.get_by_text("Task for explore: who names the carriers?")).to_be_visible()
        await expect(window.answers().last).to_contain_text("They are in carriers.md.")
        assert "The following tool was executed by the user" in str(model.requests[3].json)
        await window.pictures("user-task")
