"""Ask the model to summarize a session, with the same text as its next request, so that the provider's cache is used.

Nothing is stored here. An answer that cannot be used is requested once more; then the step history replaces it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.agents.loader import COMPACTION, load_agent
from daemon.context.compaction import cut_middle, shortened, user_text
from daemon.context.summaries import (
    MAX_SUMMARY_TOKENS,
    SummaryProblem,
    read_summary,
    retry_prompt,
    summary_text,
)
from daemon.context.tokens import estimate_tokens
from daemon.context.windowing.notes import GO_ON
from daemon.model.events import SessionUpdated
from daemon.model.messages import NotePart, ReasoningPart, TextPart, Usage, added, priced
from daemon.provider.model_calls import ModelRequest, PromptMessage, ProviderError, SystemBlock, answered
from daemon.steps.history import to_history_string
from tools.localization import t, written_for_models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.context.profiles import ContextProfile
    from daemon.loop.request_builder import RequestBuilder

_SHOWN_AGAIN = 8_000
"""Characters of an answer that cannot be used which the model sees again."""
_SUMMARY_SHARE = 8
"""One part in this many of a small window is for the summary."""
_OVERFLOWED_SHARE = 0.6
"""Share of messages that were too long for the model: the question comes on top of them."""
_FILLED = 0.95
"""Share of the window that a request for a summary may fill."""
_LEAST_MESSAGES = 400
"""Tokens of messages that are sent in any case."""
_CUTS = 2
"""How often a request for a summary is made shorter after the model found it too long."""
_NO_ACCESS = ("no_key", "auth")


class Summary(Struct, frozen=True):
    """The replacement for the past. ``fallback``: why no model wrote it, as text for the user; else empty.

    With a fallback ``text`` is empty: see ``Summarizer.history``.
    """

    text: str
    fallback: str = ""
    usage: Usage | None = None
    """Usage of all calls that it took."""
    cost: float | None = None
    """US dollars."""
    model: str | None = None
    duration_ms: int | None = None


class Summarizer:
    """One summary of one session."""

    def __init__(self, builder: RequestBuilder) -> None:
        self._builder = builder
        self._policy = policy = builder.policy
        self._record = policy.record
        self._models = policy.record.services.models
        self._spent = Summary("")
        """Its usage and costs so far."""
        self._model = policy.model
        self._share = 1.0
        """Share of the messages that may be sent."""
        self._system: tuple[SystemBlock, ...] = ()
        """Another one than the session's, for another model."""

    async def ask(self, prompt: str, profile: ContextProfile, *, overflowed: bool = False) -> Summary:
        """Ask the model ``prompt`` after the next request. ``overflowed``: that request was too long for the model.

        Raises ProviderError when the key is missing or rejected: then no call can be made at all.
        """
        started = time.monotonic()
        self._share = _OVERFLOWED_SHARE if overflowed else 1.0
        agent = self._policy.agent.context
        text, problem = await self._asked_other(prompt, agent, profile)
        if not text:
            text, problem = await self._asked(prompt, agent, profile)
        took_ms = int((time.monotonic() - started) * 1000)
        return replace(self._spent, text=text, fallback=problem, duration_ms=took_ms)

    async def _asked_other(self, prompt: str, agent: str, profile: ContextProfile) -> tuple[str, str]:
        """Return the summary of the agent ``compaction``, if it has a model of its own and succeeds; else nothing.

        Nothing of the conversation is in that model's cache, so it gets only its own instructions.
        """
        policy = self._policy
        found = () if policy.agents is None else policy.agents.agents
        other = next((one for one in found if one.name == COMPACTION), None)
        model = "" if other is None else other.model_by(policy.client.config.settings.model.models)
        if other is None or model in ("", policy.model):
            return "", ""
        self._model = model
        self._system = (SystemBlock(other.prompt or load_agent(COMPACTION).prompt),)
        try:
            text, problem = await self._asked(prompt, agent, profile)
        except ProviderError as error:
            text, problem = "", str(error)
        if not text:
            self._record.notice_once(
                t(
                    "The agent {compaction} could not summarize with its model {model}; {model2} is used "
                    "instead. {problem}",
                    compaction=COMPACTION,
                    model=model,
                    model2=policy.model,
                    problem=problem,
                )
            )
        self._model, self._system = policy.model, ()
        return text, ""

    async def _asked(self, prompt: str, agent: str, profile: ContextProfile) -> tuple[str, str]:
        """Return the summary, or why there is none."""
        window = self._builder.window()
        takes = self._takes(profile)
        request = replace(
            self._builder.request(window, tail=False),
            # A small model must have room for the question as well.
            max_tokens=min(MAX_SUMMARY_TOKENS, takes // _SUMMARY_SHARE),
            temperature=0.0,
            thinking_tokens=0,
        )
        if self._system:
            request = replace(request, model=self._model.partition("/")[2], system=self._system)
        whole: Sequence[PromptMessage] = window.messages
        if whole and whole[-1].content == (NotePart(text=GO_ON),):
            whole = whole[:-1]  # the window ends with this user message; ours is better
        question = (_user(prompt),)
        limit = min(self._fitting(takes, request.max_tokens, prompt), int(window.tokens * self._share))
        messages = whole if window.tokens <= limit else shortened(whole, limit)
        cuts, asked = 0, 0
        while True:
            try:
                answer = await self._call(replace(request, messages=(*messages, *question)))
            except ProviderError as error:
                if error.kind in _NO_ACCESS:
                    raise
                if error.kind != "overflow" or cuts == _CUTS:
                    said = str(error)
                    return "", said if said.endswith((".", "!", "?")) else f"{said}."
                cuts += 1
                # The server may just have reported its window.
                takes = min(takes, self._takes(self._builder.profile))
                request = replace(request, max_tokens=min(request.max_tokens, takes // _SUMMARY_SHARE))
                fitting = self._fitting(takes, request.max_tokens, prompt)
                limit = max(min(fitting, min(limit, window.tokens) // 2), _LEAST_MESSAGES)
                messages = shortened(whole, limit)
                continue
            read = read_summary(answer, agent)
            if not isinstance(read, SummaryProblem):
                return summary_text(read), ""
            asked += 1
            if asked == 2:
                why = written_for_models(f": {read}", "")
                return "", t("its response could not be used{why}", why=why)
            question = _again(prompt, answer, read)

    def _takes(self, profile: ContextProfile) -> int:
        """Tokens that the model which is asked takes."""
        if not self._system:
            return profile.window
        return min(profile.window, self._models.window(self._model, self._policy.client.env))

    def _fitting(self, takes: int, answer: int, prompt: str) -> int:
        """Estimated tokens of messages that fit beside everything else. A little less, because estimates err."""
        all_of_it = int((takes * _FILLED - answer) / self._record.state.calibration)
        return max(all_of_it - self._builder.frame() - estimate_tokens(prompt), _LEAST_MESSAGES)

    async def _call(self, request: ModelRequest) -> str:
        """Make one call, to its end; returns its text, or its reasoning without text."""
        complete = await answered(self._models.stream(self._model, request), self._record.retrying)
        spent, cost = self._spent, self._models.cost(self._model, complete.usage)
        self._spent = replace(
            spent,
            usage=added(spent.usage or Usage(), priced(complete.usage, cost)),
            cost=spent.cost if cost is None else cost + (spent.cost or 0.0),
            model=complete.model or self._model,
        )
        texts = [part.text for part in complete.parts if isinstance(part, TextPart)]
        thoughts = [part.text for part in complete.parts if isinstance(part, ReasoningPart)]
        return "\n".join(texts).strip() or "\n".join(thoughts)

    def count(self) -> None:
        """Record the usage of calls whose answers come to nothing. Raises StoreError."""
        record, spent = self._record, self._spent
        if spent.usage is not None:
            record.emit(
                SessionUpdated(
                    **record.here(), updates={}, usage=spent.usage, cost=spent.cost, model=spent.model
                )
            )

    def history(self, keep_from: int, limit: int, described: dict[str, str], *, earlier: bool = True) -> str:
        """Return the step history, of about ``limit`` tokens, up to ``keep_from``. ``described``: as for
        ``to_history_string``.

        ``earlier``: a model's summary from an earlier compaction comes before it; it still has more details.
        """
        state = self._record.state
        before = next(
            (
                (mark.keep_from, message.text())
                for message in reversed(state.messages)
                if (mark := message.compaction()) is not None
                and mark.kind == "summary"
                and not isinstance(read_summary(message.text(), self._policy.agent.context), SummaryProblem)
            ),
            None,
        )
        start, summary = before if before and earlier else (0, "")
        told = [message for message in state.messages if message.sequence < start and user_text(message)]
        since = [message for message in state.messages if start <= message.sequence < keep_from]
        # The turn under way began before that, and its work is listed under the user's request.
        work = [*told[-1:], *since]
        history = to_history_string(
            state.plan, work, limit, workspace=state.trace.workspace, described=described
        )
        return "\n\n".join(filter(None, (summary, history))) or "Nothing has been done yet."


def _user(text: str) -> PromptMessage:
    return PromptMessage("user", (TextPart(text=text),))


def _again(prompt: str, answer: str, problem: SummaryProblem) -> tuple[PromptMessage, ...]:
    if not answer.strip():
        return (_user(f"{prompt}\n\n{retry_prompt(problem)}"),)
    shown = TextPart(text=cut_middle(answer, _SHOWN_AGAIN))
    return (_user(prompt), PromptMessage("assistant", (shown,)), _user(retry_prompt(problem)))
