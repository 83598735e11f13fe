"""Let another model go on with a turn when the server of its model is overloaded.

The setting ``fallback_model`` names the models, in order. Only an overloaded server, or one that limits the rate, is
left: a wrong key, a bad request or a budget would fail or cost the user elsewhere, too.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.context.profiles import room
from daemon.loop.attachments import refusal
from daemon.model import notice_codes
from daemon.model.messages import FilePart, ToolResultPart
from daemon.provider.memo import Tally
from daemon.provider.model_calls import ProviderError, Restart
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.context.window import WindowMessage
    from daemon.loop.request_builder import RequestBuilder
    from daemon.provider.model_calls import ModelRequest, ProviderEvents


class ModelFallback:
    """The model calls of one turn, with the models that stand in."""

    def __init__(self, builder: RequestBuilder) -> None:
        self._builder = builder
        self._policy = builder.policy
        self._record = builder.policy.record
        self._models = builder.policy.record.services.models
        self._media: Tally[WindowMessage, set[str]] = Tally(set, _add_media)
        """Types of the files in the next request."""

    async def stream(self, request: Callable[[], ModelRequest]) -> ProviderEvents:
        """Play one call, as ``Provider.stream`` does; a Restart comes before the events of another model.

        ``request`` makes the request for the policy's model, which changes with the fallback. Raises the ProviderError
        of the last model that was tried.
        """
        overload: ProviderError | None = None
        while True:
            ready = any(not self._unfit(model) for model in self._next())
            wanted = replace(request(), replaceable=ready)
            began = False
            try:
                async with aclosing(self._models.stream(self._policy.model, wanted)) as events:
                    async for event in events:
                        began = True
                        yield event
                return
            except ProviderError as error:
                if overload is not None and error.kind == "overflow" and not began:
                    # Its window is smaller than was known: compaction, which stays, would be for its sake alone.
                    self._skipped(self._policy.model, str(error))
                elif error.overloaded:
                    overload = error
                else:
                    raise
                if not self._switch(overload):
                    raise overload from error
            yield Restart(str(overload))

    def _next(self) -> Sequence[str]:
        """Return the models that may follow the one that answers now."""
        policy = self._policy
        chain = (policy.chosen_model, *policy.client.config.settings.model.fallback_model)
        names = list(dict.fromkeys(chain))
        return names[names.index(policy.model) + 1 :] if policy.model in names else names[1:]

    def _switch(self, overload: ProviderError) -> bool:
        """Have the next model answer, and tell the user. False: there is none."""
        policy, before = self._policy, self._policy.model
        for model in self._next():
            if problem := self._unfit(model):
                self._skipped(model, problem)
                continue
            policy.let_stand_in(model)
            self._models.ask_window(model, policy.client.env)
            self._record.notice(
                "warning",
                t(
                    "{before} is not available: {error} {model} goes on with this turn. The next turn tries "
                    "{first} again.",
                    before=before,
                    error=overload,
                    model=model,
                    first=policy.chosen_model,
                ),
                notice_codes.FALLBACK_MODEL,
            )
            return True
        return False

    def _skipped(self, model: str, why: str) -> None:
        self._record.notice(
            "warning",
            t("The fallback model {model} is skipped: {why}", model=model, why=why),
            notice_codes.FALLBACK_MODEL,
        )

    def _unfit(self, model: str) -> str:
        """Return why a model cannot take the next request over; empty: it can."""
        policy = self._policy
        env, settings = policy.client.env, policy.client.config.settings
        if problem := self._models.problem(model, env):
            return problem
        window = self._models.window(model, env, settings.context.context_window)
        tokens = self._builder.tokens()
        if tokens > room(window, settings.model.max_tokens):
            return t(
                "the request has about {tokens:,} tokens, and its context window only {window:,}.",
                tokens=tokens,
                window=window,
            )
        media = self._media.of(self._builder.window().entries)
        return next(filter(None, (refusal(model, kind) for kind in media)), "")


def _add_media(kinds: set[str], entry: WindowMessage) -> None:
    for part in entry.prompt.content:
        if isinstance(part, ToolResultPart):
            kinds |= {image.media_type for image in part.images}
        elif isinstance(part, FilePart) and part.data is not None:
            kinds.add(part.media_type)
