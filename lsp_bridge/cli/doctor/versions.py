"""Find the version of a server, and whether it runs at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tools.files.regular_files import read_regular
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lsp_bridge.language_client.specs import Command

TIMEOUT_S = 10.0
_NUMBER = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_MAX_MANIFEST = 1_000_000


async def version_of(
    program: Path, command: Command | None, environment: Mapping[str, str]
) -> tuple[str, str]:
    """Return the version (empty: unknown) and the problem (empty: none known) of a server that may be run."""
    manifest = _manifest(program)
    if manifest is not None:
        return str(manifest.get("version", "")), await _node_problem(manifest, environment)
    argv = _question(program, command)
    if argv is None:
        return "", ""
    said = await ask(argv, environment, TIMEOUT_S)
    number = _NUMBER.search(said.text)
    if said.code == 0:
        return number[0] if number else "", ""
    lines = [line for line in said.text.splitlines() if line.strip()]
    reason = lines[0].strip() if lines else t("exit code {code}", code=said.code)
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
            value: object = json.loads(read_regular(parent / "package.json", _MAX_MANIFEST, follow=True))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "version" in value:
            return cast("dict[str, Any]", value)
    return None


async def _node_problem(manifest: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    node = shutil.which("node", path=environment.get("PATH", ""))
    if node is None:
        return t("it needs Node.js, and there is no node on PATH")
    engines = manifest.get("engines")
    wanted = str(cast("dict[str, Any]", engines).get("node", "")) if isinstance(engines, dict) else ""
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


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The result of a program. ``code`` is None when it did not end in time or could not be started."""

    code: int | None
    text: str


async def ask(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> ProgramOutput:
    """Run ``argv`` in the folder of its program; never raises. Nothing of it runs on afterwards."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            # Not in the workspace: some programs look for plugins in the current folder.
            cwd=Path(argv[0]).parent,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return ProgramOutput(None, t("it cannot be started: {strerror}", strerror=error.strerror or error))
    try:
        data, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        return ProgramOutput(None, t("no answer within {timeout_s:g} seconds", timeout_s=timeout_s))
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            elif process.returncode is None:
                process.kill()
    return ProgramOutput(process.returncode, data[:_MAX_OUTPUT].decode("utf-8", "replace"))
