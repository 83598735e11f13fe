"""Prepare the sandbox for one command: inspect the workspace, and pass the findings to a back end that works here.

Inside, the disk is read-only except the workspace (and folders of the user's choice); ``/tmp`` is the session's own;
there is no network, no access to the user's agents and daemons by Unix sockets, and no process but its own. Files that
rules would ask about or deny for reading cannot be read, and files that make other programs run something cannot be
written: existing ones are read-only, and new ones are moved away when the command has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Hashable, Iterable
from pathlib import Path

from tools.sandbox import bwrap, landlock, seatbelt, seccomp
from tools.sandbox.landlock import Fence
from tools.sandbox.mounts import TooMuchToLookAtError, home_secrets, sockets, survey
from tools.sandbox.policy import Sandbox, SandboxPolicy, UnavailableError
from tools.sandbox.replaced import HiddenFiles, mounted
from tools.sandbox.state import SandboxState, left_over

Decide = Callable[[str, str], str]
LANDLOCK, SEATBELT = "Landlock", "sandbox-exec"
_WITHOUT_MOUNTS = (LANDLOCK, SEATBELT)
"""Back ends in which a command sees the real ``/tmp``."""
BACK_ENDS = ("bwrap", LANDLOCK) if sys.platform.startswith("linux") else (SEATBELT,)
"""In the order in which they are tried."""
_OWN = ("/tmp", "/var/tmp")
_KEEP_S = 7 * 24 * 3600


def available(workspace: Path, origin: Path | None = None) -> str:
    """Return the back end for sandboxes: the program ``bwrap``, ``Landlock`` or ``sandbox-exec``. Raises
    UnavailableError.

    Blocking the first time. ``origin``: see ``find_program``.
    """
    whys: list[str] = []
    for name in BACK_ENDS:
        try:
            if name == "bwrap":
                return bwrap.available(workspace, origin)[0]
            why = landlock.usable() if name == LANDLOCK else seatbelt.usable()
            if why is None:
                return name
            whys.append(why)
        except UnavailableError as error:
            whys.append(str(error))
    raise UnavailableError("; ".join(whys) or "there is none for this system")


def works(workspace: Path, origin: Path | None = None) -> bool:
    """Return whether there is a back end, see ``available``."""
    try:
        available(workspace, origin)
    except UnavailableError:
        return False
    return True


def own_places(workspace: Path, origin: Path | None = None) -> tuple[str, ...]:
    """Folders in whose place a command in the sandbox sees the session's own. Raises UnavailableError."""
    return () if available(workspace, origin) in _WITHOUT_MOUNTS else _temporary()


def _temporary() -> tuple[str, ...]:
    return tuple(folder for folder in _OWN if Path(folder).is_dir() and not Path(folder).is_symlink())


@contextlib.contextmanager
def _reported() -> Generator[None]:
    """Turn errors of the preparation into UnavailableError."""
    try:
        yield
    except TooMuchToLookAtError as error:
        raise UnavailableError(str(error)) from error
    except (OSError, seccomp.UnsupportedError) as error:
        raise UnavailableError(f"the sandbox could not be prepared ({error})") from error


@_reported()
def prepare(
    policy: SandboxPolicy,
    workspace: Path,
    scratch: Path,
    decide: Decide,
    *,
    key: Hashable = None,
    concealed: Callable[[Path], Iterable[Path]] = lambda workspace: (),
    private: Path | None = None,
    limited: bool = True,
) -> Sandbox:
    """Return a sandbox for one command in ``workspace``. Blocking: it visits all folders. Raises UnavailableError.

    ``decide`` returns the rules' decision on (permission, name), the same as long as ``key`` is equal. ``concealed``:
    paths outside the workspace that they hide. ``scratch``: the session's folder for temporary files; ``private``: one
    for the workspace, outside it. ``limited``: the command ends within minutes.
    """
    back_end = available(workspace, policy.copy_of)
    outer = _private(private or scratch.with_name(f"{scratch.name}-sandbox"), workspace, policy)
    earlier = left_over(workspace, outer, (scratch, outer))
    found = survey(workspace, decide, writable=policy.writes, key=key, kept=policy.kept)
    if policy.copy_of is not None:
        found.hidden += survey(policy.copy_of, decide, writable=False, key=key).hidden
    outside = [Path(os.path.realpath(path)) for path in concealed(policy.copy_of or workspace)]
    own = _own(outer, scratch)
    writable = policy.writes and not found.read_only
    shown = _shown(policy, workspace, writable=writable)
    hidden = _hidden(policy, workspace, [*found.hidden, *outside])
    kept = found.kept if writable else []
    own_tmp = back_end not in _WITHOUT_MOUNTS
    if not own_tmp:
        tmp = next(iter(own.values()), None)
        fence = Fence(
            writable=(*(folder for folder in shown if shown[folder]), *((tmp,) if tmp else ())),
            read_only=(*kept, *(folder for folder in shown if not shown[folder])),
            hidden=tuple(path for path in hidden if os.path.lexists(path)),
            network=policy.network,
            readable=tuple(shown),
            tmp=tmp,
        )
        prefix = _fenced(back_end, fence, outer)
    else:
        program, options = bwrap.available(workspace, policy.copy_of)
        prefix = bwrap.argv(
            program,
            options,
            workspace,
            policy.folder or workspace,
            network=policy.network,
            own=own,
            shown=shown,
            state=policy.hidden,
            pinned=found.pinned if writable else (),
            kept=kept,
            hidden=hidden,
            nothing=_nothing(outer),
        )
        if policy.network:
            # Abstract socket names belong to the network's namespace.
            prefix = (*landlock.scoped_prefix(program), *prefix)
    guard = None
    if writable:
        guard = SandboxState(
            workspace,
            outer,
            found.known,
            decide,
            (scratch, outer),
            limited=limited,
            # Only mounts follow a path.
            mounts=mounted(kept, hidden) if own_tmp else (),
            movable=found.movable and own_tmp,
        )
    others = tuple(folder for folder, written in shown.items() if written and folder != workspace)
    hides = HiddenFiles(hidden, workspace, outer / "taken") if own_tmp and guard is None else None
    return Sandbox(prefix, policy, guard, tuple(earlier), others, hides, own_tmp)


