"""Decide the next action of a turn from the goal tree and the last event. Pure.

The plan is the tree: nothing here is stored, and the memory between two decisions (``TurnProgress``) can be rebuilt
from the tree after a crash of the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from daemon.plan.dependencies import waits_for
from daemon.plan.goal_index import ENDED
from tools.localization import joined, t

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from daemon.model.goals import Goal
    from daemon.model.messages import StopReason
    from daemon.model.traces import PromptPlanner
    from daemon.plan.tree import PlanTree

MAX_REPLANS = 3
"""Most times a turn replans automatically; the user's requests do not count."""

WorkKind = Literal["begin", "step", "together", "nudge", "signposts", "unplanned", "go_on", "closing"]
AskKind = Literal["first", "again"]
PauseReason = Literal["circle", "failures", "person"]


# -- past events --


class Began(Struct, frozen=True):
    """The prompt is part of the conversation."""


class PlanMade(Struct, frozen=True):
    """The model answered with ``steps`` steps, and the tree has them. ``aside``: open goals that are not for now."""

    steps: int
    aside: frozenset[str] = frozenset()


class NotPlanned(Struct, frozen=True):
    """A request for a plan had no result. ``stop``: the call failed, or is not allowed; None: the answers were bad."""

    why: str
    stop: StopReason | None = None


class Ran(Struct, frozen=True):
    """A run has ended as turns do. ``given_up``: goals that the model itself abandoned in it."""

    stop: StopReason
    detail: str = ""
    given_up: frozenset[str] = frozenset()
    asks: bool = False
    """Its last words are a question."""


class RanInParallel(Struct, frozen=True):
    """Sub-agents have worked on several steps. ``failed``: how those that did not succeed ended, by goal id."""

    stop: StopReason
    detail: str = ""
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


class Paused(Struct, frozen=True):
    """A request for another plan between two steps. ``ended``: the model had stopped by then."""

    reason: PauseReason
    words: str = ""
    ended: Ran | None = None


Happening = Began | PlanMade | NotPlanned | Ran | RanInParallel | Paused


# -- next actions --


class AskForPlan(Struct, frozen=True):
    """Ask the model for a plan. ``why``: what happened, for the model; ``revise``: open goals it does not name go."""

    kind: AskKind
    why: str = ""
    revise: bool = False
    failed: str | None = None
    """Id of the goal that failed."""


class Work(Struct, frozen=True):
    """A run of the plain loop, for a goal or freely; ``together``: sub-agents, for several goals."""

    kind: WorkKind
    goal_id: str | None = None
    goal_ids: tuple[str, ...] = ()


class End(Struct, frozen=True):
    """The turn ends."""

    stop: StopReason
    detail: str = ""


Decision = AskForPlan | Work | End


class TurnProgress(Struct, frozen=True):
    """The progress of a turn."""

    mode: PromptPlanner
    replan_allowed: bool = True
    """The setting ``allow_replan``."""
    parallel: bool = False
    """Sub-agents may work on steps at the same time."""
    free: bool = True
    """No step is under way: the loop runs as it would without a planner."""
    step: str | None = None
    """The goal at work, when not free."""
    nudged: bool = False
    replans: int = 0
    aside: frozenset[str] = frozenset()
    asked: AskForPlan | None = None
    failed: End | None = None
    """The end of the turn if no plan had been requested."""
    failures: tuple[tuple[str, str], ...] = ()
    """Goals that failed since the plan was made, and how. Independent steps continue before a new plan is made."""

    @property
    def may_replan(self) -> bool:
        """Whether the turn may replan automatically."""
        return self.replan_allowed and self.replans < MAX_REPLANS


def decide(course: TurnProgress, tree: PlanTree, happening: Happening) -> tuple[TurnProgress, Decision]:
    """Return the next thing to do. ``tree`` is read only."""
    match happening:
        case Began():
            return _began(course)
        case PlanMade():
            return _planned(replace(course, aside=happening.aside), tree, happening.steps)
        case NotPlanned():
            return _not_planned(course, tree, happening)
        case Paused():
            ended = happening.ended
            course = replace(course, failed=None if ended is None else End(ended.stop, ended.detail))
            return _asks(
                course,
                AskForPlan("again", happening.words, revise=True),
                by_user=happening.reason == "person",
            )
        case Ran():
            return _ran(course, tree, happening)
        case RanInParallel():
            return _ran_in_parallel(course, tree, happening)


def next_step(tree: PlanTree, aside: Collection[str] = ()) -> Goal | None:
    """Return the first open goal, in the order of the plan, without open goals below it.

    ``aside``: goals to skip for now, with those below them.
    """
    return next(_open_steps(tree, aside), None)


