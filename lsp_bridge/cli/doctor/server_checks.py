"""The languages of a workspace, and the language server of each."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_bridge.cli.doctor.report import LanguageReport, ServerReport
from lsp_bridge.cli.doctor.versions import version_of
from lsp_bridge.cli.launch import passed_on
from lsp_bridge.language_client.pool.roots import Roots
from lsp_bridge.language_client.specs import (
    DiscoveryResult,
    FoundServer,
    ServerSpec,
    look_up,
    safe_environment,
)
from lsp_bridge.language_client.specs.defaults import DEFAULT_SPECS
from lsp_bridge.language_client.specs.discovery import ignored_programs
from tools.localization import t
from tools.process.environment import daemon_environment
from tools.search import ripgrep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lsp_bridge.language_client.pool.server_choice import ServerChoice

_AT_ONCE = 3
"""Programs that are asked for their version at the same time."""


@dataclass(frozen=True, slots=True)
class WorkspaceFiles:
    """The files of a workspace that some server covers."""

    paths: Mapping[str, tuple[Path, ...]] = field(default_factory=dict[str, "tuple[Path, ...]"])
    """By name of the spec."""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """The findings about one spec, and the data to start its server."""

    report: ServerReport
    found: FoundServer | None = None
    spec: ServerSpec | None = None


async def find_files(workspace: Path, specs: Sequence[ServerSpec]) -> WorkspaceFiles:
    """List the files of the workspace, without ignored ones, and at most 200 000."""
    listed = await ripgrep.list_files(workspace, ripgrep.ripgrep(workspace))

    def sort() -> dict[str, tuple[Path, ...]]:
        found: dict[str, list[Path]] = {}
        for name in listed.files:
            path = workspace / name
            for spec in specs:
                if spec.language_of(path) is not None:
                    found.setdefault(spec.name, []).append(path)
        return {name: tuple(paths) for name, paths in found.items()}

    return WorkspaceFiles(await asyncio.to_thread(sort), listed.cut)


async def examine(
    workspace: Path,
    choice: ServerChoice,
    environment: Mapping[str, str],
    *,
    diagnostics: bool = True,
    own_bin: Path | None = None,
) -> tuple[tuple[LanguageReport, ...], tuple[ServerCheck, ...], bool]:
    """Return the languages with most files first, the findings for each, and whether there are too many files.

    ``diagnostics``: the setting; without it no server is started. Runs the allowed programs to get their version, and
    nothing else.
    """
    wanted = {spec.name: spec for spec in choice.specs}
    every = {spec.name: spec for spec in DEFAULT_SPECS} | wanted
    files = await find_files(workspace, list(every.values()))
    roots = Roots(workspace)
    limit = asyncio.Semaphore(_AT_ONCE)
    found: dict[str, DiscoveryResult] = {}
    jobs: dict[str, asyncio.Task[ServerCheck]] = {}
    for name, spec in every.items():
        if name not in files.paths:
            continue
        root = _main_root(roots, spec, files.paths[name])
        if name not in wanted:
            text = (
                t("disabled by the setting language_servers")
                if diagnostics
                else t("disabled: the setting diagnostics is off")
            )
            jobs[name] = _done(ServerCheck(ServerReport(name, "disabled", text=text)))
            continue
        seen = found[name] = look_up(
            spec,
            workspace,
            root=root,
            search_path=environment.get("PATH", ""),
            own_bin=own_bin,
            trusted=choice.trusted,
        )
        instead = next((other for other in spec.yields_to if other in found and found[other].found), None)
        if instead is not None and seen.found is not None:
            text = t("not needed with {found}", found=_found_name(found[instead]))
            jobs[name] = _done(ServerCheck(ServerReport(name, "unneeded", seen.found.argv[0], text=text)))
            continue
        if instead is not None:
            continue  # not needed
        env = safe_environment(environment, workspace, root, trusted=choice.trusted)
        jobs[name] = asyncio.create_task(_examine(spec, workspace, root, seen, env, choice.trusted, limit))
    examined = {name: await job for name, job in jobs.items()}
    return _by_language(every, examined, files), tuple(examined.values()), files.cut


def _done(examined: ServerCheck) -> asyncio.Task[ServerCheck]:
    async def nothing() -> ServerCheck:
        return examined

    return asyncio.create_task(nothing())


async def _examine(
    spec: ServerSpec,
    workspace: Path,
    root: Path,
    seen: DiscoveryResult,
    environment: Mapping[str, str],
    trusted: bool,
    limit: asyncio.Semaphore,
) -> ServerCheck:
    ignored = () if trusted else tuple(map(str, ignored_programs(spec, workspace, root)))
    if seen.found is None:
        reasons = "; ".join(unusable.reason for unusable in seen.unusable)
        if reasons:
            install = () if any(unusable.untrusted for unusable in seen.unusable) else spec.install
            return ServerCheck(
                ServerReport(spec.name, "unusable", text=reasons, install=install, ignored=ignored)
            )
        # This is a server of the user's own, so no installation command is known.
        text = "" if spec.install else t("{argv} was not found", argv=spec.commands[0].argv[0])
        return ServerCheck(
            ServerReport(spec.name, "missing", text=text, install=spec.install, ignored=ignored)
        )
    program = Path(seen.found.argv[0])
    command = next((command for command in spec.commands if command.name == seen.found.name), None)
    async with limit:
        version, problem = await version_of(program, command, environment)
    state = "broken" if problem else "found"
    install = spec.install if problem else ()
    ignored = tuple(path for path in ignored if path != str(program))
    report = ServerReport(spec.name, state, str(program), version, problem, install, ignored)
    return ServerCheck(report, seen.found, spec)


def _main_root(roots: Roots, spec: ServerSpec, paths: Sequence[Path]) -> Path:
    """Return the project with most of the files: a repository may have many, and they rarely differ in their
    servers."""
    counted = Counter(roots.root_of(path, spec.roots) for path in paths[:2000])
    return counted.most_common(1)[0][0]


def _found_name(seen: DiscoveryResult) -> str:
    return seen.found.name if seen.found is not None else ""


def _by_language(
    specs: Mapping[str, ServerSpec], examined: Mapping[str, ServerCheck], files: WorkspaceFiles
) -> tuple[LanguageReport, ...]:
    groups: dict[str, list[str]] = {}
    for name in examined:
        groups.setdefault(specs[name].title or name, []).append(name)
    reports = [
        LanguageReport(
            title,
            len({path for name in names for path in files.paths[name]}),
            tuple(examined[name].report for name in names),
        )
        for title, names in groups.items()
    ]
    return tuple(sorted(reports, key=lambda report: (-report.files, report.title)))


def usual_environment() -> dict[str, str]:
    """Return the environment that the daemon would start with."""
    return daemon_environment(os.environ, passed_on())
