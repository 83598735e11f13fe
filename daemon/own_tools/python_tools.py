"""Python functions as tools: entry points of the group ``goalwright.tools`` of packages that the user installed.

A tool is a class without arguments, or an object, with ``name``, ``description``, ``parameters`` (a JSON schema), and
``async run(arguments, context)`` that returns text. It runs inside the daemon, in a thread with a loop of its own, so
that it cannot hold up the sessions.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct

from daemon.outside_tools.definitions import BadDefinitionError, Definition, definition
from daemon.own_tools.files import name_problem
from tools.json_access import mapping
from tools.localization import t

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
GRACE_S = 3.0
"""Seconds that a canceled call may take to end, before its thread is left behind."""


class CallContext(Struct, frozen=True):
    """The second argument of ``run``."""

    workspace: Path
    """The folder that the session works in; in a branch, the copy."""
    report: Callable[[str], None]
    """Show the user a line of progress. May be called from any thread."""


class PythonTool(Protocol):
    """The form of a tool. No base class is needed."""

    name: str
    """Up to 40 letters, digits, ``_`` and ``-``; the model sees ``tool__NAME``."""
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema of an object."""

    async def run(self, arguments: dict[str, Any], context: CallContext) -> str:
        """Return the answer for the model. An exception's text is the error that the model reads."""
        ...


class LoadedTool(Struct, frozen=True):
    """A tool of a package."""

    definition: Definition
    package: str
    """Name and version."""
    digest: str
    """Another one means another definition, version or source file."""
    tool: PythonTool
    timeout_s: float

    @property
    def name(self) -> str:
        """The name, without the prefix."""
        return self.definition.name


def load() -> tuple[list[LoadedTool], list[str]]:
    """Import the tools of all packages. Returns them, and problems as text for the user. Blocks, maybe for long."""
    from daemon.outside_tools.entry_points import TOOLS, entry_points

    found: dict[str, LoadedTool] = {}
    problems: list[str] = []
    try:
        entries = sorted(entry_points(TOOLS), key=lambda one: (_package(one), one.name))
    except Exception as error:  # broken metadata of any package may raise anything
        log.exception("entry points cannot be read")
        return [], [t("Python tools were not loaded: {error}", error=error)]
    for entry in entries:
        try:
            tool = _loaded(entry)
            if tool.name in found:
                raise BadDefinitionError(t("{other} has a tool of this name", other=found[tool.name].package))
            found[tool.name] = tool
        except BadDefinitionError as error:
            problems.append(_skipped(entry, str(error)))
        except BaseException as error:  # a package may raise anything, even SystemExit
            problems.append(_skipped(entry, f"{type(error).__name__}: {error}"))
    return list(found.values()), problems


def _skipped(entry: EntryPoint, why: str) -> str:
    return t("Tool skipped: {name} of {package}: {why}", name=entry.name, package=_package(entry), why=why)


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"


def _loaded(entry: EntryPoint) -> LoadedTool:
    loaded: Any = entry.load()
    tool: Any = loaded() if isinstance(loaded, type) else loaded
    name, words = getattr(tool, "name", entry.name), getattr(tool, "description", "")
    if not isinstance(name, str) or not isinstance(words, str) or not words.strip():
        raise BadDefinitionError(t("name and description must be text"))
    if problem := name_problem(name):
        raise BadDefinitionError(problem)
    if not inspect.iscoroutinefunction(getattr(tool, "run", None)):
        raise BadDefinitionError(t("it has no function `async run(arguments, context)`"))
    schema: object = getattr(tool, "parameters", None) or {}
    if not isinstance(schema, dict):
        raise BadDefinitionError(t("parameters must be a JSON schema, as a dict"))
    package = _package(entry)
    found = definition(package, name, words, mapping(cast("object", schema)))
    parts = "\0".join((found.digest, package, entry.value))
    digest = hashlib.sha256(parts.encode() + _source(tool)).hexdigest()[:16]
    timeout_s = getattr(tool, "timeout_s", TIMEOUT_S)
    return LoadedTool(found, package, digest, tool, float(timeout_s))


def _source(tool: object) -> bytes:
    """Return the source file of a tool: packages that are installed in place change without a new version."""
    module = sys.modules.get(type(tool).__module__)
    file = getattr(module, "__file__", None)
    try:
        return Path(file).read_bytes() if isinstance(file, str) else b""
    except OSError:
        return b""


class FailedError(Exception):
    """A tool raised an exception; the text names it."""


async def in_thread(work: Callable[[], Awaitable[object]], timeout_s: float) -> object:
    """Return the result of ``work``, which runs on a loop in a thread of its own.

    Raises TimeoutError after ``timeout_s`` seconds, and FailedError. Work that neither ends nor can be canceled is left
    behind with its thread.
    """
    done: Future[object] = Future()
    done.set_running_or_notify_cancel()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[object]]] = []

    async def main() -> object:
        running.append((asyncio.get_running_loop(), cast("asyncio.Task[object]", asyncio.current_task())))
        return await work()

    def run() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as raised:  # whatever a package raises, even SystemExit
            done.set_exception(FailedError(f"{type(raised).__name__}: {raised}"))

    threading.Thread(target=run, name="own tool", daemon=True).start()
    result = asyncio.wrap_future(done)
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(result)
    finally:
        if not result.done():
            for loop, task in running:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait({result}, timeout=GRACE_S)
            result.cancel()  # if it is left behind
