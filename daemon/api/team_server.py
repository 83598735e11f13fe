"""A shared server: the trace API and its page over a database, for several users. It runs no session.

A request is answered by a reader that sees the sessions of its user alone: for all others there is no such session. So
no route has to ask whose a session is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from daemon.api.address import OpenApi
from daemon.api.app import make_app
from daemon.api.reader import TraceReader, found, session_id_of
from daemon.api.routes import Reader
from daemon.api.security import Refusal
from daemon.api.serving import HEAD_S, begin, bound
from daemon.api.team_access import SIGN_IN, SIGN_OUT, TeamAccess, public_place
from daemon.api.watch import WatchServer
from daemon.bus import Bus
from daemon.store.sql.deleting import chosen
from daemon.store.sql.deleting import delete as delete_sessions
from daemon.store.sql.tokens import DELETE, grant_of
from daemon.store.trace_store import StoreError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.api.app import TraceApi
    from daemon.api.serving import ApiServer
    from daemon.model.events import Event
    from daemon.store.sql.store import SqlTraceStore
    from daemon.store.sql.tokens import TokenGrant
    from daemon.store.trace_store import TraceStore

log = logging.getLogger(__name__)

_READERS = 8
"""Users whose readers are kept, each with the last step trees."""
_DELETES_EVERY_S = 3600.0
_MOST_BODY = 1024
"""Bytes of a request to sign in."""


def readers(store: SqlTraceStore) -> Callable[[HTTPConnection], TraceReader]:
    """Return what finds the reader of what the sender of a request may see. ``store``: sees everything."""

    @lru_cache(_READERS)
    def reader(user: str | None) -> TraceReader:
        own = store.of_user(user)
        return TraceReader(own, lambda _: None, elsewhere=True, database=lambda: own, missions=own.missions)

    return lambda request: reader(_grant(request).sees)


class TeamServer(Struct):
    """A running shared server."""

    app: TraceApi
    access: TeamAccess
    port: int
    """On which it listens."""
    _api: ApiServer
    _tasks: tuple[asyncio.Task[None], ...]

    async def close(self) -> None:
        """Stop: WebSockets are closed with 1001, requests under way are finished."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.close()


async def serve_team(
    store: SqlTraceStore,
    host: str,
    port: int,
    *,
    public_url: str | None = None,
    plain: bool = False,
    keep_days: float | None = None,
) -> TeamServer:
    """Serve the sessions of a database. ``plain``: tokens may travel without TLS. Raises ApiError.

    ``port`` 0: any free one. ``keep_days``: delete sessions that were not used for so long.
    """
    public_place(public_url, host, port, plain=plain)  # nothing listens before it is known to be right
    listening = bound(host, port)
    place = public_place(public_url, host, listening.getsockname()[1], plain=plain)

    async def check(token: str) -> TokenGrant | None:
        return await asyncio.to_thread(grant_of, store, token, datetime.now(UTC))

    access = TeamAccess(place, check)
    bus = PolledBus(store, lost=lambda: watch.drop())
    reader_for = readers(store)
    watch = WatchServer(reader_for, bus)
    app = make_app(reader_for, access, watch=watch, routes=team_routes(access))
    api = await begin(app, watch, listening, OpenApi(place.url, ""))
    tasks = [asyncio.create_task(bus.follow(), name="follows the database")]
    if keep_days is not None:
        tasks.append(asyncio.create_task(_delete_old(store, keep_days), name="deletes old sessions"))
    return TeamServer(app, access, place.port, api, tuple(tasks))


async def _delete_old(store: SqlTraceStore, keep_days: float) -> None:
    """Delete sessions that were not used for some days, now and every hour, until canceled."""
    while True:
        try:
            since = datetime.now(UTC) - timedelta(days=keep_days)
            deleted = 0
            for one in await asyncio.to_thread(chosen, store, unused_since=since):
                deleted += await asyncio.to_thread(delete_sessions, store, [one])
            if deleted:
                log.info("deleted %d sessions that were not used for %g days", deleted, keep_days)
        except StoreError as error:
            log.warning("old sessions stay for now: %s", error)
        await asyncio.sleep(_DELETES_EVERY_S)