def ready_steps(tree: PlanTree, aside: Collection[str] = (), failed: Collection[str] = ()) -> list[Goal]:
    """Return the open steps that can begin now, in the order of the plan.

    A step can when all needs of it and of the goals above it are completed. Once a step has ``failed``, those without
    stated needs wait as well: only the order shows their dependencies.
    """
    return [
        goal
        for goal in _open_steps(tree, aside)
        if goal.id not in failed and not _follows(tree, goal, failed) and not waits_for(tree, goal)
    ]


def _follows(tree: PlanTree, goal: Goal, others: Collection[str]) -> bool:
    """Return whether ``goal`` follows one of ``others`` by the order of the plan alone.

    That applies within the nearest goal above it with stated needs, and in the whole plan when none has any.
    """
    if goal.needs is not None:
        return False
    scope = next((above.id for above in tree.ancestors(goal.id) if above.needs is not None), None)
    return any(
        scope in (None, other) or any(above.id == scope for above in tree.ancestors(other))
        for other in others
    )


def _open_steps(tree: PlanTree, aside: Collection[str] = ()) -> Iterator[Goal]:
    level: list[Goal] = list(reversed(tree.live_children(None)))
    while level:
        goal = level.pop()
        if goal.status in ENDED or goal.id in aside:
            continue
        below = [one for one in tree.live_children(goal.id) if one.status not in ENDED]
        if not below:
            yield goal
        level += reversed([one for one in below if one.id not in aside])


def _parallel_steps(tree: PlanTree, course: TurnProgress, ready: Sequence[Goal]) -> tuple[str, ...]:
    """Return the ids of the steps to work on at the same time, from the first ready one on.

    A step without stated needs follows all steps before it except those that run in parallel with it.
    """
    can = {goal.id for goal in ready}
    found: list[str] = []
    others: list[str] = []
    for goal in _open_steps(tree, course.aside):
        beside = goal.id in can and goal.parallel and not _follows(tree, goal, others)
        (found if beside else others).append(goal.id)
    return tuple(found)


def _began(course: TurnProgress) -> tuple[TurnProgress, Decision]:
    if course.mode in ("layered", "signposts"):
        return _asks(course, AskForPlan("first"), by_user=True)
    if course.mode == "replan":
        return _asks(course, AskForPlan("again", revise=True), by_user=True)
    return course, Work("begin")


def _asks(course: TurnProgress, ask: AskForPlan, *, by_user: bool = False) -> tuple[TurnProgress, Decision]:
    replans = course.replans if by_user else course.replans + 1
    return replace(course, asked=ask, replans=replans), ask


def _planned(course: TurnProgress, tree: PlanTree, steps: int) -> tuple[TurnProgress, Decision]:
    asked, failed = course.asked, course.failed
    course = replace(course, asked=None, failed=None, failures=())
    if course.mode == "replan":
        return course, End("end_turn")
    if course.mode == "layered":
        if steps == 0 and asked is not None and asked.kind == "first":
            return replace(course, free=True), Work("unplanned")
        course, decision = _next(course, tree, End("end_turn"))
        if isinstance(decision, End):  # the new plan has nothing left to do, so report that
            return replace(course, free=True, step=None), Work("closing")
        return course, decision
    if failed is not None and failed.stop == "end_turn":
        return course, failed  # the user requested a plan when the work had ended
    if course.mode == "signposts" and asked is not None and asked.kind == "first":
        return course, Work("signposts" if steps else "unplanned")
    return course, Work("go_on" if steps else "closing")


def _not_planned(
    course: TurnProgress, tree: PlanTree, happening: NotPlanned
) -> tuple[TurnProgress, Decision]:
    asked, failed = course.asked, course.failed
    course = replace(course, asked=None, failed=None)
    if course.mode == "replan":
        return course, End(happening.stop or "error", happening.why)
    if failed is not None and happening.stop in (None, "error"):
        return course, End(failed.stop, _and_not_planned(failed, happening.why))
    if happening.stop is not None:
        return course, End(happening.stop, happening.why)
    if not course.free:  # the user wanted another plan during a step, or after several
        step = tree.goals.get(course.step or "")
        if step is not None and tree.ended_root(step.id) is None:
            return course, Work("step", step.id)
        return _next(course, tree, End("end_turn"))  # the user may have ended the step meanwhile
    first = asked is not None and asked.kind == "first"
    return replace(course, free=True), Work("unplanned" if first else "go_on")


def _ran(course: TurnProgress, tree: PlanTree, ran: Ran) -> tuple[TurnProgress, Decision]:
    end = End(ran.stop, ran.detail)
    if ran.stop in ("canceled", "permission_denied"):
        return course, end
    if course.free:
        if course.mode == "on_demand" and ran.stop == "error" and course.may_replan:
            return _asks(
                replace(course, failed=end),
                AskForPlan(
                    "again", t("The work stopped with an error: {detail}", detail=ran.detail), revise=True
                ),
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
                t("was abandoned: {summary}", summary=gone_with.summary or t("no reason was given")),
                ran,
            )
        return _next(course, tree, end)
    if ran.stop == "error":
        return _failed(course, tree, goal, t("stopped with an error: {detail}", detail=ran.detail), ran)
    if not course.nudged:
        if (inner := tree.next_step(goal.id)) is not None:
            # The model has broken the goal down, so its parts are the next steps.
            return replace(course, step=inner.id), Work("step", inner.id)
        return replace(course, nudged=True), Work("nudge", goal.id)
    if ran.asks:
        return course, end  # the user decides
    return _failed(course, tree, goal, t("was not reached: the work on it ended too early"), ran)


