"""The goal tree as a terminal tells it: one small line for each change."""

from __future__ import annotations

from typing import Any

from daemon.plan.numbers import display_numbers
from lsp_bridge.cli.text import Style, one_line
from tools.json_access import mapping, mappings, string

MARKS = {"completed": "✓", "in_progress": "→", "abandoned": "✗", "pending": "○"}


class GoalLines:
    """Follows the tree by its events and says what changed."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._goals: list[dict[str, Any]] = []
        self._current: str | None = None
        self._told: dict[str, str] = {}
        """The last line of each goal, by id."""

    def load(self, tree: dict[str, Any]) -> None:
        """Begin with the tree of a session (``GoalTree`` of the wire)."""
        self._goals = [goal for goal in mappings(tree.get("goals")) if string(goal.get("id"))]
        self._current = tree.get("currentId")

    def apply(self, event: dict[str, Any]) -> list[str]:
        """The lines for a goal event; none when nothing worth a line changed."""
        by = one_line(string(event.get("by")), 40)
        # When a person did it, the model's work is not what changed the plan.
        return [line + self._style.dim(f"  ({by})") if by else line for line in self._lines(event)]

    def _new(self, goal: dict[str, Any], numbers: dict[str, str]) -> list[str]:
        """Its line, unless it reads as the last one did: several events may tell of one change, e.g. the focus that
        moves on and the goal that is in progress by it."""
        line = self._line(goal, numbers)
        if self._told.get(goal["id"]) == line:
            return []
        self._told[goal["id"]] = line
        return [line]

    def numbers(self) -> dict[str, str]:
        """The number people see for each goal now."""
        children: dict[str | None, list[str]] = {}
        for goal in self._goals:
            children.setdefault(string(goal.get("parentId")) or None, []).append(goal["id"])
        gone = {goal["id"] for goal in self._goals if goal.get("status") == "abandoned"}
        return dict(display_numbers(children, gone))

    def _lines(self, event: dict[str, Any]) -> list[str]:
        before = self.numbers()
        if event["event"] == "goal_added":
            goal: dict[str, Any] = {"parentId": event.get("parentId"), **mapping(event.get("goal"))}
            if not string(goal.get("id")):
                return []
            index = event.get("index")
            self._goals.insert(index if isinstance(index, int) else len(self._goals), goal)
            return self._new(goal, self.numbers())
        if event["event"] == "goal_removed":
            gone = self._find(event.get("goalId"))
            self._goals = [goal for goal in self._goals if goal is not gone]
            self._current = event.get("currentId")
            return [self._style.dim(f"  − {self._title(gone, before)}")] if gone else []
        if event["event"] == "goal_moved":
            moved = self._move(event)
            self._update({"affectedGoals": event.get("affectedGoals"), "currentId": self._current})
            return self._new(moved, self.numbers()) if moved else []
        changed = self._update(event)
        # An abandoned goal has lost its number; it is told by the one it had.
        numbers = {**before, **self.numbers()}
        return [line for goal in changed for line in self._new(goal, numbers)]

    def _move(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The list order is the order of siblings: the goal goes before ``beforeId``, or to the end."""
        goal = self._find(event.get("goalId"))
        if goal is None:
            return None
        self._goals.remove(goal)
        goal["parentId"] = event.get("parentId")
        before = self._find(event.get("beforeId"))
        self._goals.insert(len(self._goals) if before is None else self._goals.index(before), goal)
        return goal

    def _update(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        changed: list[dict[str, Any]] = []
        first = {"goalId": event.get("goalId"), **mapping(event.get("updates"))}
        for update in (first, *mappings(event.get("affectedGoals"))):
            goal = self._find(update.get("goalId"))
            if goal is None:
                continue
            status, description = update.get("status"), update.get("description")
            if (status and status != goal.get("status")) or (
                description and description != goal.get("description")
            ):
                changed.append(goal)
            goal.update({key: value for key, value in update.items() if value is not None})
        current = event.get("currentId")
        if current is not None and current != self._current:
            self._current = current
            focused = self._find(current)
            if focused is not None and focused not in changed:
                changed.append(focused)
        return changed

    def _find(self, goal_id: object) -> dict[str, Any] | None:
        return next((goal for goal in self._goals if goal.get("id") == goal_id), None)

    def _title(self, goal: dict[str, Any], numbers: dict[str, str]) -> str:
        number = numbers.get(goal["id"])
        return (f"{number}. " if number else "") + one_line(str(goal.get("description", "")))

    def _line(self, goal: dict[str, Any], numbers: dict[str, str]) -> str:
        status = str(goal.get("status", "pending"))
        focused = goal["id"] == self._current and status in ("pending", "in_progress")
        mark = "→" if focused else MARKS.get(status, "○")
        summary = goal.get("summary")
        text = f"  {mark} {self._title(goal, numbers)}"
        if summary and status in ("completed", "abandoned"):
            text += f" → {one_line(str(summary))}"
        if status == "completed":
            return self._style.green(text)
        return self._style.cyan(text) if focused else self._style.dim(text)
