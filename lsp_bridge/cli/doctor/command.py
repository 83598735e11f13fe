"""``goalwright doctor``: found parts, missing parts and how to install them, broken parts."""

from __future__ import annotations

import json
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
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK, Invocation, reporting
from lsp_bridge.cli.launch import passed_on, runtime_paths
from lsp_bridge.cli.text import Style, pad, shown_line
from lsp_bridge.language_client.pool.server_choice import choice_of
from tools.localization import n, noted, t
from tools.process.environment import daemon_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lsp_bridge.cli.doctor.report import LanguageReport, ServerReport, Trial
    from lsp_bridge.cli.launch import Launcher

_WIDTH = 12
"""Width of the column of names."""
_MAX_MISSING = 3
"""Ways to install a server that are shown; JSON has them all."""


@reporting(OSError)
async def doctor(cli: Invocation, *, start: bool) -> int:
    """Look at everything and print it; returns the exit code: 0 when nothing that is needed is broken.

    ``start``: really start each server. Needs no daemon and starts none.
    """
    console = cli.console
    workspace = runtime_paths(cli.workspace, cli.launcher.home).workspace
    report = await check_workspace(workspace, cli.launcher, start=start)
    if cli.json:
        console.line(json.dumps(report.to_json(), indent=2))
    else:
        console.line("\n".join(lines(report, console.style)))
    return EXIT_OK if report.ok else EXIT_FAILED


async def check_workspace(
    workspace: Path,
    launcher: Launcher,
    *,
    start: bool = False,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    own_bin: Path | None = None,
) -> Report:
    """Look at everything, with the settings and the trust that the daemon would go by.

    ``start``: try out each server that was found. The last three are for tests: what servers are looked up and started
    with, where editors keep their extensions, and the daemon's folder of programs.
    """
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


def lines(report: Report, style: Style) -> list[str]:
    """Return the report for a user."""
    signs = {"ok": style.green("ok"), "note": style.dim("--"), "warning": style.yellow("! ")}
    result = [style.bold(shown_line(str(report.workspace))), ""]
    for check in report.checks:
        sign = signs.get(check.state) or style.red("✗ ")
        result.append(f"{sign} {pad(t(check.name), _WIDTH)}{shown_line(check.text)}")
    result += ["", style.bold(t("Language servers"))]
    if not report.languages:
        result.append(f"{style.dim('--')} {t('no language server is known for the files here')}")
    for language in report.languages:
        result += ["", *_language(language, style)]
    if report.cut:
        result += ["", style.dim(t("Only some of the files were examined."))]
    return [*result, "", _ending(report, style)]


def _ending(report: Report, style: Style) -> str:
    if not report.ok:
        return style.red(t("Something required is broken. See the lines with ✗."))
    bare = [language.title for language in report.languages if not language.covered]
    if bare:
        return style.yellow(t("The agent gets no diagnostics for: {bare}.", bare=", ".join(bare)))
    if any(check.state == "warning" for check in report.checks):
        return style.yellow(t("It works, with warnings. See the lines with !."))
    return style.green(t("No problems found."))


def _language(language: LanguageReport, style: Style) -> list[str]:
    files = n("{count:,} file", "{count:,} files", language.files)
    result = [f"{style.bold(shown_line(language.title))} {style.dim(f'({files})')}"]
    for server in language.servers:
        result += _server(server, language.covered, style)
    return result


def _server(server: ServerReport, covered: bool, style: Style) -> list[str]:
    name = shown_line(server.name)
    where = shown_line(f"{server.version} ({server.program})" if server.version else server.program)
    dim = style.dim("--")
    wanting = dim if covered else style.yellow("! ")
    signs = {
        "found": (style.green("ok"), where),
        "broken": (style.red("✗ "), where),
        "missing": (wanting, t("not installed")),
        "unusable": (wanting, t("not used")),
    }
    sign, words = signs.get(server.state, (dim, shown_line(server.text)))
    result = [f"{sign} {name}  {words}"]
    if server.text and server.state in signs:
        result.append(f"     {shown_line(server.text)}")
    # One line to copy, and the rest as alternatives.
    result += [f"     {style.cyan(way)}" for way in server.install[:_MAX_MISSING]]
    result += [
        t(
            "     {path} belongs to the project and is not used: the folder is not trusted",
            path=style.dim(shown_line(path)),
        )
        for path in server.ignored
    ]
    if server.trial is not None:
        result.append("     " + _trial(server.trial, style))
    return result


def _trial(trial: Trial, style: Style) -> str:
    times = [
        f"{what} {seconds:.2f} s"
        for what, seconds in ((t("first response"), trial.cold_s), (t("after a change"), trial.warm_s))
        if seconds is not None
    ]
    text = ", ".join([*([shown_line(trial.text)] if trial.text else []), *times])
    return f"{style.green('started:') if trial.saw_error else style.red('started:')} {text}"
