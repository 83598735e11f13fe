"""A VS Code window as users see it: found by role and name, driven by mouse and keyboard.

Names are those of ``vscode-extension/test/README.md``. All waits are for what is shown, never for a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, FrameLocator, Locator, Page, ViewportSize, async_playwright, expect
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from tests.e2e.vscode.browser import FLAGS, MISSING, find
from tests.e2e.vscode.install import ROOT
from tests.e2e.vscode.server import EXTENSION_ID, VSCodeServer, goalwright
from tests.support.drivers.waiting import pause

Theme = Literal["dark", "light", "hc-dark", "hc-light"]


@dataclass(frozen=True)
class ThemeNames:
    """The names of a theme: in the browser's colour scheme, on the workbench, and on the page of a webview."""

    scheme: Literal["dark", "light"]
    workbench: str
    webview: str


THEMES: Mapping[Theme, ThemeNames] = {
    "dark": ThemeNames("dark", "vs-dark", "vscode-dark"),
    "light": ThemeNames("light", "vs", "vscode-light"),
    "hc-dark": ThemeNames("dark", "hc-black", "vscode-high-contrast:not(.vscode-high-contrast-light)"),
    "hc-light": ThemeNames("light", "hc-light", "vscode-high-contrast-light"),
}
_HIGH_CONTRAST = {
    "workbench.preferredDarkColorTheme": "Default High Contrast",
    "workbench.preferredLightColorTheme": "Default High Contrast Light",
}
"""Settings by which the two colour schemes of the browser stand for the themes of high contrast."""

DEADLINE_MS = 30_000
"""For anything to appear; generous, because machines are slow and a passing test does not wait."""
_PRESSES = 10
SIZE: ViewportSize = {"width": 1440, "height": 900}
"""Size of the window, in pixels."""

CHAT_FRAME = f'iframe.webview.ready[src*="extensionId={EXTENSION_ID}"][src*="purpose=webviewView"]'
# VS Code spins icons and moves progress bars even with reduced motion, and drawing that takes a third of a processor.
STILL = """
    const still = new CSSStyleSheet();
    const moving = ".codicon-modifier-spin, .codicon-modifier-spin::before, .monaco-progress-container .progress-bit";
    still.replaceSync(`${moving} { animation: none !important; }`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
"""

# Whether the editors that VS Code would restore, in its database in the browser, include one with this text.
_STORED = """async (text) => {
    for (const { name } of await indexedDB.databases()) {
        const asked = indexedDB.open(name);
        const database = await new Promise((done) => { asked.onsuccess = () => done(asked.result); });
        const found = database.objectStoreNames.contains("ItemTable") && await new Promise((done) => {
            const table = database.transaction("ItemTable").objectStore("ItemTable");
            const read = table.get("memento/workbench.parts.editor");
            read.onsuccess = () => done(String(read.result).includes(text));
        });
        database.close();
        if (found) return true;
    }
    return false;
}"""

PANEL_FRAME = f'iframe.webview.ready[src*="extensionId={EXTENSION_ID}"]:not([src*="purpose=webviewView"])'

# Where the palette's text is typed; a question of a command has a placeholder of its own.
_PALETTE = 'input.input[placeholder^="Type the name of a command"]'


