"""Checks that are not about language servers: the daemon, the programs it uses, the model, the editor."""

from __future__ import annotations

import asyncio
import os
import platform
import re
from typing import TYPE_CHECKING

from daemon.provider.variables import CLAUDE_KEYS, OPENAI_KEY, is_provider_variable, provider_env
from daemon.runtime import RuntimeFolderError
from daemon.version import product_version
from lsp_bridge.cli.doctor.report import Check
from lsp_bridge.cli.doctor.versions import ask
from lsp_bridge.cli.launch import Greeting, Launcher, LaunchError, runtime_paths
from lsp_bridge.cli.preloaded import preloader_pid
from tools.json_access import integer, string
from tools.localization import noted, t
from tools.process.environment import kept_back
from tools.process.programs import find_program
from tools.sandbox.policy import UnavailableError
from tools.sandbox.prepare import available

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from daemon.config import Config

_TIMEOUT_S = 5.0
_NAMES_SHOWN = 30
_EXTENSION = re.compile(r"(?:^|\.)goalwright-(\d[\w.+]*)$")
_EDITORS = (".vscode", ".vscode-insiders", ".vscode-server", ".vscode-oss", ".cursor", ".cursor-server")


async def checks(
    workspace: Path,
    config: Config,
    launcher: Launcher,
    environment: Mapping[str, str],
    *,
    trusted: bool,
    home: Path,
) -> tuple[Check, ...]:
    """Everything but the languages, in the order in which it is shown."""
    version = await asyncio.to_thread(product_version)
    daemon, git, box = await asyncio.gather(
        _daemon(workspace, launcher, version),
        _git(workspace, environment),
        asyncio.to_thread(_sandbox, workspace, config),
    )
    return (
        Check("Goalwright", "ok", f"{version}, Python {platform.python_version()}"),
        _trust(trusted),
        *(Check(noted("Settings"), "broken", text) for text in config.blocking),
        *(Check(noted("Settings"), "warning", text) for text in config.problems),
        *_environment(config),
        daemon,
        *_preloader(launcher),
        _model(config, environment),
        git,
        _ripgrep(workspace),
        box,
        *_extension(home, version),
    )


def _trust(trusted: bool) -> Check:
    if trusted:
        return Check(noted("Folder"), "ok", t("trusted: its language servers and settings are used"))
    text = t(
        "not trusted: nothing in it is run, and its settings can only tighten yours. If it is yours: "
        "goalwright trust"
    )
    return Check(noted("Folder"), "note", text)


def _environment(config: Config) -> list[Check]:
    names = [
        name
        for name in kept_back(os.environ, config.settings.commands.environment)
        if not is_provider_variable(name)
    ]
    if not names:
        return []
    more = t(" and {count} more", count=len(names) - _NAMES_SHOWN) if len(names) > _NAMES_SHOWN else ""
    text = t(
        "not passed to commands: {names}{more}. To pass those they need, use the setting environment "
        "(~/.goalwright/config.json)",
        names=", ".join(names[:_NAMES_SHOWN]),
        more=more,
    )
    return [Check(noted("Variables"), "note", text)]


async def _daemon(workspace: Path, launcher: Launcher, own: str) -> Check:
    name = noted("Daemon")
    try:
        paths = runtime_paths(workspace, launcher.home)
    except (LaunchError, RuntimeFolderError) as error:
        return Check(name, "broken", str(error))
    try:
        client, address = await launcher.connect_running(workspace, Greeting(client="doctor"))
    except (LaunchError, RuntimeFolderError) as error:
        if isinstance(error, LaunchError) and error.code == "notRunning":
            return Check(
                name, "ok", t("not running; it starts when needed (log {log_file})", log_file=paths.log_file)
            )
        return Check(name, "broken", str(error))
    pid = address.pid
    try:
        status = await client.request("goalwright/daemon/status", {}, _TIMEOUT_S)
    except Exception as error:  # whatever the error: the daemon runs and does not answer correctly
        words = t(
            "process {pid} does not answer: {error}. Stop it with goalwright stop", pid=pid, error=error
        )
        return Check(name, "broken", words)
    finally:
        await client.close()
    if (version := string(status.get("version"))) != own:
        text = t(
            "runs version {version}, but this is {own}: run goalwright stop, then continue",
            version=version,
            own=own,
        )
        return Check(name, "warning", text)
    pid = integer(status.get("pid"))
    return Check(name, "ok", t("running (process {pid}, log {log_file})", pid=pid, log_file=paths.log_file))


