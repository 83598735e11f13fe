"""The ``step`` tool's operations on the goal tree (source: seed 003, "step 工具" and "状态变化"). Pure.

It is the same plan as that of the ``goal`` tool: what is planned goes below the goal in focus, and what holds of the
tree holds. What differs is what a plain list of steps needs: goals are named by their descriptions, and one that is
completed does not ask for the steps below it that nobody has begun: they go on beside it.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from daemon.model.goals import Goal
from daemon.plan.changes import Added, Change, PlanError, one_line
from daemon.plan.forest import ENDED
from daemon.plan.tree import PlanTree

_MARK = re.compile(r"(?:[-*•]|\[.?\])\s+")
"""What stands before a goal where the plan is shown, or lists are written."""
_HERE = re.compile(r"\s*← current$")
_NUMBER = re.compile(r"#?(\d+(?:\.\d+)*)[.)]?(?:\s+(.*))?")
_NAMED = 10
"""Goals that a refusal names."""
_LONGEST = 80
"""Characters of each."""

_Make = Callable[[Sequence[Change]], None]


@dataclass(slots=True)
class Step:
    """One call of ``step``. ``changes`` plans it; the other fields say afterwards what the changes do not."""

    plan: Sequence[str] = ()
    focus: str | None = None
    complete: bool = False
    summary: str = ""
    known: list[str] = field(default_factory=list[str])
    """Ids of goals of ``plan`` that were there already, and open: they are not added again."""
    moved: list[str] = field(default_factory=list[str])
    """Ids of goals that nobody had begun, and that now stand beside the one above them, which is completed."""

    def changes(self, tree: PlanTree) -> list[Change]:
        """The changes in the order complete, focus, plan; ``focus`` may name a goal of ``plan``.

        Raises PlanError; the tree is as it was. The numbers that the model gives are those of ``tree``.
        """
        self.known, self.moved = [], []
        trial, done = tree.copy(), list[Change]()

        def make(changes: Sequence[Change]) -> None:
            for change in changes:
                trial.apply(change)
            done.extend(changes)

        ending = tree.goals.get(tree.current_id or "") if self.complete else None
        wanted = self._wanted(tree, ending)
        if self.complete:
            if ending is not None:
                self._make_room(trial, ending, make)
            going_on = None if wanted is None else wanted.id
            make(trial.plan_done(self.summary, ending, going_on=going_on))
        if wanted is not None:
            make(trial.plan_focus(wanted))
        if self.plan:
            new = self._new(trial)
            added = trial.plan_add(new, "") if new else []
            make(added)
            if self.focus is not None and wanted is None:
                make(trial.plan_focus(self._added(trial, added)))
        return done

    def _wanted(self, tree: PlanTree, ending: Goal | None) -> Goal | None:
        """The goal to focus; None for none, and for one that this call is to add."""
        if self.focus is None:
            return None
        if _same(self.focus, self.plan) is not None:
            return None
        try:
            found = named(tree, self.focus)
        except PlanError:
            if not self.plan:
                raise
            return None
        if ending is not None and found.id == ending.id:
            raise PlanError(
                "focus names the goal that this call completes: name the next one, or leave it out."
            )
        return found

    def _new(self, tree: PlanTree) -> list[str]:
        """What of ``plan`` is not there yet: models tend to send the whole list again."""
        there = {_folded(goal.description): goal.id for goal in _near(tree)}
        new: dict[str, str] = {}
        for text in self.plan:
            if (goal_id := there.get(wanted := _given(text))) is not None:
                self.known.append(goal_id)
            else:
                new.setdefault(wanted, text)
        return list(new.values())

    def _added(self, tree: PlanTree, added: Sequence[Change]) -> Goal:
        fresh = [change.goal for change in added if isinstance(change, Added)]
        wanted = _given(self.focus or "")
        for goal in (*fresh, *(tree.goals[goal_id] for goal_id in self.known)):
            if _folded(goal.description) == wanted:
                return goal
        return named(tree, self.focus or "")

    def _make_room(self, tree: PlanTree, goal: Goal, make: _Make) -> None:
        """What is open below a goal that is completed, and not begun, goes on beside it; nothing of a plan is lost."""
        below = [child for child in tree.children(goal.id) if child.status not in ENDED]
        begun = [
            child for child in below if child.status != "pending" or child.cumulative_stats.message_count
        ]
        if begun:
            titles = "; ".join(tree.title(child.id, _LONGEST) for child in begun[:_NAMED])
            raise PlanError(
                f"Goal {tree.title(goal.id)} still has goals that were begun: {titles}. "
                "Focus each and complete it, then this one."
            )
        siblings = [child.id for child in tree.children(goal.parent_id)]
        following = siblings[siblings.index(goal.id) + 1 :][:1]
        for child in below:
            make(tree.plan_move(child, goal.parent_id, following[0] if following else None))
            self.moved.append(child.id)


def named(tree: PlanTree, text: str) -> Goal:
    """The goal that ``text`` names: an open one by its description, else any by its display number.

    As models copy it from where the plan is shown: with a mark, its number, or cut off by an ellipsis. Several open
    goals with one description are told apart by what is nearest to the focus. Raises PlanError.
    """
    line = _HERE.sub("", _MARK.sub("", " ".join(text.split()), count=1))
    if (found := _described(tree, line)) is not None:
        return found
    number = _NUMBER.fullmatch(line)
    if number is not None:
        rest = number[2] or ""
        try:
            goal = tree.find(number[1])
        except PlanError:
            goal = None
        # "3 tests to write" is no number, unless goal 3 is called so.
        if goal is not None and _folded(goal.description).startswith(_start(rest)):
            return goal
        if rest and (found := _described(tree, rest)) is not None:
            return found
    raise PlanError(_none_such(tree, text))


def _described(tree: PlanTree, line: str) -> Goal | None:
    wanted = _given(line)
    same = [goal for goal in tree.goals.values() if _folded(goal.description) == wanted]
    if not same and line.endswith(("…", "...")):
        start = _start(line)
        same = [goal for goal in tree.goals.values() if start and _folded(goal.description).startswith(start)]
    if not same:
        return None
    still = [goal for goal in same if tree.ended_root(goal.id) is None]
    if len(still) <= 1:
        # Of one that has ended it is said that it has; the newest of them, when there are more.
        return still[0] if still else same[-1]
    ids = {goal.id for goal in still}
    for level in _levels(tree):
        if here := [goal for goal in level if goal.id in ids]:
            if len(here) == 1:
                return here[0]
            break
    numbers = ", ".join(str(tree.number_of(goal.id)) for goal in still[:_NAMED])
    raise PlanError(
        f"{len(still)} open goals are called {_short(line)!r}: focus one by its number ({numbers})."
    )


def _levels(tree: PlanTree) -> Iterator[Sequence[Goal]]:
    """Goals beside each other: those below the one in focus, beside it, beside the one above it, …"""
    if tree.current_id is not None:
        yield tree.children(tree.current_id)
        yield tree.children(tree.goals[tree.current_id].parent_id)
        for above in tree.ancestors(tree.current_id):
            yield tree.children(above.parent_id)
    else:
        yield tree.children(None)


def _near(tree: PlanTree) -> Iterator[Goal]:
    """The open goals that a plan may name again: below the one in focus, beside it, and on the way to it."""
    for level in _levels(tree):
        yield from (goal for goal in level if goal.status not in ENDED)


def _same(text: str, among: Sequence[str]) -> str | None:
    wanted = _given(text)
    return next((other for other in among if _given(other) == wanted), None)


def _start(text: str) -> str:
    """What a description begins with that was cut off."""
    return _given(re.sub(r"(?:…|\.\.\.)$", "", text))


def _given(text: str) -> str:
    """What the model wrote, to be compared with ``_folded`` descriptions: those are one line already."""
    return _folded(one_line(text))


@functools.lru_cache(maxsize=4_096)
def _folded(line: str) -> str:
    # Kept: each call looks at all descriptions, and of 2 000 in Chinese this takes 5 ms.
    # Full-width signs and letters in another case are how the same thing is typed.
    return line.casefold() if line.isascii() else unicodedata.normalize("NFKC", line).casefold()


def _none_such(tree: PlanTree, text: str) -> str:
    still = [goal for goal in tree.goals.values() if tree.ended_root(goal.id) is None]
    if not still:
        return f"There is no goal {_short(text)!r}, and none is open: plan it first."
    titles = "; ".join(tree.title(goal.id, _LONGEST) for goal in still[:_NAMED])
    more = f"; and {len(still) - _NAMED} more" if len(still) > _NAMED else ""
    return (
        f"There is no goal {_short(text)!r}. Open goals: {titles}{more}. Focus one of them, or plan it first."
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
