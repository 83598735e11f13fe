"""Operations on a large goal tree: what one costs must follow what it changes, not the tree."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from daemon.plan.port import SessionPlan
from daemon.plan.text import plan_to_prompt
from daemon.plan.tree import Change, PlanTree
from daemon.state.goal_events import goal_event
from tests.evals.benchmarks.measures import Baseline, Measure
from tests.evals.benchmarks.stage import Stage
from tools.tool import PlanEdit

LARGE, SMALL = (10, 8, 8, 7), (3, 2, 1, 1)
"""Goals below each one, by level: 5 210 goals, and 21."""
_TIMES = 50
"""An operation is timed so often in a run, each time on the same tree."""
_NOW = datetime(2026, 1, 1, tzinfo=UTC)

_TARGETS_MS = {"message counted": 0.1, "plan as text": None}
_TARGET_MS = 1.0


class _Bench:
    """A tree with half of its goals done, some abandoned, and the focus in the middle."""

    def __init__(self, fans: tuple[int, ...]) -> None:
        tree = PlanTree()
        self._grow(tree, None, fans)
        leaves = [goal.id for goal in tree.goals.values() if not tree.children(goal.id)]
        for place, leaf in enumerate(leaves[: len(leaves) // 2]):
            if place % 9 == 4:
                tree.apply_counts(tree.count(leaf, tokens=900, cost=0.01, tools=["bash"]))
                _apply(
                    tree,
                    tree.plan_abandon("It did not work: the interface is another one.", tree.goals[leaf]),
                )
            else:
                _apply(
                    tree,
                    tree.plan_done("Found in src/shop/cart.py; the total is a Decimal.", tree.goals[leaf]),
                )
        _apply(tree, tree.plan_focus(tree.goals[leaves[len(leaves) // 2]]))
        tree.apply_counts(tree.count(tree.current_id, tokens=900, cost=0.01, tools=["read"]))
        self.tree = tree
        self._last = leaves[-1]

    def _grow(self, tree: PlanTree, parent: str | None, fans: tuple[int, ...]) -> None:
        texts = [f"Make part {number} of the shop work as the user said" for number in range(fans[0])]
        added = tree.plan_add(texts, "it is part of the whole", parent_id=parent)
        first = tree.last_id + 1
        _apply(tree, added)
        for number in range(first, first + len(texts)) if fans[1:] else ():
            self._grow(tree, str(number), fans[1:])

    async def run(self, what: str) -> float:
        """Milliseconds of one operation, recorded as events but not written. The median of many."""
        took: list[float] = []
        for _ in range(_TIMES):
            operation = self._operation(what, self.tree.copy())
            start = time.perf_counter()
            await operation()
            took.append((time.perf_counter() - start) * 1000)
        return statistics.median(took)

    def _operation(self, what: str, tree: PlanTree) -> Callable[[], Awaitable[object]]:
        def record(change: Change) -> None:
            goal_event(change, "t", _NOW)
            tree.apply(change)

        async def move() -> None:
            current, last = tree.goals[tree.current_id or ""], tree.goals[self._last]
            for change in tree.plan_move(current, last.parent_id, last.id):
                record(change)

        async def count() -> None:
            tree.apply_counts(tree.count(tree.current_id, tokens=900, cost=0.01, tools=["read", "edit"]))

        async def text() -> None:
            plan_to_prompt(tree)

        plan = SessionPlan(tree, record)
        last = tree.number_of(self._last)
        operations: dict[str, Callable[[], Awaitable[object]]] = {
            "goal add": lambda: plan.update(PlanEdit(add=["one more"], reason="it was forgotten")),
            "goal focus": lambda: plan.update(PlanEdit(focus=last)),
            "goal done": lambda: plan.update(PlanEdit(done="it works")),
            "goal abandon": lambda: plan.update(PlanEdit(abandon="it does not work")),
            "goal abandon, add": lambda: plan.update(
                PlanEdit(abandon="it does not work", add=["another way"])
            ),
            "goal done, focus": lambda: plan.update(PlanEdit(done="it works", focus=last)),
            "goal rename": lambda: plan.update(PlanEdit(rename="make it another way")),
            "goal moved": move,
            "message counted": count,
            "plan as text": text,
        }
        return operations[what]


def _apply(tree: PlanTree, changes: list[Change]) -> None:
    for change in changes:
        tree.apply(change)


async def measure(stage: Stage) -> list[Measure]:
    """Measure each operation of the model and of the user on a large tree, against the same on a small one."""
    large, small = _Bench(LARGE), _Bench(SMALL)
    names = ["goal add", "goal focus", "goal done", "goal abandon", "goal abandon, add", "goal done, focus"]
    names += ["goal rename", "goal moved", "message counted", "plan as text"]
    stage.say(f"{len(large.tree.goals)} goals, and {len(small.tree.goals)}")
    found: list[Measure] = []
    for name in names:
        few = statistics.median([await small.run(name) for _ in range(stage.runs)])
        many = tuple([await large.run(name) for _ in range(stage.runs)])
        target = _TARGETS_MS.get(name, _TARGET_MS)
        against = Baseline(f"{len(small.tree.goals)} goals", few)
        found.append(Measure(f"{name}, {len(large.tree.goals)} goals", "ms", many, target, against))
    return found
