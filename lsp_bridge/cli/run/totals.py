"""The usage of a run, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lsp_bridge.cli.text import share, window_words
from tools.json_access import integer, mapping, number
from tools.localization import t
from tools.text.amounts import cost_words


@dataclass(slots=True)
class Totals:
    """The usage of this run's model calls, including those of its branches and sub-agents."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    """US dollars."""
    unpriced: int = 0
    """Tokens whose price is not known."""
    _session: dict[str, Any] = field(default_factory=dict[str, Any])
    """The session's totals, as last received."""

    def follow(self, event: dict[str, Any], view: dict[str, Any], *, counts: bool) -> None:
        """Take what came with an event (``ViewUpdate``: the session's totals).

        ``counts``: the run is under way. Titles and summaries are made beside it, and are none of it.
        """
        before = self._session
        self._session = {**before, **{name: value for name, value in view.items() if value is not None}}
        if not counts or event.get("event") == "session_updated":
            return
        was, now = mapping(before.get("usage")), mapping(self._session.get("usage"))
        self.input += integer(now.get("input")) - integer(was.get("input"))
        self.output += integer(now.get("output")) - integer(was.get("output"))
        self.cache_read += integer(now.get("cacheRead")) - integer(was.get("cacheRead"))
        self.cache_write += integer(now.get("cacheWrite")) - integer(was.get("cacheWrite"))
        self.unpriced += integer(now.get("unpriced")) - integer(was.get("unpriced"))
        self.cost += number(self._session.get("totalCost")) - number(before.get("totalCost"))

    def to_json(self) -> dict[str, Any]:
        """Return the result line of ``--json``; ``cost`` is null when no price is known, and lacks that of the tokens
        in ``unpriced``."""
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            "unpriced": self.unpriced,
            "cost": round(self.cost, 6) if self.cost or not self.unpriced else None,
        }

    def words(self) -> str:
        """Return the text for the last line of a run."""
        total = self.input + self.output + self.cache_read + self.cache_write
        text = t("{total:,} tokens", total=total)
        if self.cache_read:
            # Of the input: output cannot be cached.
            text += t(
                " ({cache_read} of the input from the cache)",
                cache_read=share(self.cache_read, total - self.output),
            )
        return f"{text} · {cost_words(self.cost, self.unpriced)}" if total else text


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
        """Return the last line of a run: its usage, and the size of the next request."""
        text = self.usage.words()
        if held := integer(self.meter.get("contextTokens")):
            window = integer(self.meter.get("contextWindow"))
            of_window = t(" of {window}", window=window_words(self.meter)) if window else ""
            text += t(" · context {held:,}{of_window}", held=held, of_window=of_window)
        return text
