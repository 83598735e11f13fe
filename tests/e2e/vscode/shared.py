"""One window of VS Code for many tests: opening one costs more than most tests do in it.

A test gets it cleaned: an empty workspace, no editors, a new session and a model that has only the test's replies.
It may bring settings of VS Code and of the daemon, which are gone after it. What stays is what a user's window keeps
over a day: the daemon, its earlier sessions, the size of the side bars. A test that needs an environment of its own, a
first start or a look at all sessions opens a window of its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, expect

from tests.e2e.vscode.parcels import environment
from tests.e2e.vscode.server import VSCodeServer
from tests.e2e.vscode.server import goalwright as run_goalwright
from tests.e2e.vscode.window import SIZE, Window, open_window
from tests.support.fakes.model_replies import ReplyLike
from tests.support.fakes.model_server import ModelServer

ServerOf = Callable[[Path, Path, Mapping[str, str]], VSCodeServer]
"""Makes the server for a folder of its own, a workspace and an environment."""
_TITLE = "workspace ("
"""Begins the titles that show which settings are in force; pictures show them, too."""
_REMOVALS = 20


@dataclass
class SharedWindow:
    """The window of one worker; opened when the first test wants it, and again after a test that failed."""

    folder: Path
    env: Mapping[str, str]
    server_of: ServerOf
    model: ModelServer = field(default_factory=ModelServer)
    _window: Window | None = None
    _config: bytes | None = None
    _titles: int = 0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def workspace(self) -> Path:
        """The folder that the window is open on."""
        return self.folder / "workspace"

    @property
    def config(self) -> Path:
        """The daemon's ``config.json``; what a test puts there is gone after it."""
        return Path(self.env["HOME"]) / ".goalwright" / "config.json"

    async def empty(self) -> None:
        """Take away what the last test left, in the window, the workspace and the settings."""
        if self._config is None:
            self._config = self.config.read_bytes()
        self.config.write_bytes(self._config)
        if self._window is not None:
            try:
                await _tidy(self._window)
            except (AssertionError, PlaywrightError):
                await self.close()  # the next one is new, which is as clean
        self.workspace.mkdir(exist_ok=True)
        for path in self.workspace.iterdir():
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            else:
                path.unlink()

    @asynccontextmanager
    async def use(
        self,
        replies: Sequence[ReplyLike],
        failed: Callable[[Window], Awaitable[None]],
        settings: Mapping[str, object] | None = None,
    ) -> AsyncGenerator[tuple[ModelServer, Window]]:
        """The model with its replies, and the window; on an error ``failed`` is awaited and the window closed.

        ``settings``: those of VS Code that hold for this test, put into its workspace.
        """
        if self._window is None:
            await self._open()
        assert self._window is not None
        self.model.begin(replies)
        try:
            await self._settings_in_force(self._window.page, settings or {})
            yield self.model, self._window
            self.model.check()
            # Changed settings connect anew; two connections at once would get in each other's way.
            await expect(self._window.notification("couldn't create connection")).to_have_count(0)
        except BaseException:
            await failed(self._window)
            await self.close()
            raise

    async def _open(self) -> None:
        await self._stack.enter_async_context(self.model)
        env = {**self.env, **environment(self.model)}
        server = self._stack.enter_context(self.server_of(self.folder, self.workspace, env))
        self._stack.callback(run_goalwright, "stop", "--force", workspace=self.workspace, env=env)
        self._window = await self._stack.enter_async_context(open_window(server))

    async def _settings_in_force(self, page: Page, settings: Mapping[str, object]) -> None:
        """Write settings of the workspace, and wait until VS Code follows them, which takes it a while.

        They get a title of the window of their own, by which that shows.
        """
        file = self.workspace / ".vscode" / "settings.json"
        if settings or file.is_file():
            known = json.loads(file.read_text()) if file.is_file() else {}
            self._titles += 1
            title = f"{_TITLE}{self._titles})"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({**known, **settings, "window.title": title}))
            await expect(page).to_have_title(title)
        else:
            await expect(page).not_to_have_title(re.compile(re.escape(_TITLE)))

    async def close(self) -> None:
        """Close the window, and stop the daemon and the model server."""
        self._window = None
        await self._stack.aclose()


def _remove(folder: Path) -> None:
    """Remove a folder, also while the daemon writes the end of the last test's session into it."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    shutil.rmtree(folder)


async def _tidy(window: Window) -> None:
    """Close all editors without saving, begin a session and put toasts away."""
    page = window.page
    await page.bring_to_front()  # it is not alone in its browser, and only the page in front has the focus
    await page.set_viewport_size(SIZE)
    await window.theme("dark")
    tabs, question = page.locator(".tabs-container .tab"), page.locator(".monaco-dialog-box")
    if await tabs.count():
        await window.command("View: Close All Editors")
        try:
            await expect(tabs).to_have_count(0, timeout=2_000)
        except AssertionError:
            await question.get_by_role("button", name="Don't Save").click()
            await expect(tabs).to_have_count(0)
    if not await page.locator(".explorer-folders-view").is_visible():
        await window.command("View: Show Explorer")
    if await page.locator(".notification-toast").count():
        await window.command("Notifications: Clear All Notifications")
    # It moves the focus to the chat a moment later, which would catch the keys of another command.
    await window.command("Goalwright: New Session")
    if await window.composer.is_visible():
        await expect(window.composer).to_be_focused()
