"""``goalwright skills`` and ``goalwright tools``: skills, slash commands and own tools, and problems in their files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from lsp_bridge.cli.commands.session_command import SessionConnection, session_command
from lsp_bridge.cli.text import fit, one_line, shown_line
from tools.json_access import mappings, string, strings
from tools.localization import noted, t

if TYPE_CHECKING:
    from typing import Any

    from lsp_bridge.cli.invocation import Invocation

_WHOSE = {"user": noted("yours"), "workspace": noted("from this folder")}


@session_command(needed=False)
async def skills(cli: Invocation, asked: SessionConnection) -> None:
    """List them."""
    found = await asked.client.request("goalwright/prompt/list", {})
    if cli.json:
        cli.write_json(found)
        return
    commands = [one for one in mappings(found.get("commands")) if one.get("kind") == "command"]
    rows = [(t("skill"), string(one.get("name")), one) for one in mappings(found.get("skills"))]
    rows += [
        (t("command"), " ".join(filter(None, (f"/{string(one.get('name'))}", string(one.get("hint"))))), one)
        for one in commands
    ]
    if not rows:
        cli.console.write(t("There are no skills and no commands here.") + "\n")
    width = max((len(name) for _, name, _ in rows), default=0)
    kinds = max((len(kind) for kind, _, _ in rows), default=0)
    for kind, name, one in rows:
        told = one_line(string(one.get("description")))
        line = f"{kind.ljust(kinds)}  {one_line(name).ljust(width)}  {told}{_facts(one)}"
        cli.console.write((fit(line, cli.console.columns) if cli.console.live else shown_line(line)) + "\n")
    _problems(cli, found)


@session_command(needed=False)
async def tools(cli: Invocation, asked: SessionConnection) -> None:
    """List the user's own tools."""
    found = await asked.client.request("goalwright/tools/list", {})
    if cli.json:
        cli.write_json(found)
        return
    console, listed = cli.console, mappings(found.get("tools"))
    if not listed:
        console.write(t("There are no tools of your own here. See docs/own-tools.md.") + "\n")
    for one in listed:
        told = string(one.get("description")).partition("\n")[0]
        line = f"{string(one.get('name'))}  {t('ready')}  {told}"
        console.write((fit(one_line(line), console.columns) if console.live else shown_line(line)) + "\n")
        runs = shlex.join(strings(one.get("runs"))) or t("Python code, inside the daemon")
        console.write(shown_line(f"  {string(one.get('origin'))}: {runs}") + "\n")
    _problems(cli, found)


def _problems(cli: Invocation, found: dict[str, Any]) -> None:
    for problem in strings(found.get("problems")):
        cli.console.problem(problem)


def _facts(one: dict[str, Any]) -> str:
    hidden = t("not listed to the model") if one.get("listed") is False else ""
    return f"  ({'; '.join(filter(None, (t(_WHOSE.get(string(one.get('source')), '')), hidden)))})"
