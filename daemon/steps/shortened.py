"""Shorten images and long texts for display."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from tools.text.truncate import cut_text, head, one_line

_PREVIEW = 11
"""Characters of an image's data that are shown, as many as in the seed's example."""
SMALL_IMAGE = 120
"""Base64 up to this length is no image and not shortened."""
_DATA_URL = re.compile(
    rf"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[\w.+-]+)*;base64,([A-Za-z0-9+/=_-]{{{SMALL_IMAGE},}})"
)
_DEPTH = 60


def image_words(media_type: str, data: str) -> str:
    """Return the placeholder of an image: ``<IMAGE_DATA: 2363.7KB, data:image/png;base64, preview: iVBORw0KGgo...>``.

    The size is that of the image itself, in units of 1024 bytes. ``data`` is base64.
    """
    size = (len(data.rstrip("=")) * 3 // 4) / 1024
    return f"<IMAGE_DATA: {size:.1f}KB, data:{media_type};base64, preview: {data[:_PREVIEW]}...>"


def without_image_data(value: object) -> object:
    """Return ``value`` (JSON-able) with each long ``data:…;base64,…`` shortened, also within texts; nothing else
    changes."""
    return _each_text(value, _no_data_url)


def cut_texts(value: object, limit: int) -> object:
    """Return the value without image data, and with each text cut to ``limit`` characters."""
    return _each_text(value, lambda text: cut_text(_no_data_url(text), limit))


def _no_data_url(text: str) -> str:
    if ";base64," not in text:
        return text
    return _DATA_URL.sub(lambda found: image_words(found[1], found[2]), text)


def _each_text(value: object, change: Callable[[str], str], depth: int = 0) -> object:
    if isinstance(value, str):
        return change(value)
    if depth > _DEPTH:
        return "…" if isinstance(value, dict | list | tuple) else value
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _each_text(below, change, depth + 1) for key, below in items}
    if isinstance(value, list | tuple):
        return [_each_text(below, change, depth + 1) for below in cast("Sequence[object]", value)]
    return value


_END = re.compile(r"[。！？]|[.!?](?=\s|$)|\n")


def first_sentence(text: str, limit: int = 120) -> str:
    """Return the first sentence of a text on one line, or its beginning."""
    text = text.strip()
    found = _END.search(text[: limit * 4])
    end = len(text) if found is None else found.start() if found[0] == "\n" else found.end()
    return one_line(head(text, end), limit)
