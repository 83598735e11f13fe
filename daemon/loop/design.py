"""A design that is carried out: its files are changed with the person's yes, or the person and init are told.

Who carries a design out is asked before it changes a file of it, where the change shows: in a tool's arguments, in what
a command line names. What a program writes that a command runs shows only afterwards (``python3 gen.py``). Nothing is
taken back unasked then, for it may be wanted; the history has what was there before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from daemon.model.permissions import PermissionRequest, Rule
from daemon.permission.matching import matches
from tools.localization import noted, t

if TYPE_CHECKING:
    from daemon.files.versions import Version
    from daemon.loop.live import LiveSession

CODE = "design"
"""Of the notice."""
_WORDS = noted("it is part of the design: changes of that need your approval")
_LETS_OTHERS = "task"
"""The tool whose changes are told where they were made: in the session of the sub-agent."""


def guard(path: str) -> Rule:
    """A file of the design, which execute carries out and does not change without a word from the person."""
    return Rule(permission="edit", pattern=path, action="ask", source="agent", words=t(_WORDS))


def note_approval(session: LiveSession, request: PermissionRequest) -> None:
    """The person has allowed what a call asked about."""
    named = {reason.target for reason in request.reasons if reason.permission == "edit"}
    if request.permission == "edit":
        named.update(request.targets)
    session.approved.setdefault(request.tool_call_id, set()).update(named)


def note_changes(session: LiveSession, changes: Iterable[tuple[str, Version]]) -> None:
    """Files were written, each by its name in rules: tell of those that are a design's, and were not asked about."""
    holder = next((one for one in session.bound_by() if one.design), None)
    if holder is None:
        return
    files = {rule.pattern for rule in holder.design}
    for path, version in changes:
        if path not in files or not _is_unasked(session, path, version.tool_call_id):
            continue
        holder.changed_unasked.setdefault(path)
        text = t(
            "{path} is part of the design, and a command of the {name} agent changed it without your "
            "being asked: it did not show beforehand. Look at it; the history has what was there "
            "before (undo).",
            path=path,
            name=session.agent.name,
        )
        for one in dict.fromkeys((session, session.root)):
            one.notice("warning", text, CODE, about=version.tool_call_id)


def unasked_words(session: LiveSession) -> list[str]:
    """The same for the init agent, as facts about what came of its hand-over."""
    if not session.changed_unasked:
        return []
    files = ", ".join(session.changed_unasked)
    return [
        f"Files of the design were changed by commands, without the person's approval: {files}. Read them, tell the "
        "person, and have them approved or put back before you hand over again."
    ]


def _is_unasked(session: LiveSession, path: str, call_id: str) -> bool:
    name = next(
        (
            call.name
            for message in reversed(session.state.messages)
            for call in message.tool_calls()
            if call.id == call_id
        ),
        None,
    )
    # No call of the model's: the person restores files.
    if name is None or name == _LETS_OTHERS:
        return False
    named = session.approved.get(call_id, ())
    return not any(
        path == one or path.startswith(f"{one.rstrip('/')}/") or matches(one, path) for one in named
    )
