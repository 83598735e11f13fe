"""Read the value of a word of a command line at its place in the syntax tree: quotes, escapes, expansions.

The tree has the beginning and end of a word. Its text is read here once more, strictly: anything that may mean
something else to bash raises ``UnclearError``. Offsets are in bytes: the text is the line's UTF-8, one character for
each byte.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tools.localization import t

if TYPE_CHECKING:
    from tree_sitter import Node


def names(text: str) -> frozenset[str]:
    """Return the blank-separated words of a table's cell."""
    return frozenset(text.split())


def data(file: str) -> list[str]:
    """Return the records of a file of rows beside this one; a line that begins with a blank belongs to the one
    before."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return [record for record in re.split(r"\n+(?! )", text.strip()) if not record.startswith("#")]


class Word(Struct, frozen=True):
    """A word of a command. ``text`` is its value when ``known``, else its source."""

    text: str
    known: bool = True
    """False: an expansion decides at run time ($x, $(…), arithmetic)."""
    glob: bool = False
    """``*``, ``?``, ``[…]`` or braces outside of quotes: the shell makes any number of file names of it."""
    source: str = ""
    """Text of the word in the line."""
    tilde: bool = False
    """It begins with an unquoted ``~`` or ``~/``: the home folder. Without this, ``~`` is a letter of a file name."""


class UnclearError(Exception):
    """Raised when the line cannot be read with certainty; the message says why."""


_PLAIN = re.compile(r"[^ \t\n;&|()<>'\"\\$`*?\[\]{}~]+")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
DOCUMENT = re.compile(r"[^\\$`]+")
_OPERAND = re.compile(r"[^'\"\\$`{}<>()&;|]+")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_BARE_DOLLAR = re.compile(r"\$(?=[ \t\n\"/.:,=%+@^;&|)]|\Z)")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\[\s\S])*)'")
_ANSI_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|([\s\S]))")
_ANSI_LETTERS = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "?": "?"}
_EXPANSION = re.compile(r"\$\{(#?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?])(\[(?:[0-9]+|[@*])\])?")
_OPERATOR = re.compile(r":?[-+?]|##?|%%?|/[/#%]?|\^\^?|,,?|:[ ]?-?[0-9]+(?::-?[0-9]+)?(?=\})")
_ARITHMETIC = re.compile(r"[A-Za-z0-9_ \t\n+*/%<>=!&|^~?:,().-]+|\$#|\$\??[A-Za-z_]\w*|\$\{#?[A-Za-z_]\w*\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# ``PATH=1`` in arithmetic sets the PATH of later commands; variables of scripts are lower case.
_SETTING = r"\b[A-Z_][A-Z0-9_]*\b"
_ASSIGNS = re.compile(
    rf"{_SETTING}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{_SETTING}|{_SETTING}\s*(?:\+\+|--)"
)
_BRACES = re.compile(r"[{},]|\.\.")
_SPLITS = re.compile(r"[\s*?\[\]{}~'\"\\$`]")
_HOME_IN_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=(?:.*:)?~", re.DOTALL)

_FILE = r"(?:[\w./@:%+,][\w./@:%+,~^{}-]*|'[^']*'|\"[^\"$`\\]*\")"
_COUNTS = "|".join(
    (
        rf"wc[ \t]+(?:-[lwcmL]|--lines|--words|--chars|--bytes)(?:[ \t]*<[ \t]*{_FILE})?",
        # With several files, grep and wc also print the names.
        rf"grep[ \t]+-(?:[ivwxEFqsn]*c[ivwxEFqsn]*)[ \t]+{_FILE}(?:[ \t]+{_FILE})?",
        r"nproc",
        r"date[ \t]+(?:-u[ \t]+)?['\"]?\+%[sYmdHMSjN]['\"]?",
        rf"git[ \t]+rev-list[ \t]+--count[ \t]+{_FILE}(?:[ \t]+--[ \t]+{_FILE})?",
    )
)
# The start of the pipeline is not visible to the parser of the number.
_BEFORE = r"(?:[^()$`;&|\n'\"\\]|'[^'\n]*'|\"[^\"$`\\\n]*\")*\|(?!\|)[ \t]*"
_NUMBER = (
    rf"(?:-?[0-9]+|\$\(\([^()$]*\)\)|\$[#?]|\$\{{#[A-Za-z_]\w*(?:\[[@*]\])?\}}|"
    rf"\$\([ \t]*(?:{_BEFORE})*(?:{_COUNTS})(?:[ \t]+2>[ \t]*/dev/null)?[ \t]*\))"
)
_IS_NUMBER = re.compile(rf'(?:{_NUMBER}|"{_NUMBER}")\Z')
_NUMBERS = (
    rf"=(?:{_NUMBER}|\"{_NUMBER}\"|)(?=[ \t\n;&|)]|\Z)|"
    r"[ ]in(?:[ ]+(?:[0-9]+|\$\(seq [0-9 ]+\)|\{[0-9.]+\}))+[ ]*[;\n]"
)


MAX_NUMBERS = 50


def is_number(source: str) -> bool:
    """Return whether a word of the line, as written, can only become a number (or nothing)."""
    return len(source) < 500 and _IS_NUMBER.match(source) is not None


class WordReader(Struct):
    """Reads words of one line. ``places``: starts of substitutions and expansions, from the tree."""

    text: str
    places: dict[int, Node] = field(default_factory=dict[int, "Node"])
    variables: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Values that are certain from a place of the line on."""
    numbers: set[str] = field(default_factory=set[str])
    """Variables that arithmetic evaluates: each must be a number for certain."""
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Spans of arithmetic."""

    def nested(self, node: Node) -> None:
        """The commands of a substitution."""
        raise NotImplementedError

    def real(self, start: int, end: int) -> str:
        """Return a part of the line in characters."""
        return _characters(self.text[start:end])

    def word(self, start: int, end: int) -> Word:
        """Return the word at this place."""
        match = _PLAIN.match(self.text, start, end)
        if match is not None and match.end() == end and self.text[start] != "#":
            # Most words are this simple.
            text = self.real(start, end)
            return Word(text, source=text)
        found, known = Pieces(), self.text[start : start + 1] != "#"
        at = start
        if not known:
            raise UnclearError(t("a comment that the parser does not see"))
        while at < end:
            at = self._piece(at, start, end, found)
        source = self.real(start, end)
        bare = "".join(found.bare)
        value = _characters("".join(found.value))
        # A quoted wildcard is none; nor is one that only begins a bracket.
        glob = re.search(r"[*?]|\[.*\]", bare, re.DOTALL) is not None or _has_brace_expansion(bare)
        tilde = bare.startswith("~")
        known = found.known and (not tilde or value == "~" or value.startswith("~/"))
        known = known and _HOME_IN_VALUE.match(bare) is None
        return Word(value if known else source, known, glob, source, tilde and known)

    def _piece(self, at: int, start: int, end: int, found: Pieces) -> int:
        text, char = self.text, self.text[at]
        if match := _PLAIN.match(text, at, end):
            found.add(match.group(), match.group())
            return match.end()
        if char in "*?[]{}~":
            found.add(char, char if char != "~" or at == start or text[at - 1] in "=:" else "_")
            return at + 1
        if char == "\\" and at + 1 < end and text[at + 1] != "\n":
            found.add(text[at + 1])
            return at + 2
        if char == "'" and (close := text.find("'", at + 1, end)) > 0:
            found.add(text[at + 1 : close])
            return close + 1
        if char == '"':
            return self.quoted(at + 1, end, found, _IN_QUOTES, '"')
        if char in "$`" or (char in "<>" and text[at + 1 : at + 2] == "("):
            if char == "$" and (match := _ANSI.match(text, at, end)):
                found.add(_ansi(match[1]))
                return match.end()
            return self._expansion(at, end, found, split=True)
        raise UnclearError(t("{char!r} in a place where bash may read it differently", char=char))

    def quoted(self, at: int, end: int, found: Pieces, plain: re.Pattern[str], closing: str) -> int:
        """Read the text in double quotes, or in a here-document; returns where it ends."""
        while at < end:
            char = self.text[at]
            if char == closing:
                found.bare.append("_")
                return at + 1
            if match := plain.match(self.text, at, end):
                found.add(match.group())
                at = match.end()
            elif char == "\\":
                escaped = self.text[at + 1 : at + 2]
                if escaped == "\n":
                    raise UnclearError(t("a line that continues in quotes"))
                found.add(escaped if escaped in ("\\", "$", "`", closing) else "\\" + escaped)
                at += 2
            else:
                at = self._expansion(at, end, found, split=False)
        if closing:
            raise UnclearError(t("a quote without an end"))
        return at

    def _expansion(self, at: int, end: int, found: Pieces, *, split: bool) -> int:
        """Read ``$x``, ``${x}``, ``$(…)``, ``$((…))``, backticks, ``<(…)``; ``split``: it is not in quotes."""
        text = self.text
        node = self.places.get(at)
        value: str | None = None
        if node is None:
            bare = None if split and text.startswith('$"', at) else _BARE_DOLLAR.match(text, at, end + 1)
            match = _VARIABLE.match(text, at, end) or bare
            if match is None:
                raise UnclearError(t("an unsupported expansion"))
            value = self._value(match[1], at) if match.lastindex else "$"
            stop = match.end()
        else:
            stop = node.end_byte
            if stop > end:
                raise UnclearError(t("the parser and bash may read it differently"))
            if node.type == "expansion":
                value = self._parameter(at, stop)
            elif node.type == "arithmetic_expansion":
                self.arithmetic(at, stop)
            elif text.startswith("$((", at):
                # In a here-document the grammar takes arithmetic for commands in a subshell.
                if re.search("[()]", text[at + 3 : stop - 2]):
                    raise UnclearError(t("the parser and bash may read it differently"))
                self.arithmetic(at, stop)
            else:
                if text[at] == "`" and "\\" in text[at:stop]:
                    raise UnclearError(t("unsupported backticks"))
                self.nested(node)
        if value is None or (split and value != "$" and (not value or _SPLITS.search(value))):
            found.known = False
            found.add(text[at:stop])
        else:
            found.add(value)
        return stop

    def _value(self, name: str, at: int) -> str | None:
        known = self.variables.get(name)
        return known[1] if known is not None and known[0] <= at else None

    def _parameter(self, at: int, end: int) -> str | None:
        match = _EXPANSION.match(self.text, at, end)
        if match is None:
            raise UnclearError(t("an unsupported expansion"))
        if match.end() == end - 1 and self.text[end - 1] == "}":
            return self._value(match[2], at) if not match[1] and not match[3] else None
        operator = _OPERATOR.match(self.text, match.end(), end)
        if operator is None or match[1]:
            raise UnclearError(t("an unsupported expansion"))
        here, ignored = operator.end(), Pieces()
        while here < end - 1:
            if plain := _OPERAND.match(self.text, here, end - 1):
                here = plain.end()
            elif self.text[here] in "$`":
                here = self._expansion(here, end - 1, ignored, split=False)
            else:
                raise UnclearError(t("an unsupported expansion"))
        if here != end - 1 or self.text[here] != "}":
            raise UnclearError(t("an unsupported expansion"))
        return None

    def arithmetic(self, start: int, end: int) -> None:
        """``$((…))`` or ``((…))``: only numbers, and variables that hold numbers."""
        text, at = self.text, start + (3 if self.text[start] == "$" else 2)
        self.spans.append((start, end))
        if not self.text.startswith(("((", "$(("), start) or not self.text.endswith("))", start, end):
            raise UnclearError(t("unsupported arithmetic"))
        if _ASSIGNS.search(self.text, at, end - 2):
            raise UnclearError(t("arithmetic sets a variable that programs may use"))
        while at < end - 2:
            node = self.places.get(at)
            if node is not None and node.type == "command_substitution":
                if not is_number(self.text[at : node.end_byte]):
                    raise UnclearError(t("arithmetic evaluates a string"))
                self.nested(node)
                at = node.end_byte
                continue
            match = _ARITHMETIC.match(text, at, end - 2)
            if match is None:
                raise UnclearError(t("unsupported arithmetic"))
            self.numbers.update(_NAME.findall(match.group()))
            at = match.end()

    def texts_in_arithmetic(self) -> bool:
        """Return whether a variable that arithmetic evaluates may hold something else than a number."""
        if len(self.numbers) > MAX_NUMBERS:
            return True
        for name in self.numbers:
            for found in re.finditer(rf"(?<![\w$%./-])(?<!\$\{{)(?<!\$\{{#){name}\b", self.text):
                if any(start <= found.start() < end for start, end in self.spans):
                    continue
                if re.match(_NUMBERS, self.text[found.end() : found.end() + 500]) is None:
                    return True
        return False


class Pieces(Struct):
    """A word while it is read. ``bare``: unquoted text, with ``_`` for quoted parts."""

    value: list[str] = field(default_factory=list[str])
    bare: list[str] = field(default_factory=list[str])
    known: bool = True

    def add(self, value: str, bare: str = "_") -> None:
        self.value.append(value)
        self.bare.append(bare)


def _has_brace_expansion(bare: str) -> bool:
    """Return whether a pair of braces has a comma or two dots of its own, as in ``{a,{}}`` but not in ``{a},{b}``."""
    separated: list[bool] = []
    for found in _BRACES.findall(bare):
        if found == "{":
            separated.append(False)
        elif not separated:
            continue
        elif found != "}":
            separated[-1] = True
        elif separated.pop():
            return True
    return False


def _ansi(text: str) -> str:
    def value(found: re.Match[str]) -> str:
        if found[3] is None:
            return chr(int(found[1], 16) if found[1] else int(found[2], 8) & 255)
        if found[3] not in _ANSI_LETTERS:
            raise UnclearError(t("an unsupported escape"))
        return _ANSI_LETTERS[found[3]]

    value_ = _ANSI_ESCAPE.sub(value, text)
    if "\0" in value_:
        raise UnclearError(t("an unsupported escape"))
    return value_


def _characters(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")
