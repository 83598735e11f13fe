"""Rows of data about programs, and the parser of options: how getopt splits the words of a command."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tools.localization import t
from tools.shell.bash_words import Word, data, names
from tools.shell.wildcards import suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Use = Literal["read", "write", "list"]
_NONE: frozenset[str] = frozenset()


class PathUse(Struct, frozen=True):
    """A file or folder that a command reads, writes, or lists the names of."""

    word: Word
    use: Use
    below: bool = False
    """A folder is walked: everything below it counts (``grep -r``, ``rm -r``, ``cp -r``)."""
    maybe: bool = False
    """``below`` applies only if it is a folder, which the command line does not show (``mv``, ``ln``, ``tar``)."""
    seen: bool = False
    """``below`` holds only where one can look which files that are (``git add``)."""
    hidden: bool = True
    """Whether the walk goes into names that begin with a dot (``rg`` leaves them out)."""
    made: bool = False
    """The command creates the entries below it (``tar x``), so that looking at the disk tells nothing."""
    full: bool = False
    """An option of a command that otherwise only shows (``sort -o``): judged like a redirection."""
    base: tuple[Word, ...] = ()
    """Folders that the word is relative to (``git -C base …``)."""
    like: str = ""
    """Suffix of the files below that count: a wildcard whose ``*`` matches folders, too (``find -name '*.pyc'``)."""
    elsewhere: bool = False
    """It counts only outside of the workspace (``git -C /other commit``): inside it is what such a command does."""
    top: bool = False
    """The word is relative to the workspace, wherever the command runs (``git show HEAD:x``)."""


class ProgramRow(Struct, frozen=True):
    """The description of a program. Options that it does not name are unknown."""

    names: str = ""
    """The beginning of the command that the row is for."""
    flags: frozenset[str] = _NONE
    """Options that are harmless and take no value, or one that is glued to them; ``*``: whatever begins with a dash."""
    value: frozenset[str] = _NONE
    """Options that take a value which is no file."""
    glued: frozenset[str] = _NONE
    """Options whose value, if they have one, is glued to them (``xargs -iX``, ``tar --one-top-level=x``)."""
    reads: frozenset[str] = _NONE
    writes: frozenset[str] = _NONE
    """Options whose value is a file."""
    runs: frozenset[str] = _NONE
    """Options that execute something, or select what is executed."""
    words: frozenset[str] = _NONE
    """Options after which a command follows (``fd -x``, ``git rebase --exec``)."""
    changes: frozenset[str] = _NONE
    """Options that make it write its operands (``sed -i``)."""
    walk: frozenset[str] = _NONE
    """Options that walk a folder; ``*``: always."""
    instead: frozenset[str] = _NONE
    """Options that replace the skipped operands (``grep -e PATTERN file``)."""
    alone: frozenset[str] = _NONE
    """Options with which it only shows something."""
    every: frozenset[str] = _NONE
    """Options with which it may read any file; ``*``: always."""
    subs: frozenset[str] = _NONE
    """Sub-commands (first operands) that only show something."""
    general: frozenset[str] = _NONE
    """Beginnings that may be allowed whatever follows, as long as the options are known; ``+1``: and one operand."""
    skip: int = 0
    """So many operands are no files (``grep PATTERN file``)."""
    opaque: str = ""
    """Why rules cannot see its effect: it executes its words."""
    marks: frozenset[str] = _NONE
    """Properties of the row as a whole; see ``command_effects`` for the kinds. ``table``: it can only read, with these
    options. ``none``, ``read``, ``write``, ``list``, ``both``: the use of its operands. ``dash``: long options begin
    with one dash. ``here``: without an operand it means the folder it runs in. ``maybe``: an operand may be a folder,
    and then it is walked. ``listed``: an operand ``@file`` names a file of further words. ``ordered``: what follows the
    first operand is no option. ``everywhere``: it writes the files that its input names."""

    def reason(self, name: str) -> str:
        """Return why rules cannot see the effect of the program of this name, in the user's language; empty when they
        can."""
        return f"{name} {t(self.opaque)}" if self.opaque else ""

    @property
    def valued(self) -> frozenset[str]:
        """Options that take a value."""
        return self.value | self.reads | self.writes

    @property
    def known(self) -> frozenset[str]:
        """Options that the row describes."""
        return (
            self.valued
            | self.flags
            | self.glued
            | self.runs
            | self.words
            | self.changes
            | self.walk
            | self.instead
            | self.alone
        )


_SETS = names("flags value glued reads writes runs words changes walk instead alone every subs general")


@cache
def rows() -> dict[str, ProgramRow]:
    """Return all rows, by the name of the program, or of program and sub-command (``git log``)."""
    found: dict[str, ProgramRow] = {}
    for record in data("programs.txt"):
        names, _, fields = record.partition(": ")
        every = [name.replace("_", " ") for name in names.split()]
        row = ProgramRow()
        for one in filter(str.strip, fields.split(";")):
            key, *given = one.split()
            if key in _SETS:
                row = replace(
                    row,
                    **{key: frozenset(_letters(given) if key == "flags" and "dash" not in fields else given)},
                )
            elif key == "skip":
                row = replace(row, skip=int(given[0]))
            elif key == "opaque":
                row = replace(row, opaque=" ".join(given))
            else:
                row = replace(row, marks=row.marks | {key})
        for name in every:
            general = frozenset(name.replace(" ", "_") if one == "general" else one for one in row.general)
            found[name] = replace(row, names=name if " " in name else every[0], general=general)
    found[":"] = found["true"]
    return found


def _letters(given: Sequence[str]) -> Iterator[str]:
    for one in given:
        yield from (one,) if one.startswith("--") or one == "*" else ("-" + letter for letter in one[1:])


class Parsed(Struct, frozen=True):
    """The words of a command, by kind."""

    options: tuple[tuple[str, Word | None], ...] = ()
    operands: tuple[Word, ...] = ()
    after: int = 0
    """Number of operands after ``--``."""
    unsure: bool = False
    """An expansion may become an option that is not seen."""

    def has(self, names: Iterable[str]) -> bool:
        """Return whether one of these options is given."""
        wanted = frozenset(names)
        return any(name in wanted for name, _ in self.options)

    def values(self, names: Iterable[str]) -> tuple[Word, ...]:
        """Values of these options."""
        wanted = frozenset(names)
        return tuple(value for name, value in self.options if name in wanted and value is not None)

    def unknown(self, row: ProgramRow) -> bool:
        """Return whether an option is given that the row does not describe."""
        return "*" not in row.flags and any(name not in row.known for name, _ in self.options)


def part(word: Word, text: str) -> Word:
    """Return a piece of a word, as certain as the word is. The shell expands ``~`` only where a word begins."""
    return replace(word, text=text, source=text, tilde=False)


_FIXED = re.compile(r"[\w./@:%^+,]")
_ONE_FIXED = re.compile(r'"[\w./@:%^+,=-][^"`]*"')


def may_be_option(word: Word) -> bool:
    """Return whether an expansion could make any word of it, also an option."""
    if word.known and not word.glob:
        return False
    if word.known:
        return not _FIXED.match(word.source or word.text) or "{" in word.text
    # Within double quotes it stays one word, so its fixed beginning is certain.
    fixed = _ONE_FIXED.fullmatch(word.source) is not None and not re.match(r'"-', word.source)
    return not fixed or re.search(r"\$\{?@|\[@\]|\$\(", word.source) is not None


def read(args: Sequence[Word], row: ProgramRow, *, leading: bool = False) -> Parsed:
    """Separate options, their values and operands, as getopt does (abbreviated long options too).

    ``leading``: arguments after the first operand belong to it.
    """
    options: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    unsure = False
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        text = word.text
        unsure = unsure or may_be_option(word)
        if text == "--":
            return Parsed(tuple(options), (*operands, *args[at:]), len(args) - at, unsure)
        if not text.startswith("-") or text == "-":
            operands.append(word)
            if leading:
                return Parsed(tuple(options), (*operands, *args[at:]), 0, unsure)
        elif text.startswith("--") or "dash" in row.marks:
            given, equals, value = text.partition("=")
            name = _full_name(given, row)
            takes = not equals and name in row.valued
            following = args[at] if takes and at < len(args) else None
            options.append((name, part(word, value) if equals else following))
            # What looks abbreviated may be another option that takes no value: ``rg --ignore`` is not --ignore-file.
            at += takes and (leading or given == name)
        else:
            at += _cluster(word, args[at : at + 1], row, options)
    return Parsed(tuple(options), tuple(operands), 0, unsure)


def _cluster(
    word: Word, following: Sequence[Word], row: ProgramRow, options: list[tuple[str, Word | None]]
) -> int:
    """``-rnfile``; returns how many of the following words belong to it."""
    text = word.text
    if text in row.valued or text in row.runs:
        options.append((text, following[0] if following and text in row.valued else None))
        return len(following) if text in row.valued else 0
    for index in range(1, len(text)):
        name, glued = "-" + text[index], text[index + 1 :]
        if name in row.valued or (name in row.runs and glued):
            options.append((name, part(word, glued) if glued else following[0] if following else None))
            return 0 if glued else len(following)
        options.append((name, part(word, glued) if name in row.glued and glued else None))
        if name in row.glued:
            return 0
    return 0


def _full_name(name: str, row: ProgramRow) -> str:
    """Return an abbreviated long option in full, the most dangerous that it may mean."""
    if name in row.known or len(name) < 3:
        return name
    kinds = (row.runs, row.words, row.writes, row.reads, row.changes, row.walk)
    kinds += (row.instead, row.value, row.every, row.flags)
    return next((full for kind in kinds for full in sorted(kind) if full.startswith(name)), name)


HERE = Word(".", source=".")
UNKNOWN = Word("", known=False)
"""An argument that only shows at run time."""
# Options for a file that contains file names.
_LISTS = ("--files0-from", "--files-from", "--pathspec-from-file")
_MAKING = frozenset(["dash", "everywhere"])


def uses(row: ProgramRow, parsed: Parsed, base: tuple[Word, ...] = ()) -> Iterator[PathUse]:
    """Yield the files that a command uses, by its row; ``base``: see PathUse."""
    shows = bool(row.marks & {"table", "shows", "read"}) and not row.marks & _MAKING
    yield from (PathUse(word, "read", base=base) for word in parsed.values(row.reads) if word.text != "-")
    yield from (
        PathUse(word, "write", full=shows, base=base)
        for word in parsed.values(row.writes)
        if word.text != "-"
    )
    if (
        any(name in row.every for name, _ in parsed.options)
        or "*" in row.every
        or (parsed.has((*_LISTS, "-T") if "--files-from" in row.reads else _LISTS) and parsed.has(row.reads))
    ):
        yield PathUse(UNKNOWN, "read")
    for use in (_USES.get(mark, ()) for mark in sorted(row.marks)):
        yield from _operands(row, parsed, use)
    if "everywhere" in row.marks and not parsed.has(row.alone):
        for folder in parsed.values(("-d", "--directory")) or (HERE,):
            yield PathUse(folder, "write", below=True, made=True, base=base)


_USES: dict[str, tuple[Use, ...]] = {
    "read": ("read",), "write": ("write",), "list": ("list",), "both": ("read", "write"),
}  # fmt: skip


def _operands(row: ProgramRow, parsed: Parsed, kinds: Sequence[Use]) -> Iterator[PathUse]:
    below = "*" in row.walk or parsed.has(row.walk)
    if "directories" in row.marks:
        below = below or any(
            "recurse".startswith(word.text) for word in parsed.values(("-d", "--directories"))
        )
    operands = parsed.operands if parsed.has(row.instead) else parsed.operands[row.skip :]
    if not operands and (below or "here" in row.marks):
        operands = (HERE,)
    second = operands[1:] if "second" in row.marks else ()
    # Computed once instead of per operand, because a line may have thousands of both.
    changes, lists = parsed.has(row.changes), parsed.has(("--files", "--type-list"))
    dots = parsed.unsure or parsed.has(
        ("--hidden", "-.", "-u", "--unrestricted", "--ignore-file", "--type-add")
    )
    shown = _shown_globs(parsed) if "dots" in row.marks and not dots else ()
    dots = dots or shown is None
    for use in kinds:
        for at, word in enumerate(operands):
            if word.text == "-" or (second and at):
                continue
            hidden = "dots" not in row.marks or dots or _names_dots(word)
            if "dots" in row.marks and lists:
                use = "list"
            yield PathUse(word, use, below=below or "maybe" in row.marks, maybe=not below, hidden=hidden)
            for glob in () if hidden else shown or ():
                yield PathUse(word, use, below=True, like=glob)
            if "listed" in row.marks and (word.text.startswith("@") or not word.known):
                yield from (PathUse(part(word, word.text[1:]), "read"), PathUse(UNKNOWN, "read"))
            if use != "write" and changes:
                yield PathUse(word, "write", below=below)
    # ``uniq a b`` writes b.
    yield from (PathUse(word, "write", full=True) for word in second if word.text != "-")


def _shown_globs(parsed: Parsed) -> Sequence[str] | None:
    """Return the wildcards of ``rg -g`` and ``rg -t``, which bring back hidden files; None when these may be any."""
    found: list[str] = []
    for word in parsed.values(("-g", "--glob", "--iglob")):
        like = suffix(word.text)
        if not word.known or like is None or like.endswith("/"):
            return None
        if not like.startswith("!"):
            found.append(like)
    for word in parsed.values(("-t", "--type")):
        if word.text not in _TYPES:
            return None
        found += [f"*.{ending}" for ending in _TYPES[word.text].split()]
    return found


_TYPES = {
    "c": "c h in cats", "cpp": "c h in cc hh inl ?pp ?xx", "cs": "cs", "csharp": "cs", "css": "css scss", "go": "go",
    "h": "h hpp hh", "html": "htm html ejs", "java": "java jsp jspx properties", "js": "js jsx cjs mjs vue",
    "json": "json jsonc sarif", "kotlin": "kt kts", "lua": "lua", "markdown": "md markdown mdown mdwn mdx mkd mkdn",
    "md": "md markdown mdown mdwn mdx mkd mkdn", "php": "php* phtml", "py": "py pyi", "python": "py pyi",
    "rust": "rs", "sql": "sql psql", "swift": "swift", "toml": "toml", "ts": "ts tsx cts mts",
    "typescript": "ts tsx cts mts", "txt": "txt", "yaml": "yaml yml",
}  # fmt: skip
"""Endings of the file types of ``rg``; other types may have any names, also with a dot in front."""


def _names_dots(word: Word) -> bool:
    return word.text.rpartition("/")[2].startswith(".") and word.text not in (".", "..")


_PLAIN = re.compile(r"[\w./:@%+=,^-]+")


def join(command: Sequence[Word]) -> str:
    """Return a command's text from its words, as rules match it: without quotes where they change nothing."""
    shown = (
        word.text if word.known and not word.tilde and _PLAIN.fullmatch(word.text) else word.source or word.text
        for word in command
    )  # fmt: skip
    return " ".join(filter(None, shown))


