"""The sandbox that commands may run in: what it lets through, and how it is made (``bwrap`` on Linux).

In it the disk is read-only but for the workspace (and folders of the person's choice); ``/tmp`` is the session's own;
there is no network, no way to the person's agents and daemons by Unix sockets, and no process but its own. What the
rules would ask about or deny for reading cannot be read, and what makes other programs run something cannot be written:
what is there is mounted read-only, and what is new is taken away when the command has ended.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.process import find_program
from tools.sandbox_guard import Guard, left_over
from tools.sandbox_survey import Survey, TooLarge, home_secrets, sockets, survey

Decide = Callable[[str, str], str]
_PROBE = ("--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "--dev", "/dev")
_PROBE_S = 10.0
_OWN = ("/tmp", "/var/tmp")
_FRESH = (*_OWN, "/run", "/dev/shm")
_KEEP_S = 7 * 24 * 3600
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
    readable: tuple[Path, ...] = ()
    """Folders that can be seen wherever they lie, and not written. Absolute, resolved."""
    copy_of: Path | None = None
    """The workspace itself, when the command works in a copy of it: seen, and never written. What rules hide of a
    workspace is hidden there, too."""

    @property
    def words(self) -> str:
        """For the model and the person."""
        disk = "workspace writable, rest read-only" if self.kind == "workspace-write" else "disk read-only"
        return f"{disk}, {'with' if self.network else 'no'} network"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that is ready for one command. ``leave`` is to be called after it, when nothing of it runs any more."""

    prefix: tuple[str, ...]
    """Program and options before the command's own."""
    policy: SandboxPolicy
    guard: Guard | None
    """Looks after what it makes; None where it can make nothing."""
    earlier: tuple[str, ...] = ()
    """What was taken away of earlier commands and nobody was told of, in words."""
    writable: tuple[Path, ...] = ()
    """Folders that the command can write, besides the workspace. What rules forbid is less than the policy allows."""

    @property
    def words(self) -> str:
        """What the command really got, for the model and the person: the policy is only what it may get at most."""
        places = ["workspace"] if self.guard is not None else []
        places += [folder.as_posix() for folder in self.writable]
        disk = f"{', '.join(places)} writable, rest read-only" if places else "disk read-only"
        return f"{disk}, {'with' if self.policy.network else 'no'} network"

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Without the ways to agents and daemons outside."""
        return {name: value for name, value in environment.items() if name not in _NO_WAY_OUT}

    def leave(self) -> list[str]:
        """Take away what it must not have made; returns that in words. Blocking; a second time it does nothing."""
        return [] if self.guard is None else self.guard.leave()


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


def available(workspace: Path, origin: Path | None = None) -> tuple[str, tuple[str, ...]]:
    """The program and its options. Raises Unavailable. Blocking the first time. ``origin``: see ``find_program``."""
    program = bwrap(workspace, origin)
    options = usable(program)
    if isinstance(options, str):
        raise Unavailable(options)
    return program, options


def bwrap(workspace: Path, origin: Path | None = None) -> str:
    """The program, whether it works here or not. Raises Unavailable."""
    if not sys.platform.startswith("linux"):
        raise Unavailable("the sandbox needs Linux and bwrap")
    program = find_program("bwrap", workspace, origin)
    if program is None:
        raise Unavailable("bwrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)")
    return program


def own_places() -> tuple[str, ...]:
    """Folders in whose place a command in the sandbox sees the session's own."""
    return tuple(folder for folder in _OWN if Path(folder).is_dir() and not Path(folder).is_symlink())


