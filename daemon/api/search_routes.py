"""The REST endpoints over all sessions: search, and numbers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from daemon.api import schemas as s
from daemon.api.traces_routes import Reader, answered
from daemon.model.choices import StatsBy

_AT_ONCE = 2
"""Searches and countings at the same time: they may take long, and other requests need the threads, too."""
_MOST_GROUPS = 1000


def search_routes() -> APIRouter:
    """Return the endpoints."""
    router = APIRouter(prefix="/api", tags=["sessions"], default_response_class=Response)
    turn = asyncio.Semaphore(_AT_ONCE)

    @router.get(
        "/search", responses=s.answers(s.FoundList), summary="Sessions that contain a text, newest first"
    )
    async def search(
        reader: Reader,
        q: Annotated[
            str,
            Query(
                max_length=500,
                description="Part of a title, message, goal or file name, in any case.",
            ),
        ] = "",
        limit: Annotated[int, Query(ge=1, le=200)] = 20,
        before: Annotated[
            str | None, Query(max_length=200, description="Older than this trace: `next` of the last page.")
        ] = None,
    ) -> Response:
        async with turn:
            return await answered(await reader.search(q, limit, before))

    @router.get(
        "/stats", responses=s.answers(s.StatsAnswer), summary="Cost, tokens, time and success of sessions"
    )
    async def stats(
        reader: Reader,
        by: Annotated[StatsBy, Query(description="What to group by; days are in UTC.")] = "day",
        days: Annotated[float | None, Query(gt=0, le=36_500, description="Of the last days only.")] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_GROUPS)] = 100,
    ) -> Response:
        since = None if days is None else datetime.now(UTC) - timedelta(days=days)
        async with turn:
            return await answered(await reader.stats(by, since, limit))

    return router
