"""Prices and limits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from daemon.model.messages import Usage
from daemon.provider.pricing import OLLAMA_WINDOW, UNKNOWN, Price, cost, model_info

MILLION = 1_000_000


@pytest.fixture(autouse=True)
def without_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "litellm", raising=False)


def has_listed(monkeypatch: pytest.MonkeyPatch, listed: Mapping[str, object]) -> None:
    """Have litellm loaded, with this list of models."""
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(model_cost=listed))


def test_each_sort_of_token_has_its_price() -> None:
    usage = Usage(input=10_000, output=20_000, cache_read=30_000, cache_write=40_000)
    expected = (10_000 * 2 + 20_000 * 10 + 30_000 * 0.1 + 40_000 * 2.5) / MILLION
    assert cost("anthropic/claude-sonnet-5-5", usage) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("anthropic/claude-haiku-4-5-20251001", Price(1, 5, 0.1, 1.25)),
        ("claude-sonnet-4-5", Price(3, 15, 0.3, 3.75)),
        ("claude-opus-4-20250514", Price(15, 75, 1.5, 18.75)),
        ("claude-opus-4-8", Price(5, 25, 0.5, 6.25)),
        ("claude-sonnet-9", Price(3, 15, 0.3, 3.75)),
        ("openai/gpt-4o-mini-2024-07-18", Price(0.15, 0.6, 0.075, 0)),
        ("openai/gpt-5.2-codex", Price(1.75, 14, 0.175, 0)),
    ],
)
def test_the_longest_listed_name_decides(model: str, price: Price) -> None:
    assert model_info(model).price == price


@pytest.mark.parametrize(
    "model", ["openai/gpt-50", "openai/gpt-5-pro", "openai/gpt-5.9", "groq/llama", "x/claude-opus-5"]
)
def test_what_is_not_listed_is_not_guessed(model: str) -> None:
    assert model_info(model) == UNKNOWN
    assert cost(model, Usage(input=1)) is None


def test_long_prompts_cost_more_where_the_list_says_so() -> None:
    short, long = Usage(input=100_000), Usage(cache_read=90_000, input=10_001)
    assert cost("anthropic/claude-haiku-5-5", short) == pytest.approx(0.01)
    assert cost("anthropic/claude-haiku-5-5", long) == pytest.approx((10_001 * 0.5 + 90_000 * 0.05) / MILLION)


def test_models_that_run_here_are_free() -> None:
    for model in ("ollama/qwen3:8b", "demo/demo", "scripted/tmp/x.json"):
        assert cost(model, Usage(input=10, output=10)) == 0
    assert model_info("ollama/qwen3:8b").context_window == OLLAMA_WINDOW


def test_limits() -> None:
    assert model_info("anthropic/claude-sonnet-5-5").context_window == 1_000_000
    assert model_info("anthropic/claude-haiku-4-5").max_output == 64_000


def test_the_list_of_litellm_is_used_when_it_is_there_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 4e-6,
        "max_input_tokens": 64_000,
        "max_output_tokens": 4_000,
    }
    listed = {"groq/llama": entry, "free/model": {"max_tokens": 1000}}
    has_listed(monkeypatch, listed)
    info = model_info("groq/llama")
    assert (info.context_window, info.max_output) == (64_000, 4_000)
    assert cost(
        "groq/llama", Usage(input=1_000_000, cache_read=1_000_000, output=1_000_000)
    ) == pytest.approx(6)
    assert cost("free/model", Usage(input=1)) is None
    assert cost("groq/other", Usage(input=1)) is None


def test_the_list_of_litellm_has_prices_of_long_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "input_cost_per_token": 1e-6,
        "input_cost_per_token_above_200k_tokens": 2e-6,
        "input_cost_per_token_above_200k_tokens_priority": 9e-6,
        "output_cost_per_token": 4e-6,
        "output_cost_per_token_above_200k_tokens": 6e-6,
        "cache_read_input_token_cost": 1e-7,
        "cache_read_input_token_cost_above_200k_tokens": 2e-7,
    }
    has_listed(monkeypatch, {"gemini/pro": entry})
    short = Usage(input=100_000, cache_read=100_000, output=10_000)
    assert cost("gemini/pro", short) == pytest.approx(0.1 + 0.01 + 0.04)
    long = Usage(input=100_001, cache_read=100_000, output=10_000)
    assert cost("gemini/pro", long) == pytest.approx(0.200002 + 0.02 + 0.06)


def test_cache_prices_of_long_prompts_grow_as_input_does(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "input_cost_per_token": 5e-6,
        "input_cost_per_token_above_272k_tokens": 1e-5,
        "output_cost_per_token": 3e-5,
        "cache_read_input_token_cost": 5e-7,
    }
    free = {"input_cost_per_token": 0, "input_cost_per_token_above_272k_tokens": 1e-5}
    listed = {"perplexity/gpt": entry, "free/short": free}
    has_listed(monkeypatch, listed)
    assert cost("perplexity/gpt", Usage(cache_read=MILLION)) == pytest.approx(1)
    assert cost("perplexity/gpt", Usage(cache_write=MILLION)) == pytest.approx(10)
    assert cost("free/short", Usage(cache_read=MILLION)) == pytest.approx(10)


@pytest.mark.parametrize("above", [0.0, 1e-6, None])
def test_long_prompts_that_cost_no_more_have_no_own_price(
    monkeypatch: pytest.MonkeyPatch, above: float | None
) -> None:
    entry = {"input_cost_per_token": 1e-6, "input_cost_per_token_above_200k_tokens": above}
    has_listed(monkeypatch, {"gemini/pro": entry})
    assert model_info("gemini/pro").long_price is None
    assert cost("gemini/pro", Usage(input=MILLION)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("model", "priced"),
    [
        ("openai/gpt-x", True),
        ("bedrock/some.model", True),
        ("custom/gpt-x", False),
        ("openrouter/gpt-x", False),
        ("custom/nobody", False),
    ],
)
def test_another_servers_price_is_not_assumed(
    monkeypatch: pytest.MonkeyPatch, model: str, priced: bool
) -> None:
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6, "max_input_tokens": 64_000}
    listed = {
        "gpt-x": {**prices, "litellm_provider": "openai"},
        "some.model": {**prices, "litellm_provider": "bedrock_converse"},
        "nobody": prices,
    }
    has_listed(monkeypatch, listed)
    assert (cost(model, Usage(input=1)) is not None) is priced
    assert model_info(model).context_window == 64_000


def test_prices_do_not_import_litellm() -> None:
    model_info("groq/llama")
    assert "litellm" not in sys.modules
