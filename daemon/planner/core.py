"""What a turn does next, given the goal tree and what has just happened. Pure.

The plan is the tree: nothing here is stored, and what is remembered between two decisions (``Course``) can be made
again from the tree when a daemon was killed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from daemon.model.goals import Goal
from daemon.model.messages import StopReason
from daemon.model.traces import PromptPlanner
from daemon.plan.forest import ENDED
from daemon.plan.tree import PlanTree
from tools.localization import t

MAX_REPLANS = 3
"""How often a turn makes its plan anew by itself; what the person asks for does not count."""

WorkKind = Literal["begin", "step", "nudge", "signposts", "unplanned", "go_on", "closing"]
AskKind = Literal["first", "again"]
PauseReason = Literal["circle", "failures", "person"]


# -- what happened --


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt is part of the conversation."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The model answered with ``steps`` steps, and the tree has them. ``aside``: open goals that are not for now."""

    steps: int
    aside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """No plan came of asking. ``stop``: the call itself failed, or may not be made; None: the answers were bad."""

    why: str
    stop: StopReason | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """A run has ended as turns do. ``given_up``: goals that the model itself abandoned in it."""

    stop: StopReason
    detail: str = ""
    given_up: frozenset[str] = frozenset()
    asks: bool = False
    """Its last words are a question."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Between two steps something asks for another plan. ``ended``: the model had stopped by then."""

    reason: PauseReason
    words: str = ""
    ended: Ran | None = None


Happening = Began | Planned | NotPlanned | Ran | Paused


# -- what to do --


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model for a plan. ``why``: what happened, for the model; ``revise``: open goals it does not name go."""

    kind: AskKind
    why: str = ""
    revise: bool = False
    failed: str | None = None
    """Id of the goal that failed."""


@dataclass(frozen=True, slots=True)
class Work:
    """A run of the plain loop, for a goal or freely."""

    kind: WorkKind
    goal_id: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The turn ends."""

    stop: StopReason
    detail: str = ""


Decision = Ask | Work | End


@dataclass(frozen=True, slots=True)
class Course:
    """Where a turn stands."""

    mode: PromptPlanner
    free: bool = True
    """No step is under way: the loop runs as it would without a planner."""
    step: str | None = None
    """The goal at work, when not free."""
    nudged: bool = False
    replans: int = 0
    aside: frozenset[str] = frozenset()
    asked: Ask | None = None
    failed: End | None = None
    """What the turn would have ended with if no plan had been asked for."""

    @property
    def may_replan(self) -> bool:
        """Of itself."""
        return self.replans < MAX_REPLANS


def decide(course: Course, tree: PlanTree, happening: Happening) -> tuple[Course, Decision]:
    """The next thing to do. ``tree`` is read only."""
    match happening:
        case Began():
            return _began(course)
        case Planned():
            return _planned(replace(course, aside=happening.aside), tree, happening.steps)
        case NotPlanned():
            return _not_planned(course, happening)
        case Paused():
            ended = happening.ended
            course = replace(course, failed=None if ended is None else End(ended.stop, ended.detail))
            return _asks(
                course, Ask("again", happening.words, revise=True), by_person=happening.reason == "person"
            )
        case Ran():
            return _ran(course, tree, happening)


def next_step(tree: PlanTree, aside: Collection[str] = ()) -> Goal | None:
    """The first open goal, in the order of the plan, below which nothing is open.

    ``aside``: goals that are not for now; what stands below them is not either.
    """
    level: list[Goal] = list(reversed(tree.live_children(None)))
    while level:
        goal = level.pop()
        if goal.status in ENDED or goal.id in aside:
            continue
        below = [one for one in tree.live_children(goal.id) if one.status not in ENDED]
        if not below:
            return goal
        fit = [one for one in below if one.id not in aside]
        level += reversed(fit)
    return None


def _began(course: Course) -> tuple[Course, Decision]:
    if course.mode in ("layered", "signposts"):
        return _asks(course, Ask("first"), by_person=True)
    if course.mode == "replan":
        return _asks(course, Ask("again", revise=True), by_person=True)
    return course, Work("begin")


def _asks(course: Course, ask: Ask, *, by_person: bool = False) -> tuple[Course, Decision]:
    replans = course.replans if by_person else course.replans + 1
    return replace(course, asked=ask, replans=replans), ask


def _planned(course: Course, tree: PlanTree, steps: int) -> tuple[Course, Decision]:
    asked, failed = course.asked, course.failed
    course = replace(course, asked=None, failed=None)
    if course.mode == "replan":
        return course, End("end_turn")
    if course.mode == "layered":
        if steps == 0 and asked is not None and asked.kind == "first":
            return replace(course, free=True), Work("unplanned")
        course, decision = _next(course, tree, End("end_turn"))
        if isinstance(decision, End):  # the new plan has nothing left to do: that is to be told
            return replace(course, free=True, step=None), Work("closing")
        return course, decision
    if failed is not None and failed.stop == "end_turn":
        return course, failed  # the person asked for a plan when the work had ended
    if course.mode == "signposts" and asked is not None and asked.kind == "first":
        return course, Work("signposts" if steps else "unplanned")
    return course, Work("go_on" if steps else "closing")