def team_routes(access: TeamAccess) -> APIRouter:
    """Return what only a shared server has: signing in and out, and who one is."""
    router = APIRouter()

    @router.post(SIGN_IN, include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        token = _token_in(await _body(request))
        if token is None:
            return JSONResponse({"detail": 'Send {"token": "…"} as JSON.'}, 422)
        found = await access.signed_in(token)
        if isinstance(found, Refusal):
            return JSONResponse({"detail": found.detail}, found.status)
        log.info("%s signed in with the token %s", ascii(found.user), found.token_id)
        return Response(status_code=204, headers={"set-cookie": access.cookie(found, token, time.time())})

    @router.post(SIGN_OUT, include_in_schema=False)
    async def sign_out() -> Response:
        return Response(status_code=204, headers={"set-cookie": access.no_cookie()})

    @router.delete("/api/traces/{trace_id}", include_in_schema=False)
    async def delete(request: Request, reader: Reader, trace_id: str) -> Response:
        if DELETE not in _grant(request).scopes:
            return JSONResponse({"detail": "Your token does not allow to delete sessions."}, 403)
        session_id = session_id_of(trace_id, None)
        with found(session_id):
            await asyncio.to_thread(cast("SqlTraceStore", reader.store).forget, session_id)
        log.info("%s deleted the session %s", ascii(_grant(request).user), session_id)
        return Response(status_code=204)

    @router.get("/api/me", include_in_schema=False)
    async def me(request: Request) -> Response:
        grant = _grant(request)
        expires = grant.expires_at.isoformat() if grant.expires_at is not None else None
        return JSONResponse({"user": grant.user, "scopes": sorted(grant.scopes), "expires_at": expires})

    return router


def _grant(request: HTTPConnection) -> TokenGrant:
    """Return what the sender may do. A request that nobody let in has none, and fails here."""
    return cast("TokenGrant", request.scope["state"]["grant"])


async def _body(request: Request) -> bytes:
    """Return the body of a request, or as much of it as shows that it is too long."""
    body = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HEAD_S):  # nobody holds a connection by sending slowly
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BODY:
                    break
    return body


def _token_in(body: bytes) -> str | None:
    if len(body) > _MOST_BODY:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        found: Any = json.loads(body)
        if isinstance(found, dict):
            token: object = cast("dict[str, object]", found).get("token")
            return token.strip() if isinstance(token, str) else None
    return None


_EVERY_S = 1.0
_MOST = 500
"""Events of one session that are read at once; the next ones follow in the next round."""


class PolledBus(Bus):
    """Listeners by session id, who hear what a store has: other processes write it. Use it on the event loop.

    Only sessions that somebody watches are asked for, a few at a time.
    """

    def __init__(self, store: TraceStore, lost: Callable[[], None]) -> None:
        """``lost``: called when the store cannot be reached."""
        super().__init__()
        self._store = store
        self._lost = lost
        self._known: dict[str, int] = {}
        """The last event that listeners have, by session."""

    def known(self, session_id: str, event_id: int) -> None:
        """Begin behind an event; a session that is followed already goes on where it is."""
        self._known.setdefault(session_id, event_id)

    async def follow(self) -> None:
        """Publish what happens, until canceled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            heard = self.heard()
            self._known = {name: at for name, at in self._known.items() if name in heard}
            try:
                for session_id, after in list(self._known.items()):
                    await self._publish_new(session_id, after)
            except UnreachableError as error:
                log.warning("%s", error)
                self._lost()
            except Exception:  # whatever it was, the next round may succeed
                log.exception("sessions cannot be followed")
                self._lost()

    async def _publish_new(self, session_id: str, after: int) -> None:
        for event in await asyncio.to_thread(self._new, session_id, after):
            self._known[session_id] = event.event_id
            self.publish(event)

    def _new(self, session_id: str, after: int) -> Sequence[Event]:
        try:
            return self._store.events(session_id, after=after, limit=_MOST)
        except UnreachableError:
            raise
        except StoreError:
            return ()  # it was deleted; its watchers find out when they read
