"""Which language servers there are for which files, and how each is found and set up.

The workspace is untrusted: nothing in it is executed, neither a server, nor an interpreter that a server
would start by itself (``.venv/bin/python``, ``node_modules/typescript``). What can be had from such folders
by reading alone — where the project's packages are — is taken.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JsonObject = Mapping[str, Any]
"""JSON on its way to a server; Any because each server defines its own."""


@dataclass(frozen=True, slots=True)
class Command:
    """One way to start a server: the program's name (looked up) and its arguments."""

    name: str
    """What the server is called in reports when it was started this way."""
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What a server's set-up may look at."""

    workspace: Path
    executable: Path
    search_path: str
    """PATH without the folders inside the workspace."""
    root: Path | None = None
    """The project's own folder, in the workspace or the workspace itself (see ServerSpec.roots)."""

    @property
    def project(self) -> Path:
        """Where the project is: its root, or the workspace."""
        return self.root or self.workspace


@dataclass(frozen=True, slots=True)
class Setup:
    """What a server is told when it starts."""

    settings: JsonObject = field(default_factory=dict[str, Any])
    """Answers to ``workspace/configuration``, as a tree: section ``a.b`` is ``settings["a"]["b"]``."""
    initialization_options: JsonObject = field(default_factory=dict[str, Any])


def _nothing_special(place: Place) -> Setup | None:
    return Setup()


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A language server that can be started when a file of its languages is worked on."""

    name: str
    languages: Mapping[str, str]
    """File suffix, with the dot and in lower case, to LSP ``languageId``."""
    commands: tuple[Command, ...]
    """Tried in order; the first one found is used."""
    configure: Callable[[Place], Setup | None] = _nothing_special
    """Set-up for this workspace; None when the server could not run without executing parts of it."""
    roots: tuple[str, ...] = ()
    """Names of files or folders, or globs like ``*.csproj``, that mark a project's folder. The nearest marked folder
    above a file, inside of the workspace, gets a server of its own; without one the workspace does."""
    announce_pull: bool = True
    """Tell the server that diagnostics may be pulled. Measured: basedpyright answers a pull in 15 ms, and its
    pushes, 270 ms after the change, may be about a file it has not finished checking."""

    def language_of(self, path: Path) -> str | None:
        """The languageId of ``path`` when this server looks after such files."""
        return self.languages.get(path.suffix.lower())


@dataclass(frozen=True, slots=True)
class Found:
    """A server that can be started here."""

    name: str
    argv: tuple[str, ...]
    """With the absolute path of the program."""
    setup: Setup


def find_server(
    spec: ServerSpec,
    workspace: Path,
    *,
    root: Path | None = None,
    search_path: str | None = None,
    own_bin: Path | None = None,
) -> Found | None:
    """The first command of ``spec`` that exists beside the daemon's own interpreter or on PATH, or None.

    ``search_path`` is a PATH (default: the environment's); its entries inside of the workspace are left
    out, and so is a program elsewhere that is a link into the workspace.
    """
    own = own_bin or Path(sys.executable).parent
    path = safe_path(os.environ.get("PATH", "") if search_path is None else search_path, workspace)
    for command in spec.commands:
        program = shutil.which(command.argv[0], path=str(own))
        if program is None:
            program = shutil.which(command.argv[0], path=path)
            if program is not None and _inside(Path(program).resolve(), workspace):
                program = None
        if program is None:
            continue
        setup = spec.configure(Place(workspace, Path(program), path, root))
        if setup is not None:
            return Found(command.name, (program, *command.argv[1:]), setup)
    return None


def safe_path(path: str, workspace: Path) -> str:
    """``path`` (a PATH) without relative entries and without those inside of ``workspace``."""
    kept = [
        entry
        for entry in path.split(os.pathsep)
        if entry and Path(entry).is_absolute() and not _inside(Path(entry).resolve(), workspace)
    ]
    return os.pathsep.join(kept)


def safe_environment(environment: Mapping[str, str], workspace: Path) -> dict[str, str]:
    """The environment for a language server: no search path leads into the workspace."""
    safe = dict(environment)
    for name in ("PATH", "PYTHONPATH", "NODE_PATH"):
        if name in safe:
            safe[name] = safe_path(safe[name], workspace)
            if not safe[name]:
                # An empty PYTHONPATH would be fine, an empty entry means the current folder.
                del safe[name]
    safe["PYTHONSAFEPATH"] = "1"
    return safe


def _inside(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _pyright(place: Place) -> Setup:
    analysis = {
        # Basedpyright's own default, "recommended", reports style as errors. The project's configuration
        # file still wins over this.
        "typeCheckingMode": "standard",
        "diagnosticMode": "openFilesOnly",
        "autoSearchPaths": True,
        "useLibraryCodeForTypes": True,
        "extraPaths": [str(folder) for folder in _site_packages(place)],
        # Never let the server rewrite the project's baseline file on save.
        "baselineMode": "discard",
    }
    python = shutil.which("python3", path=place.search_path) or shutil.which("python", path=place.search_path)
    settings = {
        # Said explicitly, because basedpyright otherwise executes the workspace's .venv/bin/python.
        "python": {"pythonPath": python or sys.executable, "analysis": analysis},
        "basedpyright": {"analysis": analysis, "disableOrganizeImports": True},
        "pyright": {"disableOrganizeImports": True},
    }
    return Setup(settings=settings)


def _site_packages(place: Place) -> list[Path]:
    """Where the project's packages are, found by looking only; no interpreter is asked."""
    folders: list[Path] = []
    for environment in (place.workspace / ".venv", place.workspace / "venv"):
        if (environment / "pyvenv.cfg").is_file():
            folders += sorted(environment.glob("lib/python3*/site-packages"))
            folders += sorted(environment.glob("Lib/site-packages"))
    return folders


def _typescript(place: Place) -> Setup | None:
    server = _tsserver(place.executable, place.workspace)
    if server is None:
        # Without a path of our own it would run the workspace's node_modules/typescript.
        return None
    return Setup(initialization_options={"tsserver": {"path": str(server)}, "hostInfo": "goalwright"})


def _tsserver(executable: Path, workspace: Path) -> Path | None:
    """TypeScript's server that is installed beside typescript-language-server (global or own prefix)."""
    for parent in executable.resolve().parents:
        if parent.name == "node_modules":
            script = parent / "typescript" / "lib" / "tsserver.js"
            if script.is_file() and not _inside(script.resolve(), workspace):
                return script
    return None


def _languages(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {suffix: language for language, suffixes in pairs for suffix in suffixes.split()}


DEFAULT_SPECS: tuple[ServerSpec, ...] = (
    ServerSpec(
        name="pyright",
        languages=_languages([("python", ".py .pyi")]),
        commands=(
            Command("basedpyright", ("basedpyright-langserver", "--stdio")),
            Command("pyright", ("pyright-langserver", "--stdio")),
        ),
        configure=_pyright,
    ),
    ServerSpec(
        name="ruff",
        languages=_languages([("python", ".py .pyi")]),
        commands=(Command("ruff", ("ruff", "server")),),
    ),
    ServerSpec(
        name="typescript",
        languages=_languages(
            [
                ("typescript", ".ts .mts .cts"),
                ("typescriptreact", ".tsx"),
                ("javascript", ".js .mjs .cjs"),
                ("javascriptreact", ".jsx"),
            ]
        ),
        commands=(Command("typescript-language-server", ("typescript-language-server", "--stdio")),),
        configure=_typescript,
    ),
)
