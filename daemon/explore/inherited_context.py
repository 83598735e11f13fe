"""The conversation that a branch inherits: what the model sees of the main session, with the copy's paths. Pure.

A branch works in a copy of the workspace. Wherever texts, arguments of calls or results name a path in the workspace,
they name the same path in the copy, so that the model can go on as if it had always worked there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from daemon.model.messages import (
    FilePart,
    NotePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from daemon.provider.model_calls import PromptMessage

if TYPE_CHECKING:
    from daemon.context.windowing.blocks import WindowMessage

_BEFORE = r"(?:(?<![\w./~-])|(?<=://)|(?<=\s-[A-Za-z])|(?<=\\[nrt]))"
"""A path must begin here: ``/mnt/home/me/shop`` is not ``/home/me/shop``. Flags (``-I/…``) may come before it."""
_AFTER = r"(?![\w~+@%-])(?!\.\w)"
"""Nor to the right: ``/home/me/shop-old`` and ``/home/me/shop.bak`` are other folders. A full stop ends a sentence."""


def conversation(entries: Iterable[WindowMessage], without: Collection[str]) -> tuple[PromptMessage, ...]:
    """Return what the model sees now as messages to store, one for each result.

    ``without``: ids of calls that have no result yet, because nobody in the branch waits for those. Reasoning is left
    out: it is signed, so it could not be rewritten, and no provider needs it for past turns.
    """
    entries = list(entries)
    last = max((at for at, entry in enumerate(entries) if entry.prompt.role == "assistant"), default=-1)
    found: list[PromptMessage] = []
    for at, entry in enumerate(entries):
        gone = without if at >= last else ()
        parts = tuple(part for part in entry.prompt.content if not _left_out(part, gone))
        if entry.prompt.role == "tool":
            found += [PromptMessage("tool", (part,)) for part in parts if isinstance(part, ToolResultPart)]
        elif parts:
            found.append(PromptMessage("assistant" if entry.prompt.role == "assistant" else "user", parts))
    return tuple(found)


def _left_out(part: Part, calls: Collection[str]) -> bool:
    if isinstance(part, ToolCallPart):
        return part.id in calls
    if isinstance(part, ToolResultPart):
        return part.tool_call_id in calls
    return isinstance(part, ReasoningPart)


def rewriter(old: Path, new: Path, home: Path | None = None) -> Callable[[str], str]:
    """Return a function that replaces the folder ``old`` by ``new`` in a text, in every notation.

    ``home``: the user's home folder; paths below it may be written with a tilde.
    """
    forms = dict(zip(_forms(old), _forms(new), strict=True))
    if home is not None and old != home and old.is_relative_to(home):
        forms.setdefault(f"~/{old.relative_to(home).as_posix()}", new.as_posix())
    longest = sorted(forms, key=len, reverse=True)
    pattern = re.compile(_BEFORE + "(?:" + "|".join(map(re.escape, longest)) + ")" + _AFTER)

    def rewrite(text: str) -> str:
        # Most texts contain no path at all, and searching for a plain string is much faster.
        if not any(form in text for form in longest):
            return text
        return pattern.sub(lambda match: forms[match[0]], text)

    return rewrite


def _forms(path: Path) -> list[str]:
    """Return a path in every notation; where several of ``old`` are the same, the last one counts."""
    posix, text = path.as_posix(), str(path)
    return [quote(posix), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], posix, text]


def moved(messages: Sequence[PromptMessage], rewrite: Callable[[str], str]) -> tuple[PromptMessage, ...]:
    """Return ``messages`` with all places rewritten."""
    return tuple(
        PromptMessage(message.role, tuple(_moved(part, rewrite) for part in message.content))
        for message in messages
    )


def _moved(part: Part, rewrite: Callable[[str], str]) -> Part:
    if isinstance(part, TextPart | NotePart):
        return part.model_copy(update={"text": rewrite(part.text)})
    if isinstance(part, FilePart):
        return part.model_copy(update={"name": rewrite(part.name)})
    if isinstance(part, ToolCallPart):
        return part.model_copy(update={"input": _arguments(part.input, rewrite)})
    if isinstance(part, ToolResultPart):
        metadata = cast("dict[str, Any]", _json_moved(part.metadata, rewrite))
        # A background command belongs to the main session, and does not end with this branch.
        metadata.pop("job_id", None)
        return part.model_copy(update={"content": rewrite(part.content), "metadata": metadata})
    return part


def _arguments(text: str, rewrite: Callable[[str], str]) -> str:
    """Return the JSON of a call. Read and written again only where something changes, so that the rest keeps its
    bytes."""
    try:
        value: object = json.loads(text)
        new = _json_moved(value, rewrite)
    except (ValueError, RecursionError):
        return rewrite(text)  # a model may send broken JSON
    return text if new == value else json.dumps(new, ensure_ascii=False)


def _json_moved(value: object, rewrite: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {
            rewrite(key) if isinstance(key, str) else key: _json_moved(item, rewrite) for key, item in items
        }
    if isinstance(value, list | tuple):
        return [_json_moved(item, rewrite) for item in cast("Sequence[object]", value)]
    return value


def places_moved(known: Mapping[str, str], old: Path, new: Path) -> dict[str, str]:
    """Return the values by absolute path; paths inside ``old`` become the same paths in ``new``, others stay."""
    found: dict[str, str] = {}
    for name, value in known.items():
        path = Path(name)
        inside = path == old or old in path.parents
        found[str(new / path.relative_to(old)) if inside else name] = value
    return found
