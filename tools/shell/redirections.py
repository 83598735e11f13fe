"""The redirections of a command: files, here-documents, here-strings. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.localization import t
from tools.shell.bash_words import DOCUMENT, Pieces, UnclearError, Word, names
from tools.shell.command_line import Redirection
from tools.shell.nodes import PLACES

if TYPE_CHECKING:
    from tree_sitter import Node

    from tools.shell.nodes import NodeReader

_NO_FILES = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"))
_DELIMITER = re.compile(r"(['\"]?)([A-Za-z_][\w.-]*)\1\Z", re.ASCII)
_PLAIN = re.compile(r"[\w./+:@%,=][\w./+:@%,=-]*")
"""Text in which an expansion finds nothing to do."""
_OPERATORS = names("> >> >| &> &>> >& < <> <&")


class Redirections(Struct):
    """The redirections of one command; ``reader`` reads its line."""

    reader: NodeReader
    files: list[Redirection] = field(default_factory=list[Redirection])
    words: list[Word] = field(default_factory=list[Word])
    """Arguments that the grammar takes for more files."""
    stdin: Word | None = None
    follow: list[Node] = field(default_factory=list["Node"])
    """The parts behind a here-document in its line."""

    def add(self, node: Node) -> None:
        """Read one redirection."""
        reader = self.reader
        children = node.children if [*reader.inside(node)] else []
        descriptor = ""
        if children and children[0].type == "file_descriptor":
            descriptor = reader.source(children.pop(0))
            if (
                reader.text[node.start_byte - 1 : node.start_byte] not in ("", *" \t\n;&|()")
                or not descriptor.isdigit()
            ):
                reader.doubt(t("an unsupported redirection"))
        elif re.search(
            r"(?:^|[ \t;&|(])(?:[0-9]+|\{\w+\})\Z",
            reader.text[max(0, node.start_byte - 40) : node.start_byte],
        ):
            reader.doubt(t("an unsupported redirection"))
        operator = children.pop(0).type if children else ""
        if node.type == "heredoc_redirect":
            self._document(node, children)
        elif node.type == "herestring_redirect" and len(children) == 1:
            self.stdin = reader.value(children[0])
        elif node.type != "file_redirect" or operator not in _OPERATORS or not children:
            reader.doubt(t("an unsupported redirection"))
            reader.anything(node)
        else:
            self._file(operator, descriptor, children[0])
            # These are arguments, which the grammar takes for further files.
            self.words += [reader.value(child) for child in children[1:]]

    def _file(self, operator: str, descriptor: str, node: Node) -> None:
        reader = self.reader
        target = reader.value(node)
        if operator in (">&", "<&") and target.known and re.fullmatch(r"[0-9]+-?|-", target.text):
            return
        if operator == "<&" or (operator == ">&" and descriptor not in ("", "1")):
            reader.doubt(t("an unsupported redirection"))
            return
        if operator == ">&" and not (target.known and _PLAIN.fullmatch(target.text)):
            # Bash expands this word, removes its quotes, and expands what is left once more: >&'$(rm x)' runs rm.
            # "-" closes the descriptor, and what follows it is an argument: "a >& -b" runs "a b".
            reader.doubt(t("an unsupported redirection"))
        if node.type == "process_substitution" or (
            target.known and target.text in _NO_FILES and not target.glob
        ):
            return
        self.files.append(Redirection(operator, target, operator in ("<", "<>"), operator != "<"))

    def _document(self, node: Node, children: list[Node]) -> None:
        reader = self.reader
        kinds = {child.type: child for child in children}
        start, end, body = kinds.get("heredoc_start"), kinds.get("heredoc_end"), kinds.get("heredoc_body")
        given = _DELIMITER.match(reader.source(start)) if start is not None else None
        if (
            start is None
            or end is None
            or given is None
            or (
                reader.text.count("<<", start.end_byte, end.start_byte)
                and ("<<" in reader.text[start.end_byte : reader.text.find("\n", start.end_byte)])
            )
        ):
            reader.doubt(t("an unsupported here-document"))
            reader.anything(node)
            return
        tabs = reader.source(node).startswith("<<-") or node.children[0].type == "<<-"
        self.stdin = self._document_text(start, end, body, given, tabs=tabs)
        last = reader.text.find("\n", start.end_byte)
        for child in children:
            if child in (start, end, body) or child.type == "comment":
                continue
            if child.end_byte > last:
                reader.doubt(t("an unsupported here-document"))
            if child.type == "file_redirect":
                self.add(child)
            elif child.type == "herestring_redirect" or child.is_error:
                reader.doubt(t("an unsupported here-document"))
                reader.anything(child)
            else:
                self.follow.append(child)

    def _document_text(
        self, start: Node, end: Node, body: Node | None, given: re.Match[str], *, tabs: bool
    ) -> Word:
        """Return the text of a here-document; where it ends is looked up by bash's own rule."""
        reader = self.reader
        text, delimiter = reader.text, given[2]
        first = at = text.find("\n", start.end_byte) + 1
        while True:
            close = text.find("\n", at)
            line = text[at : close if close >= 0 else len(text)]
            if (line.lstrip("\t") if tabs else line) == delimiter:
                break
            if close < 0 or (not given[1] and line.endswith("\\")):
                raise UnclearError(t("an unsupported here-document"))
            at = close + 1
        if at + len(line) != end.end_byte or first == 0:
            reader.doubt(t("an unsupported here-document"))
        known, value = True, text[first:at]
        if not given[1]:
            pieces = Pieces()
            try:
                reader.quoted(first, at, pieces, DOCUMENT, "")
            except UnclearError as error:
                reader.doubt(str(error))
                if body is not None:
                    reader.anything(body)
            known, value = pieces.known, "".join(pieces.value)
        elif body is not None and body.child_count and any(child.type in PLACES for child in body.children):
            reader.doubt(t("an unsupported here-document"))
        source = reader.real(first, at)
        value = value.encode("latin-1").decode("utf-8", "surrogateescape")
        if tabs:
            value = re.sub(r"^\t+", "", value, flags=re.MULTILINE)
        return Word(value if known else source, known=known, source=source)
