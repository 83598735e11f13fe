"""``goalwright trace copy`` and ``search``, and ``goalwright stats``: sessions in files and in databases."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config import WorkspaceConfig
from daemon.provider.variables import provider_env
from daemon.runtime import state_dir
from daemon.store.archive import export_trace
from daemon.store.searching import search as search_files
from daemon.store.trace_store import StoreError, with_children
from daemon.workspace_key import real_workspace
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.text import one_line, shown_line
from lsp_bridge.cli.trace.maintenance import asking
from lsp_bridge.cli.trace.stored_traces import all_of, chosen, store_of, trace_command
from tools.localization import n, noted, t
from tools.redaction.redactor import SECRETS
from tools.text.amounts import money

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from daemon.model.choices import StatsBy
    from daemon.model.maintenance import StatsGroup
    from daemon.store.sql.store import SqlTraceStore
    from lsp_bridge.cli.invocation import Invocation

FILES = "files"
"""Names the sessions of this folder where the address of a database is expected."""
_KINDS = {
    "title": noted("title"),
    "message": noted("message"),
    "goal": noted("goal"),
    "file": noted("changed file"),
}
"""Where a text was found."""


# -- copies --


@trace_command
async def copy(cli: Invocation, *, source: str, target: str, trace: str | None) -> int:
    """Copy sessions from one store to another. A folder keeps a session that it has; a database gets what is new."""
    SECRETS.register_env(provider_env(os.environ))
    if source == target:
        raise StoreError(
            t("Source and target are the same. One of them can be `files`, the sessions of this folder.")
        )
    copied, unchanged, problems = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="goalwright-") as folder, ExitStack() as stack:
        from_, to = (
            None if place == FILES else stack.enter_context(opened(place, existing=place == source))
            for place in (source, target)
        )
        archive = Path(folder) / "session.tar.gz"
        here = all_of(store_of(cli.workspace)) if to is None and trace is None else ()
        for trace_id in _ids(cli, from_, trace):
            try:
                is_new = trace_id not in here
                if is_new:
                    _export(cli, from_, trace_id, archive)
                    is_new = await _import(cli, to, archive)
                copied, unchanged = copied + is_new, unchanged + (not is_new)
            except StoreError as error:
                if trace is not None:
                    raise
                problems += 1
                cli.console.warn(shown_line(f"{trace_id}: {error}"))
    if not cli.wrote_json({"copied": copied, "unchanged": unchanged, "failed": problems}):
        cli.console.write(n("Copied {count:,} session.\n", "Copied {count:,} sessions.\n", copied))
        if unchanged:
            cli.console.write(t("Already there, without changes: {count:,}.\n", count=unchanged))
    return EXIT_FAILED if problems else EXIT_OK


def _ids(cli: Invocation, source: SqlTraceStore | None, wanted: str | None) -> list[str]:
    """Return the main sessions to copy. Raises UnknownTraceError for a wanted one that is not there."""
    if source is None:
        store = store_of(cli.workspace)
        return all_of(store) if wanted is None else [chosen(store, wanted).partition(":")[0]]
    if wanted is not None:
        return [wanted]
    return [trace.trace_id for trace in source.traces(limit=10**9)]


def _export(cli: Invocation, source: SqlTraceStore | None, trace_id: str, archive: Path) -> None:
    if source is None:
        export_trace(store_of(cli.workspace), trace_id, archive, replace=True)
    else:
        from daemon.store.sql.copying import write_session

        write_session(source, trace_id, archive)


async def _import(cli: Invocation, target: SqlTraceStore | None, archive: Path) -> bool:
    """Store a session, and return whether something of it is new."""
    if target is None:
        async with asking(cli) as ask:
            await ask("goalwright/trace/import", {"archive": str(archive)})
        return True
    from daemon.store.sql.copying import store_archive

    return store_archive(target, archive) > 0


@contextmanager
def ended_by_ctrl_c() -> Generator[None]:
    """Have the first Ctrl+C end what waits for a database; asyncio's own would cancel a task that does not run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def opened(place: str, *, existing: bool = True, filled: bool | None = None) -> Generator[SqlTraceStore]:
    """Open a database for a command that ends; ``existing``: only one that is there. Raises StoreError."""
    from daemon.store.sql.store import SqlTraceStore

    filled = existing if filled is None else filled
    with ended_by_ctrl_c(), closing(SqlTraceStore.open(place, existing=existing, filled=filled)) as store:
        yield store


# -- search --


@trace_command
async def search(cli: Invocation, *, text: str, store: str | None, user: str | None, limit: int) -> None:
    """Find sessions by a part of a text: title, messages, goals, names of changed files."""
    place = _database(cli, store)
    if place is None:
        if user is not None:
            raise StoreError(t("Only a database knows users. Leave out --user, or name one with --store."))
        found = search_files(store_of(cli.workspace), text, limit=limit)
    else:
        from daemon.store.sql.search import search

        with opened(place) as database:
            found = search(database, text, limit=limit, owner=user)
    for one in found:
        if cli.json:
            cli.write_json(one._asdict())
            continue
        style, folder = cli.console.style, one_line(Path(one.folder).name)
        who = f"{one_line(one.owner)} in {folder}" if one.owner else folder
        cli.console.line(f"{style.bold(shown_line(one.trace_id))}  {one_line(one.title)}  {style.dim(who)}")
        cli.console.line(f"  {t(_KINDS[one.kind])}: {one_line(one.excerpt)}")
    if not found and not cli.json:
        cli.console.warn(t("Nothing was found."))


