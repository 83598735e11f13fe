"""Asks the user of an editor: permission for what the agent wants to do, answers for the model, a branch to merge.

The Agent Client Protocol knows one kind of question: one of several options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp import schema

from lsp_bridge.cli.acp.content import KINDS, locations, request_content
from lsp_bridge.cli.run.branch_lines import asked_title, exploration_lines
from lsp_bridge.cli.text import one_line, shown_line
from lsp_bridge.protocol.permission_text import SCOPES, option_texts, suggestion_words
from tools.json_access import mappings, string
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    Ask = Callable[
        [schema.ToolCallUpdate, list[schema.PermissionOption]], Awaitable[schema.RequestPermissionResponse]
    ]

ONCE, REJECT, SKIP = "once", "reject", "skip"
_ALWAYS = "always:"
_NOT_SHOWN = (
    "the user's editor cannot show this question. If you need the answer, ask for it in your response and end the "
    "turn; otherwise choose what fits the task best, and say what you assumed."
)


async def permission(request: dict[str, Any], workspace: Path, ask: Ask) -> dict[str, Any]:
    """Return the user's answer to a request, as params of ``goalwright/permission/reply`` without the request's id."""
    if questions := mappings(request.get("questions")):
        return await _answers(request, questions, ask)
    chosen = _chosen(await ask(_call(request, workspace), _options(request)))
    if chosen.startswith(_ALWAYS):
        return {"reply": "always", "scope": chosen.removeprefix(_ALWAYS)}
    return {"reply": ONCE if chosen == ONCE else REJECT}


def _options(request: dict[str, Any]) -> list[schema.PermissionOption]:
    if request.get("permission") == "budget":
        once = t("Continue, with the same amount again")
        return [_option(ONCE, once, "allow_once"), _option(REJECT, t("Stop"), "reject_once")]
    always: list[schema.PermissionOption] = []
    if patterns := suggestion_words(request):
        for scope, words in SCOPES.values():
            name = t("Always ({scope}): {patterns}", scope=t(words), patterns=patterns)
            always.append(_option(f"{_ALWAYS}{scope}", name, "allow_always"))
    return [
        _option(ONCE, t("Allow once"), "allow_once"),
        *always,
        _option(REJECT, t("Reject"), "reject_once"),
    ]


def _call(request: dict[str, Any], workspace: Path) -> schema.ToolCallUpdate:
    files = [string(file.get("path")) for file in mappings(request.get("files"))]
    return schema.ToolCallUpdate(
        tool_call_id=call_id(request),
        title=shown_line(asked_title(request)),
        kind=KINDS.get(string(request.get("tool")), "other"),
        status="pending",
        content=[*request_content(request, workspace)],
        locations=locations(files, workspace) or None,
    )


async def _answers(request: dict[str, Any], questions: Sequence[dict[str, Any]], ask: Ask) -> dict[str, Any]:
    """Ask each of the model's questions that can be answered by one option."""
    if any(not option_texts(one) or one.get("multiple") is True for one in questions):
        return {"reply": REJECT, "feedback": _NOT_SHOWN}
    found: list[dict[str, Any]] = []
    for question in questions:
        options = [_option(str(at), text, "allow_once") for at, text in enumerate(option_texts(question))]
        title = shown_line(" ".join(string(question.get("text")).split()))
        chosen = await _one_of(ask, call_id(request), title, options, t("Skip"))
        labels = [string(option.get("label")) for option in mappings(question.get("options"))]
        picked = [labels[int(chosen)]] if chosen.isdigit() and int(chosen) < len(labels) else []
        found.append({"chosen": picked, "text": ""})
    if not any(one["chosen"] for one in found):
        return {"reply": REJECT}
    return {"reply": ONCE, "answers": found}


def call_id(request: dict[str, Any]) -> str:
    """Return the id of the call that a request is about; that of the request for calls that the editor does not see."""
    seen = "" if request.get("branchId") else string(request.get("toolCallId"))
    return seen or string(request.get("requestId"))


def choice_id(start_id: str) -> str:
    """Return the id of the call that asks for a branch of an exploration."""
    return f"explore_{start_id}"


async def branch(exploration: dict[str, Any], ask: Ask) -> str:
    """Return the id of the branch that the user chooses; empty to let the model choose."""
    start_id = string(exploration.get("exploreStartId"))
    ready = [one for one in mappings(exploration.get("branches")) if one.get("status") == "completed"]
    options: list[schema.PermissionOption] = []
    for one in ready:
        name, words = string(one.get("id")), one_line(string(one.get("description")), 80)
        options.append(_option(name, t("Merge {name}: {words}", name=name, words=words), "allow_once"))
    title = t("Choose a branch: {branches}", branches="; ".join(exploration_lines(exploration)))
    chosen = await _one_of(ask, choice_id(start_id), title, options, t("Let the model choose"))
    return chosen if chosen in {option.option_id for option in options} else ""


async def _one_of(
    ask: Ask, call_id: str, title: str, options: Sequence[schema.PermissionOption], none: str
) -> str:
    call = schema.ToolCallUpdate(tool_call_id=call_id, title=title, kind="other", status="pending")
    return _chosen(await ask(call, [*options, _option(SKIP, none, "reject_once")]))


def _option(option_id: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    return schema.PermissionOption(option_id=option_id, name=name, kind=kind)


def _chosen(response: schema.RequestPermissionResponse) -> str:
    outcome = response.outcome
    return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else ""
