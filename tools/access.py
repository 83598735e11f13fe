"""The accesses of a call, in the terms of permission rules. Pure data: tools declare them, rules decide about them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Action = Literal["allow", "ask", "deny"]


class Access(Struct, frozen=True):
    """One thing that a call would do.

    ``target`` is what rules match: for files the resolved path, relative to the workspace with ``/``, absolute when
    outside of it; for ``bash`` one simple command.
    """

    permission: str
    target: str
    why: str = ""
    """Origin of the access, for the user: "``> out.txt``", "argument of cat"; empty when that is obvious."""
    implied: bool = False
    """It follows from an argument: rules that name the target apply, and so does protection; but where only a general
    rule (``*``) asks, or no rule matches, the rule for the command itself decides."""
    several: bool = False
    """``target`` is a wildcard, or everything below a folder (``src/*``): which files they are is not known."""
    opaque: str = ""
    """Why rules cannot see its effect, e.g. "python -c runs code". Then only a rule for exactly this target, or a
    sandbox, lets it run without approval."""
    beyond: bool = False
    """Its words may do more than its general beginning names: a grant of ``git log *`` does not cover them, a rule that
    the user wrote does."""
    plain: str = ""
    """The command without variables that do not change its effect (``CI=1 npm test``); a rule may allow either."""
    glue: bool = False
    """It has no effect of its own (``cd sub``, ``echo done``): together with an allowed command it needs no rule."""


class Suggestion(Struct, frozen=True):
    """A suggestion for the answer "always": to allow ``pattern`` for ``permission``."""

    permission: str
    pattern: str


def suggestions(permission: str, patterns: tuple[str, ...]) -> tuple[Suggestion, ...]:
    """Suggestions of one permission."""
    return tuple(Suggestion(permission, pattern) for pattern in patterns)
