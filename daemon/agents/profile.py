"""Agent profiles: the prompt of an agent and the limits of what it may do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.model.goals import PlanFront
    from daemon.model.permissions import Rule

AgentMode = Literal["primary", "subagent", "all"]
"""How an agent can be started: by the user (as a session's own agent), by other agents (``task``), or both."""
AgentSource = Literal["shipped", "user", "workspace"]

COMPACTION = "compaction"
"""It sums up when the context is compacted, and does nothing else."""


class AgentProfile(Struct, frozen=True):
    """An agent: its prompt, its tools, and rules of its own."""

    name: str
    description: str
    prompt: str
    context: str
    """Name of its context profile and of its summary's fields, see ``daemon.context``; the front matter's
    ``context``, else the agent's own name."""
    rules: tuple[Rule, ...] = ()
    """Its file's, source ``agent``. They come last, but lift no prohibition; see ``limits``."""
    mode: AgentMode = "all"
    model: str = ""
    """``provider/model``; empty: that of the session, or of the agent that calls it."""
    tools: tuple[str, ...] = ()
    """Wildcards in order, the last that matches decides; ``!`` before one takes away. Empty: all tools."""
    keep_steps: int | None = None
    compact_at: int | None = None
    """Tokens. Both override the context profile, unless the user's settings do."""
    insists: tuple[str, ...] = ()
    """Permissions that are asked about each time, whatever is allowed; the front matter's ``insist``."""
    read_only: bool | None = None
    """It is read-only in any mode and with any rules; None: its file does not say. See ``only_looks``."""
    replaces: AgentProfile | None = None
    """The agent of the same name that it replaces: the user's own, or the shipped one."""
    source: AgentSource = "shipped"
    imported: bool = False
    """Only an imported session names it: as if its file had come with the workspace, it tightens and never loosens."""
    file: str = ""
    """Its path, for the user; empty for a shipped one."""
    problems: tuple[str, ...] = ()
    """Entries of its file that are ignored and why, as text for the user."""
    step_prompt: str = ""
    """Its prompt where the plan is kept by ``step``; empty: the same."""

    def prompt_for(self, front: PlanFront) -> str:
        """Return its prompt, in the terms of the tool by which the plan is kept."""
        return (front == "step" and self.step_prompt) or self.prompt

    def model_by(self, models: Mapping[str, str]) -> str:
        """Return its model as ``provider/model``; empty when it has none of its own.

        ``models``: the setting of that name, which overrides the agent's file.
        """
        return models.get(self.name) or self.model

    def has_tool(self, name: str) -> bool:
        """Return whether it has a tool at all; rules apply in addition."""
        if self._bound is not None and not self._bound.has_tool(name):
            return False
        has = True
        for pattern in self.tools:
            if fnmatchcase(name, pattern.removeprefix("!")):
                has = not pattern.startswith("!")
        return has

    @property
    def begins(self) -> bool:
        """A session may begin with it."""
        return self.mode != "subagent" and self.name != COMPACTION

    @property
    def serves(self) -> bool:
        """Other agents may give it tasks."""
        return self.mode != "primary" and self.name != COMPACTION

    @property
    def own_rules(self) -> tuple[Rule, ...]:
        """Rules that may allow a call instead of the user. A file that came with the workspace has none."""
        return () if self._only_tightens else self.rules

    @property
    def limits(self) -> tuple[tuple[Rule, ...], ...]:
        """Rules that only tighten, one layer each: what they allow is decided by the other layers."""
        if not self._only_tightens:
            return ()
        return (*(() if self._bound is None else (*self._bound.limits, self._bound.rules)), self.rules)

    @property
    def all_insists(self) -> frozenset[str]:
        """Permissions that always ask, including those of the agent that this one replaces if it came with the
        workspace."""
        return frozenset((*self.insists, *(() if self._bound is None else self._bound.all_insists)))

    @property
    def only_looks(self) -> bool:
        """Whether it is read-only: by its file, else as the agent that it replaces."""
        if self._bound is not None and self._bound.only_looks:
            return True
        if self.read_only is not None:
            return self.read_only
        return self.replaces is not None and self.replaces.only_looks

    @property
    def _bound(self) -> AgentProfile | None:
        """The agent whose limits still apply: a file that came with a workspace cannot loosen the agent that it
        replaces."""
        return self.replaces if self._only_tightens else None

    @property
    def _only_tightens(self) -> bool:
        return self.imported or self.source == "workspace"
