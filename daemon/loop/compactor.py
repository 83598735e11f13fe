"""Make room in the context: clear old results, or replace the past by a summary of the model.

Without a usable answer of the model, the history of the plan's steps replaces the summary.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from daemon.context import compaction_backoff
from daemon.context.compaction import CarriedOver, carried_over
from daemon.context.profiles import ContextProfile, room
from daemon.context.summaries import summary_prompt
from daemon.context.tokens import estimate_tokens
from daemon.context.window import Window, WindowCache, build_window, keep_from, prunable
from daemon.loop import compaction_notices as words
from daemon.loop.record import new_message_id
from daemon.loop.summarizer import Summarizer, Summary
from daemon.model import notice_codes
from daemon.model.events import ContextMarked
from daemon.model.messages import CompactionPart, FilePart, Message, Part, Role, TextPart
from daemon.model.stored_model import Model
from daemon.provider.model_calls import ProviderError
from daemon.steps.history import to_history_string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from daemon.loop.request_builder import RequestBuilder

Reason = Literal["threshold", "overflow", "manual"]
_Kind = Literal["request", "summary", "carried"]

_ROLES: Mapping[_Kind, Role] = {"request": "user", "summary": "assistant", "carried": "user"}

_CARRIED_SHARE = 6
"""One part in this many of the trigger may be carried over word for word …"""
_CARRIED_LEAST = 8_000
"""… or this many tokens, as far as the model's window allows …"""
_CARRIED_MINIMUM = 1_000
"""… but with a low trigger no more than the rest of it, or this much."""
_HISTORY_SHARE, _HISTORY_LEAST, _HISTORY_MINIMUM = 8, 6_000, 600
"""Share of the step history (one part in so many), its least and its minimum size in tokens."""
_WORDS_SHARE = 3
"""One part in this many of the model's window that the user's own words may take in addition, whatever the trigger
is."""
_WORDS_UP_TO = 0.85
"""Share of the model's window that the user's words may fill; the rest is for the work."""
_WORDS_OVERFLOW = 4
"""One part in this many of the target, when the model has rejected the request as too long."""
_FILLED = 0.75
"""Share of the trigger that may be filled, so that there is room for work before the next compaction."""
_FOR_CARRIED = 0.6
"""Share of the rest for carried-over text while the summary is not known yet."""
_WORTH_IT = 0.95
"""Compaction is skipped if more than this share of the context would be left."""
_STEPS_WORTH_IT = 0.8
"""The last steps are dropped only if less than this share is left then."""
_PRUNED_TO = 0.9
"""Share of the trigger: clearing old results spoils the provider's cache, so it must bring the context below this."""
_OVERFLOW_TO = 0.6
"""Share of a context that was too long to aim at, whatever its estimate was."""
_PLACEHOLDER = "x" * 1_000
"""As long as a short summary: to estimate the effect of a compaction before the model is called."""


class CompactResult(Model):
    """Estimated tokens of the next request before and after. ``detail`` describes the compaction, or why there was
    none."""

    before: int
    after: int
    detail: str = ""


class _CompactionTarget(Struct, frozen=True):
    profile: ContextProfile
    reason: Reason
    prompt: str
    before: int
    target: int
    """Tokens to come below."""
    with_history: bool
    """The plan's results are carried over as a history of its steps; not when that history replaces the summary."""
    described: dict[str, str] = field(default_factory=dict[str, str])
    """Lines of results in histories, by their calls' ids."""


class _Cut(Struct, frozen=True):
    """The messages that stay whole, and the tokens of the request then."""

    keep_from: int
    cut_results: bool
    carried: CarriedOver
    after: int
    kept_steps: int


