"""Reads the YAML between the ``---`` lines of a Markdown file into texts, lists and mappings, with line numbers.

The files are untrusted. YAML is composed and never constructed, so no tag makes an object, and every scalar is its
literal text (``no`` is no boolean, ``1.0`` no number). Aliases are rejected: a few lines of them can mean gigabytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaml import Node

MAX_HEAD = 50_000
"""Characters."""
_DEPTH = 8
# Lines that YAML too reads as a key and its text.
_FLAT = re.compile(
    r"([A-Za-z_]\w*): +(?:([A-Za-z](?:[\w ,.;()/!-]*[\w,.;()/!-])?)|\"([ !#-\[\]-~]*)\") *"  # without escapes
)
_FENCE = re.compile(r"---[ \t]*")
# Invisible characters before the front matter: blank lines, spaces, byte order marks.
_UNSEEN = re.compile(r"[\s\ufeff\u200b-\u200d\u2060]*")

Value = str | list["Value"] | dict[str, "Value"]


class OwnFileError(Exception):
    """The file cannot be used; the message says why, where, and what to do."""


class FrontMatterValue(Struct, frozen=True):
    """The value of a key, and its line in the file, from 1."""

    value: Value
    line: int


class Document(Struct, frozen=True):
    """A Markdown file: its front matter by key, in the order of the file, and its body."""

    head: Mapping[str, FrontMatterValue]
    body: str
    body_line: int = 1
    """Line of the file where the body begins, counted from 1."""


def read_document(text: str) -> Document:
    """Take a file apart. One without a head is all body. Raises OwnFileError."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if not _UNSEEN.fullmatch(line)), None)
    if start is None:
        return Document({}, "")
    lines[start] = lines[start][_unseen(lines[start]) :]
    if _FENCE.fullmatch(lines[start]) is None:
        return Document({}, "\n".join(lines[start:]).strip(), start + 1)
    end = next((at for at in range(start + 1, len(lines)) if _FENCE.fullmatch(lines[at])), None)
    if end is None:
        raise OwnFileError(
            t(
                "line {start}: the front matter that starts here has no end; put --- on a line after it",
                start=start + 1,
            )
        )
    head = lines[start + 1 : end]
    if sum(map(len, head)) > MAX_HEAD:
        raise OwnFileError(
            t(
                "line {start}: the front matter is longer than {max_head:,} characters; shorten it",
                start=start + 1,
                max_head=MAX_HEAD,
            )
        )
    entries = _flat(head, start + 2)
    body = next((at for at in range(end + 1, len(lines)) if not _UNSEEN.fullmatch(lines[at])), len(lines))
    return Document(
        # Lines above the front matter are replaced by empty ones, so that YAML's line numbers fit.
        _yaml("\n" * start + "\n".join(head)) if entries is None else entries,
        "\n".join(lines[body:]).strip(),
        body + 1,
    )


def _unseen(line: str) -> int:
    found = _UNSEEN.match(line)
    return 0 if found is None else found.end()


def _flat(lines: list[str], first: int) -> dict[str, FrontMatterValue] | None:
    """Read plain and quoted ``key: text`` lines without YAML, which takes 20 ms to import; None when there is more."""
    found: dict[str, FrontMatterValue] = {}
    for number, line in enumerate(lines, first):
        match = _FLAT.fullmatch(line)
        if match is None or match[1] in found:
            return None
        found[match[1]] = FrontMatterValue(match[2] or match[3], number)
    return found


def _yaml(text: str) -> dict[str, FrontMatterValue]:
    import yaml

    try:
        root = yaml.SafeLoader(text).get_single_node()
        return {} if root is None else _Reader().entries(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 2
        raise OwnFileError(
            t(
                "line {line}: {problem}; {text}",
                line=line,
                problem=error.problem or t("this is not valid YAML"),
                text=_hint(text, line),
            )
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise OwnFileError(
            t("the front matter is not valid YAML: {splitlines}", splitlines=str(error).splitlines()[0])
        ) from error
    except RecursionError:
        raise OwnFileError(t("the front matter is nested too deeply")) from None


def _hint(text: str, line: int) -> str:
    lines = text.splitlines()
    shown = lines[line - 2] if 2 <= line < len(lines) + 2 else ""
    if re.search(r"(?:^|[\s\[,])[*!&]", shown):
        return t('quote values that begin with *, ! or &, e.g. "*"')
    if shown.count(": ") > 1:
        return t('quote text that contains a colon, e.g. description: "Use it: always"')
    return (
        t("YAML cannot be indented with tabs: use spaces")
        if "\t" in shown
        else t("check the indentation and the quotes")
    )


class _Reader:
    def __init__(self) -> None:
        self._seen: set[int] = set()

    def entries(self, root: Node) -> dict[str, FrontMatterValue]:
        """Return the keys of the head itself."""
        from yaml import MappingNode

        if not isinstance(root, MappingNode):
            raise OwnFileError(t("line 2: the front matter must be lines like `description: what it does`"))
        return {key: FrontMatterValue(value, line) for key, value, line in self._pairs(root, 1)}

    def _pairs(self, node: Node, depth: int) -> list[tuple[str, Value, int]]:
        from yaml import ScalarNode

        found: dict[str, tuple[str, Value, int]] = {}
        for key, value in node.value:
            line = key.start_mark.line + 2
            if not isinstance(key, ScalarNode):
                raise OwnFileError(t("line {line}: a key must be a string", line=line))
            name = str(key.value)
            if name == "<<":
                raise OwnFileError(
                    t("line {line}: merge keys (<<) are not supported; write the values out", line=line)
                )
            if name in found:
                raise OwnFileError(
                    t("line {line}: {name!r} appears twice; keep one of them", line=line, name=name)
                )
            found[name] = (name, self._value(value, depth + 1), line)
        return list(found.values())

    def _value(self, node: Node, depth: int) -> Value:
        from yaml import MappingNode, ScalarNode, SequenceNode

        line = node.start_mark.line + 2
        if id(node) in self._seen:
            raise OwnFileError(
                t(
                    "line {line}: anchors and aliases (&name, *name) are not supported; write the value "
                    "out, or quote the *",
                    line=line,
                )
            )
        self._seen.add(id(node))
        if depth > _DEPTH:
            raise OwnFileError(t("line {line}: this is nested too deeply", line=line))
        if isinstance(node, ScalarNode):
            return str(node.value)
        if isinstance(node, SequenceNode):
            return [self._value(item, depth + 1) for item in node.value]
        if isinstance(node, MappingNode):
            return {key: value for key, value, _ in self._pairs(node, depth)}
        raise OwnFileError(t("line {line}: this cannot be read", line=line))
