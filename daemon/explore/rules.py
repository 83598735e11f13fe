"""Actions that are forbidden in a branch for any agent and mode: it may use only its own copy of the workspace.

Reading the workspace itself asks like any path outside. Changing it is denied, and so is access to the copies of other
branches. These rules are a layer of their own above the agent's (``permission.layers``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.model.permissions import Action, Rule
from tools.files.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_FILES = ("read", "edit", "ls", "external_directory")
_PYTHON = {
    "pip*": "install uninstall",
    "python* -m pip*": "install uninstall",
    "uv": "sync add remove",
    "uv pip": "install uninstall sync",
    "poetry": "install add remove update sync",
    "pdm": "install add remove update sync",
    "pipenv": "install uninstall update sync",
}
_NODE = {
    "npm": "install i ci add update up uninstall remove rm dedupe prune",
    "pnpm": "install i add update up remove rm prune",
    "yarn": "install add up upgrade remove",
    "bun": "install i add update remove",
}
_INSTALLERS = {".venv": _PYTHON, "venv": _PYTHON, "node_modules": _NODE}
"""Commands that change a folder of this name, by their words."""
_OWN_INSTALLERS = {"bin/pip*": "install uninstall", "bin/python* -m pip*": "install uninstall"}
"""Commands that change the folder by programs in it."""
_MAX_GIT_FILE = 4096


def branch_rules(workspace: Path, copy: Path, links: Sequence[Path], copies_folder: Path) -> tuple[Rule, ...]:
    """Return the rules of a branch that works in ``copy``; all paths are absolute, and resolved except the links.

    ``links``: links in the copy to folders of the workspace itself (``.venv``); ``copies_folder``: the folder with the
    copies of all branches. Reads the disk to resolve links and the repository: call it in a thread.
    """
    return tuple(_rules(workspace, copy, links, copies_folder))


def _rules(workspace: Path, copy: Path, links: Sequence[Path], copies_folder: Path) -> Iterator[Rule]:
    own = (
        f"this branch works in its own copy at {copy.as_posix()}, and the workspace is unchanged until a "
        "branch is merged. Use paths relative to the copy."
    )
    for folder in (workspace, *git_folders(workspace)):
        yield from _everything("edit", folder, "deny", own)
    for link in links:
        name, real = _name(link, copy), Path(os.path.realpath(link))
        words = (
            f"{name} belongs to the workspace and is linked into this branch's copy, so it must not be "
            "changed here. Install elsewhere, e.g. into an environment in /tmp."
        )
        if real.is_relative_to(workspace):
            # As in the workspace, access to the folder itself does not ask.
            yield _rule("external_directory", f"{real.as_posix()}/*", "allow", "")
        yield from _everything("edit", real, "deny", words)
        yield from (_rule("edit", pattern, "deny", words) for pattern in (name, f"{name}/*"))
        for command in _commands(_INSTALLERS.get(link.name, {})):
            yield _rule("bash", command, "ask", f"it may write to {name}: {words}")
        # A full path into the copy is treated like the same path in the workspace.
        whole = (workspace / name).as_posix()
        for named in dict.fromkeys((name, f"./{name}", f"* {name}", whole, real.as_posix())):
            for command in _commands(_OWN_INSTALLERS):
                yield _rule("bash", f"{named}/{command}", "deny", words)
    others = f"these are copies of other branches. {own[0].upper()}{own[1:]}"
    for permission in _FILES:
        yield from _everything(permission, copies_folder, "deny", others)


def _commands(verbs: Mapping[str, str]) -> Iterator[str]:
    return (f"{program} {verb} *" for program, words in verbs.items() for verb in words.split())


def git_folders(workspace: Path) -> tuple[Path, ...]:
    """Return where the repository of a workspace keeps its own files: ``.git``, in a worktree also what that leads to.

    Blocking; runs nothing.
    """
    for folder in (workspace, *workspace.parents):
        marker = folder / ".git"
        if marker.is_dir():
            return _resolved((marker,))
        if marker.is_file():
            private = _led_to(marker, "gitdir:")
            common = _led_to(private / "commondir") if private is not None else None
            return _resolved(place for place in (marker, private, common) if place is not None)
    return ()


def _led_to(file: Path, label: str = "") -> Path | None:
    try:
        with open_regular(file, follow=True) as opened:
            text = os.fsdecode(opened.read(_MAX_GIT_FILE)).strip()
    except OSError:
        return None
    if not text.startswith(label) or "\0" in text or not text.removeprefix(label).strip():
        return None
    return file.parent / text.removeprefix(label).strip()


def _resolved(places: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(os.path.realpath(place)) for place in places))


def _name(link: Path, copy: Path) -> str:
    return link.relative_to(copy).as_posix() if link.is_relative_to(copy) else link.as_posix()


def _everything(permission: str, place: Path, action: Action, words: str) -> Iterator[Rule]:
    name = place.as_posix().rstrip("/")
    yield _rule(permission, name, action, words)
    yield _rule(permission, f"{name}/*", action, words)


def _rule(permission: str, pattern: str, action: Action, words: str) -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action, source="branch", words=words)
