"""``tree.json``: the steps with all they have, for programs (source: seed 003, "三种格式对比"). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from daemon.model.encoding import json_text
from daemon.model.steps import Step
from daemon.redaction import SECRETS
from daemon.steps.head import TraceHead
from daemon.steps.shortened import without_image_data
from daemon.steps.tree import StepTree


def dump_json(trace: TraceHead, steps: StepTree | Iterable[Step], *, now: datetime) -> str:
    """``{"generated", "trace", "steps"}``: a flat list, depth first, whose ``parent_id`` makes the tree; a step a line.

    Without secrets; images are shortened.
    """
    tree = steps if isinstance(steps, StepTree) else StepTree(trace.trace_id, steps)
    head = {"generated": _written(now), "trace": head_fields(trace) | {"total_steps": tree.total_steps}}
    # A step a line: that is quick to write, and to compare with another dump.
    steps_of_it = [json_text(without_image_data(step.stored())) for _, step in tree.walk()]
    begin = json_text(head)[:-1]
    text = f'{begin},"steps":[\n' + ",\n".join(steps_of_it) + "\n]}\n"
    return SECRETS.json(text.encode()).decode()


def head_fields(trace: TraceHead) -> dict[str, Any]:
    """What is known of a trace, JSON-able."""
    return {
        "trace_id": trace.trace_id,
        "task": trace.task,
        "title": trace.title,
        "status": trace.status,
        "detail": trace.detail,
        "agent": trace.agent,
        "model": trace.model,
        "created_at": _written(trace.created_at),
        "updated_at": _written(trace.updated_at),
        "total_messages": trace.total_messages,
        "total_tokens": trace.total_tokens,
        "total_cost": trace.total_cost,
    }


def _written(time: datetime | None) -> str | None:
    """As the times of the steps: in UTC, with a Z."""
    return None if time is None else f"{time.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
