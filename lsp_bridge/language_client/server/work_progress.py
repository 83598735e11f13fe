"""Track a server's work (``$/progress``), and its effect on the server's answers. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tools.json_access import mapping
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_OPEN = 64
_MAX_TITLE = 120


class _Task(Struct):
    title: str
    began_at: float
    heard_at: float
    percentage: int | None = None


class ServerWork:
    """The work that one server has begun and not ended.

    A server that loads a project or builds an index often reports *no problems* meanwhile, so an empty answer from that
    time is not final. Problems that it reports then are real.
    """

    def __init__(self, clock: Callable[[], float], *, stalled_s: float = 60.0) -> None:
        """``clock`` in seconds. Work without news for ``stalled_s`` delays nothing: it may never end."""
        self._clock = clock
        self._stalled_s = stalled_s
        self._open: OrderedDict[str | int, _Task] = OrderedDict()
        self._last: _Task | None = None
        """The work that ended last; ``heard_at`` is that moment."""

    def take(self, params: Mapping[str, Any]) -> bool:
        """Take in the params of a ``$/progress``. True when the server has nothing to do any more since this moment."""
        token, given = params.get("token"), mapping(params.get("value"))
        if not isinstance(token, (str, int)):
            return False
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
        """Current work for users, e.g. ``Indexing 40 %``; None: none is reported."""
        working = self._working()
        if not working:
            return None
        task = working[-1]
        return task.title if task.percentage is None else f"{task.title} {task.percentage} %"

    def final_at(
        self, answered_at: float, sent_at: float, *, after_work_s: float, doubtful_s: float
    ) -> float | None:
        """Return when an *empty* answer, that came at ``answered_at`` to a text of ``sent_at``, is final. None: while
        it works.

        An answer from before the end of work is usually followed by another one, soon (``after_work_s``) when the work
        was about the text, perhaps later (``doubtful_s``) when the server was loading.
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
