"""Approval by hunk and by editing in real VS Code: the files contain what the user chose or typed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import (
    ASKED,
    CHEAPER,
    DEARER,
    PROPOSED,
    RATES,
    SET,
    make_parcels,
    read,
    set_rates,
    write,
)
from tests.e2e.vscode.window import Window
from tests.support.drivers.live_files import files_with
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

CHEAPEST = "LOCAL = 300"
CARRIERS = "# Carriers\n\nZeppelin\n"


@pytest.fixture
def workspace(ground: Path) -> Path:
    folder = make_parcels(ground)
    # As on the desktop: in the browser VS Code saves by itself.
    settings(folder, {"files.autoSave": "off"})
    return folder


def settings(folder: Path, values: Mapping[str, object]) -> None:
    """Write the workspace's settings of VS Code."""
    file = folder / ".vscode" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(values))


def hunk(window: Window, number: int, of: int = 2) -> Locator:
    return window.approval.get_by_role("checkbox", name=f"Accept hunk {number} of {of}", exact=True)


async def replace_in_diff(window: Window, line: str, text: str) -> None:
    """Replace a whole line on the proposed side, as users do with the keyboard."""
    modified = window.diff.locator(".editor.modified")
    await modified.locator(
        ".view-line", has_text=re.compile(rf"^{re.escape(line)}".replace(r"\ ", r"\s"))
    ).click()
    await window.page.keyboard.press("End")
    await window.page.keyboard.press("Shift+Home")
    await window.page.keyboard.type(text)
    await expect(modified).to_contain_text(re.compile(re.escape(text).replace(r"\ ", r"\s")))


async def test_only_the_accepted_one_of_two_hunks_is_written(with_model: WithModel, workspace: Path) -> None:
    async with with_model(set_rates(workspace)) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say(ASKED)
        await expect(window.accept).to_be_visible()
        await expect(window.diff).to_contain_text(re.compile(r"6\s\*\sLOCAL"))
        await hunk(window, 2).uncheck()
        await expect(window.button("Apply 1 of 2 hunks", window.approval)).to_be_enabled()
        # The diff editor shows what would be written.
        await expect(window.diff).not_to_contain_text(re.compile(r"6\s\*\sLOCAL"))
        await expect(window.diff).to_contain_text(re.compile(r"LOCAL\s=\s350"))
        await window.pictures("hunks")

        await hunk(window, 1).uncheck()
        await expect(window.button("Apply 0 of 2 hunks", window.approval)).to_be_disabled()
        await hunk(window, 1).check()
        # The keyboard accepts what the card says.
        await window.page.keyboard.press("Shift+Alt+Y")

        await expect(window.answers().last).to_contain_text(SET)
        await expect(window.tool("write", "done")).to_contain_text("edited by you")
        await expect(window.tab("proposed by Goalwright")).to_have_count(0)
        assert "6 * LOCAL" in str(model.requests[2].json["messages"][-1])
    assert (workspace / "rates.py").read_text() == RATES.replace(*CHEAPER)


