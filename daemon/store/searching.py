"""Search sessions for a part of a text, in any case: titles, messages, goals and names of changed files.

This searches files, and reads them for it; ``daemon.store.sql.search`` does the same in a database, with an index.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Literal, NamedTuple

from daemon.store.facts import facts, fold
from daemon.store.trace_store import StoreError, with_children

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.store.files import FileTraceStore

Kind = Literal["title", "message", "goal", "file"]
KINDS: tuple[Kind, ...] = ("title", "message", "goal", "file")
MOST_SESSIONS = 1_000
MAX_LOG_BYTES = 64 * 1024 * 1024
"""A longer log is searched in its first part only."""
_AROUND = 60
"""Characters of an excerpt before and after the hit."""


class Found(NamedTuple):
    """A session that was found, and one place in it."""

    trace_id: str
    """The session, a branch or a sub-agent."""
    title: str
    """The title of that session."""
    folder: str
    owner: str | None
    """The user whose session it is in a database; None for files."""
    kind: str
    """One of ``KINDS``."""
    excerpt: str
    """Text around the place, on one line."""


def search(
    store: FileTraceStore, query: str, *, limit: int, titles: Mapping[str, str] | None = None
) -> list[Found]:
    """Return the newest ``limit`` sessions with ``query``, each with one place, see ``KINDS``. Blocking.

    ``titles``: those of open sessions by id, which may be newer than the stored ones.
    """
    wanted = fold(query)
    found: list[Found] = []
    if not wanted:
        return []
    for trace in store.traces(limit=MOST_SESSIONS):
        if len(found) >= limit:
            break
        title = (titles or {}).get(trace.trace_id, trace.title)
        place = _first(store, trace.trace_id, wanted)
        if place is None and (excerpt_of := excerpt(title, wanted)):
            place = trace.trace_id, "title", excerpt_of
        if place is not None:
            trace_id, kind, text = place
            found.append(Found(trace_id, title, trace.workspace, None, kind, text))
    return found


def _first(store: FileTraceStore, session_id: str, wanted: str) -> tuple[str, str, str] | None:
    """Return trace, kind and text of the first place in a session and its children; None when there is none."""
    with contextlib.suppress(OSError, StoreError):
        for trace_id in with_children(store, [session_id]):
            if place := _in_log(store, trace_id, wanted):
                return trace_id, *place
    return None


def _in_log(store: FileTraceStore, trace_id: str, wanted: str) -> tuple[str, str] | None:
    words = [(word, json.dumps(word)[1:-1]) for word in wanted.split()]
    read = 0
    for line in store.lines(trace_id):
        read += len(line.body)
        if read > MAX_LOG_BYTES:
            break
        # Most lines need not be decoded: a word is missing.
        text = line.body.decode("utf-8", "replace").casefold()
        if not all(word in text or written in text for word, written in words):
            continue
        with contextlib.suppress(ValueError, RecursionError):
            for said in facts(json.loads(line.body)).texts:
                if place := excerpt(said.text, wanted):
                    return said.kind, place
    return None


def excerpt(text: str, wanted: str) -> str:
    """Return the text around the first ``wanted``, which is folded, on one line; empty when it is not there."""
    text = " ".join(text.split())
    at = text.casefold().find(wanted)
    if at < 0:
        return ""
    start, end = max(0, at - _AROUND), at + len(wanted) + _AROUND
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
