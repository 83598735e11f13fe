"""All models behind one door: finds the provider by the model's name and retries what passes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

from daemon.model.messages import Usage
from daemon.provider import pricing
from daemon.provider.base import ModelRequest, ProviderEvent
from daemon.provider.choose import Choice, default_model, is_provider_variable, provider_for
from daemon.provider.retry import with_retry

_WARM_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class ProviderModels:
    """Implements ``daemon.loop.services.Models``."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def stream(self, model: str, request: ModelRequest) -> AsyncIterator[ProviderEvent]:
        """See Models. The provider is chosen by the part of ``model`` before the first slash."""
        provider, name = provider_for(model)
        return with_retry(provider, replace(request, model=name), sleep=self.sleep)

    async def choose(self, env: dict[str, str], configured: str | None) -> Choice:
        """The model for a client with this environment and these settings."""
        return await default_model(env, configured)

    async def warm(self, configured: str | None) -> None:
        """Import what the first request will need, after the first clients have been answered.

        litellm is left alone: it is large, and whoever uses it waits for the model much longer than for it.
        """
        await self.sleep(_WARM_AFTER_S)
        env = {name: value for name, value in os.environ.items() if is_provider_variable(name)}
        choice = await self.choose(env, configured)
        if choice.model.startswith("anthropic/"):
            from daemon.provider.anthropic import warm

            await asyncio.to_thread(warm)

    def cost(self, model: str, usage: Usage) -> float | None:
        """See Models."""
        return pricing.cost(model, usage)