class Window:
    """The workbench in a browser page, with the product's three places: chat, goals, diff."""

    def __init__(self, page: Page, server: VSCodeServer) -> None:
        self.page = page
        self.server = server
        self.console: list[str] = []
        self._hosts: set[str] = set()
        self._narrow = 0.0
        page.on("request", lambda request: self._hosts.add(urlsplit(request.url).hostname or ""))
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.console.append(f"pageerror: {error}"))

    # -- the workbench

    async def open(self) -> None:
        """Load the window and wait until the Explorer shows the workspace."""
        await self.page.goto(self.server.address)
        await self._ready()

    async def reload(self) -> None:
        """Reload the whole window, as **Developer: Reload Window** does."""
        await self.page.reload()
        await self._ready()

    async def stores_editor(self, text: str) -> None:
        """Wait until a reload restores the open editor with this text in its state: VS Code stores it when idle."""
        async with asyncio.timeout(DEADLINE_MS / 1000):
            while not await self.page.evaluate(_STORED, text):  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(pause(1))

    async def _ready(self) -> None:
        folder = self.page.locator(".explorer-folders-view .monaco-list-row").first
        nothing = self.page.get_by_role("heading", name="No Folder Opened")
        await expect(folder.or_(nothing).first).to_be_visible()
        if (
            await nothing.is_visible()
        ):  # on a busy machine VS Code may read a workspace file before it can read files
            await self.page.reload()
        await expect(folder).to_be_visible()
        # The palette does not list commands of extensions that are still being read.
        await expect(self.status_item()).to_be_visible()

    def remote_hosts(self) -> set[str]:
        """Other machines that anything in the window, the chat included, has asked for something."""
        # A webview's files have this made-up host; VS Code's own service worker answers for it.
        local = re.compile(r"^$|127\.0\.0\.1|.*\.vscode-resource\.vscode-cdn\.net")
        return {host for host in self._hosts if not local.fullmatch(host)}

    async def command(self, title: str) -> None:
        """Run a command through the palette by its full title."""
        # A command shows as "category: title, keys"; the exact title only, not one that begins like it.
        await self._quick_pick("F1", f">{title}", title, _PALETTE)
        # The palette is gone; what the command itself asks may stand in the same box already.
        await expect(self._quick_input.locator(_PALETTE).filter(visible=True)).to_have_count(0)

    async def open_file(self, name: str) -> None:
        """Open a file of the workspace by Quick Open."""
        await self._quick_pick("ControlOrMeta+P", name, Path(name).name)
        await expect(self.tab(Path(name).name)).to_be_visible()
        # It takes the focus later than its tab appears, from what would be typed into next.
        await expect(self.page.locator(".part.editor .monaco-editor.focused")).to_be_visible()

    async def rename(self, name: str, to: str) -> None:
        """Rename a file in the Explorer, again from the start if a window that is busy loses the key."""
        box = self.page.locator(".explorer-folders-view input")
        for attempt in range(_PRESSES):
            try:
                await self.page.locator(".explorer-folders-view .monaco-list-row", has_text=name).click()
                await self.page.keyboard.press("F2")
                await box.fill(to, timeout=3_000)
                break
            except PlaywrightTimeout:
                if attempt == _PRESSES - 1:
                    raise
        await box.press("Enter")
        # When all is done the Explorer takes the focus back, from what would be typed into next.
        await expect(self.page.locator(".explorer-folders-view .monaco-list")).to_be_focused()

    @property
    def _quick_input(self) -> Locator:
        """VS Code's input box at the top."""
        return self.page.locator(".quick-input-widget")

    async def _quick_pick(self, key: str, text: str, row: str, line: str = "input.input") -> None:
        """Open the box by ``key``, type ``text`` into its ``line`` and choose the row that is called ``row``.

        As a user would, try again from the start if the window does not go along: while it is still loading, a web
        view may swallow the key, and whatever takes the focus closes the box again.
        """
        box, patience = self._quick_input, 3_000
        # Rows used last come first, so one that only begins alike may stand in front.
        name = self.page.locator(".label-name", has_text=re.compile(f"^{re.escape(row)}$"))
        for attempt in range(_PRESSES):
            try:
                await self.page.keyboard.press(key)
                await box.locator(line).fill(text, timeout=patience)
                await box.locator(".monaco-list-row", has=name).first.click(timeout=patience)
                return
            except PlaywrightTimeout:
                if attempt == _PRESSES - 1:
                    raise
                await self.page.keyboard.press("Escape")

    def tab(self, title: str | re.Pattern[str]) -> Locator:
        """An editor's tab."""
        return self.page.locator(".tabs-container .tab", has_text=title)

    def status_item(self) -> Locator:
        """The product's item in the status bar."""
        return self.page.locator('.statusbar-item[id^="goalwright.goalwright"]')

    def notification(self, text: str | re.Pattern[str]) -> Locator:
        """A toast."""
        return self.page.locator(".notification-toast", has_text=text)

    # -- the chat

    @property
    def chat(self) -> FrameLocator:
        """Inside of the chat view."""
        return self.page.frame_locator(CHAT_FRAME).frame_locator("iframe#active-frame")

    async def show_chat(self) -> None:
        """Focus the chat by its command and wait for its composer."""
        await self.command("Goalwright: Focus on Chat View")
        await expect(self.composer).to_be_visible()

    async def new_session(self) -> None:
        """Begin a new session. What is typed before the chat shows it would stay a draft of the old one."""
        await self.command("Goalwright: New Session")
        await expect(self.chat.get_by_role("heading", level=1)).to_have_text("New session")

    async def widen_chat(self, pixels: int) -> None:
        """Drag the border between editor and chat until the chat is wider than at first by so many pixels."""
        box = await self.page.locator(".part.auxiliarybar").bounding_box()
        assert box is not None, "the secondary side bar is closed"
        self._narrow = self._narrow or box["width"]
        pixels -= round(box["width"] - self._narrow)
        x, y = box["x"] - 1, box["y"] + box["height"] / 2
        await self.page.mouse.move(x, y)
        await self.page.mouse.down()
        await self.page.mouse.move(x - pixels, y, steps=4)
        await self.page.mouse.up()

    @property
    def composer(self) -> Locator:
        """Return the box in which the user types."""
        return self.chat.get_by_role("textbox", name="Message Goalwright")

    async def say(self, text: str) -> None:
        """Type a message and press Enter."""
        await self.composer.click()
        await self.page.keyboard.insert_text(text)
        await self.page.keyboard.press("Enter")

    async def unfold(self, button: Locator) -> None:
        """Open what a button unfolds. It may be open: the chat keeps that from session to session.

        By a click: a diff that opens by itself can take the focus from under a key.
        """
        if await button.get_attribute("aria-expanded") != "true":
            await button.click()
        await expect(button).to_have_attribute("aria-expanded", "true")

    def answers(self) -> Locator:
        """The agent's messages."""
        return self.chat.get_by_role("article", name="Goalwright", exact=True)

    def tool(self, name: str, state: str | None = None) -> Locator:
        """Cards of a tool, in a state."""
        return self.chat.get_by_role("article", name=re.compile(rf"^Tool {name}: {state or ''}"))

    @property
    def approval(self) -> Locator:
        """The request for approval above the composer."""
        return self.chat.get_by_role("region", name="Approval needed")

    @property
    def accept(self) -> Locator:
        """The button of the request that lets all of it happen; its name says what that is."""
        name = re.compile(
            r"^(Run|Apply|Accept all|(Create|Delete|Move) file|Allow|Fetch|Start|Let it continue)$"
        )
        return self.approval.get_by_role("button", name=name)

    def button(self, name: str, within: Locator | None = None) -> Locator:
        """A button of the chat by its exact name."""
        return (within or self.chat).get_by_role("button", name=name, exact=True)

    # -- the goals

    async def show_goals(self) -> Locator:
        """Expand the goal tree in the Explorer and return its pane."""
        # Named "Goals Section", or with progress "Goals - 1/2 Section".
        header = self.page.locator('.pane-header[aria-label^="Goals"]')
        # The first plan opens it, too, perhaps just when this clicks.
        for _ in range(_PRESSES):
            if await header.get_attribute("aria-expanded") == "true":
                break
            await header.click()
            with contextlib.suppress(AssertionError):
                await expect(header).to_have_attribute("aria-expanded", "true", timeout=3_000)
        await expect(header).to_have_attribute("aria-expanded", "true")
        return self.page.locator(".pane", has=header)

    async def grow_goals(self, pixels: int) -> None:
        """Drag the border above the panes at the bottom of the Explorer up, which makes the last one taller."""
        box = await self.page.locator('.pane-header[aria-label^="Outline"]').bounding_box()
        assert box is not None, "the Explorer is closed"
        x, y = box["x"] + box["width"] / 2, box["y"]
        await self.page.mouse.move(x, y)
        await self.page.mouse.down()
        await self.page.mouse.move(x, y - pixels, steps=4)
        await self.page.mouse.up()

    async def goal(self, name: str | re.Pattern[str]) -> Locator:
        """A row of the goal tree."""
        return (await self.show_goals()).get_by_role("treeitem", name=name)

    async def choose(self, goal: str, item: str, then: Locator) -> None:
        """Choose from the context menu of a goal, until ``then`` is there.

        As a user would, try again from the start if the window does not go along: a menu takes no click in its first
        moment, and whatever takes the focus (the chat, when a turn ends) closes it again.
        """
        row = await self.goal(re.compile(f"^{goal}"))
        # Items are named with their keys.
        entry = self.page.get_by_role("menuitem", name=re.compile(f"^{item}"))
        for attempt in range(_PRESSES):
            try:
                await row.click(button="right", timeout=3_000)
                await entry.hover(timeout=3_000)
                await self.page.keyboard.press("Enter")
                await expect(then).to_be_visible(timeout=5_000)
                return
            except (AssertionError, PlaywrightTimeout):
                if await then.is_visible():
                    return
                if attempt == _PRESSES - 1:
                    raise
                await self.page.keyboard.press("Escape")

    # -- the graph

    @property
    def graph(self) -> FrameLocator:
        """Inside of the graph's panel."""
        return self.page.frame_locator(PANEL_FRAME).frame_locator("iframe#active-frame")

    def node(self, name: str | re.Pattern[str]) -> Locator:
        """A node of the graph, by the words it is read out with."""
        return self.graph.get_by_role("tree", name=re.compile("^Graph of goals")).get_by_role(
            "treeitem", name=name
        )

    # -- the diff

    @property
    def diff(self) -> Locator:
        """VS Code's own diff editor."""
        return self.page.locator(".monaco-diff-editor")

    def title_action(self, name: str) -> Locator:
        """A button in the editor's title bar."""
        return self.page.locator(f'.editor-actions .action-label[aria-label^="{name}"]').first

    # -- the daemon

    async def daemon_pid(self) -> int:
        """Process id of the workspace's daemon, as ``goalwright status`` tells it."""
        done = await asyncio.to_thread(
            goalwright, "status", "--json", workspace=self.server.workspace, env=self.server.env
        )
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["pid"])

    # -- pictures

    async def theme(self, theme: Theme) -> None:
        """Switch the colour theme, as the user would in the settings."""
        names = THEMES[theme]
        await self.page.emulate_media(color_scheme=names.scheme)
        self._prefer_high_contrast(theme.startswith("hc"))
        await expect(self.page.locator(f".monaco-workbench.{names.workbench}")).to_be_visible()

    def _prefer_high_contrast(self, wanted: bool) -> None:
        """Set or remove the themes of high contrast in the settings of the workspace."""
        file = self.server.workspace / ".vscode" / "settings.json"
        known: dict[str, object] = json.loads(file.read_text()) if file.is_file() else {}
        others = {name: value for name, value in known.items() if name not in _HIGH_CONTRAST}
        values = others | (_HIGH_CONTRAST if wanted else {})
        if values == known:
            return
        if values:
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(values))
        else:
            file.unlink()

    async def frames(self) -> str:
        """Return the frames of the page with the beginning of their documents, for a failing test's report."""
        elements = (
            "[...document.querySelectorAll('iframe')].map(one => `${one.className} ${one.src}`).join('\\n')"
        )
        texts = [str(await self.page.evaluate(elements))]
        for frame in self.page.frames[1:]:
            try:
                text = await asyncio.wait_for(frame.content(), 5)
            except (TimeoutError, PlaywrightError) as error:
                text = repr(error)
            texts.append(f"--- {frame.url}\n{text[:3000]}")
        return "\n".join(texts)

    async def screenshot(self, file: Path) -> None:
        """A picture of the whole window, with the pointer and carets out of the way."""
        file.parent.mkdir(parents=True, exist_ok=True)
        await self.page.mouse.move(0, 0)
        await self.page.screenshot(path=file, animations="disabled", caret="hide")

    async def pictures(self, name: str, themes: Sequence[Theme] = ("light", "dark")) -> None:
        """The present state in some themes, as ``NAME-dark.png``, ``NAME-light.png`` …, and dark after that.

        Only when ``GOALWRIGHT_SCREENSHOTS`` names a folder for them, as ``make screenshots`` does: switching the theme
        and drawing cost more than most of what a test does.
        """
        if (folder := picture_folder()) is None:
            return
        for theme in themes:
            await self.theme(theme)
            await self.screenshot(folder / f"{name}-{theme}.png")
        await self.theme("dark")


