"""Files, instructions and definitions of tools that the model has from results of tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from daemon.context.instructions import UNTRUSTED_KEY, instructions_of
from tools.access import MCP_LOADED, MCP_SEARCH
from tools.json_access import mapping, strings

if TYPE_CHECKING:
    from daemon.model.messages import Message


@dataclass(slots=True)
class Given:
    """Things that the model has, and need not be given again."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    """Hash of the version of each file that the model saw last, by absolute path."""
    instructions: dict[str, str] = field(default_factory=dict[str, str])
    """Instruction files of folders: text by shown path."""
    untrusted_instructions: dict[str, str] = field(default_factory=dict[str, str])
    """Those that were shown as information only."""
    tools: dict[str, None] = field(default_factory=dict[str, None])
    """MCP tools whose definitions a search has loaded, in order; see daemon.loop.tool_selection."""

    def note(self, message: Message, workspace: str) -> None:
        """Take a message into account."""
        # The rule "read before you change" must also hold after a restart of the daemon.
        result = message.tool_result() if message.role == "tool" else None
        if result is None or result.is_error:
            return
        if result.name == MCP_SEARCH:
            self.tools.update(dict.fromkeys(strings(result.metadata.get(MCP_LOADED))))
        self.instructions.update(instructions_of(result.metadata))
        self.untrusted_instructions.update(instructions_of(result.metadata, UNTRUSTED_KEY))
        files = cast("list[object]", result.metadata.get("files") or [result.metadata])
        for entry in files:
            fields = mapping(entry)
            path, sha256 = fields.get("path"), fields.get("sha256")
            if isinstance(path, str) and isinstance(sha256, str):
                self.files[str(Path(workspace, path))] = sha256
