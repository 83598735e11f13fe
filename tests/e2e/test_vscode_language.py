"""VS Code in Chinese, by its display language. (By the setting: ``test_vscode_folders``.)"""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from daemon.demo import PROMPT
from tests.e2e.conftest import OpenVSCode
from tests.e2e.shown_texts import MANIFEST, english_names, zh

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


async def test_chinese_display_language_translates_the_whole_chat(open_vscode: OpenVSCode) -> None:
    async with open_vscode(language="zh-cn") as window:
        await window.command(f"Goalwright: Focus on {MANIFEST['view.chat']} View")
        composer = window.chat.get_by_role("textbox", name=zh("Message Goalwright"))
        await expect(composer).to_be_visible()
        await expect(window.chat.get_by_text(zh("DEMO"), exact=True)).to_be_visible()
        await window.widen_chat(120)
        assert await english_names(window.chat.locator("#app")) == []
        await window.pictures("chinese-welcome", ("dark",))

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
        await window.pictures("chinese", ("dark",))
