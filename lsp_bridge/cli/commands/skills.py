"""``goalwright skills`` and ``goalwright tools``: skills, slash commands and own tools, and problems in their files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from lsp_bridge.cli.commands.session_command import WHOSE, SessionConnection, called, session_command
from lsp_bridge.cli.text import one_line, shown_line, table
from tools.json_access import mappings, string, strings
from tools.localization import t

if TYPE_CHECKING:
    from typing import Any

    from lsp_bridge.cli.invocation import Invocation


@session_command(needed=False)
async def skills(cli: Invocation, asked: SessionConnection) -> None:
    """List them."""
    found = await asked.client.request("goalwright/prompt/list", {})
    if cli.wrote_json(found):
        return
    commands = [one for one in mappings(found.get("commands")) if one.get("kind") == "command"]
    rows = [(t("skill"), string(one.get("name")), one) for one in mappings(found.get("skills"))]
    rows += [(t("command"), called(one), one) for one in commands]
    if not rows:
        cli.console.line(t("There are no skills and no commands here."))
    for line in table([[kind, one_line(name), _about(one)] for kind, name, one in rows]):
        cli.console.row(shown_line(line))
    cli.console.problems(found)


@session_command(needed=False)
async def tools(cli: Invocation, asked: SessionConnection) -> None:
    """List the user's own tools."""
    found = await asked.client.request("goalwright/tools/list", {})
    if cli.wrote_json(found):
        return
    console, listed = cli.console, mappings(found.get("tools"))
    if not listed:
        console.line(t("There are no tools of your own here. See docs/own-tools.md."))
    for one in listed:
        told = string(one.get("description")).partition("\n")[0]
        console.row(shown_line(f"{string(one.get('name'))}  {t('ready')}  {told}"))
        runs = shlex.join(strings(one.get("runs"))) or t("Python code, inside the daemon")
        console.line(shown_line(f"  {string(one.get('origin'))}: {runs}"))
    console.problems(found)


def _about(one: dict[str, Any]) -> str:
    hidden = t("not listed to the model") if one.get("listed") is False else ""
    facts = "; ".join(filter(None, (t(WHOSE.get(string(one.get("source")), "")), hidden)))
    return f"{one_line(string(one.get('description')))}  ({facts})"
