"""A file with unsaved changes in real VS Code: the agent changes the buffer, and the person's text stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenVSCode
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import RATES, SET, environment, make_parcels, read
from tests.fakes.model_replies import Reply
from tests.fakes.model_server import ModelServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.timeout(300)

PLACE = "def far(weight: int) -> int:"
REMARK = "  # as the crow flies, 😀"


@pytest.fixture
def workspace(scratch: Path) -> Path:
    folder = make_parcels(scratch / "parcels")
    (folder / ".vscode").mkdir()
    # In the browser VS Code saves by itself otherwise.
    (folder / ".vscode" / "settings.json").write_text('{"files.autoSave": "off"}')
    return folder


async def test_an_edit_of_a_file_with_unsaved_changes_keeps_them_and_can_be_undone_in_the_editor(
    open_vscode: OpenVSCode, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    edit = task.call(
        "edit",
        file_path=str(rates),
        old_string=f'{PLACE}{REMARK}\n    """Rate within the country."""\n    return 2 *',
        new_string=f'{PLACE}{REMARK}\n    """Rate within the country."""\n    return 3 *',
    )
    replies = [read(rates), edit, Reply(text=SET)]
    async with ModelServer(replies) as model, open_vscode(environment(model)) as window:
        await window.show_chat()
        await window.widen_chat(120)
        await window.open_file("rates.py")
        await window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).click()
        await window.page.keyboard.press("End")
        await window.page.keyboard.insert_text(REMARK)
        await window.say("Make far parcels dearer.")
        await expect(window.approval).to_be_visible()
        assert rates.read_text() == RATES
        await window.button("Accept", window.approval).click()
        await expect(window.answers().last).to_contain_text(SET)
        typed = RATES.replace(PLACE, PLACE + REMARK)
        await until(lambda: rates.read_text() == typed.replace("2 *", "3 *"), "the edit, saved")

        await window.open_file("rates.py")
        await window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).click()
        await window.page.keyboard.press("ControlOrMeta+Z")
        await window.page.keyboard.press("ControlOrMeta+S")
        await until(lambda: rates.read_text() == typed, "the editor's own undo")
