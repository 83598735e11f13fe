"""The expected failures of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolError(Exception):
    """An expected failure, with a message that helps the model. It becomes a tool result with ``is_error``.

    ``told``: the same for the user, in a sentence, where the message only makes sense to the model.
    """

    def __init__(self, message: str, *, told: str = "") -> None:
        super().__init__(message)
        self.told = told


class PermissionDeniedError(Exception):
    """Raised when a rule or the user rejects. ``feedback`` is the user's message with the rejection, if any.

    ``reason`` is for the user, except for ``by_rule``: then nobody was asked, and the model may try another way; a
    plain rejection by the user ends the turn. ``metadata``: what was rejected and by whom, for the display of the call.
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
