"""The grammar of bash, walked down over a command line: which simple commands, where, with what. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tools.shell.compound import compound
from tools.shell.draft import Draft, HereDocument
from tools.shell.effects import SHADOWS
from tools.shell.numbers import is_number
from tools.shell.simple import redirections, simple
from tools.shell.state import DANGEROUS, ENVIRONMENT, EVALUATED, UNKNOWABLE, State, join
from tools.shell.syntax import Simple, Word
from tools.shell.words import INTEGER, UnclearError, WordReader

_NOT_NEWLINE = re.compile(r"[^\n]")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
MAX_COMMANDS = 5000


@dataclass(slots=True)
class Walk(WordReader):
    """One line. ``drafts`` grow while it is read; ``commands()`` reads it."""

    starts: set[int] = field(default_factory=set[int])
    """Where commands begin, to compare with the grammar's tree."""
    drafts: list[Draft] = field(default_factory=list[Draft])
    documents: list[tuple[Draft, HereDocument]] = field(default_factory=list[tuple[Draft, HereDocument]])
    pending: list[HereDocument] = field(default_factory=list[HereDocument])
    functions: set[str] = field(default_factory=set[str])
    called: set[str] = field(default_factory=set[str])
    texts: set[str] = field(default_factory=set[str])
    """Variables that may hold something else than an integer."""
    fixed: set[str] = field(default_factory=set[str])
    """Variables that an assignment may not reach (readonly, integer, …)."""
    arrays: set[str] = field(default_factory=set[str])
    declared: set[str] = field(default_factory=set[str])
    """Variables that ``declare`` gives a value that is not known: for an array, it would be evaluated."""
    wild: bool = False
    """Any variable may have been given any value."""
    hidden: dict[int, str] = field(default_factory=dict[int, str])
    """Pieces of bash that the grammar does not know (``time``, ``<>``), by where they begin, and what of the same
    length it reads in their place."""
    piped: bool = False
    redirected: bool = False
    """``exec <`` has changed the shell's own stdin."""
    moves: int = 0

    @classmethod
    def of(cls, raw: bytes, variables: Mapping[str, str]) -> Walk:
        text = raw.decode("latin-1")
        walk = cls(text, len(text), lambda _closing, _piped: None, ascii=raw.isascii())
        walk.substitute = walk.substitution
        walk.state = State(dict(variables))
        walk.texts.update(variables)
        return walk

    def commands(self) -> tuple[Simple, ...]:
        """Read the line to its end, or to where it cannot be read."""
        try:
            self.commands_until("", empty=True)
            if self.at < self.end:
                raise UnclearError(f"{self.text[self.at]!r} stands where bash expects none")
            if self.pending:
                raise UnclearError("a here-document has no end")
        except UnclearError as error:
            self.doubts.insert(0, str(error))
        for draft, document in self.documents:
            draft.stdin = document.body
        if self.functions & self.called & SHADOWS:
            self.doubt("a function has the name of a command")
        if self.numbers and (self.wild or self.numbers & self.texts):
            self.doubt("arithmetic evaluates a text")
        if self.arrays & self.declared:
            self.doubt("a text is evaluated as an array")
        made: list[Simple] = []
        for draft in sorted(self.drafts, key=lambda draft: draft.start):
            for folder in draft.folders or (None,):
                made.append(
                    Simple(
                        draft.words,
                        draft.assignments,
                        draft.redirections,
                        draft.text,
                        folder,
                        draft.stdin,
                        draft.piped,
                    )
                )
        return tuple(made)

    # Blanks, comments, ends of lines

    def blanks(self) -> None:
        text, at = self.text, self.at
        if at < self.end and text[at] in " \t\\" and (match := _BLANKS.match(text, at, self.end)):
            self.at = match.end()

    def char(self) -> str:
        return self.text[self.at] if self.at < self.end else ""

    def comment(self) -> None:
        close = self.text.find("\n", self.at, self.end)
        self.at = self.end if close < 0 else close

    def newline(self) -> None:
        """The end of a line: after it come the here-documents that the line began."""
        self.at += 1
        while self.pending:
            self.here(self.pending.pop(0))

    def lines(self) -> None:
        """Blanks, comments and ends of lines."""
        while True:
            self.blanks()
            char = self.char()
            if char == "\n":
                self.newline()
            elif char == "#":
                self.comment()
            else:
                return

    def here(self, document: HereDocument) -> None:
        """Read the body of a here-document that begins here."""
        start, at = self.at, self.at
        while True:
            if at >= self.end:
                raise UnclearError("a here-document has no end")
            close = self.text.find("\n", at, self.end)
            last = self.end if close < 0 else close
            line = self.text[at:last]
            joined = line
            while not document.literal and _continues(joined) and last < self.end:
                close = self.text.find("\n", last + 1, self.end)
                following = self.end if close < 0 else close
                joined = joined[:-1] + self.text[last + 1 : following]
                last = following
            if (joined.lstrip("\t") if document.tabs else joined) == document.delimiter:
                break
            at = last + 1
        body = self.text[start:at]
        known = True
        if document.literal:
            # The grammar takes blanks before the delimiter, and more, otherwise than bash; what is in it is text.
            self.hidden[start] = _NOT_NEWLINE.sub(".", body)
        else:
            state, self.state = self.state, document.state
            body, known = self.here_document(at)
            self.state = state
        if document.tabs:
            body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
        source = self.shown(start, at)
        document.body = Word(self.real(body) if known else source, known=known, source=source)
        self.at = min(last + 1, self.end)

    # Lists and pipes

    def substitution(self, closing: str, piped: bool) -> None:
        """The commands of ``$(…)``, ``<(…)``, backticks: a shell of their own."""
        if self.pending:
            raise UnclearError("a substitution on the line of a here-document")
        state, was_piped, computing = self.state, self.piped, self.computing
        moves, commands, documents = self.moves, len(self.drafts), len(self.documents)
        self.piped, self.computing = piped or was_piped, 0
        self.commands_until(closing, empty=True)
        if self.pending:
            raise UnclearError("a here-document has no end")
        if len(self.documents) > documents and len(self.drafts) > commands + 1:
            # Bash writes the commands of ``$(…)`` anew before it runs them, and loses separators after such ones.
            self.doubt("a here-document beside other commands in a substitution")
        if closing:
            self.expect(closing)
        elif self.at < self.end:
            raise UnclearError("backticks that are not understood")
        self.state, self.piped, self.computing, self.moves = state, was_piped, computing, moves

    def expect(self, closing: str) -> None:
        if self.char() != closing:
            raise UnclearError(f"{closing} is missing")
        self.at += 1

    def commands_until(self, *closing: str, empty: bool = False) -> tuple[State | None, State | None]:
        """Commands up to a closing word or character, which is left. Where it leads when it works and when it fails."""
        yes: State | None = self.state
        no: State | None = None
        count = 0
        while True:
            self.lines()
            if self.at >= self.end or self.closes(closing):
                if not count and not empty:
                    raise UnclearError("a command is missing")
                return yes, no
            count += 1
            before = self.state
            yes, no = self.and_or()
            self.blanks()
            char = self.char()
            if char == "&":
                self.at += 1
                yes, no = before, None
            elif char == ";" and self.text[self.at + 1 : self.at + 2] not in (";", "&"):
                self.at += 1
            self.state = self.either(yes, no)
            if char not in ("&", ";", "\n", "#") and self.at < self.end and not self.closes(closing):
                raise UnclearError(f"{char!r} stands where bash expects none")

    def either(self, yes: State | None, no: State | None) -> State:
        """What is known after it; of a place that is never reached nothing is."""
        return join(yes, no) or self.state.forgetful().lost()

    def closes(self, closing: tuple[str, ...]) -> bool:
        for word in closing:
            if word and self.text.startswith(word, self.at, self.end):
                if word[0] in ");":
                    return True
                after_word = self.text[self.at + len(word) : self.at + len(word) + 1]
                if self.at + len(word) >= self.end or after_word in " \t\n;&|()<>":
                    return True
        return False

    def and_or(self) -> tuple[State | None, State | None]:
        yes, no = self.pipeline()
        while True:
            self.blanks()
            operator = self.text[self.at : self.at + 2]
            if self.at + 2 > self.end or operator not in ("&&", "||"):
                return yes, no
            self.at += 2
            self.lines()
            if operator == "&&":
                self.state = self.either(yes, None)
                yes, other = self.pipeline()
                no = join(no, other)
            else:
                self.state = self.either(no, None)
                other, no = self.pipeline()
                yes = join(yes, other)

    def pipeline(self) -> tuple[State | None, State | None]:
        before, was_piped, negated, several = self.state, self.piped, False, False
        prefixed = False
        while True:
            self.blanks()
            start = self.at
            if self.keyword("!"):
                negated = not negated
            elif self.keyword("time") or (not prefixed and self.keyword("coproc")):
                prefixed = True
                several = several or self.text[start] == "c"
                self.blanks()
                while self.text[start] == "t" and (self.keyword("-p") or self.keyword("--")):
                    self.blanks()
                self.hidden[start] = " " * (self.at - start)
                if self.char() in ("", "\n", ";", "|", "&", ")"):
                    raise UnclearError("a command is missing")
            else:
                break
        if several:
            self.assigned("COPROC")
            self.piped = True
        yes, no = self.command()
        while True:
            self.blanks()
            if self.char() != "|" or self.text.startswith("||", self.at):
                break
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self.lines()
            several = True
            self.state, self.piped = before, True
            self.command()
        if several:
            # Each part of a pipe is a shell of its own.
            yes = no = before
        self.piped = was_piped
        return (no, yes) if negated else (yes, no)

    def keyword(self, word: str) -> bool:
        """Whether this reserved word stands here; it is read then."""
        if self.closes((word,)):
            self.at += len(word)
            return True
        return False

    # Compound commands: see compound.py for loops and branches

    def command(self) -> tuple[State | None, State | None]:
        self.enter()
        self.blanks()
        first = len(self.drafts)
        result = compound(self)
        if result is None:
            result = simple(self)
        else:
            self.around(first)
        self.depth -= 1
        return result

    def around(self, first: int) -> None:
        """The redirections after a compound command; they hold for what is in it."""
        start = self.at
        found = redirections(self)
        if found.files:
            self.add(Draft(start, (), (), tuple(found.files), "", self.state.folders, self.piped))
        if found.stdin:
            for draft in self.drafts[first:]:
                draft.piped = True

    # Simple commands

    def add(self, draft: Draft) -> None:
        if len(self.drafts) >= MAX_COMMANDS:
            raise UnclearError("it has too many commands")
        self.drafts.append(draft)

    def assigned(self, name: str, value: Word | None = None) -> None:
        """A variable gets a value in this shell."""
        if DANGEROUS.match(name) or (value is None and ENVIRONMENT.match(name)):
            self.doubt(f"it changes {name}")
        whole = value is not None and (
            (value.known and INTEGER.match(value.text)) or (not value.known and is_number(value.source))
        )
        if not whole:
            self.texts.add(name)
            if EVALUATED.match(name):
                self.doubt(f"it changes {name}")
        if value is not None and value.known and name not in self.fixed and not UNKNOWABLE.match(name):
            self.state = self.state.with_value(name, value.text)
        else:
            self.state = self.state.without((name,))

    def literal(self, start: int, words: tuple[Word, ...], text: str) -> None:
        """A command of which only the words count."""
        self.add(Draft(start, words, (), (), text, self.state.folders, self.piped or self.redirected))

    def export(self, name: str, text: str) -> None:
        """Later commands get this variable: their text shows it, as if it stood before them."""
        if len(self.state.exported) > 50:
            raise UnclearError("it exports too many variables")
        kept = tuple(pair for pair in self.state.exported if pair[0] != name)
        self.state = replace(self.state, exported=(*kept, (name, text)))


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
