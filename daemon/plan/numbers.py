"""The display numbers of goals. Light, for the terminal's sake: imports no models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


def display_numbers(
    children: Mapping[str | None, Iterable[str]], abandoned: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each live goal's id with its number (``1``, ``2.1``, …), in the order of the plan.

    ``children``: the ids below each goal, None: at the top. Abandoned goals and what is below them have no number.
    """

    def level(parent: str | None, prefix: str) -> list[tuple[str, str]]:
        live = [goal_id for goal_id in children.get(parent, ()) if goal_id not in abandoned]
        return [(goal_id, f"{prefix}{place}") for place, goal_id in enumerate(live, 1)][::-1]

    todo = level(None, "")
    while todo:
        goal_id, number = todo.pop()
        yield goal_id, number
        if goal_id in children:
            todo += level(goal_id, f"{number}.")
