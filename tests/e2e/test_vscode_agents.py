"""Agents and plans in real VS Code: a plan is made, replaced and built, and the branches of the build are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode import ways
from tests.e2e.vscode.window import Window

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

PRICE = '"""Prices."""\n\n\ndef price() -> int:\n    """In cents."""\n    return 1000\n'


@pytest.fixture
def workspace(ground: Path) -> Path:
    return ways.make_repository(ground)


def write_script(file: Path) -> str:
    """Write a script, and return the model's name. It plans, replans, and builds in two branches, of which one changes
    several files."""
    move = "*** Begin Patch\n*** Delete File: test_cart.py\n*** End Patch"
    several = [
        ways.step(
            ways.call("read", file_path="cart.py"),
            ways.call("read", file_path="test_cart.py"),
        ),
        ways.step(
            ways.call("write", file_path="cart.py", content=ways.WHOLE),
            ways.call("write", file_path="price.py", content=PRICE),
            ways.call("patch", patch_text=move),
        ),
        ways.step(text="Whole cents."),
    ]
    script = {
        "name": "a plan that is built",
        "turns": [
            [ways.step(ways.call("goal", add=["Guess"])), ways.step(text="This is the plan.")],
            [ways.step(text=json.dumps({"steps": [{"goal": "Measure first"}]}))],
            [
                ways.step(ways.call("explore", branches=list(ways.DIRECTIONS[:2]))),
                ways.step(text="Two ways are compared above."),
            ],
        ],
        "branches": {"A": [several], "B": [[ways.step(text="Nothing had to be done.")]]},
    }
    file.write_text(json.dumps(script))
    return f"scripted/{file}"


async def chosen(window: Window, row: str) -> None:
    """Choose a row of the list that a command shows."""
    name = window.page.locator(".label-name", has_text=re.compile(f"^{row}$"))
    found = window.page.locator(".quick-input-list .monaco-list-row", has=name)
    await expect(found.first).to_be_visible()
    await found.first.click()


async def test_plan_is_made_replanned_built_and_branch_files_are_shown(
    with_model: WithModel, configure: Configure, workspace: Path, scratch: Path
) -> None:
    settings = {"goalwright.model": write_script(scratch / "plan.json"), "goalwright.mode": "auto"}
    configure(test_command="")
    async with with_model(settings=settings) as (_model, window):
        await window.show_goals()
        await window.show_chat()
        await window.widen_chat(220)

        # Agents are picked by what they are for.
        await window.command("Goalwright: New Session with Agent…")
        await expect(window.page.locator(".quick-input-list")).to_contain_text("build")
        await window.pictures("agents")
        await chosen(window, "plan")
        await window.say(ways.TASK)
        await expect(window.answers().last).to_contain_text("This is the plan.")
        await expect(await window.goal(re.compile("^1 Guess"))).to_be_visible()

        # The plan is not what was wanted.
        await window.command("Goalwright: Replan…")
        box = window.page.locator(".quick-input-widget input.input")
        await expect(window.page.locator(".quick-input-title")).to_contain_text("Replan")
        await box.fill("Measure before you guess")
        await window.page.keyboard.press("Enter")
        await expect(await window.goal(re.compile("Measure first"))).to_be_visible()

        # It is handed over to the agent that builds, which works on in this session.
        await expect(window.button("Agent: plan")).to_be_visible()
        await window.pictures("build-this-plan")
        await window.button("Build this plan").click()
        await expect(window.button("Agent: build")).to_be_visible()
        await expect(window.answers().last).to_contain_text("Two ways are compared above.")

        # That nothing was tested is said, and why.
        board = window.chat.get_by_role("region", name="Scoreboard")
        await expect(board.get_by_role("row", name=re.compile("^Tests"))).to_contain_text("not run")

        # All that a branch changed, in one editor: what is new, changed and gone.
        await window.button("Show changes of branch A").click()
        await expect(window.tab(re.compile(f"Branch A: {ways.DIRECTIONS[0]}.*3 files"))).to_be_visible()
        editor = window.page.locator(".multiDiffEditor")
        for name in ("cart.py", "price.py", "test_cart.py"):
            await expect(editor.first).to_contain_text(name)
        await expect(editor.first).to_contain_text("In cents.")
        await window.pictures("branch-files")
        assert window.remote_hosts() == set()
