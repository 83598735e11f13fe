"""Makes room in the context: clears old results, or has the model sum up and goes on from there (mission M8.2, M8.3).

Source: seed 001, "Compact执行流程" and "边界条件处理"; the fallback without a model is that of seed 003.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from daemon.context.compaction import carried_text
from daemon.context.profiles import ContextProfile
from daemon.context.summaries import summary_prompt
from daemon.context.tokens import estimate_tokens
from daemon.context.window import Window, build_window, keep_from, prunable
from daemon.loop.recording import Recorder, new_message_id
from daemon.loop.summing_up import Summary, SummingUp
from daemon.model.events import ContextMarked
from daemon.model.messages import CompactionPart, Message, Part, Role, TextPart
from daemon.provider.base import ProviderError

if TYPE_CHECKING:
    from daemon.loop.assembly import Assembly
    from daemon.loop.session import Session

Reason = Literal["threshold", "overflow", "manual"]
_Kind = Literal["request", "summary", "carried"]

_ROLES: Mapping[_Kind, Role] = {"request": "user", "summary": "assistant", "carried": "user"}

_CARRIED_SHARE = 6
"""One part in this many of the trigger may be carried over word for word …"""
_CARRIED_LEAST = 8_000
"""… but also of a low trigger this many tokens, as far as the model's window allows."""
_GROWTH = 0.1
"""Of the trigger (of what a compaction left, when that was more): so much must have come before the next one."""
_WORTH_IT = 0.95
"""What would leave more than this share of the context is not done at all."""
_LITTLE = 0.9
"""A pass that leaves more than this share of the context, or more than the trigger, freed too little."""
_PRUNED_TO = 0.9
"""Of the trigger: clearing old results spoils the provider's cache, so it has to bring the context below this."""
_OVERFLOW_TO = 0.6
"""Of the context that was too long, whatever it was estimated at."""
_PLACEHOLDER = "x" * 1_000
"""As long as a short summary: to see what a compaction would bring before the model is asked."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Estimated tokens of the next request before and after, and what was done, or why nothing was."""

    before: int
    after: int
    detail: str


@dataclass(frozen=True, slots=True)
class _Cut:
    """What of the messages stays whole, and the tokens of the request then."""

    keep_from: int
    cut_results: bool
    carried: str
    after: int
    kept_steps: int


