"""Find what of a git repository makes the user's git run something: fixed names, files that settings name, and the
steps of an operation that has stopped. Blocking."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tools.files.regular_files import read_regular
from tools.process.programs import find_program, scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

KEPT_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "info", "modules")
"""Entries of a git folder that lead to settings or programs."""
MADE_OF_GIT = ("hooks", "info")
"""Made as empty folders where they are missing, as in any new repository: so nothing can be put there."""
WORKTREES = "worktrees"
"""Settings of other working trees. Git removes the folder with the last of them, so it is often missing."""
STOPPED = ("rebase-merge", "rebase-apply", "sequencer")
"""Folders in which git stores the operation that ``--continue`` resumes."""

_CONFIG_S = 20.0
_MAX_STEPS = 1_000_000
"""Bytes of a list of steps that are looked at."""
_STEPS = ("git-rebase-todo", "git-rebase-todo.backup", "todo")
_STEP = re.compile(
    r"pick|p|revert|edit|e|reword|r|fixup|f|squash|s|noop|drop|d|label|l|reset|t|merge|m|update-ref|u|break|b|"
    r"\W.*"  # a comment
)
"""First words of steps that run no program."""
_STRATEGIES = frozenset(("", "ort", "recursive", "resolve", "octopus", "ours", "subtree"))
"""Git looks for a program with the name of any other."""
_AUTHOR = re.compile(r"GIT_AUTHOR_(?:NAME|EMAIL|DATE)='(?:[^']|'\\[!']')*'")
_INCLUDES = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)
_FOLDERS_AND_FILES = ("core.hookspath", "core.attributesfile", "init.templatedir")
_PROGRAMS = re.compile(
    r"(?:core\.(?:fsmonitor|editor|pager|askpass|gitproxy)|sequence\.editor|pager\..+|alias\..+|"
    r".+\.(?:[a-z]*command|cmd|program|helper|textconv|clean|smudge|process|driver|external|difffilter|"
    r"packobjectshook|uploadpack|receivepack|update|path))",
    re.DOTALL,
)


def is_bare(names: AbstractSet[str]) -> bool:
    """Return whether git takes a folder with these entries for a repository, though it is not called ``.git``."""
    return "HEAD" in names and ("commondir" in names or names >= {"objects", "refs"})


def named_in_settings(git_dir: Path, top: Path) -> Iterator[Path]:
    """Yield the files and folders that the settings of a repository lead git to: more settings, hooks and programs.

    ``top``: its working tree. The settings include the user's, as git itself finds them: only git knows all files and
    conditions. The paths need not exist; there are none without git. Raises TimeoutError when git does not answer.
    """
    program = find_program("git", top)
    if program is None:
        return
    command = [program, f"--git-dir={git_dir}", "config", "--list", "--show-origin", "-z"]
    try:
        done = subprocess.run(
            command, cwd=top, env=scrubbed_environment(os.environ),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_CONFIG_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"git did not list the settings of {git_dir} in {_CONFIG_S:.0f} s") from error
    except OSError:
        return
    fields = os.fsdecode(done.stdout).split("\0")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        kind, _, file = origin.partition(":")
        key, _, value = entry.partition("\n")
        if kind == "file":
            yield from _named(top / file, key, value, git_dir, top)


def _named(file: Path, key: str, value: str, git_dir: Path, top: Path) -> Iterator[Path]:
    """``key``: in lower case where git is not case-sensitive."""
    if _INCLUDES.fullmatch(key):
        yield _joined(file.parent, value)
    elif key in _FOLDERS_AND_FILES:
        yield from dict.fromkeys(_joined(base, value) for base in (top, git_dir))
    elif _PROGRAMS.fullmatch(key) and (value.startswith("!") or not key.startswith("alias.")):
        try:
            first, *more = shlex.split(value.removeprefix("!")) or [""]
        except ValueError:
            first, *more = value.removeprefix("!").split() or [""]
        # A first word without a slash is found through PATH.
        for word in (*([first] if "/" in first else []), *more):
            if (path := _joined(top, word)).is_file():
                yield path


def _joined(base: Path, value: str) -> Path:
    return Path(os.path.normpath(base / os.path.expanduser(value)))  # noqa: PTH111


def would_run(state: Path) -> frozenset[str]:
    """Return the lines of a stopped operation for which git runs a program when the user lets it go on.

    An unreadable line counts as such a line. ``state``: one of ``STOPPED`` in a repository; it need not exist.
    """
    found: list[str] = []
    for name in _STEPS:
        found += (line for line in _lines(state / name) if not _is_harmless_step(line))
    found += (f"strategy {line}" for line in _lines(state / "strategy") if line.strip() not in _STRATEGIES)
    found += (line for line in _lines(state / "author-script") if line and not _AUTHOR.fullmatch(line))
    found += (line for line in _lines(state / "opts") if not _is_harmless_option(line))
    return frozenset(found)


def _is_harmless_step(line: str) -> bool:
    words = line.split(maxsplit=1)
    return not words or _STEP.fullmatch(words[0]) is not None


def _is_harmless_option(line: str) -> bool:
    name, _, value = line.partition("=")
    return not re.search(r"strategy(?!-option)", line, re.IGNORECASE) or (
        name.strip() == "strategy" and value.strip() in _STRATEGIES
    )


def _lines(path: Path) -> list[str]:
    try:
        return os.fsdecode(read_regular(path, _MAX_STEPS, follow=True)).split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        return [f"unreadable: {error.strerror}"]
