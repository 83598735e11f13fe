"""git: which files its sub-commands use, by their rows. What they run is seen in options; aliases may be anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.localization import t
from tools.shell.options import (
    HERE,
    UNKNOWN,
    Meaning,
    Parsed,
    PathUse,
    Row,
    Use,
    join,
    part,
    rows,
    uses,
)
from tools.shell.options import (
    read as read_options,
)
from tools.shell.syntax import Simple
from tools.shell.words import Word, names

_MAGIC = re.compile(r":(?:\(([^)]*)\)|([/!^]*):?)(.*)", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_URL = re.compile(r"[a-z+]+://|[\w.-]+@[\w.-]+:|[\w.-]+:(?!/)")
_REVISION = re.compile(
    r".*(?:HEAD|@\{|[~^]).*|@|main|master|develop|trunk|stash|(?:origin|upstream|refs|tags|heads)/.*|v?\d+(?:\.\d+)+|"
    r"[0-9a-f]{7,40}|(?!\.{1,2}/).*\.\..*",
    re.DOTALL,
)
_PLACES = names("GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_SHALLOW_FILE")
_DOT_GIT = Word(".git", source=".git")
_CONFIG_SHOWS = re.compile(
    r"(?:--(?:global|local|system|show-origin|show-scope|name-only|null|includes) )*"
    r"(?:(?:-l|--list|list)|(?:(?:--get|--get-all|--get-regexp|get) )?[\w.*][\w.*-]*) "
)

_SUB_OPTIONS = names("-p --patch --stat --name-only --name-status --oneline -n -v --porcelain")
"""Options of ``git stash show`` and the like that only show."""


def read(args: Sequence[Word], command: Simple) -> Meaning:
    """What is known of a git command."""
    main = rows()["git"]
    before = read_options(args, main, leading=True)
    base = (*before.values(("-C",)), *before.values(("--work-tree",)))
    opaque = _before(before, main, args)
    if not before.operands:
        return Meaning(opaque=opaque, read_only=not opaque)
    name, rest = before.operands[0], before.operands[1:]
    if not name.known:
        return Meaning(opaque=t("which git command it is shows only at run time"))
    row = rows().get(f"git {name.text}")
    opaque = opaque or ("" if row else t("git {text} may be an alias or a program", text=name.text))
    row = row or Row(names="git")
    parsed = read_options(rest, row)
    table = not opaque and _shows(name.text, rest, row, parsed)
    found = [
        *_files(name.text, rest, row, parsed, base),
        *_places(name.text, command, before, parsed, shows=table),
    ]
    if base:
        # The settings of a repository elsewhere can name programs.
        found.append(PathUse(HERE, "list", base=base))
    found += [PathUse(word, "read") for option, word in _pairs(args) if option == "--git-dir"]
    also = (
        (" ".join(["git", name.text, *([join(rest)] if rest else [])]),) if len(rest) + 1 < len(args) else ()
    )
    texts = [word.text for word in rest]
    fixed = len(rest) + 1 == len(args) and not (
        parsed.unknown(row) or parsed.unsure or parsed.has(row.writes | row.runs)
    )
    beyond = parsed.has(row.writes | row.runs) or (
        bool(row.general | row.alone) and (parsed.unknown(row) or parsed.unsure)
    )
    lines = [word.text for word in parsed.values(row.words) if word.known]
    return Meaning(
        paths=tuple(found),
        inner=tuple(lines),
        opaque=opaque or _opaque(name.text, texts, row, parsed),
        read_only=table and "table" in row.marks | ({"table"} if row.subs or row.alone else set()),
        repository=base,
        also=also,
        general=f"git {name.text}" if row.general and fixed else "",
        more=t("these arguments may do more than show something") if beyond else "",
    )


def _pairs(args: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    for word, after in zip(args, (*args[1:], HERE), strict=True):
        name, equals, value = word.text.partition("=")
        yield name, part(word, value) if equals else after


def _before(before: Parsed, main: Row, args: Sequence[Word]) -> str:
    if before.has(main.runs):
        return t("git -c, --git-dir and --exec-path can name programs that it runs")
    leading = args[: len(args) - len(before.operands)]
    if before.unknown(main) or any(not word.known for word in leading):
        return t("an option of git that is not known may name a program")
    return ""


def _opaque(name: str, texts: Sequence[str], row: Row, parsed: Parsed) -> str:
    """Why a sub-command runs what its words say."""
    if row.opaque:
        return row.reason(f"git {name}")
    for option, _ in parsed.options:
        if option in row.runs:
            return t("git {name} {option} names a program that it runs", name=name, option=option)
    if name == "config" and not _CONFIG_SHOWS.fullmatch("".join(f"{text} " for text in texts)):
        return t("git settings can name programs that git runs later")
    if name in ("submodule", "bisect") and {"foreach", "run"} & set(texts):
        return t("git {name} runs commands", name=name)
    return ""


def _shows(name: str, args: Sequence[Word], row: Row, parsed: Parsed) -> bool:
    """Whether it can only show something, with these words."""
    writes = row.writes | row.runs
    if parsed.has(writes) or (parsed.unsure and (writes or row.alone)):
        return False
    if any(value is not None and "%G" in value.text for _, value in parsed.options):
        return False  # to check a signature git runs the program that settings name
    if name == "config":
        asks = bool(args) and (args[0].text.startswith("-") or args[0].text in ("get", "list"))
        return asks and not _opaque(name, [word.text for word in args], row, parsed) and not parsed.unsure
    if row.subs and (args[0].text if args else "") in row.subs:
        return all(word.known and (word.text[:1] != "-" or word.text in _SUB_OPTIONS) for word in args)
    if row.alone or row.subs:
        lists = all(option in row.alone | row.flags | row.value for option, _ in parsed.options)
        alone = parsed.has(row.alone) and not (
            parsed.operands and not parsed.has(("--list", "-l", "--contains", "--points-at"))
        )
        return lists and "mutes" not in row.marks and ((not args) or alone)
    return "shows" in row.marks or ("table" in row.marks and not parsed.unknown(row))


def _files(
    name: str, args: Sequence[Word], row: Row, parsed: Parsed, base: tuple[Word, ...]
) -> Iterator[PathUse]:
    shown = Row(reads=row.reads, writes=row.writes, every=row.every, marks=frozenset({"shows"}))
    yield from uses(shown, parsed, base)
    texts = [word.text for word in args]
    operands = parsed.operands if not row.skip or parsed.has(row.instead) else parsed.operands[row.skip :]
    after = operands[len(operands) - parsed.after :] if parsed.after else ()
    first = operands[: len(operands) - len(after)]
    if "remote" not in row.marks:
        yield from _in_revisions(first, base, below="walks" in row.marks)
    for lines in parsed.values(("-L",)):
        yield PathUse(part(lines, lines.text.rpartition(":")[2]), "read", base=base)
    if "clone" in row.marks:
        yield from _cloned(first, base)
    if row.marks & {mark for mark, _ in _USES}:
        yield from _changed(name, texts, row, first, after, base)
    else:
        yield from _read(texts, row, first, after, base)
    if "everywhere" in row.marks and not parsed.has(row.alone):
        yield PathUse(HERE, "write", below=True, made=True, base=base)
    if "search" in row.marks:
        yield from _searched(first, after, base)
    if "whole" in row.marks:
        yield from _compared(first, after, base)
    yield from _of_command(name, texts, row, parsed, first, base)
    if row.names == "git":
        yield from (PathUse(word, use, base=base) for word in operands for use in _BOTH)


def _cloned(first: Sequence[Word], base: tuple[Word, ...]) -> Iterator[PathUse]:
    """``git clone FROM [TO]``."""
    for word in first[:1]:
        if not _URL.match(word.text):
            yield PathUse(word, "read", below=True, base=base)
    made = re.sub(r"\.git$", "", first[0].text.rstrip("/")) if first else ""
    target = first[1:2] or tuple(part(word, re.split("[/:]", made)[-1] or ".") for word in first[:1])
    yield from (PathUse(word, "write", base=base) for word in target)


def _changed(
    name: str,
    texts: Sequence[str],
    row: Row,
    first: Sequence[Word],
    after: Sequence[Word],
    base: tuple[Word, ...],
) -> Iterator[PathUse]:
    """Yield the files of a sub-command whose row says what it does to its operands."""
    chosen = first[1:2] if "second" in row.marks else first
    if "branch" in row.marks and name == "checkout" and len(first) > 1:
        chosen = chosen[1:]  # the first names what the files come from
    seen = "seen" in row.marks or (name == "rm" and not any(re.match(r"-[a-z]*r", t) for t in texts))
    plain = [word for word in chosen if ":" not in word.text or word.text.startswith(":")]
    for mark, use in _USES:
        if mark in row.marks:
            yield from _pathspecs(plain, use, base, seen=seen, exact="exact" in row.marks)
            if use == "write":
                yield from _pathspecs([w for w in plain if w.text[:1] in (".", ":")], use, base)
            yield from _pathspecs(after, use, base)


def _read(
    texts: Sequence[str], row: Row, first: Sequence[Word], after: Sequence[Word], base: tuple[Word, ...]
) -> Iterator[PathUse]:
    """Yield the files of a sub-command that shows something."""
    yield from _pathspecs(after, "read", base)
    if "--no-index" in texts:
        yield from (PathUse(word, "read", below=True, base=base) for word in (*first, *after))
    elif "revs" in row.marks:
        files = [word for word in first if not (word.known and _REVISION.fullmatch(word.text))]
        yield from _pathspecs(
            [w for w in files if ":" not in w.text or w.text[0] == ":"], "read", base, seen=True
        )


def _of_command(
    name: str,
    texts: Sequence[str],
    row: Row,
    parsed: Parsed,
    first: Sequence[Word],
    base: tuple[Word, ...],
) -> Iterator[PathUse]:
    """Yield the files that one sub-command alone reads or writes."""
    if name in ("checkout-index", "read-tree"):
        for value in parsed.values(("--prefix",)):
            made = Word(value.text + "*", known=value.known, glob=True, source=value.source + "*")
            yield PathUse(made, "write", made=True, base=base)
    if name == "config":
        if _opaque(name, texts, row, parsed):
            everywhere = {"--global", "--system"} & set(texts)
            own = Word("~/.gitconfig", tilde=True) if everywhere else Word(".git/config")
            yield PathUse(own, "write", base=base)
        for value in parsed.values(("--blob",)):
            yield from _in_revisions((value,), base, below=False)
    if name in ("worktree", "bundle") and {"add", "create"} & set(texts):
        yield PathUse(UNKNOWN, "read")
    if name == "cat-file" and any(not w.known or re.fullmatch(r"[0-9a-f]{4,64}", w.text) for w in first):
        yield PathUse(UNKNOWN, "read")


def _compared(first: Sequence[Word], after: Sequence[Word], base: tuple[Word, ...]) -> Iterator[PathUse]:
    """Yield what a sub-command reads that shows whole trees unless files are named."""
    yield from _pathspecs(first[1:], "read", base)
    if not after and len(first) < 2 and not any(":" in word.text for word in first):
        yield PathUse(UNKNOWN, "read")


_BOTH: tuple[Use, ...] = ("read", "write")
_USES: tuple[tuple[str, Use], ...] = (("read", "read"), ("write", "write"), ("list", "list"))


def _in_revisions(words: Sequence[Word], base: tuple[Word, ...], *, below: bool) -> Iterator[PathUse]:
    """What ``REVISION:PATH`` may mean. Revisions may have colons themselves (``:0:x``, ``@{10:00}:x``), so each is
    tried; the workspace may be a folder of the repository, so each end of the path is, too."""
    for word in words:
        for found in re.finditer(":", word.text) if word.known else ():
            path = word.text[found.end() :]
            if path.startswith(("./", "../")):
                yield PathUse(part(word, path), "read", below=below, maybe=True, base=base)
            elif path and not path.startswith("/"):
                yield PathUse(part(word, path), "read", below=below, maybe=True, top=True)
                for inner in re.finditer("/", path):
                    if rest := path[inner.end() :]:
                        yield PathUse(part(word, rest), "read", below=below, maybe=True, top=True, seen=True)


def _pathspecs(
    words: Sequence[Word], use: Use, base: tuple[Word, ...], *, seen: bool = False, exact: bool = False
) -> Iterator[PathUse]:
    """The files of pathspecs: git goes below folders, and its wildcards do too. ``seen``: see PathUse."""
    for word in words:
        magic = _MAGIC.fullmatch(word.text) if word.known else None
        if magic is None:
            yield PathUse(word, use, below=not exact, maybe=True, seen=seen, base=base)
            if word.known and _WILD.search(word.text):
                # What the shell leaves as it is, git expands, below all folders.
                yield PathUse(HERE, use, below=True, like=re.sub(r"^(?:\.{1,2}/)+", "", word.text), base=base)
            continue
        yield PathUse(UNKNOWN, use)
        top = "top" in (magic[1] or "") or "/" in (magic[2] or "")
        if magic[3]:
            yield PathUse(
                part(word, magic[3]), use, below=True, maybe=True, base=() if top else base, top=top
            )
            if _WILD.search(magic[3]):
                yield PathUse(HERE, use, below=True, like=magic[3], top=True)


def _searched(first: Sequence[Word], after: Sequence[Word], base: tuple[Word, ...]) -> Iterator[PathUse]:
    """``git grep``: revisions and files. With only revisions, everything in them is searched."""
    if after:
        yield from _pathspecs(after, "read", base)
        return
    files = [word for word in first if not _REVISION.fullmatch(word.text) or word.text.startswith(":")]
    yield from _pathspecs([word for word in files if ":" not in word.text[1:]], "read", base)
    if not files:
        yield PathUse(HERE, "read", below=True, base=base)


def _places(name: str, command: Simple, before: Parsed, parsed: Parsed, *, shows: bool) -> Iterator[PathUse]:
    """What a sub-command changes by the place it works in: its repository and its work tree, wherever these are.

    In the workspace that is what such a command does; elsewhere it is a change of what lies there.
    """
    if shows:
        return
    folders = before.values(("-C",))
    targets = [folders, *((*folders, word) for word in before.values(("--work-tree",)))]
    if name in ("push", "send-pack"):
        # What is pushed to a folder is written there.
        given = [part(word, word.text.removeprefix("file://")) for word in parsed.operands[:1]]
        targets += [(*folders, w) for w in given if "/" in w.text.partition(":")[0] or w.text in (".", "..")]
    for base in targets:
        for word in (HERE, _DOT_GIT):
            yield PathUse(word, "write", base=base, elsewhere=True)
    for word in before.values(("--git-dir",)):
        yield PathUse(word, "write", below=True, made=True, base=folders)
    yield from repositories(command.assignments, folders)


def repositories(pairs: Sequence[tuple[str, Word]], base: tuple[Word, ...] = ()) -> Iterator[PathUse]:
    """What git changes by the variables that say where its repository is."""
    for name, word in pairs:
        if name in _PLACES:
            yield PathUse(word, "write", below=True, made=True, base=base)
