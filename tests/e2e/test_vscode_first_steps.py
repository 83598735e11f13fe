"""The first minutes of a user without a key, in real VS Code: the demo, and the messages when something is missing."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import pytest
from playwright.async_api import expect

from daemon.demo import PROMPT, copy_workspace
from tests.e2e.conftest import TEST_SETTINGS, OpenVSCode, WithModel
from tests.e2e.vscode.accessibility import assert_accessible
from tests.e2e.vscode.animation import Animation
from tests.e2e.vscode.server import write_settings
from tests.e2e.vscode.task import passes
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def workspace(ground: Path) -> Path:
    """The sample workspace."""
    copy_workspace(ground)
    return ground


async def test_demo_fixes_the_sample_without_a_key(open_vscode: OpenVSCode, workspace: Path) -> None:
    cart = workspace / "shop" / "cart.py"
    before = cart.read_text()
    async with open_vscode() as window:
        await window.show_goals()
        await window.show_chat()
        await window.widen_chat(120)
        await expect(window.chat.get_by_text("DEMO", exact=True)).to_be_visible()
        film = Animation(window, "demo")
        await film.take()
        await window.say(PROMPT)
        await expect(await window.goal(re.compile("^1 "))).to_be_visible()
        await film.take()

        await expect(window.diff).to_contain_text("with a discount code applied")
        await expect(window.approval).to_be_visible()
        await expect(await window.goal(re.compile("^1 .*, completed"))).to_be_visible()
        assert cart.read_text() == before
        await window.pictures("demo")
        await film.take(3)
        await window.title_action("Accept").click()

        # The script forgot an import, and the language server says so.
        await expect(window.chat.get_by_role("list", name="Problems")).to_contain_text("discounted")
        await expect(window.diff).to_contain_text("from shop.pricing import discounted, rounded")
        await film.take(3)
        await window.accept.click()
        await expect(window.tool("bash", "waiting for approval")).to_be_visible()
        await film.take(2)
        await window.accept.click()

        await expect(window.answers().last).to_contain_text("All three tests pass.")
        await expect(await window.goal(re.compile("^3 .*, completed"))).to_be_visible()
        await expect(window.answers().last).not_to_have_attribute("aria-busy", "true")
        await film.take(4)
        film.save()
    assert cart.read_text() != before
    assert passes(workspace, "-m", "unittest", "-q")


async def test_wrong_key_is_reported_in_chat_and_the_session_continues(
    with_model: WithModel, workspace: Path
) -> None:
    refused = Reply(status=401, error_type="authentication_error", error_message="invalid x-api-key")
    async with with_model([refused, Reply(text="Now it works.")]) as (_model, window):
        await window.show_chat()
        await window.say("Hello?")
        await expect(window.chat.get_by_role("alert")).to_contain_text(re.compile("key", re.IGNORECASE))
        await expect(window.button("Change Key…")).to_be_visible()
        await expect(window.button("Change Model…")).to_be_visible()
        await expect(window.button("Stop")).to_be_hidden()
        await window.say("And now?")
        await expect(window.answers().last).to_contain_text("Now it works.")


async def test_chat_offers_to_install_a_missing_daemon_and_then_works(
    open_vscode: OpenVSCode, scratch: Path
) -> None:
    base = {"goalwright.basePython": str(python_with_libraries(scratch / "python"))}
    async with open_vscode(python="/nowhere/python", settings=base) as window:
        await window.show_chat()
        alert = window.chat.get_by_role("alert")
        await expect(alert).to_contain_text("/nowhere/python")
        await expect(window.button("Choose Python…", alert)).to_be_visible()
        await assert_accessible(window)

        write_settings(scratch / "vscode", "", {**TEST_SETTINGS, **base})
        await expect(alert).to_contain_text("a small background service")
        await window.pictures("not-installed")
        await window.button("Install Goalwright", alert).click()

        await expect(window.chat.get_by_text("DEMO", exact=True)).to_be_visible(timeout=100_000)
        await window.say(PROMPT)
        await expect(window.approval).to_be_visible()


def python_with_libraries(file: Path) -> Path:
    """Write a Python whose environments have the libraries of the running one, so that pip installs only the wheel.

    ``make`` has just installed all that the wheel requires; unpacking and compiling it again takes a minute.
    """
    site, libraries = (sysconfig.get_path("purelib", "venv", {"base": base}) for base in ("$4", sys.prefix))
    file.write_text(
        f'#!/bin/sh\n"{sys.executable}" "$@" || exit\n'
        f'[ "$3" != venv ] || echo "{libraries}" > "{site}/libraries.pth"\n'
    )
    file.chmod(0o755)
    return file


PASTE = """(field, files) => {
    const data = new DataTransfer();
    for (const [name, type, base64] of files)
        data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name, { type }));
    field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""
DROP = """(field, uri) => {
    const data = new DataTransfer();
    data.setData("text/uri-list", uri);
    field.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_attachments_are_sent_and_a_binary_file_is_refused(
    with_model: WithModel, workspace: Path
) -> None:
    async with with_model([Reply(text="I see a dot.")]) as (model, window):
        await window.show_chat()
        await window.widen_chat(120)
        await window.composer.evaluate(PASTE, [["lib.bin", "application/octet-stream", "AAECAAECAAECAAEC"]])
        chips = window.chat.get_by_role("list", name="Attachments").get_by_role("listitem")
        await expect(chips).to_have_text(["lib.bin"])
        await window.composer.fill("What is this?")
        await window.page.keyboard.press("Enter")
        await expect(window.notification("lib.bin is a binary file")).to_be_visible()
        await expect(window.composer).to_have_value("What is this?")
        await window.button("Remove lib.bin").click()

        await window.composer.evaluate(PASTE, [["dot.png", "image/png", DOT]])
        file = workspace / "shop" / "cart.py"
        await window.composer.evaluate(DROP, file.as_uri())
        await expect(chips).to_have_text(["dot.png", file.name])
        await window.pictures("attachments")
        await window.composer.focus()
        await window.page.keyboard.press("Enter")
        await expect(window.answers().last).to_contain_text("I see a dot.")
        await expect(chips).to_have_count(0)
        sent = str(model.requests[0].json)
        assert DOT in sent
        assert '<file name="shop/cart.py">' in sent
