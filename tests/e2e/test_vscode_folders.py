"""A window with several folders in real VS Code: the user chooses one to work in, and the window remembers it.

It is reloaded as the user does it after a change of the language.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import TEST_SETTINGS, OpenVSCode
from tests.e2e.shown_texts import zh
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import RATES, SET, environment, make_parcels
from tests.e2e.vscode.server import goalwright, write_settings
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(scratch: Path) -> Path:
    make_parcels(scratch / "letters")
    make_parcels(scratch / "parcels")
    file = scratch / "post.code-workspace"
    file.write_text(json.dumps({"folders": [{"path": "letters"}, {"path": "parcels"}]}))
    return file


@pytest.fixture
def letters_daemon_ends(workspace: Path, clean_env: dict[str, str]) -> Iterator[None]:
    """Each folder has a daemon of its own; the window stops the one that it shows in the end."""
    yield
    goalwright("stop", "--force", workspace=workspace.parent / "letters", env=clean_env)


async def test_folder_is_used_and_kept_when_the_language_changes(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path, letters_daemon_ends: None
) -> None:
    parcels = workspace.parent / "parcels"
    write = task.call("write", file_path="new.py", content="x = 1\n")
    async with ModelServer([write, Reply(text=SET)]) as model, open_vscode(environment(model)) as window:
        await expect(window.status_item()).to_contain_text("letters")
        await window.show_chat()
        await expect(window.chat.get_by_text("Working in letters.")).to_be_visible()
        await window.button("Change folder").click()
        await window.page.locator(".quick-input-list .monaco-list-row", has_text="parcels").click()
        await expect(window.status_item()).to_contain_text("parcels")
        await window.show_chat()
        await window.say("Write it.")
        await window.accept.click()
        await expect(window.answers().last).to_contain_text(SET)
        await until((parcels / "new.py").exists, "the new file in the chosen folder")
        assert not (workspace.parent / "letters" / "new.py").exists()
        assert (parcels / "rates.py").read_text() == RATES

        chinese = {**TEST_SETTINGS, "goalwright.language": "zh-CN"}
        write_settings(scratch / "vscode", sys.executable, chinese)
        toast = window.notification("to use the new language")
        await toast.get_by_role("button", name="Reload Window").click()
        await expect(window.chat.get_by_role("textbox", name=zh("Message Goalwright"))).to_be_visible()
        assert await window.chat.locator("html").get_attribute("lang") == "zh-CN"
        await expect(window.status_item()).to_contain_text("parcels")
        await window.command("Goalwright: Show Graph")
        await expect(window.graph.get_by_role("checkbox", name="跟随")).to_be_visible()
        await window.command("Goalwright: Stop Daemon")
        await expect(window.status_item()).to_contain_text(zh("stopped"))