# -- deleting --


@trace_command
async def delete(
    cli: Invocation,
    *,
    user: str | None,
    unused_days: float | None,
    trace: str | None,
    store: str | None,
    yes: bool,
) -> None:
    """Show which sessions of a database would be deleted; ``yes``: delete them."""
    from daemon.store.sql.deleting import chosen as chosen_sessions
    from daemon.store.sql.deleting import delete as delete_sessions

    if user is None and unused_days is None and trace is None:
        raise StoreError(t("Say which sessions: --user, --before or --trace."))
    since = None if unused_days is None else datetime.now(UTC) - timedelta(days=unused_days)
    place = _database(cli, store)
    if place is None:
        raise StoreError(
            t("Name a database with --store. `goalwright trace prune` deletes sessions of this folder.")
        )
    with opened(place) as database:
        found = chosen_sessions(database, user=user, unused_since=since, trace_id=trace)
        deleted = delete_sessions(database, found) if yes else 0
    if cli.json:
        for one in found:
            cli.write_json({**one._asdict(), "used": one.used and one.used.isoformat(), "deleted": yes})
        return
    for one in found:
        used = f"{one.used:%Y-%m-%d}" if one.used is not None else "–"
        line = f"{shown_line(one.trace_id)}  {used}  {one_line(one.owner)}  {one_line(one.title)}"
        cli.console.row(line)
    if yes:
        cli.console.write(n("Deleted {count:,} session.\n", "Deleted {count:,} sessions.\n", deleted))
    elif found:
        words = n(
            "This would delete {count:,} session for good. Add --yes to do it.",
            "This would delete {count:,} sessions for good. Add --yes to do it.",
            len(found),
        )
        cli.console.warn(words)
    else:
        cli.console.warn(t("Nothing was found."))


# -- statistics --

_BY: dict[StatsBy, str] = {
    "day": noted("day"),
    "model": noted("model"),
    "agent": noted("agent"),
    "folder": noted("folder"),
    "user": noted("user"),
}


@trace_command
async def stats(
    cli: Invocation, *, by: StatsBy, store: str | None, user: str | None, days: float | None
) -> None:
    """Show cost, tokens, time and success of the sessions in a database, or of this folder."""
    since = None if days is None else datetime.now(UTC) - timedelta(days=days)
    from daemon.store.sql.stats import sums

    with _chosen(cli, store) as database:
        found = sums(database, by, since=since, owner=user)
    if cli.json:
        for one in found:
            cli.write_json(one.stored())
    elif not found:
        cli.console.warn(t("There is nothing to count."))
    else:
        for line in _lines(found, by):
            cli.console.row(line)


@contextmanager
def _chosen(cli: Invocation, address: str | None) -> Generator[SqlTraceStore]:
    """Open the database that was named, that of the settings, or a passing one of this folder's sessions.

    Raises StoreError.
    """
    from daemon.store.sql.replica import copy_session

    place = _database(cli, address)
    with tempfile.TemporaryDirectory(prefix="goalwright-") as folder, ExitStack() as stack:
        if place is not None:
            database = stack.enter_context(opened(place))
        else:
            database = stack.enter_context(opened(f"sqlite:///{folder}/traces.db", existing=False))
            store = store_of(cli.workspace)
            for trace_id in with_children(store, all_of(store)):
                copy_session(store, database, trace_id)
        yield database


def _database(cli: Invocation, given: str | None) -> str | None:
    """Return the database that was named, else that of the settings; None for the sessions of this folder."""
    place = given or database_of_settings(cli)
    return None if place == FILES else place


def database_of_settings(cli: Invocation) -> str | None:
    """Return the database of the settings, if there is one."""
    config = WorkspaceConfig(real_workspace(cli.workspace), state_dir(cli.launcher.home), {}).read()
    for problem in (*config.blocking, *config.problems):
        cli.console.problem(problem)
    return config.settings.traces.store_url


def _lines(found: Sequence[StatsGroup], by: StatsBy) -> list[str]:
    heads = [
        t("sessions"),
        t("finished"),
        t("calls"),
        t("input"),
        t("cached"),
        t("output"),
        t("time"),
        t("cost"),
    ]
    rows = [[t(_BY[by]), *heads], *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _cells(one: StatsGroup) -> list[str]:
    asked = one.input + one.cache_read + one.cache_write
    minutes, seconds = divmod(one.model_ms // 1000, 60)
    return [
        one_line(one.key) or t("unknown"),
        f"{one.sessions:,}",
        f"{one.finished * 100 // one.sessions} %" if one.sessions else "–",
        f"{one.calls:,}",
        f"{asked:,}",
        f"{one.cache_read * 100 // asked} %" if asked else "–",
        f"{one.output:,}",
        f"{minutes}:{seconds:02}",
        money(one.cost, one.unpriced),
    ]
