"""Undo, redo and restore in real VS Code: the agent's changes go, the user's own edits stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import (
    ASKED,
    CHEAPER,
    PROPOSED,
    RATES,
    SET,
    make_parcels,
    read,
    set_rates,
    write,
)
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

PLACE = "def far(weight: int) -> int:"
REMARK = "  # as the crow flies"
"""The user's edit between the two hunks."""


def own(text: str) -> str:
    """Return ``text`` with the user's own edit."""
    return text.replace(PLACE, PLACE + REMARK)


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


def dialog(window: Window) -> Locator:
    """VS Code's modal dialog."""
    return window.page.locator(".monaco-dialog-box")


def dialog_button(window: Window, name: str) -> Locator:
    return dialog(window).get_by_role("button", name=name, exact=True)


async def have_it_done(window: Window, said: str, answer: str) -> None:
    """A prompt whose one change is accepted."""
    await window.say(said)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(answer)
    await expect(window.button("Stop")).to_be_hidden()


async def test_undo_on_the_card_keeps_user_edits_and_redo_reapplies(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    async with with_model(set_rates(workspace)) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await have_it_done(window, ASKED, SET)
        await window.open_file("rates.py")
        await window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).click()
        await window.page.keyboard.press("End")
        await window.page.keyboard.insert_text(REMARK)
        await window.page.keyboard.press("ControlOrMeta+S")
        await until(lambda: rates.read_text() == own(PROPOSED), "the user's edit")

        # What the turn changed, all in one editor: as it was, and as it is with the user's own edit.
        changed = window.chat.get_by_role("region", name="Changed files")
        await expect(changed).to_contain_text("1 file changed")
        await expect(changed).to_contain_text("+2 −2")
        await window.button("Review", changed).click()
        await expect(window.tab("Changes by Goalwright")).to_be_visible()
        await expect(window.page.locator(".editor-instance").last).to_contain_text(
            re.compile(r"LOCAL\s=\s400")
        )
        await window.pictures("review")

        card = window.tool("write", "done")
        await window.button("Undo", card).click()
        await expect(window.button("Redo", card)).to_be_visible()
        await expect(card).to_contain_text("undone")
        await expect(window.chat.get_by_text("You undid write of rates.py (+2 −2)")).to_be_visible()
        assert rates.read_text() == own(RATES)
        # The open editor follows, without a question.
        await expect(window.page.locator(".monaco-editor .view-lines").first).to_contain_text(
            re.compile(r"LOCAL\s=\s400")
        )
        await window.pictures("undone")

        await window.button("Redo", card).click()
        await expect(window.button("Undo", card)).to_be_visible()
        await expect(window.chat.get_by_text("You redid write of rates.py (+2 −2)")).to_be_visible()
        assert rates.read_text() == own(PROPOSED)

        await window.command("Goalwright: Undo Last Change")
        await expect(window.button("Redo", card)).to_be_visible()
        assert rates.read_text() == own(RATES)
        await window.command("Goalwright: Redo Change")
        await expect(window.button("Undo", card)).to_be_visible()
    assert rates.read_text() == own(PROPOSED)


async def test_revert_to_a_message_previews_and_restores_files(
    with_model: WithModel, workspace: Path
) -> None:
    rates, notes = workspace / "rates.py", workspace / "notes.md"
    first = RATES.replace(*CHEAPER)
    replies = [
        read(rates),
        write(rates, first),
        Reply(text="One."),
        write(notes, "Rates are lower.\n"),
        Reply(text="Two."),
        write(rates, PROPOSED),
        Reply(text="Three."),
    ]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await have_it_done(window, "Lower them.", "One.")
        await have_it_done(window, "Write it down.", "Two.")
        await have_it_done(window, "And raise the others.", "Three.")

        second = window.chat.get_by_role("article", name="You").nth(1)
        restore = window.button("Revert files to this point", second)
        await second.hover()
        await restore.click()
        await expect(dialog(window)).to_contain_text("rates.py +1 −1")
        await expect(dialog(window)).to_contain_text("notes.md will be deleted")
        await window.pictures("restore")
        await dialog_button(window, "Cancel").click()
        assert notes.exists()

        await restore.click()
        await dialog_button(window, "Revert").click()
        await expect(window.chat.get_by_text("Reverted 2 changes")).to_be_visible()
        assert rates.read_text() == first
        assert not notes.exists()
        await expect(window.tool("write", "done").filter(has_text="undone")).to_have_count(2)

        await restore.click()
        await expect(window.notification("Nothing to revert")).to_be_visible()


