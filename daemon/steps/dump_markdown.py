"""``tree.md``: the steps with all their texts, to be folded in an editor (source: seed 003, "Markdown 格式特性"). Pure.

Texts of models and files stand only within fences that they cannot close; what stands outside is escaped, so that a
preview neither runs nor loads anything of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from daemon.model.steps import Step
from daemon.redaction import SECRETS
from daemon.steps.dump_text import clock
from daemon.steps.head import TraceHead
from daemon.steps.shortened import one_line, shown, without_image_data
from daemon.steps.texts import ICONS
from daemon.steps.tree import StepTree

_DESCRIPTION = 300
_MARKUP = re.compile(r"[\\`*\[\]!~|#]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def dump_markdown(trace: TraceHead, steps: StepTree | Iterable[Step], *, now: datetime) -> str:
    """The text, without secrets; images are shortened, nothing else is. Times are in the zone of ``now``."""
    tree = steps if isinstance(steps, StepTree) else StepTree(trace.trace_id, steps)
    lines = [
        "# Step Tree Debug",
        "",
        f"> Generated: {now:%Y-%m-%d %H:%M:%S}",
        "",
        "## Trace",
        "",
        f"- **trace_id**: {_escaped(trace.trace_id)}",
        f"- **task**: {_escaped(trace.task)}",
        f"- **status**: {trace.status}",
        *([f"- **detail**: {_escaped(trace.detail)}"] if trace.detail else []),
        f"- **total_steps**: {tree.total_steps}",
        f"- **total_tokens**: {trace.total_tokens}",
        f"- **total_cost**: ${trace.total_cost:.4f}",
        "",
        "## Steps",
        "",
        *_folded(tree, now),
    ]
    return SECRETS.text(shown("\n".join(lines).rstrip()) + "\n")


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
    # What a goal holds is the overview; all below it is looked at one by one.
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
    if step.cost:
        yield f"- **cost**: ${step.cost:.4f}"
    yield f"- **time**: {clock(step.created_at, now)}"
    yield ""


def _blocks(step: Step) -> Iterator[tuple[str, object]]:
    """What is known of a step, in the form in which it was said."""
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
    text = shown(json.dumps(without_image_data(value), ensure_ascii=False, indent=2))
    # A text may hold fences of its own.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from ("<details>", f"<summary><b>{title}</b></summary>", "")
    yield from (f"{fence}json", text, fence)
    yield from ("", "</details>", "")


def _html(text: str) -> str:
    """Within an HTML block, where Markdown's marks mean nothing."""
    return one_line(text, _DESCRIPTION).translate(_ENTITIES)


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", one_line(text, _DESCRIPTION)).translate(_ENTITIES)
