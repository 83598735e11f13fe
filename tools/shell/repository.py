"""Whether a git repository names programs in its settings, so that ``git status`` may run them. Blocking.

Such a repository comes as an archive or lies in a shared folder: ``git clone`` copies no settings.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_SETTINGS = 256 * 1024
MAX_INDEX = 32 * 1024 * 1024
_RUNS = re.compile(
    r"^\s*\[\s*(?:filter|alias|include|includeif|gpg|pager|difftool|credential|remote-\w+)\b|^\s*\[\s*(?:diff|merge)[\s.]+\S|"
    r"(?:^|\])\s*(?:fsmonitor|pager|sshcommand|hookspath|external|textconv|command|program|showsignature|worktreeconfig|"
    r"attributesfile|askpass|editor|gitproxy|alternaterefscommand)\s*(?:=|$)",
    re.IGNORECASE | re.MULTILINE,
)
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule in the index: git runs in it, with the settings that lie there."""


def names_programs(folder: Path) -> bool:
    """Whether git in this folder may run a program that the repository names. What cannot be read counts as such."""
    try:
        found = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
        if found is None:
            return False
        git = found / ".git"
        if git.is_file():
            git = found / git.read_text()[:4096].removeprefix("gitdir:").strip()
        common = git / "commondir"
        shared = git / common.read_text().strip() if common.is_file() else git
        settings = (shared / "config", git / "config", git / "config.worktree")
        return any(map(_runs, settings)) or _has_submodules(git / "index")
    except (OSError, ValueError):
        return True


def _runs(settings: Path) -> bool:
    if not settings.exists():
        return False
    if not settings.is_file() or settings.stat().st_size > MAX_SETTINGS:
        return True
    return _RUNS.search(settings.read_text(errors="replace")) is not None


def _has_submodules(index: Path) -> bool:
    if not index.exists():
        return False
    return not index.is_file() or index.stat().st_size > MAX_INDEX or _SUBMODULE in index.read_bytes()
