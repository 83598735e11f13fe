"""The transcript and the attention of the user in real VS Code: how commands ended, what was rejected, who waits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode.parcels import RATES, make_parcels
from tests.fakes.model_replies import Call, Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

FAILS = "printf '\\033[32mok\\033[0m one\\n\\033[1;31mFAIL\\033[0m two\\n'; exit 3"
TICKS = "for i in 1 2 3; do echo tick $i; done; sleep 300"


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


def run(command: str) -> Reply:
    return Reply(tool_calls=(Call("bash", {"command": command, "description": "Run the tests"}),))


async def test_the_transcript_says_how_commands_ended_and_what_was_rejected_also_after_a_reload(
    with_model: WithModel, workspace: Path
) -> None:
    edit = Call(
        "edit",
        {"file_path": str(workspace / "rates.py"), "old_string": "LOCAL = 400", "new_string": "LOCAL = 1"},
    )
    read = Call("read", {"file_path": str(workspace / "rates.py")})
    replies = [
        run(FAILS),
        Reply(text="Two fails."),
        run(TICKS),
        Reply(tool_calls=(read,)),
        Reply(tool_calls=(edit,)),
        Reply(text="I leave it, then."),
        Reply(status=401, error_type="authentication_error", error_message="bad key"),
        Reply(text="Hello again."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("Run the tests")
        await window.accept.click()
        failed = window.tool("bash", "failed, exit 3")
        await expect(failed).to_contain_text("FAIL two")
        await expect(failed.locator(".ansi-fg-1")).to_have_text("FAIL")
        await expect(window.answers().last).to_contain_text("Two fails.")
        assert "ok one\\nFAIL two" in str(model.requests[1].json)
        assert "\x1b" not in str(model.requests[1].json)

        await window.say("Run the slow ones")
        await window.accept.click()
        await expect(window.tool("bash", "running")).to_contain_text("tick 3")
        await window.button("Stop").click()
        stopped = window.tool("bash", "stopped")
        await expect(stopped).to_contain_text("tick 3")

        await window.say("Make it cheaper")
        await expect(window.approval).to_be_visible()
        await expect(window.composer).to_have_attribute("placeholder", re.compile("^Say what to do instead"))
        await window.composer.fill("No, leave the rates alone")
        await window.composer.press("Enter")
        rejected = window.tool("edit", "rejected")
        await expect(rejected).to_contain_text("You rejected this: “No, leave the rates alone”")
        await expect(window.answers().last).to_contain_text("I leave it, then.")
        assert (workspace / "rates.py").read_text() == RATES
        assert "tick 3" in str(model.requests[3].json)
        await rejected.get_by_role("button", expanded=False).first.click()
        await expect(rejected).to_contain_text("LOCAL = 1")
        await window.pictures("transcript")

        await window.say("And now?")
        error = window.chat.get_by_text(re.compile("bad key"))
        await expect(error).to_be_visible()
        await window.say("Again")
        await expect(window.answers().last).to_contain_text("Hello again.")
        await window.reload()
        await window.show_chat()
        await expect(window.answers().last).to_contain_text("Hello again.")
        await expect(error).to_be_visible()
        await expect(window.chat.get_by_text("Stopped.", exact=True)).to_be_attached()
        await expect(rejected).to_contain_text("You rejected this: “No, leave the rates alone”")
        await expect(failed).to_be_attached()


async def test_a_session_in_the_background_that_needs_the_user_is_seen_and_stop_holds_the_queue(
    with_model: WithModel, workspace: Path
) -> None:
    write = Call("write", {"file_path": str(workspace / "note.txt"), "content": "hello\n"})
    replies = [
        Reply(tool_calls=(write,)),
        Reply(text="Written."),
        Reply(text="The second answer."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("Write a note")
        await expect(window.approval).to_be_visible()
        await window.command("Goalwright: New Session")
        await expect(window.status_item()).to_contain_text("approval needed")
        recent = window.chat.get_by_role("region", name="Recent sessions")
        await expect(recent).to_contain_text("needs approval")
        await window.pictures("attention")

        # A key answers nothing that is out of sight.
        await window.page.keyboard.press("Shift+Alt+Y")
        assert not (workspace / "note.txt").exists()
        await recent.get_by_role("button", name=re.compile("Write a note")).click()
        await expect(window.approval).to_be_visible()

        await window.composer.fill("Then translate it")
        await window.composer.press("Alt+Enter")
        waiting = window.chat.get_by_role("list", name="Waiting prompts")
        await expect(waiting).to_contain_text("Then translate it")
        await window.button("Stop").click()
        await expect(window.tool("write", "stopped")).to_contain_text("nothing was done")
        queue = window.chat.get_by_role("region", name="Queue")
        await expect(queue).to_contain_text("1 queued")
        await window.pictures("queue-held")
        assert len(model.requests) == 1
        assert not (workspace / "note.txt").exists()
        await window.button("Send what is queued").click()
        await expect(window.answers().last).to_contain_text("Written.")
        await expect(queue).to_be_hidden()
