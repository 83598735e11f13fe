"""``goalwright trace list|show|dump|tail``: reads the store, so it works without a daemon and beside one.

``trace``: an id, a unique beginning of one, or ``latest``. ``branch``: ``A``, ``s1``, ``A.s1``.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.model.encoding import json_bytes
from daemon.model.events import SessionCreated
from daemon.model.traces import Trace, TraceMeta, trace_status
from daemon.runtime import RuntimePaths, state_dir
from daemon.steps.dumps import dump_json, dump_markdown, dump_tree
from daemon.steps.fold import StepFold
from daemon.store.provenance import OwnSessions
from daemon.store.trace_index import never_begun
from daemon.store.trace_store import NewerFormatError, StoreError, UnknownTraceError, all_events
from daemon.workspace_key import real_workspace
from lsp_bridge.cli.trace.step_lines import StepLines, head_lines, prompt_lines, trace_line
from lsp_bridge.cli.trace.stored_traces import chosen, store_of, trace_command
from tools.files.regular_files import private_file
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from daemon.context.prompt_record import PromptHistory
    from daemon.model.choices import DumpFormat
    from daemon.store.files import FileTraceStore
    from lsp_bridge.cli.console import Console
    from lsp_bridge.cli.invocation import Invocation

_LOOK_S = 0.2
"""How often the log is looked at."""
_CUT = 4000
"""Characters of a text that a screen may need."""


@trace_command
async def list_traces(cli: Invocation, *, limit: int = 50) -> None:
    """``goalwright trace list``: newest first; ``--json``: one object a line, with the fields of the API."""
    console, store = cli.console, store_of(cli.workspace)
    own = OwnSessions(state_dir(), real_workspace(cli.workspace))
    traces = store.traces(limit=limit, matches=lambda trace: not never_begun(store, trace))
    since = _daemon_since(cli.workspace)
    for trace in traces:
        broke_off = trace.running and not _works_on(store, trace.trace_id, since)
        status = "failed" if broke_off else trace_status(trace)
        mission = ""
        with contextlib.suppress(StoreError):
            mission = store.goal_tree(trace.trace_id).mission
        if cli.json:
            meta = TraceMeta.of(trace, mission, status, foreign=trace.trace_id not in own)
            console.write_bytes(json_bytes(meta.stored()) + b"\n")
        else:
            console.line(trace_line(trace, mission, status, console.style, console.columns))
    if not traces and not cli.json:
        console.warn(t("There are no traces in {root}.", root=store.root))


@trace_command
async def show_trace(
    cli: Invocation,
    *,
    trace: str | None = None,
    branch: str | None = None,
    full: bool = False,
    system_prompt: bool = False,
) -> None:
    """``goalwright trace show``: the step tree with costs; ``full``: with the texts of the steps.

    ``--json``: as ``trace dump --format json``. ``system_prompt``: the system prompts instead, ``--json``: one a line.
    """
    console = cli.console
    fold = _shown(cli, trace, branch, None if full or cli.json else _CUT)
    if system_prompt:
        _show_prompts(fold.head.prompts, console, as_json=cli.json)
    elif cli.json:
        console.write_bytes(dump_json(fold.head, fold.tree, now=_now()).encode())
    else:
        lines = StepLines(fold.tree, console.style, console.columns, full=full)
        for line in (*head_lines(fold, console.style), *lines.tree()):
            console.line(line)


def _show_prompts(history: PromptHistory, console: Console, *, as_json: bool) -> None:
    if not history.changes:
        console.warn(
            t(
                "The trace has no system prompt: no request was made, or it was written by an older "
                "version of Goalwright."
            )
        )
    elif as_json:
        for change in history.changes:
            layers = [{**layer.stored(), "text": history.text(layer)} for layer in change.layers]
            console.write_bytes(json_bytes({**change.stored(), "layers": layers}) + b"\n")
    else:
        for line in prompt_lines(history, console.style):
            console.line(line)


@trace_command
async def dump_trace(
    cli: Invocation,
    *,
    trace: str | None = None,
    branch: str | None = None,
    form: DumpFormat = "txt",
    output: Path | None = None,
    force: bool = False,
) -> None:
    """``goalwright trace dump``: the tree as text, Markdown or JSON, to stdout (also ``-``) or the file ``output``.

    ``force``: it may replace a file.
    """
    dump = {"txt": dump_tree, "md": dump_markdown, "json": dump_json}["json" if cli.json else form]
    fold = _shown(cli, trace, branch)
    data = dump(fold.head, fold.tree, now=_now()).encode(errors="replace")
    if output is None or str(output) == "-":
        cli.console.write_bytes(data)
    else:
        save(output, data, force=force)


@trace_command
async def tail_trace(
    cli: Invocation,
    *,
    trace: str | None = None,
    branch: str | None = None,
    since: int | None = None,
    follow: bool = True,
) -> None:
    """Print steps as they come, until Ctrl+C, or until the reader is gone (``goalwright trace tail``).

    ``since``: also those after the event with this id, 0 for all; without ``follow`` None is all, too. ``--json``: the
    stored events, one a line. Not ``follow``: ends after the existing ones.
    """
    console, store = cli.console, store_of(cli.workspace)
    session_id = chosen(store, trace or "latest", branch)
    first = since if since is not None else store.last_event_id(session_id) if follow else 0
    gone = asyncio.Event()
    console.on_gone = gone.set
    for _ in _print_news(store, session_id, first, cli.json, console):
        if not follow:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await gone.wait()
        if gone.is_set():
            break


def _print_news(
    store: FileTraceStore, session_id: str, since: int, as_json: bool, console: Console
) -> Iterator[None]:
    """Print the events of a session after a given one; with each step those that are new. Raises StoreError, OSError.

    It ends with UnknownTraceError when the trace is deleted.
    """
    fold = StepFold(session_id, cut=_CUT)
    lines = StepLines(fold.tree, console.style, console.columns)
    # Steps need the tree of everything before; events need nothing of it.
    last = since if as_json else 0
    log = _need_log(store, session_id)
    seen = -1
    while log.parent.is_dir():
        size = log.stat().st_size if log.exists() else 0
        for event in all_events(store.events, session_id, after=last) if size != seen else ():
            last = event.event_id
            if as_json:
                console.write_bytes(json_bytes(event.stored()) + b"\n")
                continue
            changes = fold.apply(event)
            if event.event_id > since:
                for line in lines.told(event, changes):
                    console.line(line)
        seen = size
        yield
    raise UnknownTraceError(t("Trace {session_id} was deleted.", session_id=session_id))


def _folded(store: FileTraceStore, session_id: str, cut: int | None = None) -> StepFold:
    _need_log(store, session_id)
    fold = StepFold(session_id, cut=cut)
    known = _known(store, session_id)
    for event in all_events(store.events, session_id):
        if known is not None and event.event != "session_created":
            # The log has lost its first event, but the metadata still has its data.
            fold.apply(SessionCreated(trace_id=session_id, time=known.created_at, trace=known))
        known = None
        fold.apply(event)
    return fold


def _known(store: FileTraceStore, session_id: str) -> Trace | None:
    """Raises NewerFormatError: what every other view refuses is not shown here, either."""
    try:
        return store.trace(session_id)
    except (NewerFormatError, UnknownTraceError):
        raise
    except StoreError:
        return None  # the log has everything


def _need_log(store: FileTraceStore, session_id: str) -> Path:
    """Return the log of a session. Raises StoreError when it is gone: then its work cannot be shown."""
    log = store.folder(session_id) / "events.jsonl"
    if not log.exists():
        raise StoreError(
            t(
                "The log of {session_id} is missing ({log}), so its steps cannot be shown.",
                session_id=session_id,
                log=log,
            )
        )
    return log


def _daemon_since(workspace: Path) -> float | None:
    """Return when the running daemon was started, in seconds since the epoch; 0: unknown, None: none runs."""
    paths = RuntimePaths.for_workspace(workspace)
    if not paths.is_locked():
        return None
    address = paths.read_address()
    try:
        return datetime.fromisoformat(address.started_at).timestamp() if address is not None else 0.0
    except ValueError:
        return 0.0


def _works_on(store: FileTraceStore, session_id: str, since: float | None) -> bool:
    """Return whether a daemon that was started at ``since`` may be at work on a session: not if nothing was written
    since then, because starting or opening a session writes to it."""
    if since is None:
        return False
    try:
        return (store.folder(session_id) / "events.jsonl").stat().st_mtime >= since
    except OSError:
        return False


def _shown(cli: Invocation, trace: str | None, branch: str | None, cut: int | None = None) -> StepFold:
    """Return the steps of a session. An unfinished turn has failed when no daemon works on it, as in the API."""
    store = store_of(cli.workspace)
    session_id = chosen(store, trace or "latest", branch)
    fold = _folded(store, session_id, cut)
    if fold.head.status in ("running", "waiting") and not _works_on(
        store, session_id, _daemon_since(cli.workspace)
    ):
        fold.break_off()
    return fold


def _now() -> datetime:
    return datetime.now().astimezone()


def save(output: Path, data: bytes, *, force: bool = False) -> None:
    """Write ``data`` to ``output``: whole or not at all, through links, and into existing pipes and devices.

    Raises StoreError with a message about ``output``: also when a file exists and not ``force``.
    """
    try:
        path = output.resolve()  # keep a link a link
        kind = path.stat().st_mode if path.exists() else None
        if kind is None or (stat.S_ISREG(kind) and force):
            with private_file(path) as file:
                file.write(data)
        elif stat.S_ISREG(kind):
            raise StoreError(
                t("{output} already exists. Choose another file, or replace it with --force.", output=output)
            )
        else:
            with path.open("wb") as there:
                there.write(data)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = error.strerror or error if isinstance(error, OSError) else error
        raise StoreError(t("{output} cannot be written: {error}.", output=output, error=why)) from error
