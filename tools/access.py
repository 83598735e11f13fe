"""What a call would do, in the words of permission rules. Pure data: the tools say it, the rules judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Access:
    """One thing that a call would do.

    ``target`` is what rules match: for files the resolved path, relative to the workspace with ``/``, absolute when
    outside of it; for ``bash`` one simple command.
    """

    permission: str
    target: str
    why: str = ""
    """Where it comes from, for the person: "``> out.txt``", "argument of cat"; empty when that is plain."""
    implied: bool = False
    """An argument shows it: rules that name the target bind it, and what is protected is; but where only a general
    rule (``*``) asks, or no rule says anything, the rule for the command itself has the word."""
    several: bool = False
    """``target`` is a wildcard, or everything below a folder (``src/*``): which files they are is not known."""
    opaque: str = ""
    """Why rules cannot see what it does, e.g. "python -c runs code". Then only a rule for exactly this target, or a
    sandbox, lets it pass unasked."""
    beyond: bool = False
    """Its words may do more than its general beginning says: what was granted as ``git log *`` does not mean them, a
    rule that the person wrote does."""
    plain: str = ""
    """The same command without variables that change nothing of it (``CI=1 npm test``); a rule may allow either."""
    glue: bool = False
    """It does nothing by itself (``cd sub``, ``echo done``): beside a command that is allowed it needs no rule."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What the answer "always" would remember: ``pattern`` is allowed for ``permission``."""

    permission: str
    pattern: str


def suggestions(permission: str, patterns: tuple[str, ...]) -> tuple[Suggestion, ...]:
    """Suggestions of one permission."""
    return tuple(Suggestion(permission, pattern) for pattern in patterns)
