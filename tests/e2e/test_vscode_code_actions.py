"""Code actions and code lenses in real VS Code: they are the daemon's by LSP, and lead into the chat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode.parcels import DEARER, RATES, SET, make_parcels, set_rates
from tests.e2e.vscode.window import Window
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

BROKEN = """{
  "local": 400,
  "far": 2 * 400,
  "abroad" 2000
}
"""
ANSWER = "JSON has no products: `far` is 800 now."


@pytest.fixture
def workspace(ground: Path) -> Path:
    folder = make_parcels(ground)
    (folder / "rates.json").write_text(BROKEN)
    return folder


def line(window: Window, text: str) -> Locator:
    pattern = re.compile(re.escape(text).replace(r"\ ", r"\s"))
    return window.page.locator(".monaco-editor .view-line", has_text=pattern).first


def lens(window: Window, title: str) -> Locator:
    return window.page.locator(".codelens-decoration a", has_text=re.compile(f"^{re.escape(title)}$"))


def action(window: Window, title: str | re.Pattern[str]) -> Locator:
    return window.page.locator(".action-widget .monaco-list-row", has_text=title)


async def quick_fix(window: Window, offered: Locator) -> None:
    """Ask for quick fixes until ``offered`` is among them: the daemon may not have heard of the file yet."""
    for _ in range(10):
        await window.command("Quick Fix...")
        try:
            await expect(offered).to_be_visible(timeout=5_000)
            return
        except AssertionError:
            await window.page.keyboard.press("Escape")
    await expect(offered).to_be_visible()


async def test_fix_with_goalwright_on_a_problem_opens_the_chat_with_it(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model([Reply(text=ANSWER)]) as (model, window):
        await window.show_chat()
        await window.open_file("rates.json")
        await expect(window.page.locator(".monaco-editor .squiggly-error").first).to_be_visible()
        await line(window, '"abroad"').click()
        await window.page.keyboard.press("End")
        fix = action(window, "Fix with Goalwright: ").first
        await quick_fix(window, fix)
        await expect(action(window, "problems of this file with Goalwright")).to_be_visible()
        await expect(action(window, "Explain with Goalwright: ")).to_be_visible()
        await window.pictures("code-action")
        await fix.click()

        said = window.chat.get_by_role("article", name="You", exact=True)
        await expect(said).to_contain_text(re.compile(r"Fix: .+ — rates\.json:\d"))
        await expect(said).not_to_contain_text("They are data")
        await expect(window.answers().last).to_contain_text("JSON has no products")
        await window.pictures("code-action-said")
        await said.get_by_role("button", name="Prompt sent to the model").click()
        await expect(said).to_contain_text("Fix this problem in @rates.json:")
        await expect(said).to_contain_text("They are data")
    prompt = str(model.requests[0].json["messages"][-1])
    assert "> error in line" in prompt
    assert "(json, " in prompt


async def test_a_question_about_the_selection_is_typed_in_the_chat(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model([Reply(text=ANSWER)]) as (model, window):
        await window.show_chat()
        await window.open_file("rates.py")
        await line(window, "def far").click()
        await window.page.keyboard.press("Home")
        await window.page.keyboard.press("Shift+ArrowDown")
        ask = action(window, "Ask Goalwright about the selection")
        await quick_fix(window, ask)
        await ask.click()
        await expect(window.composer).to_have_value("@rates.py:11 ")
        await expect(window.composer).to_be_focused()
        await window.page.keyboard.insert_text("Why two?")
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("JSON has no products")
    assert "@rates.py:11 Why two?" in str(model.requests[0].json["messages"][-1])


async def test_code_lenses_decide_hunks_in_sync_with_the_card(with_model: WithModel, workspace: Path) -> None:
    settings = workspace / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"goalwright.openDiffAutomatically": false}')
    async with with_model(set_rates(workspace)) as (_model, window):
        await window.show_chat()
        await window.open_file("rates.py")
        await window.say("Make local parcels cheaper.")
        await expect(window.approval).to_be_visible()
        await expect(lens(window, "Accept all 2 changes")).to_be_visible()
        await expect(lens(window, "Accept")).to_have_count(2)
        await window.pictures("code-lens")
        await lens(window, "Reject").first.click()
        await expect(lens(window, "Rejected (accept instead)")).to_be_visible()
        first = window.approval.get_by_role("checkbox", name="Accept hunk 1 of 2", exact=True)
        await expect(first).not_to_be_checked()
        await first.check()
        await lens(window, "Accepted (reject instead)").click()
        await expect(first).not_to_be_checked()
        await lens(window, "Accept").last.click()
        await expect(window.answers().last).to_contain_text(SET)
        await expect(lens(window, "Show diff")).to_have_count(0)
    assert (workspace / "rates.py").read_text() == RATES.replace(*DEARER)
