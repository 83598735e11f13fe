"""The whole examination of a workspace, with the settings and the trust that the daemon would go by."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config import load_config
from daemon.runtime import state_dir
from daemon.trust import TrustedFolders
from lsp_bridge.cli.doctor.daemon_health import checks
from lsp_bridge.cli.doctor.report import Check, LanguageReport, Report, Trial
from lsp_bridge.cli.doctor.server_checks import ServerCheck, examine, usual_environment
from lsp_bridge.language_client.pool.server_choice import choice_of
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lsp_bridge.cli.launch import Launcher

_TRIALS_S = 120.0
"""For all trials together."""
_TRIALS_AT_ONCE = 2


async def check_workspace(
    workspace: Path,
    launcher: Launcher,
    *,
    start: bool = False,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    own_bin: Path | None = None,
) -> Report:
    """Look at everything. ``start``: try out each server that was found. The last three are for tests: what servers
    are looked up and started with, where editors keep their extensions, and the daemon's folder of programs."""
    state = state_dir(launcher.home)
    trusted = TrustedFolders(state).trust(workspace) == "trusted"
    config = load_config(workspace, state / "config.json", trusted=trusted)
    env = usual_environment() if environment is None else dict(environment)
    # Name the servers even when none of them will be started.
    choice = choice_of(config.settings, trusted=trusted)
    general = await checks(
        workspace, config, launcher, _with_keys(env), trusted=trusted, home=home or Path.home()
    )
    languages, examined, cut = await examine(
        workspace, choice, env, diagnostics=config.settings.languages.diagnostics, own_bin=own_bin
    )
    if start:
        languages = _with_trials(languages, await _trials(examined, workspace, env, trusted=trusted))
    problems = tuple(Check(noted("Settings"), "warning", text) for text in choice.problems)
    return Report(workspace, trusted, (*general, *problems), languages, cut)


def _with_keys(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the text for the check of the model: it names the variables that are set, never their values."""
    import os

    from daemon.provider.variables import provider_env

    return {**environment, **provider_env(os.environ)}


async def _trials(
    examined: Sequence[ServerCheck], workspace: Path, environment: Mapping[str, str], *, trusted: bool
) -> dict[str, Trial]:
    from lsp_bridge.cli.doctor.trial import try_out
    from lsp_bridge.language_client.specs import safe_environment

    env = safe_environment(environment, workspace, trusted=trusted)
    limit = asyncio.Semaphore(_TRIALS_AT_ONCE)

    async def one(each: ServerCheck) -> Trial:
        assert each.spec is not None and each.found is not None
        async with limit:
            return await try_out(each.spec, each.found, env)

    names = {each.report.name: each for each in examined if each.report.state == "found"}
    tasks = {name: asyncio.create_task(one(each)) for name, each in names.items() if each.found}
    if not tasks:
        return {}
    done, late = await asyncio.wait(tasks.values(), timeout=_TRIALS_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return {
        name: task.result()
        if task in done
        else Trial(answered=False, saw_error=False, text=t("no time left"))
        for name, task in tasks.items()
    }


def _with_trials(
    languages: Sequence[LanguageReport], trials: Mapping[str, Trial]
) -> tuple[LanguageReport, ...]:
    return tuple(
        dataclasses.replace(
            language,
            servers=tuple(
                dataclasses.replace(server, trial=trials.get(server.name)) for server in language.servers
            ),
        )
        for language in languages
    )
