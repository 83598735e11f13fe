"""``bwrap``: the back end of the sandbox for Linux with user namespaces. Mounts hide and keep, namespaces separate."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.process.programs import find_program
from tools.sandbox.policy import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PROC = ("--proc", "/proc", "--remount-ro", "/proc")
_PROBE = ("--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", *_PROC, "--dev", "/dev")
_PROBE_S = 10.0
_FRESH = ("/tmp", "/var/tmp", "/run", "/dev/shm")
# On systems where programs or names are found through /run.
_OF_RUN = ("/run/current-system", "/run/opengl-driver", "/run/wrappers")
_RESOLVER = "/etc/resolv.conf"


def why_not(command: Sequence[str]) -> str:
    """Run a command of ``bwrap`` as a trial: empty when it works, else why it does not. Blocking.

    Raises UnavailableError when it cannot be run at all.
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False, cwd="/"
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"bwrap cannot be run here ({error})") from error
    said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
    return f"bwrap does not work here ({said or 'no reason given'})" if done.returncode else ""


@functools.cache
def usable(bwrap: str) -> tuple[str, ...] | str:
    """Options with which ``bwrap`` works here, or why it does not. Blocking, looked at once."""
    try:
        why = ""
        for options in (("--unshare-user",), ()):
            failed = why_not([bwrap, *options, *_PROBE, "--", "/bin/sh", "-c", "exit 0"])
            if not failed:
                return options
            why = why or failed
        return f"{why}; user namespaces may be switched off"
    except UnavailableError as error:
        return str(error)


def available(workspace: Path, origin: Path | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the program and its options. Raises UnavailableError. Blocking the first time. ``origin``: see
    ``find_program``."""
    found = program(workspace, origin)
    options = usable(found)
    if isinstance(options, str):
        raise UnavailableError(options)
    return found, options


def program(workspace: Path, origin: Path | None = None) -> str:
    """Return the program, whether it works here or not. Raises UnavailableError."""
    if not sys.platform.startswith("linux"):
        raise UnavailableError("the sandbox needs Linux and bwrap")
    found = find_program("bwrap", workspace, origin)
    if found is None:
        raise UnavailableError("bwrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)")
    return found


def argv(
    program: str,
    options: Sequence[str],
    workspace: Path,
    start: Path,
    *,
    network: bool,
    own: Mapping[str, Path],
    shown: Mapping[Path, bool],
    state: Sequence[Path],
    pinned: Iterable[Path],
    kept: Iterable[Path],
    hidden: Iterable[Path],
    nothing: Path,
) -> tuple[str, ...]:
    """Return program and options to put before a command's own.

    ``start``: the folder where it starts; ``own``: the session's folders by the place where the command sees them;
    ``shown``: folders that are visible anywhere, and whether they are writable; ``state``: folders to hide although
    they contain a shown one; ``pinned`` can be changed inside but not renamed; ``kept`` is read-only; ``nothing``: a
    file that cannot be opened.
    """
    found = [program, *options, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    found += [] if network else ["--unshare-net"]
    found += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"]
    # /proc has files of the whole machine (sysctl, sysrq), and user 0 needs no capability to write them.
    found += _PROC
    fresh = [folder for folder in _FRESH if Path(folder).is_dir() and not Path(folder).is_symlink()]
    for folder in fresh:
        found += ["--bind", str(own[folder]), folder] if folder in own else ["--tmpfs", folder]
    for folder in _OF_RUN:
        found += ["--ro-bind-try", folder, folder]
    if network:
        resolver = os.path.realpath(_RESOLVER)
        found += ["--ro-bind-try", resolver, resolver] if resolver.startswith("/run/") else []
    around = _around(state, shown, fresh)
    for path in around:
        # Empty except for the shown folders; without list permission, their paths must be known.
        found += ["--perms", "0111", "--tmpfs", str(path)]
    # A mount point cannot be renamed and replaced by another folder. The outer one first: it shows nothing of others.
    bound = dict.fromkeys(_pinned(pinned, shown), True) | dict(shown)
    for folder in sorted(bound, key=lambda path: len(path.parts)):
        found += ["--bind" if bound[folder] else "--ro-bind", str(folder), str(folder)]
    for path in around:
        found += ["--remount-ro", str(path)]
    for path in dict.fromkeys(kept):
        found += ["--ro-bind", str(path), str(path)]
    masked: set[Path] = set()
    empty = [*fresh, *map(str, around)]
    for path in sorted(hidden, key=lambda path: len(path.parts)):
        # Nothing can be mounted below a masked folder, and nothing needs to be.
        if path in around or masked.intersection(path.parents) or not _is_seen(path, empty, list(shown)):
            continue
        found += _mask(path, nothing)
        if path.is_dir():
            masked.add(path)
    return (*found, "--chdir", str(start), "--")


def _pinned(paths: Iterable[Path], shown: Mapping[Path, bool]) -> list[Path]:
    """Return the folders to pin: of these and of those that lead to shown ones, all that could be renamed."""

    inner_first = sorted(shown, key=lambda folder: -len(folder.parts))
    # Comparing strings is much faster than comparing paths.
    below = [(f"{str(folder).rstrip('/')}/", shown[folder]) for folder in inner_first]

    def could_be_renamed(path: Path) -> bool:
        return next((writable for start, writable in below if str(path).startswith(start)), False)

    leading = (up for folder in shown for up in folder.parents)
    return [path for path in dict.fromkeys((*paths, *leading)) if could_be_renamed(path)]


def _around(state: Sequence[Path], shown: Mapping[Path, bool], fresh: list[str]) -> list[Path]:
    """Return folders to hide although something in them is shown: a branch's copy is in Goalwright's own folder."""
    hidden = [Path(os.path.realpath(path)) for path in state]
    found = [
        path
        for path in dict.fromkeys(hidden)
        if path.is_dir()
        and any(folder != path and folder.is_relative_to(path) for folder in shown)
        and not any(path.is_relative_to(folder) for folder in (*shown, *fresh))
    ]
    return sorted(found, key=lambda path: len(path.parts))


def _is_seen(path: Path, empty: list[str], shown: list[Path]) -> bool:
    """Return whether a path is visible; it is not in a folder that is empty there anyway."""
    if not os.path.lexists(path) or any(folder.is_relative_to(path) for folder in shown):
        return False
    if any(path.is_relative_to(folder) for folder in shown):
        return True
    return not any(path.is_relative_to(folder) for folder in (*empty, "/proc", "/dev"))


def _mask(path: Path, nothing: Path) -> list[str]:
    if path.is_dir():
        return ["--perms", "0000", "--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", str(nothing), str(path)]
