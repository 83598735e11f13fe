"""The desktop's VS Code, opened beside the user's own: separate settings, extensions and windows."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.e2e.vscode.server import write_settings

OLDEST = (1, 106)
"""``engines.vscode`` of the extension."""


class DesktopError(Exception):
    """The desktop's VS Code cannot be used; the message says why."""


def has_screen(env: Mapping[str, str]) -> bool:
    """A window could be shown here."""
    if sys.platform == "darwin":
        return not env.get("SSH_CONNECTION")
    return bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def desktop_command(env: Mapping[str, str]) -> Path | None:
    """``code`` on PATH when it can open a window of its own; None for a remote shim, no screen, an old one.

    In a terminal of a remote window (SSH, container, WSL) ``code`` only talks to the window it was started
    from: it would install the extension into the user's own set-up.
    """
    found = shutil.which("code", path=env.get("PATH"))
    if found is None or not has_screen(env) or env.get("VSCODE_IPC_HOOK_CLI"):
        return None
    real = Path(found).resolve()
    # Under /mnt is Windows' own, seen from WSL: it takes no folders of ours.
    if {"remote-cli", ".vscode-server", ".vscode-remote"} & set(real.parts) or real.parts[1:2] == ("mnt",):
        return None
    try:
        asked = subprocess.run(
            [found, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.match(r"(\d+)\.(\d+)\.", asked.stdout)
    if asked.returncode or version is None or (int(version[1]), int(version[2])) < OLDEST:
        return None
    return Path(found)


@dataclass
class DesktopVSCode:
    """A window of the desktop's VS Code: opened on entry, closed on exit."""

    code: Path
    folder: Path
    workspace: Path
    python: str
    vsix: Path
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """More user settings."""
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        write_settings(self.folder, self.python, self.settings)
        done = subprocess.run(
            self._command("--install-extension", str(self.vsix), "--force"),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise DesktopError(
                f"{self.code} did not install the extension: {(done.stdout + done.stderr)[-1000:]}"
            )
        arguments = ["--new-window", "--wait", "--disable-workspace-trust", str(self.workspace)]
        self._process = subprocess.Popen(
            self._command(*arguments), env=_environment(), stdin=subprocess.DEVNULL, start_new_session=True
        )
        return self

    @property
    def running(self) -> bool:
        """The command has not ended."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Block until the window is closed; the command's exit status."""
        assert self._process is not None
        return self._process.wait()

    def __exit__(self, *exc: object) -> None:
        """End the command and the window, which is no child of the command: found by its own data folder."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(10)
        deadline = time.monotonic() + 5
        while (left := processes_naming(str(self.folder))) and time.monotonic() < deadline:
            _signal(left, signal.SIGTERM)
            time.sleep(0.2)
        _signal(processes_naming(str(self.folder)), signal.SIGKILL)

    def _command(self, *arguments: str) -> list[str]:
        directories = [
            "--user-data-dir",
            self.folder / "user",
            "--extensions-dir",
            self.folder / "extensions",
        ]
        # As root (in a container) VS Code refuses to start without this flag.
        root = ["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []
        return [str(self.code), *map(str, directories), *root, *arguments]


def processes_naming(text: str) -> list[int]:
    """Ids of processes, other than this one, whose command line has ``text`` in it: a folder of ours."""
    listed = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True).stdout
    found = [line.split(None, 1) for line in listed.splitlines() if text in line]
    return [int(pid) for pid, _ in found if int(pid) != os.getpid()]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("VSCODE_", "ELECTRON_"))}
