"""``goalwright doctor``: found parts, missing parts and how to install them, broken parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK, Invocation
from lsp_bridge.cli.text import Style, pad, shown_line
from tools.localization import n, t

if TYPE_CHECKING:
    from lsp_bridge.cli.doctor.report import LanguageReport, Report, ServerReport, Trial

_WIDTH = 12
"""Width of the column of names."""
_MAX_MISSING = 3
"""Ways to install a server that are shown; JSON has them all."""


async def doctor(cli: Invocation, *, start: bool) -> int:
    """Look at everything and print it; returns the exit code: 0 when nothing that is needed is broken.

    ``start``: really start each server. Needs no daemon and starts none.
    """
    # Import here, so that no other command waits for the libraries of this one.
    from lsp_bridge.cli.doctor.workspace_checks import check_workspace

    console = cli.console
    if not cli.workspace.is_dir():
        console.warn(t("{workspace} is not a folder.", workspace=shown_line(str(cli.workspace))))
        return EXIT_FAILED
    report = await check_workspace(cli.workspace.resolve(), cli.launcher, start=start)
    if cli.json:
        console.line(json.dumps(report.to_json(), indent=2))
    else:
        console.line("\n".join(lines(report, console.style)))
    return EXIT_OK if report.ok else EXIT_FAILED


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
