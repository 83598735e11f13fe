"""The main job, by mouse and keyboard in real VS Code: real extension, real daemon, the real Anthropic SDK.

Only the model is played, on the wire (``tests/support/fakes/model_server.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.window import Window
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(ground: Path) -> Path:
    return task.make_shop(ground)


def environment(model: ModelServer) -> Mapping[str, str]:
    return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "a-key-for-tests"}


async def test_a_task_is_planned_approved_corrected_and_done(
    with_model: WithModel, configure: Configure, workspace: Path
) -> None:
    configure(diagnostics=True)
    cart = workspace / "cart.py"
    async with with_model(task.whole_task(workspace)) as (model, window):
        await window.show_goals()
        await window.show_chat()
        await window.widen_chat(120)
        await window.say(task.TASK)
        await expect(window.chat.get_by_role("article", name="You")).to_contain_text(task.TASK)

        # The plan grows in the Explorer while the agent works.
        await expect(await window.goal(re.compile("^1 Fix the discount, in progress"))).to_be_visible()
        await expect(await window.goal(re.compile("^2 Run the test, pending"))).to_be_visible()

        # The first edit is shown as a diff, and nothing is on disk yet.
        await expect(window.diff.locator(".editor.modified .line-insert").first).to_be_visible()
        await expect(window.diff).to_contain_text("100 - discount")
        await expect(window.approval).to_be_visible()
        await expect(window.tool("edit", "waiting for approval")).to_be_visible()
        assert cart.read_text() == task.CART
        await window.pictures("approval")
        await window.title_action("Accept").click()

        # The language server objects to it: the person sees why, and so does the model.
        await expect(window.tool("edit", "done").first.get_by_role("list", name="Problems")).to_contain_text(
            task.COMPLAINT
        )
        await expect(window.accept).to_be_visible()
        assert cart.read_text() == task.CART.replace(task.BEFORE, task.FLOAT)
        assert task.COMPLAINT in str(model.requests[4].json["messages"][-1])

        await window.pictures("diagnostic")

        # The second edit is accepted on the chat's card, without leaving the chat.
        await expect(window.approval).to_contain_text("cart.py")
        await window.accept.click()
        await expect(await window.goal(re.compile("^1 Fix the discount, completed"))).to_be_visible()
        await expect(await window.goal(re.compile("^2 Run the test, in progress"))).to_be_visible()
        assert cart.read_text() == task.FIXED

        # A command asks as well.
        await expect(window.approval).to_contain_text("test_cart.py")
        await expect(window.tool("bash", "waiting for approval")).to_be_visible()
        await window.accept.click()

        await expect(window.answers().last).to_contain_text("The discount is now taken in per cent")
        await expect(await window.goal(re.compile("^2 Run the test, completed"))).to_be_visible()
        await expect(window.approval).to_be_hidden()
        await expect(window.tab("proposed by Goalwright")).to_have_count(0)
        await expect(window.button("Stop")).to_be_hidden()
        await window.open_file("cart.py")
        await expect(window.page.locator(".monaco-editor .view-lines").first).to_contain_text("// 100")
        await window.pictures("done")
        assert model.rejected == []
        assert window.remote_hosts() == set()
        assert [line for line in window.console if "Content Security Policy" in line] == []
    assert cart.read_text() == task.FIXED
    assert task.passes(workspace, "test_cart.py")


async def test_a_waiting_approval_survives_a_reload_of_the_window(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [
        task.read(workspace),
        task.edit(workspace, task.BEFORE, task.WHOLE, "Per cent."),
        Reply(text=task.ANSWER),
    ]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.say(task.TASK)
        await expect(window.approval).to_be_visible()

        await window.reload()
        await window.show_chat()
        await expect(window.chat.get_by_role("article", name="You")).to_contain_text(task.TASK)
        await expect(window.tool("edit", "waiting for approval")).to_be_visible()
        assert (workspace / "cart.py").read_text() == task.CART
        await window.accept.click()

        await expect(window.answers().last).to_contain_text("per cent")
        assert (workspace / "cart.py").read_text() == task.FIXED


async def test_rejecting_with_feedback_makes_the_model_try_again(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [
        task.read(workspace),
        task.edit(workspace, task.BEFORE, task.FLOAT, "A share of the sum."),
        task.edit(workspace, task.BEFORE, task.WHOLE, "Whole cents, then."),
        Reply(text=task.ANSWER),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say(task.TASK)
        await window.button("Suggest changes…", window.approval).click()
        await window.approval.get_by_role("textbox", name="Feedback").fill("Keep whole cents.")
        await window.button("Send feedback", window.approval).click()
        await expect(window.tool("edit", "rejected")).to_be_visible()

        await expect(window.diff).to_contain_text("// 100")
        assert (workspace / "cart.py").read_text() == task.CART
        await window.page.keyboard.press("Shift+Alt+Y")

        await expect(window.answers().last).to_contain_text("per cent")
        assert "Keep whole cents." in str(model.requests[2].json["messages"][-1])
        assert (workspace / "cart.py").read_text() == task.FIXED


async def test_reject_in_the_diff_title_bar_ends_the_turn_unwritten(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [task.read(workspace), task.edit(workspace, task.BEFORE, task.FLOAT, "A share of the sum.")]
    async with with_model(replies) as (model, window):
        await window.open_file("test_cart.py")
        await window.show_chat()
        await window.say(task.TASK)
        await expect(window.tab("proposed by Goalwright")).to_be_visible()
        await window.title_action("Reject").click()

        await expect(window.tool("edit", "rejected")).to_be_visible()
        await expect(window.button("Stop")).to_be_hidden()
        await expect(window.tab("proposed by Goalwright")).to_have_count(0)
        await expect(window.tab("test_cart.py")).to_be_visible()
        assert len(model.requests) == 2
        assert (workspace / "cart.py").read_text() == task.CART


async def test_stop_ends_the_stream_and_keeps_what_was_received(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model(
        [
            Reply(text="The beginning of a long answer. " * 20, fault="hang", fault_after=12),
            Reply(text="Still here."),
        ]
    ) as (_model, window):
        await window.show_chat()
        await window.say("Talk for long.")
        await expect(window.answers().last).to_contain_text("The beginning of a long answer.")
        await expect(window.answers().last).to_have_attribute("aria-busy", "true")
        await window.button("Stop").click()

        await expect(window.button("Stop")).to_be_hidden()
        await expect(window.answers().last).not_to_have_attribute("aria-busy", "true")
        await expect(window.answers().last).to_contain_text("The beginning of a long answer.")
        await window.say("Are you there?")
        await expect(window.answers().last).to_contain_text("Still here.")


async def test_a_previous_session_is_opened_again_and_continued(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [Reply(text="First answer."), Reply(text="Second answer."), Reply(text="Third answer.")]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("Remember the word heron.")
        await expect(window.answers().last).to_contain_text("First answer.")

        await window.new_session()
        await expect(window.answers()).to_have_count(0)
        await window.say("Another matter.")
        await expect(window.answers().last).to_contain_text("Second answer.")

        await window.command("Goalwright: Open Session…")
        await window.page.locator(".quick-input-list .monaco-list-row", has_text="heron").first.click()
        await expect(window.answers().last).to_contain_text("First answer.")
        await window.say("Which word?")
        await expect(window.answers().last).to_contain_text("Third answer.")
        assert "heron" in str(model.requests[2].json["messages"])
        assert "Another matter" not in str(model.requests[2].json["messages"])


async def test_the_session_is_there_again_after_the_daemon_was_killed(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [Reply(text="Before the crash."), Reply(text="After the crash.")]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.say("One.")
        await expect(window.answers().last).to_contain_text("Before the crash.")

        first = await kill_daemon(window)
        await window.say("Two.")
        await expect(window.answers().last).to_contain_text("After the crash.")
        await expect(window.answers().first).to_contain_text("Before the crash.")
        assert await window.daemon_pid() != first
        assert "Before the crash." in str(model.requests[1].json["messages"])


async def kill_daemon(window: Window) -> int:
    """``kill -9`` the workspace's daemon. Returns the process id it had."""
    import os
    import signal

    pid = await window.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    return pid


async def test_a_prompt_sent_while_settings_change_is_answered(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [Reply(text=f"Answer {number}.") for number in range(4)]
    settings = workspace / ".vscode" / "settings.json"
    async with with_model(replies, settings={"goalwright.thinkingTokens": 1999}) as (_model, window):
        await window.show_chat()
        for number in range(4):
            # The extension connects to the daemon anew in the moment in which it follows the setting.
            settings.write_text(json.dumps({"goalwright.thinkingTokens": 2000 + number}))
            if number == 2:
                await window.new_session()
            await window.say(f"Question {number}?")
            await expect(window.answers().last).to_contain_text(f"Answer {number}.")
