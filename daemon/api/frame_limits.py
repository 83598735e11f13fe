"""Frames that every client accepts: many reject a message of more than 1 MiB, and would receive the same one after each
reconnect (Python's ``websockets`` counts the payload: ``max_size=2**20``). Pure; call it in a thread.

Secrets are removed before shortening: a cut text may keep a part of one that can no longer be recognised.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping
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

    def attempt(how: _FrameLimits) -> bytes:
        return _encoded(cast("dict[str, Any]", _cut(without_pictures, how)))

    found = _longest_texts(attempt)
    for everything in (False, True):
        for items in _ITEMS:
            if len(found) <= FRAME_BYTES:
                return found
            found = attempt(_FrameLimits(_TEXTS[-1], items, everything))
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
    found = _longest_texts(lambda how: answer_bytes(_cut(clean, how)))
    return found if len(found) <= FRAME_BYTES else text


def _longest_texts(attempt: Callable[[_FrameLimits], bytes]) -> bytes:
    """Return the frame with the longest texts with which it fits, or the shortest, by few attempts."""
    tried: dict[int, bytes] = {}

    def fits(limit: int) -> bool:
        tried[limit] = attempt(_FrameLimits(limit))
        return len(tried[limit]) <= FRAME_BYTES

    limit = _TEXTS[bisect_left(_TEXTS[:-1], True, key=fits)]
    return tried.get(limit) or attempt(_FrameLimits(limit))


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
