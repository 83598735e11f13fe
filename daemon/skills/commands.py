"""Slash commands: prompts in Markdown files, with arguments.

``~/.goalwright/commands/fix.md`` is ``/fix``, and ``git/commit.md`` is ``/git:commit``. The workspace's come before the
user's, and ``.goalwright`` before ``.claude``. ``expanded`` is pure; finding them blocks.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from daemon.agents.front_matter import OwnFileError, read_document
from daemon.agents.own_files import (
    MOST_FILES,
    ParsedFiles,
    Place,
    places,
    workspace_folders,
)
from daemon.skills.skill_file import NAME, SKILL_FILE
from tools.localization import t
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from daemon.agents.front_matter import FrontMatterValue
    from daemon.model.permissions import Trust

_DEPTH = 3
"""Folders above a file, in the folder for commands."""
_LONGEST = 200
"""Characters of a description or hint in menus."""
_MODEL = re.compile(r"[\w.-]+/\S+", re.ASCII)
_HINT = re.compile(r"^(argument-hint:[ \t]*)([\[<][^\n]*?)[ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")
CALL = re.compile(r"\s*/([A-Za-z0-9][\w.-]*(?::[A-Za-z0-9][\w.-]*)*)(?:\s+(.*))?", re.DOTALL | re.ASCII)
"""A prompt that calls a command: its name, and the text after it."""


class SlashCommand(Struct, frozen=True):
    """A slash command. ``agent`` and ``model`` are empty when its file names none."""

    name: str
    text: str
    file: Path
    place: Place
    description: str = ""
    hint: str = ""
    """Its arguments for the menu, e.g. ``[issue]``."""
    agent: str = ""
    model: str = ""
    problem: str = ""
    """An oddity of the file that keeps nobody from using it, as text for the user."""

    @property
    def takes_arguments(self) -> bool:
        """Whether the text or the hint has a place for arguments."""
        return bool(self.hint or _PLACEHOLDER.search(self.text))


def parse_command(path: Path, text: str, place: Place) -> SlashCommand:
    """Return the command in a file, without its name. Raises OwnFileError.

    Other programs' keys (``allowed-tools``) are ignored: a command grants nothing.
    """
    # YAML cannot read the hints that people write: [issue] [priority].
    document = read_document(_HINT.sub(_quoted, text))
    if not document.body:
        raise OwnFileError(t("it has no text: write the prompt below the front matter"))
    model, problem = _text(document.head, "model"), ""
    if model and model != "inherit" and _MODEL.fullmatch(model) is None:
        problem = t(
            "{path}: {model!r} is not of the form provider/model: the session's model is used",
            path=path,
            model=model,
        )
    first = document.body.lstrip("# ").split("\n", 1)[0]
    return SlashCommand(
        name="",
        text=document.body,
        file=path,
        place=place,
        description=one_line(_text(document.head, "description") or first, _LONGEST),
        hint=one_line(_text(document.head, "argument-hint"), _LONGEST),
        agent=_text(document.head, "agent"),
        model="" if problem or model == "inherit" else model,
        problem=problem,
    )


def _quoted(match: re.Match[str]) -> str:
    return match[1] + "'" + match[2].replace("'", "''") + "'"


def _text(front: Mapping[str, FrontMatterValue], key: str) -> str:
    value = front[key].value if key in front else ""
    return value.strip() if isinstance(value, str) else ""


class FoundCommands(Struct, frozen=True):
    """All commands by name, in alphabetical order; and files that are none, as text with their path."""

    commands: Mapping[str, SlashCommand]
    problems: tuple[str, ...] = ()


class Commands(Struct, frozen=True):
    """The commands of a workspace. May be used from any thread."""

    workspace: Path
    """Its root, resolved."""
    user_folder: Path
    """The state folder."""
    _files: ParsedFiles[SlashCommand] = field(default_factory=lambda: ParsedFiles(parse_command))

    def all(self, trust: Trust) -> FoundCommands:
        """Return all commands, and the problems of their files."""
        found: dict[str, SlashCommand] = {}
        problems: list[str] = []
        for place in places("commands", self.workspace, self.user_folder, trust):
            for name, path in _files_in(place.folder):
                one = self._files.get(path, place, problems)
                if one is not None and name not in found:
                    found[name] = replace(one, name=name)
                    problems += filter(None, [one.problem])
        return FoundCommands({name: found[name] for name in sorted(found)}, tuple(problems))

    def left_out(self, name: str, trust: Trust) -> bool:
        """Return whether the workspace has a file for this command, or a skill, that does not count without trust."""
        if trust == "trusted":
            return False
        folders = workspace_folders("commands", self.workspace)
        return any(name == one for folder in folders for one, _ in _files_in(folder)) or any(
            (folder / name / SKILL_FILE).is_file() for folder in workspace_folders("skills", self.workspace)
        )


def _files_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name of each command of a folder, and its file; other files have no name for one."""
    files = 0
    for path, folders, names in os.walk(folder):
        parts = Path(path).relative_to(folder).parts
        folders[:] = sorted(name for name in folders if NAME.fullmatch(name)) if len(parts) < _DEPTH else []
        for name in sorted(names):
            stem = Path(name).stem
            if not name.endswith(".md") or NAME.fullmatch(stem) is None:
                continue
            files += 1
            if files > MOST_FILES:
                return
            yield ":".join((*parts, stem)).lower(), Path(path, name)


def expanded(template: str, arguments: str) -> str:
    """Return the text of a command with its arguments: ``$ARGUMENTS`` is all of them, ``$1`` the first word.

    Quotes keep words together. Without a place for them, arguments go to the end.
    """
    if _PLACEHOLDER.search(template) is None:
        return "\n\n".join(filter(None, (template, arguments)))
    words = _words(arguments)
    # In one pass, as arguments may contain the same signs.
    return _PLACEHOLDER.sub(
        lambda match: arguments if match[1] is None else "".join(words[int(match[1]) - 1 : int(match[1])]),
        template,
    ).strip()


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a single quote sign, as in "don't"
        return arguments.split()
