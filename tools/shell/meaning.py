"""What a simple command does, as far as its words show: files it reads and writes, code it runs, harm it does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tools.shell.syntax import Simple, Word


@dataclass(frozen=True, slots=True)
class PathUse:
    """A file or folder that a command reads or writes."""

    word: Word
    use: Literal["read", "write"]
    below: bool = False
    """A folder is walked: everything below it counts (``grep -r``, ``rm -r``, ``cp -r``)."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """See the module."""

    paths: tuple[PathUse, ...] = ()
    inner: tuple[Sequence[Word] | str, ...] = ()
    """Commands that it runs: words (``env x``, ``xargs x``, ``find -exec x``), or a whole line (``bash -c '…'``). They
    are judged like any other."""
    opaque: str = ""
    """Why more cannot be told: "python -c runs code that rules cannot read"."""
    read_only: bool = False
    """It is known to change nothing, with these options."""
    warning: str = ""
    """What it destroys, in words for the person; empty when nothing."""
    general: str = ""
    """The beginning that may be allowed whatever follows, e.g. ``git log``; empty: only word by word."""


def meaning(command: Simple) -> Meaning:
    """What is known of a command. Never raises."""
    raise NotImplementedError
