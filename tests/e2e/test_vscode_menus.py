"""Goalwright's entries in VS Code's own menus: the editor's, the Explorer's, the terminal's and source control's."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode.parcels import make_parcels
from tests.e2e.vscode.window import Window
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

ADD = "Add to Goalwright Chat"
MESSAGE = "rates: charge by the gram"


@pytest.fixture
def workspace(ground: Path) -> Path:
    folder = make_parcels(ground)
    (folder / "labels").mkdir()
    (folder / "labels" / "fragile.txt").write_text("This side up.\n")
    for line in ("init -q -b main", "add .", "-c user.name=A -c user.email=a@b.c commit -qm first"):
        subprocess.run(["git", *line.split()], cwd=folder, check=True, timeout=60)
    return folder


async def from_menu(window: Window, of: Locator, item: str) -> None:
    """Choose an item of a context menu, which ignores clicks in its first moment."""
    row = window.page.locator(".context-view .action-label", has_text=re.compile(f"^{re.escape(item)}$"))
    await of.click(button="right")
    await expect(row).to_be_visible()
    while await row.count():
        with contextlib.suppress(PlaywrightError):
            await row.click(timeout=1_000)


async def test_menus_add_selections_files_and_folders(with_model: WithModel, workspace: Path) -> None:
    async with with_model([Reply(text="Read.")]) as (model, window):
        await window.show_chat()
        await window.open_file("rates.py")
        line = window.page.locator(".monaco-editor .view-line", has_text=re.compile(r"def\sfar")).first
        await line.click()
        await window.page.keyboard.press("Home")
        await window.page.keyboard.press("Shift+ArrowDown")
        await from_menu(window, line, ADD)
        await expect(window.composer).to_have_value("@rates.py:11 ")
        await from_menu(window, window.tab("rates.py"), ADD)
        await expect(window.composer).to_have_value("@rates.py:11 @rates.py ")
        await expect(window.composer).to_be_focused()
        labels = window.page.locator(".explorer-folders-view .monaco-list-row", has_text="labels")
        await from_menu(window, labels, ADD)
        await expect(window.composer).to_have_value("@rates.py:11 @rates.py @labels/ ")
        await window.pictures("menu-added")
        await window.page.keyboard.insert_text("Why?")
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("Read.")
    asked = str(model.requests[0].json["messages"][-1])
    assert "def far" in asked
    assert "labels/fragile.txt" in asked


async def test_a_commit_message_is_written_into_source_control(
    with_model: WithModel, workspace: Path
) -> None:
    rates = workspace / "rates.py"
    rates.write_text(rates.read_text().replace("LOCAL", "PER_GRAM"))
    async with with_model([Reply(text=MESSAGE)]) as (model, window):
        await window.show_chat()
        await window.command("Source Control: Focus on Changes View")
        changed = window.page.locator(".scm-view .resource", has_text="rates.py")
        await expect(changed).to_be_visible()
        await window.command("Goalwright: Write a Commit Message")
        await expect(window.page.locator(".scm-editor .view-lines")).to_contain_text(
            re.compile(r"rates:\scharge")
        )
        await window.pictures("commit-message")
    asked = str(model.requests[0].json["messages"])
    assert "PER_GRAM" in asked
    assert "first" in asked