def _preloader(launcher: Launcher) -> list[Check]:
    pid = preloader_pid(launcher.home)
    if pid is None:
        return []  # nothing is missing without it
    text = t(
        "process {pid}: the daemons of other folders start at once. goalwright stop --all ends it", pid=pid
    )
    return [Check(noted("Preloader"), "ok", text)]


def _model(config: Config, environment: Mapping[str, str]) -> Check:
    # Print no values, because this output ends up in bug reports.
    names = sorted(name for name, value in provider_env(environment).items() if value)
    chosen = config.settings.model.model
    if chosen is None and not names:
        text = t(
            "no model is set and no API key is in the environment: a local Ollama is used if it is "
            "running, otherwise the demo. "
        )
        text += t("Set a model in ~/.goalwright/config.json, or for example ANTHROPIC_API_KEY")
        return Check(noted("Model"), "warning", text)
    keys = [name for name in names if name.endswith("_API_KEY")]
    if chosen is None and keys and {*CLAUDE_KEYS, OPENAI_KEY}.isdisjoint(names):
        text = t(
            "no model is set, and the variables that are set ({keys}) choose none: set a model in "
            "~/.goalwright/config.json, or use --model. Otherwise a local Ollama is used if it is running, or the demo",
            keys=", ".join(keys),
        )
        return Check(noted("Model"), "warning", text)
    text = chosen or t("chosen by the keys in the environment")
    return Check(noted("Model"), "ok", text + t("; set: {keys}", keys=", ".join(names)) if names else text)


async def _git(workspace: Path, environment: Mapping[str, str]) -> Check:
    git = find_program("git", workspace)
    if git is None:
        return Check("git", "warning", t("not found: undoing the changes of commands needs it"))
    said = await ask([git, "--version"], environment, _TIMEOUT_S)
    if said.code != 0:
        return Check("git", "broken", t("{git} does not run: {text}", git=git, text=said.text.strip()[:200]))
    return Check("git", "ok", f"{said.text.strip().removeprefix('git version ')[:60]} ({git})")


def _ripgrep(workspace: Path) -> Check:
    program = find_program("rg", workspace)
    text = t("not found: searches work without it, but are slower (apt install ripgrep)")
    return Check("ripgrep", "ok", program) if program else Check("ripgrep", "note", text)


def _sandbox(workspace: Path, config: Config) -> Check:
    wanted = config.settings.commands.sandbox != "off"
    try:
        program = available(workspace)
    except UnavailableError as error:
        if wanted:
            return Check(noted("Sandbox"), "broken", str(error))
        text = t("{error}; the sandbox is off in the settings", error=error)
        return Check(noted("Sandbox"), "note", text)
    mode = config.settings.commands.sandbox if wanted else t("available; off in the settings")
    return Check(noted("Sandbox"), "ok", f"{mode} ({program})")


def _extension(home: Path, version: str) -> list[Check]:
    """Return the checks of the extension in the editors of this machine; none when there is none."""
    found: list[Check] = []
    for editor in _EDITORS:
        folder = home / editor / "extensions"
        try:
            names = [entry.name for entry in os.scandir(folder)]
        except OSError:
            continue
        versions = {match[1] for name in names if (match := _EXTENSION.search(name))}
        if not versions:
            continue
        if version in versions:
            text = t("{version} in {folder}", version=version, folder=folder)
            found.append(Check(noted("Extension"), "ok", text))
        else:
            text = t(
                "{versions} in {folder}, but this is {version}: update the older one",
                versions=", ".join(sorted(versions)),
                folder=folder,
                version=version,
            )
            found.append(Check(noted("Extension"), "warning", text))
    return found
