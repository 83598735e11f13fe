"""All models behind one door: finds the provider by the model's name and retries what passes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.provider import choose, pricing
from daemon.provider.answer_guard import cut_at_limit
from daemon.provider.choose import ModelChoice, default_model, provider_for
from daemon.provider.context_windows import Windows
from daemon.provider.retry import with_retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.model.messages import Usage
    from daemon.provider.model_calls import ModelRequest, ProviderError, ProviderEvents

_CHOICE_LASTS_S = 5.0


class ProviderModels(Windows):
    """Implements ``daemon.loop.services.Models``."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    _chosen: tuple[float, object, ModelChoice] | None = None

    def __repr__(self) -> str:
        return "ProviderModels()"  # ``_chosen`` has keys

    def stream(self, model: str, request: ModelRequest) -> ProviderEvents:
        """Stream an answer of the provider that the part of ``model`` before the first slash names."""
        provider, name = provider_for(model)
        wanted = replace(request, model=name)

        def failed(error: ProviderError) -> None:
            if error.kind == "overflow" and error.window is not None:
                self.learn(model, request.env, error.window)

        return cut_at_limit(with_retry(provider, wanted, sleep=self.sleep, failed=failed), wanted)

    def problem(self, model: str, env: Mapping[str, str]) -> str:
        return choose.access_problem(model, env)

    def cost(self, model: str, usage: Usage) -> float | None:
        return pricing.cost(model, usage)

    async def choose(self, env: Mapping[str, str], configured: str | None) -> ModelChoice:
        """Return the model for a client with this environment and these settings.

        Remembered for a moment: a client that opens asks several times, and each may knock at Ollama's door.
        """
        question = (dict(env), configured)
        if self._chosen is not None:
            at, asked, choice = self._chosen
            if asked == question and self.clock() - at < _CHOICE_LASTS_S:
                return choice
        choice = await default_model(env, configured)
        self._chosen = (self.clock(), question, choice)
        return choice

    async def aclose(self) -> None:
        """Close the connections to the models."""
        await Windows.aclose(self)
        await choose.aclose()
