"""The conversation through a reload of the window and a ``kill -9`` of the daemon: nothing the user had is lost."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import make_parcels
from tests.e2e.vscode.survival import HERE, LONG, Scene, goes_on, play
from tests.e2e.vscode.window import Window
from tests.support.drivers.live_files import files_with
from tests.support.examples import in_full
from tests.support.fakes.model_replies import Reply

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

DRAFT, OTHER_DRAFT = "Is it dearer by sea", "What of the heavy ones"
EDITED = "And then about sizes."
KEY = "sk-ant-half-of"
QUESTIONS = [{"question": "Where to keep them?", "options": ["In a file", "In a database"]}]
WAITS = f"{sys.executable} -c \"import time; print('counting', flush=True); time.sleep(600)\""


async def stream_and_queue(window: Window, workspace: Path, draft: str = DRAFT) -> None:
    await window.say("Tell me about rates.")
    await expect(window.answers().last).to_contain_text("A long answer")
    await window.say("And then about weights.")
    await expect(queue(window)).to_contain_text("And then about weights.")
    await window.composer.fill(draft)


def queue(window: Window) -> Locator:
    return window.chat.get_by_role("list", name="Waiting prompts")


async def stream_and_queue_kept(window: Window, workspace: Path) -> None:
    await expect(window.chat.get_by_role("article", name="You")).to_have_text(
        re.compile("Tell me about rates")
    )
    await expect(window.answers().last).to_contain_text("A long answer about rates.")
    await expect(queue(window)).to_contain_text("And then about weights.")
    await expect(window.composer).to_have_value(DRAFT)


async def still_streams(window: Window, workspace: Path) -> None:
    await expect(window.answers().last).to_have_attribute("aria-busy", "true")
    await expect(window.button("Stop")).to_be_visible()


async def interrupted(window: Window, workspace: Path) -> None:
    await expect(window.button("Stop")).to_be_hidden()
    await expect(window.chat.get_by_role("alert").last).to_contain_text("Interrupted")
    await expect(window.button("Continue")).to_be_visible()


async def sends_the_queue(window: Window, workspace: Path) -> None:
    await window.button("Send what is queued").click()
    await expect(window.answers().last).to_contain_text("About weights.")
    await expect(queue(window)).to_have_count(0)
    await expect(window.composer).to_have_value(DRAFT)
    await window.composer.fill("")


async def run_a_command(window: Window, workspace: Path) -> None:
    await window.say("Count.")
    await window.accept.click()


async def command_shown(window: Window, workspace: Path) -> None:
    await expect(window.tool("bash")).to_contain_text("import time")


async def command_runs(window: Window, workspace: Path) -> None:
    await expect(window.button("Stop")).to_be_visible()


async def command_is_over(window: Window, workspace: Path) -> None:
    await expect(window.tool("bash", "stopped|failed")).to_be_visible()


async def half_an_answer(window: Window, workspace: Path) -> None:
    await window.say("Move the rates.")
    await asked(window).get_by_role("radio", name="In a database").check()
    await asked(window).get_by_role("textbox").fill("SQLite, please")


def asked(window: Window) -> Locator:
    return window.chat.get_by_role("region", name="Question", exact=True)


async def answer_kept(window: Window, workspace: Path) -> None:
    await expect(asked(window).get_by_role("radio", name="In a database")).to_be_checked()
    await expect(asked(window).get_by_role("textbox")).to_have_value("SQLite, please")


async def answered(window: Window, workspace: Path) -> None:
    await window.button("Send answer").click()
    await expect(window.answers().last).to_contain_text("Here I am.")
    await expect(window.tool("question", "done")).to_contain_text("In a database. SQLite, please")


async def edit_what_is_queued(window: Window, workspace: Path) -> None:
    await stream_and_queue(window, workspace, OTHER_DRAFT)
    await window.button("Edit", queue(window)).click()
    await window.chat.get_by_role("textbox", name="Edit waiting prompt").fill(EDITED)


async def edit_kept(window: Window, workspace: Path) -> None:
    await expect(window.answers().last).to_contain_text("A long answer about rates.")
    await expect(window.chat.get_by_role("textbox", name="Edit waiting prompt")).to_have_value(EDITED)
    await expect(window.composer).to_have_value(OTHER_DRAFT)


async def sends_what_was_edited(window: Window, workspace: Path) -> None:
    """Text being edited waits, whatever else is sent."""
    await window.composer.fill("")
    await goes_on(window, workspace)
    await edit_kept_only(window)
    # It was to follow the prompt, and only the edit held it back.
    await window.button("Save", queue(window)).click()
    await expect(window.chat.get_by_role("article", name="You").last).to_contain_text(EDITED)
    await expect(window.answers().last).to_contain_text("About sizes.")
    await expect(queue(window)).to_have_count(0)


async def edit_kept_only(window: Window) -> None:
    await expect(window.chat.get_by_role("textbox", name="Edit waiting prompt")).to_have_value(EDITED)


def input_box(window: Window) -> Locator:
    """VS Code's own, at the top."""
    return window.page.locator(".quick-input-widget")


