"""Simple commands and their redirections while the line is being read. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.shell.state import State
from tools.shell.syntax import Redirection, Word


@dataclass(slots=True)
class Draft:
    """A simple command before the line has been read to its end."""

    start: int
    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...]
    redirections: tuple[Redirection, ...]
    text: str
    folders: tuple[str, ...] | None
    piped: bool
    stdin: Word | None = None


@dataclass(slots=True)
class HereDocument:
    delimiter: str
    tabs: bool
    literal: bool
    state: State
    body: Word | None = None


@dataclass(slots=True)
class Redirections:
    files: list[Redirection] = field(default_factory=list[Redirection])
    document: HereDocument | None = None
    text: Word | None = None
    stdin: bool = False
    duplicated: bool = False
    """Stdin is another descriptor of the shell."""
