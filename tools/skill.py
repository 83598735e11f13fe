"""The ``skill`` tool: the instructions of a skill, and the names of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import AliasChoices, Field

from tools.access import suggestions
from tools.localization import t
from tools.paths import ask_read, resolve, rule_target
from tools.text.truncate import one_line
from tools.tool import PermissionAsk, Tool, ToolContext, ToolInput, ToolResult

if TYPE_CHECKING:
    from tools.ports import LoadedSkill


class SkillInput(ToolInput):
    """Arguments of ``skill``."""

    name: str = Field(validation_alias=AliasChoices("name", "skill", "command"))


class SkillTool(Tool[SkillInput], name="skill"):
    """Returns a skill's text, which the model asked for by name; its other files are read with ``read``."""

    async def run(self, args: SkillInput, ctx: ToolContext) -> ToolResult:
        skill = await ctx.session.load_skill(args.name.strip().lstrip("/"))
        await ctx.permission.ask(
            PermissionAsk(
                self.permission,
                (skill.name,),
                t("Load the skill {name}", name=skill.name),
                suggestions=suggestions(self.permission, (skill.name,)),
            )
        )
        target = resolve(f"{skill.folder}/SKILL.md", ctx)
        await ask_read(target, ctx)
        files = [
            name
            for name in skill.files
            if ctx.permission.decide("read", rule_target(target.path.parent / name, ctx.workspace)) != "deny"
        ]
        return ToolResult(
            skill_text(skill, files), title=one_line(skill.name, 80), metadata={"path": target.rule}
        )


def skill_text(skill: LoadedSkill, files: list[str]) -> str:
    """Return a loaded skill for the model, with these of its files."""
    parts = [f"Skill {skill.name}. Paths in it are relative to its folder, {skill.folder}.", skill.body]
    if files:
        more = [f"… and {skill.more} more"] if skill.more else []
        listed = "\n".join([*(f"- {name}" for name in files), *more])
        parts.append(f"Files of the skill, for read, and for bash if they are scripts:\n{listed}")
    return "\n\n".join(parts)
