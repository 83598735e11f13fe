"""``tree.txt``: the steps in short, for a terminal (source: seed 003, "tree.txt 输出示例"). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from daemon.model.steps import Step
from daemon.redaction import SECRETS
from daemon.steps.head import TraceHead
from daemon.steps.shortened import shown, without_image_data
from daemon.steps.texts import ICONS
from daemon.steps.tree import StepTree
from tools.text.truncate import head

_RULE = "=" * 60
_ID = 8
_DESCRIPTION = 100
_VALUE = 160
_DEEPEST = 60
"""Levels that are drawn; deeper steps, which only a log that somebody made up has, stand at the last one."""
_UNTOLD = frozenset((
    "message_id", "tool_call_id", "usage", "model", "goal_id", "goal_status", "type", "title", "is_error",
    "explore_start_id",
))  # fmt: skip
"""Fields of ``data`` that a short text leaves out."""


def dump_tree(trace: TraceHead, steps: StepTree | Iterable[Step], *, now: datetime) -> str:
    """The text, without secrets and without anything that drives a terminal. Times are in the zone of ``now``."""
    tree = steps if isinstance(steps, StepTree) else StepTree(trace.trace_id, steps)
    lines = [
        _RULE,
        " Step Tree Debug",
        f" Generated: {now:%Y-%m-%d %H:%M:%S}",
        _RULE,
        "",
        "## Trace",
        f"  trace_id: {_short(trace.trace_id, _VALUE)}",
        f"  task: {_short(trace.task, _VALUE)}",
        f"  status: {trace.status}",
        *([f"  detail: {_short(trace.detail, _VALUE)}"] if trace.detail else []),
        f"  total_steps: {tree.total_steps}",
        f"  total_tokens: {trace.total_tokens}",
        f"  total_cost: {trace.total_cost:.4f}",
        "",
        "## Steps",
        "",
        *_drawn(tree, now),
    ]
    return SECRETS.text(shown("\n".join(lines).rstrip()) + "\n")


def clock(time: datetime, now: datetime) -> str:
    """``14:30:25`` in the zone of ``now``."""
    return f"{time.astimezone(now.tzinfo) if time.tzinfo and now.tzinfo else time:%H:%M:%S}"


def _drawn(tree: StepTree, now: datetime) -> Iterator[str]:
    todo = _level(tree, None, "", 0)
    while todo:
        step, prefix, is_last, depth = todo.pop()
        yield f"{prefix}{'└── ' if is_last else '├── '}[{ICONS[step.status]}] {_title(step)}"
        below = prefix + ("    " if is_last else "│   ")
        for line in _fields(step, now):
            yield f"{below}{line}"
        yield below.rstrip()
        todo += _level(tree, step.step_id, below if depth < _DEEPEST else prefix, depth + 1)


def _level(tree: StepTree, parent: str | None, prefix: str, depth: int) -> list[tuple[Step, str, bool, int]]:
    children = tree.children(parent)
    level = [(step, prefix, place == len(children), depth) for place, step in enumerate(children, 1)]
    level.reverse()
    return level


def _title(step: Step) -> str:
    return f"{step.step_type}: {_short(step.description, _DESCRIPTION)}"


def _fields(step: Step, now: datetime) -> Iterator[str]:
    step_id = step.step_id
    # A model gives its calls any ids, also such with ends of lines; the other dumps have it whole.
    yield f"id: {_short(step_id, _ID)}"
    if step.duration_ms is not None:
        yield f"duration: {step.duration_ms}ms"
    if step.tokens:
        yield f"tokens: {step.tokens}"
    if step.cost:
        yield f"cost: ${step.cost:.4f}"
    if step.summary:
        yield f"summary: {_short(step.summary, _VALUE)}"
    told = {name: value for name, value in step.data.items() if _is_told(step, name, value)}
    if told:
        yield "data:"
        for name, value in told.items():
            yield f"  {name}: {_value(value)}"
    yield f"time: {clock(step.created_at, now)}"


def _is_told(step: Step, name: str, value: object) -> bool:
    if name in _UNTOLD or (step.step_type == "result" and name == "tool_name"):
        return False  # its action says it
    return value not in (None, "", [], {})


def _value(value: object) -> str:
    value = without_image_data(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    return _short(value, _VALUE)


def _short(text: str, limit: int) -> str:
    line = " ".join(head(text, limit * 8).split())
    return line if len(line) <= limit and len(text) <= limit * 8 else f"{head(line, limit)}..."
