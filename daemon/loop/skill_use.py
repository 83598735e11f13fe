"""The skills that a session offers to its model, by its rules and agent, and what comes of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from daemon.permission.matching import is_general
from daemon.skills.catalogue import usable
from daemon.skills.skill_file import SKILL_FILE, Skill, SkillList, skill_list
from tools.localization import n
from tools.tool import ToolError

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.loop.policy import Policy
    from daemon.permission.rules import RuleSet
    from tools.ports import LoadedSkill


def may_be_shown(rules: RuleSet, name: str) -> bool:
    """Return whether a file of the user or the workspace may become part of a prompt: no rule names it, to deny it or
    to ask. ``name``: as rules know it."""
    rule = rules.decide("read", name)
    return rule.action == "allow" or (rule.action == "ask" and is_general(rule.pattern))


def offered(policy: Policy) -> list[Skill]:
    """Return the skills that the model may use, as the turn began with them: no rule denies them or their file."""
    rules = policy.rules
    return [
        skill
        for skill in policy.skills.skills
        if skill.for_model
        and rules.decide("skill", skill.name).action != "deny"
        and may_be_shown(rules, f"{skill.shown_folder}/{SKILL_FILE}")
    ]


def listed(policy: Policy) -> SkillList:
    """Return the list of skills in the system prompt; empty for an agent without the tool."""
    if not policy.skills.skills or not policy.agent.has_tool("skill") or not policy.rules.offered("skill"):
        return SkillList("")
    return skill_list(offered(policy))


def notify_skill_problems(policy: Policy) -> None:
    """Notify the user, once, about skills that are ignored or listed without their description, and why."""
    if policy.parent is not None:
        return
    for text in (*policy.skills.problems, policy.skills.unread):
        if text:
            policy.record.notice_once(text)
    if bare := listed(policy).bare:
        policy.record.notice_once(
            n(
                "There are too many skills: {count} is listed to the model without its description. Shorten "
                "descriptions, or remove skills.",
                "There are too many skills: {count} are listed to the model without their descriptions. Shorten "
                "descriptions, or remove skills.",
                bare,
            )
        )


def readable_folders(policy: Policy) -> tuple[Path, ...]:
    """Return the folders of the user's own skills, which commands in a sandbox may read although they are in the state
    folder."""
    return tuple(skill.folder for skill in policy.skills.skills if skill.source == "user")


async def load_skill(policy: Policy, name: str) -> LoadedSkill:
    """Read a skill for the model. Raises ToolError when there is none with this name, or its file cannot be used."""
    skills = {skill.name: skill for skill in offered(policy)}
    skill = skills.get(name)
    if skill is None:
        raise ToolError(f"There is no skill {name!r}. Available: {', '.join(skills) or 'none'}.")
    loaded = await asyncio.to_thread(usable, skill)
    if isinstance(loaded, str):
        raise ToolError(f"The skill cannot be used: {loaded}")
    return loaded
