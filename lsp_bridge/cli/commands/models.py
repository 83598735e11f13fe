"""``goalwright models``: the providers that can be used, their models, and how to set up the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.session_command import SessionConnection, session_command
from lsp_bridge.cli.text import shown_line, window_words
from tools.json_access import mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation

_FEW = 10
"""Models of one provider in the list of all."""


@session_command(needed=False)
async def models(cli: Invocation, asked: SessionConnection, *, provider: str | None) -> None:
    """List them."""
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
