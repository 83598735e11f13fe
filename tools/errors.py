"""The expected failures of tools."""

from __future__ import annotations


class ToolError(Exception):
    """An expected failure, in words the model can act on. It becomes a tool result with ``is_error``."""


class PermissionDenied(Exception):
    """A rule or the person said no. ``feedback`` is what the person wrote with the refusal, if anything.

    ``by_rule``: nobody was asked, so the model may go on another way; a person's plain no ends the turn.
    """

    def __init__(self, reason: str, feedback: str | None = None, *, by_rule: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.feedback = feedback
        self.by_rule = by_rule
