"""Ask the user where rules say so, and keep requests that wait for an answer.

One inbox for the whole daemon. A request lives here, not in a client's connection: an editor may reload or a second one
attach, and the first answer wins because answering is one step on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from daemon.model.branches import branch_of, is_within, root_of
from daemon.model.permissions import (
    FileAnswer,
    FileDiff,
    Grant,
    PermissionRequest,
    Reason,
    Reply,
    Rule,
    Scope,
    ShownHunk,
)
from daemon.permission.access_decision import reviewed
from daemon.permission.answers import check_answers, denial, remembered, subjects
from daemon.store.trace_store import StoreError
from tools.access import Suggestion
from tools.diff.unified_diff import is_limited, limited
from tools.localization import t
from tools.text.terminal import shown_line
from tools.text.truncate import cut_text
from tools.tool import (
    Action,
    Approval,
    FileChange,
    PermissionAsk,
    PermissionDeniedError,
    ProposedFile,
    QuestionAnswer,
    ToolError,
)
from tools.writing.proposal import choosable_hunks, propose, with_hunks, with_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from daemon.permission.grants import GrantStore
    from daemon.permission.rules import RuleSet

log = logging.getLogger(__name__)

Answer = Reply | Literal["canceled"]
TIMEOUT = "timeout"
"""The name of the answerer when nobody answered in time."""
_LONGEST_WORDS = 1_000
"""Most characters of the model's comment on a question."""
Left = tuple[FileChange, ...] | None
"""The changes that the user left of a proposal; None: all of them."""


class RequestResult(Struct, frozen=True):
    """How a request ended, for the record."""

    answer: Answer
    feedback: str | None = None
    by: str = ""
    remembered: tuple[Grant, ...] | None = None
    """With "always": what; None: the request's suggestions."""
    scope: Scope = "session"
    answers: tuple[QuestionAnswer, ...] = ()
    """To the request's questions."""


CANCELED = RequestResult("canceled")


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

    def asked(self, request: PermissionRequest, /) -> None:
        """Record and publish a new request."""
        ...

    def replied(self, request: PermissionRequest, settled: RequestResult, /) -> None:
        """Record and publish an answer; after "always", ``rules`` include the stored grants."""
        ...


class AskerByRules(Struct, frozen=True):
    """Asks on behalf of a session, by other rules than the session's. Implements Asker."""

    session_id: str
    rules_now: Callable[[], RuleSet]
    asked: Callable[[PermissionRequest], None]
    replied: Callable[[PermissionRequest, RequestResult], None]

    @property
    def rules(self) -> RuleSet:
        return self.rules_now()


class CallInfo(Struct, frozen=True):
    """The tool call a question is about."""

    tool_call_id: str
    tool: str
    goal_id: str | None = None
    timeout_s: float | None = None
    """Seconds after which an unanswered question is rejected; None: never."""
    alone: bool = False
    """Rejecting it does not reject the session's other questions."""
    review: bool = False
    """The user is asked in any case, whatever rules, mode or grants would allow."""


class _Pending(Struct):
    request: PermissionRequest
    asker: Asker
    ask: PermissionAsk
    answer: asyncio.Future[tuple[RequestResult, Left]]
    unseen: bool = False
    by_rules: bool = False
    timer: asyncio.TimerHandle | None = None
    alone: bool = False
    review: bool = False


