"""Where sessions of a daemon go besides its store and its clients: step trees in files, telemetry, a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model import notice_codes
from daemon.store.sql.replica import Replica
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from daemon.bus import Bus
    from daemon.config import Config
    from daemon.loop.session import Session
    from daemon.steps.live import LiveDumps
    from daemon.store.files import FileTraceStore
    from daemon.telemetry.service import Telemetry


class Outlets:
    """The outlets that the user's settings ask for, each from the moment when it is needed. Lives on the event loop."""

    def __init__(
        self,
        store: FileTraceStore,
        bus: Bus,
        config: Callable[[], Config],
        now: Callable[[], datetime],
        sessions: Mapping[str, Session],
    ) -> None:
        """``sessions``: loaded ones, by id."""
        self._store = store
        self._bus = bus
        self._config = config
        self._now = now
        self._sessions = sessions
        self._dumps: LiveDumps | None = None
        self._telemetry: Telemetry | None = None
        self.replica: Replica | None = None
        """The database that gets copies."""
        self.telemetry_problem = ""
        """Why telemetry does not work, as text for the user."""

    def copy_to_database(self, own: Callable[[], Collection[str]]) -> None:
        """Begin to copy sessions to the database of the settings, if there is one. ``own``: see ``Replica``."""
        url = self._config().settings.traces.store_url
        if url is not None and self.replica is None:
            self.replica = Replica(self._store, self._bus, own, url)
            self.replica.start()

    def behind(self) -> str:
        """Return why the database is behind, for the user; empty when it is not."""
        problem = self.replica.problem if self.replica is not None else ""
        if not problem:
            return ""
        return t("Sessions are stored here, and copied to the database later. {problem}", problem=problem)

    def dump(self, session: Session, config: Config | None = None) -> None:
        """Write the step tree of a session while it works, if its settings ask for it, or those of a client."""
        if not (config or session.config).settings.traces.debug_trace or session.parent is not None:
            return
        if self._dumps is None:
            from daemon.steps.live import LiveDumps

            self._dumps = LiveDumps(self._store, self._bus, self._now)
        self._dumps.follow(session.session_id)

    def observe(self) -> None:
        """Send telemetry from now on, if the user's file asks for it."""
        settings = self._config().settings.telemetry
        if self._telemetry is not None or not settings.telemetry:
            return
        from daemon.telemetry.service import Telemetry

        self._telemetry = Telemetry(
            self._store,
            self._bus,
            endpoint=settings.telemetry_endpoint,
            content=settings.telemetry_content,
            caller=self._caller,
            tell=self._tell,
        )

    async def close(self) -> None:
        """Write and send the rest."""
        for outlet in (self._dumps, self._telemetry, self.replica):
            if outlet is not None:
                await outlet.close()

    def _caller(self, session_id: str) -> tuple[str, Mapping[str, str]]:
        session = self._sessions.get(session_id)
        return ("", {}) if session is None else (session.model, session.env)

    def _tell(self, text: str) -> None:
        self.telemetry_problem = text
        main = [session for session in self._sessions.values() if session.parent is None]
        working = [session for session in self._sessions.values() if session.running]
        for session in working or main:  # later ones say it with their first prompt
            session.record.notice_once(text, notice_codes.TELEMETRY)
