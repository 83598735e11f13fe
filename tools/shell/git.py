"""git: the files of its sub-commands, by their rows. Programs that it runs are in options; aliases may be anything."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.localization import t
from tools.shell.bash_words import Word, names
from tools.shell.options import (
    HERE,
    UNKNOWN,
    Meaning,
    Parsed,
    PathUse,
    ProgramRow,
    Use,
    join,
    part,
    rows,
    uses,
)
from tools.shell.options import read as read_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tools.shell.command_line import Simple

_MAGIC = re.compile(r":(?:\(([^)]*)\)|([/!^]*):?)(.*)", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_URL = re.compile(r"[a-z+]+://|[\w.-]+@[\w.-]+:|[\w.-]+:(?!/)")
_REVISION = re.compile(
    r"(?!(?:.*/)?\.{1,2}(?:/|\Z))(?:[A-Z_]*HEAD|[^/]*(?:@\{|[~^]).*|@|main|master|develop|trunk|stash|"
    r"(?:origin|upstream|refs|tags|heads)/.*|v?\d+(?:\.\d+)+|[0-9a-f]{7,40}|.*\.\..*)",
    re.DOTALL,
)
_PLACES = names("GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_SHALLOW_FILE")
_DOT_GIT = Word(".git", source=".git")
_CONFIG_SHOWS = re.compile(
    r"(?:--(?:global|local|system|show-origin|show-scope|name-only|null|includes) )*"
    r"(?:(?:-l|--list|list)|(?:(?:--get|--get-all|--get-regexp|get) )?(?!edit )[\w.*][\w.*-]*) "
)

_SUB_OPTIONS = names("-p --patch --stat --name-only --name-status --oneline -n -v --porcelain")
"""Options of ``git stash show`` and the like that only show."""


class _Sub(Struct, frozen=True):
    """A sub-command and its words."""

    name: str
    args: tuple[Word, ...]
    row: ProgramRow
    parsed: Parsed
    base: tuple[Word, ...]
    """Folders that its words are relative to."""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.args]

    @property
    def operands(self) -> tuple[Word, ...]:
        skip = 0 if self.parsed.has(self.row.instead) else self.row.skip
        return self.parsed.operands[skip:]

    @property
    def after(self) -> tuple[Word, ...]:
        """Operands after ``--``: files for certain."""
        return self.operands[len(self.operands) - self.parsed.after :] if self.parsed.after else ()

    @property
    def first(self) -> tuple[Word, ...]:
        """The other ones."""
        return self.operands[: len(self.operands) - len(self.after)]


def read(args: Sequence[Word], command: Simple) -> Meaning:
    """Return the meaning of a git command."""
    main = rows()["git"]
    before = read_options(args, main, leading=True)
    base = (*before.values(("-C",)), *before.values(("--work-tree",)))
    opaque = _before(before, main, args)
    if not before.operands:
        return Meaning(opaque=opaque, read_only=not opaque)
    name, rest = before.operands[0].text, before.operands[1:]
    if not before.operands[0].known:
        return Meaning(opaque=t("the git command is only known at run time"))
    row = rows().get(f"git {name}")
    opaque = opaque or ("" if row else t("git {text} may be an alias or a program", text=name))
    row = row or ProgramRow(names="git")
    parsed = read_options(rest, row)
    sub = _Sub(name, rest, row, parsed, base)
    table = not opaque and _shows(sub)
    found = [*_files(sub), *_places(sub, command, before, shows=table)]
    if base:
        # The settings of another repository can name programs.
        found.append(PathUse(HERE, "list", base=base))
    found += [PathUse(word, "read") for option, word in _pairs(args) if option == "--git-dir"]
    short = len(rest) + 1 == len(args)
    unsure = parsed.unknown(row) or parsed.unsure
    acts = parsed.has(row.writes | row.runs)
    beyond = acts or (bool(row.general | row.alone) and unsure)
    return Meaning(
        paths=tuple(found),
        inner=tuple(word.text for word in parsed.values(row.words) if word.known),
        opaque=opaque or _opaque(sub),
        read_only=table and bool(row.subs or row.alone or "table" in row.marks),
        repository=before.values(("-C",)),
        also=() if short else (" ".join(["git", name, *([join(rest)] if rest else [])]),),
        general=f"git {name}" if row.general and short and not (unsure or acts) else "",
        more=t("these arguments may do more than show information") if beyond else "",
    )


def _pairs(args: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    for word, after in zip(args, (*args[1:], HERE), strict=True):
        name, equals, value = word.text.partition("=")
        yield name, part(word, value) if equals else after


def _before(before: Parsed, main: ProgramRow, args: Sequence[Word]) -> str:
    if before.has(main.runs):
        return t("git -c, --git-dir and --exec-path can name programs to run")
    leading = args[: len(args) - len(before.operands)]
    if before.unknown(main) or any(not word.known for word in leading):
        return t("an unknown option of git may name a program to run")
    return ""


def _opaque(sub: _Sub) -> str:
    """Return why a sub-command runs its words, if it does."""
    name, texts = sub.name, sub.texts
    if sub.row.opaque:
        return sub.row.reason(f"git {name}")
    for option, _ in sub.parsed.options:
        if option in sub.row.runs:
            return t("git {name} {option} names a program to run", name=name, option=option)
    if name == "config" and not _CONFIG_SHOWS.fullmatch("".join(f"{text} " for text in texts)):
        return t("git settings can name programs that git runs later")
    if name in ("submodule", "bisect") and {"foreach", "run"} & set(texts):
        return t("git {name} runs commands", name=name)
    return ""


def _shows(sub: _Sub) -> bool:
    """Return whether it can only show something, with these words."""
    args, row, parsed = sub.args, sub.row, sub.parsed
    writes = row.writes | row.runs
    if parsed.has(writes) or (parsed.unsure and (writes or row.alone)):
        return False
    if any(value is not None and "%G" in value.text for _, value in parsed.options):
        return False  # to check a signature, git runs the program that the settings name
    first = args[0].text if args else ""
    if sub.name == "config":
        asks = first.startswith("-") or first in ("get", "list")
        return asks and not _opaque(sub) and not parsed.unsure
    if row.subs and first in row.subs:
        return all(word.known and (word.text[:1] != "-" or word.text in _SUB_OPTIONS) for word in args)
    if row.alone or row.subs:
        lists = all(option in row.alone | row.flags | row.value for option, _ in parsed.options)
        named = parsed.operands and not parsed.has(("--list", "-l", "--contains", "--points-at"))
        alone = parsed.has(row.alone) and not named
        return lists and "mutes" not in row.marks and (not args or alone)
    return "shows" in row.marks or ("table" in row.marks and not parsed.unknown(row))


def _files(sub: _Sub) -> Iterator[PathUse]:
    row, parsed, base, first, after = sub.row, sub.parsed, sub.base, sub.first, sub.after
    shown = ProgramRow(reads=row.reads, writes=row.writes, every=row.every, marks=frozenset({"shows"}))
    yield from uses(shown, parsed, base)
    if "remote" not in row.marks:
        yield from _in_revisions(first, base, below="walks" in row.marks)
    for lines in parsed.values(("-L",)):
        yield PathUse(part(lines, lines.text.rpartition(":")[2]), "read", base=base)
    if "clone" in row.marks:
        yield from _cloned(first, base)
    yield from _changed(sub) if row.marks & {mark for mark, _ in _USES} else _read(sub)
    if "everywhere" in row.marks and not parsed.has(row.alone):
        yield PathUse(HERE, "write", below=True, made=True, base=base)
    if "search" in row.marks:
        yield from _searched(sub)
    if "whole" in row.marks:
        # Without file names it shows a whole tree.
        yield from _pathspecs(first[1:], "read", base)
        if not after and len(first) < 2 and not any(":" in word.text for word in first):
            yield PathUse(UNKNOWN, "read")
    yield from _of_command(sub)
    if row.names == "git":
        yield from (PathUse(word, use, base=base) for word in sub.operands for use in _BOTH)


def _cloned(first: Sequence[Word], base: tuple[Word, ...]) -> Iterator[PathUse]:
    """Yield the files of ``git clone FROM [TO]``."""
    for word in first[:1]:
        if not _URL.match(word.text):
            yield PathUse(word, "read", below=True, base=base)
    made = re.sub(r"\.git$", "", first[0].text.rstrip("/")) if first else ""
    target = first[1:2] or tuple(part(word, re.split("[/:]", made)[-1] or ".") for word in first[:1])
    yield from (PathUse(word, "write", base=base) for word in target)


def _changed(sub: _Sub) -> Iterator[PathUse]:
    """Yield the files of a sub-command whose row states the use of its operands."""
    marks, base = sub.row.marks, sub.base
    chosen = sub.first[1:2] if "second" in marks else sub.first
    if sub.name == "checkout" and len(chosen) > 1:
        chosen = chosen[1:]  # the first operand names the commit that the files come from
    seen = "seen" in marks or (sub.name == "rm" and not any(re.match("-[a-z]*r", t) for t in sub.texts))
    plain = [word for word in chosen if ":" not in word.text or word.text.startswith(":")]
    for mark, use in _USES:
        if mark in marks:
            yield from _pathspecs(plain, use, base, seen=seen, exact="exact" in marks)
            if use == "write":
                yield from _pathspecs([w for w in plain if w.text[:1] in (".", ":")], use, base)
            yield from _pathspecs(sub.after, use, base)


def _read(sub: _Sub) -> Iterator[PathUse]:
    """Yield the files of a sub-command that shows something."""
    yield from _pathspecs(sub.after, "read", sub.base)
    if "--no-index" in sub.texts:
        yield from (PathUse(word, "read", below=True, base=sub.base) for word in sub.operands)
    elif "revs" in sub.row.marks:
        files = [word for word in sub.first if not (word.known and _REVISION.fullmatch(word.text))]
        files = [word for word in files if ":" not in word.text or word.text[0] == ":"]
        yield from _pathspecs(files, "read", sub.base, seen=True)


def _of_command(sub: _Sub) -> Iterator[PathUse]:
    """Yield the files that one sub-command alone reads or writes."""
    name, texts, base = sub.name, set(sub.texts), sub.base
    for value in sub.parsed.values(("--prefix",)) if name in ("checkout-index", "read-tree") else ():
        made = Word(value.text + "*", known=value.known, glob=True, source=value.source + "*")
        yield PathUse(made, "write", made=True, base=base)
    if name == "config":
        if _opaque(sub):
            everywhere = {"--global", "--system"} & texts
            own = Word("~/.gitconfig", tilde=True) if everywhere else Word(".git/config")
            yield PathUse(own, "write", base=base)
        yield from _in_revisions(sub.parsed.values(("--blob",)), base, below=False)
    unnamed = any(not w.known or re.fullmatch(r"[0-9a-f]{4,64}", w.text) for w in sub.first)
    if (name in ("worktree", "bundle") and {"add", "create"} & texts) or (name == "cat-file" and unnamed):
        yield PathUse(UNKNOWN, "read")


_BOTH: tuple[Use, ...] = ("read", "write")
_USES: tuple[tuple[str, Use], ...] = (("read", "read"), ("write", "write"), ("list", "list"))


def _in_revisions(words: Sequence[Word], base: tuple[Word, ...], *, below: bool) -> Iterator[PathUse]:
    """Yield the possible paths in ``REVISION:PATH``. Revisions may have colons themselves (``:0:x``, ``@{10:00}:x``),
    so each is tried; the workspace may be a folder of the repository, so each end of the path is, too."""
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
    """Yield the files of pathspecs: git goes below folders, and its wildcards do too. ``seen``: see PathUse."""
    for word in words:
        magic = _MAGIC.fullmatch(word.text) if word.known else None
        if magic is None:
            yield PathUse(word, use, below=not exact, maybe=True, seen=seen, base=base)
            if word.known and _WILD.search(word.text):
                # git itself expands wildcards that the shell leaves unchanged, in all folders below.
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


def _searched(sub: _Sub) -> Iterator[PathUse]:
    """Yield the revisions and files of ``git grep``. With only revisions, everything in them is searched."""
    files = [word for word in sub.first if not _REVISION.fullmatch(word.text) or word.text[:1] == ":"]
    if sub.after:
        files = list(sub.after)
    elif not files:
        yield PathUse(HERE, "read", below=True, base=sub.base)
    named = [word for word in files if sub.after or ":" not in word.text[1:]]
    yield from _pathspecs(named, "read", sub.base)


def _places(sub: _Sub, command: Simple, before: Parsed, *, shows: bool) -> Iterator[PathUse]:
    """Yield the changes of a sub-command to its repository and its work tree, wherever these are.

    In the workspace they are expected; elsewhere they count as changes of the files there.
    """
    if shows:
        return
    folders = before.values(("-C",))
    targets = [folders, *((*folders, word) for word in before.values(("--work-tree",)))]
    if sub.name in ("push", "send-pack"):
        # A push to a folder writes into it.
        given = [part(word, word.text.removeprefix("file://")) for word in sub.parsed.operands[:1]]
        targets += [(*folders, w) for w in given if "/" in w.text.partition(":")[0] or w.text in (".", "..")]
    for base in targets:
        for word in (HERE, _DOT_GIT):
            yield PathUse(word, "write", base=base, elsewhere=True)
    for word in before.values(("--git-dir",)):
        yield PathUse(word, "write", below=True, made=True, base=folders)
    yield from repositories(command.assignments, folders)


def repositories(pairs: Sequence[tuple[str, Word]], base: tuple[Word, ...] = ()) -> Iterator[PathUse]:
    """Yield git's changes to the repositories that variables name."""
    for name, word in pairs:
        if name in _PLACES:
            yield PathUse(word, "write", below=True, made=True, base=base)


