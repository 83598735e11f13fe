"""Loads agent profiles from their Markdown files."""

from __future__ import annotations

import functools
import importlib.resources
from dataclasses import dataclass

from daemon.model.permissions import Rule


class UnknownAgent(Exception):
    """There is no such agent; the message names those that exist."""


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """An agent: its prompt, and the rules that bind it whatever the user's rules allow."""

    name: str
    description: str
    prompt: str
    context: str
    """Name of its context profile and of its summary's fields, see ``daemon.context``; the front matter's
    ``context``, else the agent's own name."""
    rules: tuple[Rule, ...] = ()
    insists: tuple[str, ...] = ()
    """Permissions that are asked about each time, whatever is allowed; the front matter's ``insist``."""


BUILTIN = ("build", "plan", "init", "execute")


@functools.cache
def load_agent(name: str) -> AgentProfile:
    """A shipped agent. Raises UnknownAgent."""
    if name not in BUILTIN:
        raise UnknownAgent(f"There is no agent {name!r}; there are: {', '.join(BUILTIN)}.")
    text = importlib.resources.files("daemon.agents").joinpath(f"{name}.md").read_text("utf-8")
    _, head, body = text.split("---\n", 2)
    fields = dict(line.split(":", 1) for line in head.splitlines() if ":" in line)
    denied, insists = (_listed(fields.get(name, "")) for name in ("deny", "insist"))
    return AgentProfile(
        name=name,
        description=fields.get("description", "").strip(),
        prompt=body.strip(),
        context=fields.get("context", "").strip() or name,
        rules=tuple(Rule(permission=p, pattern="*", action="deny", source="agent") for p in denied),
        insists=insists,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())
