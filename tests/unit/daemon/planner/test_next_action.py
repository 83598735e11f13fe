"""The next action of a turn: tables over the mode, the tree and past events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.model.messages import StopReason
from daemon.planner.next_action import (
    MAX_REPLANS,
    AskForPlan,
    Began,
    Decision,
    End,
    Happening,
    NotPlanned,
    Paused,
    PlanMade,
    Ran,
    TurnProgress,
    Work,
    decide,
    next_step,
)
from tests.support.scenarios.goal_trees import by, grown


@pytest.mark.parametrize(
    ("outline", "expected"),
    [
        ("", None),
        ("1", "1"),
        ("1 x, 2", "2"),
        ("1 x, 2 x", None),
        ("1 !, 2", "2"),
        ("1, 1.1, 1.2, 2", "1.1"),
        ("1, 1.1 x, 1.2, 2", "1.2"),
        ("1 >, 1.1 x, 1.2 !, 2", "2"),
        ("1, 1.1 x, 1.2 !, 1.3, 2", "1.3"),
        ("1, 1.1 !, 2", "1"),
        ("1, 1.1, 1.1.1, 1.1.2 x", "1.1.1"),
        ("1 !, 1.1, 2", "2"),
    ],
)
def test_next_step_is_the_first_open_goal_without_open_children(outline: str, expected: str | None) -> None:
    tree = grown(outline)
    found = next_step(tree)
    assert (None if found is None else found.description) == expected


@pytest.mark.parametrize(
    ("outline", "aside", "expected"),
    [("1, 2", {"1"}, "2"), ("1, 1.1, 2", {"1"}, "2"), ("1, 1.1, 1.2", {"1.1"}, "1.2"), ("1", {"1"}, None)],
)
def test_goals_set_aside_are_no_steps(outline: str, aside: set[str], expected: str | None) -> None:
    tree = grown(outline)
    found = next_step(tree, {by(tree, name) for name in aside})
    assert (None if found is None else found.description) == expected


LAYERED = TurnProgress("layered")
STEP = TurnProgress("layered", free=False, step="1")
NUDGED = replace(STEP, nudged=True)
SPENT = replace(STEP, replans=MAX_REPLANS)
ON_DEMAND = TurnProgress("on_demand")
NO_REPLAN = replace(STEP, replan_allowed=False)
OFF = "The plan ends here because replanning is off (setting allow_replan)."
FIRST, AGAIN = AskForPlan("first"), AskForPlan("again", revise=True)
OK = Ran("end_turn")
GAVE_UP = Ran("end_turn", given_up=frozenset({"1"}))


@pytest.mark.parametrize(
    ("course", "outline", "happening", "expected"),
    [
        # how a turn begins
        (TurnProgress("in_loop"), "1", Began(), Work("begin")),
        (ON_DEMAND, "1", Began(), Work("begin")),
        (LAYERED, "", Began(), FIRST),
        (TurnProgress("signposts"), "", Began(), FIRST),
        (TurnProgress("replan"), "", Began(), AGAIN),
        # answers to the question for a plan
        (replace(LAYERED, asked=FIRST), "1, 2", PlanMade(2), Work("step", "1")),
        (replace(LAYERED, asked=FIRST), "1 x, 2", PlanMade(1), Work("step", "2")),
        (replace(LAYERED, asked=FIRST), "1", PlanMade(0), Work("unplanned")),
        (replace(LAYERED, asked=FIRST), "1, 2", PlanMade(1, frozenset({"1"})), Work("step", "2")),
        (replace(STEP, asked=AGAIN), "1 x", PlanMade(0), Work("closing")),
        (replace(STEP, asked=AGAIN), "1 !, 2", PlanMade(1), Work("step", "2")),
        (TurnProgress("signposts", asked=FIRST), "1", PlanMade(3), Work("signposts")),
        (TurnProgress("signposts", asked=FIRST), "", PlanMade(0), Work("unplanned")),
        (TurnProgress("signposts", asked=AGAIN), "1", PlanMade(2), Work("go_on")),
        (replace(ON_DEMAND, asked=AGAIN), "1", PlanMade(2), Work("go_on")),
        (replace(ON_DEMAND, asked=AGAIN), "", PlanMade(0), Work("closing")),
        (replace(ON_DEMAND, asked=AGAIN, failed=End("error", "E.")), "1", PlanMade(1), Work("go_on")),
        (replace(ON_DEMAND, asked=AGAIN, failed=End("end_turn")), "1", PlanMade(1), End("end_turn")),
        (TurnProgress("replan", asked=AGAIN), "1", PlanMade(1), End("end_turn")),
        (TurnProgress("replan", asked=AGAIN), "1", PlanMade(0), End("end_turn")),
        # no plan came
        (replace(LAYERED, asked=FIRST), "", NotPlanned("bad"), Work("unplanned")),
        (replace(LAYERED, asked=FIRST), "", NotPlanned("down", "error"), End("error", "down")),
        (
            replace(LAYERED, asked=FIRST),
            "",
            NotPlanned("b", "permission_denied"),
            End("permission_denied", "b"),
        ),
        (TurnProgress("signposts", asked=FIRST), "", NotPlanned("bad"), Work("unplanned")),
        (
            replace(STEP, asked=AGAIN, failed=End("error", "It failed.")),
            "1 !",
            NotPlanned("bad."),
            End("error", "It failed. No new plan was made: bad."),
        ),
        (
            replace(ON_DEMAND, asked=AGAIN, failed=End("error", "boom")),
            "",
            NotPlanned("bad"),
            End("error", "boom. No new plan was made: bad"),
        ),
        (
            replace(ON_DEMAND, asked=AGAIN, failed=End("error", "boom")),
            "",
            NotPlanned("boom.", "error"),
            End("error", "boom. No new plan could be made for the same reason."),
        ),
        (
            replace(STEP, asked=AGAIN, failed=End("error", "It failed.")),
            "1 !",
            NotPlanned("budget", "permission_denied"),
            End("permission_denied", "budget"),
        ),
        (replace(STEP, asked=AGAIN), "1", NotPlanned("bad"), Work("step", "1")),
        (replace(STEP, asked=AGAIN), "1 x, 2", NotPlanned("bad"), Work("step", "2")),
        (replace(STEP, asked=AGAIN, step="9"), "1, 2", NotPlanned("bad"), Work("step", "1")),
        (replace(ON_DEMAND, asked=AGAIN), "1", NotPlanned("bad"), Work("go_on")),
        (replace(ON_DEMAND, asked=AGAIN), "1", NotPlanned("down", "error"), End("error", "down")),
        (replace(ON_DEMAND, asked=AGAIN, failed=End("end_turn")), "", NotPlanned("bad"), End("end_turn")),
        (TurnProgress("replan", asked=AGAIN), "1", NotPlanned("bad"), End("error", "bad")),
        # a step has run
        (STEP, "1 x, 2", OK, Work("step", "2")),
        (STEP, "1 x", OK, End("end_turn")),
        (STEP, "1 x", Ran("error", "late"), End("error", "late")),
        (STEP, "1 x, 2", Ran("error", "late"), Work("step", "2")),
        (STEP, "1 >", OK, Work("nudge", "1")),
        (STEP, "1 >", Ran("max_tokens"), Work("nudge", "1")),
        (STEP, "1 >, 1.1, 1.2", OK, Work("step", "2")),
        (STEP, "1 !, 2", OK, Work("step", "2")),
        (
            STEP,
            "1 !, 2",
            GAVE_UP,
            AskForPlan("again", 'The goal "1" was abandoned: why.', revise=True, failed="1"),
        ),
        (
            NUDGED,
            "1 >",
            OK,
            AskForPlan("again", 'The goal "1" was not reached: the work on it ended too early.', True, "1"),
        ),
        (
            STEP,
            "1 >",
            Ran("error", "E."),
            AskForPlan("again", 'The goal "1" stopped with an error: E.', True, "1"),
        ),
        (NUDGED, "1 >", Ran("end_turn", asks=True), End("end_turn")),
        (STEP, "1 >", Ran("end_turn", asks=True), Work("nudge", "1")),
        (STEP, "1 >", Ran("permission_denied", "no"), End("permission_denied", "no")),
        (STEP, "1 >", Ran("canceled", "c"), End("canceled", "c")),
        (
            SPENT,
            "1 !",
            GAVE_UP,
            End(
                "error",
                'The goal "1" was abandoned: why. The plan was remade 3 times, but this did not help.',
            ),
        ),
        (NO_REPLAN, "1 !", GAVE_UP, End("error", f'The goal "1" was abandoned: why. {OFF}')),
        (
            NO_REPLAN,
            "1 >, 2",
            Ran("error", "E."),
            End("error", f'The goal "1" stopped with an error: E. {OFF} Open goals stay in the plan.'),
        ),
        (NO_REPLAN, "1 x, 2", OK, Work("step", "2")),
        (NO_REPLAN, "1, 2", Paused("person"), AskForPlan("again", "", revise=True)),
        (replace(ON_DEMAND, replan_allowed=False), "1", Ran("error", "E."), End("error", "E.")),
        # a free run has ended
        (LAYERED, "1", Ran("end_turn"), End("end_turn")),
        (LAYERED, "1", Ran("error", "E."), End("error", "E.")),
        (TurnProgress("in_loop"), "1", Ran("error", "E."), End("error", "E.")),
        (ON_DEMAND, "1", Ran("max_tokens"), End("max_tokens")),
        (ON_DEMAND, "1", Ran("permission_denied", "no"), End("permission_denied", "no")),
        (
            ON_DEMAND,
            "1",
            Ran("error", "E."),
            AskForPlan("again", "The work stopped with an error: E.", revise=True),
        ),
        (replace(ON_DEMAND, replans=MAX_REPLANS), "1", Ran("error", "E."), End("error", "E.")),
        # something between two steps
        (ON_DEMAND, "1", Paused("circle", "round"), AskForPlan("again", "round", revise=True)),
        (STEP, "1", Paused("person"), AskForPlan("again", "", revise=True)),
    ],
)
def test_decisions(course: TurnProgress, outline: str, happening: Happening, expected: Decision) -> None:
    assert decide(course, grown(outline), happening)[1] == expected


def test_only_automatic_replans_are_counted() -> None:
    tree = grown("1")
    assert decide(ON_DEMAND, tree, Paused("failures", "x"))[0].replans == 1
    assert decide(ON_DEMAND, tree, Paused("person"))[0].replans == 0
    assert decide(LAYERED, tree, Began())[0].replans == 0
    assert decide(STEP, grown("1 !"), GAVE_UP)[0].replans == 1


_happenings = st.one_of(
    st.integers(0, 3).map(PlanMade),
    st.sampled_from([NotPlanned("bad", stop) for stop in (None, "error", "permission_denied")]),
)
_stops: st.SearchStrategy[StopReason] = st.sampled_from(["end_turn", "error", "max_tokens"])


@settings(deadline=None)
@given(st.sampled_from(["in_loop", "layered", "signposts", "on_demand", "replan"]), st.data())
def test_model_without_progress_cannot_prolong_a_turn_forever(mode: str, data: st.DataObject) -> None:
    tree = grown("1, 1.1, 1.2, 2, 3")
    course, decision = decide(TurnProgress(mode), tree, Began())  # pyright: ignore[reportArgumentType]
    for _ in range(40):
        if isinstance(decision, End):
            return
        if isinstance(decision, AskForPlan):
            course, decision = decide(course, tree, data.draw(_happenings))
        else:
            assert decision.goal_id is None or decision.goal_id in tree.goals
            course, decision = decide(course, tree, Ran(data.draw(_stops), "x"))
    raise AssertionError("the turn does not end")
