"""Frames that every client accepts: many reject a message of more than 1 MiB, and would receive the same one after each
reconnect (Python's ``websockets`` counts the payload: ``max_size=2**20``). Pure; call it in a thread.

Secrets are removed before shortening: a cut text may keep a part of one that can no longer be recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from daemon.model.encoding import answer_bytes, json_bytes, json_text
from daemon.steps.shortened import SMALL_IMAGE, image_words, without_image_data
from tools.text.truncate import cut_text

FRAME_BYTES = 1_000_000
"""Largest size of a frame's JSON in bytes: below 2**20, with room for fields that are added later."""
MARK = "shortened"
"""Field that is true in a frame of which something was shortened or left out; other frames do not have it."""

_TEXTS = (512_000, 256_000, 128_000, 64_000, 32_000, 16_000, 8_000, 4_000, 1_000, 200)
"""Characters that are left of a text; the first with which the frame fits."""
_ITEMS = (1_000, 100, 10, 3)
"""Numbers of list items to keep, tried in this order when shortening texts is not enough."""
_WHOLE = frozenset(["affected_goals", "self_stats", "cumulative_stats"])
"""Numbers that clients count with, and what else a plan follows from."""
_HEAD = frozenset(["event", "event_id", "trace_id", "of_event_id"])
_DEPTH = 100
_CHUNK = 20
_MARKED = len(f',"{MARK}":true')
_COUNT = 40
"""Bytes that ``cut_text`` adds at most."""


def shorten_frame(text: bytes) -> bytes:
    """Return the frame unchanged, or shortened if it is too large. ``text``: its JSON, without secrets.

    Images go first, then texts are cut, the longest first. Ids, kinds and numbers stay. A frame that is still too large
    (a forged trace may have lists, ids and names of any size) is cut everywhere.
    """
    if len(text) <= FRAME_BYTES:
        return text
    try:
        frame = cast("dict[str, Any]", json.loads(text))
    except RecursionError:
        return text  # no client can parse it
    without_pictures = cast("dict[str, Any]", _without_pictures(frame))
    found = _encoded(without_pictures)
    if len(found) <= FRAME_BYTES:
        return found
    for how in _attempts(without_pictures):
        found = _encoded(cast("dict[str, Any]", _cut(without_pictures, how)))
        if len(found) <= FRAME_BYTES:
            break
    return found


def shorten_connected_frame(frame: Mapping[str, Any]) -> bytes:
    """Return the JSON of a ``connected`` frame, without secrets.

    For a plan that is too large, null fields of goals are left out; then its texts are cut. If that is not enough (some
    thousands of goals), the frame stays too large: without its goals, no client could follow changes to them.
    """
    text = answer_bytes(frame)
    if len(text) <= FRAME_BYTES:
        return text
    clean = cast("dict[str, Any]", _without_secrets(frame))
    goals = clean["goal_tree"].get("goals", [])
    clean["goal_tree"]["goals"] = [
        {name: value for name, value in goal.items() if value is not None or name == "parent_id"}
        for goal in goals
    ]
    clean[MARK] = True
    found = answer_bytes(clean)
    if len(found) <= FRAME_BYTES:
        return found
    for limit in _limits(clean, len(found)):
        found = answer_bytes(_cut(clean, _FrameLimits(limit)))
        if len(found) <= FRAME_BYTES:
            return found
    return text


def _without_secrets(value: object) -> object:
    # In pieces, like ``answer_bytes``: parsing the JSON of thousands of goals at once would block the event loop.
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        plain = {name: below for name, below in fields.items() if not isinstance(below, Mapping | list)}
        clean = cast("dict[str, object]", json.loads(json_bytes(plain)))
        return {
            name: clean[name] if name in plain else _without_secrets(below) for name, below in fields.items()
        }
    if isinstance(value, list):
        items = cast("list[object]", value)
        found: list[object] = []
        for at in range(0, len(items), _CHUNK):
            found += json.loads(json_bytes(items[at : at + _CHUNK]))
        return found
    return json.loads(json_bytes(value))


def _encoded(frame: Mapping[str, Any]) -> bytes:
    return json_text({**frame, MARK: True}).encode()


@dataclass(frozen=True, slots=True)
class _FrameLimits:
    """How far one attempt shortens a frame: characters for each text, and items for each list (None: all)."""

    texts: int
    items: int | None = None
    everything: bool = False
    """Also of what should stay whole."""

    def spares(self, name: str) -> bool:
        """Return whether a field stays unchanged."""
        if self.everything:
            return name in _HEAD
        return name in _WHOLE or name in _HEAD or name == "id" or name.endswith(("_id", "_ids"))


def _attempts(frame: Mapping[str, Any]) -> Iterator[_FrameLimits]:
    """Yield ways to shorten, from the mildest to the most drastic."""
    size = len(json_text(frame).encode())
    yield from map(_FrameLimits, _limits(frame, size))
    for everything in (False, True):
        for items in _ITEMS:
            yield _FrameLimits(_TEXTS[-1], items, everything)


def _limits(frame: Mapping[str, Any], size: int) -> list[int]:
    """Return the lengths of texts with which a frame of ``size`` bytes may fit, longest first."""
    texts = [
        (len(text), len(json_text(text).encode()))
        for text in _texts(frame, _FrameLimits(0))
        if len(text) > _TEXTS[-1]
    ]
    found: list[int] = []
    for limit in _TEXTS:
        # An estimate, because the characters of a text take different numbers of bytes.
        saved = sum(
            taken - taken * limit // length - _COUNT for length, taken in texts if length > limit + _COUNT
        )
        if size + _MARKED - saved <= FRAME_BYTES:
            found.append(limit)
    return found or list(_TEXTS[-1:])


def _texts(value: object, how: _FrameLimits, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth > _DEPTH:
        return
    elif isinstance(value, Mapping):
        for name, below in cast("Mapping[str, object]", value).items():
            if not how.spares(name):
                yield from _texts(below, how, depth + 1)
    elif isinstance(value, list):
        for below in cast("Sequence[object]", value):
            yield from _texts(below, how, depth + 1)


def _cut(value: object, how: _FrameLimits, depth: int = 0) -> object:
    if isinstance(value, str):
        return cut_text(value, how.texts)
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, object]", value).items())
        if how.items is not None and depth:
            # With so many entries, the names come from untrusted data as well.
            items = [(cut_text(name, how.texts), below) for name, below in items[: how.items]]
        return {
            name: below if how.spares(name) else _cut(below, how, depth + 1) if depth < _DEPTH else "…"
            for name, below in items
        }
    if isinstance(value, list):
        below = cast("list[object]", value)[: how.items]
        return [_cut(one, how, depth + 1) if depth < _DEPTH else "…" for one in below]
    return value


def _without_pictures(value: object, depth: int = 0) -> object:
    if depth > _DEPTH:
        return value
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        found = {name: _without_pictures(below, depth + 1) for name, below in fields.items()}
        data, media_type = fields.get("data"), fields.get("media_type")
        if isinstance(data, str) and isinstance(media_type, str) and len(data) > SMALL_IMAGE:
            found["data"] = image_words(media_type, data)
        return found
    if isinstance(value, list):
        return [_without_pictures(below, depth + 1) for below in cast("list[object]", value)]
    return without_image_data(value) if isinstance(value, str) else value
