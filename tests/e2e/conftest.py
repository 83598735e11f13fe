"""Fixtures of the end-to-end tests: the program at a terminal; package, workspace, server, window of real VS Code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.vscode.install import BUILD, ROOT, ensure, few_extensions
from tests.e2e.vscode.server import VSCodeServer
from tests.e2e.vscode.server import goalwright as run_goalwright
from tests.e2e.vscode.shared import SharedWindow
from tests.e2e.vscode.window import Theme, Window, browser_of_this_loop, open_window
from tests.part_times import NEXT_TEST, is_in_vscode
from tests.support.drivers.command_line import CommandLine, fresh_account
from tests.support.drivers.forker import shared_forker
from tests.support.fakes.model_replies import ReplyLike
from tests.support.fakes.model_server import ModelServer

VSIX = ROOT / "vscode-extension" / "goalwright.vsix"
CLOSED_PORT = "http://127.0.0.1:9"
"""The discard port: nobody listens there, so no local Ollama is found by chance."""

TEST_SETTINGS: dict[str, object] = {"window.autoDetectColorScheme": True, "workbench.reduceMotion": "on"}

MODELS: dict[str, object] = {"data": [{"id": "claude-opus-5-5"}, {"id": "claude-sonnet-5-5"}]}
"""Models that Anthropic lists."""

WithModel = Callable[..., AbstractAsyncContextManager[tuple[ModelServer, Window]]]
Configure = Callable[..., Path]
OpenVSCode = Callable[..., AbstractAsyncContextManager[Window]]


@pytest.fixture(scope="session", autouse=True)
def terminated_like_interrupted() -> Iterator[None]:
    """A TERM (of a CI that lost patience) ends the run as Ctrl-C does: what was started is stopped.

    And Ctrl-C works: a shell without job control starts what runs in the background with INT ignored, and every program
    that a test starts and interrupts would inherit that.
    """
    both = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, signal.default_int_handler) for number in both}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def goalwright() -> Iterator[CommandLine]:
    """The program as a fresh user account runs it, with an empty workspace; its daemon is stopped at the end.

    Language servers are off: a test that is about what they say switches them on by ``configure(diagnostics=True)``.
    """
    with fresh_account(shared_forker()) as account:
        yield account


@pytest.fixture(scope="session")
def vscode() -> Path:
    """VS Code's server script, fetched if need be."""
    return ensure()


