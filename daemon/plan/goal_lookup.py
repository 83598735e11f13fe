"""Find the goal that a text names: by descriptions and numbers as models copy them from a shown plan. Pure."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

from daemon.plan.changes import Focus, PlanError, stored_line
from daemon.plan.goal_index import ENDED
from tools.goal_lines import without_marks
from tools.text.truncate import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.model.goals import Goal
    from daemon.plan.changes import Parent
    from daemon.plan.tree import PlanTree

HERE = re.compile(r"\s*(?:\(g\d+\)\s*(?:← current)?|← current)\s*$")
"""Marks that the plan shows after a description: the id, and the focus."""
NAMED = 10
"""Goals that a refusal names."""
LONGEST = 80
"""Characters of each."""
_NUMBER = re.compile(
    r"(?:goal\b|step\b|no\.|目标|步骤)?\s*[#(\[*]*(\d+(?:\.\d+)*)(?:[.)\]:：、*]*)(?:\s*[-–—]\s+|\s+|(?<=[:：、])|$)(.*)",
    re.IGNORECASE,
)
"""A number, and the text after it: ``2.1``, ``#2``, ``2. Fix``, ``2.1: Fix``, ``Goal 2.1 - Fix``."""
_WRAPS = (
    ("**", "**"),
    ("__", "__"),
    ("`", "`"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
    ("「", "」"),
    ("«", "»"),
)
"""Quotes and marks around a name."""


def known_focus(tree: PlanTree, seen: PlanTree | None) -> Goal | None:
    """Return the goal that has the focus as far as the model knows. Raises PlanError when that is not in the plan.

    ``seen``: the plan as the model knows it, None: ``tree``. The user may have moved the focus since.
    """
    if seen is None or seen.current_id == tree.current_id:
        return tree.goals.get(tree.current_id or "")
    goal = tree.goals.get(seen.current_id or "")
    if goal is None and tree.current_id is not None:
        raise PlanError(
            f"The user has changed the plan since you saw it: the focus is now on {tree.title(tree.current_id)} "
            f"(g{tree.current_id})."
        )
    return goal


def place_of_new(tree: PlanTree, seen: PlanTree | None, after: PlanTree) -> Parent:
    """Return the parent of new goals for which the model names no place; ``after``: the plan that they are added to.

    They belong to what the model works on, wherever the user has moved the focus since. Raises PlanError as
    ``known_focus``.
    """
    if seen is None or seen.current_id == tree.current_id:
        return Focus.CURRENT
    goal = None if seen.current_id is None else known_focus(tree, seen)
    # Work after the choice of an exploration goes on at the level of the exploration.
    while goal is not None and (after.goals[goal.id].status in ENDED or goal.type == "explore_merge"):
        goal = after.goals.get(goal.parent_id or "")
    return None if goal is None else goal.id


def named(tree: PlanTree, text: str, seen: PlanTree | None = None) -> Goal:
    """Return the goal that ``text`` names: an open one by its description, else any by its display number.

    Models copy names from the shown plan: with a mark, its number, in quotes, or cut off by an ellipsis. An exact match
    has precedence over one without these. Among several open goals with one description the nearest to the focus
    counts. ``seen``: the plan as the model knows it; a number alone that has another meaning since is rejected. Raises
    PlanError.
    """
    line = HERE.sub("", " ".join(text.split()))
    for form in dict.fromkeys((line, _bare(line))):
        if (found := _described(tree, form)) is not None:
            return found
        if (number := _NUMBER.fullmatch(form)) is not None and (found := _numbered(tree, *number.groups())):
            if seen is not None and not number[2].strip():
                _check_number(tree, seen, number[1], found)
            return found
    raise PlanError(_none_such(tree, text))


def listed(tree: PlanTree, text: str) -> Goal | None:
    """Return the goal of a line that was copied from the shown plan, wherever it is; no abandoned one."""
    try:
        number = _NUMBER.fullmatch(text)
        found = _numbered(tree, *number.groups()) if number is not None else None
        found = found or named(tree, text)
    except PlanError:
        return None
    return found if found.status != "abandoned" else None


def levels(tree: PlanTree) -> Iterator[Sequence[Goal]]:
    """Goals beside each other: those below the one in focus, beside it, beside the one above it, …"""
    if tree.current_id is not None:
        yield tree.children(tree.current_id)
        yield tree.children(tree.goals[tree.current_id].parent_id)
        for above in tree.ancestors(tree.current_id):
            yield tree.children(above.parent_id)
    else:
        yield tree.children(None)


@functools.lru_cache(maxsize=8_192)
def spelling(text: str) -> str:
    """Return the common form of all spellings of a name: without marks, quotes, upper case and full-width signs."""
    return _folded(_bare(stored_line(text)))


def _numbered(tree: PlanTree, number: str, rest: str) -> Goal | None:
    rest = rest.strip()
    try:
        goal = tree.find(number)
    except PlanError:
        goal = None
    # "3 tests to write" is no number, unless goal 3 has this description.
    if goal is not None and spelling(goal.description).startswith(_start(rest)):
        return goal
    return _described(tree, rest) if rest else None


def _check_number(tree: PlanTree, seen: PlanTree, number: str, found: Goal) -> None:
    try:
        meant = seen.find(number)
    except PlanError:
        return
    if meant.id != found.id:
        raise PlanError(
            f"{number} is {_short(found.description)!r} since the plan changed. Before, it was "
            f"{_short(meant.description)!r}: name the goal by its description."
        )


def _described(tree: PlanTree, line: str) -> Goal | None:
    exact, wanted = _folded(stored_line(line)), spelling(line)
    same = [goal for goal in tree.goals.values() if _folded(goal.description) == exact]
    if not same and wanted:
        same = [goal for goal in tree.goals.values() if spelling(goal.description) == wanted]
    if not same and line.endswith(("…", "...")):
        start = _start(line)
        same = [
            goal for goal in tree.goals.values() if start and spelling(goal.description).startswith(start)
        ]
    if not same:
        return None
    still = [goal for goal in same if tree.ended_root(goal.id) is None]
    if len(still) <= 1:
        # The caller reports that the goal has ended; if there are several, use the newest.
        return still[0] if still else same[-1]
    ids = {goal.id for goal in still}
    for level in levels(tree):
        if here := [goal for goal in level if goal.id in ids]:
            if len(here) == 1:
                return here[0]
            break
    numbers = ", ".join(str(tree.number_of(goal.id)) for goal in still[:NAMED])
    raise PlanError(
        f"{len(still)} open goals are named {_short(line)!r}: focus one by its number ({numbers})."
    )


def _start(text: str) -> str:
    """Return the beginning of a description that was cut off."""
    return spelling(re.sub(r"(?:…|\.\.\.)$", "", text.strip()))


def _bare(line: str) -> str:
    """Return a line without marks before it and quotes around it."""
    line = without_marks(line) or line
    for before, after in _WRAPS:
        inner = line[len(before) : -len(after)]
        if line.startswith(before) and line.endswith(after) and inner.strip() and before not in inner:
            return inner.strip()
    return line


@functools.lru_cache(maxsize=8_192)
def _folded(line: str) -> str:
    # Cached like spellings: each call looks at all descriptions, which takes 5 ms for 2 000 in Chinese. Users may type
    # the same text with full-width characters or in another case.
    return line.casefold() if line.isascii() else unicodedata.normalize("NFKC", line).casefold()


def _none_such(tree: PlanTree, text: str) -> str:
    still = [goal for goal in tree.goals.values() if tree.ended_root(goal.id) is None]
    if not still:
        return f"There is no goal {_short(text)!r}, and none is open: plan it first."
    titles = "; ".join(tree.title(goal.id, LONGEST) for goal in still[:NAMED])
    more = f"; and {len(still) - NAMED} more" if len(still) > NAMED else ""
    return (
        f"There is no goal {_short(text)!r}. Open goals: {titles}{more}. Focus one of them, or plan it first."
    )


def _short(text: str) -> str:
    return short(text, LONGEST)
