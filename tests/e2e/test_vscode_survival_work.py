"""Work and its review through a reload of the window and a ``kill -9`` of the daemon: nothing is lost or done twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task, ways
from tests.e2e.vscode.parcels import ASKED, CHEAPER, PROPOSED, RATES, SET, make_parcels, read, set_rates
from tests.e2e.vscode.survival import HERE, LONG, Scene, goes_on, play
from tests.e2e.vscode.window import Window
from tests.support.examples import in_full
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

CHEAPEST = "LOCAL = 300"
NAME = "Lower the rates a little"
DIRECTIONS = ["Whole cents", "Tenths of cents"]
PATCH = """*** Begin Patch
*** Update File: rates.py
@@
-LOCAL = 400
+LOCAL = 350
*** Add File: notes.txt
+Nobody asked for this.
*** Add File: carriers.txt
+Zeppelin
*** End Patch"""


FEEDBACK = "Half a word of feedback"
"""A text of this scene only: the test does not wait for a text that VS Code has stored already."""


async def leave_a_hunk_out(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await window.approval.get_by_role("checkbox", name="Accept hunk 2 of 2", exact=True).uncheck()
    await window.button("Suggest changes…", window.approval).click()
    await window.approval.get_by_role("textbox", name="Feedback").fill(FEEDBACK)


async def hunk_left_out(window: Window, workspace: Path) -> None:
    await expect(window.button("Apply 1 of 2 hunks", window.approval)).to_be_enabled()
    await expect(window.tool("write", "waiting for approval")).to_be_visible()
    await expect(window.tab("proposed by Goalwright")).to_have_count(1)
    await expect(window.approval.get_by_role("textbox", name="Feedback")).to_have_value(FEEDBACK)
    assert (workspace / "rates.py").read_text() == RATES


async def half_is_applied(window: Window, workspace: Path) -> None:
    await window.button("Apply 1 of 2 hunks", window.approval).click()
    await expect(window.answers().last).to_contain_text(SET)
    assert "LOCAL = 350" in (workspace / "rates.py").read_text()
    assert "6 * LOCAL" not in (workspace / "rates.py").read_text()


async def undo(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(SET)
    await window.button("Undo", window.tool("write", "done")).click()


async def undone(window: Window, workspace: Path) -> None:
    await expect(window.answers().last).to_contain_text(SET)
    await expect(window.button("Redo", window.tool("write", "done"))).to_be_visible()
    await expect(window.chat.get_by_text("You undid write of rates.py (+2 −2)")).to_be_visible()
    assert (workspace / "rates.py").read_text() == RATES


async def redone(window: Window, workspace: Path) -> None:
    await window.button("Redo", window.tool("write", "done")).click()
    await expect(window.button("Undo", window.tool("write", "done"))).to_be_visible()
    assert (workspace / "rates.py").read_text() == PROPOSED


async def change_by_hand(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await expect(window.approval).to_be_visible()
    line = proposed(window).locator(".view-line", has_text=re.compile(r"LOCAL\s=\s350"))
    await line.click()
    await window.page.keyboard.press("End")
    await window.page.keyboard.press("Shift+Home")
    await window.page.keyboard.type(CHEAPEST)


def proposed(window: Window) -> Locator:
    """The right side of the diff editor."""
    return window.diff.locator(".editor.modified")


async def hand_edit_kept(window: Window, workspace: Path) -> None:
    await expect(window.approval).to_contain_text("edited by you")
    await expect(window.button("Apply as edited", window.approval)).to_be_enabled()
    await expect(proposed(window)).to_contain_text(re.compile(r"LOCAL\s=\s300"))
    await expect(window.tab("proposed by Goalwright")).to_have_count(1)
    assert (workspace / "rates.py").read_text() == RATES


async def hand_edit_is_applied(window: Window, workspace: Path) -> None:
    await window.button("Apply as edited", window.approval).click()
    await expect(window.answers().last).to_contain_text(SET)
    await expect(window.tab("proposed by Goalwright")).to_have_count(0)
    await expect(window.page.locator(".monaco-dialog-box")).to_have_count(0)
    assert (workspace / "rates.py").read_text() == PROPOSED.replace(CHEAPER[1], CHEAPEST)


async def leave_a_file_out(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await window.approval.get_by_role("checkbox", name="Accept notes.txt", exact=True).uncheck()
    await window.button("Accept file rates.py", window.approval).click()


async def file_left_out(window: Window, workspace: Path) -> None:
    await expect(window.button("Apply 2 of 3 files", window.approval)).to_be_enabled()
    await expect(window.approval).to_contain_text("accepted")
    await expect(window.tab("Proposed by Goalwright (3 files)")).to_have_count(1)
    assert (workspace / "rates.py").read_text() == RATES


async def two_files_are_written(window: Window, workspace: Path) -> None:
    await window.button("Apply 2 of 3 files", window.approval).click()
    await expect(window.answers().last).to_contain_text("Done.")
    await expect(window.tab("Proposed by Goalwright")).to_have_count(0)
    assert (workspace / "rates.py").read_text() == RATES.replace(*CHEAPER)
    assert (workspace / "carriers.txt").read_text() == "Zeppelin\n"
    assert not (workspace / "notes.txt").exists()


async def rename_a_goal(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(SET)
    await window.unfold(strip(window).get_by_role("button", name=re.compile("^Plan: 0 of 2 done")))
    await write_the_name(window, workspace)


def strip(window: Window) -> Locator:
    return window.chat.get_by_role("region", name="Plan", exact=True)


async def write_the_name(window: Window, workspace: Path) -> None:
    await strip(window).get_by_role("treeitem", name=re.compile("^1 Lower the rates")).focus()
    await window.page.keyboard.press("F2")
    await window.page.locator(".quick-input-widget", has_text="Rename goal").locator("input.input").fill(NAME)


async def plan_and_summary_kept(window: Window, workspace: Path) -> None:
    await expect(strip(window).get_by_role("treeitem")).to_have_count(2)
    await expect(strip(window).get_by_role("treeitem").first).not_to_contain_text(NAME)
    await expect(window.page.locator(".quick-input-widget input.input")).to_have_value(NAME)
    await expect(window.chat.get_by_text("1 file changed")).to_be_visible()
    await expect(window.button("Review")).to_be_visible()
    assert (workspace / "rates.py").read_text() == PROPOSED


async def goal_is_renamed_and_the_turn_undone(window: Window, workspace: Path) -> None:
    await window.page.keyboard.press("Enter")
    await expect(strip(window).get_by_role("treeitem").first).to_contain_text(NAME)
    await window.button("Undo…").click()
    await window.page.locator(".monaco-dialog-box").get_by_role("button", name="Revert").click()
    await expect(window.chat.get_by_text("1 file changed")).to_have_count(0)
    assert (workspace / "rates.py").read_text() == RATES


async def send_a_sub_agent(window: Window, workspace: Path) -> None:
    await window.say("Who takes the parcels?")


def sub_agent(window: Window, state: str) -> Locator:
    return window.chat.get_by_role("group", name=re.compile(f"^Sub-agent s1, explore, ({state})$"))


async def sub_agent_shown(window: Window, workspace: Path) -> None:
    await expect(window.tool("task")).to_have_count(1)
    await expect(sub_agent(window, ".*")).to_be_visible()


async def sub_agent_works(window: Window, workspace: Path) -> None:
    await expect(sub_agent(window, "at work")).to_be_visible()
    await expect(window.button("Stop")).to_be_visible()


async def sub_agent_is_over(window: Window, workspace: Path) -> None:
    await expect(sub_agent(window, "at work")).to_have_count(0)
    await expect(window.button("Stop")).to_be_hidden()


async def explore(window: Window, workspace: Path) -> None:
    await window.say("Try two ways.")


def branch(window: Window, name: str, state: str = ".*") -> Locator:
    return window.chat.get_by_role("listitem", name=re.compile(rf"^Branch {name}: .*, {state}"))


async def branches_shown(window: Window, workspace: Path) -> None:
    for name, direction in zip("AB", DIRECTIONS, strict=True):
        await expect(branch(window, name)).to_contain_text(direction)
    await expect(window.chat.get_by_role("listitem", name=re.compile("^Branch "))).to_have_count(2)


async def branches_work(window: Window, workspace: Path) -> None:
    for name in "AB":
        await expect(branch(window, name, "exploring")).to_be_visible()
    await expect(window.button("Stop")).to_be_visible()


async def branches_are_over(window: Window, workspace: Path) -> None:
    for name in "AB":
        await expect(branch(window, name, "exploring")).to_have_count(0)
    await expect(window.button("Stop")).to_be_hidden()


async def compare(window: Window, workspace: Path) -> None:
    await window.say(ways.TASK)
    await expect(window.chat.get_by_role("region", name="Scoreboard")).to_be_visible()


async def choice_waits(window: Window, workspace: Path) -> None:
    await expect(window.chat.get_by_role("region", name="Scoreboard")).to_have_count(1)
    await expect(window.button("Use branch A")).to_be_enabled()
    assert (workspace / "cart.py").read_text() == ways.CART


async def asks_for_a_branch(window: Window, workspace: Path) -> None:
    question = window.chat.get_by_role("region", name="Choose a branch")
    await expect(question).to_contain_text("Which branch should be used?")


async def branch_is_used(window: Window, workspace: Path) -> None:
    await window.button("Use branch A").click()
    await expect(window.approval).to_contain_text("cart.py")
    assert (workspace / "cart.py").read_text() == ways.CART
    await window.accept.click()
    await expect(branch(window, "A")).to_contain_text("used")
    assert (workspace / "cart.py").read_text() == ways.WHOLE


SCENES = {
    "an approval, a hunk left out, feedback half typed": Scene(
        set_rates, leave_a_hunk_out, hunk_left_out, end=half_is_applied, written=FEEDBACK
    ),
    "an approval, the proposal changed by hand": Scene(
        set_rates,
        change_by_hand,
        hand_edit_kept,
        end=hand_edit_is_applied,
        written=CHEAPEST,
        settings={"files.autoSave": "off"},
    ),
    "three files to approve, one left out and one accepted": Scene(
        lambda folder: [
            read(folder / "rates.py"),
            task.call("patch", patch_text=PATCH),
            Reply(text="Done."),
        ],
        leave_a_file_out,
        file_left_out,
        end=two_files_are_written,
        written="decided",
    ),
    "after a turn and an undo": Scene(set_rates, undo, undone, end=redone),
    "after a turn, the plan open and a goal being renamed": Scene(
        lambda folder: [
            task.call("goal", add=["Lower the rates", "Write the notes"], focus="1"),
            *set_rates(folder),
        ],
        rename_a_goal,
        plan_and_summary_kept,
        again=write_the_name,
        end=goal_is_renamed_and_the_turn_undone,
        written='"plan"]',
    ),
    "a sub-agent at work": Scene(
        lambda _: [task.call("task", agent="explore", prompt="Name the carriers."), LONG, HERE],
        send_a_sub_agent,
        sub_agent_shown,
        sub_agent_works,
        killed=sub_agent_is_over,
        end=goes_on,
    ),
    "two branches at work": Scene(
        lambda _: [task.call("explore", branches=DIRECTIONS), LONG, LONG, HERE],
        explore,
        branches_shown,
        branches_work,
        killed=branches_are_over,
        end=goes_on,
    ),
}


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


@pytest.mark.parametrize("name", list(SCENES)[:: in_full(1, 3)])
async def test_reload_and_kill_lose_no_work_and_repeat_none(
    with_model: WithModel, workspace: Path, name: str
) -> None:
    scene = SCENES[name]
    scene.configure(workspace)
    async with with_model(scene.replies(workspace)) as (model, window):
        await play(scene, model, window, workspace)


async def test_branch_choice_survives_a_reload_and_a_killed_daemon(
    with_model: WithModel, ground: Path, scratch: Path
) -> None:
    workspace = ways.make_repository(ground)
    scene = Scene(
        lambda _: [],
        compare,
        choice_waits,
        asks_for_a_branch,
        end=branch_is_used,
        settings={
            "goalwright.model": ways.write_script(scratch / "ways.json"),
            "goalwright.mode": "accept-edits",
            "goalwright.exploreChoice": "person",
        },
    )
    scene.configure(workspace)
    async with with_model([]) as (model, window):
        await play(scene, model, window, workspace)
