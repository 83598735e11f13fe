"""Prices and limits of models.

The numbers are the providers' list prices (US$ per million tokens) and limits, as their model pages gave them in
November 2026, without discounts, batch or priority prices. The cost of a model that is not listed is None, never a
guess; only a new Claude model is assumed to cost the same as its family.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from daemon.model.messages import Usage

MILLION = 1_000_000


class Price(Struct, frozen=True):
    """US$ per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float


class ModelInfo(Struct, frozen=True):
    """A model's limits in tokens, and its price when known."""

    context_window: int
    max_output: int
    price: Price | None = None
    long_from: int | None = None
    """A prompt of more tokens than this is charged ``long_price`` as a whole."""
    long_price: Price | None = None
    keep_short: bool = True
    """Compact in time for prompts to stay below ``long_from``."""
    window_assumed: bool = False
    """The window is only that of most models."""


def _price(
    input: float, output: float, cache_read: float | None = None, cache_write: float | None = None
) -> Price:
    """Return the price; by default a cached token costs a tenth to read and a quarter more to write."""
    read = round(input * 0.1, 6) if cache_read is None else cache_read
    write = round(input * 1.25, 6) if cache_write is None else cache_write
    return Price(input, output, read, write)


def _model(price: Price, window: int = 1_000_000, output: int = 128_000) -> ModelInfo:
    return ModelInfo(window, output, price)


def _openai_long(price: Price) -> ModelInfo:
    # "Above 272 000 input tokens: input and cache twice, output one and a half times the price."
    long = Price(price.input * 2, price.output * 1.5, price.cache_read * 2, price.cache_write * 2)
    return ModelInfo(1_050_000, 128_000, price, long_from=272_000, long_price=long)


UNKNOWN = ModelInfo(context_window=128_000, max_output=8_192, window_assumed=True)
"""Assumed limits of an unlisted model: those of most models of recent years."""

_MODELS: dict[str, ModelInfo] = {
    # Anthropic. Ids: anthropic/types/model_param.py.
    "claude-fable-5-1": _model(_price(10, 50, cache_read=0.25)),
    "claude-mythos-5-1": _model(_price(10, 50, cache_read=0.25)),
    "claude-fable": _model(_price(10, 50)),
    "claude-mythos": _model(_price(10, 50)),
    "claude-opus-5-5": _model(_price(4, 20, cache_read=0.2)),
    "claude-opus-4-5": _model(_price(5, 25), 200_000, 64_000),
    "claude-opus-4-1": _model(_price(15, 75), 200_000, 32_000),
    "claude-opus-4-0": _model(_price(15, 75), 200_000, 32_000),
    "claude-opus-4-20250514": _model(_price(15, 75), 200_000, 32_000),
    "claude-opus": _model(_price(5, 25)),
    "claude-sonnet-5-5": _model(_price(2, 10, cache_read=0.1)),
    "claude-sonnet-5": _model(_price(2, 10)),
    "claude-sonnet-4-6": _model(_price(3, 15)),
    "claude-sonnet-4": _model(_price(3, 15), 200_000, 64_000),
    "claude-sonnet": _model(_price(3, 15)),
    "claude-3-7-sonnet": _model(_price(3, 15), 200_000, 64_000),
    "claude-haiku-5-5": replace(_model(_price(0.1, 0.5)), long_from=100_000, long_price=_price(0.5, 2.5)),
    "claude-haiku": _model(_price(1, 5), 200_000, 64_000),
    # OpenAI charges most models nothing for writing the cache.
    "gpt-6.1-sol": _openai_long(_price(2, 10, 0.1)),
    "gpt-6.1-terra": _openai_long(_price(1, 5, 0.05)),
    "gpt-6-astra": _openai_long(_price(10, 50)),
    "gpt-6-sol": _openai_long(_price(2, 10)),
    "gpt-6-luna": _openai_long(_price(0.1, 0.5)),
    "gpt-5.6": _openai_long(_price(4, 20)),
    "gpt-5.6-sol": _openai_long(_price(4, 20)),
    "gpt-5.6-terra": _openai_long(_price(2, 12)),
    "gpt-5.6-luna": _openai_long(_price(0.2, 1.2)),
    "gpt-5.5": _openai_long(_price(5, 30, 0.5, 0)),
    "gpt-5.4": _openai_long(_price(2.5, 15, 0.25, 0)),
    "gpt-5.4-mini": _model(_price(0.75, 4.5, 0.075, 0), 400_000),
    "gpt-5.4-nano": _model(_price(0.2, 1.25, 0.02, 0), 400_000),
    "gpt-5.2": _model(_price(1.75, 14, 0.175, 0), 400_000),
    "gpt-5.1": _model(_price(1.25, 10, 0.125, 0), 400_000),
    "gpt-5": _model(_price(1.25, 10, 0.125, 0), 400_000),
    "gpt-5-mini": _model(_price(0.25, 2, 0.025, 0), 400_000),
    "gpt-5-nano": _model(_price(0.05, 0.4, 0.005, 0), 400_000),
    "gpt-4.1": _model(_price(2, 8, 0.5, 0), 1_047_576, 32_768),
    "gpt-4.1-mini": _model(_price(0.4, 1.6, 0.1, 0), 1_047_576, 32_768),
    "gpt-4.1-nano": _model(_price(0.1, 0.4, 0.025, 0), 1_047_576, 32_768),
    "gpt-4o": _model(_price(2.5, 10, 1.25, 0), 128_000, 16_384),
    "gpt-4o-mini": _model(_price(0.15, 0.6, 0.075, 0), 128_000, 16_384),
    "o3": _model(_price(2, 8, 0.5, 0), 200_000, 100_000),
    "o4-mini": _model(_price(1.1, 4.4, 0.275, 0), 200_000, 100_000),
}

