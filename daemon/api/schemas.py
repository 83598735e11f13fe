"""Response models of the endpoints, for OpenAPI. The responses themselves are built elsewhere and encoded by the store,
which removes secrets; tests check them against these models."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from daemon.model.branches import BranchMeta, SubagentMeta
from daemon.model.choices import StatsBy
from daemon.model.goals import GoalStats, GoalTree
from daemon.model.maintenance import StatsGroup
from daemon.model.messages import Message
from daemon.model.steps import Step
from daemon.model.stored_model import Model
from daemon.model.traces import TraceMeta, TraceStatus

_REF = "#/components/schemas/"


class TraceList(BaseModel):
    """Newest first."""

    traces: list[TraceMeta]
    more: bool
    next: str | None = Field(description="`before` of the next page.")


class _Planned(Model):
    goal_tree: GoalTree
    goal_numbers: dict[str, str] = Field(
        description="Display numbers by internal id; abandoned goals have none."
    )
    branches: dict[str, BranchMeta]
    subagents: dict[str, SubagentMeta]


class TraceDetail(TraceMeta, _Planned):
    """A trace with its plan, branches and sub-agents."""


class BranchDetail(BranchMeta, _Planned):
    """A branch of an exploration."""

    inherited: int = Field(
        description="Sequence of the last of its messages that came from the main session."
    )


class SubagentDetail(SubagentMeta, _Planned):
    """A sub-agent, with the fields of a branch."""

    explore_start_id: None
    description: str
    cumulative_stats: GoalStats
    goal_count: int
    last_message: None


class MessagePage(BaseModel):
    """Oldest first."""

    messages: list[Message]
    has_earlier: bool = Field(
        description="For the next page, pass the sequence of the first of these as `before`."
    )


class StepNode(Step):
    """A step with the requested levels below it."""

    child_count: int
    children: list[StepNode]


class StepTreeAnswer(BaseModel):
    """The whole tree."""

    trace_id: str
    status: TraceStatus
    total_steps: int
    root_nodes: list[StepNode]


class NodeAnswer(BaseModel):
    """The children of one step."""

    step_id: str | None = Field(description="null: the root.")
    children: list[StepNode]
    more: bool = Field(
        description="There are more: for the next page, pass the id of the last of these as `after`. With "
        "`newest` or `before` there are earlier ones: pass the id of the first of these as "
        "`before`."
    )


class FoundSession(BaseModel):
    """A session with a place that was found."""

    trace_id: str
    branch_id: str | None = Field(
        description="The branch or sub-agent that has the place; null: the main session."
    )
    title: str
    workspace: str
    user: str
    kind: Literal["title", "message", "goal", "file"]
    excerpt: str = Field(description="Text around the place, on one line.")


class FoundList(BaseModel):
    """Newest first, each session once."""

    found: list[FoundSession]
    next: str | None = Field(description="`before` of the next page; null: there is none.")


class StatsAnswer(BaseModel):
    """Days newest first, other groups by cost."""

    by: StatsBy
    groups: list[StatsGroup]
    more: bool = Field(description="There are more groups than `limit`.")


class Problem(BaseModel):
    """An error response: what is wrong and what to do."""

    detail: str


_MODELS: tuple[type[BaseModel], ...] = (
    TraceList,
    TraceDetail,
    BranchDetail,
    SubagentDetail,
    MessagePage,
    StepTreeAnswer,
    NodeAnswer,
    FoundList,
    StatsAnswer,
    Problem,
)


def answers(*models: type[BaseModel], large: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of an endpoint."""
    schemas = [{"$ref": _REF + model.__name__} for model in models]
    problems = {
        401: "No token, or a wrong one.",
        403: "Asked by another name than 127.0.0.1, or from a page of another site.",
        404: "Not found.",
        409: "It was written by a newer version of Goalwright.",
        414: "The query is too long.",
        422: "A parameter is not valid.",
        500: "What is stored is damaged.",
        503: "Too many clients at the same time.",
    }
    if large:
        problems[413] = "More than one answer can hold."
    problem = {"application/json": {"schema": {"$ref": _REF + Problem.__name__}}}
    return {
        200: {
            "description": "OK",
            "content": {
                "application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
            },
        },
        **{status: {"description": words, "content": problem} for status, words in problems.items()},
    }


def described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the application."""
    document = get_openapi(
        title="Goalwright traces",
        version="1",
        summary="What the agent did, read-only.",
        description=(
            "Live: WebSocket /api/traces/{trace_id}/watch?since_event_id=N, with the same token. A frame "
            'that would be larger than 1 MB has `"shortened": true`, its pictures and longest texts '
            "shortened; the full message is at /messages."
        ),
        routes=app.routes,
    )
    _, definitions = models_json_schema(
        [(model, "serialization") for model in _MODELS], by_alias=False, ref_template=_REF + "{model}"
    )
    components: dict[str, Any] = document.setdefault("components", {})
    components["schemas"] = definitions["$defs"]
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "query": {"type": "apiKey", "in": "query", "name": "token"},
    }
    for operation in (each["get"] for each in document["paths"].values()):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query":
                parameter["schema"] = _or_empty(parameter["schema"])
    document["security"] = [{"bearer": []}, {"query": []}]
    return document


def _or_empty(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a query parameter's schema that also accepts an empty string, which counts as no value."""
    notes = {name: schema[name] for name in ("title", "description", "default") if name in schema}
    own = {name: value for name, value in schema.items() if name not in notes}
    choices = own["anyOf"] if set(own) == {"anyOf"} else [own]
    return {**notes, "anyOf": [*choices, {"type": "string", "maxLength": 0}]}
