"""The cost of a request with prefix caching: a model of the provider's cache, fed with the real wire form.

The rules are those of Anthropic's documentation of prompt caching (as of November 2026):

- a prefix goes over tools, then system, then messages, block by block, and must be the same to the byte;
- only a block with ``cache_control`` writes an entry, for everything up to it; there are four of them at most;
- a lookup goes back from each such block, over at most 20 blocks, and finds only entries that were written;
- an entry lives five minutes from the start of the request that wrote or read it;
- nothing is cached below 1 024 tokens.

Where the documentation is silent, the cheaper guess is not taken: reading an entry does not keep the shorter entries
below it alive, unless the request has a breakpoint exactly there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from daemon.context.profiles import CACHE_LASTS_S
from daemon.context.tokens import estimate_tokens
from daemon.model.messages import Usage

LOOKBACK = 20
MINIMUM = 1_024
_BLOCK_TOKENS = 4
"""Tokens of the marks around a block."""

Json = Mapping[str, Any]
"""Parts of a request as the wire has them; their shape is the API's."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a request: its tokens, the hash of the prefix that ends with it, and whether it is a breakpoint."""

    tokens: int
    prefix: str
    breakpoint: bool


@dataclass
class PrefixCache:
    """The entries of one session, by the hash of their prefix: when each was used last, in seconds."""

    lasts_s: float = CACHE_LASTS_S
    refreshes_all: bool = False
    """Reading an entry keeps all shorter ones alive, too."""
    entries: dict[str, float] = field(default_factory=dict[str, float])
    again: int = 0
    """Tokens that were written although the same prefix had been written before: it was forgotten or not found."""
    _seen: set[str] = field(default_factory=set[str])

    def send(self, body: Json, now: float) -> Usage:
        """Return the input tokens of the request at ``now`` (seconds); ``body`` is that of ``messages.create``."""
        blocks = request_blocks(body)
        ends: list[int] = []
        total = 0
        for block in blocks:
            total += block.tokens
            ends.append(total)
        marks = [n for n, block in enumerate(blocks) if block.breakpoint and ends[n] >= MINIMUM]
        hit = max((found for mark in marks if (found := self._lookup(blocks, mark, now)) >= 0), default=-1)
        last = marks[-1] if marks else -1
        read = ends[hit] if hit >= 0 else 0
        written = max(0, ends[last] - read) if last >= 0 else 0
        for block in blocks[hit + 1 : last + 1]:
            self.again += block.tokens if block.prefix in self._seen else 0
            self._seen.add(block.prefix)
        if self.refreshes_all:
            for block in blocks[: hit + 1]:
                if self._lives(block.prefix, now):
                    self.entries[block.prefix] = now
        for position in (*marks, *((hit,) if hit >= 0 else ())):
            self.entries[blocks[position].prefix] = now
        return Usage(input=total - read - written, cache_read=read, cache_write=written)

    def _lookup(self, blocks: list[Block], mark: int, now: float) -> int:
        for position in range(mark, max(-1, mark - LOOKBACK), -1):
            if self._lives(blocks[position].prefix, now):
                return position
        return -1

    def _lives(self, prefix: str, now: float) -> bool:
        return prefix in self.entries and now - self.entries[prefix] <= self.lasts_s


def request_blocks(body: Json) -> list[Block]:
    """All blocks of a request, in the order in which prefixes are built."""
    found: list[Block] = []
    digest = hashlib.sha256()
    for place, block in _blocks(body):
        plain = {key: value for key, value in block.items() if key != "cache_control"}
        digest.update(place.encode())
        digest.update(json.dumps(plain, ensure_ascii=False).encode())
        found.append(Block(block_tokens(plain), digest.hexdigest(), "cache_control" in block))
    return found


def _blocks(body: Json) -> Iterator[tuple[str, Json]]:
    for tool in body.get("tools", ()):
        yield "tool", tool
    for block in body.get("system", ()):
        yield "system", block
    for message in body["messages"]:
        for block in message["content"]:
            yield message["role"], block


def block_tokens(block: Json) -> int:
    """Tokens of one block by the product's own estimate: of its texts, not of the JSON around them."""
    return _BLOCK_TOKENS + sum(estimate_tokens(text) for text in _texts(block))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if "input_schema" in fields:
            # A tool's schema goes to the model as JSON.
            yield json.dumps(fields, ensure_ascii=False)
            return
        for key, item in fields.items():
            if key not in ("type", "tool_use_id", "id"):
                yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item)


def request_tokens(body: Json) -> int:
    """Tokens of a whole request."""
    return sum(block.tokens for block in request_blocks(body))


def request_text(body: Json) -> str:
    """Everything that the model reads in a request, tools aside."""
    return "\n".join(text for place, block in _blocks(body) if place != "tool" for text in _texts(block))
