"""What of the disk has to be hidden from a sandbox, or kept from change there. Blocking.

Names that make other programs run something are the same as in ``daemon.permission.protected``, which tools cannot
import; rules (with that protection) are asked about every file for reading.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ROOT_FOLDERS = (".git", ".goalwright", ".vscode", ".husky", ".devcontainer")
"""Folders of the workspace's root that a command must not make either."""
_KEPT_FOLDERS = frozenset({".goalwright", ".vscode", ".trace", ".husky", ".devcontainer"})
_KEPT_FILES = _words(
    ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .kshrc .cshrc .tcshrc "
    "config.fish .inputrc .xprofile .xinitrc .envrc .gitconfig .gitmodules"
)
_KEPT_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "info")
_HOME_SECRETS = _words(
    ".ssh .gnupg .aws .azure .kube .docker .config/gcloud .config/gh .config/hub .netrc _netrc .git-credentials .npmrc "
    ".pypirc .pgpass .my.cnf .vault-token .s3cfg .boto .cargo/credentials .cargo/credentials.toml .terraform.d "
    ".password-store .local/share/keyrings .config/op .mozilla .config/google-chrome .config/chromium .config/Code "
    ".goalwright .bash_history .zsh_history .local/share/containers"
)
_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers.d", "/root")
_NEW = ".goalwright-new-file"
"""Stands for any new file of a folder when rules are asked."""
MAX_ENTRIES = 200_000
MAX_S = 3.0
MAX_MOUNTS = 400


class TooLarge(Exception):
    """Not everything could be looked at, so nothing can be promised."""


@dataclass(slots=True)
class Survey:
    """All absolute."""

    hidden: list[Path] = field(default_factory=list[Path])
    kept: list[Path] = field(default_factory=list[Path])
    pinned: list[Path] = field(default_factory=list[Path])
    """May be changed inside, but not renamed."""
    read_only: bool = False
    """Nothing of the workspace may be changed."""


def survey(
    workspace: Path,
    decide: Callable[[str, str], str],
    *,
    writable: bool,
    max_s: float = MAX_S,
    max_entries: int = MAX_ENTRIES,
    clock: Callable[[], float] = time.monotonic,
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
        except OSError:
            continue
        left -= len(listed)
        if left < 0 or clock() > deadline:
            raise TooLarge("the workspace has too many files to look at before each command")
        for entry in listed:
            name = f"{folder}/{entry.name}" if folder else entry.name
            path = workspace / name
            if entry.is_symlink():
                continue  # what it leads to counts
            if entry.is_dir(follow_symlinks=False):
                if decide("read", f"{name}/{_NEW}") != "allow":
                    found.hidden.append(path)
                    continue
                if entry.name == ".git":
                    _git(path, found)
                    continue
                if entry.name in _KEPT_FOLDERS or decide("edit", f"{name}/{_NEW}") == "deny":
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
                if _is_kept(entry.name) or (writable and decide("edit", name) == "deny"):
                    found.kept.append(path)
    # Another name of a hidden file shows the same content.
    found.hidden += [path for path, inode in linked if inode in inodes]
    if len(found.hidden) + len(found.kept) + len(found.pinned) > MAX_MOUNTS:
        raise TooLarge("the rules hide or keep too many single files of the workspace")
    return found


def _is_kept(name: str) -> bool:
    return name in _KEPT_FILES or name.endswith(".code-workspace") or name == ".git"


def _git(path: Path, found: Survey) -> None:
    """Commits must be possible, other settings and hooks not."""
    found.pinned.append(path)
    found.kept += [path / name for name in _KEPT_OF_GIT if os.path.lexists(path / name)]
    modules = path / "modules"
    if modules.is_dir():
        found.kept.append(modules)


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
