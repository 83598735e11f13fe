"""Asks the person where the rules say so, and keeps what waits for an answer (source: mission M4).

One inbox for the whole daemon. A request lives here, not in a client's connection: an editor may reload or a
second one attach, and the first answer wins because answering is one step on the event loop.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from daemon.model.permissions import FileDiff, PermissionRequest, Reply
from daemon.permission.rules import RuleSet
from tools.base import Action, Approval, FileChange, PermissionAsk, PermissionDenied
from tools.diff import limited, of_change

Answer = Reply | Literal["canceled"]


class Asker(Protocol):
    """The session on whose behalf a question is asked."""

    @property
    def session_id(self) -> str:
        """Id of the session."""
        ...

    @property
    def rules(self) -> RuleSet:
        """The rules that hold for the session now."""
        ...

    def asked(self, request: PermissionRequest) -> None:
        """Record and publish a new request."""
        ...

    def replied(self, request: PermissionRequest, answer: Answer, feedback: str | None, by: str) -> None:
        """Record and publish an answer; from "always" on, ``rules`` include what the request suggested."""
        ...


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The tool call a question is about."""

    tool_call_id: str
    tool: str
    goal_id: str | None = None
    branch_id: str | None = None


@dataclass(slots=True)
class _Pending:
    request: PermissionRequest
    asker: Asker
    changes: tuple[FileChange, ...]
    answer: asyncio.Future[tuple[Answer, str | None]]
    by: str = ""


@dataclass(slots=True)
class PermissionService:
    """See the module."""

    now: Callable[[], datetime]
    _pending: dict[str, _Pending] = field(default_factory=dict[str, _Pending])
    _answered: dict[str, str] = field(default_factory=dict[str, str])
    """Who answered, for those who come too late; only the last few hundred."""

    async def ask(
        self, asker: Asker, call: CallInfo, ask: PermissionAsk, display: Callable[[FileChange], str]
    ) -> Approval:
        """Return when allowed.

        Raises PermissionDenied: by a rule (``by_rule``, the model is told which), or by the person.
        ``display`` gives the path as the person should read it.
        """
        rule = asker.rules.decide_all(ask.permission, ask.targets)
        if rule.action == "allow":
            return Approval()
        if rule.action == "deny":
            raise PermissionDenied(
                f"The rule `{rule.permission} {rule.pattern} deny` ({rule.source}) forbids {ask.permission} "
                f"on {', '.join(ask.targets)}.",
                by_rule=True,
            )
        files = await asyncio.to_thread(_file_diffs, ask.changes, display)
        # While the diff was made, an answer "always" to another request may have settled this one too.
        if asker.rules.decide_all(ask.permission, ask.targets).action == "allow":
            return Approval()
        request = PermissionRequest(
            request_id=f"perm_{uuid.uuid4().hex[:12]}",
            trace_id=asker.session_id,
            branch_id=call.branch_id,
            goal_id=call.goal_id,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            permission=ask.permission,
            targets=ask.targets,
            title=ask.title,
            detail=ask.detail,
            files=files,
            suggestions=ask.suggestions,
            rule=rule,
            created_at=self.now(),
        )
        pending = _Pending(request, asker, ask.changes, asyncio.get_running_loop().create_future())
        self._pending[request.request_id] = pending
        try:
            asker.asked(request)
        except BaseException:
            del self._pending[request.request_id]  # nobody heard of it, so nobody could answer
            raise
        try:
            answer, feedback = await pending.answer
        except asyncio.CancelledError:
            if self._pending.pop(request.request_id, None) is not None:
                asker.replied(request, "canceled", None, "")
            raise
        if answer in ("once", "always"):
            return Approval()
        reason = f"{pending.by or 'The person'} refused {ask.permission}: {ask.title}."
        raise PermissionDenied(reason, feedback)

    def reply(self, request_id: str, reply: Reply, feedback: str | None, by: str) -> tuple[bool, str]:
        """Answer a request: (accepted, who answered it). The first answer wins.

        "always" also releases the session's other requests that the new rules allow; "reject" without feedback
        also rejects the session's other requests (source: conventions.md). Raises KeyError for an unknown id.
        """
        pending = self._pending.get(request_id)
        if pending is None:
            return False, self._answered[request_id]
        self._settle(pending, reply, feedback, by)
        others = [p for p in self._pending.values() if p.asker is pending.asker]
        if reply == "always":
            for other in others:
                if self._allowed(other):
                    self._settle(other, "once", None, by)
        elif reply == "reject" and not feedback:
            for other in others:
                self._settle(other, "reject", None, by)
        return True, by

    def pending(self, session_id: str | None = None) -> list[PermissionRequest]:
        """What waits for an answer, oldest first."""
        return [
            pending.request
            for pending in self._pending.values()
            if session_id is None or pending.request.trace_id == session_id
        ]

    def change(self, request_id: str, path: str) -> FileChange | None:
        """Both sides of one file of a pending request. Raises KeyError when the request is not pending."""
        pending = self._pending[request_id]
        for shown, change in zip(pending.request.files, pending.changes, strict=True):
            if shown.path == path:
                return change
        return None

    def _allowed(self, pending: _Pending) -> bool:
        request = pending.request
        return pending.asker.rules.decide_all(request.permission, request.targets).action == "allow"

    def _settle(self, pending: _Pending, answer: Reply, feedback: str | None, by: str) -> None:
        request = pending.request
        del self._pending[request.request_id]
        self._answered[request.request_id] = by
        if len(self._answered) > 500:
            del self._answered[next(iter(self._answered))]
        pending.by = by
        try:
            pending.asker.replied(request, answer, feedback, by)
        except Exception as error:
            # An answer that cannot be recorded does not count; whoever waits for it must not wait for ever.
            if not pending.answer.done():
                pending.answer.set_exception(error)
            raise
        if not pending.answer.done():
            pending.answer.set_result((answer, feedback))


@dataclass(frozen=True, slots=True)
class CallPermission:
    """The port ``Permission`` of tools for one tool call."""

    service: PermissionService
    asker: Asker
    call: CallInfo
    display: Callable[[FileChange], str]

    async def ask(self, ask: PermissionAsk) -> Approval:
        """See tools.base.Permission."""
        return await self.service.ask(self.asker, self.call, ask, self.display)

    def decide(self, permission: str, target: str) -> Action:
        """See tools.base.Permission."""
        return self.asker.rules.decide(permission, target).action


def _file_diffs(changes: Sequence[FileChange], display: Callable[[FileChange], str]) -> tuple[FileDiff, ...]:
    shown: list[FileDiff] = []
    for change in changes:
        path = display(change)
        diff = of_change(change, path)
        text = limited(diff.text, max_lines=2_000)
        shown.append(FileDiff(path=path, kind=change.kind, diff=text, added=diff.added, removed=diff.removed))
    return tuple(shown)
