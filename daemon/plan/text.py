"""The plan as the model reads it, in the format of seed 000 ("Plan 注入")."""

from __future__ import annotations

from daemon.plan.tree import PlanTree

_MARK = {"completed": "✓", "in_progress": "→", "pending": " "}


def plan_to_prompt(tree: PlanTree) -> str:
    """``## Current Plan`` with mission, current goal and progress; abandoned goals are left out."""
    lines = ["## Current Plan", ""]
    if tree.mission:
        lines.append(f"**Mission**: {tree.mission}")
    numbers = tree.numbers()
    current = tree.goals.get(tree.current_id or "")
    if current is not None and current.id in numbers:
        lines.append(f"**Current**: {numbers[current.id]} {current.description}")
    progress = progress_lines(tree, numbers)
    if progress:
        lines += ["", "**Progress**:", *progress]
    return "\n".join(lines)


def progress_lines(tree: PlanTree, numbers: dict[str, str] | None = None) -> list[str]:
    """One line a live goal, a finished one with its summary under it."""
    numbers = tree.numbers() if numbers is None else numbers
    lines: list[str] = []

    def walk(parent: str | None, indent: str) -> None:
        for goal in tree.children(parent):
            if goal.id not in numbers:
                continue
            number = numbers[goal.id]
            dot = "" if "." in number else "."
            here = "  ← current" if goal.id == tree.current_id else ""
            lines.append(f"{indent}[{_MARK[goal.status]}] {number}{dot} {goal.description}{here}")
            if goal.status == "completed" and goal.summary:
                lines.append(f"{indent}    → {' '.join(goal.summary.split())}")
            walk(goal.id, indent + "    ")

    walk(None, "")
    return lines
