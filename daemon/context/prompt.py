"""The system prompt in layers: agent, environment, the user's own instructions (source: mission M6, seed 004 §4)."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from daemon.provider.base import SystemBlock

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
MAX_INSTRUCTIONS = 32_000
"""Characters of one instruction file that are given to the model."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the model is told of the place it works in."""

    workspace: Path
    is_git: bool
    today: date

    def text(self) -> str:
        """The environment layer."""
        return (
            "<environment>\n"
            f"Workspace: {self.workspace}\n"
            f"Git repository: {'yes' if self.is_git else 'no'}\n"
            f"Platform: {platform.system()} {platform.machine()}\n"
            f"Date: {self.today.isoformat()}\n"
            "</environment>"
        )


def read_instructions(workspace: Path, user_folder: Path) -> dict[str, str]:
    """The user's global AGENTS.md and the workspace's instruction files: text by shown path. Reads the disk."""
    found: dict[str, str] = {}
    for path in (user_folder / "AGENTS.md", *(workspace / name for name in INSTRUCTION_FILES)):
        try:
            if not path.is_file():
                continue  # also not a link to a device or a pipe, whose end never comes
            if path.parent == workspace and not path.resolve().is_relative_to(workspace.resolve()):
                continue  # a repository must not have us send the model what it cannot hold itself
            with path.open("rb") as file:
                data = file.read(4 * MAX_INSTRUCTIONS + 4)
        except OSError:
            continue
        text = data.decode("utf-8-sig", errors="replace").strip()
        if len(text) > MAX_INSTRUCTIONS:
            text = text[:MAX_INSTRUCTIONS] + "\n[… cut]"
        if text and text not in found.values():
            found[str(path)] = text
    return found


def system_blocks(
    agent_prompt: str, environment: Environment, instructions: Mapping[str, str]
) -> list[SystemBlock]:
    """The layers in order. They stay the same from call to call, so all of them can be cached."""
    blocks = [SystemBlock(agent_prompt), SystemBlock(environment.text())]
    blocks.extend(
        SystemBlock(f'<instructions file="{path}">\n{text}\n</instructions>')
        for path, text in instructions.items()
    )
    blocks[-1] = SystemBlock(blocks[-1].text, cache=True)
    return blocks
