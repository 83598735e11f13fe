"""Find a server's program: in a trusted project first, then beside the daemon, then on PATH.

An untrusted workspace is never executed: neither a server in it, nor an interpreter or a compiler that a server would
start automatically. Information that needs only reading, like the place of its packages, is used.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_bridge.language_client.specs.server_spec import (
    Command,
    FoundServer,
    ServerSpec,
    Setup,
    SetupContext,
    Unusable,
    brought,
    folders_of,
    programs_of,
    which,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of looking for a server."""

    found: FoundServer | None = None
    ignored: tuple[Path, ...] = ()
    """Programs of the workspace that would have been taken if it were trusted."""
    unusable: tuple[Unusable, ...] = ()
    """Why earlier (or other) candidates cannot be used."""


def find_server(
    spec: ServerSpec,
    workspace: Path,
    *,
    root: Path | None = None,
    search_path: str | None = None,
    own_bin: Path | None = None,
    trusted: bool = False,
    origin: Path | None = None,
) -> FoundServer | None:
    """Return the server of ``spec`` that is to be started for the project at ``root``, or None; see ``look_up``."""
    return look_up(
        spec,
        workspace,
        root=root,
        search_path=search_path,
        own_bin=own_bin,
        trusted=trusted,
        origin=origin,
    ).found


def look_up(
    spec: ServerSpec,
    workspace: Path,
    *,
    root: Path | None = None,
    search_path: str | None = None,
    own_bin: Path | None = None,
    trusted: bool = False,
    origin: Path | None = None,
) -> DiscoveryResult:
    """Look for ``spec``'s commands: in a ``trusted`` project (``root`` up to ``workspace``), beside the daemon's own
    interpreter (``own_bin``), and on ``search_path`` (a PATH; default: the environment's).

    Entries of the search path inside of an untrusted workspace are left out, and so is a program elsewhere that is a
    link into it; the same goes for the workspace of which this one is a copy (``origin``). Reads folders and a few
    small files; starts nothing.
    """
    own = own_bin or Path(sys.executable).parent
    given = os.environ.get("PATH", "") if search_path is None else search_path
    path = search_path_of(given, workspace, root, trusted=trusted, origin=origin)
    unusable: list[Unusable] = []
    for command, program in _candidates(spec, workspace, root, path, own, trusted=trusted, origin=origin):
        # The folder of the server may hold its companions as well, e.g. shellcheck.
        place = SetupContext(workspace, program, os.pathsep.join([path, str(own)]), root, trusted, origin)
        setup = spec.configure(place)
        if isinstance(setup, Setup):
            found = FoundServer(command.name, (str(program), *command.argv[1:], *setup.arguments), setup)
            return DiscoveryResult(found, (), tuple(unusable))
        if setup is not None:
            unusable.append(setup)
    return DiscoveryResult(None, () if trusted else ignored_programs(spec, workspace, root), tuple(unusable))


def search_path_of(
    given: str,
    workspace: Path,
    root: Path | None = None,
    *,
    trusted: bool = False,
    origin: Path | None = None,
) -> str:
    """Return the PATH ``given`` as servers may use it: in a trusted workspace with the project's own folders first."""
    kept = safe_path(given, None if trusted else workspace, origin)
    if not trusted:
        return kept
    own = [str(folder) for folder in programs_of(folders_of(workspace, root)) if folder.is_dir()]
    return os.pathsep.join([*own, *([kept] if kept else [])])


def safe_path(path: str, workspace: Path | None, origin: Path | None = None) -> str:
    """Return ``path`` (a PATH) without relative entries and without those inside of ``workspace``, and then of
    ``origin``."""
    kept = [
        entry
        for entry in path.split(os.pathsep)
        if entry
        and Path(entry).is_absolute()
        and (workspace is None or not brought(Path(entry).resolve(), workspace, origin))
    ]
    return os.pathsep.join(kept)


def safe_environment(
    environment: Mapping[str, str],
    workspace: Path,
    root: Path | None = None,
    *,
    trusted: bool = False,
    origin: Path | None = None,
) -> dict[str, str]:
    """Return the environment for a language server: no search path leads into a workspace that is not trusted."""
    safe = dict(environment)
    for name in ("PATH", "PYTHONPATH", "NODE_PATH"):
        if name in safe:
            safe[name] = safe_path(safe[name], None if trusted else workspace, origin)
    if trusted:
        safe["PATH"] = search_path_of(safe.get("PATH", ""), workspace, root, trusted=True)
    for name in ("PATH", "PYTHONPATH", "NODE_PATH"):
        if name in safe and not safe[name]:
            # An empty PYTHONPATH would be fine, an empty entry means the current folder.
            del safe[name]
    safe["PYTHONSAFEPATH"] = "1"
    return safe


def _candidates(
    spec: ServerSpec,
    workspace: Path,
    root: Path | None,
    path: str,
    own: Path,
    *,
    trusted: bool,
    origin: Path | None,
) -> Iterator[tuple[Command, Path]]:
    """Yield each command with a program it could be, in the order of preference."""
    if trusted:
        # The project's own program takes precedence: its pyright comes before a basedpyright of ours.
        for folder in programs_of(folders_of(workspace, root)):
            for command in spec.commands:
                if (program := shutil.which(command.argv[0], path=str(folder))) is not None:
                    yield command, Path(program)
    for command in spec.commands:
        name = command.argv[0]
        if Path(name).parent != Path() and not Path(name).is_absolute():
            continue  # relative to an unknown folder
        if Path(name).is_absolute():
            program = which(name, path or os.defpath, workspace, trusted=trusted, origin=origin)
        else:
            program = shutil.which(name, path=str(own)) or which(
                name, path, workspace, trusted=trusted, origin=origin
            )
        if program is not None:
            yield command, Path(program)


def ignored_programs(spec: ServerSpec, workspace: Path, root: Path | None = None) -> tuple[Path, ...]:
    """Return the project's own programs for ``spec``, which are only used when the workspace is trusted."""
    usable: list[Path] = []
    for folder in programs_of(folders_of(workspace, root)):
        for command in spec.commands:
            program = shutil.which(command.argv[0], path=str(folder))
            if program is None:
                continue
            place = SetupContext(workspace, Path(program), str(folder), root, trusted=True)
            if isinstance(spec.configure(place), Setup):
                usable.append(Path(program))
    return tuple(usable)
