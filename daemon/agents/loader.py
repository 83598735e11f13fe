"""Finds agents: shipped ones, the user's own, and those of a workspace that the user trusts.

The nearest file with a name wins. A file that cannot be read is ignored and hides no other one. Files are read on
demand, so that a new one counts at once.
"""

from __future__ import annotations

import functools
import importlib.resources
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.agents.own_files import MOST_FILES, ParsedFiles, Place
from daemon.agents.profile import COMPACTION as COMPACTION
from daemon.agents.profile import AgentProfile as AgentProfile
from daemon.agents.profile_file import NAME, parse_agent
from daemon.model.permissions import Rule, Trust
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.goals import PlanFront

WORKSPACE_FOLDER = Path(".goalwright") / "agents"
BUILTIN = ("build", "plan", "init", "execute")
"""Shipped agents that a session may begin with."""
HELPERS = ("general", "explore", COMPACTION)
"""Shipped agents that work only for other agents."""
HANDS_OVER = ("plan", "init", "execute")
"""Agents that hand their work over to another one."""
NO_HAND_OVER = Rule(permission="hand_over", pattern="*", action="deny", source="agent")
"""The rule of all other agents: a rule that allows everything does not allow them to hand over."""
SHIPPED_AGENTS = (*BUILTIN, *HELPERS)


class UnknownAgentError(Exception):
    """There is no such agent; the message names those that exist."""


@functools.cache
def load_agent(name: str) -> AgentProfile:
    """Return a shipped agent. Raises UnknownAgentError."""
    if name not in SHIPPED_AGENTS:
        raise UnknownAgentError(
            t(
                "There is no agent {name!r}; available agents: {builtin}.",
                name=name,
                builtin=", ".join(BUILTIN),
            )
        )
    text = importlib.resources.files("daemon.agents").joinpath(f"{name}.md").read_text("utf-8")
    by_step = parse_agent(name, _by(text, "step")).prompt
    return replace(parse_agent(name, _by(text, "goal")), step_prompt=by_step)


def _by(text: str, front: PlanFront) -> str:
    """Return the text of a shipped agent with the lines for one tool of the plan: they begin with ``[goal]`` or
    ``[step]``."""
    other = "[step] " if front == "goal" else "[goal] "
    return "".join(
        line.removeprefix(f"[{front}] ")
        for line in text.splitlines(keepends=True)
        if not line.startswith(other)
    )


class FoundAgents(Struct, frozen=True):
    """All agents by name, shipped ones first; ``problems``: errors of their files, as text with their path."""

    agents: Sequence[AgentProfile]
    problems: tuple[str, ...] = ()
    unread: str = ""
    """Why the workspace's own agents are ignored, as text for the user; empty when none are."""

    def serving(self) -> list[AgentProfile]:
        """Return those that other agents may give tasks to."""
        return [agent for agent in self.agents if agent.serves]

    def beginning(self) -> list[AgentProfile]:
        """Return those that a session may begin with."""
        return [agent for agent in self.agents if agent.begins]