async def enter_half_a_key(window: Window, workspace: Path) -> None:
    await window.command("Goalwright: Connect a Model…")
    await input_box(window).get_by_role("option", name="Anthropic").click()
    await expect(input_box(window)).to_contain_text("Anthropic")
    await input_box(window).locator("input").fill(KEY)


async def half_a_key_kept(window: Window, workspace: Path) -> None:
    await expect(input_box(window).locator("input")).to_have_value(KEY)
    await expect(input_box(window).locator("input")).to_have_attribute("type", "password")


async def key_is_left(window: Window, workspace: Path) -> None:
    """The key is only in the box, and the chat works on with the one it has."""
    assert files_with(window.server.folder / "user", KEY) == []
    await window.page.keyboard.press("Escape")
    await goes_on(window, workspace)


async def compact(window: Window, workspace: Path) -> None:
    (workspace / "log.txt").write_text("".join(f"parcel {n} waited {n % 7} days\n" for n in range(400)))
    await window.say("Read the log.")
    await expect(window.answers().last).to_contain_text("I have read the log.")
    await window.say("What about the delays?")
    await expect(window.answers().last).to_contain_text("They are the night runs.")
    await window.command("Goalwright: Compact Context")
    await expect(input_box(window)).to_contain_text("Anything to keep?")
    await window.page.keyboard.press("Enter")
    await expect(window.notification("Compacting the context…")).to_be_visible()


async def nothing_is_gone(window: Window, workspace: Path) -> None:
    await expect(window.chat.get_by_role("article", name="You")).to_have_count(2)
    for answer in ("I have read the log.", "They are the night runs."):
        await expect(window.answers().filter(has_text=answer)).to_have_count(1)


async def compacts_no_more(window: Window, workspace: Path) -> None:
    await expect(window.notification("Compacting the context…")).to_have_count(0)
    await expect(window.button("Stop")).to_be_hidden()


SCENES = {
    "streaming, a prompt queued, another one half typed": Scene(
        lambda _: [LONG, Reply(text="About weights.")],
        stream_and_queue,
        stream_and_queue_kept,
        still_streams,
        killed=interrupted,
        end=sends_the_queue,
        written=DRAFT,
    ),
    "a queued prompt being edited": Scene(
        lambda _: [LONG, HERE, Reply(text="About sizes.")],
        edit_what_is_queued,
        edit_kept,
        still_streams,
        killed=interrupted,
        end=sends_what_was_edited,
        written=EDITED,
    ),
    "a command running": Scene(
        lambda _: [task.call("bash", command=WAITS, description="count"), HERE],
        run_a_command,
        command_shown,
        command_runs,
        killed=command_is_over,
        end=goes_on,
    ),
    "a question half answered": Scene(
        lambda _: [task.call("question", questions=QUESTIONS), HERE],
        half_an_answer,
        answer_kept,
        end=answered,
        written="SQLite, please",
    ),
    "a key half entered": Scene(
        lambda _: [HERE], enter_half_a_key, half_a_key_kept, again=enter_half_a_key, end=key_is_left
    ),
    "a compaction running": Scene(
        lambda folder: [
            task.call("read", file_path=str(folder / "log.txt")),
            Reply(text="I have read the log."),
            Reply(text="They are the night runs."),
            Reply(text=json.dumps({"current_work": "the log was read"}), fault="hang", fault_after=4),
            HERE,
        ],
        compact,
        nothing_is_gone,
        killed=compacts_no_more,
        end=goes_on,
        settings={"goalwright.keepSteps": 1},
    ),
}


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


@pytest.mark.parametrize("name", list(SCENES)[:: in_full(1, 3)])
async def test_nothing_said_is_lost_by_a_reload_and_a_killed_daemon(
    with_model: WithModel, workspace: Path, name: str
) -> None:
    scene = SCENES[name]
    scene.configure(workspace)
    async with with_model(scene.replies(workspace)) as (model, window):
        await play(scene, model, window, workspace)


async def test_chat_that_vs_code_does_not_load_is_noticed(with_model: WithModel, workspace: Path) -> None:
    # The page is lost on its way, as VS Code itself loses one of two that it loads at once for the first time.
    def is_page(address: str) -> bool:
        return "/webview/browser/pre/index.html" in address and "extensionId=goalwright" in address

    async with with_model() as (_model, window):
        await window.page.route(is_page, lambda route: route.abort())
        await window.reload()
        offer = window.notification("VS Code did not load the chat.")
        await expect(offer).to_be_visible(timeout=90_000)
        await window.page.unroute(is_page)
        await offer.get_by_role("button", name="Reload Window").click()
        await window.show_chat()