def prepare(
    policy: SandboxPolicy,
    workspace: Path,
    scratch: Path,
    decide: Decide,
    *,
    private: Path | None = None,
    limited: bool = True,
) -> Sandbox:
    """A sandbox for one command in ``workspace``. Blocking: it looks at all files there. Raises Unavailable.

    ``decide`` is what rules say to (permission, name); ``scratch`` the session's folder for what it needs; ``private``
    one for the workspace, outside of it. ``limited``: the command ends within minutes.
    """
    program, options = available(workspace, policy.copy_of)
    outer = _private(private or scratch.with_name(f"{scratch.name}-sandbox"), workspace, policy)
    try:
        earlier = left_over(workspace, outer, (scratch, outer))
        found = survey(workspace, decide, writable=policy.kind == "workspace-write")
        if policy.copy_of is not None:
            found.hidden += survey(policy.copy_of, decide, writable=False).hidden
        own = _own(outer, scratch)
    except TooLarge as error:
        raise Unavailable(str(error)) from error
    except OSError as error:
        raise Unavailable(f"the sandbox could not be prepared ({error})") from error
    nothing = _nothing(outer)
    writable = policy.kind == "workspace-write" and not found.read_only
    argv = [program, *options, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    argv += [] if policy.network else ["--unshare-net"]
    argv += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    fresh = [folder for folder in _FRESH if Path(folder).is_dir() and not Path(folder).is_symlink()]
    for folder in fresh:
        argv += ["--bind", str(own[folder]), folder] if folder in own else ["--tmpfs", folder]
    for folder in _OF_RUN:
        argv += ["--ro-bind-try", folder, folder]
    if policy.network:
        resolver = os.path.realpath(_RESOLVER)
        argv += ["--ro-bind-try", resolver, resolver] if resolver.startswith("/run/") else []
    shown = _shown(policy, workspace, writable=writable)
    around = _around(policy, shown, fresh)
    for path in around:
        # Empty but for what is shown in it; who does not know the way does not find it.
        argv += ["--perms", "0111", "--tmpfs", str(path)]
    for folder in sorted(shown, key=lambda path: len(path.parts)):
        argv += ["--bind" if shown[folder] else "--ro-bind", str(folder), str(folder)]
    for path in around:
        argv += ["--remount-ro", str(path)]
    if writable:
        for path in found.pinned:
            # A place where something is mounted cannot be renamed, and another put there instead.
            argv += ["--bind", str(path), str(path)]
        for path in dict.fromkeys(found.kept):
            argv += ["--ro-bind", str(path), str(path)]
    for path in _hidden(policy, workspace, found):
        if path not in around and _is_seen(path, fresh, list(shown)):
            argv += _mask(path, nothing)
    argv += ["--chdir", str(workspace), "--"]
    guard = None
    if writable:
        try:
            guard = Guard(workspace, outer, found.known, decide, (scratch, outer), limited=limited)
        except OSError as error:
            raise Unavailable(f"the sandbox could not be prepared ({error})") from error
    others = tuple(folder for folder, written in shown.items() if written and folder != workspace)
    return Sandbox(tuple(argv), policy, guard, tuple(earlier), others)


def _private(wanted: Path, workspace: Path, policy: SandboxPolicy) -> Path:
    """A folder that no command can write. Raises Unavailable."""
    real = Path(os.path.realpath(wanted))
    open_to_it = (workspace, *policy.writable)
    if any(real.is_relative_to(folder) for folder in open_to_it):
        key = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
        real = Path(os.path.realpath(tempfile.gettempdir())) / f"goalwright-{os.getuid()}-{key}"
    try:
        real.mkdir(parents=True, exist_ok=True, mode=0o700)
        info = real.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            raise Unavailable(f"{real} is not ours")
        real.chmod(0o700)
    except OSError as error:
        raise Unavailable(f"the sandbox could not be prepared ({error})") from error
    if any(real.is_relative_to(folder) for folder in open_to_it):
        raise Unavailable("there is no place for its own files outside of what commands may write")
    return real


def _own(outer: Path, scratch: Path) -> dict[str, Path]:
    """The session's own folders by the place where a command sees them; those of old sessions go. Raises OSError."""
    key = hashlib.sha256(os.fsencode(scratch)).hexdigest()[:16]
    mine = outer / f"tmp-{key}"
    if not mine.exists():
        for other in outer.glob("tmp-*"):
            if other.stat().st_mtime < time.time() - _KEEP_S:
                shutil.rmtree(other, ignore_errors=True)
    own = {folder: mine / folder.strip("/").replace("/", "-") for folder in own_places()}
    for path in own.values():
        path.mkdir(parents=True, exist_ok=True)
    os.utime(mine)
    return own


def _shown(policy: SandboxPolicy, workspace: Path, *, writable: bool) -> dict[Path, bool]:
    """The folders that are there wherever they lie, and whether they can be written."""
    read_only = [folder for folder in (policy.copy_of, *policy.readable) if folder is not None]
    shown = {folder: True for folder in policy.writable if folder.is_dir()}
    if policy.copy_of is not None:
        # What of the workspace the person lets commands write is for commands that work there.
        shown = {folder: not folder.is_relative_to(policy.copy_of) for folder in shown}
    return shown | {folder: False for folder in read_only if folder.is_dir()} | {workspace: writable}


def _around(policy: SandboxPolicy, shown: Mapping[Path, bool], fresh: list[str]) -> list[Path]:
    """What nobody may see although something in it is shown: a branch's copy lies in Goalwright's own folder."""
    hidden = [Path(os.path.realpath(path)) for path in policy.hidden]
    found = [
        path
        for path in dict.fromkeys(hidden)
        if path.is_dir()
        and any(folder != path and folder.is_relative_to(path) for folder in shown)
        and not any(path.is_relative_to(folder) for folder in (*shown, *fresh))
    ]
    return sorted(found, key=lambda path: len(path.parts))


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


def _nothing(outer: Path) -> Path:
    """A file that nobody can open. Raises Unavailable."""
    path = outer / "nothing"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(path):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o000))
        path.chmod(0o000)
    except OSError as error:
        raise Unavailable(f"the sandbox could not be prepared ({error})") from error
    return path
