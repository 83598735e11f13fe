"""Search stored sessions by title and by their messages."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.model.messages import Message, TextPart
from daemon.store.trace_store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from daemon.store.files import FileTraceStore

MOST_SESSIONS = 1_000
MAX_LOG_BYTES = 64 * 1024 * 1024
"""A longer log is searched in its first part only."""
_AROUND = 60
"""Characters of an excerpt before and after the hit."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A session that was found. ``excerpt``: the first place in its messages; empty: the title alone has it."""

    trace_id: str
    excerpt: str


def search(store: FileTraceStore, query: str, limit: int, titles: Mapping[str, str]) -> list[Hit]:
    """Return the newest sessions with ``query`` in the title or in a message, in any case. Blocking.

    ``titles``: those of open sessions by id, which may be newer than the stored ones.
    """
    wanted = " ".join(query.split()).casefold()
    if not wanted:
        return []
    found: list[Hit] = []
    for trace in store.traces(limit=MOST_SESSIONS):
        if len(found) >= limit:
            break
        excerpt = _first(store, trace.trace_id, wanted)
        if excerpt or wanted in titles.get(trace.trace_id, trace.title).casefold():
            found.append(Hit(trace.trace_id, excerpt))
    return found


def _first(store: FileTraceStore, trace_id: str, wanted: str) -> str:
    """Return the first match in the messages of a session; empty when there is none or it cannot be read."""
    with contextlib.suppress(OSError, StoreError):
        if _log_has(store.folder(trace_id) / "events.jsonl", wanted):
            return next(_places(store.messages(trace_id), wanted), "")
    return ""


def _log_has(log: Path, wanted: str) -> bool:
    """Return quickly whether reading the messages is worthwhile: every word of the query is somewhere in the log."""
    with log.open("rb") as file:
        text = file.read(MAX_LOG_BYTES).decode("utf-8", "replace").casefold()
    return all(word in text or json.dumps(word)[1:-1] in text for word in wanted.split())


def _places(messages: list[Message], wanted: str) -> Iterator[str]:
    for message in messages:
        for part in message.content:
            if not isinstance(part, TextPart):
                continue
            if found := excerpt(part.text, wanted):
                yield found


def excerpt(text: str, wanted: str) -> str:
    """Return the text around the first ``wanted``, which is casefolded, on one line; empty when it is not there."""
    text = " ".join(text.split())
    at = text.casefold().find(wanted)
    if at < 0:
        return ""
    start, end = max(0, at - _AROUND), at + len(wanted) + _AROUND
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
