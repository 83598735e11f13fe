"""Finds agents: shipped ones, the user's own, and those of a workspace that the user trusts.

The nearest file with a name wins. A file that cannot be read is ignored and hides no other one. Files are read on
demand, so that a new one counts at once.
"""

from __future__ import annotations

import functools
import importlib.resources
import os
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.agents.agent_files import WORKSPACE_FOLDER, Stamp, agent_files, leads_out, read_agent, stamp_of
from daemon.agents.profile import COMPACTION as COMPACTION
from daemon.agents.profile import AgentProfile as AgentProfile
from daemon.agents.profile import AgentSource
from daemon.agents.profile_file import NAME, AgentFileError, parse_agent
from daemon.model.permissions import Rule, Trust
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.goals import PlanFront

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


@dataclass(frozen=True, slots=True)
class FoundAgents:
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


@dataclass(slots=True)
class _Read:
    """A file as it was read: an agent, or the problem."""

    stamp: Stamp
    agent: AgentProfile | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents of a workspace; without folders, the shipped ones. All methods block, and may run in any thread."""

    workspace: Path | None = None
    """Its root."""
    user_folder: Path | None = None
    """The state folder."""
    _read: dict[Path, _Read] = field(default_factory=dict[Path, "_Read"], compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

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

        If its file exists but cannot be read, the replacement is read-only, because the file may say so.
        """
        try:
            return self.find(name, trust)
        except UnknownAgentError:
            place = load_agent(name if name in BUILTIN else "build")
            files = (
                [folder / f"{name}.md" for folder, _ in self._folders(trust)] if NAME.fullmatch(name) else []
            )
            return replace(place, read_only=True) if any(map(os.path.lexists, files)) else place

    def all(self, trust: Trust) -> FoundAgents:
        """Return all agents, and the errors of files that are no agents."""
        found = {name: load_agent(name) for name in SHIPPED_AGENTS}
        problems: list[str] = []
        broken: set[str] = set()
        for folder, source in reversed(self._folders(trust)):
            if source == "workspace" and os.path.lexists(folder) and leads_out(folder, self.workspace):
                problems.append(
                    t(
                        "{folder} is a link that leads out of the workspace: put the agent files "
                        "themselves there",
                        folder=folder,
                    )
                )
            for path in agent_files(folder, source, self.workspace):
                named = NAME.fullmatch(path.stem) is not None
                read = self._file(path, source) if named else None
                if not named:
                    problems.append(
                        t(
                            "{path}: an agent is named after its file: rename it so that it has only "
                            "lowercase letters, digits and hyphens",
                            path=path,
                        )
                    )
                elif read is None:
                    continue  # it was deleted in the meantime
                elif read.agent is None:
                    problems.append(read.problem)
                    broken.add(path.stem)
                else:
                    found[path.stem] = replacing(read.agent, found.get(path.stem))
                    problems += [f"{path}, {text}" for text in read.agent.problems]
        for name in broken:
            found.pop(name, None)
        return FoundAgents(tuple(found.values()), tuple(problems), self._left_out(trust))

    def _layered(self, name: str, trust: Trust) -> AgentProfile | None:
        """Return the nearest agent, with those that it replaces; None when there is none. Raises UnknownAgentError."""
        agent = load_agent(name) if name in SHIPPED_AGENTS else None
        for folder, source in reversed(self._folders(trust)):
            read = self._file(folder / f"{name}.md", source)
            if read is not None and read.agent is None:
                # Do not use another agent of this name: its limits may differ, and the user's own limits apply in a
                # folder too.
                raise UnknownAgentError(
                    t("The agent {name} cannot be used: {problem}", name=name, problem=read.problem)
                )
            if read is not None and read.agent is not None:
                agent = replacing(read.agent, agent)
        return agent

    def _folders(self, trust: Trust) -> list[tuple[Path, AgentSource]]:
        """Return the folders, the nearest first."""
        folders: list[tuple[Path, AgentSource]] = []
        if self.workspace is not None and trust == "trusted":
            folders.append((self.workspace / WORKSPACE_FOLDER, "workspace"))
        if self.user_folder is not None:
            folders.append((self.user_folder / "agents", "user"))
        return folders

    def _left_out(self, trust: Trust) -> str:
        if self.workspace is None or trust == "trusted":
            return ""
        names = [
            path.stem for path in agent_files(self.workspace / WORKSPACE_FOLDER, "workspace", self.workspace)
        ]
        if not names:
            return ""
        return t(
            "The agents of this folder ({names}) are not used, because the folder is not trusted. If it is "
            "yours, run `goalwright trust` in it, or trust it in the editor.",
            names=", ".join(names[:10]),
        )

    def _file(self, path: Path, source: AgentSource) -> _Read | None:
        """None when there is no such file."""
        stamp = stamp_of(path)
        if stamp is None:
            return None
        with self._lock:
            known = self._read.get(path)
            if known is not None and known.stamp == stamp:
                return known
            try:
                agent = parse_agent(path.stem, read_agent(path, source, self.workspace), source, str(path))
                read = _Read(stamp, agent)
            except FileNotFoundError:
                return None
            except AgentFileError as error:
                read = _Read(stamp, problem=f"{path}: {error}")
            self._read[path] = read
            return read


def replacing(agent: AgentProfile, other: AgentProfile | None) -> AgentProfile:
    """Return ``agent`` in the place of ``other`` with the same name: see ``AgentProfile.replaces``."""
    return agent if other is None else replace(agent, replaces=other)
