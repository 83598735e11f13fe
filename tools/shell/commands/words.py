"""Words of a command: the data that says what it does, and a reader of options that knows how getopt cuts them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tools.shell.syntax import Simple, Word

Use = Literal["read", "write", "list"]


@dataclass(frozen=True, slots=True)
class PathUse:
    """A file or folder that a command reads, writes, or lists the names of."""

    word: Word
    use: Use
    below: bool = False
    """A folder is walked: everything below it counts (``grep -r``, ``rm -r``, ``cp -r``)."""
    maybe: bool = False
    """``below`` holds only if it is a folder, which the command line does not say (``mv``, ``ln``, ``tar``)."""
    seen: bool = False
    """``below`` holds only where one can look which files that are (``git add``)."""
    hidden: bool = True
    """Whether the walk goes into names that begin with a dot (``rg`` leaves them out)."""
    made: bool = False
    """What lies below is made by the command (``tar x``), so that looking at the disk tells nothing."""
    full: bool = False
    """An option of a command that otherwise only shows (``sort -o``): judged like a redirection."""
    base: tuple[Word, ...] = ()
    """Folders that the word is relative to (``git -C base …``)."""
    like: str = ""
    """Of what lies below, only what ends so: a wildcard whose ``*`` goes through folders (``find -name '*.pyc'``)."""
    unless: Word | None = None
    """It counts only where one can look, and does not find this file (``git grep x main`` searches everything)."""
    elsewhere: bool = False
    """It counts only outside of the workspace (``git -C /other commit``): inside it is what such a command does."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is known of one simple command."""

    paths: tuple[PathUse, ...] = ()
    inner: tuple[Sequence[Word] | str, ...] = ()
    """Commands that it runs: words (``env x``, ``xargs x``, ``find -exec x``), or a whole line (``bash -c '…'``). They
    are judged like any other."""
    through: tuple[Sequence[Word], ...] = ()
    """Commands that it runs in an ordinary way (``uv run x``): a rule for the whole is enough, but what forbids the
    inner one binds."""
    opaque: str = ""
    """Why more cannot be told: "python -c runs code that rules cannot read"."""
    read_only: bool = False
    """It is known to change nothing, with these options."""
    told: bool = False
    """Its words say all that it changes; other programs (``make``, ``pytest``) run code that rules cannot read."""
    warning: str = ""
    """What it destroys, in words for the person; empty when nothing."""
    general: str = ""
    """The beginning that may be allowed whatever follows, e.g. ``git log``; empty: only word by word."""
    more: str = ""
    """Its words may do more than the beginning of the command says; why, in words."""
    by_name: bool = False
    """It is opaque because of a program that its words name, see ``Access.by_name``."""
    plain: str = ""
    """Its text without variables that change nothing of it."""
    glue: bool = False
    """It does nothing by itself, see ``Access.glue``."""
    also: tuple[str, ...] = ()
    """Other texts by which rules may mean it: without quotes, without the folder of the program."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command with its name told apart."""

    name: str
    """Base name of the program."""
    args: tuple[Word, ...]
    simple: Simple


Reader = Callable[[Call], Meaning]


