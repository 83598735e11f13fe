"""``goalwright trace rebuild``, ``export``, ``import`` and ``prune``.

Exporting only reads, so it needs no daemon. The others change stored data: a running daemon does them, as it knows
which traces are open; without one they are done here, holding its lock, so that none starts meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.provider.variables import provider_env
from daemon.runtime import state_dir
from daemon.store.trace_store import StoreError
from lsp_bridge.cli.client import RpcError
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK
from lsp_bridge.cli.launch import LaunchError, runtime_paths
from lsp_bridge.cli.text import one_line, shown_line
from lsp_bridge.cli.trace.stored_traces import all_of, chosen, store_of, trace_command
from lsp_bridge.protocol.handshake import RequestError
from tools.json_access import integer, mappings, string, strings
from tools.localization import n, t

if TYPE_CHECKING:
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

Ask = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""A request by method and parameters, as on the wire."""

_REQUEST_S = 3600.0
"""A trace may be large, and only the user waits for it."""
_MB = 1_000_000
_MOST_NAMES = 10


@contextlib.asynccontextmanager
async def asking(cli: Invocation) -> AsyncGenerator[Ask]:
    """The daemon when one runs, else ourselves. Raises LaunchError, AlreadyRunningError, RuntimeFolderError."""
    try:
        client, _ = await cli.launcher.connect_running(cli.workspace, cli.greeting())
    except LaunchError as error:
        if error.code != "notRunning":
            raise
    else:

        async def request(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            return await client.request(method, params, _REQUEST_S)

        try:
            yield request
        finally:
            await client.close()
        return
    paths = runtime_paths(cli.workspace, cli.launcher.home)
    with paths.hold_lock():
        yield _in_its_place(paths.workspace, state_dir(cli.launcher.home))


def _in_its_place(workspace: Path, state_folder: Path) -> Ask:
    import logging
    from datetime import UTC, datetime

    from daemon.config import WorkspaceConfig
    from daemon.store.location import open_store
    from daemon.store.provenance import OwnSessions
    from daemon.trace_maintenance import TraceMaintenance, limits_of
    from lsp_bridge.server.requests.declaration import REQUESTS
    from lsp_bridge.server.requests.trace_maintenance import TraceMaintenanceRequests
    from tools.redaction.redactor import SECRETS

    logging.getLogger("daemon").addHandler(logging.NullHandler())  # the important messages are in the answers
    SECRETS.register_env(provider_env(os.environ))
    config = WorkspaceConfig(workspace, state_folder, {}).read()
    store, _ = open_store(workspace, state_folder)
    own = OwnSessions(state_folder, workspace)
    trace_maintenance = TraceMaintenance(
        store, own, lambda: datetime.now(UTC), limits=lambda: limits_of(config)
    )
    requests = TraceMaintenanceRequests(lambda: trace_maintenance)

    async def do(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        declared = REQUESTS[method]
        return (await declared.handler(requests, declared.models[0].model_validate(params))).wire()

    return do


@trace_command
async def export(cli: Invocation, *, trace: str | None, output: Path | None, force: bool) -> None:
    """Write a trace to an archive. It only reads, so it needs no daemon."""
    from daemon.store.archive import export_trace
    from tools.redaction.redactor import SECRETS

    SECRETS.register_env(provider_env(os.environ))
    console, store = cli.console, store_of(cli.workspace)
    trace_id = chosen(store, trace or "latest")
    target = (output or Path(f"goalwright-{trace_id}.tar.gz")).absolute()
    done = export_trace(store, trace_id, target, replace=force)
    found = {
        "traceId": done.trace_id,
        "path": str(done.path),
        "files": done.files,
        "size": done.size,
        "redacted": done.redacted,
        "leftOut": list(done.left_out),
    }
    if cli.wrote_json(found):
        return
    path, size = shown_line(str(done.path)), _size(done.size)
    console.write(t("Exported {trace_id} to {path}: ", trace_id=done.trace_id, path=path))
    console.write(
        t(
            "{files:,} files, {size}. Check the contents before you share the archive.\n",
            files=done.files,
            size=size,
        )
    )
    if done.redacted:
        console.write(t("Secrets were removed from {redacted} file versions.\n", redacted=done.redacted))
    _names(console, t("Left out, because they are links or not files"), done.left_out)


@trace_command
async def rebuild(cli: Invocation, *, trace: str | None, every: bool) -> int:
    """Rebuild the data derived from the log, of one trace or of ``every`` one."""
    async with asking(cli) as ask:
        store = store_of(cli.workspace)
        ids = all_of(store) if every else [chosen(store, trace or "latest")]
        failed = False
        for trace_id in ids:
            done: dict[str, Any]
            try:
                done = await ask("goalwright/trace/rebuild", {"traceId": trace_id.partition(":")[0]})
            except (StoreError, RequestError, RpcError) as error:
                if not every:
                    raise
                failed = True
                done = {"traceId": trace_id, "sessions": [], "failed": True, "problem": str(error)}
            failed |= done.get("failed") is True
            if not cli.wrote_json(done):
                _rebuilt(cli.console, done)
    if not ids and not cli.json:
        cli.console.write(t("There are no traces in {root}.\n", root=store.root))
    return EXIT_FAILED if failed else EXIT_OK


def _rebuilt(console: Console, done: dict[str, Any]) -> None:
    style, sessions = console.style, mappings(done.get("sessions"))
    trace_id = shown_line(string(done.get("traceId")))
    if problem := string(done.get("problem")):
        console.line(f"{style.bold(trace_id)}  {style.red(shown_line(problem))}")
        return
    told = [session for session in sessions if session.get("repaired") or session.get("problems")]
    verdict = "" if told else t("  everything matches the event log")
    console.write(f"{style.bold(trace_id)}  {_counts(sessions)}{verdict}\n")
    for session in told:
        name = string(session.get("sessionId")).partition(":")[2]
        before = f"{shown_line(name)}: " if name else ""
        for repair in strings(session.get("repaired")):
            console.write(f"  {style.green(t('repaired'))}  {before}{shown_line(repair)}\n")
        mark = style.red(t("failed")) if session.get("failed") is True else style.yellow(t("problem"))
        for problem in strings(session.get("problems")):
            console.write(f"  {mark}  {before}{shown_line(problem)}\n")


@trace_command
async def take_in(cli: Invocation, *, archive: Path, max_mb: float | None) -> None:
    """Import an archive."""
    console, path = cli.console, Path(os.path.expanduser(archive)).absolute()  # noqa: PTH111 - ~x may be a file
    async with asking(cli) as ask:
        done = await ask("goalwright/trace/import", {"archive": str(path), "maxMb": max_mb})
    if cli.wrote_json(done):
        return
    title = one_line(string(done.get("title")))
    imported = t("Imported {trace_id}", trace_id=shown_line(string(done.get("traceId"))))
    console.line(f"{imported}: {title}" if title else imported)
    console.write(
        t(
            "{sessions}. It is treated as untrusted: you can read it, but nothing in it is run or allowed "
            "in your name.\n",
            sessions=_counts(mappings(done.get("sessions"))),
        )
    )
    for dropped in strings(done.get("dropped")):
        console.write(t("Not imported: {dropped}\n", dropped=shown_line(dropped)))
    _names(console, t("Left out, because they are not part of a trace"), strings(done.get("leftOut")))


@trace_command
async def prune(
    cli: Invocation, *, keep_days: float | None, max_mb: float | None, keep: int | None, dry_run: bool
) -> int:
    """Delete old traces. A limit that is None is taken from the settings."""
    console = cli.console
    params = {"keepDays": keep_days, "maxMb": max_mb, "keep": keep, "dryRun": dry_run}
    async with asking(cli) as ask:
        done = await ask("goalwright/trace/prune", params)
    limited = done.get("limited") is True
    is_unread = not limited and bool(strings(done.get("problems")))
    if cli.wrote_json(done):
        return EXIT_FAILED if is_unread else EXIT_OK
    if is_unread:
        console.warn(t("Nothing is deleted, because the settings with the limits cannot be read:"))
        console.problems(done)
        return EXIT_FAILED
    if not limited:
        console.write(
            t(
                "Nothing is deleted: no limit is set. Set trace_keep_days, trace_max_mb or trace_keep, or "
                "use --keep-days, --max-mb or --keep.\n"
            )
        )
        return EXIT_OK
    deleted = mappings(done.get("deleted"))
    for one in deleted:
        when = string(one.get("used"))[:16].replace("T", " ")
        start = f"{one_line(string(one.get('traceId')))}  {when}  {_size(integer(one.get('size'))):>9}"
        title, why = (
            one_line(string(one.get("title"))) or t("(no title)"),
            one_line(string(one.get("reason"))),
        )
        console.row(f"{start}  {title}  ({why})")
    did, count = t("Would delete") if dry_run else t("Deleted"), len(deleted)
    freed = f", {_size(integer(done.get('freed')))}" if deleted else ""
    kept = integer(done.get("kept"))
    console.write(t("{did} {count}{freed}; {kept:,} remain.\n", did=did, count=count, freed=freed, kept=kept))
    console.problems(done)
    return EXIT_OK


def _counts(sessions: list[dict[str, Any]]) -> str:
    """Return the totals of the rebuilt sessions: nothing was counted for the others."""
    sessions = [one for one in sessions if one.get("failed") is not True]
    if not sessions:
        return ""
    sums = {key: sum(integer(one.get(key)) for one in sessions) for key in ("events", "messages", "goals")}
    below = len(sessions) - 1
    children = (
        n(", {count:,} branch or sub-agent", ", {count:,} branches or sub-agents", below) if below else ""
    )
    return t("{events:,} events, {messages:,} messages, {goals:,} goals", **sums) + children


def _names(console: Console, why: str, names: list[str] | tuple[str, ...]) -> None:
    if names:
        more = t(" and {count} more", count=len(names) - _MOST_NAMES) if len(names) > _MOST_NAMES else ""
        console.write(f"{why}: {', '.join(shown_line(name) for name in names[:_MOST_NAMES])}{more}\n")


def _size(count: int) -> str:
    return f"{count / _MB:,.1f} MB" if count >= _MB // 10 else f"{count / 1000:,.1f} kB"
