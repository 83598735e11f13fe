"""Moments in which a window is reloaded and its daemon killed: nothing that the user had may be lost by it.

A scene is one moment of a main flow, and says what must be there before, after a reload, and after a kill.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import expect

from tests.e2e.vscode.window import Window
from tests.support.drivers.live_files import files_with
from tests.support.drivers.waiting import until
from tests.support.fakes.model_replies import Reply, ReplyLike
from tests.support.fakes.model_server import ModelServer

LONG = Reply(text="A long answer about rates. " * 20, fault="hang", fault_after=14)
"""An answer that begins and does not come to its end."""
HERE = Reply(text="Here I am.")

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
    again: Check = nothing
    """Opens, as the user, what a reload closed: VS Code closes its input boxes."""
    killed: Check = nothing
    """Holds after a kill."""
    end: Check = nothing
    """Actions of the user after all of this."""
    written: str = ""
    """Text of the user that only the editor knows; no other test that uses the window may write the same."""
    requests: int = 0
    """How often the model was asked in all of it; 0: as often as there are replies."""
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Settings of the workspace for VS Code."""

    def configure(self, workspace: Path) -> None:
        """Write the settings, before the window is taken."""
        if self.settings:
            file = workspace / ".vscode" / "settings.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(self.settings))


def is_stored(window: Window, text: str) -> bool:
    """Tell whether the extension has stored a text, for any workspace of this server."""
    found = files_with(window.server.folder / "user", text)
    return any(file.name == "memory.json" for file in found)


async def kill(window: Window) -> None:
    """``kill -9`` the daemon, and wait until the chat has said so and another one has taken over."""
    pid = await window.daemon_pid()
    await window.chat.locator("body").evaluate(
        "body => new MutationObserver(() => {"
        "  if (body.innerText.includes('Reconnecting…')) body.dataset.said = 'yes';"
        "}).observe(body, { childList: true, subtree: true, characterData: true })"
    )
    os.kill(pid, signal.SIGKILL)
    await expect(window.chat.locator("body")).to_have_attribute("data-said", "yes")
    await expect(window.chat.get_by_text("Reconnecting…")).to_have_count(0)
    assert await window.daemon_pid() != pid


async def play(scene: Scene, model: ModelServer, window: Window, workspace: Path) -> None:
    """Go to the moment, reload the window, kill the daemon, and look each time."""
    assert not scene.written or not is_stored(window, scene.written), "another test has written the same text"
    await window.show_chat()
    await scene.begin(window, workspace)
    await scene.kept(window, workspace)
    await scene.alive(window, workspace)

    if scene.written:
        # The extension does it a moment after it was typed.
        await until(lambda: is_stored(window, scene.written), "the stored text")
    await window.reload()
    await window.show_chat()
    await scene.again(window, workspace)
    await scene.kept(window, workspace)
    await scene.alive(window, workspace)

    await kill(window)
    await scene.kept(window, workspace)
    await scene.killed(window, workspace)
    await scene.end(window, workspace)
    expected = scene.requests or len(scene.replies(workspace))
    assert len(model.requests) == expected, "the model was asked for something twice, or not at all"


async def goes_on(window: Window, workspace: Path) -> None:
    """A prompt is answered by the next of the replies, ``HERE``."""
    await window.say("Go on.")
    await expect(window.answers().last).to_contain_text(HERE.text)
