"""The user's side of plan and context in real VS Code: goal tree, meter, compaction, context view, budget."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.accessibility import assert_accessible
from tests.e2e.vscode.parcels import ASKED, PROPOSED, RATES, SET, make_parcels, set_rates
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

NOTES = "Write the notes"
GO_ON = "Go on."
GOING = "I go on with the plan as it is now."


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


def planned(workspace: Path, *rest: Reply) -> list[Reply]:
    """Answers that plan two goals, write a file for the first of them, and end the turn."""
    plan = [task.call("goal", add=["Lower the rates", NOTES]), task.call("goal", focus="1")]
    return [*plan, *set_rates(workspace), *rest]


async def begin(window: Window) -> None:
    """The first prompt, with its one change accepted; the goal tree is open."""
    await window.show_chat()
    await window.widen_chat(120)
    await window.say(ASKED)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(SET)
    await expect(window.button("Stop")).to_be_hidden()
    await window.show_goals()


async def menu(window: Window, row: str, item: str, box: str) -> None:
    """Choose from the context menu of a goal what opens VS Code's input box."""
    await window.choose(row, item, input_box(window, box))


def input_box(window: Window, title: str) -> Locator:
    return window.page.locator(".quick-input-widget", has_text=title)


async def answer(window: Window, title: str, text: str) -> None:
    """Write into VS Code's input box and press Enter."""
    box = input_box(window, title)
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


async def test_plan_edits_in_the_goal_tree_reach_chat_and_model(
    with_model: WithModel, workspace: Path
) -> None:
    replies = planned(workspace, Reply(text=GOING))
    async with with_model(replies) as (model, window):
        await begin(window)
        pane = await window.show_goals()

        await pane.hover()
        await pane.get_by_role("button", name="Add Goal…").click()
        await answer(window, "Add a goal", "Tell the customers")
        await expect(await window.goal("3 Tell the customers, pending")).to_be_visible()
        await expect(window.chat.get_by_text("You added the goal “Tell the customers”")).to_be_visible()

        await menu(window, f"2 {NOTES}", "Add Sub-Goal…", "Add a goal below")
        await answer(window, "Add a goal below", "Say since when")
        await expect(await window.goal("2.1 Say since when, pending")).to_be_visible()

        await (await window.goal(re.compile(f"^2 {NOTES}"))).click()
        await window.page.keyboard.press("F2")
        await answer(window, "Rename goal", "Write the changelog")
        await expect(await window.goal(re.compile("^2 Write the changelog"))).to_be_visible()

        moved = await window.goal(re.compile("^3 Write the changelog"))
        await window.choose("3 Tell the customers", "Move Up", moved)
        await expect(
            window.chat.get_by_text("You moved the goal “Tell the customers” before “Write the changelog”")
        ).to_be_visible()

        await (await window.goal(re.compile("^2 Tell the customers"))).drag_to(
            await window.goal(re.compile("^3 Write the changelog"))
        )
        await expect(await window.goal(re.compile(r"^2\.2 Tell the customers"))).to_be_visible()

        row = await window.goal(re.compile("^2 Write the changelog"))
        await row.hover()
        await row.get_by_role("button", name="Do This Next").click()
        await expect(row).to_contain_text("current")
        await window.pictures("plan-changed")

        # The filter leaves what matches and what is above it, also when it is closed, until it is cleared.
        await pane.hover()
        await pane.get_by_role("button", name="Filter Goals…").click()
        await input_box(window, "Filter goals").locator("input.input").fill("customers")
        first, found = await window.goal(re.compile("^1 Lower")), await window.goal(re.compile(r"^2\.2 Tell"))
        await expect(first).to_have_count(0)
        await window.page.keyboard.press("Enter")
        await expect(pane).to_contain_text("Filter “customers”: 1 goal")
        await expect(found).to_be_visible()
        await window.pictures("goals-filtered")
        await pane.hover()
        await pane.get_by_role("button", name="Clear the Goal Filter").click()
        await expect(first).to_be_visible()

        await (await window.goal("1 Lower the rates")).hover()
        await expect(window.page.locator(".monaco-hover", has_text="tokens")).to_be_visible()

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
            'the user added the goal \\"Tell the customers\\"',
            f'the user renamed the goal \\"{NOTES}\\" to \\"Write the changelog\\"',
            'the user put the focus on \\"Write the changelog\\"',
        ):
            assert words in told(model)

        note = window.button("System note")
        await expect(note).to_be_visible()
        said = window.chat.get_by_role("article", name="You").last
        await expect(said).to_contain_text(GO_ON)
        await expect(said).not_to_contain_text("the user renamed")
        await note.click()
        await expect(window.chat.locator(".note")).to_contain_text("the user renamed the goal")
        await window.pictures("note")

        # The plan above the composer is the same plan.
        strip = window.chat.get_by_role("region", name="Plan", exact=True)
        await window.unfold(strip.get_by_role("button", name="Plan: 0 of 4 done. Write the changelog"))
        tree = strip.get_by_role("tree", name="Goals")
        rows = tree.get_by_role("treeitem")
        await expect(rows).to_have_count(4)
        await expect(tree.get_by_role("treeitem", name=re.compile("^2 Write"))).to_have_attribute(
            "aria-current", "step"
        )
        first = tree.get_by_role("treeitem", name=re.compile("^1 Lower"))
        await first.click()
        await expect(window.chat.locator(".goal-mark.flash")).to_contain_text("1 Lower the rates")
        await first.hover()
        await window.pictures("plan-strip")
        last = tree.get_by_role("treeitem", name=re.compile(r"^2\.2 Tell"))
        await last.drag_to(first, target_position={"x": 60, "y": 3})
        await expect(tree.get_by_role("treeitem", name=re.compile("^1 Tell the customers"))).to_be_visible()
        row = tree.get_by_role("treeitem", name=re.compile("^1 Tell the customers"))
        await row.focus()
        await window.page.keyboard.press("Alt+ArrowDown")
        await expect(tree.get_by_role("treeitem", name=re.compile("^2 Tell the customers"))).to_be_visible()
        row = tree.get_by_role("treeitem", name=re.compile("^2 Tell the customers"))
        await row.hover()
        await window.button("Do this next", row).click()
        await expect(
            strip.get_by_role("button", name="Plan: 0 of 4 done. Tell the customers")
        ).to_be_visible()
        # A click in the Explorer leads to the goal's place in the chat.
        await (await window.goal(re.compile("^1 Lower the rates"))).click()
        await expect(window.chat.locator(".goal-mark.flash")).to_contain_text("1 Lower the rates")


