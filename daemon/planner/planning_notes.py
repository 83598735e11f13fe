"""Messages about planning to the model and the user.

The notes to the model are in a tag of our own within user messages, so that they are not mistaken for the user's words,
and are part of the conversation like everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from daemon.model.messages import Message, NotePart
from daemon.model.tags import ASKS_FOR_PLAN, within
from daemon.planner.plan_parser import MAX_LAYERED, MAX_SIGNPOSTS
from tools.localization import english, n, t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.model.goals import PlanFront
    from daemon.plan.tree import PlanTree
    from daemon.planner.next_action import AskForPlan, Work

TAG = "planning"
_STEP, _NUDGE, _TOGETHER = "Work on goal ", "Goal ", "Sub-agents work on goals "
_STEPS = (_STEP, _NUDGE)
_FORMAT = ASKS_FOR_PLAN + ': "what will be achieved", "reason": "why", "check": "how it is seen"}]}'


_NEEDS = (
    "Steps run in order, and a failed step stops those after it. Where that does not apply, give steps an "
    '"id", and "needs": the ids of the steps that must be done before, [] for none.'
)
_PARALLEL = (
    'Steps with "parallel": true that do not need each other are done by sub-agents at the same time, in '
    "this folder: only for independent steps that change different files."
)


def ask_text(
    ask: AskForPlan,
    *,
    light: bool,
    has_open: bool,
    by_user: bool = False,
    instructions: str = "",
    parallel: bool = False,
) -> str:
    """Return the request for a plan. ``light``: signposts. ``instructions``: the user's own words about it.

    ``parallel``: sub-agents may do steps.
    """
    again = ask.kind == "again"
    lines: list[str] = []
    if ask.why:
        lines.append(english(ask.why))
    if by_user:
        lines.append(f"The user wants another plan{f', and wrote: {instructions}' if instructions else '.'}")
    if again:
        lines.append("Make a new plan: only the remaining work, in order, based on what happened so far.")
    elif light:
        lines.append("Before you start: name 3 to 5 goals on the way, in order, as signposts.")
    else:
        lines.append("Before you start: plan the work as steps, in order. Each step is worked on separately.")
    lines.append(f"Answer with JSON and call no tools: {_FORMAT}")
    if light:
        lines.append(f"At most {MAX_SIGNPOSTS} steps, not nested.")
    else:
        lines.append(
            f'At most {MAX_LAYERED} steps, as few as the work needs; a step may hold "steps", one level.'
        )
        lines.append(_NEEDS)
        if parallel:
            lines.append(_PARALLEL)
    if has_open:
        fate = (
            "Open goals that you leave out are abandoned; done ones stay."
            if ask.revise
            else "Others stay aside."
        )
        lines.append(f'To keep an open goal of the plan, give {{"keep": "its number"}} as a step. {fate}')
    if again:
        lines.append('If nothing is left to do: {"steps": []}')
    else:
        lines.append('If it needs no plan (a question, something small): {"steps": []}')
    return within(TAG, "\n".join(lines))


def again_text(problem: str) -> str:
    """Return the question once more."""
    return within(
        TAG,
        f"That plan cannot be used. {english(problem)}\nAnswer once more, with JSON only: {_FORMAT}\n"
        'If no plan is needed: {"steps": []}',
    )


class _Ends(Struct, frozen=True):
    """How a goal ends by a tool of the plan."""

    reached: str
    not_reached: str
    still_not: str


_ENDS: Mapping[PlanFront, _Ends] = {
    "goal": _Ends("goal(done=...)", "goal(abandon=...) with why", "goal(abandon=...) with why"),
    # This tool has no action to abandon, so a goal that stays open counts as failed.
    "step": _Ends(
        "step(complete=true, summary=...)", "leave it open, say why, and stop", "say why, and stop"
    ),
}


def work_text(work: Work, tree: PlanTree, front: PlanFront = "goal") -> str:
    """Return the message to the model before a run; empty for none. ``front``: the tool by which it keeps its plan."""
    ends = _ENDS[front]
    title = "" if work.goal_id is None else tree.title(work.goal_id, 500)
    reason = "" if work.goal_id is None else tree.goals[work.goal_id].reason
    match work.kind:
        case "begin":
            return ""
        case "step":
            lines = [
                f"{_STEP}{title}",
                reason,
                f"It has the focus. When it is reached and checked, call {ends.reached} with what later "
                f"work needs to know, and stop; when it cannot be reached, {ends.not_reached}. The other "
                "goals come later. After the last one, tell the user briefly what was done.",
            ]
            text = "\n".join(filter(None, lines))
        case "together":
            named = ", ".join(tree.number_of(goal_id) or tree.title(goal_id) for goal_id in work.goal_ids)
            text = (
                f"{_TOGETHER}{named} at the same time, as the plan says. Their answers become the "
                "summaries of these goals. Goals that need them come later."
            )
        case "nudge":
            text = (
                f"{_NUDGE}{title} is still open. If it is reached, call {ends.reached}; if it cannot be, "
                f"{ends.still_not}; if you need the user's answer first, end with your question; otherwise "
                "continue."
            )
        case "signposts":
            text = (
                f"The plan now has your goals. Follow them with the {front} tool; if your findings call "
                "for another way, take it and change the plan."
            )
        case "unplanned":
            text = "Continue without a plan of steps."
        case "go_on":
            text = "Continue the work by the current plan."
        case "closing":
            text = (
                "No steps are left. Tell the user briefly what was reached, what was not, and why. Start "
                "nothing new."
            )
    return within(TAG, text)


def where_it_stands(messages: Sequence[Message]) -> Literal["begins", "steps", "together", "loop"]:
    """Return the kind of the turn under way, from its messages: nothing else is left of it after a restart.

    It ``begins`` as long as it has no plan and no answer; with ``steps`` it goes through its plan, and with
    ``together`` sub-agents were at work on several of them.
    """
    answered = False
    for message in reversed(messages):
        if message.compaction() is not None:
            continue
        if message.role != "user":
            answered = True
            continue
        for part in message.content:
            if isinstance(part, NotePart) and part.text.startswith(f"<{TAG}>\n"):
                if _FORMAT in part.text:
                    return "begins"
                said = part.text.removeprefix(f"<{TAG}>\n")
                if said.startswith(_TOGETHER):
                    return "together"
                return "steps" if said.startswith(_STEPS) else "loop"
        if any(part.type in ("text", "file") for part in message.content):
            break
    return "loop" if answered else "begins"


def asks(messages: Sequence[Message]) -> bool:
    """Return whether the model's last text is a question to the user."""
    last = next((m for m in reversed(messages) if m.role == "assistant" and m.compaction() is None), None)
    return last is not None and last.text().rstrip(" \n*_`\"').").endswith(("?", "？"))


def planned_notice(steps: int, *, again: bool) -> str:
    """Return the notice for the user about a new plan."""
    if again:
        if not steps:
            return t("The new plan has no steps left to do.")
        return n("Replanned: {count} step left.", "Replanned: {count} steps left.", steps)
    return n("Planned: {count} step.", "Planned: {count} steps.", steps)


def other_mode_notice(agent: str, wanted: str) -> str:
    """Return the notice for a user whose requested mode does not apply to this session."""
    return t(
        "The planner {wanted} is not used: the {agent} agent does not carry out its own plans. It uses "
        "in_loop; the agent that carries out the plan can use {wanted}.",
        wanted=wanted,
        agent=agent,
    )


def unplanned_notice(why: str) -> str:
    """Return the notice for the user about a missing plan."""
    return t("No plan was made: {why}", why=why)
