"""Choose the tools that a session offers to its model, and describe them, by its rules, agent and place in the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.agents.loader import SHIPPED_AGENTS, AgentProfile, load_agent
from daemon.context.tokens import tool_tokens
from daemon.loop.skill_use import listed
from daemon.provider.model_calls import ToolSpec
from tools.localization import t
from tools.registry import unknown_tool
from tools.text.truncate import head
from tools.tool_names import MCP, MCP_SEARCH, OWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.loop.policy import Policy
    from tools.tool import Tool

TASK = "task"
SKILL = "skill"
GOAL, STEP = "goal", "step"
"""The two tools for the plan; a session has one of them, by the setting ``plan_front``."""
EXPLORE = "explore"
MCP_SHARE = 0.1
"""Part of the window that definitions of MCP tools may take."""
_NOT_FOR_SUBAGENTS = (EXPLORE, "hand_over", "question")
_MOST_NAMED = 20
_DESCRIPTION = 200
"""Characters."""


def depth(policy: Policy) -> int:
    """Return how many sub-agents deep a session is below its main session or branch; a handover starts from zero."""
    if policy.parent is None or policy.handed_over or not _is_subagent(policy):
        return 0
    return 1 + depth(policy.parent)


def belongs(policy: Policy, name: str) -> bool:
    """Return whether the session's agent has a tool, and whether it makes sense in this session."""
    if name in (GOAL, STEP) and name != policy.client.config.settings.plan.plan_front:
        return False
    if name == MCP_SEARCH:
        return any(one.startswith(MCP) and policy.agent.has_tool(one) for one in policy.tools)
    # An agent with a plan has one of the two tools.
    if not policy.agent.has_tool(GOAL if name == STEP else name):
        return False
    if name == TASK:
        return depth(policy) < policy.client.config.settings.agents.max_depth
    if name == SKILL:
        return bool(listed(policy).text)
    if name == EXPLORE and _is_subagent(policy):
        return False  # also after a handover: only a main session has branches
    return name not in _NOT_FOR_SUBAGENTS or depth(policy) == 0


def _is_subagent(policy: Policy) -> bool:
    return policy.parent is not None and (policy.record.branch_id or "").rpartition(".")[2].startswith("s")


def available_tools(policy: Policy) -> list[Tool[Any]]:
    """Return the tools that the model may call: its agent has them, and not everything about them is forbidden."""
    return [tool for name, tool in policy.tools.items() if offers(policy, name)]


def offers(policy: Policy, name: str) -> bool:
    """Return whether the model may call a tool; its definition may still be kept out of the request."""
    tool = policy.tools.get(name)
    return tool is not None and belongs(policy, name) and policy.rules.offered(tool.permission)


def sent_tools(policy: Policy, loaded: Sequence[str], window: int) -> tuple[ToolSpec, ...]:
    """Return the definitions that a request holds.

    Where those of MCP tools together exceed a share of the ``window`` (tokens), only ``loaded`` ones are sent, in the
    order in which they were loaded and after a tool that finds the others: so what is cached stays a prefix.
    """
    specs = {
        tool.name: ToolSpec(tool.name, described(policy, tool), tool.schema())
        for tool in available_tools(policy)
    }
    search = specs.pop(MCP_SEARCH, None)
    sizes = {name: tool_tokens(spec) for name, spec in specs.items() if name.startswith(MCP)}
    if search is None or sum(sizes.values()) <= window * MCP_SHARE:
        return tuple(specs.values())
    own = [spec for name, spec in specs.items() if name not in sizes]
    return (*own, search, *(specs[name] for name in loaded if name in sizes))


def has_changed(tool: Tool[Any], sent: Sequence[ToolSpec]) -> bool:
    """Return whether a tool that is not built in is another one than the model was sent: nobody has seen it yet.

    An approval would hold for the new definition, although the model chose the tool by the old one.
    """
    if not tool.name.startswith((MCP, OWN)):
        return False
    spec = next((one for one in sent if one.name == tool.name), None)
    return spec is not None and (spec.description, spec.schema) != (tool.description, tool.schema())


def unavailable_text(policy: Policy, name: str, offered: Sequence[str]) -> str:
    """Return the message to the model about a call of a tool that it does not have. ``offered``: those that it has."""
    front = policy.client.config.settings.plan.plan_front
    if name in (GOAL, STEP) and front in offered:
        # It used the other tool before the user changed the setting, or knows it from elsewhere.
        return f"There is no tool named {name!r} here: use {front} for the plan."
    return unknown_tool(name, offered)


def described(policy: Policy, tool: Tool[Any]) -> str:
    """Return a tool's description for the model; that of ``task`` also lists agents that the user has added."""
    if tool.name != TASK:
        return tool.description
    own = [agent for agent in task_agents(policy) if agent.name not in SHIPPED_AGENTS or agent.file]
    return "\n".join([tool.description, *map(_line, own[:_MOST_NAMED])])


def task_agents(policy: Policy) -> list[AgentProfile]:
    """Agents that take tasks, as the turn began with them."""
    if policy.agents is None:
        return [load_agent(name) for name in SHIPPED_AGENTS if load_agent(name).serves]
    return policy.agents.serving()


def _line(agent: AgentProfile) -> str:
    text = agent.description
    return f"- {agent.name}: {text if len(text) <= _DESCRIPTION else head(text, _DESCRIPTION) + '…'}"


def notify_agent_problems(policy: Policy) -> None:
    """Notify the user, once, about agents that are ignored, and why."""
    found = policy.agents
    if policy.parent is not None or found is None:
        return
    for text in (*found.problems, found.unread):
        if text:
            policy.record.notice_once(text)
    wanted = policy.record.state.trace.agent
    if wanted != policy.agent.name:
        looks = t(" It is read-only until that agent's file can be read.") if policy.agent.only_looks else ""
        policy.record.notice_once(
            t(
                "There is no agent {wanted} here: {name} is used instead.{looks}",
                wanted=wanted,
                name=policy.agent.name,
                looks=looks,
            )
        )
