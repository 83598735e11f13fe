"""The server's wishes for open documents (``textDocumentSync``), and changes as small edits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from lsp_bridge.language_client.text.positions import PositionEncoding, units
from tools.json_access import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ChangeMode = Literal["none", "full", "incremental"]
_MODES: tuple[ChangeMode, ...] = ("none", "full", "incremental")


class TextSync(Struct, frozen=True):
    """The notifications about a document. ``save`` None: none on saving; else whether they include the text."""

    open_close: bool = True
    change: ChangeMode = "full"
    save: bool | None = False


def announced_sync(capabilities: Mapping[str, Any]) -> TextSync:
    """Return the sync mode in the result of ``initialize``, a number or an object.

    A server that names none gets whole texts: it may have forgotten to, and it has to ignore unknown notifications
    (JSON-RPC).
    """
    given: object = capabilities.get("textDocumentSync")
    if given is None:
        return TextSync()
    if isinstance(given, dict):
        options = mapping(cast("object", given))
        change, save = change_mode(options.get("change")), _save(options.get("save"))
        return TextSync(options.get("openClose") is True, change, save)
    mode = change_mode(given)
    return TextSync(open_close=mode != "none", change=mode, save=None if mode == "none" else False)


def change_mode(value: object) -> ChangeMode:
    """Return LSP's TextDocumentSyncKind; invalid values count as None."""
    return _MODES[value] if isinstance(value, int) and 0 <= value < len(_MODES) else "none"


def _save(save: object) -> bool | None:
    if isinstance(save, dict):
        return mapping(cast("object", save)).get("includeText") is True
    return False if save is True else None


def content_changes(
    before: str, after: str, mode: ChangeMode, encoding: PositionEncoding
) -> list[dict[str, Any]]:
    """``contentChanges`` that turn ``before`` into ``after``; empty when they must not be sent.

    One edit between the common head and tail: found in about a millisecond in a megabyte, where a diff takes longer
    than a server to read the difference. A text with a lone carriage return is sent whole, which is always allowed:
    it ends a line for LSP, but not for several servers (clangd and gopls count only line feeds).
    """
    if mode == "none":
        return []
    if mode == "full" or _has_lone_return(before):
        return [{"text": after}]
    start = common_head(before, after)
    tail = common_tail(before, after, min(len(before), len(after)) - start)
    # No position may fall between the two characters of one line end, before or after the change.
    if start and before[start - 1] == "\r" and "\n" in (before[start : start + 1], after[start : start + 1]):
        start -= 1
    end, new_end = len(before) - tail, len(after) - tail
    if tail and before[end] == "\n" and "\r" in (before[end - 1 : end], after[new_end - 1 : new_end]):
        end, new_end = end + 1, new_end + 1
    place = {"start": position(before, start, encoding), "end": position(before, end, encoding)}
    return [{"range": place, "text": after[start:new_end]}]


def position(text: str, offset: int, encoding: PositionEncoding) -> dict[str, int]:
    """LSP's position of an offset in a text whose lines end in line feeds."""
    begin = text.rfind("\n", 0, offset) + 1
    return {"line": text.count("\n", 0, offset), "character": units(text[begin:offset], encoding)}


def common_head(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    return _longest(min(len(one), len(other)), lambda low, end: one[low:end] == other[low:end])


def common_tail(one: str, other: str, most: int) -> int:
    """Return how many characters both end with, at most ``most``."""
    ends = len(one), len(other)
    return _longest(
        most, lambda low, end: one[ends[0] - end : ends[0] - low] == other[ends[1] - end : ends[1] - low]
    )


def _longest(most: int, alike: Callable[[int, int], bool]) -> int:
    """Return for how many characters, up to ``most``, two texts are ``alike``: by halves, because slices are compared
    quickly."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if alike(low, middle) else (low, middle - 1)
    return low


def _has_lone_return(text: str) -> bool:
    return text.count("\r") != text.count("\r\n")