def picture_folder() -> Path | None:
    """Where pictures go; None when nobody wants any."""
    wanted = os.environ.get("GOALWRIGHT_SCREENSHOTS")
    return ROOT / wanted if wanted else None


class SharedBrowser:
    """One browser for all tests that run in one loop. It starts with the first that wants it."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._browser: Browser | None = None

    async def get(self) -> Browser:
        """It; a new one when it has crashed. Fails with what to do when there is none."""
        if self._browser is None or not self._browser.is_connected():
            self._browser = await self._stack.enter_async_context(_launched())
        return self._browser

    async def close(self) -> None:
        """End it."""
        await self._stack.aclose()


_SHARED: dict[asyncio.AbstractEventLoop, SharedBrowser] = {}


@asynccontextmanager
async def browser_of_this_loop() -> AsyncGenerator[None]:
    """Within the block, all who want a browser in this loop get the same one."""
    loop = asyncio.get_running_loop()
    _SHARED[loop] = SharedBrowser()
    try:
        yield
    finally:
        await _SHARED.pop(loop).close()


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """The browser, started, and shared when it is: whoever uses it closes the pages. Fails when there is none."""
    if shared := _SHARED.get(asyncio.get_running_loop()):
        yield await shared.get()
        return
    async with _launched() as browser:
        yield browser


@asynccontextmanager
async def _launched() -> AsyncGenerator[Browser]:
    executable = find()
    if executable is None:
        raise AssertionError(MISSING)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_window(
    server: VSCodeServer, theme: Theme = "dark", language: str = ""
) -> AsyncGenerator[Window]:
    """A window on a server's workspace.

    ``language``: VS Code's display language, e.g. ``zh-cn``, as a language pack sets it. Without the pack, VS Code's
    own texts stay English; extensions take theirs.
    """
    async with chromium() as browser:
        page = await browser.new_page(
            viewport=SIZE,
            device_scale_factor=1,
            color_scheme=THEMES[theme].scheme,
            reduced_motion="reduce",
        )
        await page.add_init_script(f"{{ {STILL} }}")
        if language:
            fixed = f"{{ get: () => {json.dumps(language)}, set() {{}} }}"
            await page.add_init_script(f"Object.defineProperty(globalThis, '_VSCODE_NLS_LANGUAGE', {fixed})")
        page.set_default_timeout(DEADLINE_MS)
        expect.set_options(timeout=DEADLINE_MS)
        window = Window(page, server)
        try:
            await window.open()
            yield window
        finally:
            await page.close()