def _not_planned(course: Course, happening: NotPlanned) -> tuple[Course, Decision]:
    asked, failed = course.asked, course.failed
    course = replace(course, asked=None, failed=None)
    if course.mode == "replan":
        return course, End(happening.stop or "error", happening.why)
    if failed is not None and happening.stop in (None, "error"):
        return course, End(failed.stop, _and_not_planned(failed, happening.why))
    if happening.stop is not None:
        return course, End(happening.stop, happening.why)
    if not course.free and course.step is not None:  # the person wanted another plan in the middle of a step
        return course, Work("step", course.step)
    first = asked is not None and asked.kind == "first"
    return replace(course, free=True), Work("unplanned" if first else "go_on")


def _ran(course: Course, tree: PlanTree, ran: Ran) -> tuple[Course, Decision]:
    end = End(ran.stop, ran.detail)
    if ran.stop in ("canceled", "permission_denied"):
        return course, end
    if course.free:
        if course.mode == "on_demand" and ran.stop == "error" and course.may_replan:
            return _asks(
                replace(course, failed=end),
                Ask("again", t("The work stopped with an error: {detail}", detail=ran.detail), revise=True),
            )
        return course, end
    goal = tree.goals.get(course.step or "")
    if goal is None or tree.ended_root(goal.id) is not None:
        gone_with = None if goal is None else tree.goals[tree.ended_root(goal.id) or goal.id]
        given_up = goal is not None and goal.status == "abandoned"
        if (
            given_up
            and gone_with is not None
            and gone_with.id in ran.given_up
            and not _replaced(tree, gone_with)
        ):
            return _failed(
                course,
                tree,
                gone_with,
                t("was given up: {summary}", summary=gone_with.summary or t("no reason was given")),
                ran,
            )
        return _next(course, tree, end)
    if ran.stop == "error":
        return _failed(course, tree, goal, t("stopped with an error: {detail}", detail=ran.detail), ran)
    if not course.nudged:
        if (inner := next_step_below(tree, goal)) is not None:
            # The model has broken the goal down: its parts are the next steps.
            return replace(course, step=inner.id), Work("step", inner.id)
        return replace(course, nudged=True), Work("nudge", goal.id)
    if ran.asks:
        return course, end  # the person has the word
    return _failed(course, tree, goal, t("was not reached: the work on it ended while it was open"), ran)


def next_step_below(tree: PlanTree, goal: Goal) -> Goal | None:
    """The first open goal below one, see ``next_step``; None when nothing is open there."""
    while (inner := tree.next_open(goal.id)) is not None:
        goal, found = inner, inner
        if tree.next_open(goal.id) is None:
            return found
    return None


def _replaced(tree: PlanTree, goal: Goal) -> bool:
    """The model put another way in its place itself, and that did not fail as well."""
    stands_in = [new for new, old in tree.replaced.items() if old == goal.id]
    return any(
        (found := tree.goals.get(new)) is not None and found.status != "abandoned" for new in stands_in
    )


def _failed(course: Course, tree: PlanTree, goal: Goal, how: str, ran: Ran) -> tuple[Course, Decision]:
    what = t('The goal "{description}" {how}', description=goal.description, how=how)
    if not course.may_replan:
        left = "" if next_step(tree, course.aside) is None else t(" What is open stays in the plan.")
        return course, End(
            "error",
            t(
                "{what} The plan was made anew {max_replans} times, and that did not help.{left}",
                what=_sentence(what),
                max_replans=MAX_REPLANS,
                left=left,
            ),
        )
    course = replace(course, failed=End("error" if ran.stop == "end_turn" else ran.stop, _sentence(what)))
    return _asks(course, Ask("again", _sentence(what), revise=True, failed=goal.id))


def _next(course: Course, tree: PlanTree, end: End) -> tuple[Course, Decision]:
    goal = next_step(tree, course.aside)
    if goal is None:
        return replace(course, step=None), end
    return replace(course, free=False, step=goal.id, nudged=False), Work("step", goal.id)


def _and_not_planned(failed: End, why: str) -> str:
    if failed.stop == "end_turn":
        return failed.detail
    if not failed.detail.strip():
        return t("No new plan was made: {why}", why=why)
    # What keeps a step from working mostly keeps the planning from it, too: once is enough.
    same = failed.detail.strip().rstrip(".") == why.strip().rstrip(".")
    rest = (
        t("No new plan could be made for the same reason.")
        if same
        else t("No new plan was made: {why}", why=why)
    )
    return f"{_sentence(failed.detail.strip())} {rest}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