class PermissionService:
    """The requests that wait for a user's answer, and the answers."""

    def __init__(self, now: Callable[[], datetime], keeper: GrantStore) -> None:
        """``keeper`` stores grants that outlive their session."""
        self.now, self.keeper = now, keeper
        self._pending: dict[str, _Pending] = {}
        # Names of those who answered, for late answers; only the last few hundred.
        self._answered: dict[str, str] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever something begins or ceases to wait, in any session; it must return at once."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def _changed(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    async def ask(self, asker: Asker, call: CallInfo, ask: PermissionAsk) -> Approval:
        """Return when allowed, with what the user left of the proposal.

        Raises PermissionDeniedError: by a rule or because nobody answered in time (``by_rule``, the model is notified),
        or by the user.
        """
        rules = asker.rules
        verdict = rules.judge(ask)
        review = call.review or bool(ask.questions)
        if verdict.action == "allow" and not review:
            return Approval()
        if verdict.action == "deny":
            raise PermissionDeniedError(denial(ask, verdict), by_rule=True)
        request = PermissionRequest(
            request_id=f"perm_{uuid.uuid4().hex[:12]}",
            trace_id=root_of(asker.session_id),
            branch_id=branch_of(asker.session_id),
            goal_id=call.goal_id,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            permission=ask.permission,
            targets=ask.targets,
            # Clients show titles in many places, so no character in one may hide or reorder others.
            title=shown_line(ask.title),
            detail=ask.detail,
            model_says=cut_text(ask.model_says, _LONGEST_WORDS),
            notes=ask.notes,
            files=tuple(_shown(file) for file in ask.proposal),
            suggestions=() if review else _grants(rules.lasting(ask.suggestions, verdict)),
            rule=reviewed(ask.permission) if call.review and verdict.action == "allow" else verdict.rule,
            reasons=_merged(reason for reason in verdict.reasons if reason.action != "allow"),
            warnings=ask.warnings,
            questions=ask.questions,
            created_at=self.now(),
        )
        loop = asyncio.get_running_loop()
        alone = call.alone or bool(ask.questions)
        pending = _Pending(request, asker, ask, loop.create_future(), alone=alone, review=review)
        self._pending[request.request_id] = pending
        try:
            asker.asked(request)
        except BaseException:
            del self._pending[request.request_id]  # no client received it, so none can answer
            raise
        self._changed()
        if call.timeout_s is not None and not pending.answer.done():
            pending.timer = loop.call_later(call.timeout_s, self._settle_too, pending, "reject", TIMEOUT)
        try:
            settled, left = await pending.answer
        except asyncio.CancelledError:
            if self._pending.pop(request.request_id, None) is not None:
                self._changed()
                asker.replied(request, CANCELED)
            raise
        finally:
            if pending.timer is not None:
                pending.timer.cancel()
        if settled.answer in ("once", "always"):
            always = settled.answer == "always"
            return Approval(left, True, settled.answers, pending.unseen, always, pending.by_rules)
        if settled.by == TIMEOUT:
            raise PermissionDeniedError(
                f"Nobody answered the request within {call.timeout_s:g} s, so it was rejected: "
                f"{ask.title}. Continue without it; say at the end what could not be done.",
                by_rule=True,
                metadata=_rejected(request, settled),
            )
        raise PermissionDeniedError(
            _rejection(request, settled.by), settled.feedback, metadata=_rejected(request, settled)
        )

    async def left(self, request_id: str, answers: Sequence[FileAnswer]) -> Left:
        """Return what is left of a pending request's proposal when the user accepts only parts of it, or edited it.

        For ``reply``. None when that is all of it, or when the request is no longer pending. Raises ToolError when an
        answer does not fit the proposal or leaves nothing: the request then still waits.
        """
        pending = self._pending.get(request_id)
        if pending is None or not answers:
            return None
        return await asyncio.to_thread(_left, pending.ask.proposal, answers)

    async def preview(self, request_id: str, answers: Sequence[FileAnswer]) -> tuple[FileDiff, ...]:
        """Return what a pending request would write if it were accepted with these answers.

        Raises KeyError when it is not pending, ToolError as ``left`` does.
        """
        proposal = self._pending[request_id].ask.proposal

        def work() -> tuple[FileDiff, ...]:
            left = _left(proposal, answers)
            names = {file.change.path: file.name for file in proposal}
            names |= {file.source.path: file.source_name for file in proposal if file.source is not None}
            files = proposal if left is None else propose(left, names)
            return tuple(_shown(file) for file in files)

        return await asyncio.to_thread(work)

    def reply(
        self,
        request_id: str,
        reply: Reply,
        feedback: str | None,
        by: str,
        left: Left = None,
        grants: Sequence[Grant] | None = None,
        scope: Scope = "session",
        answers: Sequence[QuestionAnswer] = (),
        unseen: bool = False,
    ) -> tuple[bool, str]:
        """Answer a request: (accepted, who answered it). The first answer wins.

        ``left`` is the accepted part of the proposal (see ``left``); ``grants`` and ``scope``: what "always" stores
        (None: the suggestions), and where that holds; ``answers``: to the request's questions. ``unseen``: nobody
        looked at the request.

        "always" also releases other requests that the new rules allow, of all sessions when it holds for more than this
        one; "reject" without feedback also rejects the session's other requests. Raises KeyError for an unknown id,
        ToolError when the grants or answers are not usable, and StoreError when they cannot be stored: in all these
        cases the request still waits.
        """
        pending = self._pending.get(request_id)
        if pending is None:
            return False, self._answered[request_id]
        said = RequestResult(reply, feedback, by, answers=check_answers(pending.request, reply, answers))
        pending.unseen = unseen
        if reply == "always":
            self._always(pending, said, left, grants, scope)
            self.release(pending.request.trace_id if scope == "session" else None, by)
            return True, by
        self._settle(pending, said, left)
        if reply == "reject" and not feedback and not pending.alone:
            # A rejection in one branch does not affect the others.
            for other in self._of(pending.asker.session_id):
                self._settle_too(other, "reject", by)
        return True, by

    def release(self, session_id: str | None, by: str) -> None:
        """Answer what waits and is allowed by now, of one session or of all: rules, mode or trust have changed."""
        for other in self._of(session_id):
            if not other.review and other.asker.rules.judge(other.ask).action == "allow":
                other.by_rules = True
                self._settle_too(other, "once", by)

    def pending(self, session_id: str | None = None) -> list[PermissionRequest]:
        """Return the requests that wait for an answer, oldest first; of a session, its branches and sub-agents."""
        return [pending.request for pending in self._of(session_id)]

    def proposed(self, request_id: str, path: str) -> ProposedFile | None:
        """Return one file of a pending request. Raises KeyError when the request is not pending."""
        pending = self._pending[request_id]
        return next((file for file in pending.ask.proposal if file.name == path), None)

    def _of(self, session_id: str | None) -> list[_Pending]:
        """Return the waiting requests of one session (including branches and sub-agents) or of all."""
        return [
            pending
            for pending in self._pending.values()
            if session_id is None or is_within(pending.asker.session_id, session_id)
        ]

    def _always(
        self,
        pending: _Pending,
        said: RequestResult,
        left: Left,
        grants: Sequence[Grant] | None,
        scope: Scope,
    ) -> None:
        wanted = remembered(pending.request, subjects(pending.ask), grants, scope)
        rules = pending.asker.rules
        found = (Suggestion(one.permission, one.pattern) for one in wanted)
        kept = _grants(rules.lasting(found, rules.judge(pending.ask)))
        said = replace(said, remembered=kept, scope=scope)
        if scope == "session":
            self._settle(pending, said, left)
            return
        stored = self.keeper.add(kept, scope, by=said.by, title=pending.request.title)
        try:
            self._settle(pending, said, left)
        except Exception:
            # The answer does not count, so its grants do not count either.
            self.keeper.forget({grant.grant_id for grant in stored})
            raise

    def _settle(self, pending: _Pending, said: RequestResult, left: Left = None) -> None:
        request = pending.request
        del self._pending[request.request_id]
        self._changed()
        self._answered[request.request_id] = said.by
        if len(self._answered) > 500:
            del self._answered[next(iter(self._answered))]
        try:
            pending.asker.replied(request, said)
        except Exception as error:
            # An answer that cannot be recorded does not count; the caller must not wait forever.
            if not pending.answer.done():
                pending.answer.set_exception(error)
            raise
        if not pending.answer.done():
            pending.answer.set_result((said, left))

    def _settle_too(self, pending: _Pending, answer: Reply, by: str) -> None:
        """Settle a related request; a failure here is no failure of the answered one."""
        if pending.request.request_id not in self._pending:
            return
        try:
            self._settle(pending, RequestResult(answer, by=by))
        except StoreError as error:
            log.warning("%s could not be answered: %s", pending.request.request_id, error)