_URL = re.compile(r"[A-Za-z][\w+.-]*://", re.ASCII)


def implied_paths(args: Sequence[Word], *kinds: Use) -> tuple[PathUse, ...]:
    """Return every argument that may be a file, of an unknown command: operands, values, ``@file``, ``name=file``."""
    return tuple(PathUse(piece, use) for word in args for piece in _pieces(word) for use in kinds)


def _pieces(word: Word) -> Iterator[Word]:
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


class Meaning(Struct, frozen=True):
    """The known effects of one simple command."""

    paths: tuple[PathUse, ...] = ()
    inner: tuple[Sequence[Word] | str, ...] = ()
    """Commands that it runs: words (``env x``, ``xargs x``, ``find -exec x``), or a whole line (``bash -c '…'``). They
    are judged like any other."""
    through: tuple[Sequence[Word], ...] = ()
    """Commands that it runs in an ordinary way (``uv run x``): a rule for the whole is enough, but what forbids the
    inner one binds."""
    opaque: str = ""
    """Why more is unknown: "python -c runs code that rules cannot read"."""
    read_only: bool = False
    """It can only read, with these words."""
    repository: tuple[Word, ...] | None = None
    """For git: the folders of its ``-C``. It runs programs that the settings of the repository there name."""
    warning: str = ""
    """Things that it destroys, as text for the user; empty when there are none."""
    general: str = ""
    """The beginning that may be allowed whatever follows, e.g. ``git log``; empty: only word by word."""
    more: str = ""
    """Why its words may do more than the beginning of the command names, as text for the user."""
    plain: str = ""
    """Its text without variables that do not change its effect."""
    glue: bool = False
    """It has no effect of its own, see ``Access.glue``."""
    also: tuple[str, ...] = field(default=())
    """Other texts by which rules may mean it: without quotes, without the folder of the program."""
