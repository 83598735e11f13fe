"""All problems that there are now in some files: opened at their servers, asked in parallel, one deadline."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lsp_bridge.language_client.connection import ServerError, ServerGoneError
from lsp_bridge.language_client.text.problems import severe, to_problems
from tools.json_access import mapping
from tools.language_ports import CurrentProblems, Problem, Severity
from tools.text.lines import lsp_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lsp_bridge.language_client.diagnostics.sources import Read
    from lsp_bridge.language_client.diagnostics.verdict import Raw
    from lsp_bridge.language_client.pool.server_pool import LanguageServers
    from lsp_bridge.language_client.server.language_server import LanguageServer

_log = logging.getLogger("goalwright.lsp_client")

MAX_FILES = 50
"""Most files for a server that must be shown each file."""
_AT_ONCE = 30
"""Files open at a server for this at the same time; below the number at which it closes older ones."""
_PATIENCE = 2.5
"""How many times as long as for the answer to an edit a server has for many files."""


class _ServerProblems(Struct):
    """The answers of one server."""

    server: LanguageServer
    complete: bool = True
    answers: dict[Path, Raw] = field(default_factory=dict[Path, "Raw"])
    skipped: set[Path] = field(default_factory=set[Path])
    """Files that it was not asked about, because they are too many."""


async def survey(
    servers: LanguageServers, read: Read, paths: Sequence[Path], least: Severity
) -> CurrentProblems:
    """Return the problems in these files at least as severe as ``least``."""
    started = asyncio.get_running_loop().time()
    files = list(dict.fromkeys(paths))
    watched: dict[LanguageServer, list[Path]] = {}
    unwatched: list[Path] = []
    silent: list[str] = []
    for number, path in enumerate(files):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # looking for a server takes a moment
        lookup = servers.for_path(path)
        silent += lookup.resting
        for server in lookup.servers:
            watched.setdefault(server, []).append(path)
        if not lookup.servers and not lookup.resting:
            unwatched.append(path)
    heard = await asyncio.gather(
        *(_ask_safely(server, read, mine, started) for server, mine in watched.items())
    )

    problems: list[Problem] = []
    order = {path: number for number, path in enumerate(files)}
    for one in heard:
        if not one.complete:
            silent.append(one.server.name)
        for path in sorted(one.answers, key=order.__getitem__):
            if shown := severe(one.answers[path], least):
                text = await read(path) or ""
                problems += await asyncio.to_thread(lambda: to_problems(path, shown, lsp_lines(text)))  # noqa: B023  # awaited at once
    skipped = set[Path]().union(*(one.skipped for one in heard))
    looked_at = {path for one in heard for path in watched[one.server] if path not in one.skipped}
    missing = tuple(dict.fromkeys(silent))
    return CurrentProblems(
        tuple(problems),
        tuple(name for name in dict.fromkeys(one.server.name for one in heard) if name not in missing),
        missing,
        tuple(unwatched),
        len(skipped - looked_at),
    )


async def _ask_safely(
    server: LanguageServer, read: Read, files: Sequence[Path], started: float
) -> _ServerProblems:
    """Ask a server; an unexpected failure counts as silence of this server only."""
    try:
        return await _ask(server, read, files, started)
    except Exception:
        _log.exception("%s could not be asked", server.name)
        return _ServerProblems(server, complete=False)


async def _ask(server: LanguageServer, read: Read, files: Sequence[Path], started: float) -> _ServerProblems:
    now = asyncio.get_running_loop().time
    heard = _ServerProblems(server)
    until = started + _PATIENCE * server.deadline_s()
    if not await server.ready(until):
        heard.complete = False
        return heard
    heard.skipped = set(files[MAX_FILES:])
    for first in range(0, min(len(files), MAX_FILES), _AT_ONCE):
        shown: list[Path] = []
        for path in files[first : min(first + _AT_ONCE, MAX_FILES)]:
            # Sent at once: while other files are read, somebody may change this one.
            if (text := await read(path)) is not None:
                server.sync(path, text)
                shown.append(path)
        pulled = await asyncio.gather(
            *(_pull(heard, path, until - now()) for path in shown if server.pulls(path))
        )
        rest = [path for path in shown if path not in pulled]
        answered = await server.answered_last(rest, until)
        for path in (path for path in rest if path in answered):
            heard.answers[path] = server.answers.known(path, answered[path]) or ()
        if len(answered) < len(rest):
            heard.complete = False
        if now() >= until:
            # There is no time left for the others.
            heard.skipped.update(files[first + _AT_ONCE :])
            heard.complete = heard.complete and not files[first + _AT_ONCE : MAX_FILES]
            break
    return heard


async def _pull(heard: _ServerProblems, path: Path, timeout_s: float) -> Path | None:
    """Ask about one open file, whatever was said before: files that it depends on may have changed. None: no answer."""
    params = {"textDocument": {"uri": path.as_uri()}}
    try:
        report = mapping(await heard.server.request("textDocument/diagnostic", params, max(0.05, timeout_s)))
    except (ServerError, ServerGoneError, TimeoutError):
        return None
    if not isinstance(report.get("items"), list):
        return None
    # A server that supports pull may still push some of its problems.
    pushed = heard.server.answers.known(path) or ()
    own = severe(report["items"], "hint")
    seen = {repr(item) for item in own}
    heard.answers[path] = own + tuple(
        item for item in pushed if repr(item) not in seen and _is_pushed(item, own)
    )
    return path


def _is_pushed(item: Mapping[str, Any], pulled: Raw) -> bool:
    """Return whether a known item is none of an older pull: those of a source that the pull speaks for are left out."""
    return not any(item.get("source") == other.get("source") for other in pulled)
