"""The plan as short texts: a to-do list, and a history for compaction (source: seed 003, "Context 管理").

The words and marks are the seed's own; goals below a goal are indented. What the seed has no mark for, goals that
failed or were skipped, has one of the same kind. Pure.
"""

from __future__ import annotations

from daemon.model.steps import Step
from daemon.steps.inference import brief_output
from daemon.steps.shortened import one_line
from daemon.steps.tree import StepTree

ICONS = {"completed": "✓", "in_progress": "→", "planned": " ", "failed": "✗", "skipped": "-"}
LABELS = {
    "completed": "完成",
    "in_progress": "进行中",
    "planned": "待做",
    "failed": "失败",
    "skipped": "跳过",
}
_TODO_INDENT = "    "
_HISTORY_INDENT = "  "
_DEEPEST = 50
_BRIEF = 200
_WILDCARD = "*"
"""A pattern says less than the number of what it found: the seed leaves it out."""


def to_todo_string(tree: StepTree) -> str:
    """All goals with a mark for their status, one a line: ``[✓] Explore``; empty without goals."""
    return "\n".join(
        f"{_TODO_INDENT * min(depth, _DEEPEST)}[{ICONS[goal.status]}] {_flat(goal.description)}"
        for depth, goal in _goals(tree)
    )


def to_history_string(tree: StepTree) -> str:
    """The goals with what came of them: results and summary of each that was worked on; a blank line between those at
    the top. Empty without goals.

    The seed's function says results of completed goals only, its example also those of the one at work: so it is here.
    """
    lines: list[str] = []
    for depth, goal in _goals(tree):
        if depth == 0 and lines:
            lines.append("")
        indent = _HISTORY_INDENT * min(depth, _DEEPEST)
        lines.append(f"{indent}[{LABELS[goal.status]}] {_flat(goal.description)}")
        if goal.status not in ("planned", "skipped"):
            lines += [f"{indent}  {line}" for line in _details(tree, goal)]
    return "\n".join(lines)


def extract_brief(label: str, title: str, output: str) -> str:
    """One line about a result: ``read_file(config.yaml): db_host=prod.db.com``. ``label``: of its action.

    What the tool gave as a title is taken, unless it only repeats what the call is about.
    """
    said = one_line(title, _BRIEF)
    brief = said if said and said not in label else brief_output(output) or said
    return f"{label}: {brief}" if brief else label


def _goals(tree: StepTree) -> list[tuple[int, Step]]:
    """The goals in the order of the plan, each with its depth among goals."""
    return [(depth, step) for depth, step in tree.walk() if step.step_type == "goal"]


def _details(tree: StepTree, goal: Step) -> list[str]:
    lines: list[str] = []
    for step in tree.children(goal.step_id):
        if step.step_type == "evaluation":
            lines.append(f"总结: {_flat(step.summary or step.description)}")
        elif step.step_type == "result":  # of a call that is unknown
            lines.append(f"→ {_brief(step, None)}")
        else:
            results = [below for below in tree.children(step.step_id) if below.step_type == "result"]
            lines += [f"→ {_brief(result, step)}" for result in results]
    return lines


def _brief(result: Step, action: Step | None) -> str:
    name = str(result.data.get("tool_name") or "result")
    label = name if action is None or _WILDCARD in action.description else action.description
    texts = [str(result.data.get(name) or "") for name in ("title", "output")]
    return extract_brief(label, texts[0], texts[1] or result.description)


def _flat(text: str) -> str:
    return " ".join(text.split())
