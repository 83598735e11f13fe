"""Prompts that call a command: ``/fix 12`` stands for the text of ``fix.md``, ``/pdf`` for the skill ``pdf``.

The prompt is stored and shown as the user typed it. Its text is made when it becomes part of the conversation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.loop.skill_use import may_be_shown
from daemon.skills.catalogue import FoundSkills, usable
from daemon.skills.commands import CALL, FoundCommands, SlashCommand, expanded
from daemon.skills.skill_file import SKILL_FILE, Skill
from tools.localization import t
from tools.paths import rule_target
from tools.skill import skill_text
from tools.tool_names import MCP

if TYPE_CHECKING:
    from daemon.loop.session import Session
    from daemon.permission.rules import RuleSet

_MOST_NAMED = 20
_NAMED = re.compile(r"(?:^|(?<=[\s(\[{'\"]))@([^\s\"@]+)", re.MULTILINE)
_ENDING = ".,;:!?)]}'`"
_LINES = re.compile(r":(\d{1,7})(?:-(\d{1,7}))?$")


class CalledCommand(Struct, frozen=True):
    """A command in a prompt. ``text``: for the model; ``agent`` and ``model``: for this prompt, empty for the session's
    own."""

    text: str
    agent: str = ""
    model: str = ""


class NamedFile(Struct, frozen=True):
    """A file that a text names with ``@``; ``first`` and ``last``: the lines, or 0 for all."""

    path: str
    first: int = 0
    last: int = 0

    @property
    def name(self) -> str:
        """The name as it is written: ``src/a.py``, ``src/a.py:3-9``."""
        if not self.first:
            return self.path
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")


def called(session: Session, text: str) -> CalledCommand | None:
    """Return the command that a user's prompt calls; None for any other prompt. Reads files.

    A model writes the tasks of sub-agents and branches, so names in them call nothing. A notice
    names a skill that cannot be used, and a command that is left out because its folder is not trusted.
    """
    match = CALL.fullmatch(text) if text.lstrip().startswith("/") and session.parent is None else None
    if match is None:
        return None
    name, arguments = match[1], (match[2] or "").strip()
    found = session.services.commands.all(session.trust)
    command = found.commands.get(name.lower())
    if command is not None and _readable(session, command):
        return CalledCommand(expanded(command.text, arguments), command.agent, command.model)
    skill = session.services.skills.all(session.trust).named(name)
    if command is None and skill is None and not name.startswith(MCP):
        if session.services.commands.left_out(name.lower(), session.trust):
            why = t("the commands of this folder are not used, because the folder is not trusted.")
        else:
            broken = (one for one in found.problems if f"/{name}.md" in one)
            why = next(broken, t("there is no such command."))
        session.record.notice_once(t("/{name} is sent as text: {why}", name=name, why=why))
    if skill is None or not callable_skill(session.rules, skill):
        return None
    loaded = usable(skill)
    if isinstance(loaded, str):
        session.notice("warning", loaded)
        return None
    words = skill_text(loaded, list(loaded.files))
    return CalledCommand("\n\n".join(filter(None, (words, arguments))))


def _readable(session: Session, command: SlashCommand) -> bool:
    root = command.place.root
    return root is None or may_be_shown(session.rules, rule_target(command.file, root))


def callable_skill(rules: RuleSet, skill: Skill) -> bool:
    """Return whether the user can call a skill as a command: its file permits it, and no rule denies it."""
    return (
        skill.for_user
        and rules.decide("skill", skill.name).action != "deny"
        and (skill.source == "user" or may_be_shown(rules, f"{skill.shown_folder}/{SKILL_FILE}"))
    )


def named_files(text: str) -> list[NamedFile]:
    """Return the files that a text may name with ``@``, each once, as the composer finds them. Pure."""
    found: dict[str, NamedFile] = {}
    for match in _NAMED.finditer(text):
        name = match[1].rstrip(_ENDING)
        file = named_file(name)
        if file.path and not file.path.endswith("/"):
            found.setdefault(name, file)
    return list(found.values())[:_MOST_NAMED]


def named_file(name: str) -> NamedFile:
    """Return the file and the lines that a name as ``src/a.py:3-9`` means. Pure."""
    lines = _LINES.search(name)
    if lines is None:
        return NamedFile(name)
    first = int(lines[1])
    return NamedFile(name[: lines.start()], first, int(lines[2] or first))


def command_problems(commands: FoundCommands, skills: FoundSkills) -> tuple[str, ...]:
    """Return what is wrong with files for commands and skills, as text for the user."""
    return tuple(filter(None, (*commands.problems, *skills.problems, skills.unread)))


def agent_missing(name: str) -> str:
    """Return the notice that a command names an agent that does not exist."""
    return t("There is no agent {name}: the command is done by this session's agent.", name=name)
