"""``goalwright agents``, ``models``, ``skills`` and ``tools``: what there is to choose from, and problems in its
files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.session_command import WHOSE, SessionConnection, called, session_command
from lsp_bridge.cli.text import one_line, shown_line, table, window_words
from tools.json_access import mappings, string, strings
from tools.localization import t

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation

_FEW = 10
"""Models of one provider in the list of all."""


def _tools(names: list[str]) -> str:
    if not names:
        return ""
    without = all(name.startswith("!") for name in names)
    return (t("without ") if without else t("only ")) + ", ".join(
        name.removeprefix("!") if without else name for name in names
    )


@session_command(needed=False)
async def agents(cli: Invocation, asked: SessionConnection) -> None:
    """List the agents."""
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


@session_command(needed=False)
async def models(cli: Invocation, asked: SessionConnection, *, provider: str | None) -> None:
    """List the providers, and their models."""
    found = await asked.client.request("goalwright/model/list", {"provider": provider})
    if cli.wrote_json(found):
        return
    console = cli.console
    for one in mappings(found.get("providers")):
        listed = mappings(one.get("models"))
        console.line(shown_line(f"{string(one.get('name'))}  {_state(one)}".rstrip()))
        for model in listed if provider else listed[:_FEW]:
            line = shown_line(f"  {string(model.get('model'))}  {_facts(model)}")
            console.row(line)
        if more := 0 if provider else len(listed[_FEW:]):
            command = f"goalwright models {string(one.get('id'))}"
            console.line("  " + t("and {count} more: {command}", count=more, command=command))


def _state(provider: dict[str, Any]) -> str:
    """Return what is wrong with a provider, or what it needs; empty when it lists its models."""
    if error := string(provider.get("error")):
        return error
    if provider.get("connected") is True:
        return "" if provider.get("models") else t("connected; it lists no models: name one with --model")
    if how := string(provider.get("how")):
        return how
    names = [name for key in ("urlVariable", "keyVariable") if (name := string(provider.get(key)))]
    return t("set {variables}", variables=", ".join(names)) if names else t("not running")


def _facts(model: dict[str, Any]) -> str:
    """Return a model's name for people, window and prices."""
    window = window_words({"contextWindow": model.get("window"), "windowAssumed": model.get("windowAssumed")})
    facts = [string(model.get("label")), window]
    paid, received = model.get("inputPrice"), model.get("outputPrice")
    if isinstance(paid, int | float) and isinstance(received, int | float):
        facts.append(t("${input:g} in / ${output:g} out per 1M tokens", input=paid, output=received))
    return ", ".join(fact for fact in facts if fact)


@session_command(needed=False)
async def skills(cli: Invocation, asked: SessionConnection) -> None:
    """List skills and commands."""
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