class Compactor:
    """Of one session. Holds no state that matters: what was compacted is in the messages."""

    def __init__(self, session: Session, assembly: Assembly) -> None:
        self._session = session
        self._state = session.state
        self._assembly = assembly
        self._recorder = Recorder(session)
        self._told_at = 0
        """Tokens at which the person was told that nothing helps."""

    async def make_room(self) -> None:
        """Before a model call: bring the context below the profile's trigger, when it is above it and that helps.

        At most one full compaction. Raises StoreError; on cancellation nothing is stored.
        """
        profile = self._assembly.profile
        before = self._assembly.tokens()
        if before <= profile.compact_at:
            return
        if self._prune(profile, before, int(profile.compact_at * _PRUNED_TO)):
            return
        if (left := self._left()) is not None and before < _next_try(left, profile):
            return
        await self.compact("threshold")

    async def overflowed(self) -> bool:
        """The provider refused the request as too long: make room by all means. False: nothing can be freed.

        Then the same request must not be sent again. Raises StoreError; on cancellation nothing is stored.
        """
        profile = self._assembly.profile
        before = self._assembly.tokens()
        if self._prune(profile, before, int(before * _OVERFLOW_TO)):
            return True
        last = self._last_compaction()
        if last is not None and last.reason == "overflow" and before <= (self._left() or 0):
            return False  # what was done against it a moment ago did not help
        return (await self.compact("overflow")).after < before

    async def compact(self, reason: Reason, instructions: str = "") -> Compacted:
        """A full compaction. ``instructions``: what the person wants of the summary.

        Asks the model, so it takes a while; on cancellation nothing is stored. Raises StoreError.
        """
        profile = self._assembly.profile
        before = self._assembly.tokens()
        target = (
            profile.compact_at
            if reason != "overflow"
            else min(profile.compact_at, int(before * _OVERFLOW_TO))
        )
        prompt = summary_prompt(self._session.agent.context, instructions=instructions)
        above = before > target
        promised = self._best_cut(profile, reason, target, prompt, _PLACEHOLDER, above)
        if promised is None or not (promised.after <= before * _WORTH_IT or self._wished(reason, promised)):
            return self._nothing(profile, before, reason)
        self._session.notice("info", _begins(reason, before, profile), "compaction_begins")
        try:
            asking = SummingUp(self._session, self._assembly)
            summary = await asking.ask(prompt, promised.keep_from, profile)
        except ProviderError as error:
            # The next call would fail in the same way, and a summary without a model would be kept for ever.
            detail = f"The context was not compacted: {error}"
            self._session.notice("warning", detail, "compaction")
            return Compacted(before, before, detail)
        cut = self._best_cut(profile, reason, target, prompt, summary.text, above) or promised
        self._store(reason, prompt, summary, cut, before)
        after = self._assembly.tokens()
        done = f"The context was compacted from {before:,} to {after:,} tokens."
        self._session.notice("info", done, "compaction_done")
        more = _worth_saying(profile, summary, cut)
        if reason != "manual" and (after > profile.compact_at or after > before * _LITTLE):
            more.append(_too_little(after, profile))
            self._told_at = after
        if more:
            self._session.notice("warning" if summary.fallback else "info", " ".join(more), "compaction")
        return Compacted(before, after, " ".join([done, *more]))

    # -- inside --

    def _prune(self, profile: ContextProfile, before: int, target: int) -> bool:
        """Clear old tool results, when that alone is enough."""
        state = self._state
        sequences, freed = prunable(
            state.messages, state.plan, state.marks, profile, cache=self._session.window_cache
        )
        if not sequences or before - freed * state.calibration > target:
            return False
        self._session.emit(
            ContextMarked(
                trace_id=self._session.session_id,
                time=self._session.services.now(),
                pruned=sequences,
                freed_tokens=round(freed * state.calibration),
            )
        )
        after = self._assembly.tokens()
        self._session.notice(
            "info",
            f"The context had {before:,} tokens: {len(sequences)} old tool results are no longer sent to the model, "
            f"now it has {after:,}.",
            "pruned",
        )
        return True

    def _left(self) -> int | None:
        """Tokens that the last full compaction left, as the request would be now; None when there was none."""
        messages = self._state.messages
        for at in range(len(messages) - 1, -1, -1):
            if (mark := messages[at].compaction()) is not None and mark.kind == "carried":
                return self._assembly.tokens(self._window(messages[: at + 1]))
        return None

    def _last_compaction(self) -> CompactionPart | None:
        marks = (message.compaction() for message in reversed(self._state.messages))
        return next((mark for mark in marks if mark is not None and mark.kind == "carried"), None)

    def _window(self, messages: Sequence[Message]) -> Window:
        state = self._state
        return build_window(messages, state.plan, state.marks, self._assembly.profile)

    def _best_cut(
        self, profile: ContextProfile, reason: Reason, target: int, prompt: str, summary: str, above: bool
    ) -> _Cut | None:
        """The mildest way that comes below ``target``; else the one that leaves least. None when all would stay.

        The last N steps stay whole; if that is too long, long results of them are cut; N is the same at every
        compaction (source: seed 001). Only when the provider refused it even so, fewer steps stay.
        """
        steps = [profile.keep_steps]
        if reason == "overflow":
            steps += [n for n in (1, 0) if n < profile.keep_steps]
        first = self._first_shown()
        found: list[_Cut] = []
        for kept in steps:
            for cut_results in (False, True) if kept == profile.keep_steps else (True,):
                cut = self._cut(profile, kept, cut_results, prompt, summary)
                if cut.keep_from <= first and not (cut_results and above):
                    continue  # everything is within the last steps: only cutting can help
                if cut.after <= target:
                    return cut
                found.append(cut)
        return min(found, key=lambda cut: cut.after, default=None)

    def _wished(self, reason: Reason, cut: _Cut) -> bool:
        """Who asks for it by hand may have other reasons than room; but some work must be there to sum up."""
        first = self._first_shown()
        return reason == "manual" and any(
            message.role == "assistant" and first <= message.sequence < cut.keep_from
            for message in self._state.messages
        )

    def _first_shown(self) -> int:
        """Sequence of the first message that the window shows of those that were said or done."""
        last = self._last_compaction()
        start = 0 if last is None else last.keep_from
        return next(
            (
                message.sequence
                for message in self._state.messages
                if message.sequence >= start and message.compaction() is None
            ),
            1,
        )

    def _cut(self, profile: ContextProfile, kept: int, cut_results: bool, prompt: str, summary: str) -> _Cut:
        state = self._state
        sequence = state.next_sequence()
        start = (
            keep_from(
                state.messages,
                state.plan,
                state.marks,
                replace(profile, keep_steps=kept),
                cache=self._session.window_cache,
            )
            if kept
            else sequence
        )
        carried = carried_text(
            state.messages,
            state.plan,
            start,
            _may_carry(profile),
            with_plan=self._session.config.settings.plan_placement == "on_demand",
        )
        trial = [*state.messages]
        for number, (kind, text) in enumerate(zip(_ROLES, (prompt, summary, carried), strict=True), sequence):
            mark = CompactionPart(kind=kind, keep_from=start, cut_results=cut_results)
            trial.append(self._message(_ROLES[kind], (mark, TextPart(text=text)), number))
        after = self._assembly.tokens(self._window(trial))
        return _Cut(start, cut_results, carried, after, kept)

    def _message(self, role: Role, content: tuple[Part, ...], sequence: int) -> Message:
        return Message(
            message_id=new_message_id(sequence),
            trace_id=self._session.session_id,
            role=role,
            sequence=sequence,
            content=content,
            created_at=self._session.services.now(),
        )

    def _store(self, reason: Reason, prompt: str, summary: Summary, cut: _Cut, before: int) -> None:
        """All three in one go: a crash in between leaves what counts as nothing."""

        def mark(kind: _Kind) -> CompactionPart:
            return CompactionPart(
                kind=kind,
                reason=reason,
                keep_from=cut.keep_from,
                before=before,
                after=cut.after,
                cut_results=cut.cut_results,
            )

        add = self._recorder.add
        add("user", (mark("request"), TextPart(text=prompt)), goal_id=None, tokens=estimate_tokens(prompt))
        add(
            "assistant",
            (mark("summary"), TextPart(text=summary.text)),
            goal_id=None,
            tokens=summary.usage.output if summary.usage is not None else estimate_tokens(summary.text),
            usage=summary.usage,
            cost=summary.cost,
            model=summary.model,
            duration_ms=summary.duration_ms,
        )
        carried = (mark("carried"), TextPart(text=cut.carried))
        add("user", carried, goal_id=None, tokens=estimate_tokens(cut.carried))

    def _nothing(self, profile: ContextProfile, before: int, reason: Reason) -> Compacted:
        if reason == "manual":
            return Compacted(
                before, before, "There is nothing to compact: all that is there are the last steps."
            )
        detail = f"The context has {before:,} tokens. {_too_little(before, profile)}"
        # Not at each call again: the person has read it.
        if not self._told_at or before >= _next_try(self._told_at, profile):
            self._told_at = before
            self._session.notice("warning", detail, "compaction")
        return Compacted(before, before, detail)


