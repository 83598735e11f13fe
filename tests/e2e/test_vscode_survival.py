"""A reload of the window and a ``kill -9`` of the daemon in the middle of things: nothing the user had is lost.

Each scene is one moment of a main flow, and says what must be there before, after a reload, and after a kill.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Locator, expect

from tests.e2e.conftest import WithModel
from tests.e2e.vscode import task
from tests.e2e.vscode.parcels import ASKED, PROPOSED, RATES, SET, make_parcels, set_rates
from tests.e2e.vscode.window import Window
from tests.fakes.model_replies import Reply, ReplyLike

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

THOUGHT = "Half a thought"
LONG = Reply(text="A long answer about rates. " * 20, fault="hang", fault_after=14)
QUESTIONS = [{"question": "Where to keep them?", "options": ["In a file", "In a database"]}]
WAITS = f"{sys.executable} -c \"import time; print('counting', flush=True); time.sleep(600)\""

Check = Callable[[Window, Path], Awaitable[None]]


async def nothing(window: Window, workspace: Path) -> None:
    """There is no such step."""


@dataclass(frozen=True)
class Scene:
    """A moment: the way there, what is seen then, and what differs once the daemon was killed."""

    replies: Callable[[Path], Sequence[ReplyLike]]
    begin: Check
    kept: Check
    """Holds before, after a reload and after a kill."""
    alive: Check = nothing
    """Holds before and after a reload: what runs in the daemon goes on."""
    killed: Check = nothing
    """Holds after a kill."""
    end: Check = nothing
    """What the user does next, after all of it."""
    written: str = ""
    """What the user has typed or chosen that only the editor knows of."""


async def draft_is_kept(window: Window, workspace: Path) -> None:
    await expect(window.composer).to_have_value(THOUGHT)


async def stream_and_queue(window: Window, workspace: Path) -> None:
    await window.say("Tell me about rates.")
    await expect(window.answers().last).to_contain_text("A long answer")
    await window.say("And then about weights.")
    await expect(queue(window)).to_contain_text("And then about weights.")
    await window.composer.fill(THOUGHT)


def queue(window: Window) -> Locator:
    return window.chat.get_by_role("list", name="Waiting prompts")


async def stream_and_queue_kept(window: Window, workspace: Path) -> None:
    await expect(window.chat.get_by_role("article", name="You")).to_have_text(
        re.compile("Tell me about rates")
    )
    await expect(window.answers().last).to_contain_text("A long answer about rates.")
    await expect(queue(window)).to_contain_text("And then about weights.")
    await draft_is_kept(window, workspace)


async def still_streams(window: Window, workspace: Path) -> None:
    await expect(window.answers().last).to_have_attribute("aria-busy", "true")
    await expect(window.button("Stop")).to_be_visible()


async def interrupted(window: Window, workspace: Path) -> None:
    await expect(window.button("Stop")).to_be_hidden()
    await expect(window.chat.get_by_role("alert").last).to_contain_text("stopped in the middle")
    await expect(window.button("Continue")).to_be_visible()


async def sends_the_queue(window: Window, workspace: Path) -> None:
    await window.button("Send what is queued").click()
    await expect(window.answers().last).to_contain_text("About weights.")
    await expect(queue(window)).to_have_count(0)
    await draft_is_kept(window, workspace)
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


async def goes_on(window: Window, workspace: Path) -> None:
    await window.say("Go on.")
    await expect(window.answers().last).to_contain_text("Here I am.")


async def leave_a_hunk_out(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await window.approval.get_by_role("checkbox", name="Accept hunk 2 of 2", exact=True).uncheck()
    await window.button("Suggest changes…", window.approval).click()
    await window.approval.get_by_role("textbox", name="Feedback").fill(THOUGHT)


async def hunk_left_out(window: Window, workspace: Path) -> None:
    await expect(window.button("Apply 1 of 2 hunks", window.approval)).to_be_enabled()
    await expect(window.tool("write", "waiting for approval")).to_be_visible()
    await expect(window.tab("proposed by Goalwright")).to_have_count(1)
    await expect(window.approval.get_by_role("textbox", name="Feedback")).to_have_value(THOUGHT)
    assert (workspace / "rates.py").read_text() == RATES


async def half_is_applied(window: Window, workspace: Path) -> None:
    await window.button("Apply 1 of 2 hunks", window.approval).click()
    await expect(window.answers().last).to_contain_text(SET)
    assert "LOCAL = 350" in (workspace / "rates.py").read_text()
    assert "6 * LOCAL" not in (workspace / "rates.py").read_text()


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


async def undo(window: Window, workspace: Path) -> None:
    await window.say(ASKED)
    await window.accept.click()
    await expect(window.answers().last).to_contain_text(SET)
    await window.button("Undo", window.tool("write", "done")).click()


async def undone(window: Window, workspace: Path) -> None:
    await expect(window.answers().last).to_contain_text(SET)
    await expect(window.button("Redo", window.tool("write", "done"))).to_be_visible()
    await expect(window.chat.get_by_text("You undid write of rates.py (+2 −2)")).to_be_visible()
    assert (workspace / "rates.py").read_text() == RATES


async def redone(window: Window, workspace: Path) -> None:
    await window.button("Redo", window.tool("write", "done")).click()
    await expect(window.button("Undo", window.tool("write", "done"))).to_be_visible()
    assert (workspace / "rates.py").read_text() == PROPOSED


SCENES = {
    "streaming, a prompt queued, another one half typed": Scene(
        lambda _: [LONG, Reply(text="About weights.")],
        stream_and_queue,
        stream_and_queue_kept,
        still_streams,
        interrupted,
        sends_the_queue,
        written=THOUGHT,
    ),
    "a command running": Scene(
        lambda _: [task.call("bash", command=WAITS, description="count"), Reply(text="Here I am.")],
        run_a_command,
        command_shown,
        command_runs,
        command_is_over,
        goes_on,
    ),
    "an approval, a hunk left out, feedback half typed": Scene(
        set_rates, leave_a_hunk_out, hunk_left_out, end=half_is_applied, written=THOUGHT
    ),
    "a question half answered": Scene(
        lambda _: [task.call("question", questions=QUESTIONS), Reply(text="Here I am.")],
        half_an_answer,
        answer_kept,
        end=answered,
        written="SQLite, please",
    ),
    "after a turn and an undo": Scene(set_rates, undo, undone, end=redone),
}


@pytest.fixture
def workspace(ground: Path) -> Path:
    return make_parcels(ground)


STORED = """async text => {
    const opened = request => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    for (const { name } of await indexedDB.databases()) {
        if (!name.startsWith("vscode-web-state-db")) continue;
        const base = await opened(indexedDB.open(name));
        const rows = await opened(base.transaction("ItemTable").objectStore("ItemTable").getAll());
        base.close();
        if (JSON.stringify(rows).includes(text)) return true;
    }
    return false;
}"""
"""Whether VS Code, which saves a moment later, has stored a text."""


async def stored(window: Window, text: str) -> None:
    """Wait until VS Code would have a text again after a reload."""
    async with asyncio.timeout(30):
        while not await window.page.evaluate(STORED, text):  # noqa: ASYNC110 -- the browser has no event for it
            await asyncio.sleep(0.05)


async def kill(window: Window) -> None:
    """``kill -9`` the daemon, and wait until the chat has said so and another one has taken over."""
    pid = await window.daemon_pid()
    await window.chat.locator("body").evaluate(
        "body => new MutationObserver(() => {"
        "  if (body.innerText.includes('Connecting to the daemon again')) body.dataset.said = 'yes';"
        "}).observe(body, { childList: true, subtree: true, characterData: true })"
    )
    os.kill(pid, signal.SIGKILL)
    await expect(window.chat.locator("body")).to_have_attribute("data-said", "yes")
    await expect(window.chat.get_by_text("Connecting to the daemon again")).to_have_count(0)
    assert await window.daemon_pid() != pid


@pytest.mark.parametrize("name", SCENES)
async def test_nothing_is_lost_by_a_reload_and_a_killed_daemon(
    with_model: WithModel, workspace: Path, name: str
) -> None:
    scene = SCENES[name]
    async with with_model(scene.replies(workspace)) as (_model, window):
        await window.show_chat()
        await scene.begin(window, workspace)
        await scene.kept(window, workspace)
        await scene.alive(window, workspace)

        await stored(window, scene.written)
        await window.reload()
        await window.show_chat()
        await scene.kept(window, workspace)
        await scene.alive(window, workspace)

        await kill(window)
        await scene.kept(window, workspace)
        await scene.killed(window, workspace)
        await scene.end(window, workspace)