MAX_SETTINGS = 256 * 1024
MAX_INDEX = 32 * 1024 * 1024
_RUNS = re.compile(
    r"\[\s*(?:filter|alias|include|includeif|gpg|pager|difftool|credential|remote-\w+|man|browser)\b|\[\s*(?:diff|merge)[\s.]+\S|"
    r"(?:^|\])\s*(?:fsmonitor|pager|sshcommand|hookspath|external|textconv|command|program|showsignature|worktreeconfig|"
    r"attributesfile|askpass|editor|gitproxy|alternaterefscommand|uploadpack|receivepack|vcs|partialclone|promisor|submodule(?:summary)?)\s*(?:=|$)",
    re.IGNORECASE | re.MULTILINE,
)
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of a submodule in the index: git runs in it, with its settings."""


def names_programs(folder: Path) -> bool:
    """Return whether git in this folder may run a program that the repository names. Unreadable settings count as
    such."""
    try:
        folder = folder.resolve()  # git looks above where a link leads, not above the link
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.exists() and _names(git):
                return True
            # Git takes a folder with these entries for a repository, too, as cloned files can make one.
            parts = (os.path.lexists(place / name) for name in ("HEAD", "objects", "refs"))
            if (all(parts) or (place / "commondir").exists()) and _names(place):
                return True
            if git.is_file():  # only a folder that is no repository is passed over
                break
        return False
    except (OSError, ValueError):
        return True


def _names(git: Path) -> bool:
    if git.is_file():
        git = git.parent / git.read_text()[:4096].removeprefix("gitdir:").strip()
    common = git / "commondir"
    shared = git / common.read_text().strip() if common.is_file() else git
    settings = (shared / "config", git / "config", git / "config.worktree")
    # ``git status`` writes the index, and then runs this hook.
    hook = os.path.lexists(shared / "hooks" / "post-index-change")
    # A split index keeps most entries in a file of its own.
    indexes = (git / "index", *git.glob("sharedindex.*"))
    return hook or any(map(_runs, settings)) or any(map(_has_submodules, indexes))


def _runs(settings: Path) -> bool:
    if not settings.exists():
        return False
    if not settings.is_file() or settings.stat().st_size > MAX_SETTINGS:
        return True
    return _RUNS.search(settings.read_text(errors="replace")) is not None


def _has_submodules(index: Path) -> bool:
    if not index.exists():
        return False
    return not index.is_file() or index.stat().st_size > MAX_INDEX or _SUBMODULE in index.read_bytes()
