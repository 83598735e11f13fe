"""``goalwright compact``, ``budget``, ``handover``: what a session holds, what it may cost, who goes on with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.commands.session_command import SessionConnection, about_session
from lsp_bridge.cli.text import clean, money, share, shown_line, tokens
from tools.json_access import integer, mapping, number, string
from tools.localization import noted, t

if TYPE_CHECKING:
    from pathlib import Path

    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.launch import Launcher

_COMPACT_S = 600.0
"""A model writes the summary of a long session, maybe twice."""
LIMITS = {
    "sessionUsd": noted("for the session"),
    "sessionTokens": noted("for the session"),
    "goalUsd": noted("for each goal"),
    "goalTokens": noted("for each goal"),
}
"""Fields of ``Budget`` on the wire."""


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """``session`` None: the newest of this person."""

    workspace: Path
    session: str | None = None
    keep: str = ""
    """What to keep, in the person's words."""
    json: bool = False


@dataclass(frozen=True, slots=True)
class HandOverOptions:
    """``agent``: ``init`` or ``execute``. ``session`` None: the newest of this user."""

    workspace: Path
    agent: str
    session: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """``changes``: new limits by field of ``LIMITS``, None for no limit; without any, the limits are shown."""

    workspace: Path
    session: str | None = None
    changes: tuple[tuple[str, float | None], ...] = ()
    json: bool = False


async def compact(options: CompactOptions, launcher: Launcher, console: Console) -> int:
    """Compact the context now, and return the exit code."""

    async def work(asked: SessionConnection) -> None:
        done = await asked.request(
            "goalwright/session/compact", timeout_s=_COMPACT_S, instructions=options.keep
        )
        if options.json:
            console.write(json.dumps(done) + "\n")
            return
        # The daemon knows what it did: a compaction may also be stored that freed nothing.
        before, after = integer(done.get("before")), integer(done.get("after"))
        freed = t(" ({before} less)", before=share(before - after, before)) if after < before else ""
        told = t(
            "The context has about {before:,} → {after}{freed}.",
            before=before,
            after=tokens(after),
            freed=freed,
        )
        console.write(f"{clean(string(done.get('detail'))) or told}\n")

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


async def hand_over(options: HandOverOptions, launcher: Launcher, console: Console) -> int:
    """Begin the session of the other agent, print its id, and return the exit code."""

    async def work(asked: SessionConnection) -> None:
        begun = await asked.request("goalwright/session/handover", agent=options.agent)
        if options.json:
            console.write(json.dumps(begun) + "\n")
            return
        new = shown_line(string(mapping(mapping(begun.get("session")).get("trace")).get("traceId")))
        console.write(
            t(
                "Session {new} begins with what session {session} knows.\n",
                new=new,
                session=shown_line(asked.session),
            )
        )
        console.write(t('Go on: goalwright run --session {new} "…"\n', new=new))

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


async def budget(options: BudgetOptions, launcher: Launcher, console: Console) -> int:
    """Set limits, show those in force, and return the exit code."""

    async def work(asked: SessionConnection) -> None:
        meter = mapping((await asked.load()).get("meter"))
        limits = {name: mapping(meter.get("budget")).get(name) for name in LIMITS}
        if options.changes:
            limits |= dict(options.changes)
            await asked.request("goalwright/session/set", budget=limits)
        if options.json:
            shown = {"sessionId": asked.session, "budget": limits, "usage": meter.get("usage")}
            console.write(json.dumps({**shown, "cost": meter.get("cost")}) + "\n")
        else:
            _show(console, asked.session, limits, meter)

    return await about_session(
        options.workspace, options.session, launcher, console, work, as_json=options.json
    )


def _show(console: Console, session: str, limits: dict[str, Any], meter: dict[str, Any]) -> None:
    usage = mapping(meter.get("usage"))
    used = sum(integer(usage.get(kind)) for kind in ("input", "output", "cacheRead", "cacheWrite"))
    cost = money(number(meter.get("cost"))) if meter.get("costKnown") is not False else t("of unknown price")
    console.write(
        t(
            "session {session}: {used} used, {cost}\n",
            session=shown_line(session),
            used=tokens(used),
            cost=cost,
        )
    )
    known = {name: value for name, value in limits.items() if value is not None}
    for name, value in known.items():
        amount = money(number(value)) if name.endswith("Usd") else tokens(integer(value))
        console.write(t("limit {scope}: {amount}\n", scope=t(LIMITS[name]), amount=amount))
    if not known:
        console.write(t("There is no limit.\n"))
