"""Connecting a model and choosing another one, in real VS Code without a key, with a model server on the wire."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import MODELS, OpenVSCode
from tests.e2e.vscode.accessibility import assert_accessible
from tests.e2e.vscode.flows import connect, switch_model
from tests.e2e.vscode.hand import Hand
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

KEY = "sk-ant-" + "k" * 40


def files_with(folder: Path, text: str) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes()
    ]


async def test_pasted_key_connects_and_model_switch_takes_two_clicks(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path
) -> None:
    said = [{"text": "ready"}, {"text": "I am Sonnet."}, {"text": "I am Opus."}]
    async with ModelServer(said, api_key=KEY, listed={"/v1/models": MODELS}) as model:
        async with open_vscode({"ANTHROPIC_BASE_URL": model.url}) as window:
            page = window.page
            await window.show_chat()
            await window.widen_chat(120)
            card = window.chat.get_by_role("region", name="Connect a model")
            await expect(card.get_by_role("button")).to_have_text(
                [
                    "Anthropic",
                    "OpenAI",
                    "Google Gemini",
                    "OpenRouter",
                    "Ollama",
                    "LM Studio",
                    "Other server…",
                    "More…",
                ]
            )
            await expect(window.button("The test for discount codes fails. Make it pass.")).to_be_visible()
            await window.pictures("connect")
            await assert_accessible(window)

            # Outside of the sample the demo can do nothing, and below its answer the way on stands again.
            (workspace / "shop" / "cart.py").unlink()
            await window.say("Explain this project")
            await expect(window.answers().last).to_contain_text("connect a real model")
            await expect(window.chat.get_by_text("This is the built-in demo")).to_contain_text(
                "Connect a Model…"
            )
            await expect(card).to_be_visible()
            await window.pictures("connect-after-demo")
            hand = Hand(page)
            await connect(window, hand, "sk-ant-" + "w" * 40)  # a wrong one, without Enter
            assert hand.words == "1 click + text"
            field = page.locator(".quick-input-widget input")
            await expect(field).to_have_attribute("type", "password")
            # A wrong key is asked for again, in the same place.
            box = page.locator(".quick-input-widget")
            await expect(box).to_contain_text("rejected the API key.")
            await window.pictures("connect-key")
            await field.click()
            await page.keyboard.insert_text(KEY)  # without Enter
            toast = window.notification("Connected to anthropic/claude-sonnet-5-5")
            await expect(toast).to_contain_text("1M window · $2 in / $10 out per 1M tokens")
            await window.pictures("connected")
            await expect(window.chat.get_by_text("DEMO", exact=True)).to_be_hidden()
            await expect(card).to_have_count(0)
            await expect(window.button("Retry")).to_be_visible()
            await window.new_session()
            await expect(window.button("Run the tests, and fix what fails.")).to_be_visible()
            await window.say("Who are you?")
            await expect(window.answers().last).to_contain_text("I am Sonnet.")

            # Another model: one click on its name, one on the other.
            await window.chat.get_by_role("button", name="Model: anthropic/claude-sonnet-5-5").click()
            await expect(box).to_contain_text("Model of this session")
            opus = box.get_by_role("option", name=re.compile("claude-opus-5-5"))
            await expect(opus).to_contain_text("1M window · $4 in / $20 out per 1M tokens")
            await window.pictures("models")
            await page.keyboard.press("Escape")
            hand = Hand(page)
            await switch_model(window, hand, "anthropic/claude-sonnet-5-5", "claude-opus-5-5")
            assert hand.words == "2 clicks"
            await expect(
                window.chat.get_by_role("button", name="Model: anthropic/claude-opus-5-5")
            ).to_be_visible()
            await window.say("And now?")
            await expect(window.answers().last).to_contain_text("I am Opus.")

            logs = window.server.extension_logs()
        models = [request.json["model"] for request in model.requests]
    assert models == ["claude-sonnet-5-5", "claude-sonnet-5-5", "claude-opus-5-5"]
    assert KEY not in logs
    assert files_with(workspace, KEY) == []
    assert files_with(scratch / "home", KEY) == []
