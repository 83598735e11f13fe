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

from daemon.store.files import FileTraceStore
from daemon.store.sql.store import SqlTraceStore
from tests.e2e.conftest import TEST_SETTINGS, OpenVSCode
from tests.e2e.shown_texts import zh
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import RATES, SET, environment, make_parcels
from tests.e2e.vscode.server import goalwright, write_settings
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.stores import ID, added, message, trace

OTHER = "20260101-000001-bbbbbb"

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(scratch: Path) -> Path:
    make_parcels(scratch / "letters")
    make_parcels(scratch / "parcels")
    file = scratch / "post.code-workspace"
    file.write_text(json.dumps({"folders": [{"path": "letters"}, {"path": "parcels"}]}))
    return file


@pytest.fixture
def daemons_end(workspace: Path, clean_env: dict[str, str]) -> Iterator[None]:
    """Each folder has a daemon of its own."""
    yield
    for folder in ("letters", "parcels"):
        goalwright("stop", "--force", workspace=workspace.parent / folder, env=clean_env)


def store_elsewhere(folder: Path, database: str) -> None:
    """Put two sessions into a database: one whose files are in another folder, and one of another machine."""
    files, copies = FileTraceStore(folder / ".trace"), SqlTraceStore.open(database, owner="bo")
    for session, where, title in (
        (ID, folder, "Harbour of letters"),
        (OTHER, Path("/elsewhere"), "Harbour far away"),
    ):
        made = trace(session, title=title, workspace=str(where))
        for store in (files, copies) if where == folder else (copies,):
            store.create(made)
            store.append(added(message(1, "Where is the lighthouse?", session)))
            store.close()


async def test_sessions_of_other_folders_are_found(
    open_vscode: OpenVSCode,
    workspace: Path,
    scratch: Path,
    clean_env: dict[str, str],
    daemons_end: None,
) -> None:
    database = f"sqlite:///{scratch}/traces.db"
    config = Path(clean_env["HOME"]) / ".goalwright" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "store_url": database}))
    store_elsewhere(workspace.parent / "letters", database)
    async with ModelServer([]) as model, open_vscode(environment(model)) as window:
        await window.show_chat()
        await window.button("Change folder").click()
        await window.page.locator(".quick-input-list .monaco-list-row", has_text="parcels").click()
        await expect(window.status_item()).to_contain_text("parcels")
        box = window.page.locator(".quick-input-widget")
        row = box.get_by_role("option")
        await window.command("Goalwright: Open Session…")
        await box.locator("input.input").fill("LIGHTHOUSE")
        await expect(row.filter(has_text="Harbour far away")).to_contain_text("elsewhere · bo")
        await expect(row.filter(has_text="Harbour of letters")).to_contain_text("Where is the lighthouse?")
        await window.pictures("sessions-elsewhere")
        await row.filter(has_text="Harbour far away").click()
        await expect(window.notification(f"goalwright trace copy URL files --trace {OTHER}")).to_be_visible()

        await window.command("Goalwright: Open Session…")
        await box.locator("input.input").fill("lighthouse")
        async with window.page.context.expect_page() as opened:
            await row.filter(has_text="Harbour of letters").click()
        other = Window(await opened.value, window.server)
        await other.show_chat()
        await expect(other.chat.get_by_role("heading", level=1)).to_have_text("Harbour of letters")
        await other.page.close()


async def test_folder_is_used_and_kept_when_the_language_changes(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path, daemons_end: None
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
