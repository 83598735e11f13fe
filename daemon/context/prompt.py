"""The system prompt in layers: agent, provider, environment, project map, the user's own instructions, hooks.

Each layer is the same from call to call within a turn and, unless somebody changed an instruction file, the agent or
the model, from turn to turn: whatever changes (the plan, what the person did) travels elsewhere.
"""

from __future__ import annotations

import functools
import importlib.resources
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.context.families.loader import provider_prompt
from daemon.context.instructions import instruction_block, is_own, read_instructions
from daemon.model.tags import attribute, within
from daemon.provider.model_calls import SystemBlock
from tools.process.programs import find_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

    from daemon.model.permissions import Mode, Trust


@dataclass(frozen=True, slots=True)
class Environment:
    """What the model is told of the place it works in: nothing that changes while it works."""

    workspace: Path
    is_git: bool
    today: date
    shell: str = "bash"
    """What runs the commands of the ``bash`` tool."""

    @classmethod
    def of(cls, workspace: Path, today: date) -> Environment:
        """Looks at the disk: call it from a thread. A folder within a repository counts as one too."""
        try:
            is_git = any((folder / ".git").exists() for folder in (workspace, *workspace.parents))
        except OSError:
            is_git = False  # a folder above it that may not be looked into
        shell = "bash" if find_program("bash", workspace) else "sh"
        return cls(workspace, is_git, today, shell)

    def text(self) -> str:
        """The environment layer."""
        return (
            "<environment>\n"
            f"Workspace: {attribute(str(self.workspace), keep_spaces=True)}\n"
            f"Git repository: {'yes' if self.is_git else 'no'}\n"
            f"Platform: {platform.system()} {platform.machine()}\n"
            f"Shell: {self.shell}\n"
            f"Date: {self.today.isoformat()}\n"
            "</environment>"
        )


UNTRUSTED = "untrusted instructions"


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the system prompt and where it comes from, for people who want to see why."""

    name: str
    """``agent``, ``provider``, ``environment``, ``project``, ``instructions <path>``, ``untrusted instructions <path>``
    or ``hooks``."""
    text: str


def prompt_layers(
    agent_prompt: str,
    model: str,
    environment: Environment,
    user_folder: Path,
    *,
    trusted: bool = True,
    project: str = "",
    hooks: str = "",
) -> list[Layer]:
    """All layers in order, the instruction files read from the disk: call it from a thread.

    The agent layer ends with what every agent has to know of its context. ``model`` is the whole ``provider/model``.
    ``trusted``: the person trusts the workspace's folder; without that its instruction files are information.
    ``project``: the map of the project. ``hooks``: what hooks add. Never raises: what cannot be read is left out.
    """
    layers = [
        Layer("agent", f"{agent_prompt}\n\n{_shared()}"),
        Layer("provider", provider_prompt(model)),
        Layer("environment", environment.text()),
    ]
    if project:
        layers.append(Layer("project", project))
    instructions = read_instructions(environment.workspace, user_folder)
    for path, text in instructions.items():
        obeyed = trusted or is_own(path, user_folder)
        name = "instructions" if obeyed else UNTRUSTED
        layers.append(Layer(f"{name} {path}", instruction_block(path, text, trusted=obeyed)))
    if hooks:
        layers.append(Layer("hooks", hooks))
    return layers


def mode_text(mode: Mode, trust: Trust) -> str:
    """What the model cannot do now and others may, as one line; empty when there is no such thing.

    It may change from step to step, so it travels behind the cached prefix, with the plan.
    """
    if trust == "restricted":
        line = "The person has not trusted this folder in the editor: nothing is changed or run here. Look and explain."
    elif mode == "plan":
        line = (
            "Mode: plan. Edits are refused, and so are commands that may change something. Look, think, and say what "
            "you would do; the person switches the mode."
        )
    else:
        return ""
    return within("environment", line)


@functools.cache
def _shared() -> str:
    return importlib.resources.files("daemon.context").joinpath("shared.md").read_text("utf-8").strip()


def system_blocks(layers: Sequence[Layer]) -> list[SystemBlock]:
    """The layers as the provider wants them; behind the last one ends the cached prefix."""
    last = len(layers) - 1
    return [SystemBlock(layer.text, cache=number == last) for number, layer in enumerate(layers)]
