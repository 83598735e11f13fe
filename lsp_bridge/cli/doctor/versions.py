"""Find the version of a server, and whether it runs at all."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lsp_bridge.language_client.specs.discovery import boxed
from tools.files.regular_files import read_regular
from tools.json_access import mapping
from tools.localization import t
from tools.process.programs import run
from tools.sandbox.policy import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lsp_bridge.language_client.specs.server_spec import Command, Project

TIMEOUT_S = 10.0
_NUMBER = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_MAX_MANIFEST = 1_000_000


async def version_of(
    program: Path, command: Command | None, environment: Mapping[str, str], box: Project | None = None
) -> tuple[str, str]:
    """Return the version (empty: unknown) and the problem (empty: none known) of a server that may be run. ``box``: the
    project, for a program of its own."""
    manifest = _manifest(program)
    if manifest is not None:
        return str(manifest.get("version", "")), await _node_problem(manifest, environment)
    argv: Sequence[str] | None = _question(program, command)
    if argv is None:
        return "", ""
    try:
        if box is not None:
            argv, environment = await asyncio.to_thread(boxed, argv, environment, box)
    except UnavailableError as error:
        return "", t("it does not run: {reason}", reason=error)
    said = await ask(argv, environment, TIMEOUT_S)
    if said.code == 0:
        number = _NUMBER.search(said.text)
        return number[0] if number else "", ""
    reason = said.text.strip().partition("\n")[0].strip() or t("exit code {code}", code=said.code)
    return "", t("it does not run: {reason}", reason=reason)


def _question(program: Path, command: Command | None) -> list[str] | None:
    """Return the command that prints the version; None when only starting a server could show it."""
    if command is None or not command.version:
        return None
    asked = command.version[0]
    if asked == command.argv[0]:
        return [str(program), *command.version[1:]]
    beside = shutil.which(asked, path=str(program.parent))
    return None if beside is None else [beside, *command.version[1:]]


def _manifest(program: Path) -> Mapping[str, Any] | None:
    """Return the package.json of a program that npm installed: read, not run."""
    try:
        real = program.resolve()
    except (OSError, RuntimeError):
        return None
    if "node_modules" not in real.parts:
        return None
    for parent in real.parents:
        if parent.name == "node_modules":
            break
        try:
            found = mapping(json.loads(read_regular(parent / "package.json", _MAX_MANIFEST, follow=True)))
        except (OSError, ValueError, RecursionError):
            continue
        if "version" in found:
            return found
    return None


async def _node_problem(manifest: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    node = shutil.which("node", path=environment.get("PATH", ""))
    if node is None:
        return t("it needs Node.js, and there is no node on PATH")
    wanted = str(mapping(manifest.get("engines")).get("node", ""))
    least = re.fullmatch(r">=\s*(\d+(?:\.\d+)*)", wanted.strip())
    if least is None:
        return ""
    said = await ask([node, "--version"], environment, TIMEOUT_S)
    have = _NUMBER.search(said.text)
    if said.code != 0 or have is None:
        return t("Node.js does not run")
    if _numbers(have[0]) < _numbers(least[1]):
        return t(
            "it needs Node.js {least} or newer, but {node} is {have}", least=least[1], node=node, have=have[0]
        )
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


_MAX_OUTPUT = 20_000


class ProgramOutput(Struct, frozen=True):
    """The result of a program. ``code`` is None when it did not end in time or could not be started."""

    code: int | None
    text: str


async def ask(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> ProgramOutput:
    """Run ``argv`` in the folder of its program; never raises. Nothing of it runs on afterwards."""
    data = bytearray()
    # Not in the workspace: some programs look for plugins in the current folder.
    folder = Path(argv[0]).parent
    try:
        ended = await run(
            argv,
            cwd=folder,
            env=environment,
            on_output=lambda _, piece: data.extend(piece),
            timeout_s=timeout_s,
            merge_stderr=True,
        )
    except OSError as error:
        return ProgramOutput(None, t("it cannot be started: {strerror}", strerror=error.strerror or error))
    if ended.timed_out:
        return ProgramOutput(None, t("no answer within {timeout_s:g} seconds", timeout_s=timeout_s))
    return ProgramOutput(ended.exit_code, data[:_MAX_OUTPUT].decode("utf-8", "replace"))
