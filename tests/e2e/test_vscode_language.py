"""VS Code in Chinese: by its display language, and by the setting."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import expect

from daemon.demo import PROMPT
from tests.e2e.conftest import OpenVSCode
from tests.e2e.shown_texts import english_names
from tests.e2e.vscode.install import ROOT

pytestmark = pytest.mark.timeout(300)

EXTENSION = ROOT / "vscode-extension"
BUNDLE: dict[str, str] = json.loads((EXTENSION / "l10n/bundle.l10n.zh-cn.json").read_text("utf-8"))
MANIFEST: dict[str, str] = json.loads((EXTENSION / "package.nls.zh-cn.json").read_text("utf-8"))


def zh(text: str, *values: str) -> str:
    """A text of the extension in Chinese."""
    translated = BUNDLE[text]
    for at, value in enumerate(values):
        translated = translated.replace(f"{{{at}}}", value)
    return translated


async def test_in_a_chinese_vs_code_chat_commands_and_goals_are_chinese(open_vscode: OpenVSCode) -> None:
    async with open_vscode(language="zh-cn") as window:
        await window.command(f"Goalwright: Focus on {MANIFEST['view.chat']} View")
        composer = window.chat.get_by_role("textbox", name=zh("Message Goalwright"))
        await expect(composer).to_be_visible()
        await expect(window.chat.get_by_text(zh("DEMO"), exact=True)).to_be_visible()
        await window.widen_chat(120)
        assert await english_names(window.chat.locator("#app")) == []
        await window.screenshot(ROOT / ".build/screenshots/chinese-welcome-dark.png")

        await composer.fill(PROMPT)
        await window.page.keyboard.press("Enter")
        approval = window.chat.get_by_role("region", name=zh("Approval needed"))
        await expect(approval).to_be_visible()
        await expect(window.diff).to_be_visible()
        for name in ("Apply", "Reject", "Always allow…", "Open diff"):
            await expect(approval.get_by_role("button", name=zh(name), exact=True)).to_be_visible()
        waiting = zh("Tool {0}: {1}", "edit", zh("waiting for approval"))
        await expect(window.chat.get_by_role("article", name=waiting)).to_be_visible()
        await expect(window.tab(re.compile("Goalwright 的提议"))).to_be_visible()
        await expect(
            window.page.locator(f'.pane-header[aria-label^="{MANIFEST["view.goals"]}"]')
        ).to_be_visible()
        # What the request is about, the daemon and the model say.
        theirs = "h1, td, td *, .tool *, .plan-change *, .markdown *, .message p"
        theirs += ", .goal-mark, .goal-mark *, .plan-head, .plan-head *"
        theirs += ", .only-spoken [aria-relevant] p"
        assert await english_names(window.chat.locator("#app"), except_for=theirs) == []
        await window.screenshot(ROOT / ".build/screenshots/chinese-dark.png")


async def test_the_setting_makes_the_chat_chinese_in_an_english_vs_code(open_vscode: OpenVSCode) -> None:
    async with open_vscode(settings={"goalwright.language": "zh-CN"}) as window:
        await window.command("Goalwright: Focus on Chat View")
        await expect(window.chat.get_by_role("textbox", name=zh("Message Goalwright"))).to_be_visible()
        assert await window.chat.locator("html").get_attribute("lang") == "zh-CN"
        await window.command("Goalwright: Show Graph")
        await expect(window.graph.get_by_role("button", name="打开聊天")).to_be_visible()
