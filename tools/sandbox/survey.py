"""What of the disk has to be hidden from a sandbox, or kept from change there, before a command. Blocking.

Names that make other programs run something are those that the rules protect, too; rules (with that protection) are
asked about every file for reading.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from tools.protected_names import FOLDERS, GIT_FILES, SHELL_FILES, WORKSPACE_FILE


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEPT_FOLDERS = FOLDERS.keys() - {".git"}
_KEPT_FILES = frozenset((*SHELL_FILES, *GIT_FILES))
KEPT_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "info", "modules")
"""What of a repository leads to settings or programs."""
_MADE_OF_GIT = ("hooks", "info")
"""Made as empty folders where they are missing, as in any new repository: so nothing can be put there."""
_HOME_SECRETS = _words(
    ".ssh .gnupg .aws .azure .kube .docker .config/gcloud .config/gh .config/hub .netrc _netrc .git-credentials .npmrc "
    ".pypirc .pgpass .my.cnf .vault-token .s3cfg .boto .cargo/credentials .cargo/credentials.toml .terraform.d "
    ".password-store .local/share/keyrings .config/op .mozilla .config/google-chrome .config/chromium .config/Code "
    ".goalwright .bash_history .zsh_history .local/share/containers"
)
_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers.d", "/root")
_NEW = ".goalwright-new-file"
"""Stands for any new file of a folder when rules are asked."""
MAX_ENTRIES = 1_000_000
MAX_S = 20.0
"""CPU time: a machine that is busy with other things must not switch the sandbox off."""
MAX_MOUNTS = 400


class TooLarge(Exception):
    """Not everything could be looked at, so nothing can be promised."""


@dataclass(slots=True)
class Known:
    """What makes others run something and was there before a command, see ``sandbox_taking``."""

    things: dict[str, str] = field(default_factory=dict[str, str])
    """Name in the workspace to identity."""
    bare: set[str] = field(default_factory=set[str])
    """Identities of folders that are repositories without being called ``.git``."""
    closed: set[str] = field(default_factory=set[str])
    """Identities of folders that nothing can be changed in."""
    free: set[str] = field(default_factory=set[str])
    """Names of files that rules do not forbid to edit."""


@dataclass(slots=True)
class Survey:
    """All absolute."""

    hidden: list[Path] = field(default_factory=list[Path])
    kept: list[Path] = field(default_factory=list[Path])
    pinned: list[Path] = field(default_factory=list[Path])
    """May be changed inside, but not renamed."""
    read_only: bool = False
    """Nothing of the workspace may be changed."""
    known: Known = field(default_factory=Known)


def survey(
    workspace: Path,
    decide: Callable[[str, str], str],
    *,
    writable: bool,
    max_s: float = MAX_S,
    max_entries: int = MAX_ENTRIES,
    clock: Callable[[], float] = time.thread_time,
) -> Survey:
    """Look at all files of the workspace. Raises TooLarge."""
    found = Survey()
    if decide("read", _NEW) != "allow":
        raise TooLarge("the rules do not allow to read the workspace as a whole")
    found.read_only = writable and decide("edit", _NEW) == "deny"
    inodes: set[tuple[int, int]] = set()
    linked: list[tuple[Path, tuple[int, int]]] = []
    deadline, left = clock() + max_s, max_entries
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(workspace / folder) as entries:
                listed = list(entries)
        except PermissionError:
            # What cannot be looked at now could be opened from inside.
            if not folder:
                raise TooLarge("the workspace cannot be read") from None
            found.hidden.append(workspace / folder)
            found.known.closed.add(identity(workspace / folder))
            continue
        except OSError:
            continue
        left -= len(listed)
        if left < 0 or clock() > deadline:
            raise TooLarge("the workspace has too many files to look at before each command")
        if is_bare({entry.name for entry in listed}):
            found.known.bare.add(identity(workspace / folder))
            _git(folder, workspace, found)
        for entry in listed:
            name = f"{folder}/{entry.name}" if folder else entry.name
            path = workspace / name
            if is_protected(entry.name):
                found.known.things[name] = identity(path)
            if entry.is_symlink():
                if is_protected(entry.name):
                    _led_to(path, workspace, found)
                continue  # what it leads to counts
            if entry.is_dir(follow_symlinks=False):
                if decide("read", f"{name}/{_NEW}") != "allow":
                    found.hidden.append(path)
                    found.known.closed.add(identity(path))
                    continue
                if entry.name == ".git":
                    _git(name, workspace, found)
                    continue
                if is_protected(entry.name) or decide("edit", f"{name}/{_NEW}") == "deny":
                    found.kept.append(path)
                waiting.append(name)
                continue
            info = entry.stat(follow_symlinks=False)
            inode = (info.st_dev, info.st_ino)
            if stat.S_ISSOCK(info.st_mode) or decide("read", name) != "allow":
                found.hidden.append(path)
                inodes.add(inode)
            else:
                if info.st_nlink > 1:
                    linked.append((path, inode))
                if is_protected(entry.name):
                    found.kept.append(path)
                elif writable and decide("edit", name) == "deny":
                    found.kept.append(path)
                    found.known.things[name] = identity(path)
                else:
                    found.known.free.add(name)
    # Another name of a hidden file shows the same content.
    found.hidden += [path for path, inode in linked if inode in inodes]
    if len(found.hidden) + len(found.kept) + len(found.pinned) > MAX_MOUNTS:
        raise TooLarge("the rules hide or keep too many single files of the workspace")
    return found


def is_protected(name: str) -> bool:
    """Whether something of this name, whatever it is, makes other programs run something."""
    name = name.lower()
    return name in _KEPT_FOLDERS or name in _KEPT_FILES or name == ".git" or name.endswith(WORKSPACE_FILE)


def is_bare(names: AbstractSet[str]) -> bool:
    """Whether git takes a folder with these entries for a repository, though it is not called ``.git``."""
    return "HEAD" in names and ("commondir" in names or names >= {"objects", "refs"})


def identity(path: Path | str) -> str:
    """What tells a file or folder from another one in its place; of a link, also where it leads. Raises OSError."""
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    link = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""  # noqa: PTH115
    return f"{info.st_dev}:{info.st_ino}:{kind:o}:{link}"


def _git(name: str, workspace: Path, found: Survey) -> None:
    """Commits must be possible, other settings and hooks not. ``name``: of the repository's folder."""
    path = workspace / name
    if name:
        found.pinned.append(path)
    for inner in (*KEPT_OF_GIT, "worktrees"):
        part = path / inner
        # Without HEAD it is no repository, and nothing should be made in it.
        if inner in _MADE_OF_GIT and not os.path.lexists(part) and os.path.lexists(path / "HEAD"):
            with contextlib.suppress(OSError):  # a disk that is read-only for us is so in the sandbox
                part.mkdir()
        if not os.path.lexists(part):
            continue
        found.known.things[f"{name}/{inner}" if name else inner] = identity(part)
        if part.is_symlink():
            _led_to(part, workspace, found)
        else:
            found.kept.append(part)


def _led_to(link: Path, workspace: Path, found: Survey) -> None:
    """Keep what a link leads to, too, where it could be changed."""
    real = Path(os.path.realpath(link))
    if real != workspace and real.is_relative_to(workspace) and real.exists():
        found.kept.append(real)


def home_secrets() -> list[Path]:
    """What of the person's folder, and of the system, is nobody's business."""
    home = Path.home()
    found = [home / name for name in sorted(_HOME_SECRETS)]
    return found + [Path(name) for name in _SYSTEM_SECRETS if name != "/root" or home != Path("/root")]


def sockets() -> list[Path]:
    """Unix sockets that programs listen at now: behind one may be docker, or an agent with keys."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return []
    names = {fields[7] for line in lines if len(fields := line.split(" ", 7)) == 8}
    return [Path(name) for name in sorted(names) if name.startswith("/")]
