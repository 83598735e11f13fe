"""The parts of a branch's session that differ from the main session's: everything that depends on a folder.

The rest (store, models, permission service, settings, trust, grants, hooks) is shared.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.files.command_changes import CommandWatches
from daemon.files.watch import FileWatch
from daemon.loop.services import FolderServices, WatchServices
from daemon.model.permissions import Action, Rule
from tools.files.regular_files import open_regular
from tools.ports import NoEditors
from tools.process.background import Background
from tools.sandbox.confinement import Confinement, confine
from tools.tool import BranchCommands

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence

    from daemon.copies.working_copy import WorkingCopy
    from daemon.files.folder_language_services import FolderLanguageServices
    from daemon.loop.services import Services

log = logging.getLogger(__name__)


class BranchEnvironment(Struct, frozen=True):
    """``services`` is for the sessions of one branch: its own, and those of its sub-agents."""

    services: Services
    _language_services: FolderLanguageServices
    _telling: Background

    async def close(self) -> None:
        """To be called when the branch's sessions are closed, and before its copy is. Never raises; twice is as good
        as once. Returns when nothing looks at the copy any more, no process either."""
        await _ended("files", self.services.watching.commands.close())
        await _ended("files", self.services.watching.files.close())
        self._telling.cancel()
        await _ended("language servers", self._language_services.close())


async def make_branch_environment(
    services: Services, copy: WorkingCopy, *, session_id: str, copies_folder: Path | None = None
) -> BranchEnvironment:
    """Return the environment of the branch ``session_id``, which works in ``copy``; ``services`` are those of its
    parent.

    ``copies_folder``: the folder with the copies of all branches; by default the one in the state folder that contains
    this copy. Reads the disk in a thread. Raises OSError when the copy's private folder cannot be used.
    """
    workspace, root, private = services.workspace, copy.root, copy.private
    sentinels = private / "sentinels"
    folder = copies_folder or _copies_folder(services.user_folder, root)
    output = services.store.folder(session_id)

    def look() -> tuple[tuple[Rule, ...], tuple[Path, ...], Confinement]:
        sentinels.mkdir(parents=True, exist_ok=True, mode=0o700)
        around = tuple(_repository_around(root, folder))
        rules = (*branch_rules(workspace, root, copy.links, folder), *_outside(around), *_own_output(output))
        linked = [Path(os.path.realpath(link)) for link in copy.links]
        # The copy borrows objects of the repository.
        readable = tuple(dict.fromkeys((*around, *linked, *git_folders(workspace))))
        origins = [place for place in (workspace, services.folder.branch.copy_of) if place is not None]
        theirs = [folder, *origins, *linked, *(git for place in origins for git in git_folders(place))]
        # Commits go into the copy's own git directory beside it.
        own = [git for git in git_folders(root) if git.is_relative_to(folder)]
        confinement = confine(
            root, services.folder.branch.copy_of or workspace, theirs, (root, *around, *own)
        )
        return rules, readable, confinement

    rules, readable, confinement = await asyncio.to_thread(look)
    language_services = services.languages.open_language_services(root)
    telling = Background("telling servers of a change in a copy")

    def told(path: Path) -> None:
        telling.start(language_services.diagnostics.changed(path))

    commands = CommandWatches(root, sentinels, private / "baseline", told, origin=workspace)
    inside = replace(
        services,
        workspace=root,
        folder=FolderServices(
            private / "journal",  # it disappears with the copy when the daemon dies, so it is never recovered
            (*services.folder.rules, *rules),
            readable,
            BranchCommands(
                # A branch of a branch is still a copy of the user's workspace.
                services.folder.branch.copy_of or workspace,
                confinement,
                {**services.folder.branch.environment, **copy.environment},
            ),
        ),
        # No editor has files of a copy open.
        editors=NoEditors(),
        languages=replace(
            services.languages,
            diagnostics=language_services.diagnostics,
            own_servers=None,
            navigation=language_services.navigation,
        ),
        watching=WatchServices(FileWatch(told), commands),
    )
    return BranchEnvironment(inside, language_services, telling)


def _copies_folder(state: Path, root: Path) -> Path:
    real = Path(os.path.realpath(state))
    if root.is_relative_to(real) and root.parent != real:
        return real / root.relative_to(real).parts[0]
    return root.parent


def _repository_around(root: Path, copies_folder: Path) -> Iterator[Path]:
    """Yield the copy's top folder, where the workspace is only a part of its repository."""
    for folder in root.parents:
        if folder == copies_folder or not folder.is_relative_to(copies_folder) or (root / ".git").exists():
            return
        if (folder / ".git").exists():
            yield folder
            return


def _outside(around: Iterable[Path]) -> Iterator[Rule]:
    """Yield rules that ask about the rest of the copy, as about the rest of the repository in the main session."""
    for folder in around:
        for permission in ("read", "edit", "ls", "external_directory"):
            yield Rule(permission=permission, pattern=f"{folder.as_posix()}/*", action="ask", source="branch")


def _own_output(folder: Path) -> Iterator[Rule]:
    """Yield rules that allow reading full outputs of the branch's own commands, and of its sub-agents'."""
    for place in (folder / "output", folder / "agents/*/output"):
        yield Rule(
            permission="external_directory", pattern=f"{place.as_posix()}/*", action="allow", source="branch"
        )


async def _ended(what: str, ending: Awaitable[None]) -> None:
    try:
        await ending
    except Exception:  # the copy is deleted anyway
        log.exception("the %s of a branch could not be released", what)


# -- actions that are forbidden in a branch for any agent and mode: it may use only its own copy of the workspace --
#
# Reading the workspace itself asks like any path outside. Changing it is denied, and so is access to the copies of
# other branches. These rules are a layer of their own above the agent's (``permission.layers``).

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
