"""The whole examination of a workspace, with the settings and the trust that the daemon would go by."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config import load_config
from daemon.provider.variables import provider_env
from daemon.runtime import state_dir
from daemon.trust import TrustedFolders
from lsp_bridge.cli.doctor.daemon_health import checks
from lsp_bridge.cli.doctor.report import Check, Report
from lsp_bridge.cli.doctor.server_checks import examine
from lsp_bridge.cli.launch import passed_on
from lsp_bridge.language_client.pool.server_choice import choice_of
from tools.localization import noted
from tools.process.environment import daemon_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lsp_bridge.cli.launch import Launcher


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
    env = daemon_environment(os.environ, passed_on()) if environment is None else dict(environment)
    # Name the servers even when none of them will be started.
    choice = choice_of(config.settings, trusted=trusted)
    # The check of the model names the variables that are set, never their values.
    keys = {**env, **provider_env(os.environ)}
    home = home or Path.home()
    general = await checks(workspace, config, launcher, keys, trusted=trusted, home=home)
    diagnostics = config.settings.languages.diagnostics
    languages, cut = await examine(
        workspace, choice, env, diagnostics=diagnostics, own_bin=own_bin, start=start
    )
    problems = tuple(Check(noted("Settings"), "warning", text) for text in choice.problems)
    return Report(workspace, trusted, (*general, *problems), languages, cut)
