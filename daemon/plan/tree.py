"""The live goal tree: every operation is checked first, then expressed as changes.

An operation never half-happens: it returns the changes, and only ``apply`` changes the tree. The same changes are
stored as events, so replaying the log builds exactly the tree that was live.

Two invariants: above an open goal all goals are open, and the focus is an open goal or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.model.events import AffectedGoal
from daemon.model.goals import Goal
from daemon.model.messages import whole_characters
from daemon.plan.changes import (
    MAX_DEPTH,
    MAX_DESCRIPTION,
    MAX_GOALS_AT_ONCE,
    MAX_SUMMARY,
    Added,
    Change,
    Focus,
    Moved,
    Parent,
    PlanError,
    Removed,
    Updated,
    stored_line,
)
from daemon.plan.dependencies import misplaced
from daemon.plan.goal_index import ENDED, GoalIndex
from daemon.plan.goal_stats import extended_preview, joined, joined_preview, parted
from tools.localization import noted, t
from tools.text.truncate import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "MAX_DEPTH", "MAX_DESCRIPTION", "MAX_GOALS_AT_ONCE", "MAX_SUMMARY", "Added", "Change", "Focus", "Moved",
    "PlanError", "PlanTree", "Removed", "Updated", "extended_preview",
]  # fmt: skip

_NO_WORDS = "Done; the sub-agent reported nothing."


class PlanTree(GoalIndex):
    """The goal tree of one session (or branch): the operations of the model and of the user.

    A ``plan_…`` method returns the changes and touches nothing. Raises PlanError, with the state and the alternatives,
    when the operation is not possible.
    """

    def plan_add(
        self,
        descriptions: Sequence[str],
        reason: str,
        *,
        parent_id: Parent = Focus.CURRENT,
        before_id: str | None = None,
    ) -> list[Change]:
        """New goals under ``parent_id`` (None: at the top level), before its child ``before_id`` (None: last).

        The default is below the goal in focus, and behind the choice of an exploration when that has it. There, the
        first goal at the level of one that was just abandoned takes its place in the order and the focus.
        """
        texts = [text for text in map(stored_line, descriptions) if text]
        if not texts:
            raise PlanError(t("A goal needs a description: say in a few words what will be achieved."))
        if len(texts) > MAX_GOALS_AT_ONCE:
            raise PlanError(
                t(
                    "{count} goals at once are too many; at most {max_goals_at_once} are allowed. Add the "
                    "next few now, and more later.",
                    count=len(texts),
                    max_goals_at_once=MAX_GOALS_AT_ONCE,
                )
            )
        for text in texts:
            _check_description(text)
        if len(reason) > MAX_SUMMARY:
            raise PlanError(
                t(
                    "The reason has {count} characters; the limit is {max_summary}: shorten it.",
                    count=len(reason),
                    max_summary=MAX_SUMMARY,
                )
            )
        reason = whole_characters(reason).strip()
        parent = self.current_id if parent_id is Focus.CURRENT else parent_id
        current = self.goals.get(self.current_id or "")
        if parent_id is Focus.CURRENT and current is not None and current.type == "explore_merge":
            # Work after a choice continues at the level of the exploration.
            parent, before_id = current.parent_id, self.following(current.id)
        self._check_parent(parent)
        if parent is not None and self._depth(parent) >= MAX_DEPTH:
            raise PlanError(
                t("Goals are already nested {max_depth} deep: add it further up.", max_depth=MAX_DEPTH)
            )
        replaced = self.goals.get(self.replaceable or "") if parent_id is Focus.CURRENT else None
        takes_place = before_id is None and replaced is not None and replaced.parent_id == parent
        index: int | None = None
        if before_id is not None:
            self._check_before(before_id, parent)
            index = self._order.index(before_id)
        elif takes_place and replaced is not None:
            index = self._behind(replaced)
        first = self.last_id + 1
        changes: list[Change] = []
        for offset, text in enumerate(texts):
            goal = Goal(id=str(first + offset), parent_id=parent, description=text, reason=reason)
            changes.append(Added(goal, None if index is None else index + offset))
        if takes_place:
            changes.append(Updated(str(first), {"status": "in_progress"}, current_id=str(first)))
        return changes

    def plan_focus(self, goal: Goal) -> list[Change]:
        """Work on ``goal`` now; it and its pending ancestors are in progress from here on."""
        goal = self._open(goal, t("add a new goal for the remaining work"))
        started = tuple(
            AffectedGoal(goal_id=above.id, status="in_progress")
            for above in self.ancestors(goal.id)
            if above.status == "pending"
        )
        return [Updated(goal.id, {"status": "in_progress"}, current_id=goal.id, affected_goals=started)]

    def plan_begin(self, goals: Sequence[Goal]) -> list[Change]:
        """Have sub-agents work on ``goals`` at the same time: they and their pending ancestors are in progress.

        The focus goes to the nearest goal above all of them.
        """
        above = [[one.id for one in self.ancestors(self._open(goal, t("it has ended")).id)] for goal in goals]
        focus = next((one for one in above[0] if all(one in others for others in above)), None)
        started: set[str] = set()
        changes: list[Change] = []
        for goal, chain in zip(goals, above, strict=True):
            pending = [one for one in chain if self.goals[one].status == "pending" and one not in started]
            started.update(pending)
            affected = tuple(AffectedGoal(goal_id=one, status="in_progress") for one in pending)
            changes.append(Updated(goal.id, {"status": "in_progress"}, focus, affected))
        return changes

    def step_done(self, goal_id: str, answer: str) -> list[Change]:
        """Return the changes that complete a goal with a sub-agent's answer; none when it has ended in the meantime."""
        goal = self.goals.get(goal_id)
        if goal is None or self.ended_root(goal_id) is not None or self.next_open(goal_id) is not None:
            return []
        return self.plan_done(short(answer.strip() or _NO_WORDS, MAX_SUMMARY), goal)

    def plan_done(
        self, summary: str, goal: Goal | None = None, *, going_on: str | None = None
    ) -> list[Change]:
        """Complete ``goal`` (None: the one in focus); parents whose live children are all completed complete with it.

        ``going_on``: id of the goal that is worked on next: neither it nor those above it complete. The focus stays
        unless its goal is completed: then it goes to the next open goal above.
        """
        goal = self._target(goal, noted("finish"), t("it cannot be finished again"))
        summary = _checked_summary(summary, "done", t("what was found or changed"))
        if goal.type == "explore_start":
            raise PlanError(
                t(
                    "Goal {id} is done when its branches end. Wait for them, or abandon it to stop them.",
                    id=self.title(goal.id),
                )
            )
        still_open = [child for child in self.children(goal.id) if child.status not in ENDED]
        if still_open:
            names = ", ".join(self.title(child.id) for child in still_open[:5])
            more = t(" and {count} more", count=len(still_open) - 5) if len(still_open) > 5 else ""
            raise PlanError(
                t(
                    "Goal {id} still has open goals: {names}{more}. Focus each and finish or abandon it.",
                    id=self.title(goal.id),
                    names=names,
                    more=more,
                )
            )
        finished = {goal.id: summary}
        cascade: list[AffectedGoal] = []
        for above in self.ancestors(goal.id):
            # Search from the end, because open goals are usually last.
            if above.id == going_on or any(
                i not in finished and self.goals[i].status not in ENDED for i in self._last_first(above.id)
            ):
                break
            finished[above.id] = above.summary or self.summary_of_children(above.id, finished)
            cascade.append(AffectedGoal(goal_id=above.id, status="completed", summary=finished[above.id]))
        updates = {"status": "completed", "summary": summary}
        return [Updated(goal.id, updates, self._focus_without(finished), tuple(cascade))]

    def plan_abandon(self, reason: str, goal: Goal | None = None) -> list[Change]:
        """Abandon ``goal`` (None: the one in focus): it is removed without work, else kept with the reason.

        Open goals below it are abandoned with it. The focus stays unless it is on one of these goals.
        """
        goal = self._target(goal, noted("abandon"), t("it can no longer be abandoned"))
        reason = _checked_summary(reason, "abandon", t("why it is abandoned"))
        # The goals of an exploration stay, because stored branches refer to them.
        dropped = goal.type == "normal" and not self._children.get(goal.id)
        if dropped and goal.cumulative_stats.message_count == 0:
            return [Removed(goal.id, self._focus_without({goal.id}))]
        below = tuple(
            AffectedGoal(goal_id=child.id, status="abandoned")
            for child in self.descendants(goal.id)
            if child.status not in ENDED
        )
        ended = {goal.id, *(child.goal_id for child in below)}
        updates = {"status": "abandoned", "summary": reason}
        return [Updated(goal.id, updates, self._focus_without(ended), below)]

    def plan_rename(self, goal: Goal, description: str) -> list[Change]:
        """Rename an open goal; the description of an ended one is in the context, whose bytes must not change."""
        goal = self._open(goal, t("its description can no longer change"))
        text = stored_line(description)
        if not text:
            raise PlanError(t("A goal needs a description: say in a few words what will be achieved."))
        _check_description(text)
        if text == goal.description:
            return []
        return [Updated(goal.id, {"description": text}, current_id=self.current_id)]

    def plan_move(
        self, goal: Goal, parent_id: str | None, before_id: str | None = None, *, keep_needs: bool = True
    ) -> list[Change]:
        """Move ``goal``, and all below it, under ``parent_id`` (None: the top level) before ``before_id`` (None: last).

        ``keep_needs``: reject moving a goal before its needs.
        """
        goal = self._open(goal, t("only open goals can be moved"))
        if parent_id == goal.id:
            raise PlanError(
                t("Goal {id} cannot be placed below itself: choose another parent.", id=self.title(goal.id))
            )
        self._check_parent(parent_id)
        above_new = [] if parent_id is None else [self.goals[parent_id], *self.ancestors(parent_id)]
        if any(above.id == goal.id for above in above_new):
            raise PlanError(
                t(
                    "Goal {parent_id} is below goal {id}, so goal {id} cannot be moved there: choose "
                    "another parent.",
                    parent_id=self.title(parent_id or ""),
                    id=self.title(goal.id),
                )
            )
        if before_id is not None and before_id != goal.id:
            self._check_before(before_id, parent_id)
        if parent_id == goal.parent_id and self._stands_before(goal, before_id):
            return []
        if before_id == goal.id:
            raise PlanError(t("A goal cannot be placed before itself: name the goal that should follow it."))
        if len(above_new) > self._depth(goal.id) - 1 and len(above_new) + self._height(goal.id) > MAX_DEPTH:
            raise PlanError(
                t(
                    "Goals would be nested more than {max_depth} deep: choose a parent further up.",
                    max_depth=MAX_DEPTH,
                )
            )
        move = Moved(goal.id, parent_id, before_id)
        if keep_needs:
            self._check_needs(move)
        affected = self._affected_by_move(goal, above_new)
        return [replace(move, affected_goals=tuple(self._with_previews(move, affected)))]

    def summary_of_children(self, goal_id: str, summaries: dict[str, str] | None = None) -> str:
        """Return the summary that a goal gets when its last child ends: the summaries of its live children, in order.

        ``summaries`` replace the children's own. A completed goal whose summary differs from this says more than its
        children.
        """
        known = summaries or {}
        parts = [
            known.get(child.id) or child.summary or child.description for child in self.live_children(goal_id)
        ]
        text = "; ".join(parts)
        return short(text, MAX_SUMMARY)

    # -- checks --

    def _open(self, goal: Goal, otherwise: str) -> Goal:
        goal = self.goal(goal.id)
        if (root := self.ended_root(goal.id)) is not None:
            what = self.goals[root].status
            where = "" if root == goal.id else t(" together with a goal above it")
            raise PlanError(
                t(
                    "Goal {id} is {what}{where}: {otherwise}.",
                    id=self.title(goal.id),
                    what=t(_ENDED_WORDS.get(what, what)),
                    where=where,
                    otherwise=otherwise,
                )
            )
        return goal

    def _target(self, goal: Goal | None, operation: str, otherwise: str) -> Goal:
        if goal is not None:
            return self._open(goal, otherwise)
        if self.current_id is None:
            first = t("focus a goal first") if self.goals else t("the plan is empty, add goals first")
            raise PlanError(
                t(
                    "No goal has the focus, so there is nothing to {operation}: {first}.",
                    operation=t(operation),
                    first=first,
                )
            )
        return self.goals[self.current_id]

    def _check_parent(self, parent_id: str | None) -> None:
        if parent_id is None:
            return
        parent = self._open(self.goal(parent_id), t("new goals must be below an open goal"))
        if parent.type == "explore_start":
            raise PlanError(
                t(
                    "The branches of goal {parent_id} have their own plans: place the goal next to it.",
                    parent_id=self.title(parent_id),
                )
            )

    def _check_before(self, before_id: str, parent_id: str | None) -> None:
        if self.goal(before_id).parent_id != parent_id:
            raise PlanError(
                t(
                    "Goal {before_id} is not under the new parent: name a goal that is, or none to add it "
                    "at the end.",
                    before_id=self.title(before_id),
                )
            )

    def _check_needs(self, move: Moved) -> None:
        """Reject a move that puts a goal before its needs."""
        if not any(goal.needs for goal in self.goals.values()):
            return
        moved = self.copy()
        moved.apply(move)
        for goal_id, need_id in sorted(misplaced(moved) - misplaced(self)):
            raise PlanError(
                t(
                    "Goal {goal_id} depends on goal {need_id}, which must come before it and not above or "
                    "below it: choose another place.",
                    goal_id=self.title(goal_id),
                    need_id=self.title(need_id),
                )
            )

    # -- places --

    def index_behind(self, goal_id: str) -> int:
        """Index in the flat list of a goal that is to follow this one. Raises PlanError for an unknown goal."""
        return self._behind(self.goal(goal_id))

    def _behind(self, goal: Goal) -> int:
        """Index in the flat list behind a goal and what directly follows of it."""
        index = self._order.index(goal.id) + 1
        while index < len(self._order) and any(a.id == goal.id for a in self.ancestors(self._order[index])):
            index += 1
        return index

    def _stands_before(self, goal: Goal, before_id: str | None) -> bool:
        siblings = self._children[goal.parent_id]
        place = siblings.index(goal.id) + 1
        return before_id == goal.id or before_id == (siblings[place] if place < len(siblings) else None)

    def _last_first(self, goal_id: str) -> Iterator[str]:
        return reversed(self._children.get(goal_id, []))

    def _depth(self, goal_id: str) -> int:
        return 1 + sum(1 for _ in self.ancestors(goal_id))

    def _height(self, goal_id: str) -> int:
        depths = {goal_id: 1}
        for below in self.descendants(goal_id):
            depths[below.id] = depths[below.parent_id or ""] + 1
        return max(depths.values())

    def _focus_without(self, ended: set[str] | dict[str, str]) -> str | None:
        """Return where the focus is once these goals have ended: on the nearest goal above that has not."""
        current = self.current_id
        chain = [] if current is None else [current, *(above.id for above in self.ancestors(current))]
        return next((goal_id for goal_id in chain if goal_id not in ended), None)

    def _affected_by_move(self, goal: Goal, above_new: Sequence[Goal]) -> Iterator[AffectedGoal]:
        above_old = list(self.ancestors(goal.id))
        old, new = {above.id for above in above_old}, {above.id for above in above_new}
        moved = goal.cumulative_stats
        for above in above_old:
            if above.id not in new and moved.message_count:
                yield AffectedGoal(goal_id=above.id, cumulative_stats=parted(above.cumulative_stats, moved))
        for above in above_new:
            # Work on a goal counts as work on its ancestors.
            begins = goal.status == "in_progress" and above.status == "pending"
            counts = above.id not in old and moved.message_count > 0
            if begins or counts:
                yield AffectedGoal(
                    goal_id=above.id,
                    status="in_progress" if begins else None,
                    cumulative_stats=joined(above.cumulative_stats, moved) if counts else None,
                )

    def _with_previews(self, move: Moved, affected: Iterable[AffectedGoal]) -> Iterator[AffectedGoal]:
        """Add the previews that the goals above have after a move. The order of past work is unknown, so the plan's
        order counts."""
        moved = None
        for above in affected:
            stats = above.cumulative_stats
            if stats is None or self.goals[move.goal_id].cumulative_stats.preview is None:
                yield above
                continue
            if moved is None:
                moved = self.copy()
                moved.apply(move)
            goals = (self.goals[above.goal_id], *moved.descendants(above.goal_id))
            preview = joined_preview(goal.self_stats.preview for goal in goals)
            stats = stats.model_copy(update={"preview": preview})
            yield above.model_copy(update={"cumulative_stats": stats})


def _check_description(text: str) -> None:
    if len(text) > MAX_DESCRIPTION:
        raise PlanError(
            t(
                "A description of {count} characters is too long; the limit is {max_description}. Name the "
                "goal in one line and put the rest into the reason.",
                count=len(text),
                max_description=MAX_DESCRIPTION,
            )
        )


_ENDED_WORDS = {"completed": noted("completed"), "abandoned": noted("abandoned")}


def _checked_summary(text: str, operation: str, what: str) -> str:
    text = whole_characters(text).strip()
    if not text:
        raise PlanError(
            t(
                "`{operation}` needs a summary: say {what}. It replaces the details.",
                operation=operation,
                what=what,
            )
        )
    if len(text) > MAX_SUMMARY:
        raise PlanError(
            t(
                "The summary has {count} characters; the limit is {max_summary}: keep what later work needs.",
                count=len(text),
                max_summary=MAX_SUMMARY,
            )
        )
    return text