def _replaced(tree: PlanTree, goal: Goal) -> bool:
    """Return whether the model itself has replaced a failed step by one that did not fail as well."""
    stands_in = [new for new, old in tree.replaced.items() if old == goal.id]
    return any(
        (found := tree.goals.get(new)) is not None and found.status != "abandoned" for new in stands_in
    )


def _ran_in_parallel(
    course: TurnProgress, tree: PlanTree, ran: RanInParallel
) -> tuple[TurnProgress, Decision]:
    end = End(ran.stop, ran.detail)
    if ran.stop in ("canceled", "permission_denied"):
        return course, end
    for goal_id, how in ran.failed.items():
        goal = tree.goals.get(goal_id)
        if goal is not None and tree.ended_root(goal.id) is None:
            course = _noted(course, goal, how, ran.stop)
    course, decision = _next(course, tree, end)
    if decision == end:  # sub-agents did the last steps, so the user must be informed
        return replace(course, free=True, step=None), Work("closing")
    return course, decision


def _failed(
    course: TurnProgress, tree: PlanTree, goal: Goal, how: str, ran: Ran
) -> tuple[TurnProgress, Decision]:
    course = _noted(course, goal, how, ran.stop)
    return _next(course, tree, End(ran.stop, ran.detail))


def _noted(course: TurnProgress, goal: Goal, how: str, stop: StopReason) -> TurnProgress:
    what = _sentence(t('The goal "{description}" {how}', description=goal.description, how=how))
    stop = "error" if stop in ("end_turn", "tool_use") else stop
    return replace(
        course, failed=course.failed or End(stop, what), failures=(*course.failures, (goal.id, what))
    )


def _next(course: TurnProgress, tree: PlanTree, end: End) -> tuple[TurnProgress, Decision]:
    """Continue with steps that can begin; when none can and something failed, ask for a new plan, or end."""
    ready = ready_steps(tree, course.aside, {goal_id for goal_id, _ in course.failures})
    if ready:
        return _step(course, tree, ready)
    failures = course.failures or _stuck(course, tree)
    if not failures:
        return replace(course, step=None), end
    what = joined(*(what for _, what in failures), sep=" ")
    if not course.may_replan:
        left = "" if next_step(tree, course.aside) is None else t(" Open goals stay in the plan.")
        why = (
            t("The plan was remade {max_replans} times, but this did not help.", max_replans=MAX_REPLANS)
            if course.replan_allowed
            else t("The plan ends here because replanning is off (setting allow_replan).")
        )
        return course, End("error", joined(what, " ", why, left))
    failed = End("error" if course.failed is None else course.failed.stop, what)
    return _asks(
        replace(course, failed=failed), AskForPlan("again", what, revise=True, failed=failures[0][0])
    )


def _step(course: TurnProgress, tree: PlanTree, ready: Sequence[Goal]) -> tuple[TurnProgress, Decision]:
    course = replace(course, free=False, step=ready[0].id, nudged=False)
    together = _parallel_steps(tree, course, ready) if course.parallel and ready[0].parallel else ()
    if len(together) > 1:
        return replace(course, step=None), Work("together", goal_ids=together)
    return course, Work("step", ready[0].id)


def _stuck(course: TurnProgress, tree: PlanTree) -> tuple[tuple[str, str], ...]:
    """Return the steps that wait for an abandoned goal, and why; no step can begin then."""
    found: list[tuple[str, str]] = []
    for goal in _open_steps(tree, course.aside):
        names = [f'"{need.description}"' for need in waits_for(tree, goal) if need.status == "abandoned"]
        if names:
            what = t(
                'The goal "{description}" cannot start: it needs {names}, which was abandoned.',
                description=goal.description,
                names=", ".join(names),
            )
            found.append((goal.id, what))
    return tuple(found)


def _and_not_planned(failed: End, why: str) -> str:
    if failed.stop == "end_turn":
        return failed.detail
    if not failed.detail.strip():
        return t("No new plan was made: {why}", why=why)
    # An obstacle to a step usually prevents replanning too, so trying once is enough.
    same = failed.detail.strip().rstrip(".") == why.strip().rstrip(".")
    rest = (
        t("No new plan could be made for the same reason.")
        if same
        else t("No new plan was made: {why}", why=why)
    )
    return joined(_sentence(failed.detail), rest, sep=" ")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "。", "！", "？")) else joined(text, t("."))
