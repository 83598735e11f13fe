"""The REST endpoints."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from daemon.api import schemas as s
from daemon.api.listing import ParameterError, TraceQuery
from daemon.api.message_query import BRANCH_OR_SUBAGENT, MessageQuery
from daemon.api.reader import TraceReader
from daemon.api.session_summary import JsonObject
from daemon.api.step_views import NodeQuery
from daemon.gc_tuning import COLLECTOR
from daemon.model.choices import StatsBy
from daemon.model.encoding import answer_bytes

TraceId = Annotated[str, Path(description="Of /api/traces.")]
BranchOf = Annotated[str | None, Query(alias="branch_id", description=BRANCH_OR_SUBAGENT)]


async def _reader_for(request: HTTPConnection) -> TraceReader:
    return request.app.state.reader_for(request)


Reader = Annotated[TraceReader, Depends(_reader_for)]
"""Reads what the sender of a request may see. Routes have no other way to sessions."""


async def answered(value: JsonObject) -> Response:
    """JSON without secrets. Encoded in a thread: a page of long messages takes longer than the loop may."""
    return Response(await COLLECTOR.aside(answer_bytes, value), media_type="application/json")


def trace_routes() -> APIRouter:
    """Return all endpoints below ``/api/traces`` but the WebSocket."""
    router = APIRouter(prefix="/api/traces", tags=["traces"], default_response_class=Response)

    @router.get("", responses=s.answers(s.TraceList), summary="Traces, newest first")
    async def traces(reader: Reader, query: Annotated[TraceQuery, Query()]) -> Response:
        return await answered(await reader.traces(query))

    @router.get("/{trace_id}", responses=s.answers(s.TraceDetail), summary="A trace and its goal tree")
    async def trace(reader: Reader, trace_id: TraceId) -> Response:
        return await answered(await reader.trace(trace_id))

    @router.get(
        "/{trace_id}/messages", responses=s.answers(s.MessagePage), summary="Messages, e.g. of a goal"
    )
    async def messages(
        reader: Reader, trace_id: TraceId, query: Annotated[MessageQuery, Query()]
    ) -> Response:
        if len(query.goals) > 1:
            raise ParameterError(f"{' and '.join(query.goals)} name different messages: give one of them.")
        return await answered(await reader.messages(trace_id, query))

    @router.get(
        "/{trace_id}/branches/{branch_id}",
        responses=s.answers(s.BranchDetail, s.SubagentDetail),
        summary="A branch or sub-agent and its goal tree",
    )
    async def branch(
        reader: Reader, trace_id: TraceId, branch_id: Annotated[str, Path(description="A, s1, A.s1, …")]
    ) -> Response:
        return await answered(await reader.branch(trace_id, branch_id))

    @router.get(
        "/{trace_id}/tree",
        responses=s.answers(s.StepTreeAnswer, large=True),
        summary="The whole step tree of a small trace",
    )
    async def tree(reader: Reader, trace_id: TraceId, branch_id: BranchOf = None) -> Response:
        return await answered(await reader.tree(trace_id, branch_id))

    # Ids of calls come from the provider, and may contain anything, including slashes.
    @router.get(
        "/{trace_id}/node/{step_id:path}",
        responses=s.answers(s.NodeAnswer, large=True),
        summary="The children of a step",
    )
    async def node(
        reader: Reader,
        trace_id: TraceId,
        step_id: Annotated[str, Path(description="`root` (or `null`): the top-level steps.")],
        query: Annotated[NodeQuery, Query()],
    ) -> Response:
        step = None if step_id in ("root", "null", "") else step_id
        return await answered(await reader.node(trace_id, step, query))

    @router.get("/{trace_id}/watch", include_in_schema=False)
    async def not_a_websocket(trace_id: str) -> Response:
        return JSONResponse(
            {"detail": "This is a WebSocket: connect with ws://."}, 426, {"Upgrade": "websocket"}
        )

    return router


def without_empty(query: bytes) -> bytes:
    """Return a query without the parameters that have no value: forms send ``role=`` where nothing was chosen."""
    return b"&".join(pair for pair in query.split(b"&") if pair.partition(b"=")[2])


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
