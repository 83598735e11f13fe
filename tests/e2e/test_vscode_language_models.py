"""Models of another extension, through VS Code's language model API, in real VS Code: tools, consent, reload."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenVSCode
from tests.e2e.vscode.model_extension import ADDRESS, MORE, make_vsix
from tests.e2e.vscode.server import VSCodeServer, goalwright
from tests.e2e.vscode.window import Window
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(scratch: Path) -> Path:
    folder = scratch / "w"
    folder.mkdir()
    (folder / "rates.txt").write_text("express 30\nnormal 10\n")
    (scratch / "vscode").mkdir()
    VSCodeServer(scratch / "vscode", folder, sys.executable).install(make_vsix(scratch))
    return folder


async def pick(window: Window, name: str) -> None:
    """Choose a model in the picker."""
    await window.command("Goalwright: Choose Model…")
    await window.page.locator(".quick-input-widget").get_by_role("option", name=re.compile(name)).click()


async def test_model_of_another_extension_does_a_task(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path
) -> None:
    file = workspace / "rates.txt"
    edit = {"file_path": str(file), "old_string": "express 30", "new_string": "express 25"}
    replies = [
        Reply(text="I look first.", tool_calls=(Call("read", {"file_path": str(file)}),)),
        Reply(text="Cheaper now.", tool_calls=(Call("edit", edit),)),
        Reply(text="Done: express costs 25."),
        Reply(text="This is a long story about parcels.", fault="hang", chunk=9),
        Reply(status=429, error_message="no requests left this month"),
        Reply(text="Half of an answer", fault="hang", chunk=9),
        Reply(text="The whole answer after all."),
        Reply(text="Hello, terminal."),
    ]
    async with (
        ModelServer(replies) as model,
        open_vscode({ADDRESS: f"{model.url}/v1"}, settings={"goalwright.titles": False}) as window,
    ):
        box = window.page.locator(".quick-input-widget")
        await window.show_chat()
        await window.widen_chat(120)
        await expect(window.button("Models of VS Code")).to_be_visible()
        await window.pictures("language-models-connect")

        # The picker follows what the extension offers; models that cannot call tools are left out.
        await window.command("Goalwright: Choose Model…")
        one = box.get_by_role("option", name=re.compile("vscode.tests.one"))
        await expect(one).to_contain_text("Model One · 96k window")
        await expect(box.get_by_text("VS Code", exact=True)).to_be_visible()
        await expect(box.get_by_role("option", name=re.compile("chat-only"))).to_have_count(0)
        (scratch / MORE).touch()
        await expect(box.get_by_role("option", name=re.compile("vscode.tests.three"))).to_contain_text("1M")
        await window.pictures("language-models")
        await one.click()
        await expect(window.chat.get_by_role("button", name="Model: vscode/tests/one")).to_be_visible()

        # A task with tools and an approved edit. The system prompt is the user's first message.
        await window.say("Make express cheaper")
        await expect(window.accept).to_be_enabled()
        assert file.read_text() == "express 30\nnormal 10\n"
        await window.accept.click()
        await expect(window.answers().last).to_contain_text("Done: express costs 25.")
        assert file.read_text() == "express 25\nnormal 10\n"
        first, second, third = (request.json for request in model.requests)
        assert first["model"] == "one"
        assert [message["role"] for message in first["messages"]] == ["user", "user"]
        assert "express 30" in second["messages"][-1]["content"]
        assert [message["role"] for message in third["messages"]][-2:] == ["assistant", "tool"]
        await expect(window.chat.get_by_text("unknown price").first).to_be_visible()

        # It streams, and Stop ends the extension's own call.
        await window.say("Tell me a story")
        await expect(window.answers().last).to_contain_text("This is a long")
        await window.button("Stop").click()
        await until(model.requests[-1].client_left.is_set, "the end of the call")

        await window.say("And now?")
        await expect(window.chat.get_by_text("no requests left this month")).to_contain_text("quota")
        await window.pictures("language-models-blocked")

        # A reload in the middle of an answer: the new window gives it again.
        await window.say("Go on")
        await expect(window.answers().last).to_contain_text("Half of")
        await window.reload()
        await window.show_chat()
        await expect(window.answers().last).to_contain_text("The whole answer after all.")

        # The terminal has no models of its own: the window is asked.
        words = ("run", "hello", "--model", "vscode/tests/one")
        done = await asyncio.to_thread(goalwright, *words, workspace=workspace, env=window.server.env)
        assert (done.returncode, "Hello, terminal." in done.stdout) == (0, True), done.stdout + done.stderr


async def test_consent_is_asked_once_and_a_refusal_explained(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path
) -> None:
    async with (
        ModelServer([Reply(text="I may speak.")]) as model,
        open_vscode(
            {ADDRESS: f"{model.url}/v1"}, settings={"goalwright.model": "vscode/private/two"}
        ) as window,
    ):
        dialog = window.page.get_by_role("dialog")
        await window.show_chat()
        await window.say("Hello")
        await expect(dialog).to_contain_text("wants to access the language models provided by Model Offerer")
        await window.page.keyboard.press("Escape")
        await expect(
            window.chat.get_by_text("does not let Goalwright use vscode/private/two")
        ).to_be_visible()
        assert model.requests == []
        await window.say("Hello again")
        await dialog.get_by_role("button", name="Allow").click()
        await expect(window.answers().last).to_contain_text("I may speak.")
