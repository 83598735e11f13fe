"""Decode long messages of MCP servers in a thread, without holding up the event loop.

The C decoders hold the interpreter's lock until a whole message is decoded, for seconds where it has a million values.
The standard library's decoder in Python lets other threads run between values, and can count them.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    _Scan = Callable[[str, int], tuple[Any, int]]

MOST_VALUES = 300_000
"""Values and keys of one message."""
_parts: Any = importlib.import_module("json.decoder")
_scanner: Any = importlib.import_module("json.scanner")


def decoded(data: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, also when it has too many values or is nested too deeply."""
    try:
        return _decoder().decode(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _decoder() -> json.JSONDecoder:
    left = MOST_VALUES

    def counting(scan: _Scan) -> _Scan:
        def one(text: str, at: int) -> tuple[Any, int]:
            nonlocal left
            left -= 1
            if left < 0:
                raise ValueError(f"it has more than {MOST_VALUES:,} values")
            return scan(text, at)

        return one

    def array(at: Any, scan: _Scan, *more: Any) -> Any:
        return _parts.JSONArray(at, counting(scan), *more)

    def an_object(at: Any, strict: bool, scan: _Scan, *more: Any) -> Any:
        return _parts.JSONObject(at, strict, counting(scan), *more)

    decoder: Any = json.JSONDecoder(object_pairs_hook=_object)
    decoder.parse_array, decoder.parse_object, decoder.parse_string = array, an_object, _string
    decoder.scan_once = _scanner.py_make_scanner(decoder)
    return decoder


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for key, _ in pairs:
        key.encode()
    return dict(pairs)


def _string(text: str, end: int, strict: bool = True) -> tuple[str, int]:
    """Return a string of the text; half a surrogate pair is an error, as for other decoders of messages."""
    value, end = _parts.scanstring(text, end, strict)
    if not value.isascii():
        value.encode()
    return value, end
