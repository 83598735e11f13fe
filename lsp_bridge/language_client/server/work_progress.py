"""What a server says it is busy with (``$/progress``), and what that means for its answers. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.text.truncate import head

_MAX_OPEN = 64
_MAX_TITLE = 120


@dataclass(slots=True)
class _Task:
    title: str
    began_at: float
    heard_at: float
    percentage: int | None = None


class ServerWork:
    """The work that one server has begun and not ended.

    A server that loads a project or builds an index often reports *no problems* meanwhile, so an empty answer from
    that time is not its last word. One that reports problems then has found them.
    """

    def __init__(self, clock: Callable[[], float], *, stalled_s: float = 60.0) -> None:
        """``clock`` in seconds. What was not heard of for ``stalled_s`` holds nothing up: it may never end."""
        self._clock = clock
        self._stalled_s = stalled_s
        self._open: OrderedDict[str | int, _Task] = OrderedDict()
        self._last: _Task | None = None
        """What ended last, ``heard_at`` that moment."""

    def take(self, params: Mapping[str, Any]) -> bool:
        """The params of a ``$/progress``. True when the server has nothing to do any more since this moment."""
        token, value = params.get("token"), params.get("value")
        if not isinstance(token, (str, int)) or not isinstance(value, Mapping):
            return False
        given: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]  # JSON
        now, kind = self._clock(), given.get("kind")
        if kind == "begin":
            self._open[token] = _Task(_title(given), now, now, _percentage(given))
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        elif kind == "report" and token in self._open:
            task = self._open[token]
            task.heard_at = now
            task.percentage = _percentage(given) if "percentage" in given else task.percentage
        elif kind == "end" and token in self._open:
            self._last = self._open.pop(token)
            self._last.heard_at = now
            return not self._working()
        return False

    @property
    def busy(self) -> str | None:
        """What it is doing, for people, e.g. ``Indexing 40 %``; None: nothing that it says."""
        working = self._working()
        if not working:
            return None
        task = working[-1]
        return task.title if task.percentage is None else f"{task.title} {task.percentage} %"

    def final_at(
        self, answered_at: float, sent_at: float, *, after_work_s: float, doubtful_s: float
    ) -> float | None:
        """From when on an *empty* answer, that came at ``answered_at`` to a text of ``sent_at``, is the last word.

        None: not as long as it works. An answer from before the end of work is followed by another one mostly, soon
        (``after_work_s``) when the text was what it worked on, perhaps later (``doubtful_s``) when it was loading.
        """
        if self._working():
            return None
        last = self._last
        if last is None or answered_at >= last.heard_at or sent_at >= last.heard_at:
            return answered_at
        return last.heard_at + (after_work_s if last.began_at >= sent_at else doubtful_s)

    def _working(self) -> list[_Task]:
        since = self._clock() - self._stalled_s
        return [task for task in self._open.values() if task.heard_at > since]


def _title(value: Mapping[str, Any]) -> str:
    title = value.get("title")
    return head(title, _MAX_TITLE) if isinstance(title, str) and title else "working"


def _percentage(value: Mapping[str, Any]) -> int | None:
    number = value.get("percentage")
    if not isinstance(number, (int, float)) or not 0 <= number <= 100:
        return None
    return int(number)
