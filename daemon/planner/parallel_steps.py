"""Steps of a plan that sub-agents work on at the same time: the calls that start them, and their results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from daemon.context.compaction import user_text
from daemon.loop.tool_selection import TASK, available_tools, task_agents
from daemon.model.messages import Message, ToolCallPart
from daemon.plan.goal_index import ENDED
from daemon.provider.call_ids import goal_of_step, step_call_id
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.loop.session import Session
    from daemon.model.branches import SubagentMeta
    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree

WORKER = "general"
"""The agent that does a step."""
_REQUEST = 6_000
_RESULT = 3_000
"""Characters of the user's request, and of the result of an earlier step."""


def can_share(session: Session) -> bool:
    """Return whether sub-agents can do steps of the session's plan: it has the tool, and the agent is there."""
    has_task = not session.foreign and any(tool.name == TASK for tool in available_tools(session.policy))
    return has_task and any(agent.name == WORKER for agent in task_agents(session.policy))


def step_calls(goal_ids: Iterable[str], session: Session) -> list[ToolCallPart]:
    """Return the calls that have sub-agents work on these goals, all at once."""
    state = session.state
    goals = [state.plan.goals[goal_id] for goal_id in goal_ids]
    said = (user_text(message) for message in reversed(state.messages))
    request = next((text for text in said if text), state.plan.mission)
    return [
        ToolCallPart(
            id=step_call_id(goal.id),
            name=TASK,
            input=json.dumps(
                {
                    "agent": WORKER,
                    "prompt": _prompt(
                        goal, goals, state.plan, request, list(state.children.subagents.values())
                    ),
                },
                ensure_ascii=False,
            ),
        )
        for goal in goals
    ]


def steps_in(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the goals of the steps that sub-agents were started for since the last message to the model."""
    for message in reversed(messages):
        if found := tuple(goal for call in message.tool_calls() if (goal := goal_of_step(call.id))):
            return found
        if message.role == "user" and message.compaction() is None:
            break
    return ()


def _prompt(
    goal: Goal, goals: Sequence[Goal], tree: PlanTree, request: str, known: Sequence[SubagentMeta]
) -> str:
    parts = [
        "You do one step of a plan. Do this step and nothing else of the plan.",
        f"# The step\n{goal.description}" + (f"\n{goal.reason}" if goal.reason else ""),
        f"# What the user asked for, of which this is a part\n{head(request, _REQUEST)}",
    ]
    chain = {above.id for above in tree.ancestors(goal.id)}
    done = [one for one in tree.goals.values() if one.status == "completed" and one.id not in chain]
    if results := [
        _result(one) for one in done if not any(a.status in ENDED for a in tree.ancestors(one.id))
    ]:
        parts.append("# Results of the earlier steps\n" + "\n".join(results))
    others = [f"- {one.description}" for one in goals if one.id != goal.id]
    parts.append(
        "# What other agents are working on now in the same folder: leave it to them\n" + "\n".join(others)
    )
    if earlier := [one for one in known if goal_of_step(one.tool_call_id) == goal.id]:
        said = f" It said last: {head(earlier[-1].summary, _RESULT)}" if earlier[-1].summary else ""
        parts.append(
            "# This step was started before\nA sub-agent stopped in the middle of it. Check how far it "
            f"got, and do nothing twice.{said}"
        )
    return "\n\n".join(parts)


def _result(goal: Goal) -> str:
    summary = head(" ".join((goal.summary or "").split()), _RESULT)
    return f"- {goal.description}: {summary}" if summary else f"- {goal.description}"
