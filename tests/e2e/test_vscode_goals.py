"""The person's side of plan and context in real VS Code: goal tree, meter, compaction, context view, budget."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import OpenVSCode
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import ASKED, PROPOSED, RATES, SET, environment, make_parcels, set_rates
from tests.e2e.vscode.window import Window
from tests.fakes.model_replies import Reply
from tests.fakes.model_server import ModelServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.timeout(300)

NOTES = "Write the notes"
GO_ON = "Go on."
GOING = "I go on with the plan as it is now."


@pytest.fixture
def workspace(scratch: Path) -> Path:
    return make_parcels(scratch / "parcels")


def planned(workspace: Path, *rest: Reply) -> list[Reply]:
    """Answers that plan two goals, write a file for the first of them, and end the turn."""
    plan = [task.call("goal", add=["Lower the rates", NOTES]), task.call("goal", focus="1")]
    return [*plan, *set_rates(workspace), *rest]


async def begin(window: Window) -> None:
    """The first prompt, with its one change accepted; the goal tree is open."""
    await window.show_chat()
    await window.widen_chat(120)
    await window.say(ASKED)
    await window.button("Accept", window.approval).click()
    await expect(window.answers().last).to_contain_text(SET)
    await expect(window.button("Stop")).to_be_hidden()
    await window.show_goals()


async def menu(window: Window, row: str, item: str) -> None:
    """Choose from the context menu of a goal."""
    await (await window.goal(re.compile(f"^{row}"))).click(button="right")
    # A menu takes no click in its first moment. Its items are named with their keys.
    await window.page.get_by_role("menuitem", name=re.compile(f"^{item}")).hover()
    await window.page.keyboard.press("Enter")


async def answer(window: Window, title: str, text: str) -> None:
    """Write into VS Code's input box and press Enter."""
    box = window.page.locator(".quick-input-widget", has_text=title)
    await box.locator("input.input").fill(text)
    await window.page.keyboard.press("Enter")
    await expect(box).to_be_hidden()


def dialog(window: Window) -> Locator:
    """VS Code's modal dialog."""
    return window.page.locator(".monaco-dialog-box")


def goals_of(workspace: Path) -> list[tuple[str, str, str | None]]:
    """Description, status and the parent's description of each goal, as the daemon has stored them."""
    files = list((workspace / ".trace").glob("*/goal.json"))
    tree: dict[str, Any] = json.loads(files[0].read_text()) if files else {"goals": []}
    names = {goal["id"]: goal["description"] for goal in tree["goals"]}
    return [(goal["description"], goal["status"], names.get(goal["parent_id"])) for goal in tree["goals"]]


def told(model: ModelServer) -> str:
    """All that stands in the newest request's messages."""
    return json.dumps(model.requests[-1].json["messages"], ensure_ascii=False)


async def test_the_person_changes_the_plan_in_the_tree_and_the_model_is_told(
    open_vscode: OpenVSCode, workspace: Path
) -> None:
    replies = planned(workspace, Reply(text=GOING))
    async with ModelServer(replies) as model, open_vscode(environment(model)) as window:
        await begin(window)
        pane = await window.show_goals()

        await pane.hover()
        await pane.get_by_role("button", name="Add Goal…").click()
        await answer(window, "Add a goal", "Tell the customers")
        await expect(await window.goal("3 Tell the customers, pending")).to_be_visible()
        await expect(window.chat.get_by_text("You added goal 3 Tell the customers")).to_be_visible()

        await menu(window, f"2 {NOTES}", "Add Sub-Goal…")
        await answer(window, "Add a goal below", "Say since when")
        await expect(await window.goal("2.1 Say since when, pending")).to_be_visible()

        await (await window.goal(re.compile(f"^2 {NOTES}"))).click()
        await window.page.keyboard.press("F2")
        await answer(window, "Rename goal", "Write the changelog")
        await expect(await window.goal(re.compile("^2 Write the changelog"))).to_be_visible()

        await menu(window, "3 Tell the customers", "Move Up")
        await expect(await window.goal(re.compile("^3 Write the changelog"))).to_be_visible()
        await expect(window.chat.get_by_text("You moved goal 3 Tell the customers to place 2")).to_be_visible()

        await (await window.goal(re.compile("^2 Tell the customers"))).drag_to(
            await window.goal(re.compile("^3 Write the changelog"))
        )
        await expect(await window.goal(re.compile(r"^2\.2 Tell the customers"))).to_be_visible()

        row = await window.goal(re.compile("^2 Write the changelog"))
        await row.hover()
        await row.get_by_role("button", name="Focus").click()
        await expect(row).to_contain_text("current")
        await window.pictures("plan-changed")

        await until(
            lambda: (
                goals_of(workspace)
                == [
                    ("Lower the rates", "in_progress", None),
                    ("Write the changelog", "in_progress", None),
                    ("Say since when", "pending", "Write the changelog"),
                    ("Tell the customers", "pending", "Write the changelog"),
                ]
            ),
            "the plan on disk",
        )
        await window.say(GO_ON)
        await expect(window.answers().last).to_contain_text(GOING)
        for words in (
            'the person added the goal \\"Tell the customers\\"',
            f'the person renamed the goal \\"{NOTES}\\" to \\"Write the changelog\\"',
            'the person put the focus on \\"Write the changelog\\"',
        ):
            assert words in told(model)

        note = window.button("Note to the model")
        await expect(note).to_be_visible()
        said = window.chat.get_by_role("article", name="You").last
        await expect(said).to_contain_text(GO_ON)
        await expect(said).not_to_contain_text("the person")
        await note.click()
        await expect(window.chat.locator(".note")).to_contain_text("the person renamed the goal")
        await window.pictures("note")


async def test_an_abandoned_goal_takes_its_file_changes_along_after_a_look_at_them(
    open_vscode: OpenVSCode, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    replies = planned(workspace, Reply(text=GOING))
    async with ModelServer(replies) as model, open_vscode(environment(model)) as window:
        await begin(window)
        assert rates.read_text() == PROPOSED
        await menu(window, "1 Lower the rates", "Abandon…")
        await answer(window, "Abandon goal", "the customers are against it")
        await expect(dialog(window)).to_contain_text("rates.py +2 −2")
        await window.pictures("abandon")
        await dialog(window).get_by_role("button", name="Cancel", exact=True).click()
        assert rates.read_text() == PROPOSED

        await menu(window, "1 Lower the rates", "Abandon…")
        await answer(window, "Abandon goal", "the customers are against it")
        await dialog(window).get_by_role("button", name="Abandon and Revert Files", exact=True).click()
        await expect(
            await window.goal(re.compile("^Lower the rates, abandoned, the customers are against it"))
        ).to_be_visible()
        assert rates.read_text() == RATES

        await menu(window, f"1 {NOTES}", "Mark as Done…")
        await answer(window, "Mark goal", "nothing to note any more")
        await expect(await window.goal(f"1 {NOTES}, completed, nothing to note any more")).to_be_visible()
        # What has ended is not changed any more, so there is no menu for it.
        await (await window.goal(re.compile(f"^1 {NOTES}"))).click(button="right")
        undo = window.page.get_by_role("menuitem", name="Undo This Goal's File Changes")
        await expect(undo).to_be_visible()
        await expect(window.page.get_by_role("menuitem", name="Rename…")).to_have_count(0)
        await window.page.keyboard.press("Escape")

        await window.say(GO_ON)
        await expect(window.answers().last).to_contain_text(GOING)
        assert "the customers are against it" in told(model)
        assert "nothing to note any more" in told(model)
        assert "LOCAL = 350" not in told(model), "what was done for the abandoned goal is gone"
