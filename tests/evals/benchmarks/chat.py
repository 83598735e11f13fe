"""The chat in real VS Code, seen from outside: its first paint, and a token on its way from the model to the screen.

The page itself notes when it has painted what; the fake model server, on the same machine and clock, when it sent it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from playwright.async_api import Frame, Page, expect

from tests.e2e.conftest import TEST_SETTINGS, VSIX, account_env
from tests.e2e.vscode.install import few_extensions
from tests.e2e.vscode.server import EXTENSION_ID, VSCodeServer, goalwright
from tests.e2e.vscode.window import Window, open_window
from tests.evals.benchmarks.measures import Measure, percentile
from tests.evals.benchmarks.stage import Stage
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

_WORDS = 150
_CHUNK = 8
_GAP_S = 0.04
"""Between two tokens: 25 a second, as fast models are."""
# The first that an activated extension shows anywhere is its item in the status bar.
_ACTIVATED = """{
  const look = () => {
    if (!document.querySelector('.statusbar-item[id^="goalwright.goalwright"]')) return;
    window.activated = Date.now();
    observer.disconnect();
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { childList: true, subtree: true });
}"""
_DELTA = re.compile(rb'"text_delta", "text": "([^"]*)"')

# For each growth of the answer, and for the first content of the page: when it was painted. A task that is queued in
# a frame's callback runs after the frame was drawn.
_WATCH = """() => {
  window.seen = [];
  let noted = -1, due = false;
  const look = () => {
    const answer = [...document.querySelectorAll('article.assistant')].at(-1);
    const length = answer ? answer.textContent.length : 0;
    if (length === noted || due) return;
    due = true;
    requestAnimationFrame(() => {
      const drawn = answer ? answer.textContent.length : 0;
      const channel = new MessageChannel();
      channel.port1.onmessage = () => window.seen.push([Date.now(), drawn]);
      channel.port2.postMessage(0);
      noted = drawn;
      due = false;
    });
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


async def measure(stage: Stage) -> list[Measure]:
    """Milliseconds of the first paint after activation, and of a token's way from the model server to the screen."""
    painted: list[float] = []
    tokens: list[float] = []
    slowest: list[float] = []
    folder = Path(tempfile.mkdtemp(prefix="gw-bench-")).resolve()
    try:
        builtin = few_extensions(folder / "builtin")
        text = " ".join(f"word{number:03}" for number in range(_WORDS))
        reply = Reply(text=text, chunk=_CHUNK, delay_s=_GAP_S)
        async with ModelServer([reply] * stage.runs) as model, _window(folder, builtin, model) as window:
            await window.page.add_init_script(_ACTIVATED)
            for _ in range(stage.runs):
                await window.reload()
                painted.append(await _first_paint(window))
                ways = await _stream(window, model, text)
                tokens.append(statistics.median(ways))
                slowest.append(percentile(ways, 0.95))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    note = (
        f"{_WORDS} deltas at {1 / _GAP_S:.0f} a second; from the write of the model server to the frame "
        "in which the webview has drawn the text, the daemon and the extension host on the way"
    )
    how = "from the item in the status bar to the first contentful paint of the chat's page; windows reloaded"
    return [
        Measure("chat: first paint after activation", "ms", tuple(painted), 1000.0, note=how),
        Measure("chat: model to screen, median token", "ms", tuple(tokens), 50.0, note=note),
        Measure("chat: model to screen, 95 of 100 tokens", "ms", tuple(slowest)),
    ]


@asynccontextmanager
async def _window(folder: Path, builtin: Path, model: ModelServer) -> AsyncGenerator[Window]:
    """A window on a workspace of one file, with the chat open."""
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir()
    (workspace / "README.md").write_text("# Nothing\n")  # a window is open when its Explorer shows something
    env = account_env(home) | {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "a-key-for-tests"}
    server = VSCodeServer(
        folder / "vscode", workspace, sys.executable, VSIX, TEST_SETTINGS, env, builtin=builtin
    )
    try:
        with server:
            async with open_window(server) as window:
                await window.show_chat()
                yield window
    finally:
        await asyncio.to_thread(goalwright, "stop", "--force", workspace=workspace, env=env)


async def _first_paint(window: Window) -> float:
    await expect(window.composer).to_be_visible()
    page = await _chat(window.page)
    painted = cast(
        "float",
        await page.evaluate(
            "performance.timeOrigin + performance.getEntriesByName('first-contentful-paint')[0].startTime"
        ),
    )
    return painted - cast("float", await window.page.evaluate("window.activated"))


async def _stream(window: Window, model: ModelServer, text: str) -> list[float]:
    """Milliseconds of each delta of an answer."""
    page = await _chat(window.page)
    await window.command("Goalwright: New Session")
    await expect(window.answers()).to_have_count(0)
    await page.evaluate(_WATCH)
    asked = len(model.requests)
    await window.say("Count the words.")
    await expect(window.answers().last).to_contain_text(text[-7:])
    await expect(window.button("Stop")).to_be_hidden()
    seen = cast("list[tuple[float, int]]", await page.evaluate("window.seen"))
    return list(_ways(model.requests[asked].frames, seen))


def _ways(sent: Sequence[tuple[float, bytes]], seen: Sequence[tuple[float, int]]) -> Iterator[float]:
    """Match each delta with the first frame of the screen that has it."""
    text = ""
    for at, frame in sent:
        if (delta := _DELTA.search(frame)) is None:
            continue
        text += delta[1].decode()
        # Markdown leaves out spaces at the end.
        yield next(time for time, drawn in seen if drawn >= len(text.rstrip())) - at * 1000


async def _chat(window: Page) -> Frame:
    """The page of the chat, in its frames."""
    outer = window.locator(
        f'iframe.webview.ready[src*="extensionId={EXTENSION_ID}"][src*="purpose=webviewView"]'
    )
    frame = await (await outer.element_handle()).content_frame()
    inner = frame and await frame.wait_for_selector("iframe#active-frame")
    page = inner and await inner.content_frame()
    assert page is not None, "the chat is not open"
    return page
