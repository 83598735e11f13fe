"""The plan as short texts: a to-do list, and a history for compaction.

Goals below a goal are indented; the labels are in the user's language. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from daemon.plan.goal_stats import TOOLS_OF_THE_PLAN
from daemon.steps.inference import brief_output
from tools.localization import noted, t
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from daemon.model.steps import Step, StepStatus
    from daemon.steps.tree import StepTree

ICONS = {"completed": "✓", "in_progress": "→", "planned": " ", "failed": "✗", "skipped": "-"}
LABELS = {
    "completed": noted("done"),
    "in_progress": noted("in progress"),
    "planned": noted("to do"),
    "failed": noted("failed"),
    "skipped": noted("skipped"),
}
_TODO_INDENT = "    "
HISTORY_INDENT = "  "
DEEPEST = 50
_BRIEF = 200
_ABOUT = 4_000
"""Characters of a call's arguments that a title may repeat."""
_WORD = re.compile(r"\w+")
_SUCCESS = re.compile(r"\AExit code: 0\b.*\n?")
_WILDCARD = "*"
"""A pattern is less informative than the number of its matches, so it is left out."""


def to_todo_string(tree: StepTree) -> str:
    """Return all goals with a mark for their status, one a line: ``[✓] Explore``; empty without goals."""
    return "\n".join(
        f"{_TODO_INDENT * min(depth, DEEPEST)}[{ICONS[goal.status]}] {_flat(goal.description)}"
        for depth, goal in _goals(tree)
    )


def to_history_string(tree: StepTree) -> str:
    """Return the goals with the results and summary of each that was worked on; a blank line between those at the top.

    Empty without goals. The goal at work has its results, too. An abandoned goal has only the reason: its work is past.
    """
    lines: list[str] = []
    for depth, goal in _goals(tree):
        if depth == 0 and lines:
            lines.append("")
        indent = HISTORY_INDENT * min(depth, DEEPEST)
        lines.append(indent + goal_line(goal.status, goal.description))
        if goal.status != "planned":
            lines += [f"{indent}  {line}" for line in _details(tree, goal)]
    return "\n".join(lines)


def goal_line(status: StepStatus, title: str) -> str:
    """Return the first line of a goal in a history."""
    return f"[{t(LABELS[status])}] {_flat(title)}"


def summary_line(summary: str) -> str:
    """Return the line of a history with what came of a goal."""
    return t("Summary: {summary}", summary=_flat(summary))


def result_line(
    tool: str, title: str, output: str, *, action: str | None, arguments: object, is_error: bool
) -> str:
    """Return the line of a history with a result. ``action``: describes the call with its ``arguments``; None when the
    call is unknown."""
    label = tool if action is None or _WILDCARD in action else action
    about = head(str(arguments or ""), _ABOUT)
    return f"→ {extract_brief(label, title, output, about=about, is_error=is_error)}"


def extract_brief(label: str, title: str, output: str, *, about: str = "", is_error: bool = False) -> str:
    """Return one line about a result: ``read_file(config.yaml): db_host=prod.db.com``. ``label``: of its action.

    The tool's title is used, unless it only repeats the subject of the call (``about``: its arguments), as the title of
    a command repeats its description: then the beginning of its output.
    """
    said = one_line(title, _BRIEF)
    repeats = _words(said) <= _words(f"{label} {about}")
    # The step's icon shows that a command succeeded; its output comes after that.
    written = _SUCCESS.sub("", output, count=1)
    brief = brief_output(written) or brief_output(output) or said if repeats else said
    if is_error:
        brief = t("error: {text}", text=brief)
    return f"{label}: {brief}".rstrip(": ")


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _goals(tree: StepTree) -> list[tuple[int, Step]]:
    """Return the goals in the order of the plan, each with its depth among goals."""
    return [(depth, step) for depth, step in tree.walk() if step.step_type == "goal"]


def _details(tree: StepTree, goal: Step) -> list[str]:
    lines: list[str] = []
    given_up = goal.status in ("failed", "skipped")
    for step in tree.children(goal.step_id):
        if step.step_type == "evaluation":
            lines.append(summary_line(step.summary or step.description))
        if given_up or step.step_type == "evaluation":
            continue
        # A result is below its action, unless the action is unknown.
        action = step if step.step_type == "action" else None
        for result in (step,) if action is None else tree.children(step.step_id):
            if result.step_type == "result" and result.data.get("tool_name") not in TOOLS_OF_THE_PLAN:
                lines.append(_line_of(result, action))
    return lines


def _line_of(result: Step, action: Step | None) -> str:
    tool, title, output = (str(result.data.get(name) or "") for name in ("tool_name", "title", "output"))
    return result_line(
        tool or "result",
        title,
        output or result.description,
        action=None if action is None else action.description,
        arguments=None if action is None else action.data.get("arguments"),
        is_error=result.status == "failed",
    )


def _flat(text: str) -> str:
    return " ".join(text.split())
