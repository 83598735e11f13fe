"""Connections to PostgreSQL that do not wait forever: a server that hangs sends no word of it.

The driver limits only how long connecting takes, and the system how long data stays unsent. A server that takes a
statement and then stands still meets neither.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg

from tools.localization import n, t

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from psycopg.abc import RV, PQGen

_CONNECT_S = 10
_UNSENT_S = 20
"""Seconds after which a connection is lost whose other end does not confirm data, or does not answer at all."""


class Connections:
    """Makes the connections of one pool, and ends what they wait for. For several threads."""

    def __init__(self, silent_s: int, longest_s: int) -> None:
        """``silent_s``: how long to wait for an answer. ``longest_s``: how long a statement may take; 0: any time."""
        self.arguments: dict[str, object] = {
            "connect_timeout": _CONNECT_S, "application_name": "goalwright",
            "keepalives_idle": _UNSENT_S, "keepalives_interval": 5, "keepalives_count": 3,
            "tcp_user_timeout": 1000 * _UNSENT_S,
        }  # fmt: skip
        """For SQLAlchemy, which adds those of the address."""
        if longest_s:
            self.arguments["options"] = f"-c statement_timeout={longest_s}s"
        self._silent_s = silent_s
        self._cut = threading.Event()

    def connect(self, *asked: Any) -> psycopg.Connection[Any]:
        """Return a connection: a listener of SQLAlchemy's event ``do_connect``. Raises psycopg.Error."""
        self._check(0.0)
        try:
            made = _Connection.connect(**asked[-1])
        except UnicodeError as error:  # a name that no host can have
            raise psycopg.OperationalError(str(error)) from error
        made.check = self._check
        return made

    def cut(self) -> None:
        """Have all of them fail from now on, also in threads that wait."""
        self._cut.set()

    def _check(self, waited_s: float) -> None:
        """Raise psycopg.OperationalError for who should not wait any longer."""
        if self._cut.is_set():
            raise psycopg.OperationalError(t("the connection was ended here"))
        if waited_s >= self._silent_s:
            raise psycopg.OperationalError(
                n("no answer for {count} second", "no answer for {count} seconds", self._silent_s)
            )


class _Connection(psycopg.Connection[Any]):
    """Asks several times a second, while it waits, whether to go on."""

    check: Callable[[float], None] | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        return super().wait(self._checked(gen), *args, **options)

    def _checked(self, operation: PQGen[RV]) -> Generator[Any, Any, RV]:
        """Do as the driver's operation does; what is not to go on leaves the connection closed."""
        try:
            wanted, since = next(operation), time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    since = time.monotonic()
                else:
                    self._end_if_over(time.monotonic() - since)
                wanted = operation.send(ready)
        except StopIteration as end:
            return end.value

    def _end_if_over(self, waited_s: float) -> None:
        if self.check is None:
            return
        try:
            self.check(waited_s)
        except psycopg.OperationalError:
            self.pgconn.finish()
            raise