async def test_proposal_edited_by_the_user_is_written_as_edited(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model(set_rates(workspace)) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say(ASKED)
        await expect(window.approval).to_be_visible()
        await replace_in_diff(window, CHEAPER[1], CHEAPEST)
        await expect(window.page.locator(".tabs-container .tab.dirty")).to_be_visible()
        await expect(window.approval).to_contain_text("edited by you")
        await expect(window.button("Apply as edited", window.approval)).to_be_enabled()
        await expect(hunk(window, 1)).to_have_count(0)
        # The card shows what the user made of it.
        await expect(window.approval.get_by_role("table").first).to_contain_text(CHEAPEST)
        await expect(window.approval.get_by_role("table").first).not_to_contain_text(CHEAPER[1])
        await window.pictures("edited")
        # Not saved: what stands in the editor counts, and nobody asks whether to save it.
        await window.title_action("Accept").click()

        await expect(window.answers().last).to_contain_text(SET)
        await expect(window.tab("proposed by Goalwright")).to_have_count(0)
        await expect(window.page.locator(".monaco-dialog-box")).to_have_count(0)
        await expect(window.tool("write", "done")).to_contain_text("edited by you")
        assert CHEAPEST in str(model.requests[2].json["messages"][-1])
    assert (workspace / "rates.py").read_text() == PROPOSED.replace(CHEAPER[1], CHEAPEST)


async def test_edits_of_a_proposal_survive_reload_and_can_be_discarded(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model(set_rates(workspace)) as (_model, window):
        await window.show_chat()
        await window.say(ASKED)
        await expect(window.approval).to_be_visible()
        await replace_in_diff(window, CHEAPER[1], CHEAPEST)
        await expect(window.approval).to_contain_text("edited by you")
        backups = window.server.folder / "user" / "User" / "Backups"
        await until(lambda: files_with(backups, CHEAPEST), "VS Code's backup of the unsaved editor")

        await window.reload()
        await window.show_chat()
        await expect(window.approval).to_contain_text("edited by you")
        await expect(window.diff.locator(".editor.modified")).to_contain_text(re.compile(r"LOCAL\s=\s300"))
        await window.button("Discard my edits", window.approval).click()
        await expect(window.approval).not_to_contain_text("edited by you")
        await expect(window.diff.locator(".editor.modified")).to_contain_text(re.compile(r"LOCAL\s=\s350"))
        await expect(hunk(window, 1)).to_be_enabled()
        await window.accept.click()

        await expect(window.answers().last).to_contain_text(SET)
        await expect(window.tab("proposed by Goalwright")).to_have_count(0)
    assert (workspace / "rates.py").read_text() == PROPOSED


async def test_unencodable_edit_is_refused_on_the_card_and_kept(
    with_model: WithModel, workspace: Path
) -> None:
    file = workspace / "carriers.md"
    latin = "# Träger\n\nMöwe\n".encode("latin-1")
    file.write_bytes(latin)
    replies = [read(file), write(file, "# Träger\n\nMöwe\nSchnecke\n"), Reply(text="Two carriers.")]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.say("Add the snail.")
        await expect(window.approval).to_be_visible()
        await replace_in_diff(window, "Schnecke", "Schnecke 5 ✈")
        await expect(window.approval).to_contain_text("edited by you")
        await window.button("Apply as edited", window.approval).click()
        await expect(window.approval.get_by_role("alert")).to_be_visible()
        await expect(window.approval).to_contain_text("edited by you")
        assert file.read_bytes() == latin
        await window.pictures("refused")

        await replace_in_diff(window, "Schnecke", "Schnecke 5 km/h")
        await expect(window.button("Apply as edited", window.approval)).to_be_enabled()
        await window.button("Apply as edited", window.approval).click()
        await expect(window.answers().last).to_contain_text("Two carriers.")
    assert file.read_bytes() == latin + "Schnecke 5 km/h\n".encode("latin-1")


async def test_approval_leaves_out_one_file_and_shows_a_rename(
    with_model: WithModel, workspace: Path
) -> None:
    (workspace / "carriers.md").write_text(CARRIERS)
    patch = """*** Begin Patch
*** Update File: rates.py
@@
-LOCAL = 400
+LOCAL = 350
*** Update File: carriers.md
*** Move to: docs/carriers.md
@@
-Zeppelin
+Snail
*** Add File: notes.txt
+Nobody asked for this.
*** End Patch"""
    replies = [
        read(workspace / "rates.py"),
        read(workspace / "carriers.md"),
        task.call("patch", patch_text=patch),
        Reply(text="Done."),
    ]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say(ASKED)
        await expect(window.approval).to_contain_text("carriers.md → docs/carriers.md")
        await window.approval.get_by_role("checkbox", name="Accept notes.txt", exact=True).uncheck()
        await expect(window.button("Apply 2 of 3 files", window.approval)).to_be_enabled()
        # One editor shows all files, and the first one can be decided there.
        await expect(window.tab("Proposed by Goalwright (3 files)")).to_be_visible()
        await expect(window.tab("proposed by Goalwright")).to_have_count(1)
        await expect(window.title_action("Accept All")).to_be_visible()
        await window.pictures("files")
        await window.button("Accept file rates.py", window.approval).click()
        await expect(window.approval).to_contain_text("accepted")
        assert (workspace / "rates.py").read_text() == RATES
        await window.button("Apply 2 of 3 files", window.approval).click()
        await expect(window.answers().last).to_contain_text("Done.")
    assert (workspace / "rates.py").read_text() == RATES.replace(*CHEAPER)
    assert (workspace / "docs" / "carriers.md").read_text() == CARRIERS.replace("Zeppelin", "Snail")
    assert not (workspace / "carriers.md").exists()
    assert not (workspace / "notes.txt").exists()


async def test_diff_editor_arrow_reverts_and_hunks_toggle_by_keyboard(
    with_model: WithModel, workspace: Path
) -> None:
    # VS Code saves by itself in the moment in which the edits are discarded.
    settings(workspace, {"files.autoSave": "afterDelay", "files.autoSaveDelay": 400})
    arrows = ".gutter .codicon-discard"
    async with with_model(set_rates(workspace)) as (_model, window):
        await window.show_chat()
        await window.say(ASKED)
        await expect(window.accept).to_be_visible()
        for _ in range(3):
            await expect(window.diff.locator(arrows)).to_have_count(2)
            await window.diff.locator(arrows).last.click()
            await expect(window.approval).to_contain_text("edited by you")
            await expect(window.diff).not_to_contain_text(re.compile(r"6\s\*\sLOCAL"))
            await window.button("Discard my edits", window.approval).click()
            await expect(window.diff).to_contain_text(re.compile(r"6\s\*\sLOCAL"))
            await expect(window.approval).not_to_contain_text("edited by you")

        await hunk(window, 1).focus()
        await window.page.keyboard.press("Space")
        await expect(window.button("Apply 1 of 2 hunks", window.approval)).to_be_enabled()
        await window.page.keyboard.press("Shift+Tab")
        await window.page.keyboard.press("Shift+Alt+Y")
        await expect(window.answers().last).to_contain_text(SET)
    assert (workspace / "rates.py").read_text() == RATES.replace(*DEARER)


async def test_unused_edit_of_a_proposal_is_offered_to_the_user(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model(set_rates(workspace)) as (_model, window):
        await window.show_chat()
        await window.say(ASKED)
        await expect(window.approval).to_be_visible()
        await replace_in_diff(window, CHEAPER[1], CHEAPEST)
        await expect(window.approval).to_contain_text("edited by you")
        await window.button("Stop").click()

        offer = window.notification("Your edits of rates.py were not used")
        await expect(window.tab("proposed by Goalwright")).to_have_count(0)
        await offer.get_by_role("button", name="Open My Text").click()
        await expect(window.page.locator(".monaco-editor .view-lines").first).to_contain_text(
            re.compile(r"LOCAL\s=\s300")
        )
    assert (workspace / "rates.py").read_text() == RATES


async def test_three_edits_of_a_step_are_one_review_and_one_click(
    with_model: WithModel, workspace: Path
) -> None:
    names = ("a.md", "b.md", "c.md")
    calls = tuple(
        Call("write", {"file_path": str(workspace / name), "content": f"# {name}\n"}) for name in names
    )
    again = tuple(
        Call("write", {"file_path": str(workspace / name), "content": f"other {name[0]}\n"}) for name in names
    )
    replies = [
        Reply(tool_calls=calls),
        Reply(text="Written."),
        Reply(tool_calls=again),
        Reply(text="Stopped."),
    ]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.say("Write three files.")
        await expect(window.tab("Proposed by Goalwright (3 files)")).to_be_visible()
        await expect(window.page.locator(".monaco-diff-editor")).to_have_count(3)
        await expect(window.tab("proposed by Goalwright")).to_have_count(1)
        await window.pictures("three-edits")
        assert not list(workspace.glob("*.md"))
        await window.button("Accept all 3 edits").click()
        await expect(window.answers().last).to_contain_text("Written.")
        await expect(window.tab("Proposed by Goalwright")).to_have_count(0)
        assert [(workspace / name).read_text() for name in names] == [f"# {name}\n" for name in names]

        # In the editor: the file with the caret is accepted alone, and the others go on.
        await window.say("Write them again.")
        await expect(window.tab("Proposed by Goalwright (3 files)")).to_be_visible()
        second = window.diff.filter(has_text=re.compile(r"other\sb")).locator(".editor.modified")
        await second.locator(".view-line", has_text=re.compile(r"other\sb")).click()
        await window.title_action("Accept File").click()
        await expect(window.tab("Proposed by Goalwright (2 files)")).to_be_visible()
        await window.button("Reject all").click()
        await expect(window.tab("Proposed by Goalwright")).to_have_count(0)
        await until(lambda: (workspace / "b.md").read_text() == "other b\n", "the accepted file")
        assert (workspace / "a.md").read_text() == "# a.md\n"
        assert (workspace / "c.md").read_text() == "# c.md\n"