@pytest.fixture(scope="session")
def builtin(vscode: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extensions of VS Code's own that windows of tests have."""
    return few_extensions(tmp_path_factory.mktemp("vscode") / "builtin")


@pytest.fixture(scope="session")
def vsix() -> Path:
    """Return the packaged extension, as users install it."""
    assert VSIX.is_file(), f"{VSIX} is missing: run `make vsix` (`make test` does)"
    return VSIX


@pytest.fixture(scope="session")
def installed_extension(vscode: Path, vsix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of extensions into which VS Code has installed the package; each window gets a copy."""
    folder = tmp_path_factory.mktemp("installed")
    env = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    VSCodeServer(folder, folder, sys.executable, env=env).install(vsix)
    return folder / "extensions"


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short-named folder of this test: socket paths below pytest's own would be too long for the system."""
    folder = Path(tempfile.mkdtemp(prefix="gw-e2e-")).resolve()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def clean_env(scratch: Path) -> dict[str, str]:
    """The environment of a fresh user account."""
    return account_env(scratch / "home")


def account_env(home: Path, **settings: object) -> dict[str, str]:
    """The environment of a fresh user account with a HOME that is made: no keys, no local model.

    Besides ``settings``, language servers may take their time: a busy machine is slow, and what they say is tested.
    """
    for name in ("", "run", "tmp", ".goalwright"):
        (home / name).mkdir(mode=0o700)
    (home / ".goalwright" / "config.json").write_text(
        json.dumps({"diagnostics_timeout_s": 30, "preload": False, **settings})
    )
    keep = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "TMPDIR": str(home / "tmp")}
    return env | {"OLLAMA_HOST": CLOSED_PORT, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def workspace(scratch: Path) -> Path:
    """A fresh copy of the sample workspace."""
    from daemon.demo import copy_workspace

    folder = scratch / "sample"
    copy_workspace(folder)
    return folder


@pytest.fixture
def open_vscode(
    vsix: Path,
    builtin: Path,
    installed_extension: Path,
    scratch: Path,
    workspace: Path,
    clean_env: dict[str, str],
    request: pytest.FixtureRequest,
) -> Iterator[OpenVSCode]:
    """Opens VS Code on the workspace: ``async with open_vscode(env={...}) as window``.

    When the test fails, a picture and the logs stay in ``.build/failures``.
    """
    envs: list[Mapping[str, str]] = []

    @asynccontextmanager
    async def opener(
        env: Mapping[str, str] | None = None,
        theme: Theme = "dark",
        settings: Mapping[str, object] | None = None,
        python: str = sys.executable,
        restricted: bool = False,
        language: str = "",
    ) -> AsyncGenerator[Window]:
        full = clean_env | dict(env or {})
        envs.append(full)
        extensions = scratch / "vscode" / "extensions"
        alone = not extensions.exists()
        if alone:
            shutil.copytree(installed_extension, extensions)
        server = VSCodeServer(
            folder=scratch / "vscode",
            workspace=workspace,
            python=python,
            vsix=None if alone else vsix,
            settings={**TEST_SETTINGS, **(settings or {})},
            env=full,
            restricted=restricted,
            builtin=builtin,
        )
        with server:
            async with open_window(server, theme, language) as window:
                try:
                    yield window
                except BaseException:
                    await keep_evidence(window, request.node.name)
                    raise

    yield opener
    for env in envs:
        run_goalwright("stop", "--force", workspace=workspace, env=env)


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def shared_browser() -> AsyncGenerator[None]:
    """Tests in the loop of the session share a browser."""
    async with browser_of_this_loop():
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_window(
    shared_browser: None, builtin: Path, installed_extension: Path
) -> AsyncGenerator[SharedWindow]:
    """The window that tests of one worker share; they use it by ``with_model``.

    Language servers are off: a test that is about what they say switches them on by ``configure(diagnostics=True)``.
    """
    folder = Path(tempfile.mkdtemp(prefix="gw-e2e-")).resolve()

    def server_of(folder: Path, workspace: Path, env: Mapping[str, str]) -> VSCodeServer:
        vscode = folder / "vscode"
        shutil.rmtree(vscode, ignore_errors=True)
        shutil.copytree(installed_extension, vscode / "extensions")
        return VSCodeServer(
            vscode, workspace, sys.executable, settings=TEST_SETTINGS, env=env, builtin=builtin
        )

    shared = SharedWindow(folder, account_env(folder / "home", diagnostics=False), server_of)
    yield shared
    await shared.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture(loop_scope="session")
async def emptied(shared_window: SharedWindow, request: pytest.FixtureRequest) -> AsyncGenerator[Path]:
    """The workspace of the shared window, with nothing in it. The window is closed after the last test in VS Code."""
    await shared_window.empty()
    yield shared_window.workspace
    following = request.node.stash[NEXT_TEST]
    if following is None or not is_in_vscode(following):
        await shared_window.close()


@pytest.fixture
def ground(scratch: Path, request: pytest.FixtureRequest) -> Path:
    """An empty folder to put a workspace in: that of the shared window for a test ``with_model``, else a new one."""
    if "with_model" in request.fixturenames:
        return request.getfixturevalue("emptied")
    folder = scratch / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def with_model(shared_window: SharedWindow, emptied: Path, request: pytest.FixtureRequest) -> WithModel:
    """``async with with_model(replies, settings={...}) as (model, window)``: the shared window, and its model.

    The tests of the file run in the loop of the session: ``pytest.mark.asyncio(loop_scope="session")``.
    """

    def use(
        replies: Sequence[ReplyLike] = (), settings: Mapping[str, object] | None = None
    ) -> AbstractAsyncContextManager[tuple[ModelServer, Window]]:
        return shared_window.use(replies, lambda window: keep_evidence(window, request.node.name), settings)

    return use


@pytest.fixture
def configure(shared_window: SharedWindow, emptied: Path) -> Configure:
    """``configure(test_command="")``: settings of the shared window's daemon, for one test."""

    def write(**settings: object) -> Path:
        file = shared_window.config
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}, indent=2))
        return file

    return write


async def keep_evidence(window: Window, name: str) -> None:
    """Keep the evidence needed to understand a failure on another machine."""
    folder = BUILD / "failures" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "console.log").write_text("\n".join(window.console))
    (folder / "server.log").write_text(window.server.tail(100_000))
    (folder / "vscode.log").write_text(window.server.extension_logs())
    (folder / "frames.log").write_text(await window.frames())
    await window.screenshot(folder / "window.png")
    print(f"picture and logs of the failed window: {folder}")