def words(text: str) -> frozenset[str]:
    """The blank-separated words of a table's cell."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Spec:
    """How the words of a command are to be read."""

    use: Use | None = "read"
    """What happens to its operands; None: they are no files."""
    value: frozenset[str] = frozenset()
    """Options that take a value which is no file."""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    """Options whose value is a file."""
    skip: int = 0
    """So many operands are no files (``grep PATTERN file``), ..."""
    instead: frozenset[str] = frozenset()
    """... unless one of these options stands for them (``grep -e PATTERN file``)."""
    recursive: frozenset[str] = frozenset()
    """Options that walk a folder; ``*``: always."""
    here: bool = False
    """Without an operand it means the folder it runs in."""
    maybe: bool = False
    """An operand may be a folder, and then it is walked."""
    reader: bool = False
    """It changes nothing, unless one of its ``writes`` or ``changes`` is given."""
    changes: frozenset[str] = frozenset()
    """Options that make it write its operands (``sed -i``)."""
    single_dash: bool = False
    """Long options begin with one dash (``find -name``, ``openssl -in``)."""

    @property
    def valued(self) -> frozenset[str]:
        """Options that take a value."""
        return self.value | self.reads | self.writes


@dataclass(frozen=True, slots=True)
class Parsed:
    """The words of a command, told apart."""

    options: tuple[tuple[str, Word | None], ...] = ()
    operands: tuple[Word, ...] = ()
    unsure: bool = False
    """An expansion may become an option that is not seen."""
    ended: bool = field(default=False, compare=False)

    def has(self, names: Iterable[str]) -> bool:
        """Whether one of these options is given."""
        wanted = frozenset(names)
        return any(name in wanted for name, _ in self.options)

    def values(self, names: Iterable[str]) -> tuple[Word, ...]:
        """Values of these options."""
        wanted = frozenset(names)
        return tuple(value for name, value in self.options if name in wanted and value is not None)


def part(word: Word, text: str) -> Word:
    """A piece of a word, as certain as the word is. The shell expands ``~`` only where a word begins."""
    return replace(word, text=text, source=text, tilde=False)


_FIXED = re.compile(r"[\w./@:%^+,]")
_ONE_FIXED = re.compile(r'"[\w./@:%^+,=-][^"`]*"')


def may_be_option(word: Word) -> bool:
    """Whether an expansion could make any word of it, also an option."""
    if word.known and not word.glob:
        return False
    if word.known:
        return not _FIXED.match(word.source or word.text) or "{" in word.text
    # Within double quotes it stays one word, so a fixed beginning is the beginning.
    fixed = _ONE_FIXED.fullmatch(word.source) is not None and not re.match(r'"-', word.source)
    return not fixed or re.search(r"\$\{?@|\[@\]|\$\(", word.source) is not None


def parse(args: Sequence[Word], spec: Spec) -> Parsed:
    """Tell options, their values and operands apart, as getopt does (abbreviated long options too)."""
    options: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    unsure = False
    at = 0
    rest_are_operands = False
    while at < len(args):
        word = args[at]
        at += 1
        text = word.text
        unsure = unsure or (not rest_are_operands and may_be_option(word))
        if rest_are_operands or not text.startswith("-") or text == "-":
            operands.append(word)
            continue
        if text == "--":
            rest_are_operands = True
            continue
        if text.startswith("--") or spec.single_dash:
            name, equals, value = text.partition("=")
            name = _full_name(name, spec)
            if equals:
                options.append((name, part(word, value)))
            elif name in spec.valued:
                options.append((name, args[at] if at < len(args) else None))
                at += 1
            else:
                options.append((name, None))
            continue
        at += _cluster(word, args[at : at + 1], spec, options)
    return Parsed(tuple(options), tuple(operands), unsure)


def _cluster(
    word: Word, following: Sequence[Word], spec: Spec, options: list[tuple[str, Word | None]]
) -> int:
    """``-rnfile``; returns how many of the following words belong to it."""
    text = word.text
    if text in spec.valued:
        options.append((text, following[0] if following else None))
        return len(following)
    for index in range(1, len(text)):
        name = "-" + text[index]
        if name not in spec.valued:
            options.append((name, None))
            continue
        glued = text[index + 1 :]
        if glued:
            options.append((name, part(word, glued)))
            return 0
        options.append((name, following[0] if following else None))
        return len(following)
    return 0


def _full_name(name: str, spec: Spec) -> str:
    """An abbreviated long option in full, when it means one that counts."""
    every = spec.valued | spec.recursive | spec.changes | spec.instead
    if name in every or len(name) < 4:
        return name
    return next((full for full in sorted(every) if full.startswith(name)), name)


def spec(
    use: Use | None = "read",
    *,
    value: str = "",
    reads: str = "",
    writes: str = "",
    skip: int = 0,
    instead: str = "",
    recursive: str = "",
    here: bool = False,
    maybe: bool = False,
    reader: bool = False,
    changes: str = "",
    single_dash: bool = False,
) -> Spec:
    """A table's row, see Spec."""
    return Spec(
        use=use,
        value=words(value),
        reads=words(reads),
        writes=words(writes),
        skip=skip,
        instead=words(instead),
        recursive=words(recursive),
        here=here,
        maybe=maybe,
        reader=reader,
        changes=words(changes),
        single_dash=single_dash,
    )


# The names of files stand in another file.
_LISTS = ("--files0-from", "--files-from", "--pathspec-from-file")


def uses(spec: Spec, parsed: Parsed) -> tuple[PathUse, ...]:
    """The files that a command uses, by its spec."""
    found: list[PathUse] = []
    found += [PathUse(word, "read") for word in parsed.values(spec.reads)]
    if parsed.has(_LISTS):
        found.append(PathUse(UNKNOWN, "read"))
    found += [PathUse(word, "write", full=spec.reader) for word in parsed.values(spec.writes)]
    if spec.use is None:
        return tuple(found)
    below = "*" in spec.recursive or parsed.has(spec.recursive)
    operands = parsed.operands if parsed.has(spec.instead) else parsed.operands[spec.skip :]
    if not operands and (below or spec.here):
        operands = (HERE,)
    use: Use = "write" if parsed.has(spec.changes) else spec.use
    for word in operands:
        if word.text == "-":
            continue
        found.append(PathUse(word, use, below=below or spec.maybe, maybe=not below))
        if use == "write" and spec.use == "read":
            found.append(PathUse(word, "read", below=below))
    return tuple(found)


HERE = Word(".", source=".")
UNKNOWN = Word("", known=False)
"""An argument that only shows at run time."""


_PLAIN = re.compile(r"[\w./:@%+=,^-]+")


def join(command: Sequence[Word]) -> str:
    """A command's text from its words, as rules match it: without quotes where they change nothing."""
    shown = (
        word.text
        if word.known and not word.tilde and _PLAIN.fullmatch(word.text)
        else word.source or word.text
        for word in command
    )
    return " ".join(filter(None, shown))


_URL = re.compile(r"[A-Za-z][\w+.-]*://", re.ASCII)


def implied_paths(args: Sequence[Word], *uses_: Use) -> tuple[PathUse, ...]:
    """Every argument that may be a file, of an unknown command: operands, values, ``@file``, ``name=file``."""
    found: list[PathUse] = []
    for word in args:
        for piece in _pieces(word):
            found += [PathUse(piece, use) for use in uses_]
    return tuple(found)


def _pieces(word: Word) -> Iterable[Word]:
    text = word.text
    if not word.known:
        yield UNKNOWN if not text.startswith("-") or "=" not in text else part(word, text.partition("=")[2])
        return
    if not text or _URL.match(text) or "\n" in text:
        return
    if not text.startswith("-"):
        yield word
        if text.startswith("@"):
            yield part(word, text[1:])
    elif re.match(r"-[A-Za-z][/.~@]|-[A-Za-z][^=]*/|-[A-Za-z][\w-]+\.\w+$", text):
        yield part(word, text[2:].removeprefix("@"))
    _, equals, value = text.partition("=")
    if equals and value and not _URL.match(value):
        yield part(word, value.removeprefix("@"))