class Compactor:
    """Compacts the context of one session. Its results are messages."""

    def __init__(self, builder: RequestBuilder) -> None:
        self._builder = builder
        self._policy = builder.policy
        self._record = builder.policy.record
        self._state = builder.policy.record.state
        self._left_cache = WindowCache()
        self._failed_attempts: compaction_backoff.FailedAttempts | None = None
        """Compactions that were tried and not stored."""

    async def make_room(self) -> None:
        """Before a model call: bring the context below the profile's trigger, when it is above it and that helps.

        At most one full compaction. Raises StoreError; on cancellation only its costs are stored.
        """
        profile = self._builder.profile
        before = self._builder.tokens()
        if before <= profile.compact_at:
            self._failed_attempts = None
            return
        if self._prune(profile, before, int(profile.compact_at * _PRUNED_TO)):
            return
        if before < self._next_try(profile):
            return
        await self.compact("threshold")

    async def overflowed(self, asked: int) -> bool:
        """Make room by all means after the provider rejected the request as too long. False: nothing can be freed.

        Then the same request must not be sent again. ``asked``: the requested ``max_tokens``. Raises StoreError; on
        cancellation only its costs are stored.
        """
        profile = self._builder.profile
        before = self._builder.tokens()
        fits = before <= min(profile.compact_at, self._most(profile))
        if fits and self._builder.request().max_tokens < asked:
            return True  # the server reported its window: only the requested answer was too long
        messages = self._state.messages
        files = (part for message in messages for part in message.content if isinstance(part, FilePart))
        if all(m.role != "assistant" for m in messages) and any(file.data is not None for file in files):
            return False  # a summary of the prompt would leave out its attachments
        if self._prune(profile, before, int(before * _OVERFLOW_TO)):
            return True
        last = self._last_compaction()
        if last is not None and last.reason == "overflow" and before <= (self._left() or 0):
            return False  # the previous attempt did not help
        return (await self.compact("overflow")).after < before

    async def compact(self, reason: Reason, instructions: str = "") -> CompactResult:
        """Run a full compaction. ``instructions``: the user's wishes for the summary.

        It calls the model, so it takes a while; on cancellation only its costs are stored. Raises StoreError.
        """
        profile = self._builder.profile
        before = self._builder.tokens()
        target = profile.compact_at
        if reason == "overflow":
            target = min(target, int(before * _OVERFLOW_TO))
        prompt = summary_prompt(self._policy.agent.context, instructions=instructions)
        by_steps = self._policy.client.config.settings.plan.plan_front == "step" and bool(
            self._state.plan.goals
        )
        aim = _CompactionTarget(profile, reason, prompt, before, target, by_steps)
        promised = self._best_cut(aim, _PLACEHOLDER)
        if promised is None or not (promised.after <= before * _WORTH_IT or self._wished(reason, promised)):
            return self._nothing(aim)
        if said := await self._builder.hooks.compacting(reason, before, instructions):
            prompt = f"{prompt}\n\n{said}"
            aim = replace(aim, prompt=prompt)
        self._record.notice("info", words.begins(reason, before, profile), notice_codes.COMPACTION_BEGINS)
        asking = Summarizer(self._builder)
        try:
            summary = await asking.ask(prompt, profile, overflowed=reason == "overflow")
        except asyncio.CancelledError:
            asking.count()
            raise
        except ProviderError as error:
            asking.count()
            # The next call would fail too, and a summary without a model would stay forever.
            detail = t("The context was not compacted: {error}", error=error)
            self._record.notice("warning", detail, notice_codes.COMPACTION)
            return CompactResult(before=before, after=before, detail=detail)
        if summary.fallback:
            aim = replace(aim, with_history=False)
        summary, cut = self._fitted(aim, asking, summary, promised)
        if reason != "manual" and cut.after >= before:
            asking.count()
            return self._nothing(aim, words.thrown_away(before, cut.after))
        told = self._user_knows(profile)
        self._store(reason, prompt, summary, cut, before)
        self._failed_attempts = None
        after = self._builder.tokens()
        done = words.done(before, after)
        self._record.notice("info", done, notice_codes.COMPACTION_DONE)
        more = words.unusual(
            profile, summary.fallback, cut.kept_steps, cut.carried, cut_results=cut.cut_results
        )
        too_little = reason == "threshold" and compaction_backoff.freed_too_little(
            before, after, profile.compact_at
        )
        if too_little and not told:
            more.append(self._too_little(profile))
        if more:
            self._record.notice(
                "warning" if summary.fallback else "info", " ".join(more), notice_codes.COMPACTION
            )
        return CompactResult(before=before, after=after, detail=" ".join([done, *more]))

    # -- internals --

    def _prune(self, profile: ContextProfile, before: int, target: int) -> bool:
        """Clear old tool results, when that alone is enough."""
        state = self._state
        sequences, freed = prunable(
            state.messages, state.plan, state.marks, profile, cache=self._builder.window_cache
        )
        if not sequences or before - freed * state.calibration > target:
            return False
        self._record.emit(
            ContextMarked(
                **self._record.here(), pruned=sequences, freed_tokens=round(freed * state.calibration)
            )
        )
        after = self._builder.tokens()
        self._record.notice(
            "info",
            t(
                "The context had {before:,} tokens: {count} old tool results are no longer sent to the "
                "model, now it has {after:,}.",
                before=before,
                count=len(sequences),
                after=after,
            ),
            notice_codes.PRUNED,
        )
        return True

    def _next_try(self, profile: ContextProfile) -> int:
        """Tokens from which a compaction at the threshold is tried."""
        most = self._most(profile)
        left = self._left()
        at = profile.compact_at
        if left is not None:
            row = compaction_backoff.failed_in_a_row(self._done(), profile.compact_at)
            at = max(at, compaction_backoff.next_try(left, profile, most, compaction_backoff.doublings(row)))
        if (attempts := self._attempts(profile)) is not None:
            at = max(at, compaction_backoff.next_try(attempts.tokens, profile, most, attempts.tries - 1))
        return at

    def _too_little(self, profile: ContextProfile) -> str:
        fixed = round(self._builder.frame() * self._state.calibration)
        return words.too_little(profile, self._next_try(profile), fixed)

    def _most(self, profile: ContextProfile) -> int:
        """Return the most tokens of a request that leave room for the answer."""
        return room(profile.window, self._policy.client.config.settings.model.max_tokens)

    def _user_knows(self, profile: ContextProfile) -> bool:
        """Return whether the user knows that compactions free too little with these settings."""
        return self._attempts(profile) is not None or compaction_backoff.ever_failed(
            self._done(), profile.compact_at
        )

    def _attempts(self, profile: ContextProfile) -> compaction_backoff.FailedAttempts | None:
        attempts = self._failed_attempts
        return attempts if attempts is not None and attempts.profile == profile else None

    def _done(self) -> list[CompactionPart]:
        marks = (message.compaction() for message in self._state.messages)
        return [mark for mark in marks if mark is not None and mark.kind == "carried"]

    def _left(self) -> int | None:
        """Tokens that the last full compaction left, as the request would be now; None when there was none."""
        messages = self._state.messages
        for at in range(len(messages) - 1, -1, -1):
            if (mark := messages[at].compaction()) is not None and mark.kind == "carried":
                return self._builder.tokens(self._window(messages[: at + 1], self._left_cache))
        return None

    def _last_compaction(self) -> CompactionPart | None:
        return next(reversed(self._done()), None)

    def _window(self, messages: Sequence[Message], cache: WindowCache | None = None) -> Window:
        state = self._state
        return build_window(messages, state.plan, state.marks, self._builder.profile, cache=cache)

    def _best_cut(self, aim: _CompactionTarget, summary: str) -> _Cut | None:
        """Return the mildest cut that gets below the target, else the one that leaves least. None when everything would
        stay.

        The last N steps stay whole; if that is too long, their long results are cut. N is the same at every compaction.
        Fewer steps stay only if the provider rejected the request even so, and if that helps.
        """
        keep = aim.profile.keep_steps
        steps = [keep]
        if aim.reason == "overflow":
            steps += [n for n in (1, 0) if n < keep]
        first = self._first_shown()
        found: list[_Cut] = []
        for kept in steps:
            for cut_results in (False, True) if kept == keep else (True,):
                cut = self._cut(aim, kept, cut_results, summary)
                if cut.keep_from <= first and not (cut_results and aim.before > aim.target):
                    continue  # everything is within the last steps, so only cutting can help
                if kept < keep and cut.after > aim.before * _STEPS_WORTH_IT:
                    continue
                if cut.after <= aim.target:
                    return cut
                found.append(cut)
        return min(found, key=lambda cut: cut.after, default=None)

    def _fitted(
        self, aim: _CompactionTarget, asking: Summarizer, summary: Summary, promised: _Cut
    ) -> tuple[Summary, _Cut]:
        """Return the summary and its cut. The step history is shortened only as far as necessary."""
        tried: list[tuple[Summary, _Cut]] = []
        for text in self._texts(aim, asking, summary, promised):
            cut = self._best_cut(aim, text)
            if cut is None:  # with the placeholder, dropping a step still made sense
                cut = self._cut(aim, aim.profile.keep_steps, True, text)
            tried.append((replace(summary, text=text), cut))
            if cut.after <= aim.target:
                return tried[-1]
        for share in (_WORTH_IT, 1.0):
            for found in tried:
                if found[1].after < aim.before * share:
                    return found
        return min(tried, key=lambda found: found[1].after)

    def _texts(
        self, aim: _CompactionTarget, asking: Summarizer, summary: Summary, promised: _Cut
    ) -> Iterator[str]:
        """Yield the summary; or, without a model, histories of the steps, the fullest first."""
        if not summary.fallback:
            yield summary.text
            return
        profile = aim.profile
        left = self._tokens_up_to(int(aim.target * _FILLED), promised.after) + estimate_tokens(_PLACEHOLDER)
        limit = _within(
            left,
            max(profile.compact_at // _HISTORY_SHARE, min(_HISTORY_LEAST, profile.window // 10)),
            _HISTORY_MINIMUM,
        )
        for part, earlier in ((1, True), (2, True), (4, True), (1, False), (4, False)):
            yield asking.history(promised.keep_from, limit // part, aim.described, earlier=earlier)

    def _tokens_up_to(self, tokens: int, taken: int) -> int:
        """Return the tokens that are left, in units of our estimate."""
        return int((tokens - taken) / self._state.calibration)

    def _wished(self, reason: Reason, cut: _Cut) -> bool:
        """Return whether the user asked for it, maybe for other reasons than room, and there is work to sum up."""
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

    def _cut(self, aim: _CompactionTarget, kept: int, cut_results: bool, summary: str) -> _Cut:
        state = self._state
        start = state.next_sequence()
        if kept:
            profile = replace(aim.profile, keep_steps=kept)
            start = keep_from(
                state.messages, state.plan, state.marks, profile, cache=self._builder.window_cache
            )
        # Read only the messages that stay in the window, because a session may be long.
        stays = [message for message in state.messages if message.sequence >= start]

        def tokens(messages: Sequence[Message], carried: str) -> int:
            trial = [*messages]
            texts = (aim.prompt, summary, carried)
            for number, (kind, text) in enumerate(zip(_ROLES, texts, strict=True), state.next_sequence()):
                mark = CompactionPart(kind=kind, keep_from=start, cut_results=cut_results)
                trial.append(self._message(_ROLES[kind], (mark, TextPart(text=text)), number))
            return self._builder.tokens(self._window(trial))

        older = [message for message in state.messages if message.sequence < start]
        history = functools.partial(
            to_history_string,
            state.plan,
            older,
            workspace=state.trace.workspace,
            described=aim.described,
        )
        limit, words_limit = self._may_carry(aim, tokens(stays, ""), summary)
        carried = carried_over(
            state.messages,
            state.plan,
            start,
            limit,
            words_tokens=words_limit,
            with_plan=self._policy.client.config.settings.plan.plan_placement == "on_demand",
            history=history if aim.with_history else None,
        )
        # Rules outlive the results they came with, so these must be read as well.
        after = tokens(state.messages if carried.rules else stays, carried.text)
        return _Cut(start, cut_results, carried, after, kept)

    def _may_carry(self, aim: _CompactionTarget, bare: int, summary: str) -> tuple[int, int]:
        """Return the estimated tokens for carried-over text, and for the user's words; ``bare``: those of the rest."""
        profile = aim.profile
        left = self._tokens_up_to(int(aim.target * _FILLED), bare)
        if summary is _PLACEHOLDER:
            left = int(left * _FOR_CARRIED)
        most = max(aim.target // _CARRIED_SHARE, min(_CARRIED_LEAST, profile.window // 8))
        limit = _within(left, most, _CARRIED_MINIMUM)
        if aim.reason == "overflow":  # the model's limit is unknown
            room = max(aim.target // _WORDS_OVERFLOW, most)
        else:
            room = self._tokens_up_to(int(self._most(profile) * _WORDS_UP_TO), bare) - limit
            room = min(most + profile.window // _WORDS_SHARE, room)
        return limit, max(limit, room)

    def _message(self, role: Role, content: tuple[Part, ...], sequence: int) -> Message:
        return Message(
            message_id=new_message_id(sequence),
            trace_id=self._record.session_id,
            role=role,
            sequence=sequence,
            content=content,
            created_at=self._record.now(),
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

        add = self._record.add
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
        carried = (mark("carried"), TextPart(text=cut.carried.text))
        add("user", carried, goal_id=None, tokens=estimate_tokens(cut.carried.text))

    def _nothing(self, aim: _CompactionTarget, why: str = "") -> CompactResult:
        """Return a result without a change. ``why``: the model's failure; empty when it was not called."""
        profile, before = aim.profile, aim.before
        if aim.reason == "manual":
            return CompactResult(before=before, after=before, detail=t(words.NOTHING))
        if aim.reason == "overflow" and not why:
            return CompactResult(
                before=before, after=before
            )  # the turn ends, and reports what fills the request
        attempts = self._attempts(profile)
        told = self._user_knows(profile)
        tries = 1 if attempts is None else attempts.tries + 1
        self._failed_attempts = compaction_backoff.FailedAttempts(profile, before, tries)
        said = why or t("The context has {before:,} tokens.", before=before)
        detail = f"{said} {self._too_little(profile)}"
        if not told:
            self._record.notice("warning", detail, notice_codes.COMPACTION)
        elif why:  # the user was notified that the model is called
            self._record.notice("info", why, notice_codes.COMPACTION)
        return CompactResult(before=before, after=before, detail=detail)


def _within(left: int, most: int, least: int) -> int:
    return max(min(left, most), min(least, most))
