"""The usage of a run, and how it ended."""

from __future__ import annotations

from typing import Any

from lsp_bridge.cli.text import share, total_of, window_words
from tools.json_access import integer, mapping, number
from tools.localization import t
from tools.text.amounts import cost_words

_KINDS = ("input", "output", "cacheRead", "cacheWrite", "unpriced")


class Totals:
    """The usage of this run's model calls, including those of its branches and sub-agents."""

    def __init__(self) -> None:
        self._used: dict[str, int] = dict.fromkeys(_KINDS, 0)
        self._cost = 0.0
        """US dollars."""
        self._session: dict[str, Any] = {}
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
        for kind in _KINDS:
            self._used[kind] += integer(now.get(kind)) - integer(was.get(kind))
        self._cost += number(self._session.get("totalCost")) - number(before.get("totalCost"))

    def to_json(self) -> dict[str, Any]:
        """Return the result line of ``--json``; ``cost`` is null when no price is known, and lacks that of the tokens
        in ``unpriced``."""
        cost = round(self._cost, 6) if self._cost or not self._used["unpriced"] else None
        return {**self._used, "cost": cost}

    def words(self) -> str:
        """Return the text for the last line of a run."""
        total, cached = total_of(self._used), self._used["cacheRead"]
        text = t("{total:,} tokens", total=total)
        if cached:
            # Of the input: output cannot be cached.
            part = share(cached, total - self._used["output"])
            text += t(" ({cache_read} of the input from the cache)", cache_read=part)
        return f"{text} · {cost_words(self._cost, self._used['unpriced'])}" if total else text


class RunOutcome:
    """How a run ended, for the result line and the exit code."""

    def __init__(self, stop_reason: str = "error", detail: str = "", session_id: str | None = None) -> None:
        """``session_id``: None for a session that could not be loaded: it may not even exist."""
        self.stop_reason = stop_reason
        self.detail = detail
        self.session_id = session_id
        self.usage = Totals()
        self.meter: dict[str, Any] = {}
        """The session's numbers at the end (``Meter`` of the wire), as far as they came."""
        self.notices = set[tuple[str, str]]()
        """Codes and levels of the turn's notices."""
        self.only_demo = False
        """The demo answers because there is no model, not because it was chosen."""
        self.exit_code = 0

    def words(self) -> str:
        """Return the last line of a run: its usage, and the size of the next request."""
        text = self.usage.words()
        if held := integer(self.meter.get("contextTokens")):
            window = integer(self.meter.get("contextWindow"))
            of_window = t(" of {window}", window=window_words(self.meter)) if window else ""
            text += t(" · context {held:,}{of_window}", held=held, of_window=of_window)
        return text