LOG = "log.txt"
LINES = 400
SUMMARY = {
    "current_work": "the log was read, the delays are to be explained",
    "requests_and_rulings": ["explain the delays"],
    "decisions": ["the night runs count: they are the slow ones"],
    "findings": ["parcel 17 waited three days"],
    "files_changed": [],
    "failed_attempts": [],
    "pending_actions": ["explain the delays"],
    "key_paths": {"log": LOG},
}


def meter(window: Window) -> Locator:
    """How full the context is."""
    return window.chat.get_by_role("meter", name="Context used")


def numbers(window: Window) -> Locator:
    """The words beside it, which unfold the details."""
    return window.chat.get_by_role("button", name=re.compile("^Session numbers: "))


async def held(window: Window) -> float:
    """Tokens of the next request, in thousands, as the meter says."""
    found = re.match(
        r"Session numbers: ([\d.]+)(k?) of ", await numbers(window).locator(".only-spoken").inner_text()
    )
    assert found is not None
    return float(found[1]) / (1 if found[2] else 1_000)


async def test_meter_shows_context_size_and_compaction_reduces_it(
    with_model: WithModel, configure: Configure, workspace: Path
) -> None:
    configure(keep_steps=1)
    (workspace / LOG).write_text("".join(f"parcel {n} waited {n % 7} days\n" for n in range(LINES)))
    replies = [
        task.call("read", file_path=str(workspace / LOG)),
        Reply(text="I have read the log."),
        Reply(text="They are the night runs."),
        Reply(text=json.dumps(SUMMARY)),
        Reply(text=GOING),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await expect(meter(window)).to_have_count(0)
        await window.say("Read the log.")
        await expect(window.answers().last).to_contain_text("I have read the log.")
        await expect(meter(window)).to_have_attribute("aria-valuetext", re.compile(r"^About [\d.]+k tokens"))
        await window.say("What about the delays?")
        await expect(window.answers().last).to_contain_text("They are the night runs.")
        await expect(numbers(window)).to_have_accessible_name(re.compile("% cache hits"))
        await window.pictures("meter-narrow")
        await window.widen_chat(140)
        await window.unfold(numbers(window))
        await expect(window.chat.locator(".meter-details")).to_contain_text("window · auto-compacts at")
        await window.pictures("meter")
        await assert_accessible(window)

        await window.button("Show what the model sees").click()
        await expect(window.tab("Context of Read the log.md")).to_be_visible()
        text = window.page.locator(".monaco-editor .view-lines").first
        await expect(text).to_contain_text(re.compile(r"Exactly\swhat"))
        await expect(text).to_contain_text(re.compile(r"System\sprompt\s·\s[\d.]+k?\stokens"))
        await window.pictures("context")

        before = await held(window)
        await window.button("Compact now").click()
        line = window.chat.get_by_role("button", name=re.compile("^Context compacted"))
        await expect(line).to_have_text(re.compile(r"\(as you asked\) · [\d.]+k → [\d.]+k tokens$"))
        await expect(window.notification("The context was compacted from")).to_be_visible()
        await expect(window.chat.get_by_role("article", name="You")).to_have_count(2)
        assert await held(window) < before
        await line.click()
        await expect(window.chat.locator(".compaction")).to_contain_text("parcel 17 waited three days")
        await window.button("Kept word for word").click()
        await expect(window.chat.locator(".compaction .io")).to_contain_text("Read the log.")
        await window.pictures("compacted")
        await assert_accessible(window)

        await window.say(GO_ON)
        await expect(window.answers().last).to_contain_text(GOING)
        assert "parcel 17 waited three days" in told(model)
        assert "parcel 399 waited" not in told(model)
        # After a reload the line is made of what is stored.
        await window.reload()
        await window.show_chat()
        await expect(line).to_be_visible()
        await expect(window.chat.get_by_text("Summarize the work so far:")).to_have_count(0)


async def test_cost_shows_a_warning_and_budget_stops_the_run(with_model: WithModel, workspace: Path) -> None:
    dear = {"output_tokens": 600_000}
    replies = [Reply(text="One.", usage=dear), Reply(text="Two.")]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say("Say one.")
        await expect(window.answers().last).to_contain_text("One.")
        warning = window.chat.get_by_role("status").filter(has_text="This session has cost $6.0")
        await expect(warning).to_be_visible()
        await expect(numbers(window)).to_have_accessible_name(re.compile("no budget is set"))
        await window.pictures("cost-warning")
        await window.button("Set budget…", warning).click()
        row = window.page.locator(
            ".quick-input-list .monaco-list-row", has_text="Token limit for this session"
        )
        await expect(row).to_contain_text("no limit")
        await window.pictures("budget-choice")
        await row.click()
        await answer(window, "Token limit for this session", "1k")
        await window.unfold(numbers(window))
        await expect(window.chat.get_by_role("meter", name="This session: budget used")).to_be_visible()
        await numbers(window).click()

        question = window.chat.get_by_role("region", name="Budget reached")
        await window.say("Say two.")
        await expect(question).to_contain_text("This session has used")
        await window.pictures("budget")
        await assert_accessible(window)
        await window.button("Continue", question).click()
        await expect(window.answers().last).to_contain_text("Two.")
        await expect(window.button("Stop")).to_be_hidden()

        await window.say("Say three.")
        await window.button("Stop here", question).click()
        await expect(window.chat.get_by_text("Stopped at the budget")).to_be_visible()
        assert len(model.requests) == 2


async def test_abandoning_a_goal_previews_and_reverts_its_file_changes(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    replies = planned(workspace, Reply(text=GOING))
    async with with_model(replies) as (model, window):
        await begin(window)
        assert rates.read_text() == PROPOSED
        # What it changed can be undone while it is in progress. The window hears of the change behind the turn's end.
        await expect(window.chat.get_by_text("1 file changed")).to_be_visible()
        undo = window.page.get_by_role("menuitem", name="Undo This Goal's File Changes")

        async def offered() -> bool:
            await (await window.goal(re.compile("^1 Lower the rates"))).click(button="right")
            await expect(window.page.get_by_role("menuitem", name="Rename…")).to_be_visible()
            found = await undo.is_visible()
            await window.page.keyboard.press("Escape")
            return found

        for _ in range(5):
            if await offered():
                break
        else:
            raise AssertionError("the undo is not offered")
        await menu(window, "1 Lower the rates", "Abandon…", "Abandon goal")
        await answer(window, "Abandon goal", "the customers are against it")
        await expect(dialog(window)).to_contain_text("rates.py +2 −2")
        await window.pictures("abandon")
        await dialog(window).get_by_role("button", name="Cancel", exact=True).click()
        assert rates.read_text() == PROPOSED

        await menu(window, "1 Lower the rates", "Abandon…", "Abandon goal")
        await answer(window, "Abandon goal", "the customers are against it")
        await dialog(window).get_by_role("button", name="Abandon and Revert Files", exact=True).click()
        await expect(
            await window.goal(re.compile("^Lower the rates, abandoned, the customers are against it"))
        ).to_be_visible()
        assert rates.read_text() == RATES

        await menu(window, f"1 {NOTES}", "Mark as Done…", "Mark goal")
        await answer(window, "Mark goal", "nothing to note any more")
        await expect(await window.goal(f"1 {NOTES}, completed, nothing to note any more")).to_be_visible()
        # What has ended is not changed any more, and without changed files there is nothing to undo: no menu.
        await (await window.goal(re.compile(f"^1 {NOTES}"))).click(button="right")
        await expect(undo).to_have_count(0)
        await expect(window.page.get_by_role("menuitem", name="Rename…")).to_have_count(0)
        await window.page.keyboard.press("Escape")

        await window.say(GO_ON)
        await expect(window.answers().last).to_contain_text(GOING)
        assert "the customers are against it" in told(model)
        assert "nothing to note any more" in told(model)
        assert "LOCAL = 350" not in told(model), "what was done for the abandoned goal is gone"
