"""The protocol's messages about slash commands, skills, and the user's own tools."""

from typing import Literal

from daemon.model.stored_model import Model
from daemon.own_tools.service import OwnTool

Source = Literal["user", "workspace"]
"""The user's own folders, or those of the workspace."""


class CommandListParams(Model):
    """``sessionId``: also prompts of MCP servers that were passed for this session.

    ``start``: start MCP servers that do not run, and wait some seconds for their prompts.
    """

    session_id: str | None = None
    start: bool = False


class CommandInfo(Model):
    """A prompt that the user calls as ``/name``."""

    name: str
    description: str
    kind: Literal["command", "skill", "mcp"] = "command"
    """A file for a command, a skill that the user may call, or a prompt of an MCP server (``mcp__server__prompt``)."""
    hint: str = ""
    """Its arguments, e.g. ``[issue]``."""
    arguments: bool = False
    """It has a place for arguments."""
    source: Source = "user"
    file: str = ""
    """Empty for a prompt of a server."""


class SkillInfo(Model):
    """A skill."""

    name: str
    description: str
    source: Source = "user"
    file: str = ""
    listed: bool = True
    """The model sees it in the system prompt, unless the agent has no skills."""


class CommandListResult(Model):
    """By name. ``problems``: files that are skipped or odd, and why, as text for the user."""

    commands: tuple[CommandInfo, ...]
    skills: tuple[SkillInfo, ...] = ()
    problems: tuple[str, ...] = ()


class OwnToolListResult(Model):
    """By name. ``problems``: tools that are skipped, and why, as text for the user."""

    tools: tuple[OwnTool, ...]
    problems: tuple[str, ...] = ()
