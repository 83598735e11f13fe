"""The composer in real VS Code: names and commands with completion, the active file, earlier prompts, drafts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import Configure, WithModel
from tests.e2e.vscode.parcels import make_parcels
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply
from tests.support.programs import mcp_server

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(ground: Path) -> Path:
    folder = make_parcels(ground)
    (folder / "docs").mkdir()
    (folder / "docs/carriers.md").write_text("# Carriers\n\nThe night post.\n")
    commands = folder / ".goalwright" / "commands"
    commands.mkdir(parents=True)
    (commands / "price.md").write_text(
        "---\ndescription: Check a price\n---\nCheck the price of $ARGUMENTS.\n"
    )
    return folder


def suggestions(window: Window) -> Locator:
    """The open list."""
    return window.chat.get_by_role("listbox", name="Suggestions")


def chips(window: Window) -> Locator:
    """Return the attachments of the next prompt."""
    return window.chat.get_by_role("list", name="Attachments")


async def test_composer_completes_names_and_attaches_the_active_file(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [
        Reply(text="First answer."),
        Reply(text="Second answer."),
        Reply(text="Third answer."),
        Reply(text="Named answer."),
        Reply(text="Fourth answer."),
    ]
    async with with_model(replies) as (model, window):
        await window.open_file("rates.py")
        await window.show_chat()
        await expect(chips(window)).to_contain_text("rates.py")

        # @ lists files, folders and the fixed kinds; arrows and Enter choose.
        await window.composer.click()
        await window.page.keyboard.type("Read @carr")
        row = suggestions(window).get_by_role("option", name=re.compile("carriers.md"))
        await expect(row).to_have_attribute("aria-selected", "true")
        field = window.chat.get_by_role("combobox", name="Message Goalwright")
        await expect(field).to_have_attribute("aria-activedescendant", "completions-0")
        await window.pictures("composer-mention")
        await window.page.keyboard.press("Enter")
        await expect(window.composer).to_have_value("Read @docs/carriers.md ")
        await expect(window.button("Remove docs/carriers.md")).to_be_visible()
        await window.button("carriers.md", chips(window)).click()
        await expect(window.tab("carriers.md")).to_be_visible()
        await expect(window.button("Tell the agent about docs/carriers.md")).to_be_visible()
        await window.composer.press("Enter")
        await expect(window.answers().last).to_contain_text("First answer.")
        sent = str(model.requests[0].json)
        assert '<file name="docs/carriers.md">' in sent, sent
        assert "[open in the user's editor: " not in sent, "it is attached already"
        said = window.chat.get_by_role("article", name="You").first
        await expect(window.button("carriers.md", said)).to_be_visible()

        # Deleting the words takes the file away, and one click leaves the active one out.
        await window.composer.click()
        await window.page.keyboard.type("@rat")
        await suggestions(window).get_by_role("option", name=re.compile("rates.py")).click()
        await expect(window.button("Remove rates.py")).to_be_visible()
        await window.composer.fill("")
        await expect(window.button("Remove rates.py")).to_have_count(0)
        await window.open_file("rates.py")
        await window.page.keyboard.press("Control+g")
        # The box opens a moment after its key, and the editor has the focus again a moment after it: keys in between
        # would be typed into the file, or be lost.
        line = window.page.locator(".quick-input-widget input.input")
        await expect(line).to_be_focused()
        await line.fill(":3")
        await line.press("Enter")
        await expect(window.page.locator(".part.editor .monaco-editor.focused")).to_be_visible()
        await window.page.keyboard.press("Shift+ArrowDown")
        await expect(chips(window)).to_contain_text("rates.py:3")
        await window.composer.click()
        await window.page.keyboard.type("See @sel")
        await expect(suggestions(window).get_by_role("option").first).to_contain_text("@selection")
        await window.page.keyboard.press("Enter")
        await expect(window.button("Remove rates.py:3")).to_be_visible()
        await window.page.keyboard.type("now")
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("Second answer.")
        assert '<file name="rates.py:3">\\nLOCAL = 400' in str(model.requests[1].json)
        await window.composer.fill("Go on")
        await window.composer.press("Enter")
        await expect(window.answers().last).to_contain_text("Third answer.")
        assert "[open in the user's editor: rates.py:3]" in str(model.requests[2].json)
        await window.pictures("composer-chips")
        active = window.button("Tell the agent about rates.py:3")
        await active.click()
        await expect(active).to_have_attribute("aria-pressed", "false")

        # Goals and other sessions have a list of their own, which comes at once; an empty one says so.
        await window.composer.click()
        await window.page.keyboard.type("@goa")
        await expect(suggestions(window).get_by_role("option").first).to_contain_text("@goal")
        await window.page.keyboard.press("Enter")
        await expect(window.composer).to_have_value("@goal ")
        await expect(window.chat.get_by_text("This session has no goals yet.")).to_be_visible()
        await window.composer.fill("")
        await window.page.keyboard.type("@sess")
        await expect(suggestions(window).get_by_role("option").first).to_contain_text("@session")
        await window.page.keyboard.press("Enter")
        await expect(window.chat.get_by_text("There are no other sessions.")).to_be_visible()
        await window.composer.fill("")

        # What there is nothing of is said in the composer, and its words go.
        await window.page.keyboard.type("See @prob")
        await expect(suggestions(window).get_by_role("option").first).to_contain_text("@problems")
        await window.page.keyboard.press("Enter")
        await expect(window.chat.get_by_text("There are no errors or warnings to attach.")).to_be_visible()
        await expect(window.composer).to_have_value("See ")
        await expect(window.notification(re.compile(".*"))).to_have_count(0)
        await window.pictures("composer-nothing")

        # A name that is written in full is attached like a chosen one, and a folder by its listing.
        await window.composer.fill("")
        await window.page.keyboard.insert_text("Compare @rates.py:3-4 and @nowhere.py with ")
        await expect(window.button("Remove rates.py:3-4")).to_be_visible()
        await window.page.keyboard.type("@doc")
        await suggestions(window).get_by_role("option", name="docs/").click()
        await expect(window.button("Remove docs/")).to_be_visible()
        await window.pictures("composer-named")
        await window.page.keyboard.insert_text("and @rates.py")
        # Nothing is left to complete: Enter sends.
        await expect(suggestions(window).get_by_role("option", name="rates.py").first).to_be_visible()
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("Named answer.")
        sent = str(model.requests[3].json["messages"][-1])
        for part in (
            '<file name="rates.py:3-4">',
            '<file name="docs/">\\ndocs/carriers.md',
            '<file name="rates.py">',
        ):
            assert part in sent, sent

        # / lists commands, the user's own among them.
        await window.composer.click()
        await window.page.keyboard.type("/")
        await expect(suggestions(window).get_by_role("option", name="/compact")).to_be_visible()
        await window.pictures("composer-commands")
        await window.page.keyboard.type("pri")
        await expect(suggestions(window).get_by_role("option")).to_have_count(1)
        await window.page.keyboard.press("Tab")
        await expect(window.composer).to_have_value("/price ")
        await window.page.keyboard.type("parcels")
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("Fourth answer.")
        last = model.requests[4].json["messages"][-1]
        assert "Check the price of parcels." in str(last), last
        # It is shown as it was typed; the text for the model is behind it, folded.
        said = window.chat.get_by_role("article", name="You").last
        await expect(said).to_contain_text("/price parcels")
        await window.button("Prompt sent to the model", said).click()
        await expect(said).to_contain_text("Check the price of parcels.")
        assert "open in the user's editor" not in str(last), last

        # A slip stays in the field, and says what is wrong.
        await window.say("/comapct")
        await expect(window.notification("There is no command /comapct")).to_be_visible()
        await expect(window.composer).to_have_value("/comapct")
        await window.composer.fill("")

        # Up and Down go through the earlier prompts.
        await window.composer.press("ArrowUp")
        await expect(window.composer).to_have_value("/price parcels")
        await window.composer.press("ArrowUp")
        await window.composer.press("ArrowUp")
        await expect(window.composer).to_have_value("Go on")
        await window.composer.press("ArrowDown")
        await window.composer.press("ArrowDown")
        await window.composer.press("ArrowDown")
        await expect(window.composer).to_have_value("")

        # Each session has a draft of its own; a command runs as soon as it is chosen.
        await window.composer.fill("Half a thought")
        await window.new_session()
        await expect(window.composer).to_have_value("")
        await window.composer.click()
        await window.page.keyboard.type("/mod")
        await expect(suggestions(window).get_by_role("option").first).to_contain_text("/model")
        await window.page.keyboard.press("Enter")
        await expect(window.page.locator(".quick-input-widget")).to_contain_text("Connect a Model")
        await window.page.keyboard.press("Escape")
        await window.chat.get_by_role("region", name="Recent sessions").get_by_role("button").first.click()
        await expect(window.composer).to_have_value("Half a thought")
        await until(lambda: len(model.requests) == 5, "no request but for the prompts")


async def test_prompts_and_resources_of_servers(
    with_model: WithModel, workspace: Path, configure: Configure
) -> None:
    config = configure(mcp_servers={"sample": {"command": sys.executable, "args": [mcp_server.__file__]}})
    async with with_model([Reply(text="First answer.")]) as (model, window):
        await window.show_chat()
        await window.composer.click()
        await window.page.keyboard.type("/")
        await expect(suggestions(window).get_by_role("option", name="/compact")).to_be_visible()
        await window.page.keyboard.type("rev")
        row = suggestions(window).get_by_role("option", name=re.compile("mcp__sample__review <path>"))
        await expect(row).to_be_visible(timeout=60_000)  # the server starts
        await window.pictures("composer-mcp-prompts")
        await row.click()
        await expect(window.composer).to_have_value("/mcp__sample__review ")
        await window.page.keyboard.type("rates.py as in @gui")
        await suggestions(window).get_by_role("option", name=re.compile("The guide")).click()
        await window.page.keyboard.type("@sample:")
        await expect(suggestions(window).get_by_role("option")).to_have_count(5)
        await window.pictures("composer-mcp-resources")
        await window.page.keyboard.press("Escape")
        for _ in range(len("@sample:")):
            await window.page.keyboard.press("Backspace")
        await expect(window.composer).to_have_value(
            "/mcp__sample__review rates.py as in @sample:docs://guide "
        )
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("First answer.")
        sent = str(model.requests[0].json["messages"][-1])
        assert "Review rates.py in a as in @sample:docs://guide way." in sent
        assert "<mcp_resource>\\nRead this first." in sent
        said = window.chat.get_by_role("article", name="You").last
        await expect(said).to_contain_text("/mcp__sample__review rates.py")
        await window.pictures("composer-mcp-sent")

        await window.command("Goalwright: MCP Servers…")
        box = window.page.locator(".quick-input-widget")
        await expect(box).to_contain_text(re.compile(r"ready, tools: \d+, prompts: 2, resources: 5"))
        await window.pictures("mcp-servers")
        await box.get_by_label("Choose tools").first.click()
        await expect(box).to_contain_text("Tools of sample")
        await window.pictures("mcp-tools")
        await box.get_by_role("checkbox", name=re.compile("^echo")).first.click()
        await window.page.keyboard.press("Enter")
        await until(lambda: "sample/echo" in config.read_text(), "the setting")


async def test_sessions_are_renamed_found_pinned_exported_and_deleted(
    with_model: WithModel, workspace: Path
) -> None:
    replies = [Reply(text="The ferry sails at noon."), Reply(text="Second answer.")]
    async with with_model(replies) as (_model, window):
        await window.show_chat()
        await window.say("When does it sail?")
        await expect(window.answers().last).to_contain_text("noon")
        title = window.chat.get_by_role("heading", level=1)
        await title.hover()
        await window.button("Rename session").click()
        box = window.page.locator(".quick-input-widget")
        await box.locator("input").fill("Timetable")
        await window.page.keyboard.press("Enter")
        await expect(title).to_have_text("Timetable")
        await window.new_session()
        await window.say("Something else")
        await expect(window.answers().last).to_contain_text("Second answer.")

        # By its text, and its row has buttons.
        await window.command("Goalwright: Open Session…")
        await box.locator("input.input").fill("ferry sails")
        row = box.get_by_role("option", name=re.compile("Timetable"))
        await expect(row).to_contain_text("The ferry sails at noon.")
        await row.hover()
        await row.get_by_label("Pin", exact=True).click()
        await box.locator("input.input").fill("")
        await expect(box.get_by_role("option").first).to_contain_text("Timetable")
        await window.pictures("sessions")

        await row.hover()
        await row.get_by_label("Export…").click()
        await expect(box).to_contain_text("Export Session")
        await expect(box.locator("input.input")).to_have_value(re.compile(r"\.tar\.gz$"))
        await box.get_by_role("button", name="OK").click()
        said = await window.notification("Exported to").text_content()
        archive = re.search(r"Exported to (\S+\.tar\.gz)", said or "")
        assert archive is not None, said
        assert Path(archive[1]).stat().st_size > 0

        await window.command("Goalwright: Open Session…")
        await row.hover()
        await row.get_by_label("Delete…").click()
        dialog = window.page.locator(".monaco-dialog-box")
        await expect(dialog).to_contain_text("Delete the session “Timetable”?")
        await dialog.get_by_role("button", name="Delete", exact=True).click()
        await expect(dialog).to_have_count(0)
        await window.command("Goalwright: Open Session…")
        await expect(box.get_by_role("option", name=re.compile("Something else"))).to_be_visible()
        await expect(row).to_have_count(0)