class CallPlace(Struct, frozen=True):
    """The place of a call among edits that are asked about together and made one after the other."""

    asking: Callable[[], Awaitable[None]]
    """Waits until the calls before this one have asked, or need not ask."""
    allowed: Callable[[Approval], Awaitable[None]]
    """Waits until the calls before this one have ended. Raises PermissionDeniedError when it must not run any more."""


class WaitingTime(Struct):
    """How long a call waited for answers so far."""

    seconds: float = 0.0
    now: bool = False
    """It waits at the moment."""


class CallPermission(Struct, eq=False):
    """The port ``Permission`` of tools for one tool call."""

    service: PermissionService
    asker: Asker
    call: CallInfo
    waited: WaitingTime = field(default_factory=WaitingTime)
    place: CallPlace | None = None
    """For calls that are asked about together: the place among them."""
    _rules: RuleSet | None = None

    async def ask(self, ask: PermissionAsk) -> Approval:
        began = time.monotonic()
        self.waited.now = True
        place = self.place if ask.permission == "edit" else None
        try:
            if place is not None:
                await place.asking()
            approval = await self.service.ask(self.asker, self.call, ask)
            if place is not None:
                await place.allowed(approval)
            return approval
        finally:
            self._rules = None
            self.waited.now = False
            self.waited.seconds += time.monotonic() - began

    @property
    def rules(self) -> RuleSet:
        """The rules as the call found them, or as the last answer left them: searches ask for each file they find."""
        if self._rules is None:
            self._rules = self.asker.rules
        return self._rules

    def decide(self, permission: str, target: str) -> Action:
        return self.rules.decide(permission, target).action

    @property
    def rules_key(self) -> Hashable:
        return self.rules

    @property
    def denies_files(self) -> bool:
        return self.rules.denies_files

    def concealed(self, workspace: Path) -> tuple[Path, ...]:
        from daemon.permission.hidden_paths import concealed

        return concealed(self.rules, workspace)


