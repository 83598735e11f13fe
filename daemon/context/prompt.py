"""The system prompt in layers: agent, provider, environment, project map, instructions, skills, hooks.

Each layer is the same from call to call within a turn and, unless an instruction file, a skill, the agent or the model
changed, from turn to turn: whatever changes (the plan, the user's actions) is sent elsewhere.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.context.families.loader import provider_prompt, shipped_text
from daemon.context.instructions import instruction_block, is_own, read_instructions
from daemon.model.tags import attribute, within
from daemon.provider.model_calls import SystemBlock
from tools.process.programs import find_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

    from daemon.context.instruction_text import Readable
    from daemon.model.permissions import Mode, Trust


class Environment(Struct, frozen=True):
    """The parts of the environment that the model sees: nothing that changes during a session."""

    workspace: Path
    is_git: bool
    today: date
    shell: str = "bash"
    """The program that runs the commands of the ``bash`` tool."""

    @classmethod
    def of(cls, workspace: Path, today: date) -> Environment:
        """Looks at the disk: call it from a thread. A folder within a repository counts as one too."""
        try:
            is_git = any((folder / ".git").exists() for folder in (workspace, *workspace.parents))
        except OSError:
            is_git = False  # a folder above it is not accessible
        shell = "bash" if find_program("bash", workspace) else "sh"
        return cls(workspace, is_git, today, shell)

    def text(self) -> str:
        """Return the environment layer."""
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


class Layer(Struct, frozen=True):
    """A part of the system prompt and its origin, for users who want to inspect it."""

    name: str
    """``agent``, ``provider``, ``environment``, ``project``, ``instructions <path>``, ``untrusted instructions
    <path>``, ``skills`` or ``hooks``."""
    text: str


def prompt_layers(
    agent_prompt: str,
    model: str,
    environment: Environment,
    user_folder: Path,
    *,
    trusted: bool = True,
    project: str = "",
    skills: str = "",
    hooks: str = "",
    readable: Readable = lambda name: True,
) -> list[Layer]:
    """Return all layers in order. Reads the instruction files from disk: call it from a thread.

    The agent layer ends with the general rules about its context. ``model`` is the whole ``provider/model``.
    ``trusted``: the user trusts the workspace's folder; otherwise its instruction files are only information.
    ``project``: the map of the project. ``skills``: the list of skills. ``hooks``: text that hooks add. ``readable``:
    whether the rules allow reading an instruction file. Never raises: unreadable files are left out.
    """
    layers = [
        Layer("agent", f"{agent_prompt}\n\n{shipped_text('shared')}"),
        Layer("provider", provider_prompt(model)),
        Layer("environment", environment.text()),
    ]
    if project:
        layers.append(Layer("project", project))
    instructions = read_instructions(environment.workspace, user_folder, trusted=trusted, readable=readable)
    for path, text in instructions.items():
        obeyed = trusted or is_own(path, user_folder)
        name = "instructions" if obeyed else UNTRUSTED
        layers.append(Layer(f"{name} {path}", instruction_block(path, text, trusted=obeyed)))
    if skills:
        layers.append(Layer("skills", skills))
    if hooks:
        layers.append(Layer("hooks", hooks))
    return layers


def mode_text(mode: Mode, trust: Trust) -> str:
    """Return one line about actions that the mode or missing trust forbids the model; empty when there are none.

    It may change from step to step, so it comes after the cached prefix, with the plan.
    """
    if trust == "restricted":
        line = (
            "The user has not trusted this folder in the editor: nothing can be changed or run here. "
            "Only look and explain."
        )
    elif mode == "plan":
        line = (
            "Mode: plan. Edits are rejected, and so are commands that may change something. Look, think, "
            "and say what you would do; only the user can switch the mode."
        )
    else:
        return ""
    return within("environment", line)


def system_blocks(layers: Sequence[Layer]) -> list[SystemBlock]:
    """Return the layers as the provider wants them; behind the last one ends the cached prefix."""
    last = len(layers) - 1
    return [SystemBlock(layer.text, cache=number == last) for number, layer in enumerate(layers)]