def _fenced(back_end: str, fence: Fence, outer: Path) -> tuple[str, ...]:
    """Raises UnavailableError, OSError and ``seccomp.UnsupportedError``."""
    if back_end == SEATBELT:
        return seatbelt.prefix(fence)
    if missing := landlock.enforces(fence):
        raise UnavailableError(f"Landlock cannot enforce everything here ({missing[0]})")
    plans = outer / "plans"
    plans.mkdir(exist_ok=True, mode=0o700)
    return landlock.landlock_prefix(fence, plans / uuid.uuid4().hex)


def _private(wanted: Path, workspace: Path, policy: SandboxPolicy) -> Path:
    """Return a folder that no command can write. Raises UnavailableError and OSError."""
    real = Path(os.path.realpath(wanted))
    open_to_it = (workspace, *policy.writable)
    if any(real.is_relative_to(folder) for folder in open_to_it):
        key = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
        real = Path(os.path.realpath(tempfile.gettempdir())) / f"goalwright-{os.getuid()}-{key}"
    real.mkdir(parents=True, exist_ok=True, mode=0o700)
    info = real.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise UnavailableError(f"{real} is not ours")
    real.chmod(0o700)
    if any(real.is_relative_to(folder) for folder in open_to_it):
        raise UnavailableError("there is no place for its own files outside of what commands may write")
    return real


def _own(outer: Path, scratch: Path) -> dict[str, Path]:
    """Return the session's own folders by the place where a command sees them; those of old sessions go. Raises
    OSError."""
    key = hashlib.sha256(os.fsencode(scratch)).hexdigest()[:16]
    mine = outer / f"tmp-{key}"
    if not mine.exists():
        for other in outer.glob("tmp-*"):
            if other.stat().st_mtime < time.time() - _KEEP_S:
                shutil.rmtree(other, ignore_errors=True)
    own = {folder: mine / folder.strip("/").replace("/", "-") for folder in _temporary()}
    for path in own.values():
        path.mkdir(parents=True, exist_ok=True)
    os.utime(mine)
    return own


def _shown(policy: SandboxPolicy, workspace: Path, *, writable: bool) -> dict[Path, bool]:
    """Return the folders that are visible anywhere, and whether they are writable."""
    read_only = [folder for folder in (policy.copy_of, *policy.readable) if folder is not None]
    shown = {folder: True for folder in policy.writable if folder.is_dir()}
    if policy.copy_of is not None:
        # Writable folders of the workspace are for commands that work in it.
        shown = {folder: not folder.is_relative_to(policy.copy_of) for folder in shown}
    return shown | {folder: False for folder in read_only if folder.is_dir()} | {workspace: writable}


def _hidden(policy: SandboxPolicy, workspace: Path, found: Iterable[Path]) -> list[Path]:
    everything = [*found, *policy.hidden, *home_secrets(), *sockets()]
    paths = dict.fromkeys(Path(os.path.realpath(path)) for path in everything)
    return sorted((path for path in paths if path != workspace), key=lambda path: len(path.parts))


def _nothing(outer: Path) -> Path:
    """Return a file that cannot be opened. Raises OSError."""
    path = outer / "nothing"
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o000))
    path.chmod(0o000)
    return path
