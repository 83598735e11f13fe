"""What a run took, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lsp_bridge.cli.text import share
from tools.json_access import integer, mapping, number, string
from tools.localization import t


@dataclass(slots=True)
class Totals:
    """What the model calls of this run took, those of its branches and sub-agents among them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    """US dollars."""
    priced: bool = False
    """At least one call had a known price."""
    _branches: dict[str, Totals] = field(default_factory=dict[str, "Totals"])
    """What of this was counted by the messages of a branch."""

    def count(self, event: dict[str, Any]) -> None:
        """Add what an event of the session says was taken, by itself, a branch or a sub-agent.

        As the daemon counts (``daemon.state.children``): a branch by its messages, and when it has ended the
        rest of it (its sub-agents); a sub-agent when it has ended.
        """
        name = event.get("event")
        if name == "message_added":
            self._add(mapping(event.get("message")))
        elif name == "branch_message_added":
            message = mapping(event.get("message"))
            self._add(message)
            self._branches.setdefault(string(event.get("branchId")), Totals())._add(message)
        elif name == "branch_completed":
            self._add(event, self._branches.pop(string(event.get("branchId")), None))
        elif name == "subagent_completed":
            self._add(mapping(event.get("subagent")))

    def _add(self, what: dict[str, Any], counted: Totals | None = None) -> None:
        """The ``usage`` and ``cost`` of something, without what of it was counted already."""
        usage, counted = mapping(what.get("usage")), counted or Totals()
        self.input += max(0, integer(usage.get("input")) - counted.input)
        self.output += max(0, integer(usage.get("output")) - counted.output)
        self.cache_read += max(0, integer(usage.get("cacheRead")) - counted.cache_read)
        self.cache_write += max(0, integer(usage.get("cacheWrite")) - counted.cache_write)
        # The total of several calls is 0 where no price is known, and null for a single one.
        if (cost := what.get("cost")) is not None and ("content" in what or number(cost) > 0):
            self.priced = True
            self.cost += max(0.0, number(cost) - counted.cost)

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
        text = t("{total:,} tokens", total=total)
        if self.cache_read:
            # Of what went in: nothing that comes out can be cached.
            text += t(
                " ({cache_read} of the input from the cache)",
                cache_read=share(self.cache_read, total - self.output),
            )
        return f"{text} · ${self.cost:.4f}" if self.priced else text


@dataclass(slots=True)
class RunOutcome:
    """How a run ended, for the result line and the exit code."""

    stop_reason: str
    detail: str = ""
    session_id: str | None = None
    usage: Totals = field(default_factory=Totals)
    meter: dict[str, Any] = field(default_factory=dict[str, Any])
    """The session's numbers at the end (``Meter`` of the wire), as far as they came."""
    exit_code: int = 0

    def words(self) -> str:
        """For the last line of a run: what it took, and what the next request would hold."""
        text = self.usage.words()
        if held := integer(self.meter.get("contextTokens")):
            window = integer(self.meter.get("contextWindow"))
            of_window = t(" of {window:,}", window=window) if window else ""
            text += t(" · context {held:,}{of_window}", held=held, of_window=of_window)
        return text
