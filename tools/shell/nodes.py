"""Parse any node of tree-sitter-bash: its parts, its words, and doubts about both. Pure.

The grammar and bash differ in places, so each byte must be accounted for: between the nodes that are understood there
may be only blanks, and each word is read once more (see ``bash_words``).
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from msgspec import field

from tools.localization import t
from tools.shell.bash_words import UnclearError, Word, WordReader, names

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tree_sitter import Language, Node, Tree

MAX_DEPTH = 40
LONGEST_PARSE_S = 1.0
"""Seconds of processor time. The longest ordinary lines take a tenth."""
_CHUNK = 16 * 1024

BLANK = re.compile(r"(?:[ \t]|\\\n)*")
LINES = re.compile(r"(?:[ \t\n]|\\\n)*")
_LISTS = names(
    "program list pipeline compound_statement subshell do_group if_statement elif_clause else_clause "
    "while_statement for_statement case_statement case_item command_substitution process_substitution array "
    "heredoc_redirect"
)
"""Nodes that may have line ends between their parts."""
STATEMENTS = names(
    "list pipeline command compound_statement subshell if_statement while_statement for_statement "
    "case_statement redirected_statement negated_command test_command declaration_command unset_command "
    "variable_assignment variable_assignments function_definition c_style_for_statement"
)
PLACES = frozenset(["command_substitution", "process_substitution", "expansion", "arithmetic_expansion"])


class NodeReader(WordReader):
    """Reads nodes of one line, whatever their kind; ``statement`` knows the kinds."""

    doubts: list[str] = field(default_factory=list[str])
    depth: int = 0

    def doubt(self, reason: str) -> None:
        """Mark the line as unclear, but continue: rules that deny later commands still apply."""
        self.doubts.append(reason)

    def understood(self, node: Node) -> bool:
        """Whether ``statement`` reads nodes of this kind."""
        raise NotImplementedError

    def statement(self, node: Node) -> object:
        """Read the commands of a node."""
        raise NotImplementedError

    def source(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte]

    def inside(self, node: Node) -> Iterator[Node]:
        """Yield the parts of a node except comments; between them there may be only blanks."""
        between = LINES if node.type in _LISTS else BLANK
        at = -1
        for child in node.children:
            if at >= 0 and between.fullmatch(self.text, at, child.start_byte) is None:
                self.doubt(t("the parser skips a part of it"))
            at = child.end_byte
            if child.type == "comment":
                self._comment(child)
            else:
                yield child

    def _comment(self, node: Node) -> None:
        start, end = node.start_byte, node.end_byte
        before = self.text[start - 1 : start]
        ends = end == len(self.text) or self.text[end] == "\n"
        if not ends or "\n" in self.text[start:end] or before not in ("", *" \t\n;&|()"):
            self.doubt(t("a comment that bash may read differently"))

    def between(self, one: Node, other: Node) -> str:
        return self.text[one.end_byte : other.start_byte]

    def apart(self, one: Node, other: Node) -> bool:
        """Return whether bash sees two words here as well."""
        gap = self.text[one.end_byte : other.start_byte]
        blank = BLANK.fullmatch(gap) is not None
        return blank and (gap.replace("\\\n", "") != "" or "redirect" in one.type or "redirect" in other.type)

    @contextmanager
    def deeper(self) -> Generator[None]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnclearError(t("it is nested too deeply"))
        yield
        self.depth -= 1

    def anything(self, node: Node) -> None:
        """All commands somewhere in a node that is not understood."""
        for child in node.children:
            if self.understood(child):
                self.statement(child)
            elif child.child_count:
                with self.deeper():
                    self.anything(child)

    def value(self, node: Node) -> Word:
        """Return the word of a node; one that cannot be read is not known, and the line is unclear."""
        after_it = self.text[node.end_byte : node.end_byte + 1]
        sure = after_it in ("", *" \t\n;&|()<>`") and (node.is_named or not node.is_missing)
        return self.read(node, node.start_byte, node.end_byte, sure=sure)

    def read(self, node: Node, start: int, end: int, *, sure: bool = True) -> Word:
        try:
            if not sure:
                raise UnclearError(t("the parser and bash may read it differently"))
            return self.word(start, end)
        except UnclearError as error:
            self.doubt(str(error))
            self.anything(node)
            source = self.real(start, end)
            return Word(source, known=False, source=source)


def parsed(raw: bytes) -> Tree | None:
    """Parse a line; None where that takes more than LONGEST_PARSE_S.

    The grammar recovers from errors in quadratic time: 64 KB of ``a@a@`` would take half a minute.
    """
    from tree_sitter import Parser

    ends = time.thread_time() + LONGEST_PARSE_S
    # A separate parser, because the callbacks let other threads run, which may parse too. Callbacks happen only when
    # the source is a function.
    parser = Parser(_language())
    try:
        return parser.parse(
            lambda at, _: raw[at : at + _CHUNK],
            progress_callback=lambda _at, _failed: time.thread_time() > ends,
        )
    except ValueError:  # interrupted
        return None


@cache
def _language() -> Language:
    # Imported here, because it takes 20 ms and many sessions run no command.
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
