"""The specification of a language server: its files, its programs, and its set-up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

JsonObject = Mapping[str, Any]
"""JSON on its way to a server; Any because each server defines its own."""

Ask = Callable[[str, Mapping[str, Any], float], Awaitable[Any]]
"""A request to a server: method, params, timeout in seconds → its result as JSON."""

VENVS = (".venv", "venv")
"""Names of a project's virtual environment."""
_SCRIPTS = "Scripts" if os.name == "nt" else "bin"


class Command(Struct, frozen=True):
    """One way to start a server: the program's name (looked up) and its arguments."""

    name: str
    """Name of the server in reports when it was started this way."""
    argv: tuple[str, ...]
    version: tuple[str, ...] = ()
    """Arguments that print its version: of the same program, or of another one beside it. Not needed for packages from
    npm, whose version can be read."""


class Project(Struct, frozen=True):
    """A project of a workspace, and whether its own programs may be executed."""

    workspace: Path
    root: Path | None = None
    """The project's own folder, in the workspace or the workspace itself (see ServerSpec.roots)."""
    trusted: bool = False
    """The user trusts the workspace: its own programs may be executed."""
    origin: Path | None = None
    """The workspace itself, when ``workspace`` is a copy of it: no more to be trusted than the copy."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The project's folder and those above it, up to the workspace: tools may be in any of them."""
        if self.root is None or not self.root.is_relative_to(self.workspace):
            return (self.workspace,)
        above = (folder for folder in self.root.parents if folder.is_relative_to(self.workspace))
        return (self.root, *above)

    @property
    def programs(self) -> tuple[Path, ...]:
        """The folders where the project keeps programs of its own, whether they exist or not."""
        places = (*(f"{venv}/{_SCRIPTS}" for venv in VENVS), "node_modules/.bin")
        return tuple(folder / place for folder in self.folders for place in places)

    def brought(self, path: Path) -> bool:
        """Return whether ``path`` (resolved) is in the workspace, or in the one of which that is a copy."""
        return any(path.is_relative_to(folder) for folder in (self.workspace, self.origin) if folder)

    def brings(self, program: Path) -> bool:
        """Return whether a program is in the workspace, by its name or by a link."""
        return self.brought(program) or self.brought(program.resolve())

    def which(self, name: str, search_path: str) -> str | None:
        """Return the program ``name`` on ``search_path``; not one that leads into an untrusted workspace."""
        program = shutil.which(name, path=search_path) if search_path else None
        if program is None or self.trusted or not self.brought(Path(program).resolve()):
            return program
        return None


class SetupContext(Struct, frozen=True):
    """The inputs of a server's set-up."""

    project: Project
    executable: Path
    search_path: str
    """PATH without the folders inside the workspace (in a trusted one: with the project's own folders first)."""

    def which(self, name: str) -> str | None:
        """Return the program ``name`` on the search path, or None. One of an untrusted workspace is never returned."""
        return self.project.which(name, self.search_path)


class Setup(Struct, frozen=True):
    """The settings that a server gets when it starts."""

    settings: JsonObject = field(default_factory=dict[str, Any])
    """Answers to ``workspace/configuration``, as a tree: section ``a.b`` is ``settings["a"]["b"]``."""
    initialization_options: JsonObject = field(default_factory=dict[str, Any])
    arguments: tuple[str, ...] = ()
    """Follow those of the command."""


class Unusable(Struct, frozen=True):
    """A program that is there and cannot be used here."""

    reason: str
    """Reason for the user, including a remedy."""
    untrusted: bool = False
    """It could be used if the workspace were trusted."""


Configure = Callable[[SetupContext], Setup | Unusable | None]


class ServerSpec(Struct, frozen=True):
    """A language server that can be started when a file of its languages is worked on."""

    name: str
    """Its key in the setting ``language_servers``."""
    languages: Mapping[str, str]
    """File suffix, with the dot and in lower case, to LSP ``languageId``."""
    commands: tuple[Command, ...]
    """Tried in order; the first one found is used."""
    configure: Setup | Configure = field(default_factory=Setup)
    """Set-up, or a function of the workspace that returns it, or Unusable (or None) when the server could not run
    without executing parts of it, or lacks something."""
    roots: tuple[str, ...] = ()
    """Names of files or folders, or globs like ``*.csproj``, that mark a project's folder. The nearest marked folder
    above a file, inside the workspace, gets a server of its own; without one the workspace does."""
    announce_pull: bool = True
    """Tell the server that diagnostics may be pulled. Measured: basedpyright answers a pull in 15 ms, and its
    pushes, 270 ms after the change, may be about a file it has not finished checking."""
    pulls_are_final: bool = False
    """It answers a pull when it has checked the file, whatever work it announces meanwhile or afterwards."""
    pull_through: Callable[[Ask], Ask] | None = None
    """For a server without ``textDocument/diagnostic`` but with its own kind of request: translates between the two. It
    is then pulled, and push support is not announced."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Exact file names to ``languageId``, over the suffixes: ``.bashrc``, ``tsconfig.json``."""
    yields_to: tuple[str, ...] = ()
    """Names of specs, all before this one: where one of them is found for a project, this one is not used, because it
    would report the same again."""
    joins_when_named: bool = False
    """It yields to no other one when the user names it in ``language_servers``."""
    title: str = ""
    """The languages, as text for the user."""
    install: tuple[str, ...] = ()
    """Command lines that install it; one of them is enough."""

    def set_up(self, place: SetupContext) -> Setup | Unusable | None:
        """Return the set-up for a workspace."""
        return self.configure if isinstance(self.configure, Setup) else self.configure(place)

    def language_of(self, path: Path) -> str | None:
        """Return the languageId of ``path`` if this server covers such files."""
        return self.files.get(path.name) or self.languages.get(path.suffix.lower())


class FoundServer(Struct, frozen=True):
    """A server that can be started here."""

    name: str
    argv: tuple[str, ...]
    """With the absolute path of the program."""
    setup: Setup


def languages(*pairs: tuple[str, str]) -> dict[str, str]:
    """Pairs of a languageId and its suffixes (or names), separated by blanks, the other way round."""
    return {suffix: language for language, suffixes in pairs for suffix in suffixes.split()}
