"""``goalwright team``: the shared server over a database of sessions, and the tokens of its users."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from daemon.api.address import ApiError
from daemon.store.trace_store import StoreError
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK, reporting
from lsp_bridge.cli.text import one_line
from lsp_bridge.cli.trace.databases import database_of_settings, opened
from lsp_bridge.cli.trace.stored_traces import trace_command
from tools.localization import n, t

if TYPE_CHECKING:
    from daemon.store.sql.tokens import Scope, TokenGrant
    from lsp_bridge.cli.invocation import Invocation

_LONGEST_S = 20
"""Seconds after which the database ends a statement of the server."""
_SILENT_S = 30
"""Seconds without an answer after which a connection to the database is lost."""
_FINISH_S = 2.0
"""Seconds for requests under way when the server ends."""
_BUSY = 8
"""Requests that read the database at the same time; a pool of the database has as many connections."""


@reporting(StoreError, ApiError)
async def serve(
    cli: Invocation,
    *,
    http: tuple[str, int],
    store: str | None,
    public_url: str | None,
    plain_http: bool,
    keep_days: float | None,
) -> None:
    """Serve the sessions of a database until stopped."""
    from concurrent.futures import ThreadPoolExecutor

    from daemon.api.team_server import serve_team
    from daemon.gc_tuning import COLLECTOR
    from daemon.logfile import configure_logging
    from daemon.runtime import keep_memory_private
    from daemon.store.sql.store import SqlTraceStore

    configure_logging(None)
    keep_memory_private()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_BUSY, "read"))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, stopping.set)
    place = _place(cli, store)
    server_store = SqlTraceStore.open(place, existing=True, longest_s=_LONGEST_S, silent_s=_SILENT_S)
    with contextlib.closing(server_store) as database:
        server = await serve_team(
            database, *http, public_url=public_url, plain=plain_http, keep_days=keep_days
        )
        COLLECTOR.install()
        tending = asyncio.create_task(COLLECTOR.tend())
        url = server.access.url
        if not cli.wrote_json({"url": url}):
            cli.console.write(t("The sessions are at {url}. Ctrl+C stops the server.\n", url=url))
        await stopping.wait()
        tending.cancel()
        closing = asyncio.create_task(server.close())
        await asyncio.wait((closing,), timeout=_FINISH_S)
        database.cut()  # requests and threads may still wait for it
        await closing


@trace_command
async def add(
    cli: Invocation, *, name: str, scope: Scope, may_delete: bool, days: float | None, store: str | None
) -> None:
    """Make a token for a user, and show it."""
    from daemon.store.sql.tokens import DELETE, issue

    scopes = [scope, DELETE] if may_delete else [scope]
    now = datetime.now(UTC)
    expires_at = None if days is None else now + timedelta(days=days)
    with opened(_place(cli, store), filled=False) as database:
        token = issue(database, name, scopes, now, expires_at)
    expiry = expires_at and expires_at.isoformat()
    if cli.wrote_json({"user": name, "scopes": scopes, "token": token, "expiresAt": expiry}):
        return
    user = one_line(name)
    cli.console.warn(
        t("The token of {name}. It is shown only now, and lets whoever has it read sessions:", name=user)
    )
    cli.console.line(token)


@trace_command
async def listed(cli: Invocation, *, store: str | None) -> None:
    """List the tokens, without their secrets."""
    from daemon.store.sql.tokens import grants

    with opened(_place(cli, store), filled=False) as database:
        found = grants(database)
    for one in found:
        if cli.json:
            values = {**one._asdict(), "scopes": sorted(one.scopes), "created_at": one.created_at.isoformat()}
            cli.write_json({**values, "expires_at": one.expires_at and one.expires_at.isoformat()})
        else:
            cli.console.line(_line(one, datetime.now(UTC)))
    if not found and not cli.json:
        cli.console.warn(t("There are no tokens. `goalwright team add NAME` makes one."))


@trace_command
async def remove(cli: Invocation, *, name: str, token: str | None, store: str | None) -> int:
    """Remove the tokens of a user, or one of them."""
    from daemon.store.sql.tokens import revoke

    with opened(_place(cli, store), filled=False) as database:
        removed = revoke(database, name, token)
    if cli.wrote_json({"removed": removed}):
        pass
    elif removed:
        cli.console.write(n("Removed {count:,} token.\n", "Removed {count:,} tokens.\n", removed))
    else:
        cli.console.warn(t("{name} has no such token. See `goalwright team list`.", name=one_line(name)))
    return EXIT_OK if removed else EXIT_FAILED


def _line(one: TokenGrant, now: datetime) -> str:
    ends = t("does not expire")
    if one.expires_at is not None:
        day = f"{one.expires_at:%Y-%m-%d}"
        ends = t("expired on {day}", day=day) if one.is_over(now) else t("until {day}", day=day)
    scopes = ", ".join(sorted(one.scopes))
    return f"{one.token_id}  {one_line(one.user)}  {scopes}  {one.created_at:%Y-%m-%d}  {ends}"


def _place(cli: Invocation, address: str | None) -> str:
    """Return the address that was given, or that of the settings. Raises StoreError."""
    place = address or database_of_settings(cli)
    if place is None:
        raise StoreError(t("Name a database with --store, or in the setting store_url."))
    return place
