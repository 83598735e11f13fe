"""Open files in real VS Code: the agent changes the buffer, the user's text stays, and the editor's undo works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import RATES, SET, make_parcels, read
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

PLACE = "def far(weight: int) -> int:"
REMARK = "  # as the crow flies, 😀"


@pytest.fixture
def workspace(ground: Path) -> Path:
    folder = make_parcels(ground)
    (folder / ".vscode").mkdir()
    # In the browser VS Code saves by itself otherwise.
    (folder / ".vscode" / "settings.json").write_text('{"files.autoSave": "off"}')
    return folder


async def test_edit_of_an_unsaved_buffer_keeps_it_and_can_be_undone(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    edit = task.call(
        "edit",
        file_path=str(rates),
        old_string=f'{PLACE}{REMARK}\n    """Rate within the country."""\n    return 2 *',
        new_string=f'{PLACE}{REMARK}\n    """Rate within the country."""\n    return 3 *',
    )
    replies = [read(rates), edit, Reply(text=SET)]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.open_file("rates.py")
        await window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).click()
        await window.page.keyboard.press("End")
        await window.page.keyboard.insert_text(REMARK)
        await window.say("Make far parcels dearer.")
        await expect(window.approval).to_be_visible()
        assert rates.read_text() == RATES
        await window.accept.click()
        await expect(window.answers().last).to_contain_text(SET)
        typed = RATES.replace(PLACE, PLACE + REMARK)
        await until(lambda: rates.read_text() == typed.replace("2 *", "3 *"), "the edit, saved")

        await window.open_file("rates.py")
        await expect(window.tab("rates.py")).not_to_have_class(re.compile("dirty"))
        await window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).click()
        await window.page.keyboard.press("ControlOrMeta+Z")
        await expect(window.tab("rates.py")).to_have_class(re.compile("dirty"))
        await window.page.keyboard.press("ControlOrMeta+S")
        await until(lambda: rates.read_text() == typed, "the editor's own undo")


EDIT = {"old_string": "return 5 * LOCAL + weight", "new_string": "return 6 * LOCAL + weight"}
DEARER = RATES.replace("5 * LOCAL", "6 * LOCAL")


async def test_an_edit_of_an_open_file_can_be_undone_in_the_editor(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    replies = [read(rates), task.call("edit", file_path=str(rates), **EDIT), Reply(text=SET)]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.open_file("rates.py")
        await window.say("Make parcels abroad dearer.")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text(SET)
        await until(lambda: rates.read_text() == DEARER, "the edit, saved")

        await window.open_file("rates.py")
        await expect(window.tab("rates.py")).not_to_have_class(re.compile("dirty"))
        await window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).click()
        await window.page.keyboard.press("ControlOrMeta+Z")
        await expect(window.tab("rates.py")).to_have_class(re.compile("dirty"))
        await window.page.keyboard.press("ControlOrMeta+S")
        await until(lambda: rates.read_text() == RATES, "the editor's own undo")


async def test_the_tab_of_an_open_file_follows_when_it_is_moved(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    move = (
        f"*** Begin Patch\n*** Update File: {rates}\n*** Move to: {workspace}/post/prices.py\n@@\n"
        "-LOCAL = 400\n+LOCAL = 350\n*** End Patch\n"
    )
    replies = [read(rates), task.call("patch", patch_text=move), Reply(text=SET)]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.open_file("rates.py")
        await window.say("Move the rates.")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text(SET)
        moved = workspace / "post" / "prices.py"
        await until(moved.exists, "the moved file")
        assert moved.read_text() == RATES.replace("400", "350")
        assert not rates.exists()
        await expect(window.tab("prices.py")).to_be_visible()
        await expect(window.tab("rates.py")).to_have_count(0)


async def test_file_renamed_by_the_user_can_still_be_edited(with_model: WithModel, workspace: Path) -> None:
    rates, prices = workspace / "rates.py", workspace / "prices.py"
    replies = [
        read(rates),
        Reply(text="Seen."),
        task.call("edit", file_path=str(prices), **EDIT),
        Reply(text=SET),
    ]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.open_file("rates.py")
        await window.say("Read the rates.")
        await expect(window.answers().last).to_contain_text("Seen.")
        await window.rename("rates.py", "prices.py")
        await until(prices.exists, "the renamed file")
        await expect(window.tab("prices.py")).to_be_visible()
        await window.say("Make parcels abroad dearer.")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text(SET)
        await until(lambda: prices.read_text() == DEARER, "the edit")


async def test_pending_edit_survives_a_window_reload(with_model: WithModel, workspace: Path) -> None:
    rates = workspace / "rates.py"
    replies = [read(rates), task.call("edit", file_path=str(rates), **EDIT), Reply(text=SET)]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.open_file("rates.py")
        await window.say("Make parcels abroad dearer.")
        await expect(window.approval).to_be_visible()
        await window.reload()
        assert rates.read_text() == RATES
        await window.show_chat()
        await window.accept.click()
        await until(lambda: rates.read_text() == DEARER, "the edit, after the reload")
        await expect(window.answers().last).to_contain_text(SET)