_VARIANT = re.compile(r"(-codex)?(-chat)?(-latest|[-@]\d{4}-?\d{2}-?\d{2})?")
"""Suffixes of a listed name that have the same price. Not "-pro": that is another model."""

OLLAMA_WINDOW = 32_768
"""The context size that we request from Ollama. Its own default is a few thousand tokens, and the rest is cut off
silently: tools and system prompt alone would fill it."""

_FREE = Price(0, 0, 0, 0)
_LOCAL = {
    "ollama": ModelInfo(OLLAMA_WINDOW, 8_192, _FREE),
    "demo": ModelInfo(200_000, 32_000, _FREE),
    "scripted": ModelInfo(200_000, 32_000, _FREE),
}
"""Models that run here cost nothing."""


def model_info(model: str) -> ModelInfo:
    """Limits and price of ``provider/model`` or of a bare model id, by the longest listed name it begins with."""
    local = _LOCAL.get(model.partition("/")[0])
    if local is not None:
        return local
    return _listed(_bare(model)) or _from_litellm(model) or UNKNOWN


@functools.lru_cache
def _listed(name: str) -> ModelInfo | None:
    matching = [key for key in _MODELS if name.startswith(key) and _VARIANT.fullmatch(name[len(key) :])]
    if name.startswith("claude-"):
        matching += [key for key in _MODELS if name.startswith(f"{key}-")]
    return _MODELS[max(matching, key=len)] if matching else None


def cost(model: str, usage: Usage) -> float | None:
    """US$ for ``usage`` of ``provider/model``; None when its price is not known."""
    info = model_info(model)
    price = info.price
    prompt = usage.input + usage.cache_read + usage.cache_write
    if info.long_price is not None and info.long_from is not None and prompt > info.long_from:
        price = info.long_price
    if price is None:
        return None
    return (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
    ) / MILLION


def _bare(model: str) -> str:
    # Resellers have their own prices, so "openrouter/anthropic/claude-…" keeps its prefixes.
    provider, slash, name = model.partition("/")
    return name if slash and provider in ("anthropic", "openai") else model


_LONG = re.compile(r"input_cost_per_token(_above_(\d{1,5})k_tokens)")
"""The key of litellm's list for the price of a prompt of more than so many thousand tokens."""


def _from_litellm(model: str) -> ModelInfo | None:
    """Return the price of litellm's list, if that is loaded: importing it takes seconds and 170 MB."""
    library = sys.modules.get("litellm")
    table = cast("dict[str, dict[str, Any]]", getattr(library, "model_cost", None) or {})
    provider, _, name = model.partition("/")
    entry = table.get(model) or table.get(name)
    if entry is None:
        return None
    # The server of the user, or of a reseller, may have the model of this name for another price.
    same = model in table or str(entry.get("litellm_provider")).startswith(provider)

    def number(name: str, default: float) -> float:
        value = entry.get(name)
        return float(value) if isinstance(value, int | float) else default

    listed = number("max_input_tokens", number("max_tokens", 0))
    window = int(listed or UNKNOWN.context_window)
    output = int(number("max_output_tokens", UNKNOWN.max_output))
    if number("input_cost_per_token", -1) < 0 or not same:
        return ModelInfo(window, output, window_assumed=not listed)

    def price(above: str = "") -> Price:
        base, paid = number("input_cost_per_token", 0), number(f"input_cost_per_token{above}", 0)
        out = number(f"output_cost_per_token{above}", number("output_cost_per_token", 0))

        def cached(key: str) -> float:
            grown = number(key, base) * paid / base if base else paid
            return number(f"{key}{above}", grown) * MILLION

        read, write = cached("cache_read_input_token_cost"), cached("cache_creation_input_token_cost")
        return Price(paid * MILLION, out * MILLION, read, write)

    short = price()
    info = ModelInfo(window, output, short, window_assumed=not listed, keep_short=False)
    steps = [(int(found[2]) * 1000, found[1]) for found in map(_LONG.fullmatch, entry) if found]
    if not steps:
        return info
    long_from, above = min(steps)
    long = price(above)
    if long.input <= short.input and long.output <= short.output:
        return info
    return replace(info, long_from=long_from, long_price=long)
