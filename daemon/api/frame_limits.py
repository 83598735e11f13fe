"""Frames that every client accepts: many reject a message of more than 1 MiB, and would receive the same one after each
reconnect (Python's ``websockets`` counts the payload: ``max_size=2**20``). Pure; call it in a thread.

Secrets are removed before shortening: a cut text may keep a part of one that can no longer be recognised.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any, cast

from msgspec import Struct

from daemon.model.encoding import answer_bytes, json_bytes, json_text
from daemon.steps.shortened import SMALL_IMAGE, image_words, without_image_data
from tools.text.truncate import cut_text

FRAME_BYTES = 1_000_000
"""Largest size of a frame's JSON in bytes: below 2**20, with room for fields that are added later."""
MARK = "shortened"
"""Field that is true in a frame of which something was shortened or left out; other frames do not have it."""

_WHOLE = frozenset(["affected_goals", "self_stats", "cumulative_stats"])
"""Numbers that clients count with, and what else a plan follows from."""
_HEAD = frozenset(["event", "event_id", "trace_id", "of_event_id"])
_DEPTH = 100


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
    for how in (*_TEXTS, *_ITEMS):
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
    tree = cast("Mapping[str, Any]", frame["goal_tree"])
    clean = cast("dict[str, Any]", json.loads(answer_bytes({**frame, "goal_tree": {**tree, "goals": []}})))
    # One by one: parsing the JSON of thousands of goals at once would block the event loop.
    goals = (json.loads(json_bytes(goal)) for goal in tree.get("goals", []))
    clean["goal_tree"]["goals"] = [
        {name: value for name, value in goal.items() if value is not None or name == "parent_id"}
        for goal in goals
    ]
    clean[MARK] = True
    for shorter in chain([clean], (_cut(clean, how) for how in _TEXTS_OF_PLANS)):
        if len(found := answer_bytes(shorter)) <= FRAME_BYTES:
            return found
    return text


def _encoded(frame: Mapping[str, Any]) -> bytes:
    return json_text({**frame, MARK: True}).encode()


class _FrameLimits(Struct, frozen=True):
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


_TEXTS = tuple(
    map(_FrameLimits, (512_000, 256_000, 128_000, 64_000, 32_000, 16_000, 8_000, 4_000, 1_000, 200))
)
"""Tried in this order: the first with which the frame fits leaves most of its texts."""
_TEXTS_OF_PLANS = _TEXTS[-4:]
"""The goal tool accepts no longer ones."""
_ITEMS = tuple(
    _FrameLimits(200, items, everything) for everything in (False, True) for items in (1_000, 100, 10, 3)
)
"""Tried when shortening texts is not enough."""


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
