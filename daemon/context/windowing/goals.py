"""Goal compaction: messages of ended goals leave the context, their summaries stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.context.windowing.notes import IN_SUMMARY, NoteCache, attempts_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.context.windowing.blocks import Block, CallWithResult, Rules
    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree


class GoalStatus(Struct, frozen=True):
    """The state of one goal: live, or ended and part of a summary."""

    known: bool = False
    """It is in the plan."""
    root: Goal | None = None
    """The ended root: the topmost completed or abandoned goal among it and its ancestors. None: it is live."""
    successors: tuple[Goal, ...] = ()
    """Live goals among it and its ancestors that took the place of an abandoned one, the topmost first."""


NOWHERE = GoalStatus()


class GoalStatuses:
    """The states of all goals of one plan. Each is computed once, from that of its parent."""

    def __init__(self, plan: PlanTree) -> None:
        self._plan = plan
        self._known: dict[str, GoalStatus] = {}

    def of(self, goal_id: str | None) -> GoalStatus:
        """Return the state of a goal; one that is not in the plan counts as none."""
        if goal_id is None:
            return NOWHERE
        found = self._known.get(goal_id)
        return found if found is not None else self._worked_out(goal_id)

    def _worked_out(self, goal_id: str) -> GoalStatus:
        goals = self._plan.goals
        if goal_id not in goals:
            return NOWHERE
        chain: dict[str, Goal] = {}
        at: str | None = goal_id
        while at is not None and at not in self._known:
            chain[at] = goals[at]
            at = goals[at].parent_id
        status = self._known.get(at or "", NOWHERE)
        for goal in reversed(chain.values()):
            status = self._below(status, goal)
            self._known[goal.id] = status
        return status

    def _below(self, above: GoalStatus, goal: Goal) -> GoalStatus:
        if above.root is not None:
            return above
        if goal.status in ("completed", "abandoned"):
            return GoalStatus(True, goal, above.successors)
        if goal.id in self._plan.replaced and self._plan.predecessors(goal.id):
            return GoalStatus(True, None, (*above.successors, goal))
        return GoalStatus(True, None, above.successors) if not above.known else above


class GoalCompaction:
    """One pass over the blocks of a session, which goes on with new ones as long as the plan stays as it is. A call
    belongs to the goal that had the focus when it ran, so one message may hold calls of several goals."""

    def __init__(self, plan: PlanTree, statuses: GoalStatuses, notes: NoteCache, *, has_rules: bool) -> None:
        """``has_rules``: some result showed instruction files."""
        self._plan = plan
        self._revision = plan.revision
        self._statuses = statuses
        self._cache = notes
        self._has_rules = has_rules
        self._passed: list[Block] = []
        """The blocks that the pass has been over."""
        self._out: list[Block] = []
        self._place: dict[str, int] = {}
        """Index in ``_out`` of a root's summary."""
        self._rules: dict[str, dict[str, str]] = {}
        self._roots: dict[str, tuple[Goal, int]] = {}
        self._gone: dict[str | None, Goal] = {}
        """The ended root of each goal met so far, if its summary is in ``_out``."""
        self._noted: set[str] = set()
        self._notes: list[tuple[str, Goal, int]] = []
        """The notes in ``_out`` that are no summaries: text, goal and sequence."""

    def goes_on(self, plan: PlanTree, blocks: Sequence[Block], *, has_rules: bool) -> bool:
        """Return whether ``blocks`` begin with those that the pass has been over, and the plan is as it was."""
        made_for = (self._plan, self._revision, self._has_rules)
        return (
            made_for == (plan, plan.revision, has_rules)
            and blocks[: len(self._passed)] == self._passed  # compares by identity
        )

    def replaced(self, blocks: Sequence[Block]) -> list[Block]:
        """Return ``blocks`` with one summary in place of all blocks of an ended root, where the first of them was.

        The user's messages stay. Earlier attempts at a live goal come before its first message. Only blocks that are
        new since the last call are looked at, so the pass must go on with them.
        """
        for note in self._notes:
            self._note(*note)  # the cache keeps only what each window wants
        self._pass_over(blocks[len(self._passed) :])
        found = list(self._out)
        for root_id, at in self._place.items():
            root, sequence = self._roots[root_id]
            rules = tuple(self._rules.get(root_id, {}).items())
            found[at] = self._note(self._cache.summary(self._plan, root), root, sequence, rules)
        return found

    def _pass_over(self, blocks: Sequence[Block]) -> None:
        self._passed += blocks
        of = self._statuses.of
        for block in blocks:
            if block.kind == "compaction":
                self._out.append(block)
                continue
            goals = block.goals
            if len(goals) == 1 and goals[0] in self._gone and block.role == "assistant":
                self._keep_rules(self._gone[goals[0]], block.answers)
                continue
            ended = False
            for goal_id in goals:
                status = of(goal_id)
                ended = ended or status.root is not None
                if status.successors:
                    self._tell_attempts(status, goal_id or "", block)
            if ended and block.role == "assistant":
                self._replace(block)
            else:
                self._out.append(block)

    def _tell(self, text: str, goal: Goal, sequence: int) -> None:
        self._notes.append((text, goal, sequence))
        self._out.append(self._note(text, goal, sequence))

    def _note(self, text: str, goal: Goal, sequence: int, rules: Rules = ()) -> Block:
        return self._cache.note(text, "goal_summary", goal_id=goal.id, sequence=sequence, rules=rules)

    def _keep_rules(self, root: Goal, answers: Sequence[CallWithResult]) -> None:
        if not self._has_rules:
            return
        for answer in answers:
            if rules := answer.rules:
                self._rules.setdefault(root.id, {}).update(rules)

    def _tell_attempts(self, status: GoalStatus, goal_id: str, block: Block) -> None:
        for goal in status.successors:
            # An older goal that was moved below it has earlier messages, which stay where they are.
            if goal.id not in self._noted and not _is_older(goal_id, goal.id):
                self._noted.add(goal.id)
                self._tell(attempts_text(self._plan, goal), goal, block.sequence)

    def _replace(self, block: Block) -> None:
        own = self._statuses.of(block.goal_id).root
        if own is not None:
            self._put(own, block)
            self._gone[block.goal_id] = own
        kept: list[int] = []
        gone: list[Goal] = []
        for at, answer in enumerate(block.answers):
            root = self._statuses.of(answer.goal_id).root
            if root is None:
                kept.append(at)
                continue
            gone.append(root)
            self._keep_rules(root, (answer,))
        left = block.left("all" if own is None else "none", kept, block.kind)
        if left is not None:
            self._out.append(left)
        new = [root for root in gone if root.id not in self._place]
        for root in new:
            self._put(root, block)
        if left is not None and gone and not new and not left.answers:
            # Otherwise two messages of the model would follow each other, or the request would end with one.
            self._tell(IN_SUMMARY, gone[0], block.sequence)

    def _put(self, root: Goal, block: Block) -> None:
        if root.id not in self._place:
            self._place[root.id] = len(self._out)
            self._roots[root.id] = (root, block.sequence)
            self._out.append(block)  # reserves the position


def _is_older(goal_id: str, other: str) -> bool:
    return goal_id.isdecimal() and other.isdecimal() and int(goal_id) < int(other)
