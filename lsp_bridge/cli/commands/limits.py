"""``goalwright compact``, ``budget``, ``handover``: the context of a session, its cost limits, and its successor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.argument_types import NO_LIMIT
from lsp_bridge.cli.commands.session_command import SessionConnection, session_command
from lsp_bridge.cli.run.newest_session import trace_id
from lsp_bridge.cli.text import clean, share, shown_line, tokens, total_of
from tools.json_access import integer, mapping, number, string
from tools.localization import noted, t
from tools.text.amounts import cost_words

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_COMPACT_S = 600.0
"""A model writes the summary of a long session, maybe twice."""
LIMITS = {
    "sessionUsd": noted("for the session"),
    "sessionTokens": noted("for the session"),
    "goalUsd": noted("for each goal"),
    "goalTokens": noted("for each goal"),
}
"""Fields of ``Budget`` on the wire, in the order of the arguments of ``budget``."""


@session_command()
async def compact(cli: Invocation, asked: SessionConnection, *, keep: str = "") -> None:
    """Compact the context now. ``keep``: what to keep, in the user's words."""
    done = await asked.request("goalwright/session/compact", timeout_s=_COMPACT_S, instructions=keep)
    if cli.wrote_json(done):
        return
    # Only the daemon knows its result, because a compaction that freed nothing may be stored as well.
    before, after = integer(done.get("before")), integer(done.get("after"))
    freed = t(" ({before} less)", before=share(before - after, before)) if after < before else ""
    told = t("Context: about {before:,} → {after}{freed}.", before=before, after=tokens(after), freed=freed)
    cli.console.write(f"{clean(string(done.get('detail'))) or told}\n")


@session_command()
async def hand_over(cli: Invocation, asked: SessionConnection, *, agent: str) -> None:
    """Begin the session of the other agent, and print its id."""
    begun = await asked.request("goalwright/session/handover", agent=agent)
    if cli.wrote_json(begun):
        return
    new, old = shown_line(trace_id(begun)), shown_line(asked.session)
    cli.console.write(
        t("Session {new} starts from the context of session {session}.\n", new=new, session=old)
    )
    cli.console.write(t('Continue with: goalwright run --session {new} "…"\n', new=new))


@session_command()
async def budget(
    cli: Invocation,
    asked: SessionConnection,
    *,
    usd: float | str | None,
    tokens: int | str | None,
    goal_usd: float | str | None,
    goal_tokens: int | str | None,
    none: bool,
) -> None:
    """Set the limits that are given, and show those in force."""
    meter = mapping((await asked.load()).get("meter"))
    limits = {name: mapping(meter.get("budget")).get(name) for name in LIMITS}
    given = dict(zip(LIMITS, (usd, tokens, goal_usd, goal_tokens), strict=True))
    changes = dict.fromkeys(LIMITS) if none else {}
    changes |= {
        name: None if value == NO_LIMIT else value for name, value in given.items() if value is not None
    }
    if changes:
        limits |= changes
        await asked.request("goalwright/session/set", budget=limits)
    shown = {"sessionId": asked.session, "budget": limits, "usage": meter.get("usage")}
    if not cli.wrote_json({**shown, "cost": meter.get("cost")}):
        _show(cli.console, shown_line(asked.session), limits, meter)


def _show(console: Console, session: str, limits: dict[str, Any], meter: dict[str, Any]) -> None:
    usage = mapping(meter.get("usage"))
    cost = cost_words(number(meter.get("cost")), integer(usage.get("unpriced")))
    used = tokens(total_of(usage))
    console.write(t("session {session}: {used} used, {cost}\n", session=session, used=used, cost=cost))
    known = {name: value for name, value in limits.items() if value is not None}
    for name, value in known.items():
        amount = cost_words(number(value)) if name.endswith("Usd") else tokens(integer(value))
        console.write(t("limit {scope}: {amount}\n", scope=t(LIMITS[name]), amount=amount))
    if not known:
        console.write(t("No limits are set.\n"))
