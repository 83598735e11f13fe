"""The languages of a workspace, and the language server of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lsp_bridge.cli.doctor.report import LanguageReport, ServerReport, Trial
from lsp_bridge.cli.doctor.versions import version_of
from lsp_bridge.language_client.specs.discovery import (
    DiscoveryResult,
    ignored_programs,
    look_up,
    root_of,
    safe_environment,
)
from lsp_bridge.language_client.specs.server_spec import Project
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tools.localization import t
from tools.search import ripgrep

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from lsp_bridge.language_client.pool.server_choice import ServerChoice
    from lsp_bridge.language_client.specs.server_spec import FoundServer, ServerSpec

_AT_ONCE = 3
"""Programs that are asked for their version at the same time."""
_TRIALS_S = 120.0
"""For all trials together."""
_TRIALS_AT_ONCE = 2
Files = dict[str, list[Path]]
"""The files of a workspace that some server covers, by name of the spec."""


async def find_files(workspace: Path, specs: Sequence[ServerSpec]) -> tuple[Files, bool]:
    """List the files of the workspace, without ignored ones, and at most 200 000; the second is whether there are
    more."""
    listed = await ripgrep.list_files(workspace, ripgrep.ripgrep(workspace))

    def sort() -> Files:
        found: Files = {}
        for path in (workspace / name for name in listed.files):
            for spec in specs:
                if spec.language_of(path) is not None:
                    found.setdefault(spec.name, []).append(path)
        return found

    return await asyncio.to_thread(sort), listed.cut


async def examine(
    workspace: Path,
    choice: ServerChoice,
    environment: Mapping[str, str],
    *,
    diagnostics: bool = True,
    own_bin: Path | None = None,
    start: bool = False,
) -> tuple[tuple[LanguageReport, ...], bool]:
    """Return the languages with most files first, and whether there are too many files.

    ``diagnostics``: the setting; without it no server is started. Runs the allowed programs to get their version, and
    nothing else. ``start``: also tries out each server that was found.
    """
    wanted = {spec.name: spec for spec in choice.specs}
    every = {spec.name: spec for spec in DEFAULT_SPECS} | wanted
    files, cut = await find_files(workspace, list(every.values()))
    limit = asyncio.Semaphore(_AT_ONCE)
    found: dict[str, DiscoveryResult] = {}
    reports: dict[str, ServerReport] = {}
    examined: dict[str, Coroutine[Any, Any, ServerReport]] = {}
    for name, spec in every.items():
        if name not in files:
            continue
        project = Project(workspace, _main_root(workspace, spec, files[name]), choice.trusted)
        if name not in wanted:
            text = (
                t("disabled by the setting language_servers")
                if diagnostics
                else t("disabled: the setting diagnostics is off")
            )
            reports[name] = ServerReport(name, "disabled", text=text)
            continue
        seen = found[name] = look_up(spec, project, search_path=environment.get("PATH", ""), own_bin=own_bin)
        others = (found[other].found for other in spec.yields_to if other in found)
        if instead := next(filter(None, others), None):
            if seen.found is not None:  # else it is not needed
                text = t("not needed with {found}", found=instead.name)
                reports[name] = ServerReport(name, "unneeded", seen.found.argv[0], text=text)
            continue
        env = safe_environment(environment, project)
        examined[name] = _examine(spec, project, seen, env, limit)
    reports |= zip(examined, await asyncio.gather(*examined.values()), strict=True)
    if start:
        env = safe_environment(environment, Project(workspace, trusted=choice.trusted))
        working = [name for name in examined if reports[name].state == "found"]
        ours = [(every[name], one) for name in working if (one := found[name].found)]
        trials = await _trials(ours, env, workspace)
        reports |= {name: replace(reports[name], trial=trial) for name, trial in trials.items()}
    return _by_language(every, reports, files), cut


async def _trials(
    servers: Sequence[tuple[ServerSpec, FoundServer]], environment: Mapping[str, str], workspace: Path
) -> dict[str, Trial]:
    from lsp_bridge.cli.doctor.trial import try_out

    limit = asyncio.Semaphore(_TRIALS_AT_ONCE)

    async def one(spec: ServerSpec, found: FoundServer) -> Trial:
        async with limit:
            return await try_out(spec, found, environment, workspace)

    tasks = {spec.name: asyncio.create_task(one(spec, found)) for spec, found in servers}
    if not tasks:
        return {}
    _, late = await asyncio.wait(tasks.values(), timeout=_TRIALS_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    too_late = Trial(answered=False, saw_error=False, text=t("no time left"))
    return {name: too_late if task in late else task.result() for name, task in tasks.items()}


async def _examine(
    spec: ServerSpec,
    project: Project,
    seen: DiscoveryResult,
    environment: Mapping[str, str],
    limit: asyncio.Semaphore,
) -> ServerReport:
    ignored = () if project.trusted else tuple(map(str, ignored_programs(spec, project)))
    if seen.found is None:
        install, state = spec.install, "missing"
        # For a server of the user's own no installation command is known.
        text = "" if install else t("{argv} was not found", argv=spec.commands[0].argv[0])
        if reasons := "; ".join(unusable.reason for unusable in seen.unusable):
            install = () if any(unusable.untrusted for unusable in seen.unusable) else install
            state, text = "unusable", reasons
        return ServerReport(spec.name, state, text=text, install=install, ignored=ignored)
    program = Path(seen.found.argv[0])
    command = next((command for command in spec.commands if command.name == seen.found.name), None)
    async with limit:
        box = project if project.brings(program) else None
        version, problem = await version_of(program, command, environment, box)
    state = "broken" if problem else "found"
    install = spec.install if problem else ()
    ignored = tuple(path for path in ignored if path != str(program))
    return ServerReport(spec.name, state, str(program), version, problem, install, ignored)


def _main_root(workspace: Path, spec: ServerSpec, paths: Sequence[Path]) -> Path:
    """Return the project with most of the files: a repository may have many, and they rarely differ in their
    servers."""
    counted = Counter(root_of(path, workspace, spec.roots) for path in paths[:2000])
    return counted.most_common(1)[0][0]


def _by_language(
    specs: Mapping[str, ServerSpec], servers: Mapping[str, ServerReport], files: Files
) -> tuple[LanguageReport, ...]:
    groups: dict[str, list[str]] = {}
    for name, spec in specs.items():
        if name in servers:
            groups.setdefault(spec.title or name, []).append(name)
    reports = [
        LanguageReport(
            title,
            len({path for name in names for path in files[name]}),
            tuple(servers[name] for name in names),
        )
        for title, names in groups.items()
    ]
    return tuple(sorted(reports, key=lambda report: (-report.files, report.title)))
