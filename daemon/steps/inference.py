"""Derive the types, descriptions and data of steps from messages. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from daemon.model.messages import Message, ReasoningPart, ToolCallPart, ToolResultPart, Usage, priced
from daemon.steps.shortened import first_sentence
from daemon.steps.spent import StepCost
from tools.text.truncate import cut_text, head, one_line

if TYPE_CHECKING:
    from daemon.model.events import ModelRetry, SessionUpdated
    from daemon.model.goals import Goal
    from daemon.model.steps import StepStatus, StepType

PLAN_TOOLS = frozenset({"goal", "step"})
"""Their calls become goals and evaluations, unless they fail."""
_KEY_ARGUMENTS = (
    "path", "file_path", "pattern", "command", "query", "symbol", "name", "url", "job_id", "agent", "description",
    "prompt", "task",
)  # fmt: skip
"""Argument names that identify the subject of a call; the first one present counts."""
_ARGUMENT = 80
_DEEPEST = 50
_DESCRIPTION = 200


def text_step_type(message: Message) -> StepType:
    """Return ``response`` when nothing follows from it, ``thought`` otherwise."""
    ended = message.stop_reason() in (None, "end_turn", "max_tokens")
    return "response" if not message.tool_calls() and ended and message.compaction() is None else "thought"


def text_step_status(message: Message) -> StepStatus:
    """Return the status; a text that was cut off has failed."""
    return "failed" if message.stop_reason() in ("error", "canceled", "max_tokens") else "completed"


def text_data(message: Message) -> tuple[str, dict[str, Any]] | None:
    """Return description and data of an assistant message's text; None when it only calls tools."""
    text = message.text().strip()
    reasoning = "\n\n".join(
        part.text.strip() for part in message.content if isinstance(part, ReasoningPart) and part.text.strip()
    )
    if not text and not reasoning:
        return None
    data: dict[str, Any] = {"content": text or reasoning, "message_id": message.message_id}
    if text and reasoning:
        data["reasoning"] = reasoning
    if message.model:
        data["model"] = message.model
    if message.usage is not None:
        data["usage"] = message.usage.stored()
    compaction = message.compaction()
    if compaction is not None:
        data["compaction"] = compaction.kind
        return "Summary of the conversation so far, which is no longer sent", data
    return first_sentence(text or reasoning), data


def action_data(call: ToolCallPart) -> dict[str, Any]:
    """Data of an action. Arguments that are no JSON object, or none that JSON can hold, stay the text."""
    try:
        arguments: object = call.arguments()
        if not _can_be_sent(arguments):
            arguments = call.input
    except ValueError:
        arguments = call.input
    return {"tool_name": call.name, "arguments": arguments, "tool_call_id": call.id}


def failed_request(retry: ModelRetry) -> dict[str, Any]:
    """Return the fields of the action for a model request that failed and is made again."""
    wait = f"again after {retry.delay_s:g} s" if retry.delay_s else "again at once"
    arguments = {"attempt": retry.attempt, "delay_s": retry.delay_s, "reason": retry.reason}
    return {
        "status": "failed",
        "description": one_line(f"model request failed ({retry.reason}), {wait}", _DESCRIPTION),
        "data": {"tool_name": "model_request", "arguments": arguments, "tool_call_id": None},
    }


def named_session(event: SessionUpdated, usage: Usage) -> dict[str, Any]:
    """Return the fields of the action for a request to a small model for a title or summary."""
    names = {name: event.updates[name] for name in ("title", "summary") if name in event.updates}
    what = " and ".join(names) or "nothing usable"
    return {
        "status": "completed",
        "description": one_line(f"{event.model or 'a model'} wrote {what}", _DESCRIPTION),
        "data": {"tool_name": "model_request", "arguments": names, "tool_call_id": None},
        **StepCost.of_usage(priced(usage, event.cost), event.cost or 0.0, event.duration_ms or 0).fields(),
    }


def _can_be_sent(value: object, depth: int = 0) -> bool:
    """Return whether every JSON parser accepts it: Python's own also accepts NaN, and any depth."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    if isinstance(value, list):
        return depth < _DEEPEST and all(_can_be_sent(item, depth + 1) for item in cast("list[object]", value))
    return True


def action_label(tool_name: str, arguments: object, workspace: str = "") -> str:
    """Return the tool's name with its key argument, e.g. ``read(src/app.py)``.

    Paths in ``workspace`` are shown relative to it.
    """
    key = key_argument(arguments)
    if workspace and key.startswith((f"{workspace}/", f"{workspace}\\")):
        key = key[len(workspace) + 1 :]
    key = cut_text(" ".join(key.split()), _ARGUMENT)
    return f"{tool_name}({key})" if key else tool_name


def key_argument(arguments: object) -> str:
    """Return the argument that identifies the subject of a call; empty when there is none."""
    if not isinstance(arguments, Mapping):
        return ""
    items = cast("Mapping[str, object]", arguments).items()
    texts = {name: value for name, value in items if isinstance(value, str) and value.strip()}
    name = next((name for name in _KEY_ARGUMENTS if name in texts), None)
    return texts[name] if name is not None else next(iter(texts.values()), "")


def result_data(result: ToolResultPart) -> dict[str, Any]:
    """Data of a result; its images in the form that models are sent them, as ``data:`` URLs."""
    data: dict[str, Any] = {
        "tool_name": result.name,
        "output": result.content,
        "title": result.title,
        "is_error": result.is_error,
        "tool_call_id": result.tool_call_id,
    }
    images = [
        {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}
        for image in result.images
        if image.data is not None
    ]
    if images:
        data["images"] = images
    return data


def result_description(result: ToolResultPart) -> str:
    """Return the title that the tool gave, or how its output begins."""
    return one_line(result.title, _DESCRIPTION) or brief_output(result.content) or result.name


def brief_output(output: str) -> str:
    """Return the first line of an output that is not blank."""
    line = next((line for line in head(output, 4000).splitlines() if line.strip()), "")
    return one_line(line, _DESCRIPTION)


def goal_status(goal: Goal) -> StepStatus:
    """Return the status of a goal's step; an abandoned goal with work has failed, one without was skipped."""
    if goal.status == "abandoned":
        return "failed" if goal.cumulative_stats.message_count > 0 else "skipped"
    return "planned" if goal.status == "pending" else goal.status


def goal_data(goal: Goal) -> dict[str, Any]:
    """Return the data of a goal's step, without empty fields."""
    data: dict[str, Any] = {"description": goal.description, "goal_id": goal.id, "type": goal.type}
    more = {
        "reason": goal.reason,
        "branch_ids": goal.branch_ids,
        "explore_start_id": goal.explore_start_id,
        "merge_summary": goal.merge_summary,
        "selected_branch": goal.selected_branch,
    }
    return data | {name: value for name, value in more.items() if value}
