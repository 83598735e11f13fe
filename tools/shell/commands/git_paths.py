"""How git names files: paths in a revision (``HEAD:x``), and pathspecs (``:/x``, ``*.py`` through all folders)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.shell.commands.words import HERE, UNKNOWN, PathUse, Use, part
from tools.shell.syntax import Word

_MAGIC = re.compile(r":(?:\(([^)]*)\)|([/!^]*):?)(.*)", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_LITERAL = frozenset({"top", "literal", "glob", ""})
_REVISION = re.compile(
    r".*(?:HEAD|@\{|[~^:]).*|@|main|master|develop|trunk|stash|(?:origin|upstream|refs|tags|heads)/.*|"
    r"v?\d+(?:\.\d+)+|[0-9a-f]{7,40}",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a git command works. ``base``: its ``-C``; ``folder``: of the line (``cd``)."""

    base: tuple[Word, ...]
    folder: str | None

    @property
    def to_top(self) -> str | None:
        """The way from there up to where the line starts, the usual root of the repository; None: not known."""
        depth = 0
        for step in (
            self.folder,
            *(word.text if word.known and not word.glob else None for word in self.base),
        ):
            parts = [piece for piece in (step or "").split("/") if piece not in ("", ".")]
            if step is None or step.startswith(("/", "~")) or ".." in parts:
                return None
            depth += len(parts)
        return "../" * depth

    def top(self, word: Word, path: str) -> Word:
        """A path from the root of the repository."""
        up = self.to_top
        return UNKNOWN if up is None or not word.known else part(word, up + (path or "."))


def in_revisions(words: Iterable[Word], where: Where, *, below: bool = False) -> Iterator[PathUse]:
    """What ``REVISION:PATH`` may mean. Revisions may have colons themselves (``:0:x``, ``@{10:00}:x``), so each is
    tried. ``below``: the path may be a folder of which everything is shown."""
    for word in words:
        if not word.known:
            # What shows at run time only counts as any file elsewhere.
            continue
        for found in re.finditer(":", word.text):
            path = word.text[found.end() :]
            if not path or path.startswith("/"):
                continue
            if path.startswith(("./", "../")):
                yield PathUse(part(word, path), "read", below=below, maybe=True, base=where.base)
                continue
            up = where.to_top
            base = where.base if up is None else ()
            named = part(word, (up or "") + path)
            yield PathUse(named, "read", below=below, maybe=True, base=base)
            if up is None:
                yield PathUse(UNKNOWN, "read", unless=named, base=base)
                continue
            # The workspace may be a folder of the repository.
            for inner in re.finditer("/", path):
                if rest := path[inner.end() :]:
                    yield PathUse(part(word, up + rest), "read", below=below, maybe=True, unless=named)


def looks_like_revision(word: Word) -> bool:
    """By its text alone."""
    return word.known and _REVISION.fullmatch(word.text) is not None


def pathspecs(words: Sequence[Word], use: Use, where: Where, *, seen: bool = False) -> Iterator[PathUse]:
    """The files of pathspecs: git goes below folders, and its wildcards do too. ``seen``: see PathUse."""
    left_out = 0
    for word in words:
        magic = _MAGIC.fullmatch(word.text) if word.known else None
        if magic is None:
            yield from _plain(word, use, where.base, seen)
            continue
        kinds = {kind.strip() for kind in (magic[1] or "").split(",")}
        signs = magic[2] or ""
        if "exclude" in kinds or "!" in signs or "^" in signs:
            left_out += 1
        elif not kinds <= _LITERAL or any(kind.startswith("prefix") for kind in kinds):
            yield PathUse(UNKNOWN, use)
        elif "top" in kinds or "/" in signs or not magic[3]:
            yield from _from_top(word, magic[3], use, where)
        else:
            yield from _plain(part(word, magic[3]), use, where.base, seen)
    if left_out and left_out == len(words):
        yield PathUse(HERE, use, below=True, base=where.base)


def _from_top(word: Word, path: str, use: Use, where: Where) -> Iterator[PathUse]:
    if not path:
        yield PathUse(UNKNOWN, use)
    elif _WILD.search(path):
        yield PathUse(where.top(word, ""), use, below=True, like=path)
    else:
        yield PathUse(where.top(word, path), use, below=True, maybe=True)


def _plain(word: Word, use: Use, base: tuple[Word, ...], seen: bool) -> Iterator[PathUse]:
    yield PathUse(word, use, below=True, maybe=True, seen=seen, base=base)
    if word.known and _WILD.search(word.text):
        # What the shell leaves as it is, git expands, below all folders.
        yield PathUse(HERE, use, below=True, like=re.sub(r"^(?:\.{1,2}/)+", "", word.text), base=base)
