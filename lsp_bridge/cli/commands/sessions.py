"""``goalwright sessions``, and what is done with one: ``cancel``, ``compact``, ``handover``, ``budget``, ``jobs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_bridge.cli.argument_types import NO_LIMIT
from lsp_bridge.cli.commands.session_command import (
    REQUEST_S,
    CommandFailedError,
    SessionConnection,
    connected,
    session_command,
)
from lsp_bridge.cli.invocation import reporting
from lsp_bridge.cli.run.newest_session import trace_id
from lsp_bridge.cli.text import clean, one_line, share, shown_line, state, table, tokens, total_of
from tools.json_access import integer, mapping, mappings, number, string
from tools.localization import noted, t
from tools.text.amounts import cost_words

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_LIST_S = 10.0
_COMPACT_S = 600.0
"""A model writes the summary of a long session, maybe twice."""
LIMITS = {
    "sessionUsd": noted("for the session"),
    "sessionTokens": noted("for the session"),
    "goalUsd": noted("for each goal"),
    "goalTokens": noted("for each goal"),
}
"""Fields of ``Budget`` on the wire, in the order of the arguments of ``budget``."""


@reporting()
async def sessions(cli: Invocation) -> None:
    """``goalwright sessions``: newest first, to continue with ``run --session ID``."""
    console = cli.console
    async with connected(cli, timeout_s=_LIST_S) as client:
        found = await client.request("goalwright/session/list", {}, _LIST_S)
    if cli.wrote_json(found):
        return
    for left in mappings(found.get("unreadable")):
        name, why = one_line(string(left.get("sessionId"))), one_line(string(left.get("why")))
        console.warn(t("cannot be listed: {name}: {why}", name=name, why=why))
    rows = [_session_row(info) for info in mappings(found.get("sessions"))]
    if not rows:
        console.write(t("No sessions in {workspace} yet.\n", workspace=cli.workspace))
    for line in table(rows):
        console.row(line)
    if found.get("more") is True:
        console.write(t("… and older sessions\n"))


def _session_row(info: dict[str, Any]) -> tuple[str, str, str, str]:
    trace = mapping(info.get("trace"))
    when = string(trace.get("updatedAt"))[:16].replace("T", " ")
    title = one_line(string(trace.get("title")) or string(trace.get("summary"))) or t("(no title)")
    if info.get("foreign") is True:
        title += t(" (came with the folder)")
    return one_line(string(trace.get("traceId"))), when, state(one_line(string(info.get("status")))), title


@session_command()
async def cancel(cli: Invocation, asked: SessionConnection) -> None:
    """``goalwright cancel``: end the running turn, whichever client began it."""
    found = await asked.request("goalwright/session/cancel")
    if found.get("canceled") is not True:
        # It may not exist, which is an error, or be a turn that waits since a daemon ended.
        await asked.load()
        found = await asked.request("goalwright/session/cancel")
    if not cli.wrote_json({"sessionId": asked.session, **found}):
        canceled = found.get("canceled") is True
        cli.console.line(t("Canceled.") if canceled else t("Nothing is running in the session."))


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


@session_command(needed=False)
async def jobs(cli: Invocation, asked: SessionConnection, *, kill: str | None) -> None:
    """List the commands in the background, or stop the one with the id ``kill``."""
    # List the jobs of all sessions, unless one is named: the list must not depend on the last used session.
    about = {"sessionId": cli.session} if cli.session else {}
    found = await asked.client.request("goalwright/job/list", about, REQUEST_S)
    entries = mappings(found.get("jobs"))
    if kill is not None:
        params = {"sessionId": _session_of(kill, entries), "jobId": kill}
        found = await asked.client.request("goalwright/job/kill", params, REQUEST_S)
        entries = [mapping(found.get("job"))]
    if cli.wrote_json(found):
        return
    for job in entries:
        cli.console.line(_job_line(job))
    if not entries:
        cli.console.write(t("No background jobs are running.\n"))


def _session_of(job_id: str, jobs: list[dict[str, Any]]) -> str:
    """Return the session that a job belongs to; running ones first. Raises CommandFailedError."""
    named = [job for job in jobs if job.get("jobId") == job_id]
    running = [job for job in named if job.get("exitCode") is None]
    found, name = [string(job.get("sessionId")) for job in running or named], shown_line(job_id)
    if not found:
        raise CommandFailedError(t("There is no job {job_id}. `goalwright jobs` lists them.", job_id=name))
    if len(found) > 1:
        sessions = ", ".join(found)
        raise CommandFailedError(
            t(
                "Several sessions have a job {job_id}. Name one with --session ({found}).",
                job_id=name,
                found=sessions,
            )
        )
    return found[0]


def _job_line(job: dict[str, Any]) -> str:
    code = job.get("exitCode")
    now = t("running") if code is None else t("ended, exit code {code}", code=code)
    output = string(job.get("outputFile"))
    return shown_line(
        t(
            "{job_id}  {state}  {command}  (session {session_id}){part}",
            job_id=string(job.get("jobId")),
            state=now,
            command=string(job.get("command")),
            session_id=string(job.get("sessionId")),
            part=f"  → {output}" if output else "",
        )
    )
