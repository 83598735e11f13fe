"""Protect the files of a design: changes to them need the user's approval, or the user and init are notified.

The implementing agent must ask before it changes a file of the design, where the change is visible: in a tool's
arguments, or in a command line. Changes by a program that a command runs show only afterwards (``python3 gen.py``).
They are not undone automatically, because they may be intended; the history has the earlier content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.permissions import PermissionRequest, Rule
from daemon.permission.matching import matches
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.model.messages import Message

_WORDS = noted("it belongs to the design, and design changes need your approval")
_LETS_OTHERS = "task"
"""The tool whose changes are reported where they were made: in the session of the sub-agent."""


class DesignFiles:
    """The files of the design that a session carries out; none in most sessions."""

    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()
        """Ask about its files: carrying a design out is not changing it."""
        self._approved: dict[str, set[str]] = {}
        """Files that the user let a call of the session change, by the call's id."""
        self._changed_unasked: dict[str, None] = {}

    def guard(self, paths: Iterable[str]) -> None:
        """These files are the design: they are not changed without a word from the user."""
        self.guard_by(
            Rule(permission="edit", pattern=path, action="ask", source="agent", words=t(_WORDS))
            for path in paths
        )

    def guard_by(self, rules: Iterable[Rule]) -> None:
        """Use the rules that another session has made of its design."""
        self.rules = tuple(rules)

    def note_approval(self, request: PermissionRequest) -> None:
        """The user has allowed what a call asked about."""
        named = {reason.target for reason in request.reasons if reason.permission == "edit"}
        if request.permission == "edit":
            named.update(request.targets)
        self._approved.setdefault(request.tool_call_id, set()).update(named)

    def holds(self, path: str) -> bool:
        """Return whether a file, by its name in rules, is of the design."""
        return any(rule.pattern == path for rule in self.rules)

    def note_unasked(self, path: str) -> None:
        """A file of the design was changed without a question."""
        self._changed_unasked.setdefault(path)

    def was_asked(self, path: str, call_id: str, messages: Sequence[Message]) -> bool:
        """Return whether the user knows of a change: allowed it for the call, or made it (restoring files)."""
        name = next(
            (
                call.name
                for message in reversed(messages)
                for call in message.tool_calls()
                if call.id == call_id
            ),
            None,
        )
        if name is None or name == _LETS_OTHERS:
            return True
        return any(
            path == one or path.startswith(f"{one.rstrip('/')}/") or matches(one, path)
            for one in self._approved.get(call_id, ())
        )

    def unasked_words(self) -> list[str]:
        """Return facts for the init agent about the result of its handover."""
        if not self._changed_unasked:
            return []
        files = ", ".join(self._changed_unasked)
        return [
            f"Commands changed files of the design without the user's approval: {files}. Read them, tell "
            "the user, and have them approved or restored before you hand over again."
        ]


def changed_words(path: str, agent: str) -> str:
    """Tell the user of a file of the design that was changed without a question."""
    return t(
        "{path} belongs to the design, and a command of the {name} agent changed it without your approval: "
        "the change could not be predicted from the command. Review it; undo restores the previous version.",
        path=path,
        name=agent,
    )
