"""``make run``: VS Code on a fresh copy of the sample workspace, with the extension, until it is stopped.

``python -m tests.e2e.vscode.run --vsix FILE [--port N] [--workspace FOLDER]``. The desktop's VS Code is used when there
is one that can open a window, with directories of its own, so that the user's set-up stays as it is; else VS Code in
the browser, whose address is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from tests.e2e.vscode.desktop import DesktopError, DesktopVSCode, desktop_command, has_screen
from tests.e2e.vscode.install import InstallError, ensure
from tests.e2e.vscode.server import ServerError, VSCodeServer, goalwright, remove

WELCOME: dict[str, object] = {"workbench.startupEditor": "readme"}
"""The first text a user sees explains the folder. Not in a browser, where its preview and the chat would be two web
views: of two that load at once for the first time VS Code's service worker may miss one, which then stays empty."""


class StoppedError(Exception):
    """Somebody pressed Ctrl-C or sent TERM."""


@dataclass(frozen=True)
class Options:
    """The command line."""

    vsix: Path
    port: int
    workspace: Path | None
    browser: bool


def parse(arguments: list[str]) -> Options:
    """Read the command line; wrong use ends the program with a message."""
    parser = argparse.ArgumentParser(prog="make run", description="VS Code on a sample workspace.")
    parser.add_argument("--vsix", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="port of VS Code in the browser; 0: any free one")
    parser.add_argument("--workspace", type=Path, help="open this folder instead of a copy of the sample")
    parser.add_argument(
        "--browser", action="store_true", help="not the desktop's VS Code, even if there is one"
    )
    found = parser.parse_args(arguments)
    if found.workspace is not None and not found.workspace.is_dir():
        parser.error(f"{found.workspace} is not a folder")
    if found.port and not _is_free(found.port):
        parser.error(f"port {found.port} is in use; choose another (PORT=) or none, for any free one")
    workspace = found.workspace.resolve() if found.workspace else None
    return Options(found.vsix.resolve(), found.port, workspace, found.browser)


def describe_model(status: Mapping[str, Any]) -> str:
    """One line, or a few, about the model that will answer, from the daemon's status."""
    if status.get("demo"):
        from daemon.demo import PROMPT

        return (
            "the built-in DEMO, a script that needs no key. Type into the chat:\n"
            f"             {PROMPT}\n"
            "           For a real model: ANTHROPIC_API_KEY=... make run   (or OPENAI_API_KEY, or start Ollama)"
        )
    return str(status.get("model") or "unknown")


def model_line(workspace: Path) -> str:
    """Start the workspace's daemon and ask it; what it answers is what the window will say too."""
    started = goalwright("start", workspace=workspace)
    asked = goalwright("status", "--json", workspace=workspace)
    if started.returncode or asked.returncode:
        return f"not known, the daemon did not start: {(started.stderr + started.stdout).strip()[-2000:]}"
    return describe_model(json.loads(asked.stdout))


@contextlib.contextmanager
def prepared_workspace(chosen: Path | None) -> Generator[Path]:
    """Return the user's folder, or a fresh copy of the sample; the daemon started for it is stopped at the end."""
    workspace = chosen
    if workspace is None:
        from daemon.demo import copy_workspace

        workspace = Path(tempfile.mkdtemp(prefix="goalwright-")).resolve() / "sample"
        copy_workspace(workspace)
    # A daemon that somebody else's window uses is not ours to stop.
    was_running = goalwright("status", workspace=workspace).returncode == 0
    try:
        yield workspace
    finally:
        if not was_running:
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                goalwright("stop", "--force", workspace=workspace)
        print(f"Stopped. The workspace is still in {workspace}", flush=True)


def serve(options: Options, workspace: Path, folder: Path) -> int:
    """Open VS Code and keep it open. Returns the exit status; raises StoppedError."""
    code = None if options.browser else desktop_command(os.environ)
    print(f"Workspace: {workspace}", flush=True)
    print(f"Model:     {model_line(workspace)}", flush=True)
    if code is not None:
        try:
            with DesktopVSCode(code, folder, workspace, sys.executable, options.vsix, WELCOME) as window:
                print(f"VS Code:   {code} (close its window or press Ctrl-C here to stop)", flush=True)
                return window.wait()
        except DesktopError as error:
            print(f"{error}\nUsing VS Code in the browser instead.", file=sys.stderr, flush=True)
    ensure()
    server = VSCodeServer(folder, workspace, sys.executable, options.vsix, port=options.port, token=True)
    with server:
        print(f"VS Code:   {server.address}", flush=True)
        print("Open this address in a browser; press Ctrl-C here to stop.", flush=True)
        if os.environ.get("SSH_CONNECTION"):
            print(f"On another machine first: ssh -L {server.port}:127.0.0.1:{server.port} ...", flush=True)
        if sys.stdout.isatty() and has_screen(os.environ):
            webbrowser.open(server.address)
        status = server.wait()
    print(f"VS Code's server ended by itself ({status}):\n{server.tail()}", file=sys.stderr)
    return 1


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # A second signal must not interrupt the tidying up.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise StoppedError


def main(arguments: list[str]) -> int:
    """Run until stopped; return 0 when the user stopped it."""
    options = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    folder = Path(tempfile.mkdtemp(prefix="goalwright-vscode-"))
    try:
        with prepared_workspace(options.workspace) as workspace:
            return serve(options, workspace, folder)
    except StoppedError:
        return 0
    except (InstallError, ServerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        remove(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
