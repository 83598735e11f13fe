"""``goalwright trace copy`` and ``search``, and ``goalwright stats``: sessions in files and in databases."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config import load_config
from daemon.provider.variables import provider_env
from daemon.runtime import state_dir
from daemon.store.archive import export_trace
from daemon.store.searching import search as search_files
from daemon.store.trace_store import StoreError, with_children
from daemon.trust import TrustedFolders
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.text import fit, one_line, shown_line
from lsp_bridge.cli.trace.maintenance import asking, maintenance_command
from lsp_bridge.cli.trace.stored_traces import all_of, chosen, store_of
from tools.localization import n, t
from tools.redaction.redactor import SECRETS
from tools.text.amounts import money

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from daemon.model.choices import StatsBy
    from daemon.store.files import FileTraceStore
    from daemon.store.sql.stats import Sums
    from daemon.store.sql.store import SqlTraceStore
    from lsp_bridge.cli.invocation import Invocation

FILES = "files"
"""Names the sessions of this folder where the address of a database is expected."""


# -- copies --


@maintenance_command
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
            None if place == FILES else stack.enter_context(_opened(place, existing=place == source))
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
    if cli.json:
        cli.write_json({"copied": copied, "unchanged": unchanged, "failed": problems})
    else:
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

    return store_archive(target, archive).events > 0


@contextmanager
def ended_by_ctrl_c() -> Generator[None]:
    """Have the first Ctrl+C end what waits for a database; asyncio's own would cancel a task that does not run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _opened(place: str, *, existing: bool) -> Generator[SqlTraceStore]:
    """Open a database; ``existing``: only one that is there. Raises StoreError."""
    from daemon.store.sql.store import SqlTraceStore

    with ended_by_ctrl_c(), closing(SqlTraceStore.open(place, existing=existing, filled=existing)) as store:
        yield store


# -- search --


@maintenance_command
async def search(cli: Invocation, *, text: str, store: str | None, user: str | None, limit: int) -> int:
    """Find sessions by a part of a text: title, messages, goals, names of changed files."""
    place = store or database_of_settings(cli)
    if place is None or place == FILES:
        if user is not None:
            raise StoreError(t("Only a database knows users. Leave out --user, or name one with --store."))
        found = search_files(store_of(cli.workspace), text, limit=limit)
    else:
        from daemon.store.sql.search import search

        with _opened(place, existing=True) as database:
            found = search(database, text, limit=limit, owner=user)
    for one in found:
        if cli.json:
            cli.write_json(one._asdict())
            continue
        style, folder = cli.console.style, one_line(Path(one.folder).name)
        who = f"{one_line(one.owner)} in {folder}" if one.owner else folder
        cli.console.write(
            f"{style.bold(shown_line(one.trace_id))}  {one_line(one.title)}  {style.dim(who)}\n"
        )
        cli.console.write(f"  {_kind(one.kind)}: {one_line(one.excerpt)}\n")
    if not found and not cli.json:
        cli.console.warn(t("Nothing was found."))
    return EXIT_OK


def _kind(kind: str) -> str:
    words = {"title": t("title"), "message": t("message"), "goal": t("goal"), "file": t("changed file")}
    return words[kind]


# -- deleting --