def _grants(suggested: Iterable[Suggestion]) -> tuple[Grant, ...]:
    return tuple(Grant(permission=one.permission, pattern=one.pattern) for one in suggested)


def _rejection(request: PermissionRequest, by: str) -> str:
    """Return what the user rejected, and in which client; for the user, and for the caller of a sub-agent."""
    if request.permission == "doom_loop":
        return t("Stopped: the agent kept making the same call.")
    if by:
        return t("Rejected in {client}: {title}.", client=by, title=request.title)
    return t("Rejected: {title}.", title=request.title)


def _rejected(request: PermissionRequest, settled: RequestResult) -> dict[str, object]:
    """Return what the display of a rejected call shows, also when the request itself is long forgotten."""
    metadata: dict[str, object] = {"denied": True, "by": settled.by, "title": request.title}
    if settled.feedback:
        metadata["feedback"] = settled.feedback
    if request.files:
        metadata["diff"] = "\n".join(file.diff for file in request.files)
        metadata["added"] = sum(file.added for file in request.files)
        metadata["removed"] = sum(file.removed for file in request.files)
        if len(request.files) == 1:
            metadata["path"] = request.files[0].path
    return metadata


def _shown(file: ProposedFile) -> FileDiff:
    hunks = choosable_hunks(file)
    diff = limited(file.diff.text, max_lines=2_000)
    rows = diff.count("\n") - is_limited(diff)
    return FileDiff(
        path=file.name,
        kind=file.change.kind if file.source is None else "update",
        diff=diff,
        added=file.diff.added,
        removed=file.diff.removed,
        moved_from=file.source_name or None,
        hunks=len(hunks),
        shown_hunks=tuple(ShownHunk(**asdict(hunk)) for hunk in hunks if hunk.row + hunk.rows <= rows),
    )


def _left(proposal: Sequence[ProposedFile], answers: Sequence[FileAnswer]) -> Left:
    by_path = {answer.path: answer for answer in answers}
    unknown = sorted(by_path.keys() - {file.name for file in proposal})
    if unknown or len(by_path) != len(answers):
        raise ToolError(
            t("The request does not include {unknown}.", unknown=", ".join(unknown))
            if unknown
            else t("The same file is answered twice.")
        )
    left: list[FileChange] = []
    for file in proposal:
        answer = by_path.get(file.name)
        if answer is None:
            left += file.changes
        elif answer.text is not None and answer.hunks is None:
            left += with_text(file, answer.text)
        elif answer.hunks is not None and answer.text is None:
            left += with_hunks(file, answer.hunks)
        else:
            raise ToolError(t("{name}: give either hunks or text.", name=file.name))
    if not left:
        raise ToolError(t("No part of the change would remain: reject it instead."))
    whole = [change for file in proposal for change in file.changes]
    return None if left == whole else tuple(left)


def _merged(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the reasons, those about the same thing as one that has all their words."""
    found: dict[tuple[str, str, Rule], Reason] = {}
    for reason in reasons:
        key = reason.permission, reason.target, reason.rule
        known = found.get(key)
        if known is None:
            found[key] = reason
        elif reason.why and reason.why not in known.why:
            why = f"{known.why}; {reason.why}" if known.why else reason.why
            found[key] = known.model_copy(update={"why": why})
    return tuple(found.values())