def _parsed(path: Path, text: str, place: Place) -> AgentProfile:
    return parse_agent(path.stem, text, place.source, str(path))


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents of a workspace. All methods block, and may run in any thread."""

    workspace: Path
    """Its root, resolved."""
    user_folder: Path
    """The state folder."""
    _files: ParsedFiles[AgentProfile] = field(default_factory=lambda: ParsedFiles(_parsed), compare=False)

    def find(self, name: str, trust: Trust) -> AgentProfile:
        """Return the agent with this name. Raises UnknownAgentError, also when its file cannot be read: the message
        says why."""
        if NAME.fullmatch(name) and (agent := self._layered(name, trust)) is not None:
            return agent
        known = ", ".join(agent.name for agent in self.all(trust).agents if agent.name != COMPACTION)
        raise UnknownAgentError(
            t("There is no agent {name!r}; available agents: {known}.", name=name, known=known)
        )

    def find_or_stand_in(self, name: str, trust: Trust) -> AgentProfile:
        """Return the agent of a stored session, or its replacement: the shipped one of its name, or ``build``.

        If its file exists but cannot be read, or does not count with this trust, the replacement is read-only, because
        the file may say so.
        """
        try:
            return self.find(name, trust)
        except UnknownAgentError:
            place = load_agent(name if name in BUILTIN else "build")
            places = self._places("trusted") if NAME.fullmatch(name) else []
            files = [place.folder / f"{name}.md" for place in places]
            return replace(place, read_only=True) if any(map(os.path.lexists, files)) else place

    def all(self, trust: Trust) -> FoundAgents:
        """Return all agents, and the errors of files that are no agents."""
        found = {name: load_agent(name) for name in SHIPPED_AGENTS}
        problems: list[str] = []
        broken: set[str] = set()
        for place in self._places(trust):
            for path in _in(place.folder):
                if NAME.fullmatch(path.stem) is None:
                    problems.append(
                        t(
                            "{path}: an agent is named after its file: rename it so that it has only "
                            "lowercase letters, digits and hyphens",
                            path=path,
                        )
                    )
                    continue
                agent, problem = self._file(path, place)
                if agent is not None:
                    found[path.stem] = replacing(agent, found.get(path.stem))
                    problems += [f"{path}, {text}" for text in agent.problems]
                elif problem:
                    problems.append(problem)
                    broken.add(path.stem)
        for name in broken:
            found.pop(name, None)
        return FoundAgents(tuple(found.values()), tuple(problems), self._left_out(trust))

    def _layered(self, name: str, trust: Trust) -> AgentProfile | None:
        """Return the nearest agent, with those that it replaces; None when there is none. Raises UnknownAgentError."""
        agent = load_agent(name) if name in SHIPPED_AGENTS else None
        for place in self._places(trust):
            here, problem = self._file(place.folder / f"{name}.md", place)
            if problem:
                # Do not use another agent of this name: its limits may differ, and the user's own limits apply in a
                # folder too.
                raise UnknownAgentError(
                    t("The agent {name} cannot be used: {problem}", name=name, problem=problem)
                )
            if here is not None:
                agent = replacing(here, agent)
        return agent

    def _places(self, trust: Trust) -> list[Place]:
        """Return the folders, the nearest last."""
        own = Place(self.user_folder / "agents", "user")
        theirs = Place(self.workspace / WORKSPACE_FOLDER, "workspace", self.workspace, flat=True)
        return [own, theirs] if trust == "trusted" else [own]

    def _left_out(self, trust: Trust) -> str:
        folder = self.workspace / WORKSPACE_FOLDER
        if trust == "trusted" or not Path(os.path.realpath(folder)).is_relative_to(self.workspace):
            return ""
        names = [path.stem for path in _in(folder)]
        if not names:
            return ""
        return t(
            "The agents of this folder ({names}) are not used, because the folder is not trusted. If it is "
            "yours, run `goalwright trust` in it, or trust it in the editor.",
            names=", ".join(names[:10]),
        )

    def _file(self, path: Path, place: Place) -> tuple[AgentProfile | None, str]:
        """Return the agent in a file, or why there is none; neither when there is no such file."""
        problems: list[str] = []
        agent = self._files.get(path, place, problems)
        if agent is None and not problems and path.is_symlink():
            problems.append(f"{path}: {t('it is a broken symbolic link')}")
        return agent, "".join(problems)


def _in(folder: Path) -> list[Path]:
    """Return the Markdown files of a folder, in the order of their names; none when there is no such folder."""
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".md"]
    except OSError:
        return []
    return sorted(found)[:MOST_FILES]


def replacing(agent: AgentProfile, other: AgentProfile | None) -> AgentProfile:
    """Return ``agent`` in the place of ``other`` with the same name: see ``AgentProfile.replaces``."""
    return agent if other is None else replace(agent, replaces=other)
