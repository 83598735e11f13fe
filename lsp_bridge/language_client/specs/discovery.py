"""Find a file's project, and a server's program: in a trusted project first, then beside the daemon, then on PATH.

An untrusted workspace is never executed: neither a server in it, nor an interpreter or a compiler that a server would
start automatically. Information that needs only reading, like the place of its packages, is used.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lsp_bridge.language_client.specs.server_spec import (
    Command,
    FoundServer,
    Project,
    ServerSpec,
    Setup,
    SetupContext,
    Unusable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MAX_ENTRIES = 5000
"""Most entries of a folder that are compared with globs."""


class DiscoveryResult(Struct, frozen=True):
    """The result of looking for a server."""

    found: FoundServer | None = None
    unusable: tuple[Unusable, ...] = ()
    """Why earlier (or other) candidates cannot be used."""


def root_of(path: Path, workspace: Path, markers: tuple[str, ...]) -> Path:
    """Return the project folder of ``path``: the nearest one above it, in ``workspace``, that has one of ``markers``
    (names or globs, like ``pyproject.toml``); ``workspace`` where there is none."""
    folders = Project(workspace, path.parent).folders
    return next((folder for folder in folders if any(_has(folder, name) for name in markers)), workspace)


def _has(folder: Path, marker: str) -> bool:
    try:
        if not any(char in marker for char in "*?["):
            return os.path.lexists(folder / marker)
        with os.scandir(folder) as entries:
            names = (entry.name for entry in itertools.islice(entries, _MAX_ENTRIES))
            return any(fnmatch.fnmatchcase(name, marker) for name in names)
    except (OSError, ValueError):
        return False


def look_up(
    spec: ServerSpec, project: Project, *, search_path: str | None = None, own_bin: Path | None = None
) -> DiscoveryResult:
    """Look for ``spec``'s commands: in a trusted project, beside the daemon's own interpreter (``own_bin``), and on
    ``search_path`` (a PATH; default: the environment's).

    Entries of the search path inside of an untrusted workspace are left out, and so is a program elsewhere that is a
    link into it; the same goes for the workspace of which this one is a copy. Reads folders and a few small files;
    starts nothing.
    """
    own = own_bin or Path(sys.executable).parent
    path = search_path_of(os.environ.get("PATH", "") if search_path is None else search_path, project)
    unusable: list[Unusable] = []
    for command, program in _candidates(spec, project, path, own):
        # The folder of the server may hold its companions as well, e.g. shellcheck.
        setup = spec.set_up(SetupContext(project, program, os.pathsep.join([path, str(own)])))
        if isinstance(setup, Setup):
            found = FoundServer(command.name, (str(program), *command.argv[1:], *setup.arguments), setup)
            return DiscoveryResult(found, tuple(unusable))
        if setup is not None:
            unusable.append(setup)
    return DiscoveryResult(None, tuple(unusable))


def search_path_of(given: str, project: Project) -> str:
    """Return the PATH ``given`` as servers may use it: in a trusted workspace with the project's own folders first."""
    kept = safe_path(given, project)
    if not project.trusted:
        return kept
    own = [str(folder) for folder in project.programs if folder.is_dir()]
    return os.pathsep.join([*own, *([kept] if kept else [])])


def safe_path(path: str, project: Project) -> str:
    """Return ``path`` (a PATH) without relative entries, and without those inside of an untrusted workspace."""
    kept = [
        entry
        for entry in path.split(os.pathsep)
        if Path(entry).is_absolute() and (project.trusted or not project.brought(Path(entry).resolve()))
    ]
    return os.pathsep.join(kept)


def safe_environment(environment: Mapping[str, str], project: Project) -> dict[str, str]:
    """Return the environment for a language server: no search path leads into a workspace that is not trusted."""
    safe = dict(environment)
    for name in ("PATH", "PYTHONPATH", "NODE_PATH"):
        if name in safe:
            safe[name] = safe_path(safe[name], project)
    if project.trusted:
        safe["PATH"] = search_path_of(safe.get("PATH", ""), project)
    for name in ("PATH", "PYTHONPATH", "NODE_PATH"):
        if name in safe and not safe[name]:
            # An empty PYTHONPATH would be fine, an empty entry means the current folder.
            del safe[name]
    safe["PYTHONSAFEPATH"] = "1"
    return safe


def boxed(
    argv: Sequence[str], environment: Mapping[str, str], project: Project
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return a server's command and environment for a read-only sandbox without network; unchanged where no sandbox
    works. It is for servers of the workspace, since the agent could have changed their programs.

    Blocking. Raises UnavailableError.
    """
    from daemon.runtime import state_dir
    from tools.sandbox.policy import SandboxPolicy
    from tools.sandbox.prepare import prepare, works

    if not works(project.workspace, project.origin):
        return argv, environment
    state = state_dir()
    home = os.fsencode(project.origin or project.workspace)
    scratch = state / "servers" / hashlib.sha256(home).hexdigest()[:16]
    # Not in the workspace: some programs look for plugins or modules in the current folder.
    folder = Path(argv[0]).parent
    policy = SandboxPolicy("read-only", hidden=(state,), copy_of=project.origin, folder=folder)
    sandbox = prepare(policy, project.workspace, scratch, lambda permission, name: "allow", key="servers")
    return (*sandbox.prefix, *argv), sandbox.environment(environment)


def _candidates(spec: ServerSpec, project: Project, path: str, own: Path) -> Iterator[tuple[Command, Path]]:
    """Yield each command with a program it could be, in the order of preference."""
    if project.trusted:
        # The project's own program takes precedence: its pyright comes before a basedpyright of ours.
        yield from _own_programs(spec, project)
    for command in spec.commands:
        name = command.argv[0]
        if Path(name).is_absolute():
            program = project.which(name, path or os.defpath)
        elif Path(name).parent != Path():
            continue  # relative to an unknown folder
        else:
            program = shutil.which(name, path=str(own)) or project.which(name, path)
        if program is not None:
            yield command, Path(program)


def _own_programs(spec: ServerSpec, project: Project) -> Iterator[tuple[Command, Path]]:
    for folder in project.programs:
        for command in spec.commands:
            if (program := shutil.which(command.argv[0], path=str(folder))) is not None:
                yield command, Path(program)


def ignored_programs(spec: ServerSpec, project: Project) -> tuple[Path, ...]:
    """Return the project's own programs for ``spec``, which are only used when the workspace is trusted."""
    trusted = replace(project, trusted=True)
    return tuple(
        program
        for _, program in _own_programs(spec, project)
        if isinstance(spec.set_up(SetupContext(trusted, program, str(program.parent))), Setup)
    )
