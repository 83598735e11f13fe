"""From a command line to the question for the permission service: the one way, for the tool and for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.base import PermissionAsk


def _no_files(folder: Path, pattern: str) -> Sequence[str] | None:
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command line would run, and what may be looked up there."""

    workspace: Path
    """Absolute, resolved."""
    home: Path
    real: Callable[[Path], Path] = lambda path: path
    """Follows links (``os.path.realpath``); by default nothing is looked up."""
    files: Callable[[Path, str], Sequence[str] | None] = _no_files
    """The files that a shell wildcard means in a folder, or that lie below a folder (``**``); None: not known."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Values of variables that are known, e.g. HOME."""


def question(command: str, place: Place, *, title: str = "") -> PermissionAsk:
    """What has to be allowed for a command line. Never raises; what cannot be parsed is an opaque access."""
    raise NotImplementedError