def _may_carry(profile: ContextProfile) -> int:
    return max(profile.compact_at // _CARRIED_SHARE, min(_CARRIED_LEAST, profile.window // 8))


def _begins(reason: Reason, before: int, profile: ContextProfile) -> str:
    why = {
        "threshold": f"it is compacted above {profile.compact_at:,}",
        "overflow": "the model takes no more",
        "manual": "as you asked",
    }[reason]
    return f"The context has {before:,} tokens: the model is asked to sum up the work so far ({why})."


def _worth_saying(profile: ContextProfile, summary: Summary, cut: _Cut) -> list[str]:
    """What is not as usual about a compaction."""
    said: list[str] = []
    if summary.fallback:
        said.append(
            f"No summary could be had from the model: {summary.fallback} A list of what was done stands in its place."
        )
    if cut.kept_steps < profile.keep_steps:
        kept = (
            f"Only {_last(cut.kept_steps)} fitted in as before."
            if cut.kept_steps
            else "Nothing else fitted in."
        )
        said.append(kept)
    elif cut.cut_results:
        said.append("Long tool results of the last steps were shortened.")
    return said


def _last(steps: int) -> str:
    return "the last step" if steps == 1 else f"the last {steps} steps"


def _next_try(left: int, profile: ContextProfile) -> int:
    """Tokens at which a context that could only be brought down to ``left`` is compacted again."""
    return left + int(max(profile.compact_at, left) * _GROWTH)


def _too_little(after: int, profile: ContextProfile) -> str:
    again = _next_try(after, profile)
    return (
        f"What cannot be left out ({_last(profile.keep_steps)}, your own words, instructions and tools) takes about "
        f"that much; the context is compacted above {profile.compact_at:,} tokens, and it is tried again at "
        f"{again:,}. To make room, set keep_steps lower or compact_at_tokens higher, or begin a new session for the "
        "rest of the work."
    )
