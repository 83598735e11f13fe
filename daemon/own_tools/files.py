"""Executables as tools: ``NAME.json`` in the user's ``tools`` folder and, in a trusted folder, in its own.

All functions block.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.agents.front_matter import OwnFileError
from daemon.agents.front_matter_keys import TOOLS
from daemon.agents.own_files import Place, Source
from daemon.outside_tools.definitions import BadDefinitionError, Definition, definition
from tools.localization import n, t
from tools.process.programs import find_program
from tools.process.runnable import why_not_run
from tools.text.terminal import shown_line
from tools.text.validation import unreadable, wrong_value

if TYPE_CHECKING:
    from daemon.agents.own_files import ParsedFiles
    from daemon.model.permissions import Trust

FOLDER = "tools"
MOST_TOOLS = 100
"""Files that are read of one folder."""
LONGEST_COMMAND = 100
"""Words of a command."""
_MOST_HASHED = 64 * 1024 * 1024
"""Bytes of a program that are compared; of a larger one, its size and times are."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")

Sandboxing = Literal["on", "network", "off"]


class ToolFile(BaseModel):
    """The content of a definition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = Field(min_length=1)
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    command: tuple[str, ...] = Field(min_length=1, max_length=LONGEST_COMMAND)
    timeout_s: float = Field(default=60.0, gt=0, le=3600, strict=True)
    sandbox: Sandboxing = "on"


class Executable(Struct, frozen=True):
    """A tool that is a program."""

    definition: Definition
    command: tuple[str, ...]
    """Program and arguments. Those that name files beside the definition are absolute."""
    timeout_s: float
    sandbox: Sandboxing
    source: Source
    folder: Path
    """The folder of the definition, resolved."""
    program: str = ""
    """Where the program is; empty: it is not found."""

    @property
    def name(self) -> str:
        """The name, without the prefix."""
        return self.definition.name

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments to start it with."""
        return (self.program, *self.command[1:])

    def digest(self, workspace: Path) -> str:
        """Return what an approval binds to: the definition, the command, and the files that the command names.

        Blocking. Files that cannot be read count as empty: the call will fail.
        """
        parts = [self.definition.digest, *self.argv, self.sandbox, str(self.source)]
        whole = hashlib.sha256(json.dumps(parts).encode())
        for word in self.argv:
            path = workspace / word  # the program starts in the workspace
            if Path(word).is_absolute() or os.path.isfile(path):  # noqa: PTH113 - false for a name that is too long
                whole.update(_content(path))
        return whole.hexdigest()[:16]


def name_problem(name: str) -> str:
    """Return why a tool cannot have this name; empty: it can."""
    if not _NAME.fullmatch(name):
        return t("the name may have up to 40 letters, digits, _ and -, and begins with a letter or digit")
    if name in TOOLS:
        return t("{name} is a tool of Goalwright: choose another name", name=name)
    return ""


def parse(path: Path, text: str, place: Place) -> Executable:
    """Read a definition. Raises OwnFileError."""
    if problem := name_problem(path.stem):
        raise OwnFileError(problem)
    try:
        value: object = json.loads(text)
        if isinstance(value, dict):
            value.pop("$schema", None)  # pyright: ignore[reportUnknownMemberType]
        file = ToolFile.model_validate(value)
        found = definition(str(path), path.stem, file.description, file.parameters)
    except ValidationError as error:
        raise OwnFileError(wrong_value(error)) from error
    except (ValueError, RecursionError) as error:
        raise OwnFileError(unreadable(error)) from error
    except BadDefinitionError as error:
        raise OwnFileError(str(error)) from error
    if any("\0" in word or any("\ud800" <= c <= "\udfff" for c in word) for word in file.command):
        raise OwnFileError(t("command has a character that programs cannot be given"))
    if place.source == "workspace" and file.sandbox != "on":
        raise OwnFileError(
            t(
                "only a tool of your own may leave the sandbox or use the network: move the file to "
                "~/.goalwright/tools, or remove sandbox"
            )
        )
    folder = path.parent.resolve()
    command = tuple(_beside(word, folder) for word in file.command)
    return Executable(found, command, file.timeout_s, file.sandbox, place.source, folder)


def find(
    files: ParsedFiles[Executable], workspace: Path, user_folder: Path, trust: Trust
) -> tuple[list[Executable], list[str]]:
    """Return the tools that are defined by files, and the problems, as text for the user."""
    found: dict[str, Executable] = {}
    problems: list[str] = []
    own = Place(user_folder / FOLDER, "user")
    theirs = Place(workspace / ".goalwright" / FOLDER, "workspace", workspace)
    others = [theirs] if theirs.folder != own.folder else []
    for place in (own, *others) if trust == "trusted" else (own,):
        for path in _listed(place, problems):
            wrong: list[str] = []
            tool = files.get(path, place, wrong)
            if tool is None and not wrong and path.is_symlink():
                target = os.path.realpath(path)
                words = t("{path} is a link to {target}, which does not exist", path=path, target=target)
                wrong = [shown_line(words)]
            problems += [t("Tool skipped: {problem}", problem=problem) for problem in wrong]
            if tool is None:
                continue
            if tool.name in found:
                problems.append(
                    t(
                        "Tool skipped: {path}: {other} has a tool of this name.",
                        path=path,
                        other=found[tool.name].definition.origin,
                    )
                )
                continue
            try:
                program = _program(tool.command[0], workspace, tool.folder)
            except OwnFileError as error:
                problems.append(t("Tool skipped: {path}: {error}.", path=path, error=error))
            else:
                found[tool.name] = replace(tool, program=program)
    if trust != "trusted" and (count := sum(len(_listed(place, [])) for place in others)):
        problems.append(
            n(
                "{count} tool of this folder is not used, because the folder is not trusted. If it is yours, run "
                "`goalwright trust` in it.",
                "{count} tools of this folder are not used, because the folder is not trusted. If it is yours, run "
                "`goalwright trust` in it.",
                count,
            )
        )
    return list(found.values()), problems


def _listed(place: Place, problems: list[str]) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(place.folder) if entry.name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(t("{path} is not used: {error}", path=place.folder, error=error.strerror or error))
        return []
    if len(names) > MOST_TOOLS:
        problems.append(
            t("Only the first {most} tools of {path} are used.", most=MOST_TOOLS, path=place.folder)
        )
    return [place.folder / name for name in names[:MOST_TOOLS]]


def _beside(word: str, folder: Path) -> str:
    """Return a word of a command; a path that begins with ``./``, ``../`` or ``~/`` is made absolute."""
    if word.startswith(("./", "../")):
        return os.path.normpath(folder / word)
    return str(Path(word).expanduser()) if word.startswith("~/") else word


def _program(word: str, workspace: Path, folder: Path) -> str:
    """Return the path of a program. Raises OwnFileError when it cannot be run."""
    if Path(word).is_absolute():
        if problem := why_not_run(Path(word)):
            raise OwnFileError(problem)
        return word
    if Path(word).name == word and (found := find_program(word, workspace)):
        return found
    if word and (folder / word).is_file():
        raise OwnFileError(t("a program beside this file is named ./{program}", program=word))
    raise OwnFileError(
        t("the program {program} is not found: install it, or write its whole path", program=word)
    )


def _content(path: Path) -> bytes:
    """Return a hash of a file, or of its stamp when it is very large."""
    try:
        info = path.stat()
        if not path.is_file():
            return b""
        if info.st_size > _MOST_HASHED:
            return repr((info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)).encode()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""