async def test_message_is_edited_forked_and_a_failed_turn_is_retried(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    replies = [
        read(rates),
        write(rates, RATES.replace(*CHEAPER)),
        Reply(text="One."),
        Reply(text="Two."),
        Reply(status=401, error_type="authentication_error"),
        Reply(text="Three."),
        Reply(text="Four, slowly. " * 20, fault="hang", fault_after=9),
        Reply(text="Five."),
        Reply(text="Six."),
    ]
    async with with_model(replies) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await have_it_done(window, "Lower them.", "One.")
        first = window.chat.get_by_role("article", name="You").first
        await first.hover()
        await window.pictures("message-actions")
        await window.composer.fill("Half a thought")
        await window.button("Edit and resend", first).click()
        await expect(window.composer).to_have_value("Lower them.")
        editing = window.chat.get_by_text("Editing an earlier message.")
        await expect(editing).to_be_visible()
        await window.pictures("edit-and-resend")
        await window.button("Cancel").click()
        await expect(editing).to_have_count(0)
        await expect(window.composer).to_have_value("Half a thought")
        await first.hover()
        await window.button("Edit and resend", first).click()
        await expect(window.composer).to_have_value("Lower them.")
        await window.composer.fill("Raise them.")
        await window.composer.press("Enter")
        await expect(dialog(window)).to_contain_text("rates.py")
        await dialog_button(window, "Revert Files").click()
        await until(lambda: rates.read_text() == RATES, "the file as it was")
        await expect(window.answers().last).to_contain_text("Two.")
        # It took the place of the first one, for the model, too.
        await expect(window.chat.get_by_role("article", name="You")).to_have_text(["Raise them."])
        assert "Lower them." not in str(model.requests[-1].json["messages"])

        await window.say("And tell me why.")
        await expect(window.chat.get_by_role("alert")).to_be_visible()
        await window.pictures("turn-failed")
        await window.button("Retry").click()
        await expect(window.answers().last).to_contain_text("Three.")
        await expect(window.chat.get_by_role("article", name="You").last).to_contain_text("And tell me why.")
        await expect(window.button("Retry")).to_have_count(0)

        await window.say("Take your time.")
        await expect(window.answers().last).to_contain_text("Four")
        await window.button("Stop").click()
        await window.button("Continue").click()
        await expect(window.answers().last).to_contain_text("Five.")
        assert "Continue where you stopped." in str(model.requests[-1].json)

        # A fork from the second message: what was said before it, and its text in the composer.
        title = window.chat.get_by_role("heading", level=1)
        said = window.chat.get_by_role("article", name="You")
        await said.nth(1).hover()
        await window.button("Fork from here", said.nth(1)).click()
        await expect(title).to_have_text("Fork: Raise them.")
        await expect(said).to_have_count(1)
        await expect(window.chat.get_by_text('Forked from "Raise them."')).to_be_visible()
        await expect(window.composer).to_have_value("And tell me why.")
        await window.pictures("fork")
        await window.composer.press("Enter")
        await expect(window.answers().last).to_contain_text("Six.")
        before, after = (model.requests[at].json["messages"] for at in (4, -1))
        assert json.dumps(after[:-1]) == json.dumps(before[:-1])
        # The session that it came from is as it was.
        await window.command("Goalwright: New Session")
        recent = window.chat.get_by_role("region", name="Recent sessions")
        await recent.get_by_role("button", name=re.compile("^Raise them")).click()
        await expect(said.last).to_contain_text("Continue where you stopped.")


async def test_conflict_is_shown_with_both_sides_and_changes_nothing(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    async with with_model(set_rates(workspace)) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await have_it_done(window, ASKED, SET)
        mine = PROPOSED.replace("LOCAL = 350", "LOCAL = 333  # agreed with the post office")
        rates.write_text(mine)
        await window.button("Undo", window.tool("write", "done")).click()
        await expect(dialog(window)).to_contain_text("agreed with the post office")
        await expect(dialog(window)).to_contain_text("LOCAL = 400")
        await window.pictures("conflict")
        await dialog_button(window, "Open File").click()
        await expect(window.tab("rates.py")).to_be_visible()
    assert rates.read_text() == mine


async def test_file_changes_of_a_goal_are_undone_from_the_goal_tree(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    replies = [
        task.call("goal", add=["Lower the rates"]),
        task.call("goal", focus="1"),
        *set_rates(workspace)[:2],
        task.call("goal", done="lower"),
        Reply(text=SET),
    ]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await have_it_done(window, ASKED, SET)
        assert rates.read_text() == PROPOSED
        await window.choose("1 Lower the rates, completed", "Undo This Goal's File Changes", dialog(window))
        await expect(dialog(window)).to_contain_text("rates.py +2 −2")
        await dialog_button(window, "Undo").click()
        await expect(window.chat.get_by_text(re.compile("Reverted 1 change for the goal"))).to_be_visible()
    assert rates.read_text() == RATES
