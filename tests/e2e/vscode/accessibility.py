"""Pages looked at as those do who see colours differently, use a screen reader, or have little room.

axe (https://github.com/dequelabs/axe-core) looks for what is wrong by rule. The colours of VS Code's themes are taken
from the window once and then given to the page, as VS Code does it: switching the whole window takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import Frame, Page, expect

from tests.e2e.vscode.install import ROOT
from tests.e2e.vscode.window import CHAT_FRAME, PANEL_FRAME, THEMES, Theme, Window

WIDTHS = (160, 200, 280, 400, 1600)
"""Widths of the chat in pixels: from the narrowest side bar to a chat that fills a screen."""


@dataclass(frozen=True)
class Look:
    """The styles that VS Code gives a webview page so that it looks like the rest of the window."""

    style: str
    classes: str
    data: Mapping[str, str]


_looks: dict[Theme, Look] = {}


@cache
def _source() -> str:
    axe = ROOT / "vscode-extension" / "node_modules" / "axe-core" / "axe.min.js"
    return "\n".join((axe.read_text(), Path(__file__).with_suffix(".js").read_text(), ";0"))


async def _do(frame: Frame, name: str, given: object = None) -> Any:
    """Call a function of ``accessibility.js`` in a page."""
    if not await frame.evaluate("typeof accessibility !== 'undefined'"):
        await frame.evaluate(_source())
    return await frame.evaluate(f"(given) => accessibility.{name}(given)", given)


async def _inside(page: Page, selector: str) -> Frame:
    """The page within a webview."""
    outer = await (await page.locator(selector).element_handle()).content_frame()
    assert outer is not None
    element = await outer.wait_for_selector("iframe#active-frame", state="attached")
    assert element is not None
    inner = await element.content_frame()
    assert inner is not None
    return inner


async def chat_frame(window: Window) -> Frame:
    """The page of the chat."""
    return await _inside(window.page, CHAT_FRAME)


async def graph_frame(window: Window) -> Frame:
    """The page of the graph."""
    return await _inside(window.page, PANEL_FRAME)


async def focused(frame: Frame) -> str:
    """The name of what has the focus in a page. Fails when that cannot be seen."""
    found: dict[str, Any] = await _do(frame, "focused")
    assert found["ring"], f"the focus of {found['name']} is not seen"
    return found["name"]


async def tab_to(window: Window, frame: Frame, name: str, key: str = "Tab") -> None:
    """Press a key until what has such a name (a regular expression) has the focus."""
    passed: list[str] = []
    for _ in range(60):
        await window.page.keyboard.press(key)
        passed.append(await focused(frame))
        if re.search(name, passed[-1]):
            return
    raise AssertionError(f"{name} is not reached by {key}: {passed}")


async def listen(frame: Frame) -> None:
    """Begin to note what the page's live regions say."""
    await _do(frame, "listen")


async def heard(frame: Frame, politeness: str) -> list[str]:
    """Return the announcements since then."""
    told: list[tuple[str, str]] = await frame.evaluate("heard")
    return [text for how, text in told if how == politeness and text]


async def heard_until(frame: Frame, said: str) -> list[str]:
    """Wait until ``said`` is announced politely, and return all of these announcements."""
    await frame.wait_for_function(
        "said => heard.some(([how, text]) => how === 'polite' && text === said)", arg=said
    )
    return await heard(frame, "polite")


async def scroll(frame: Frame, frames: int) -> list[float]:
    """Scroll the transcript up, and return the milliseconds that each frame took."""
    return await _do(frame, "scroll", frames)


async def watch_keys(frame: Frame) -> None:
    """Begin to note how long it takes from a key to its letter on the page."""
    await _do(frame, "watchKeys")


async def keys_took(frame: Frame) -> list[float]:
    """Milliseconds of each key since then."""
    return await frame.evaluate("typed")


async def findings(frame: Frame, rules: Sequence[str] | None = None) -> list[str]:
    """Return axe's findings on a page; by default with all of its rules."""
    return await _do(frame, "axeFindings", None if rules is None else list(rules))


async def look_of(window: Window, frame: Frame, theme: Theme) -> Look:
    """How VS Code's theme looks in a page of a webview. Leaves the window in that theme the first time."""
    if theme not in _looks:
        await window.theme(theme)
        await expect(window.chat.locator(f"body.{THEMES[theme].webview}")).to_be_attached()
        _looks[theme] = await _worn(frame)
    return _looks[theme]


async def _worn(frame: Frame) -> Look:
    found: dict[str, Any] = await _do(frame, "look")
    return Look(found["style"], found["classes"], found["data"])


async def _wear(frame: Frame, look: Look) -> None:
    await _do(frame, "wear", {"style": look.style, "classes": look.classes, "data": dict(look.data)})


async def looks(window: Window) -> Mapping[Theme, Look]:
    """All themes; they are the same in each webview."""
    frame = await chat_frame(window)
    found: dict[Theme, Look] = {theme: await look_of(window, frame, theme) for theme in THEMES}
    await window.theme("dark")
    return found


async def problems(
    window: Window, frame: Frame, background: str = "--vscode-sideBar-background"
) -> list[str]:
    """Return the problems on a page of the window: everything in the dark theme, contrast in all.

    ``background``: the colour below the page, which VS Code paints outside of its frame.
    """
    themes = await looks(window)
    before = await _worn(frame)
    found: list[str] = []
    try:
        for theme, look in themes.items():
            await _wear(frame, look)
            await _do(frame, "ground", background)
            rules = None if theme == "dark" else ["color-contrast"]
            found += [f"{theme}: {one}" for one in await findings(frame, rules)]
    finally:
        await _wear(frame, before)
    return found


async def cut_off(window: Window, widths: Sequence[int] = WIDTHS) -> list[str]:
    """Return the elements that are cut off in a chat of these widths."""
    frame = await chat_frame(window)
    found: list[str] = []
    for width in widths:
        async with chat_of_width(window, width):
            found += [f"{width} px: {one}" for one in await _do(frame, "cutOff")]
    return found


@asynccontextmanager
async def chat_of_width(window: Window, width: int) -> AsyncGenerator[None]:
    """Make the frame of the chat so wide for a while, whatever is around it."""
    element, frame = window.page.locator(CHAT_FRAME), await chat_frame(window)
    before = await element.evaluate("(frame) => frame.style.width")
    await element.evaluate("(frame, width) => { frame.style.width = `${width}px`; }", width)
    await frame.wait_for_function("(width) => innerWidth === width", arg=width)
    # Drawn, and what follows its size has followed.
    await frame.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    try:
        yield
    finally:
        await element.evaluate("(frame, width) => { frame.style.width = width; }", before)


async def assert_accessible(window: Window, widths: Sequence[int] = WIDTHS) -> None:
    """Nothing is wrong with the chat as it is now, in any theme and width."""
    found = await problems(window, await chat_frame(window)) + await cut_off(window, widths)
    assert found == [], "\n".join(found)


async def assert_graph_accessible(window: Window) -> None:
    """Fail if axe finds a problem in the graph as it is now, in any theme."""
    found = await problems(window, await graph_frame(window), "--vscode-editor-background")
    assert found == [], "\n".join(found)
