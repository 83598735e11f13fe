"""Parse servers' answers about code: places, symbols, documentation. Pure.

Nothing is trusted: values that do not follow the protocol are left out, and sizes are limited.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsp_bridge.language_client.text.positions import file_of, wire_range
from tools.json_access import array, mapping
from tools.text.truncate import head

MAX_PLACES = 5_000
"""Most places in one answer; a longer one needs a narrower question."""
_MAX_DEPTH = 40
_MAX_NAME = 200
_MAX_HOVER = 8_000

WireRange = tuple[tuple[int, int], tuple[int, int]]

# LSP 3.17, SymbolKind: numbers start at 1.
_KINDS = (
    "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WirePlace:
    """A range of a file, lines and units as the server counts them (from 0)."""

    file: str
    """Absolute, links not followed."""
    range: WireRange


@dataclass(frozen=True, slots=True)
class WireSymbol:
    """A symbol. ``file`` is empty for one of the file that was asked about."""

    name: str
    kind: str
    file: str
    range: WireRange
    """Range of its name, where the server sends it."""
    container: str = ""


def places(result: object) -> list[WirePlace]:
    """Return the places of an answer: Location, a list of them, or of LocationLinks."""
    items = array(result) or [result]
    found: dict[WirePlace, None] = {}
    for item in items[:MAX_PLACES]:
        fields = mapping(item)
        link = fields.get("targetUri")
        file = file_of(fields.get("uri") if link is None else link)
        span = wire_range(fields.get("range") if link is None else fields.get("targetSelectionRange"))
        if link is not None and span is None:
            span = wire_range(fields.get("targetRange"))
        if file is not None and span is not None:
            found[WirePlace(file, span)] = None
    return list(found)


def symbols(result: object) -> list[WireSymbol]:
    """Symbols of a file (nested or flat) or of the workspace, in the server's order."""
    found: list[WireSymbol] = []
    stack = [(item, "", 0) for item in reversed(array(result)[:MAX_PLACES])]
    while stack and len(found) < MAX_PLACES:
        item, container, depth = stack.pop()
        fields = mapping(item)
        name = _line(fields.get("name"))
        if not name:
            continue
        location = mapping(fields.get("location"))
        span = wire_range(fields.get("selectionRange")) or wire_range(fields.get("range"))
        file: str | None = ""
        if location:
            # A WorkspaceSymbol may lack a range; then the file is the location.
            file, span = file_of(location.get("uri")), wire_range(location.get("range")) or ((0, 0), (0, 0))
        if file is not None and span is not None:
            inside = container or _line(fields.get("containerName"))
            found.append(WireSymbol(name, _kind(fields.get("kind")), file, span, inside))
        if depth < _MAX_DEPTH:
            path = f"{container}.{name}" if container else name
            children = array(fields.get("children"))[: MAX_PLACES - len(found)]
            stack += [(child, path, depth + 1) for child in reversed(children)]
    return found


def hover_text(result: object) -> str:
    """Markdown of a Hover: MarkupContent, MarkedString, or a list of those."""
    contents = mapping(result).get("contents")
    parts = array(contents) or [contents]
    text = "\n\n".join(filter(None, (_marked(part) for part in parts[:100]))).strip()
    return text if len(text) <= _MAX_HOVER else f"{head(text, _MAX_HOVER)}\n… (cut)"


def _marked(part: object) -> str:
    if isinstance(part, str):
        return part.strip()
    fields = mapping(part)
    value, language = fields.get("value"), fields.get("language")
    if not isinstance(value, str):
        return ""
    return f"```{language}\n{value.strip()}\n```" if isinstance(language, str) else value.strip()


def _kind(value: object) -> str:
    return _KINDS[value - 1] if type(value) is int and 1 <= value <= len(_KINDS) else "symbol"


def _line(value: object) -> str:
    return head(" ".join(head(value, _MAX_NAME * 2).split()), _MAX_NAME) if isinstance(value, str) else ""
