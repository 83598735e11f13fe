"""The goal tree at a terminal: one small line for each change."""

from __future__ import annotations

from typing import Any

from lsp_bridge.cli.text import Style, one_line, sign
from tools.json_access import mapping, mappings, string

GOAL_EVENTS = ("goal_added", "goal_updated", "goal_moved", "goal_removed")
"""Events that change the plan."""


def in_order(number: str) -> list[int]:
    """Return a key by which numbers of goals are in the order of the plan."""
    return [int(step) for step in number.split(".") if step.isdecimal()]


class GoalLines:
    """Says what events changed in the plan; the numbers of its goals come beside the events."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._goals: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, str] = {}
        """The number that users see for each goal."""
        self._current: str | None = None
        self._told: dict[str, str] = {}
        """The last line of each goal, by id."""

    def load(self, tree: dict[str, Any], numbers: dict[str, Any]) -> None:
        """Begin with the tree of a session (``GoalTree`` of the wire) and its ``goalNumbers``."""
        self._goals = {goal["id"]: goal for goal in mappings(tree.get("goals")) if string(goal.get("id"))}
        self._numbers = {goal_id: string(number) for goal_id, number in numbers.items()}
        self._current = tree.get("currentId")

    def apply(self, event: dict[str, Any], changed: dict[str, Any]) -> list[str]:
        """The lines for a goal event; none when nothing worth a line changed.

        ``changed``: ``goalNumbers`` of what came beside the event.
        """
        before = self._numbers
        now = {**before, **changed}
        self._numbers = {goal_id: number for goal_id, number in now.items() if isinstance(number, str)}
        by = one_line(string(event.get("by")), 40)
        # An abandoned or removed goal has lost its number, so show its last one.
        lines = self._lines(event, {**before, **self._numbers})
        # Mark changes by a user: they are not the model's work.
        return [line + self._style.dim(f"  ({by})") if by else line for line in lines]

    def _new(self, goal: dict[str, Any], numbers: dict[str, str]) -> list[str]:
        """Return the goal's line, unless it equals the last one: several events may report one change, e.g. the focus
        that moves and the goal that thereby is in progress."""
        line = self._line(goal, numbers)
        if self._told.get(goal["id"]) == line:
            return []
        self._told[goal["id"]] = line
        return [line]

    def _lines(self, event: dict[str, Any], numbers: dict[str, str]) -> list[str]:
        if event["event"] == "goal_added":
            goal = dict(mapping(event.get("goal")))
            if not string(goal.get("id")):
                return []
            self._goals[goal["id"]] = goal
            return self._new(goal, numbers)
        if event["event"] == "goal_removed":
            gone = self._goals.pop(string(event.get("goalId")), None)
            self._current = event.get("currentId")
            return [self._style.dim(f"  − {self._title(gone, numbers)}")] if gone else []
        if event["event"] == "goal_moved":
            self._update({"affectedGoals": event.get("affectedGoals"), "currentId": self._current})
            moved = self._goals.get(string(event.get("goalId")))
            return self._new(moved, numbers) if moved else []
        return [line for goal in self._update(event) for line in self._new(goal, numbers)]

    def _update(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        changed: list[dict[str, Any]] = []
        first = {"goalId": event.get("goalId"), **mapping(event.get("updates"))}
        for update in (first, *mappings(event.get("affectedGoals"))):
            goal = self._goals.get(string(update.get("goalId")))
            if goal is None:
                continue
            if any(update.get(key) and update[key] != goal.get(key) for key in ("status", "description")):
                changed.append(goal)
            goal.update({key: value for key, value in update.items() if value is not None})
        current = event.get("currentId")
        if current is not None and current != self._current:
            self._current = current
            focused = self._goals.get(string(current))
            if focused is not None and focused not in changed:
                changed.append(focused)
        return changed

    def _title(self, goal: dict[str, Any], numbers: dict[str, str]) -> str:
        number = numbers.get(goal["id"])
        return (f"{number}. " if number else "") + one_line(str(goal.get("description", "")))

    def _line(self, goal: dict[str, Any], numbers: dict[str, str]) -> str:
        status = str(goal.get("status", "pending"))
        focused = goal["id"] == self._current and status in ("pending", "in_progress")
        mark = "→" if focused else sign(status)
        summary = goal.get("summary")
        text = f"  {mark} {self._title(goal, numbers)}"
        if summary and status in ("completed", "abandoned"):
            text += f" → {one_line(str(summary))}"
        if status == "completed":
            return self._style.green(text)
        return self._style.cyan(text) if focused else self._style.dim(text)
