"""The work so far without a model: goals, the results of their tools, and how they ended.

It replaces a summary when no model is available. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.context.compaction import cut_middle, user_text
from daemon.context.tokens import estimate_tokens
from daemon.model.messages import Message, ToolCallPart, ToolResultPart
from daemon.plan.goal_stats import TOOLS_OF_THE_PLAN
from daemon.steps import texts
from daemon.steps.inference import action_data, action_label, goal_status, result_description
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from daemon.model.goals import Goal
    from daemon.model.steps import StepStatus
    from daemon.plan.tree import PlanTree

_HEAD = 160
_CONCLUSION = 600
"""Characters."""
_OUTPUT = 4_000
"""Characters of a result that are looked at."""
_RESULTS = (40, 12, 4, 1, 0)
"""Results of each entry that are shown, in the order in which it is tried to fit everything in."""


_Results = list[tuple[ToolResultPart, ToolCallPart | None]]


class _Entry(Struct):
    """A goal, or a turn of the user's when the work belonged to no goal."""

    status: StepStatus
    title: str
    depth: int = 0
    results: _Results = field(default_factory=list[tuple[ToolResultPart, ToolCallPart | None]])
    """Results with their calls. Described only where they are shown: there may be thousands."""
    conclusion: str = ""

    def text(self, shown: int, line_of: Callable[[ToolResultPart, ToolCallPart | None], str]) -> str:
        lines = [texts.goal_line(self.status, self.title)]
        hidden = len(self.results) - shown
        if shown and hidden > 0:
            lines.append(f"  → … ({hidden})")
        if shown and self.status not in ("planned", "failed", "skipped"):
            lines += [f"  {line_of(result, call)}" for result, call in self.results[-shown:]]
        if self.conclusion and self.status != "planned":
            lines.append(f"  {texts.summary_line(self.conclusion)}")
        indent = texts.HISTORY_INDENT * min(self.depth, texts.DEEPEST)
        return "\n".join(f"{indent}{line}" for line in lines)


def _line(result: ToolResultPart, call: ToolCallPart | None, workspace: str) -> str:
    arguments = None if call is None else action_data(call)["arguments"]
    return texts.result_line(
        result.name,
        result.title,
        head(result.content, _OUTPUT) or result_description(result),
        action=None if call is None else action_label(call.name, arguments, workspace),
        arguments=arguments,
        is_error=result.is_error,
    )


def to_history_string(
    plan: PlanTree,
    messages: Sequence[Message],
    limit: int,
    *,
    workspace: str = "",
    described: dict[str, str] | None = None,
) -> str:
    """Return goals with status, brief results and summaries; work without a goal as one entry for each turn.

    Goals look as in ``daemon.steps.texts.to_history_string``. Paths in ``workspace`` are shown relative to it.
    ``described``: keeps the lines of results by their calls' ids, for more histories of the same session.

    At most about ``limit`` tokens (estimated): results go first, then the oldest entries, which are counted.
    """
    turns, results = _sorted_out(messages, plan)
    tops = plan.children(None)
    if tops:  # the user's requests are carried over anyway, and would only hide the plan here
        turns = [turn for turn in turns if turn.results or turn.conclusion]
    groups = [[turn] for turn in turns] + [_entries(plan, goal, results) for goal in tops]
    lines = {} if described is None else described

    def line_of(result: ToolResultPart, call: ToolCallPart | None) -> str:
        line = lines.get(result.tool_call_id)
        if line is None:
            line = lines[result.tool_call_id] = _line(result, call, workspace)
        return line

    told: list[str] = []
    for shown in _RESULTS:
        told = ["\n".join(entry.text(shown, line_of) for entry in group) for group in groups]
        if _tokens(told) <= limit:
            break
    else:
        told = _newest(told, limit)
    return "\n\n".join(told)


def _sorted_out(messages: Sequence[Message], plan: PlanTree) -> tuple[list[_Entry], dict[str, _Results]]:
    """Turns with what belongs to no goal, and results by goal."""
    calls: dict[str, ToolCallPart] = {}
    turns: list[_Entry] = []
    by_goal: dict[str, _Results] = {}
    finished = True
    for message in messages:
        if message.compaction() is not None:
            continue
        if said := user_text(message):
            turns.append(_Entry("completed", one_line(said, _HEAD)))
        calls.update((call.id, call) for call in message.tool_calls())
        finished = message.role == "assistant" and not message.tool_calls()
        if not turns and message.role != "user":
            turns.append(_Entry("completed", "…"))
        mine = turns[-1] if turns and message.goal_id not in plan.goals else None
        result = message.tool_result()
        if result is not None and result.name not in TOOLS_OF_THE_PLAN:
            one = (result, calls.get(result.tool_call_id))
            if mine is not None:
                mine.results.append(one)
            elif message.goal_id is not None:
                by_goal.setdefault(message.goal_id, []).append(one)
        if mine is not None and message.role == "assistant" and (text := message.text().strip()):
            mine.conclusion = one_line(text, _CONCLUSION)
    if turns and not finished:
        turns[-1].status = "in_progress"
    return turns, by_goal


def _entries(plan: PlanTree, top: Goal, results: dict[str, _Results]) -> list[_Entry]:
    found: list[_Entry] = []
    todo = [(top, 0)]
    while todo:
        goal, depth = todo.pop()
        results_of_it = results.get(goal.id, [])
        found.append(_Entry(goal_status(goal), goal.description, depth, results_of_it, goal.summary or ""))
        todo += [(child, depth + 1) for child in reversed(plan.children(goal.id))]
    return found


def _tokens(texts: Iterable[str]) -> int:
    return sum(estimate_tokens(text) + 1 for text in texts)


def _newest(texts: Sequence[str], limit: int) -> list[str]:
    kept: list[str] = []
    for text in reversed(texts):
        tokens = _tokens([text])
        if kept and tokens > limit:
            break
        if tokens > limit:
            text = cut_middle(text, max(0, len(text) * limit // tokens))
        kept.insert(0, text)
        limit -= tokens
    left_out = len(texts) - len(kept)
    return [*([f"[… {left_out}]"] if left_out else []), *kept]
