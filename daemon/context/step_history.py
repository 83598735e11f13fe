"""The work so far without asking any model: goals, what their tools brought, and how they ended.

Source: seed 003, "历史压缩格式": the labels and the shape of the lines are the seed's. It takes the place of a summary
when no model can be asked. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from daemon.context.compaction import cut_middle, person_said
from daemon.context.tokens import estimate_tokens
from daemon.model.goals import Goal
from daemon.model.messages import Message, ToolCallPart, ToolResultPart
from daemon.model.words import cut_line
from daemon.plan.tree import PlanTree

_LABELS = {"completed": "完成", "in_progress": "进行中", "pending": "待做", "abandoned": "放弃"}
_KEYS = ("file_path", "pattern", "command", "query", "url", "path", "name")
"""Arguments that say best what a call was about, the best first."""
_ARGUMENT = 80
_BRIEF = 160
_HEAD = 160
_CONCLUSION = 600
"""Characters."""
_OF_THE_PLAN = ("goal", "step", "read_progress")
"""Tools whose results are what the entries say anyway."""
_RESULTS = (40, 12, 4, 1, 0)
"""Results of each entry that are shown, in the order in which it is tried to fit everything in."""


_Results = list[tuple[ToolResultPart, ToolCallPart | None]]


@dataclass(slots=True)
class _Entry:
    """A goal, or a turn of the person's when the work belonged to none."""

    label: str
    title: str
    depth: int = 0
    results: _Results = field(default_factory=list[tuple[ToolResultPart, ToolCallPart | None]])
    """With the call of each. Told in words only where they are shown: there may be thousands."""
    conclusion: str = ""

    def text(self, shown: int) -> str:
        indent = "  " * self.depth
        lines = [f"{indent}[{self.label}] {self.title}"]
        hidden = len(self.results) - shown
        if shown and hidden > 0:
            lines.append(f"{indent}  → … ({hidden})")
        lines += [f"{indent}  → {result_brief(*one)}" for one in (self.results[-shown:] if shown else ())]
        if self.conclusion:
            lines.append(f"{indent}  总结: {self.conclusion}")
        return "\n".join(lines)


def to_history_string(plan: PlanTree, messages: Sequence[Message], limit: int) -> str:
    """Goals with status, brief results and summaries; work that belongs to no goal as one entry a turn.

    At most about ``limit`` tokens (estimated): results go first, then the oldest entries, which are counted.
    """
    turns, results = _sorted_out(messages, plan)
    tops = plan.children(None)
    if tops:  # what the person asked for is carried over anyway; here it would only hide the plan
        turns = [turn for turn in turns if turn.results or turn.conclusion]
    groups = [[turn] for turn in turns] + [_entries(plan, goal, results) for goal in tops]
    texts: list[str] = []
    for shown in _RESULTS:
        texts = ["\n".join(entry.text(shown) for entry in group) for group in groups]
        if _tokens(texts) <= limit:
            return "\n\n".join(texts)
    return "\n\n".join(_newest(texts, limit))


def _sorted_out(messages: Sequence[Message], plan: PlanTree) -> tuple[list[_Entry], dict[str, _Results]]:
    """Turns with what belongs to no goal, and results by goal."""
    calls: dict[str, ToolCallPart] = {}
    turns: list[_Entry] = []
    by_goal: dict[str, _Results] = {}
    finished = True
    for message in messages:
        if message.compaction() is not None:
            continue
        if said := person_said(message):
            turns.append(_Entry(_LABELS["completed"], _one_line(said, _HEAD)))
        calls.update((call.id, call) for call in message.tool_calls())
        finished = message.role == "assistant" and not message.tool_calls()
        if not turns and message.role != "user":
            turns.append(_Entry(_LABELS["completed"], "…"))
        mine = turns[-1] if turns and message.goal_id not in plan.goals else None
        result = message.tool_result()
        if result is not None and result.name not in _OF_THE_PLAN:
            one = (result, calls.get(result.tool_call_id))
            if mine is not None:
                mine.results.append(one)
            elif message.goal_id is not None:
                by_goal.setdefault(message.goal_id, []).append(one)
        if mine is not None and message.role == "assistant" and (text := message.text().strip()):
            mine.conclusion = _one_line(text, _CONCLUSION)
    if turns and not finished:
        turns[-1].label = _LABELS["in_progress"]
    return turns, by_goal


def _entries(plan: PlanTree, top: Goal, results: dict[str, _Results]) -> list[_Entry]:
    found: list[_Entry] = []
    todo = [(top, 0)]
    while todo:
        goal, depth = todo.pop()
        entry = _Entry(_LABELS[goal.status], goal.description, depth, conclusion=goal.summary or "")
        found.append(entry)
        if goal.status == "abandoned":
            continue  # what was tried there is past; why it was given up is what counts
        entry.results = results.get(goal.id, [])
        todo += [(child, depth + 1) for child in reversed(plan.children(goal.id))]
    return found


def result_brief(result: ToolResultPart, call: ToolCallPart | None) -> str:
    """``tool(key argument): what came of it`` in one line."""
    about = _key_argument(call)
    lines = (result.title, *result.content[:4_000].splitlines())
    # Many titles only repeat what the call was about.
    told = next((line for line in map(str.strip, lines) if line and line not in about), "")
    error = "error: " if result.is_error else ""
    name = f"{result.name}({_one_line(about, _ARGUMENT)})" if about else result.name
    return f"{name}: {error}{_one_line(told, _BRIEF)}".rstrip(": ")


def _key_argument(call: ToolCallPart | None) -> str:
    if call is None:
        return ""
    try:
        arguments = call.arguments()
    except ValueError:
        return ""
    return next((value for key in _KEYS if isinstance(value := arguments.get(key), str) and value), "")


def _one_line(text: str, length: int) -> str:
    # Most of a long text is never looked at.
    return cut_line(text[: 4 * length], length)


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
