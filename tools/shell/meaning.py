"""What a simple command does, as far as its words show: files it reads and writes, code it runs, harm it does. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.shell.commands import (
    copies,
    environment,
    files,
    general,
    git,
    glue,
    harm,
    interpreters,
    outputs,
    packages,
    programs,
    remote,
    wrappers,
)
from tools.shell.commands.words import Call, Meaning, PathUse, Reader, implied_paths, join
from tools.shell.syntax import Simple

__all__ = ["Meaning", "PathUse", "meaning"]

_SYSTEM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/[^/]+")
_READERS: dict[str, Reader] = {
    **files.READERS,
    **copies.READERS,
    **programs.READERS,
    **wrappers.READERS,
    **remote.READERS,
    **packages.FETCHERS,
    "git": git.read,
}
_TOLD = frozenset((*files.READERS, *copies.READERS, "git", "awk", "sed", "tr"))
"""Programs of which the words say all that they change, where they are not opaque."""


def meaning(command: Simple) -> Meaning:
    """What is known of a command. Never raises."""
    if not command.words:
        reason = environment.opaque(command.assignments, alone=True)
        return Meaning(opaque=reason, read_only=not reason)
    first = command.words[0]
    if not first.known or first.glob or not first.text:
        return Meaning(
            opaque="which program it runs shows only at run time",
            paths=implied_paths(command.words[1:], "read", "write"),
        )
    path = first.text
    elsewhere = "/" in path and not _SYSTEM.fullmatch(path)
    call = Call(path.rpartition("/")[2], command.words[1:], command)
    reader = outputs.reader(call.name) or interpreters.reader(call.name) or _READERS.get(call.name)
    found = reader(call) if reader is not None else _unknown(call)
    if named := outputs.paths(call):
        found = replace(found, paths=(*found.paths, *named))
    if elsewhere:
        # It need not be what its name says, but may be: ``.venv/bin/python -c``.
        paths = (PathUse(first, "read"), *implied_paths(call.args, "read", "write"), *found.paths)
        found = replace(found, paths=paths, read_only=False)
    return _completed(call, found, elsewhere)


def _unknown(call: Call) -> Meaning:
    """Of a program that nothing is known of: what stands after ``--`` may be a command that it runs."""
    texts = [word.text for word in call.args]
    rest = call.args[texts.index("--") + 1 :] if "--" in texts else ()
    runs = bool(rest) and rest[0].known and not rest[0].text.startswith("-")
    return Meaning(paths=programs.of_unknown(call), through=(rest,) if runs else ())


def _completed(call: Call, found: Meaning, elsewhere: bool) -> Meaning:
    """What holds for every command: its environment, its harm, other names, and how far it may be generalised."""
    command = call.simple
    reason = environment.opaque(command.assignments) or general.runs(call)
    bare = "/" not in command.words[0].text
    plain = bare and environment.harmless(command.assignments)
    prefix, more = ("", "") if elsewhere else general.limits(call)
    return replace(
        found,
        told=not elsewhere and (bool(found.inner) or found.read_only or call.name in _TOLD),
        opaque=found.opaque or reason,
        read_only=found.read_only and plain and not reason and not found.opaque and not more,
        warning=found.warning or harm.warning(call),
        general=prefix if plain and not more and not found.opaque and not reason else "",
        more=more or found.more,
        by_name=bool(found.opaque) and not reason and general.by_name(call),
        plain=join(command.words)
        if command.assignments and environment.changes_nothing(command.assignments)
        else "",
        glue=not (found.opaque or reason or more or elsewhere) and glue.is_glue(call),
        also=_other_texts(call, found.also),
    )


def _other_texts(call: Call, more: tuple[str, ...]) -> tuple[str, ...]:
    command = call.simple
    args = join(command.words[1:])
    # A rule for ``rm`` means it also when it is called by its path, in quotes, or after an assignment.
    texts = [f"{name} {args}".strip() for name in (command.words[0].text, call.name)]
    return tuple(dict.fromkeys(text for text in (*texts, *more) if text != command.text))
