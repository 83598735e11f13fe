"""Which repository and work tree a git command uses, and that it changes them when it is not known to only show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.shell.commands.words import HERE, Call, Parsed, PathUse, part, words
from tools.shell.syntax import Word

_PLACES = words("GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_SHALLOW_FILE")
_PLAIN = re.compile(r"[\w./@:%+,=-]+")
_DOT_GIT = Word(".git", source=".git")


def changed(
    name: str, call: Call, before: Parsed, operands: Sequence[Word], *, shows: bool
) -> Iterator[PathUse]:
    """What a sub-command changes by the place it works in: its repository and its work tree, wherever these are.

    ``before``: options before the sub-command. In the workspace that is what such a command does; elsewhere it is a
    change of what lies there, however it is named.
    """
    if shows:
        return
    folders = before.values(("-C",))
    yield from _in(folders)
    for word in before.values(("--work-tree",)):
        yield from _in((*folders, word))
    for word in before.values(("--git-dir",)):
        # Also one that is ours by its name: its files are protected.
        yield PathUse(word, "write", below=True, made=True, base=folders)
    for variable, value in call.simple.assignments:
        if variable in _PLACES:
            yield PathUse(_value(value), "write", below=True, made=True, base=folders)
    if name in ("push", "send-pack"):
        for word in operands[:1]:
            # What is pushed to a folder is written there.
            target = part(word, word.text.removeprefix("file://"))
            if "/" in target.text.partition(":")[0] or target.text in (".", ".."):
                yield from _in((*folders, target))


def _in(base: tuple[Word, ...]) -> Iterator[PathUse]:
    yield PathUse(HERE, "write", base=base, elsewhere=True)
    yield PathUse(_DOT_GIT, "write", base=base, elsewhere=True)


def _value(word: Word) -> Word:
    # What was exported before stands there as it was written.
    known = word.known or _PLAIN.fullmatch(word.text) is not None
    return Word(word.text, known=known, source=word.source)
