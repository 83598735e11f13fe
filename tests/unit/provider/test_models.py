from __future__ import annotations

import asyncio

import pytest

from daemon.provider import choose
from daemon.provider.models import ProviderModels

KEY = {"ANTHROPIC_API_KEY": "k"}
NO_OLLAMA = {"OLLAMA_HOST": "http://127.0.0.1:9"}


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    models: list[str] = []
    monkeypatch.setattr(choose, "warm", lambda model, env: models.append(model))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return models


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


async def test_sdk_is_loaded_once_for_the_first_client_that_needs_it(warmed: list[str]) -> None:
    models = ProviderModels(sleep=at_once)
    await models.warm_for({}, None)  # the launcher, which has nothing to ask
    await models.warm_for(NO_OLLAMA, None)
    await models.warm_for(KEY, "openai/gpt-5")
    assert warmed == []
    await asyncio.gather(models.warm_for(KEY, None), models.warm_for(KEY, "anthropic/claude-x"))
    await models.warm_for(KEY, None)
    assert len(warmed) == 1
    assert warmed[0].startswith("anthropic/")
