"""Dumps of the step tree: text for a terminal, Markdown to fold in an editor, JSON for programs. Pure."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from daemon.model.encoding import json_text
from daemon.steps.shortened import without_image_data
from daemon.steps.texts import ICONS
from tools.redaction.redactor import SECRETS
from tools.text.amounts import known_part
from tools.text.terminal import replaced
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.model.steps import Step
    from daemon.steps.head import TraceHead
    from daemon.steps.tree import StepTree

_RULE = "=" * 60
_ID = 8
_DESCRIPTION = 100
_VALUE = 160
_DEEPEST = 60
"""Levels to draw; deeper steps, which only a forged log has, are drawn at the last one."""
_UNTOLD = frozenset((
    "message_id", "tool_call_id", "usage", "model", "goal_id", "goal_status", "type", "title", "is_error",
    "explore_start_id",
))  # fmt: skip
"""Fields of ``data`` that a short text leaves out."""


def dump_tree(head: TraceHead, tree: StepTree, *, now: datetime) -> str:
    """Return the text, without secrets and without anything that drives a terminal. Times are in the zone of
    ``now``."""
    lines = [
        _RULE,
        " Step Tree Debug",
        f" Generated: {now:%Y-%m-%d %H:%M:%S}",
        _RULE,
        "",
        "## Trace",
        f"  trace_id: {_short(head.trace.trace_id, _VALUE)}",
        f"  task: {_short(head.task, _VALUE)}",
        f"  status: {head.status}",
        *([f"  detail: {_short(head.detail, _VALUE)}"] if head.detail else []),
        f"  total_steps: {tree.total_steps}",
        f"  total_tokens: {head.trace.usage.total}",
        f"  total_cost: {_total_cost(head, '')}",
        "",
        "## Steps",
        "",
        *_drawn(tree, now),
    ]
    return SECRETS.text(replaced("\n".join(lines).rstrip()) + "\n")


def _total_cost(head: TraceHead, dollar: str) -> str:
    usd = head.trace.total_cost
    return known_part(f"{dollar}{usd:.4f}", usd, head.trace.usage.unpriced)


def _cost(step: Step) -> str:
    usd = step.cost or 0.0
    return known_part(f"${usd:.4f}", usd, step.unpriced_tokens)


def clock(time: datetime, now: datetime) -> str:
    """Return ``14:30:25`` in the zone of ``now``."""
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
    # A model may give its calls ids with line ends; the other dumps contain them unchanged.
    yield f"id: {_short(step_id, _ID)}"
    if step.duration_ms is not None:
        yield f"duration: {step.duration_ms}ms"
    if step.tokens:
        yield f"tokens: {step.tokens}"
    if step.cost or step.unpriced_tokens:
        yield f"cost: {_cost(step)}"
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
        return False  # its action has the error
    return value not in (None, "", [], {})


def _value(value: object) -> str:
    value = without_image_data(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    return _short(value, _VALUE)


def _short(text: str, limit: int) -> str:
    line = " ".join(head(text, limit * 8).split())
    return line if len(line) <= limit and len(text) <= limit * 8 else f"{head(line, limit)}..."


_MARKDOWN_DESCRIPTION = 300
_MARKUP = re.compile(r"[\\`*\[\]!~|#]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def dump_markdown(head: TraceHead, tree: StepTree, *, now: datetime) -> str:
    """Return the text, without secrets; images are shortened, nothing else is. Times are in the zone of ``now``."""
    lines = [
        "# Step Tree Debug",
        "",
        f"> Generated: {now:%Y-%m-%d %H:%M:%S}",
        "",
        "## Trace",
        "",
        f"- **trace_id**: {_escaped(head.trace.trace_id)}",
        f"- **task**: {_escaped(head.task)}",
        f"- **status**: {head.status}",
        *([f"- **detail**: {_escaped(head.detail)}"] if head.detail else []),
        f"- **total_steps**: {tree.total_steps}",
        f"- **total_tokens**: {head.trace.usage.total}",
        f"- **total_cost**: {_total_cost(head, '$')}",
        "",
        "## Steps",
        "",
        *_folded(tree, now),
    ]
    return SECRETS.text(replaced("\n".join(lines).rstrip()) + "\n")


def _folded(tree: StepTree, now: datetime) -> Iterator[str]:
    todo: list[Step | None] = list(reversed(tree.children(None)))
    while todo:
        step = todo.pop()
        if step is None:
            yield from ("</details>", "")
            continue
        yield from _opening(step, now)
        for title, value in _blocks(step):
            yield from _block(title, value)
        todo.append(None)
        todo += reversed(tree.children(step.step_id))


def _opening(step: Step, now: datetime) -> Iterator[str]:
    # Goals are the overview; the steps below them are expanded one by one.
    yield "<details open>" if step.step_type == "goal" else "<details>"
    title = f"[{ICONS[step.status]}] <b>{step.step_type}</b>: {_html(step.description)}"
    yield f"<summary>{title}</summary>"
    yield ""
    yield f"- **id**: {_escaped(step.step_id)}"
    yield f"- **status**: {step.status}"
    if step.duration_ms is not None:
        yield f"- **duration**: {step.duration_ms}ms"
    if step.tokens:
        yield f"- **tokens**: {step.tokens}"
    if step.cost or step.unpriced_tokens:
        yield f"- **cost**: {_cost(step)}"
    yield f"- **time**: {clock(step.created_at, now)}"
    yield ""


def _blocks(step: Step) -> Iterator[tuple[str, object]]:
    """Yield the content of a step as titled blocks, in its original form."""
    data = step.data
    if step.step_type in ("thought", "response"):
        message = {"role": "assistant", "content": data.get("content", step.description)}
        if data.get("reasoning"):
            message["reasoning"] = data["reasoning"]
        yield "📨 Messages", [message]
    elif step.step_type == "action":
        call = {"name": data.get("tool_name"), "arguments": data.get("arguments")}
        yield (
            "🔧 Tool call",
            {"id": data.get("tool_call_id"), "type": "function", "function": call}
            | {name: value for name, value in data.items() if name == "subagent_ids"},
        )
    elif step.step_type == "result":
        content: object = data.get("output", step.description)
        if data.get("images"):
            content = [{"type": "text", "text": content}, *data["images"]]
        yield (
            "📨 Messages",
            [{"role": "tool", "tool_call_id": data.get("tool_call_id"), "content": content}],
        )
    elif step.step_type == "evaluation":
        yield "📝 Summary", {"summary": step.summary}
    else:
        yield "🎯 Goal", data


def _block(title: str, value: object) -> Iterator[str]:
    text = replaced(json.dumps(without_image_data(value), ensure_ascii=False, indent=2))
    # A text may contain fences itself.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from ("<details>", f"<summary><b>{title}</b></summary>", "")
    yield from (f"{fence}json", text, fence)
    yield from ("", "</details>", "")


def _html(text: str) -> str:
    """Within an HTML block, where Markdown's marks mean nothing."""
    return one_line(text, _MARKDOWN_DESCRIPTION).translate(_ENTITIES)


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", one_line(text, _MARKDOWN_DESCRIPTION)).translate(_ENTITIES)


