"""The sandbox that commands may run in: what it lets through, and how it is made (``bwrap`` on Linux).

In it the disk is read-only but for the workspace (and folders of the person's choice); ``/tmp`` is private; there is
no network, no way to the person's agents and daemons by Unix sockets, and no process but its own. What the rules
would ask about or deny for reading cannot be read, and what makes other programs run something cannot be written.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.process import find_program
from tools.sandbox_survey import ROOT_FOLDERS, Survey, TooLarge, home_secrets, sockets, survey

Decide = Callable[[str, str], str]
_PROBE = ("--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "--dev", "/dev")
_PROBE_S = 10.0
_FRESH = ("/tmp", "/var/tmp", "/run", "/dev/shm")
# Of systems where programs or names are found by way of /run.
_OF_RUN = ("/run/current-system", "/run/opengl-driver", "/run/wrappers")
_RESOLVER = "/etc/resolv.conf"
_NO_WAY_OUT = frozenset(
    word
    for line in (
        "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY ",
        "XAUTHORITY DOCKER_HOST VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE GIT_ASKPASS SSH_ASKPASS TMPDIR TMP TEMP",
    )
    for word in line.split()
)
_UNWANTED = (".git/commondir", ".git/config.worktree")
"""Files that lead git to other settings: when a command has made one, it is taken away."""

_made: Counter[Path] = Counter()
_made_lock = threading.Lock()


class Unavailable(Exception):
    """There is no sandbox here; the message says why, for the person."""


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What a command in the sandbox may do. ``off``: commands run as they are, after a question."""

    kind: Literal["off", "workspace-write", "read-only"] = "off"
    network: bool = False
    writable: tuple[Path, ...] = ()
    """More folders that may be written, absolute and resolved."""
    hidden: tuple[Path, ...] = ()
    """What nobody may see there: Goalwright's own state, with which one could answer one's own questions."""

    @property
    def words(self) -> str:
        """For the model and the person."""
        disk = "workspace writable, rest read-only" if self.kind == "workspace-write" else "disk read-only"
        return f"{disk}, {'with' if self.network else 'no'} network"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that is ready for one command. ``leave`` is to be called after it."""

    prefix: tuple[str, ...]
    """Program and options before the command's own."""
    policy: SandboxPolicy
    workspace: Path
    aside: Path
    """Where unwanted files go."""
    made: tuple[Path, ...]
    """Folders that are there only for the time of the command, so that it cannot make them."""
    absent: tuple[Path, ...]

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Without the ways to agents and daemons outside."""
        return {name: value for name, value in environment.items() if name not in _NO_WAY_OUT}

    def leave(self) -> list[str]:
        """Tidy up; returns the names of files that were taken away. Blocking; never raises."""
        taken: list[str] = []
        for path in self.absent:
            try:
                if os.path.lexists(path):
                    self.aside.mkdir(parents=True, exist_ok=True)
                    path.rename(self.aside / f"taken-{path.name}")
                    taken.append(path.relative_to(self.workspace).as_posix())
            except OSError:
                continue
        with _made_lock:
            for path in self.made:
                _made[path] -= 1
                if _made[path] > 0:
                    continue
                del _made[path]
                try:
                    path.rmdir()
                except OSError:
                    pass  # somebody has put something there, or it never came to be
        return taken


@functools.cache
def usable(program: str) -> tuple[str, ...] | str:
    """Options with which ``bwrap`` works here, or why it does not. Blocking, looked at once."""
    said = ""
    for options in (("--unshare-user", *_PROBE), _PROBE):
        try:
            done = subprocess.run(
                [program, *options, "--", "/bin/sh", "-c", "exit 0"],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False, cwd="/",
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bwrap cannot be run here ({error})"
        if done.returncode == 0:
            return options[:1] if options[0] == "--unshare-user" else ()
        said = said or done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
    return f"bwrap does not work here ({said or 'no reason given'}); user namespaces may be switched off"


def available(workspace: Path) -> tuple[str, tuple[str, ...]]:
    """The program and its options. Raises Unavailable. Blocking the first time."""
    if not sys.platform.startswith("linux"):
        raise Unavailable("the sandbox needs Linux and bwrap")
    program = find_program("bwrap", workspace)
    if program is None:
        raise Unavailable("bwrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)")
    options = usable(program)
    if isinstance(options, str):
        raise Unavailable(options)
    return program, options


def prepare(policy: SandboxPolicy, workspace: Path, scratch: Path, decide: Decide) -> Sandbox:
    """A sandbox for one command in ``workspace``. Blocking: it looks at all files there. Raises Unavailable.

    ``decide`` is what rules say to (permission, name); ``scratch`` a private folder for what it needs.
    """
    program, options = available(workspace)
    try:
        found = survey(workspace, decide, writable=policy.kind == "workspace-write")
    except TooLarge as error:
        raise Unavailable(str(error)) from error
    nothing = _nothing(scratch)
    writable = policy.kind == "workspace-write" and not found.read_only
    argv = [program, *options, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    argv += [] if policy.network else ["--unshare-net"]
    argv += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    fresh = [folder for folder in _FRESH if Path(folder).is_dir() and not Path(folder).is_symlink()]
    for folder in fresh:
        argv += ["--tmpfs", folder]
    for folder in _OF_RUN:
        argv += ["--ro-bind-try", folder, folder]
    if policy.network:
        resolver = os.path.realpath(_RESOLVER)
        argv += ["--ro-bind-try", resolver, resolver] if resolver.startswith("/run/") else []
    shown = [workspace, *(folder for folder in policy.writable if folder.is_dir())]
    for folder in sorted(shown, key=lambda path: len(path.parts)):
        argv += [
            "--bind" if writable or folder != workspace else "--ro-bind", str(folder), str(folder)
        ]  # fmt: skip
    made: list[Path] = []
    if writable:
        made = _keep(argv, workspace, found)
    for path in _hidden(policy, workspace, found):
        if _is_seen(path, fresh, shown):
            argv += _mask(path, nothing)
    argv += ["--chdir", str(workspace), "--"]
    absent = tuple(workspace / name for name in _UNWANTED if not os.path.lexists(workspace / name))
    aside = scratch / "sandbox"
    return Sandbox(tuple(argv), policy, workspace, aside, tuple(made), absent if writable else ())


def _keep(argv: list[str], workspace: Path, found: Survey) -> list[Path]:
    """Bind what must not be changed; the folders that this makes for the time of the command."""
    for path in found.pinned:
        # A place where something is mounted cannot be renamed, and another put there instead.
        argv += ["--bind", str(path), str(path)]
    for path in found.kept:
        argv += ["--ro-bind", str(path), str(path)]
    made: list[Path] = []
    with _made_lock:
        for name in ROOT_FOLDERS:
            path = workspace / name
            if path in _made or not os.path.lexists(path):
                argv += ["--tmpfs", str(path), "--remount-ro", str(path)]
                _made[path] += 1
                made.append(path)
    return made


def _hidden(policy: SandboxPolicy, workspace: Path, found: Survey) -> list[Path]:
    everything = [*found.hidden, *policy.hidden, *home_secrets(), *sockets()]
    paths = dict.fromkeys(Path(os.path.realpath(path)) for path in everything)
    return sorted((path for path in paths if path != workspace), key=lambda path: len(path.parts))


def _is_seen(path: Path, fresh: list[str], shown: list[Path]) -> bool:
    """Not what lies in a folder that is empty there anyway."""
    if not os.path.lexists(path) or any(folder.is_relative_to(path) for folder in shown):
        return False
    if any(path.is_relative_to(folder) for folder in shown):
        return True
    return not any(path.is_relative_to(folder) for folder in (*fresh, "/proc", "/dev"))


def _mask(path: Path, nothing: Path) -> list[str]:
    if path.is_dir():
        return ["--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", str(nothing), str(path)]


def _nothing(scratch: Path) -> Path:
    """A file that nobody can open. Raises Unavailable."""
    path = scratch / "sandbox" / "nothing"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(path):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o000))
        path.chmod(0o000)
    except OSError as error:
        raise Unavailable(f"the sandbox could not be prepared ({error})") from error
    return path
