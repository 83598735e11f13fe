"""The words of a command line by bash's own rules: quotes, escapes, expansions. Pure.

The grammar (tree-sitter-bash) knows where commands are, but not what a word's value is, and it takes some blanks and
escapes otherwise than bash. So words are read here, and ``syntax.parse`` lets a line pass only when both agree.
Offsets are in bytes: the text is the line's UTF-8, one character for each byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.shell.state import State
from tools.shell.syntax import Word

PLAIN = re.compile(r"[^ \t\n;&|()<>'\"\\$`*?\[{~]+")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[)?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
INTEGER = re.compile(r"-?[0-9]+\Z")
_QUOTED = re.compile(r'[^"\\$`]+')
_HERE = re.compile(r"[^\\$`]+")
_IN_BRACES = re.compile(r"[^'\"\\$`{}<>]+")
_ARITHMETIC = re.compile(r"[A-Za-z0-9_ \t\n+*/%<>=!&|^~?:,.@#-]+")
_PARAMETER = re.compile(r"\$\{(#?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$_-])")
_OPERATOR = re.compile(r":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?")
_SUBSCRIPT = re.compile(r"\[(?:(-?[0-9]+|[@*])|\$?([A-Za-z_][A-Za-z0-9_]*))\]")
_SLICE = re.compile(
    r":[ ]*(?:\(?-?[0-9]+\)?|\$?[A-Za-z_][A-Za-z0-9_]*)(?::(?:-?[0-9]+|\$?[A-Za-z_][A-Za-z0-9_]*))?(?=\})"
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "?": "?"}
_NUMERIC = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3}))")
_HOME_IN_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=(?:.*:)?~", re.DOTALL)
_TRANSFORM = re.compile(r"@[QUuL]\}")
_COMPUTES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")
MAX_DEPTH = 40


class UnclearError(Exception):
    """The line cannot be read for certain; the message says why."""


@dataclass(slots=True)
class Read:
    """A word as it was read."""

    start: int
    end: int
    word: Word
    plain: bool
    """No quote, escape or expansion: it may be a reserved word."""
    raw: str
    quoted: bool
    """Any part of it stands in quotes."""


@dataclass(slots=True)
class WordReader:
    """Reads words from ``at`` on; ``substitute`` reads what stands in ``$(…)``."""

    text: str
    end: int
    substitute: Callable[[str, bool], None]
    """Parses a nested command list up to the closing character; the flag: its stdin comes from the line."""
    at: int = 0
    state: State = field(default_factory=State)
    doubts: list[str] = field(default_factory=list[str])
    spans: set[int] = field(default_factory=set[int])
    """Where the substitutions begin."""
    numbers: set[str] = field(default_factory=set[str])
    """Variables that arithmetic evaluates."""
    stale: set[str] = field(default_factory=set[str])
    """Variables that the command being read has assigned."""
    closed: int = -1
    """Where the last substitution ended."""
    depth: int = 0
    computing: int = 0
    ascii: bool = True

    def doubt(self, reason: str) -> None:
        """The line is unclear, but reading goes on: rules that deny what follows still bind."""
        if len(self.doubts) < 20:
            self.doubts.append(reason)

    def shown(self, start: int, end: int) -> str:
        """A part of the line as the person wrote it."""
        return self.real(self.text[start:end])

    def real(self, text: str) -> str:
        """Bytes back to characters."""
        return text if self.ascii else text.encode("latin-1").decode("utf-8", "surrogateescape")

    def raw(self, start: int, end: int) -> str:
        """Source without line continuations, except where single quotes keep them."""
        text = self.text[start:end]
        return self.real(text if "\\\n" not in text else _joined(text))

    def nested(self, closing: str, length: int, *, piped: bool | None = None) -> None:
        """A substitution that begins here with ``length`` characters."""
        self.spans.add(self.at)
        self.enter()
        self.at += length
        self.substitute(closing, bool(piped))
        self.closed = self.at
        self.depth -= 1

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnclearError("it is nested too deeply")

    def word(self, *, value: bool = False, pattern: bool = False) -> Read:
        """The word that begins here. ``value``: of an assignment, which is never split; ``pattern``: of ``[[``, where
        parentheses and ``|`` belong to the word."""
        text, start, limit = self.text, self.at, self.end
        if (match := PLAIN.match(text, start, limit)) and (
            match.end() == limit or text[match.end()] in " \n;)"
        ):
            # Most words are this simple.
            self.at = match.end()
            simple = self.real(match.group())
            return Read(start, self.at, Word(simple, source=simple), plain=True, raw=simple, quoted=False)
        out: list[str] = []
        known, glob, quoted, plain, brace, tilde = True, False, False, True, False, False
        parens = 0
        while self.at < limit:
            if match := PLAIN.match(text, self.at, limit):
                out.append(match.group())
                self.at = match.end()
                continue
            char = text[self.at]
            if char in " \t\n;&|()<>":
                if char in "<>" and text[self.at + 1 : self.at + 2] == "(" and not value and not pattern:
                    begin = self.at
                    self.nested(")", 2, piped=char == ">")
                    out.append(text[begin : self.at])
                    known = plain = False
                    continue
                if not pattern or char in " \t\n;&<>" or (char == ")" and not parens):
                    break
                parens += (char == "(") - (char == ")")
                out.append(char)
                self.at += 1
            elif char == "\\":
                if self.at + 1 >= limit:
                    raise UnclearError("it ends with a backslash")
                following = text[self.at + 1]
                self.at += 2
                if following != "\n":
                    out.append(following)
                    plain, quoted = False, True
            elif char == "'":
                close = text.find("'", self.at + 1, limit)
                if close < 0:
                    raise UnclearError("a quote is not closed")
                out.append(text[self.at + 1 : close])
                self.at = close + 1
                plain, quoted = False, True
            elif char == '"':
                part, sure = self.double_quoted()
                out.append(part)
                known, plain, quoted = known and sure, False, True
            elif char in "$`":
                part, sure = self.expansion(split=not value)
                out.append(part)
                known, plain = known and sure, plain and part == "$" and sure
            else:
                if char == "~":
                    tilde = tilde or self.at == start
                elif char == "{":
                    brace = True
                else:
                    glob = True
                out.append(char)
                self.at += 1
        if parens:
            raise UnclearError("parentheses in a pattern are not closed")
        source = self.raw(start, self.at)
        if glob and source == "[":
            glob = False
        if brace and not value and ("," in source or ".." in source):
            glob = True
        text_value = self.real("".join(out)) if known else source
        if tilde and not re.match(r"~(?:/|\Z)", source):
            known, text_value, tilde, plain = False, source, False, False
        if known and not value and "~" in source and _HOME_IN_VALUE.match(source):
            known, text_value = False, source
        made = Word(text_value, known=known, glob=glob and not value, source=source, tilde=tilde)
        return Read(start, self.at, made, plain and not tilde, source, quoted)

    def double_quoted(self) -> tuple[str, bool]:
        """What stands in the double quotes that begin here."""
        self.at += 1
        part, known = self._until('"', _QUOTED)
        if self.at >= self.end:
            raise UnclearError("a quote is not closed")
        self.at += 1
        return part, known

    def here_document(self, limit: int) -> tuple[str, bool]:
        """The body of a here-document from here to ``limit``, with its expansions."""
        outer, self.end = self.end, limit
        part, known = self._until("", _HERE)
        self.end = outer
        return part, known

    def _until(self, stop: str, ordinary: re.Pattern[str]) -> tuple[str, bool]:
        text, limit = self.text, self.end
        out: list[str] = []
        known = True
        while self.at < limit:
            if match := ordinary.match(text, self.at, limit):
                out.append(match.group())
                self.at = match.end()
                continue
            char = text[self.at]
            if char == stop:
                break
            if char == "\\":
                following = text[self.at + 1 : self.at + 2] if self.at + 1 < limit else ""
                escapes = following in ("$", "`", "\\", "\n") or (following == '"' and stop == '"')
                out.append(("" if following == "\n" else following) if escapes else char + following)
                self.at += 1 + len(following)
            else:
                part, sure = self.expansion(split=False, quoted=True)
                out.append(part)
                known = known and sure
        return "".join(out), known

    def expansion(self, *, split: bool, quoted: bool = False) -> tuple[str, bool]:
        """``$…`` or a backtick: its value and whether that is known, else its source."""
        text, start = self.text, self.at
        if text[start] == "`":
            self._backtick()
            return text[start : self.at], False
        following = text[start + 1 : start + 2] if start + 1 < self.end else ""
        if following == "(":
            if text.startswith("((", start + 1):
                self.arithmetic(3)
            else:
                self.nested(")", 2, piped=None)
        elif following == "{":
            return self._braces(split=split, quoted=quoted)
        elif match := NAME.match(text, start + 1, self.end):
            self.at = match.end()
            return self._variable(match.group(), start, split=split)
        elif following and following in "0123456789@*#?$!-":
            self.at = start + 2
            if self.computing and following not in "#?$!":
                self.doubt("arithmetic evaluates a parameter")
        elif following == "'" and not quoted:
            return self._ansi(), True
        elif following and (following in "[\\" or (following == '"' and not quoted)):
            raise UnclearError(f"${following} is not understood")
        else:
            self.at = start + 1
            return "$", True
        return text[start : self.at], False

    def _variable(self, name: str, start: int, *, split: bool) -> tuple[str, bool]:
        if self.computing:
            self.numbers.add(name)
        value = None if name in self.stale else self.state.variables.get(name)
        if value is None or (split and (not value or re.search(r"[\s*?\[\\]", value))):
            return self.text[start : self.at], False
        return value if self.ascii else value.encode("utf-8", "surrogateescape").decode("latin-1"), True

    def _backtick(self) -> None:
        close = self.text.find("`", self.at + 1, self.end)
        if close < 0:
            raise UnclearError("a backtick is not closed")
        if "\\" in self.text[self.at : close]:
            raise UnclearError("backslashes in backticks")
        outer, self.end = self.end, close
        self.nested("", 1)
        self.end = outer
        self.at = close + 1

    def _ansi(self) -> str:
        text, out = self.text, list[str]()
        self.at += 2
        while self.at < self.end and text[self.at] != "'":
            char = text[self.at]
            if char == "\\":
                following = text[self.at + 1 : self.at + 2]
                if match := _NUMERIC.match(text, self.at, self.end):
                    code = int(match[1], 16) if match[1] else int(match[2], 8)
                    char, self.at = chr(code), match.end() - 1
                elif following in _ESCAPES:
                    char, self.at = _ESCAPES[following], self.at + 1
                else:
                    raise UnclearError(f"$'…' with \\{following}")
                if not (" " <= char <= "~" or char in "\t\n"):
                    raise UnclearError("$'…' makes control characters")
            out.append(char)
            self.at += 1
        if self.at >= self.end:
            raise UnclearError("a quote is not closed")
        self.at += 1
        return "".join(out)

    def arithmetic(self, opening: int, *, closing: str = "))", extra: str = "") -> None:
        """An arithmetic expression up to ``))``; what could run a command in it is unclear."""
        if opening == 3:
            self.spans.add(self.at)
        self.enter()
        self.computing += 1
        self.at += opening
        text, limit, parens, begin = self.text, self.end, 0, self.at
        while True:
            if self.at >= limit:
                raise UnclearError("arithmetic is not closed")
            char = text[self.at]
            if match := _ARITHMETIC.match(text, self.at, limit):
                self.at = match.end()
                self.numbers.update(NAME.findall(match.group()))
            elif char == "(":
                parens += 1
                self.at += 1
            elif char == ")" and parens:
                parens -= 1
                self.at += 1
            elif char == ")" and text.startswith(closing, self.at):
                break
            elif char == "$":
                if text.startswith("$(", self.at) and not text.startswith("$((", self.at):
                    self.doubt("arithmetic evaluates what a command prints")
                self.expansion(split=False, quoted=True)
            elif char in extra:
                self.at += 1
            elif char == "[" and (match := _SUBSCRIPT.match(text, self.at, limit)):
                if match[2]:
                    self.numbers.add(match[2])
                self.at = match.end()
            else:
                raise UnclearError("arithmetic that is not understood")
        expression = text[begin : self.at]
        if _COMPUTES.search(expression):
            self.state = self.state.without(NAME.findall(expression))
        self.at += len(closing)
        self.computing -= 1
        self.depth -= 1

    def _braces(self, *, split: bool, quoted: bool) -> tuple[str, bool]:
        text, start, limit = self.text, self.at, self.end
        match = _PARAMETER.match(text, start, limit)
        if match is None:
            raise UnclearError("${…} that is not understood")
        name = match[2]
        self.at = match.end()
        subscript = _SUBSCRIPT.match(text, self.at, limit)
        if subscript:
            if subscript[2]:
                self.numbers.add(subscript[2])
            self.at = subscript.end()
        if self.at < limit and text[self.at] == "}":
            self.at += 1
            if not match[1] and not subscript and NAME.fullmatch(name):
                return self._variable(name, start, split=split)
            if self.computing and not match[1]:
                self.doubt("arithmetic evaluates a parameter")
            return text[start : self.at], False
        if match[1]:
            raise UnclearError("${#…} that is not understood")
        if self.computing:
            self.doubt("arithmetic evaluates an expansion")
        if transform := _TRANSFORM.match(text, self.at, limit):
            self.at = transform.end()
        elif piece := _SLICE.match(text, self.at, limit):
            self.numbers.update(NAME.findall(piece.group()))
            self.at = piece.end() + 1
        elif operator := _OPERATOR.match(text, self.at, limit):
            self.at = operator.end()
            if operator.group() in ("=", ":="):
                self.state = self.state.without((name,))
                self.assigned(name)
            self._operand(quoted=quoted)
        else:
            raise UnclearError("${…} that is not understood")
        return text[start : self.at], False

    def assigned(self, name: str) -> None:
        """A variable gets a value that is not known."""

    def _operand(self, *, quoted: bool) -> None:
        text, limit = self.text, self.end
        self.enter()
        while self.at < limit:
            char = text[self.at]
            if match := _IN_BRACES.match(text, self.at, limit):
                self.at = match.end()
            elif char == "}":
                self.at += 1
                self.depth -= 1
                return
            elif char in "$`":
                self.expansion(split=False, quoted=quoted)
            elif char == "\\" and self.at + 1 < limit and text[self.at + 1] != "\n":
                self.at += 2
            elif char == '"' and not quoted:
                self.double_quoted()
            elif char == "'" and not quoted:
                close = text.find("'", self.at + 1, limit)
                if close < 0:
                    break
                self.at = close + 1
            else:
                break
        raise UnclearError("${…} that is not understood")


def _joined(text: str) -> str:
    """Without backslash-newline, which is nothing at all outside of single quotes."""
    out: list[str] = []
    at, quote = 0, ""
    while at < len(text):
        char = text[at]
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            pair = text[at : at + 2]
            out.append("" if pair == "\\\n" else pair)
            at += 2
            continue
        elif char == '"':
            quote = "" if quote else '"'
        elif char == "'" and not quote:
            quote = "'"
        out.append(char)
        at += 1
    return "".join(out)
