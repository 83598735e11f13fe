"""The expected failures of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolError(Exception):
    """An expected failure, in words the model can act on. It becomes a tool result with ``is_error``.

    ``told``: the same for the user, in a sentence, where the message only makes sense to the model.
    """

    def __init__(self, message: str, *, told: str = "") -> None:
        super().__init__(message)
        self.told = told


class PermissionDeniedError(Exception):
    """A rule or the person said no. ``feedback`` is what the person wrote with the refusal, if anything.

    ``reason`` is for the user, but for ``by_rule``: then nobody was asked, and the model may go on another way; a
    user's plain no ends the turn. ``metadata``: what was rejected and by whom, for the display of the call.
    """

    def __init__(
        self,
        reason: str,
        feedback: str | None = None,
        *,
        by_rule: bool = False,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(reason)
        self.metadata = dict(metadata or {})
        self.reason = reason
        self.feedback = feedback
        self.by_rule = by_rule
