"""What a run took, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lsp_bridge.terminal.amounts import share
from lsp_bridge.terminal.loose import integer, mapping, number


@dataclass(slots=True)
class Totals:
    """What the model calls of this run took."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    """US dollars."""
    priced: bool = False
    """At least one call had a known price."""

    def count(self, message: dict[str, Any]) -> None:
        """Add the usage of a stored message, if it has one."""
        usage = mapping(message.get("usage"))
        self.input += integer(usage.get("input"))
        self.output += integer(usage.get("output"))
        self.cache_read += integer(usage.get("cacheRead"))
        self.cache_write += integer(usage.get("cacheWrite"))
        if message.get("cost") is not None:
            self.priced = True
            self.cost += number(message["cost"])

    def to_json(self) -> dict[str, Any]:
        """For the result line of ``--json``; ``cost`` is null when no price is known."""
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            "cost": round(self.cost, 6) if self.priced else None,
        }

    def words(self) -> str:
        """For the last line of a run."""
        total = self.input + self.output + self.cache_read + self.cache_write
        text = f"{total:,} tokens"
        if self.cache_read:
            # Of what went in: nothing that comes out can be cached.
            text += f" ({share(self.cache_read, total - self.output)} of the input from the cache)"
        return f"{text} · ${self.cost:.4f}" if self.priced else text


@dataclass(slots=True)
class Outcome:
    """How a run ended, for the result line and the exit code."""

    stop_reason: str
    detail: str = ""
    session_id: str | None = None
    usage: Totals = field(default_factory=Totals)
    meter: dict[str, Any] = field(default_factory=dict[str, Any])
    """The session's numbers at the end (``Meter`` of the wire), as far as they came."""

    def words(self) -> str:
        """For the last line of a run: what it took, and what the next request would hold."""
        text = self.usage.words()
        if held := integer(self.meter.get("contextTokens")):
            window = integer(self.meter.get("contextWindow"))
            of_window = f" of {window:,}" if window else ""
            text += f" · context {held:,}{of_window}"
        return text
