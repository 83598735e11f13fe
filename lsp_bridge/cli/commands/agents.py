"""``goalwright agents``: agents that can start a session, and agents for tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsp_bridge.cli.commands.session_command import WHOSE, SessionConnection, session_command
from lsp_bridge.cli.text import one_line, shown_line, table
from tools.json_access import mappings, string, strings
from tools.localization import t

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation


def _tools(names: list[str]) -> str:
    if not names:
        return ""
    without = all(name.startswith("!") for name in names)
    return (t("without ") if without else t("only ")) + ", ".join(
        name.removeprefix("!") if without else name for name in names
    )


@session_command(needed=False)
async def agents(cli: Invocation, asked: SessionConnection) -> None:
    """List them."""
    found = await asked.client.request("goalwright/agent/list", {})
    if cli.wrote_json(found):
        return
    rows: list[list[str]] = []
    for agent in mappings(found.get("agents")):
        facts = [
            t(WHOSE.get(string(agent.get("source")), "")),
            string(agent.get("model")),
            "" if agent.get("primary") is True else t("for tasks"),
            _tools(strings(agent.get("tools"))),
        ]
        told = "; ".join(filter(None, facts))
        about = one_line(string(agent.get("description"))) + (f"  ({told})" if told else "")
        rows.append([one_line(string(agent.get("name"))), about])
    for line in table(rows):
        cli.console.row(shown_line(line))
    cli.console.problems(found)
