"""An exploration in real VS Code: three branches side by side, their questions, the scoreboard, and the choice."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode import ways
from tests.e2e.vscode.accessibility import assert_accessible
from tests.e2e.vscode.window import Window

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


TESTS = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@pytest.fixture
def workspace(ground: Path) -> Path:
    return ways.make_repository(ground)


def branch(window: Window, name: str) -> Locator:
    return window.chat.get_by_role("listitem", name=re.compile(rf"^Branch {name}: "))


async def bring_forward(window: Window, name: str) -> None:
    """Choose the request of a branch among those that wait."""
    inbox = window.chat.get_by_role("list", name="Waiting for approval")
    await inbox.get_by_role("button", name=re.compile(f"^Branch {name} ")).click()
    await expect(window.approval).to_contain_text(f"Branch {name}")


async def test_branches_are_approved_compared_and_one_is_used(
    with_model: WithModel, configure: Configure, workspace: Path, scratch: Path
) -> None:
    cart = workspace / "cart.py"
    # Edits in branches are asked about only where a rule names the files.
    configure(diagnostics=True, test_command=TESTS, permission={"edit": {"*.py": "ask"}})
    model = ways.write_script(scratch / "ways.json")
    async with with_model(settings={"goalwright.model": model}) as (_model, window):
        before = ways.git(workspace, "status", "--porcelain")
        await window.show_goals()
        await window.show_chat()
        await window.widen_chat(220)
        await window.say(ways.TASK)

        # All three ask at once; each question says whose it is, and nothing is written.
        for name, direction in zip("ABC", ways.DIRECTIONS, strict=True):
            await expect(branch(window, name)).to_contain_text(direction)
            await expect(branch(window, name)).to_contain_text("waiting for approval")
        await expect(window.tab("Branch A · cart.py — proposed by Goalwright")).to_be_visible()
        row = await window.goal(re.compile("^Branch A: Whole cents.*waiting for approval"))
        await expect(row).to_be_visible()
        await assert_accessible(window)

        # They are answered in another order than they came in.
        await bring_forward(window, "C")
        await window.accept.click()
        await expect(window.approval).not_to_contain_text("Branch C")
        await bring_forward(window, "B")
        await expect(window.diff).to_contain_text("Decimal")
        await window.accept.click()
        await expect(window.approval).not_to_contain_text("Branch B")
        await expect(branch(window, "A")).to_contain_text("waiting for approval")
        assert cart.read_text() == ways.CART

        # The test command is asked about once, for all branches; then the last branch goes on, too.
        inbox = window.chat.get_by_role("list", name="Waiting for approval")
        await inbox.get_by_role("button", name=re.compile("pytest")).click()
        await window.accept.click()
        await expect(inbox).to_be_hidden()
        await expect(window.approval).to_contain_text("Branch A")
        await window.accept.click()

        # The facts, side by side.
        board = window.chat.get_by_role("region", name="Scoreboard")
        await expect(board.get_by_role("columnheader")).to_have_text(["A", "B", "C"])
        await expect(board.get_by_role("row", name=re.compile("^Tests"))).to_contain_text("3 pass")
        await expect(board.get_by_role("row", name=re.compile("^Files"))).to_contain_text("1 · +2 −2")
        await expect(window.answers().last).to_contain_text("compared above")
        row = await window.goal(re.compile("^Branch A: Whole cents.*done"))
        await expect(row).to_be_visible()
        assert ways.git(workspace, "status", "--porcelain") == before
        # What a branch changed, in VS Code's own diff editor.
        await window.button("Show changes of branch A").click()
        await expect(window.tab("cart.py — Branch A")).to_be_visible()
        await expect(window.diff).to_contain_text("// 100")
        await branch(window, "A").get_by_role("button", name=re.compile("^A ")).click()
        await expect(branch(window, "A").get_by_role("list", name="Files of branch A")).to_contain_text(
            "cart.py"
        )
        await window.grow_goals(260)
        await expect(await window.goal(re.compile("^Branch C"))).to_be_visible()
        await window.pictures("explore")
        await assert_accessible(window)

        # The record of a branch is read in the chat, and left again.
        await window.button("Open conversation of branch B").click()
        await expect(window.chat.get_by_role("heading", level=1)).to_contain_text("Branch B")
        await expect(window.answers().last).to_contain_text("one import more")
        await expect(window.composer).to_be_hidden()
        await assert_accessible(window)
        await window.button("Back to the session").first.click()
        await expect(window.composer).to_be_visible()

        # One is used, a part of it: the person reviews it like every change.
        await window.button("Use branch A").click()
        await expect(window.approval).to_contain_text("cart.py")
        assert cart.read_text() == ways.CART
        hunk = window.approval.get_by_role("checkbox", name="Accept hunk 2 of 2", exact=True)
        await hunk.uncheck()
        await window.button("Apply 1 of 2 hunks", window.approval).click()
        await expect(branch(window, "A")).to_contain_text("used")
        assert cart.read_text() == ways.WHOLE.replace(" (-{discount} %)", "")
        await expect(await window.goal(re.compile("^2 Choose among.*chosen: A"))).to_be_visible()
        assert window.remote_hosts() == set()


async def test_run_waits_for_the_user_to_choose_and_shows_a_conflict(
    with_model: WithModel, configure: Configure, workspace: Path, scratch: Path
) -> None:
    cart = workspace / "cart.py"
    configure(explore_choice="person")
    model = ways.write_script(scratch / "ways.json")
    settings = {"goalwright.model": model, "goalwright.mode": "accept-edits"}
    async with with_model(settings=settings) as (_model, window):
        await window.show_chat()
        await window.widen_chat(220)
        await window.say(ways.TASK)
        question = window.chat.get_by_role("region", name="Choose a branch")
        await expect(question).to_contain_text("Which branch should be used?")
        await expect(window.answers().last).not_to_contain_text("compared above")
        await window.pictures("choice")

        # Somebody changes the same line: both sides are shown, and nothing is written.
        mine = ways.CART.replace("sum(prices) - discount", "sum(prices) - min(discount, 100)")
        cart.write_text(mine)
        await window.button(f"Use B: {ways.DIRECTIONS[1]}", question).click()
        refused = window.chat.get_by_role("alert").filter(has_text="min(discount, 100)")
        await expect(refused).to_be_visible()
        await window.pictures("conflict")
        await assert_accessible(window)
        assert cart.read_text() == mine

        # Without it, the same branch is used, and the model goes on with that.
        cart.write_text(ways.CART)
        await window.button(f"Use B: {ways.DIRECTIONS[1]}", question).click()
        # Edits pass unasked in this mode, but what was chosen by its description alone is shown first.
        await expect(window.approval).to_contain_text("Asked because what is merged")
        assert cart.read_text() == ways.CART
        await window.accept.click()
        await expect(question).to_be_hidden()
        await expect(window.answers().last).to_contain_text("compared above")
        await expect(branch(window, "B")).to_contain_text("used")
        assert cart.read_text() == ways.EXACT


async def test_sub_agent_card_shows_progress_and_opens_its_transcript(
    with_model: WithModel, configure: Configure, workspace: Path, scratch: Path
) -> None:
    configure(test_command=TESTS)
    answer = "The discount is taken in cart.py, line 6."
    script = {
        "name": "a question",
        "turns": [
            [
                ways.step(ways.call("task", agent="general", prompt="Where is the discount taken?")),
                ways.step(text="Now I know."),
            ]
        ],
        "branches": {
            "s1": [
                [
                    ways.step(ways.call("read", file_path="cart.py")),
                    ways.step(ways.call("write", file_path="found.txt", content="line 6\n")),
                    ways.step(text=answer),
                ]
            ]
        },
    }
    file = scratch / "task.json"
    file.write_text(json.dumps(script))
    async with with_model(settings={"goalwright.model": f"scripted/{file}"}) as (_model, window):
        await window.show_chat()
        await window.say("Where is the discount?")
        while await window.chat.get_by_role("group", name="Sub-agent s1, general, done").count() == 0:
            # Starting one may be asked about, and what it writes is.
            accept = window.accept
            running = window.chat.get_by_role("group", name="Sub-agent s1, general, at work")
            done = window.chat.get_by_role("group", name="Sub-agent s1, general, done")
            await expect(accept.or_(done).first).to_be_visible()
            if await window.approval.filter(has_text="found.txt").count():
                await expect(window.approval).to_contain_text("Sub-agent s1")
                await expect(running).to_contain_text("waiting for approval")
                await expect(running).to_contain_text("write found.txt")
                await window.pictures("task")
                await assert_accessible(window)
            if await accept.count():
                await accept.click()
                await expect(window.approval).to_be_hidden()
        card = window.chat.get_by_role("group", name="Sub-agent s1, general, done")
        await expect(card).to_contain_text(answer)
        await window.button("Open conversation of sub-agent s1").click()
        await expect(window.chat.get_by_role("heading", level=1)).to_contain_text("Sub-agent s1")
        await expect(window.tool("write", "done")).to_be_visible()
        await window.button("Back to the session").first.click()
        await expect(window.answers().last).to_contain_text("Now I know.")
