"""VS Code's server on a folder, with directories of its own: for ``make run`` and for the tests."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.e2e.vscode.install import node, server_main
from tests.support.drivers.ports import free_port

QUIET: dict[str, object] = {
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "chat.disableAIFeatures": True,
    "chat.commandCenter.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "visible",
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "extensions.ignoreRecommendations": True,
    "workbench.tips.enabled": False,
    "workbench.enableExperiments": False,
    # Else a toast over the composer tells of each port that any process of the machine opens.
    "remote.autoForwardPorts": False,
}
"""User settings for a window that shows the workspace and this extension, and asks for no attention."""

RESTRICTED: dict[str, object] = {
    "security.workspace.trust.enabled": True,
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
}
"""User settings for a window that opens in VS Code's restricted mode, without a question."""

EXTENSION_ID = "goalwright.goalwright"


class ServerError(Exception):
    """VS Code's server did not start or refused the extension; the message has its last words."""


def goalwright(
    *arguments: str, workspace: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the product's command line for a workspace. ``-I``: nothing is imported from where we stand."""
    return subprocess.run(
        [sys.executable, "-I", "-m", "goalwright", *arguments, "--workspace", str(workspace)],
        cwd=workspace.parent,
        env=None if env is None else dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def write_settings(folder: Path, python: str, more: Mapping[str, object] | None = None) -> None:
    """Write the settings of a fresh set-up whose user data is in ``folder/user``."""
    every = {**QUIET, "goalwright.python": python, **(more or {})}
    ours = {name: value for name, value in every.items() if name.startswith("goalwright.")}
    for name, values in (("User", every), ("Machine", ours)):
        # A window in the browser silently ignores machine-scoped settings in the user's file; a desktop
        # window reads no other.
        file = folder / "user" / name / "settings.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values, indent=2))


@dataclass
class VSCodeServer:
    """One VS Code server. ``with VSCodeServer(...) as server`` starts it and stops all it started."""

    folder: Path
    """Where its data, extensions, settings and log go; made when missing."""
    workspace: Path
    python: str
    """Goes into the setting ``goalwright.python``."""
    vsix: Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """More user settings."""
    env: Mapping[str, str] | None = None
    """The whole environment of VS Code, its extensions and the daemon they start; None: ours."""
    port: int = 0
    """0: any free one."""
    token: bool = False
    """Ask for a connection token, as one must where other people share the machine."""
    restricted: bool = False
    """Open the window in VS Code's restricted mode: nobody has said yet that the folder is trusted."""
    builtin: Path | None = None
    """The folder of the extensions that belong to VS Code; None: all that it brings."""
    _process: subprocess.Popen[bytes] | None = None
    _token: str = ""

    @property
    def log(self) -> Path:
        """Return the server's output."""
        return self.folder / "server.log"

    @property
    def address(self) -> str:
        """The full address of the window on the workspace, the token included."""
        query = f"tkn={self._token}&" if self._token else ""
        kind = "workspace" if self.workspace.suffix == ".code-workspace" else "folder"
        return f"http://127.0.0.1:{self.port}/?{query}{kind}={quote(str(self.workspace))}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, deadline_s: float = 60) -> None:
        """Write the settings, install the extension, start, and wait until it answers. Raises ServerError."""
        write_settings(self.folder, self.python, {**self.settings, **(RESTRICTED if self.restricted else {})})
        if self.vsix is not None:
            self.install(self.vsix)
        self.port = self.port or free_port()
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--telemetry-level", "off"]
        arguments += ["--accept-server-license-terms"]
        if not self.restricted:
            arguments += ["--disable-workspace-trust"]
        if self.token:
            self._token = secrets.token_urlsafe(18)
            file = self.folder / "token"
            file.touch(mode=0o600)
            file.write_text(self._token)
            arguments += ["--connection-token-file", str(file)]
        else:
            arguments += ["--without-connection-token"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(*arguments),
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_for_answer(time.monotonic() + deadline_s)

    def wait(self) -> int:
        """Block until the server ends on its own."""
        assert self._process is not None
        return self._process.wait()

    def install(self, vsix: Path) -> None:
        """Install an extension package as users do. Raises ServerError when VS Code refuses it."""
        done = subprocess.run(
            self._command("--install-extension", str(vsix), "--force"),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        installed = list((self.folder / "extensions").glob("*/package.json"))
        if done.returncode or not installed:
            raise ServerError(f"VS Code did not install {vsix}:\n{(done.stdout + done.stderr)[-3000:]}")

    def stop(self) -> None:
        """Stop the server and everything in its process group. Does nothing when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        # The extension hosts are in the same group and may outlive their parent.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _command(self, *arguments: str) -> list[str]:
        here = self.folder
        directories = ["--server-data-dir", here / "server", "--user-data-dir", here / "user"]
        directories += ["--extensions-dir", here / "extensions"]
        if self.builtin is not None:
            directories += ["--builtin-extensions-dir", self.builtin]
        return [str(node()), str(server_main()), *map(str, directories), *arguments]

    def _environment(self) -> dict[str, str]:
        env = dict(os.environ if self.env is None else self.env)
        # A VS Code started from another VS Code's terminal must not talk to that one.
        return {k: v for k, v in env.items() if not k.startswith(("VSCODE_", "ELECTRON_"))}

    def _wait_for_answer(self, deadline: float) -> None:
        assert self._process is not None
        url = f"http://127.0.0.1:{self.port}/version"
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            with contextlib.suppress(urllib.error.URLError, OSError), direct.open(url, timeout=5):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"VS Code's server does not answer on port {self.port}:\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, characters: int = 4000) -> str:
        """The end of what the server printed."""
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def extension_logs(self) -> str:
        """Return the logs of the window's extension hosts and output channels, for a failing test's report."""
        files = [*self.folder.glob("server/data/logs/**/*.log"), *self.folder.glob("user/logs/**/*.log")]
        texts = {file: file.read_text(errors="replace")[-4000:] for file in sorted(files)}
        return "\n".join(
            f"--- {file.relative_to(self.folder)}\n{text}" for file, text in texts.items() if text
        )


def remove(folder: Path) -> None:
    """Delete a server's folder; leftovers of a process that is just ending are not worth an error."""
    shutil.rmtree(folder, ignore_errors=True)