@maintenance_command
async def delete(
    cli: Invocation,
    *,
    user: str | None,
    unused_days: float | None,
    trace: str | None,
    store: str | None,
    yes: bool,
) -> int:
    """Show which sessions of a database would be deleted; ``yes``: delete them."""
    from daemon.store.sql.deleting import chosen as chosen_sessions
    from daemon.store.sql.deleting import delete as delete_sessions

    if user is None and unused_days is None and trace is None:
        raise StoreError(t("Say which sessions: --user, --before or --trace."))
    since = None if unused_days is None else datetime.now(UTC) - timedelta(days=unused_days)
    place = store or database_of_settings(cli)
    if place is None or place == FILES:
        raise StoreError(
            t("Name a database with --store. `goalwright trace prune` deletes sessions of this folder.")
        )
    with _opened(place, existing=True) as database:
        found = chosen_sessions(database, user=user, unused_since=since, trace_id=trace)
        deleted = delete_sessions(database, found) if yes else 0
    if cli.json:
        for one in found:
            cli.write_json({**one._asdict(), "used": one.used and one.used.isoformat(), "deleted": yes})
        return EXIT_OK
    for one in found:
        used = f"{one.used:%Y-%m-%d}" if one.used is not None else "–"
        line = f"{shown_line(one.trace_id)}  {used}  {one_line(one.owner)}  {one_line(one.title)}"
        cli.console.write((fit(line, cli.console.columns) if cli.console.live else line) + "\n")
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
    return EXIT_OK


# -- statistics --


@maintenance_command
async def stats(
    cli: Invocation, *, by: StatsBy, store: str | None, user: str | None, days: float | None
) -> int:
    """Show cost, tokens, time and success of the sessions in a database, or of this folder."""
    since = None if days is None else datetime.now(UTC) - timedelta(days=days)
    from daemon.store.sql.stats import sums

    with _chosen(cli, store) as database:
        found = sums(database, by, since=since, owner=user)
    if cli.json:
        for one in found:
            cli.write_json(one._asdict())
        return EXIT_OK
    if not found:
        cli.console.warn(t("There is nothing to count."))
        return EXIT_OK
    for line in _lines(found, by):
        cli.console.write((fit(line, cli.console.columns) if cli.console.live else line) + "\n")
    return EXIT_OK


@contextmanager
def _chosen(cli: Invocation, address: str | None) -> Generator[SqlTraceStore]:
    """Open the database that was named, that of the settings, or a passing one of this folder's sessions.

    Raises StoreError.
    """
    place = address or database_of_settings(cli)
    with tempfile.TemporaryDirectory(prefix="goalwright-") as folder, ExitStack() as stack:
        if place is not None and place != FILES:
            database = stack.enter_context(_opened(place, existing=True))
        else:
            database = stack.enter_context(_opened(f"sqlite:///{folder}/traces.db", existing=False))
            _fill(database, store_of(cli.workspace))
        yield database


def database_of_settings(cli: Invocation) -> str | None:
    """Return the database of the settings, if there is one."""
    state = state_dir(cli.launcher.home)
    trusted = TrustedFolders(state).trust(cli.workspace.resolve()) == "trusted"
    config = load_config(cli.workspace, state / "config.json", trusted=trusted)
    for problem in (*config.blocking, *config.problems):
        cli.console.problem(problem)
    return config.settings.traces.store_url


def _fill(database: SqlTraceStore, store: FileTraceStore) -> None:
    from daemon.store.sql.replica import copy_session

    for trace_id in with_children(store, all_of(store)):
        copy_session(store, database, trace_id)


def _lines(found: Sequence[Sums], by: StatsBy) -> list[str]:
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
    rows = [[_by(by), *heads], *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _cells(one: Sums) -> list[str]:
    asked = one.input + one.cache_read + one.cache_write
    cached = f"{one.cache_read * 100 // asked} %" if asked else "–"
    minutes, seconds = divmod(one.model_ms // 1000, 60)
    cost = money(one.cost, one.unpriced)
    return [
        one_line(one.key) or t("unknown"),
        f"{one.sessions:,}",
        f"{one.finished * 100 // one.sessions} %" if one.sessions else "–",
        f"{one.calls:,}",
        f"{asked:,}",
        cached,
        f"{one.output:,}",
        f"{minutes}:{seconds:02}",
        cost,
    ]


def _by(by: StatsBy) -> str:
    words: dict[StatsBy, str] = {
        "day": t("day"), "model": t("model"), "agent": t("agent"), "folder": t("folder"), "user": t("user"),
    }  # fmt: skip
    return words[by]