def dump_json(head: TraceHead, tree: StepTree, *, now: datetime) -> str:
    """``{"generated", "trace", "steps"}``: a flat list, depth first, whose ``parent_id`` makes the tree; a step a line.

    Without secrets; images are shortened.
    """
    about = {"generated": _written(now), "trace": head_fields(head) | {"total_steps": tree.total_steps}}
    # One step per line, which is fast to write and easy to compare with another dump.
    steps_of_it = [json_text(without_image_data(step.stored())) for _, step in tree.walk()]
    begin = json_text(about)[:-1]
    text = f'{begin},"steps":[\n' + ",\n".join(steps_of_it) + "\n]}\n"
    return SECRETS.json(text.encode()).decode()


def head_fields(head: TraceHead) -> dict[str, Any]:
    """Return the facts about a trace, ready for JSON."""
    return {
        "trace_id": head.trace.trace_id,
        "task": head.task,
        "title": head.trace.title,
        "status": head.status,
        "detail": head.detail,
        "agent": head.trace.agent,
        "model": head.trace.model,
        "created_at": _written(head.created_at),
        "updated_at": _written(head.updated_at),
        "total_messages": head.trace.message_count,
        "total_tokens": head.trace.usage.total,
        "total_cost": head.trace.total_cost,
        "unpriced_tokens": head.trace.usage.unpriced,
    }


def _written(time: datetime | None) -> str | None:
    """Return a time like those of the steps: in UTC, with a Z."""
    return None if time is None else f"{time.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
