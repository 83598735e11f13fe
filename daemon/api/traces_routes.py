"""The REST endpoints."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import WithJsonSchema
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from daemon.api import schemas as s
from daemon.api.reader import JsonObject, MessageQuery, TraceQuery, TraceReader
from daemon.gc_tuning import COLLECTOR
from daemon.model.encoding import answer_bytes
from daemon.model.messages import Role
from daemon.model.traces import TraceStatus

_STATUSES: tuple[TraceStatus, ...] = ("idle", "running", "waiting", "completed", "failed", "canceled")
_STATUS = f"({'|'.join(_STATUSES)})"
_NO_ZONE_PLUS = re.compile(r"(T.*) (\d\d:?\d\d)$")

TraceId = Annotated[str, Path(description="Of /api/traces.")]
BranchOf = Annotated[str | None, Query(alias="branch_id", description="A branch or sub-agent: A, s1, A.s1.")]
Time = Annotated[
    str | None,
    Query(description="ISO 8601; UTC if it has no time zone.", max_length=100),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
]

Statuses = Annotated[
    str | None,
    Query(description="Several with commas."),
    # Validate here, so that errors are described in text instead of by a pattern.
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": f"^{_STATUS}(,{_STATUS})*$"}, {"type": "null"}]}),
]


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
    async def traces(
        reader: Reader,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: Annotated[
            str | None, Query(description="Older than this trace: `next` of the last page.")
        ] = None,
        status: Statuses = None,
        agent: str | None = None,
        model: Annotated[str | None, Query(description="provider/model")] = None,
        q: Annotated[str | None, Query(description="Words of title, summary or task.")] = None,
        since: Time = None,
        until: Time = None,
    ) -> Response:
        query = TraceQuery(
            limit=limit,
            before=before,
            status=_statuses(status),
            agent=agent,
            model=model,
            q=q,
            since=_time(since),
            until=_time(until),
        )
        return await answered(await reader.traces(query))

    @router.get("/{trace_id}", responses=s.answers(s.TraceDetail), summary="A trace and its goal tree")
    async def trace(reader: Reader, trace_id: TraceId) -> Response:
        return await answered(await reader.trace(trace_id))

    @router.get(
        "/{trace_id}/messages", responses=s.answers(s.MessagePage), summary="Messages, e.g. of a goal"
    )
    async def messages(
        reader: Reader,
        trace_id: TraceId,
        goal_id: Annotated[
            str | None,
            Query(
                description="Id of a goal as in responses, e.g. 4, or its display number as #4 (%234) or 2.1."
            ),
        ] = None,
        number: Annotated[
            str | None, Query(description="Display number of a goal, e.g. 4 or 2.1; instead of goal_id.")
        ] = None,
        internal_goal_id: Annotated[
            str | None, Query(description="Id of a goal, never a number; instead of goal_id.")
        ] = None,
        branch_id: BranchOf = None,
        role: Role | None = None,
        inherited: Annotated[
            bool,
            Query(
                description="For a branch: include the messages it started with. Its goals never include them."
            ),
        ] = True,
        without_goal: Annotated[bool, Query(description="Only messages without a goal.")] = False,
        descendants: Annotated[
            bool, Query(description="Include the messages of the goals below and of their branches.")
        ] = False,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[int | None, Query(ge=0, le=10**15, description="Sequence below which.")] = None,
    ) -> Response:
        _check_one_goal(
            without_goal=without_goal, goal_id=goal_id, number=number, internal_goal_id=internal_goal_id
        )
        query = MessageQuery(
            goal_id=goal_id,
            number=number,
            internal_goal_id=internal_goal_id,
            branch_id=branch_id,
            role=role,
            inherited=inherited,
            without_goal=without_goal,
            descendants=descendants,
            limit=limit,
            before=before,
        )
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
        expand: Annotated[bool, Query(description="Include the steps below the children.")] = False,
        max_depth: Annotated[int, Query(ge=0, le=100, description="How many levels to include.")] = 1,
        branch_id: BranchOf = None,
        limit: Annotated[int, Query(ge=1, le=2000)] = 1000,
        after: Annotated[str | None, Query(description="Children after this one.")] = None,
        before: Annotated[str | None, Query(description="Children before this one, nearest first.")] = None,
        newest: Annotated[bool, Query(description="The last children instead of the first.")] = False,
    ) -> Response:
        found = await reader.node(
            trace_id,
            None if step_id in ("root", "null", "") else step_id,
            expand=expand,
            max_depth=max_depth,
            branch_id=branch_id,
            limit=limit,
            after=after,
            before=before,
            newest=newest,
        )
        return await answered(found)

    @router.get("/{trace_id}/watch", include_in_schema=False)
    async def not_a_websocket(trace_id: str) -> Response:
        return JSONResponse(
            {"detail": "This is a WebSocket: connect with ws://."}, 426, {"Upgrade": "websocket"}
        )

    return router


class ParameterError(Exception):
    """Raised for an impossible parameter; the message says why."""


def without_empty(query: bytes) -> bytes:
    """Return a query without the parameters that have no value: forms send ``role=`` where nothing was chosen."""
    return b"&".join(pair for pair in query.split(b"&") if pair.partition(b"=")[2])


def _check_one_goal(*, without_goal: bool, **goals: str | None) -> None:
    """Refuse a query that names two goals, or a goal and none. Raises ParameterError."""
    given = [name for name, value in goals.items() if value is not None] + ["without_goal"] * without_goal
    if len(given) > 1:
        raise ParameterError(f"{' and '.join(given)} name different messages: give one of them.")


def _statuses(text: str | None) -> frozenset[TraceStatus]:
    wanted = text.split(",") if text else []
    for status in wanted:
        if status not in _STATUSES:
            raise ParameterError(
                f"{status[:100]!a} is not a status: give one or more of {', '.join(_STATUSES)}, separated "
                "by commas."
            )
    return frozenset(status for status in _STATUSES if status in wanted)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    for spelling in (text, _NO_ZONE_PLUS.sub(r"\1+\2", text)):  # an unencoded plus arrives as a blank
        try:
            return datetime.fromisoformat(spelling)
        except ValueError:
            continue
    raise ParameterError(f"{text!a} is not a time: write it like 2026-01-31T12:00:00Z.")
