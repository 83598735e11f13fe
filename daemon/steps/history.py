"""The work so far without a model: goals, the results of their tools, and how they ended.

It replaces a summary when no model is available. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from daemon.context.compaction import cut_middle, user_text
from daemon.context.tokens import estimate_tokens
from daemon.model.messages import Message, ToolCallPart, ToolResultPart
from daemon.model.steps import Step, StepStatus, StepType
from daemon.plan.goal_stats import TOOLS_OF_THE_PLAN
from daemon.steps import texts
from daemon.steps.inference import action_data, action_label, goal_status, result_description
from daemon.steps.tree import StepTree
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree

_GOAL = "goal"
_HEAD = 160
_CONCLUSION = 600
"""Characters."""
_OUTPUT = 4_000
"""Characters of a result that are looked at."""
_RESULTS = (40, 12, 4, 1, 0)
"""Results of each entry that are shown, in the order in which it is tried to fit everything in."""


_Results = list[tuple[ToolResultPart, ToolCallPart | None]]


@dataclass(slots=True)
class _Entry:
    """A goal, or a turn of the user's when the work belonged to no goal."""

    status: StepStatus
    title: str
    depth: int = 0
    results: _Results = field(default_factory=list[tuple[ToolResultPart, ToolCallPart | None]])
    """Results with their calls. Described only where they are shown: there may be thousands."""
    conclusion: str = ""

    def text(self, shown: int, workspace: str) -> str:
        # Built from steps, so that it reads like every other history of a plan.
        tree = StepTree("")
        tree.add(_step(_GOAL, "goal", self.status, self.title))
        for place, (result, call) in enumerate(self.results[-shown:] if shown else ()):
            parent = _GOAL
            if call is not None:
                data = action_data(call)
                label = action_label(call.name, data["arguments"], workspace)
                parent = f"call_{place}"
                tree.add(_step(parent, "action", "completed", label, _GOAL, data=data))
            data = {
                "tool_name": result.name,
                "title": result.title,
                "output": head(result.content, _OUTPUT),
                "is_error": result.is_error,
            }
            status: StepStatus = "failed" if result.is_error else "completed"
            said = result_description(result)
            tree.add(_step(f"result_{place}", "result", status, said, parent, data=data))
        if self.conclusion:
            tree.add(_step("evaluation", "evaluation", "completed", "", _GOAL, summary=self.conclusion))
        lines = texts.to_history_string(tree).split("\n")
        hidden = len(self.results) - shown
        if shown and hidden > 0:
            lines.insert(1, f"  → … ({hidden})")
        indent = texts.HISTORY_INDENT * min(self.depth, texts.DEEPEST)
        return "\n".join(f"{indent}{line}" for line in lines)


def _step(
    step_id: str,
    step_type: StepType,
    status: StepStatus,
    description: str,
    parent_id: str | None = None,
    *,
    data: dict[str, Any] | None = None,
    summary: str | None = None,
) -> Step:
    # Not validated, because its inputs were validated when read, and there may be thousands.
    return Step.model_construct(
        step_id=step_id,
        trace_id="",
        step_type=step_type,
        status=status,
        sequence=0,
        parent_id=parent_id,
        description=description,
        data=data or {},
        summary=summary,
    )


def to_history_string(plan: PlanTree, messages: Sequence[Message], limit: int, *, workspace: str = "") -> str:
    """Return goals with status, brief results and summaries; work without a goal as one entry for each turn.

    Goals look as in ``daemon.steps.texts.to_history_string``. Paths in ``workspace`` are shown relative to it.

    At most about ``limit`` tokens (estimated): results go first, then the oldest entries, which are counted.
    """
    turns, results = _sorted_out(messages, plan)
    tops = plan.children(None)
    if tops:  # the user's requests are carried over anyway, and would only hide the plan here
        turns = [turn for turn in turns if turn.results or turn.conclusion]
    groups = [[turn] for turn in turns] + [_entries(plan, goal, results) for goal in tops]
    told: list[str] = []
    for shown in _RESULTS:
        told = ["\n".join(entry.text(shown, workspace) for entry in group) for group in groups]
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
