"""``goalwright agents``: agents that can start a session, and agents for tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsp_bridge.cli.commands.session_command import SessionConnection, session_command
from lsp_bridge.cli.text import fit, one_line, shown_line
from tools.json_access import mappings, string, strings
from tools.localization import noted, t

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation

_WHOSE = {"user": noted("yours"), "workspace": noted("from this folder")}


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
    if cli.json:
        cli.write_json(found)
        return
    console = cli.console
    listed = mappings(found.get("agents"))
    width = max((len(string(agent.get("name"))) for agent in listed), default=0)
    for agent in listed:
        facts = [
            t(_WHOSE.get(string(agent.get("source")), "")),
            string(agent.get("model")),
            "" if agent.get("primary") is True else t("for tasks"),
            _tools(strings(agent.get("tools"))),
        ]
        told = "; ".join(fact for fact in facts if fact)
        name = one_line(string(agent.get("name"))).ljust(width)
        line = f"{name}  {one_line(string(agent.get('description')))}" + (f"  ({told})" if told else "")
        console.write((fit(line, console.columns) if console.live else shown_line(line)) + "\n")
    for problem in strings(found.get("problems")):
        console.problem(problem)
