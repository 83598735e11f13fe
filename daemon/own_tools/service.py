"""All tools of the user, for each session: read again at each prompt."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.agents.own_files import ParsedFiles
from daemon.model.stored_model import Model
from daemon.outside_tools.approvals import Approvals
from tools.localization import noted, t
from tools.tool_names import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from daemon.mcp.requested import FromServer
    from daemon.model.permissions import Trust
    from daemon.own_tools.files import Executable
    from daemon.own_tools.python_tools import LoadedTool
    from tools.tool import Tool

WAIT_S = 2.0
"""Seconds that the first request waits for packages that are imported."""


class OwnTool(Model):
    """A tool of the user."""

    name: str
    """As the model and rules call it: ``tool__name``."""
    description: str
    origin: str
    """The file or the package that defines it."""
    runs: tuple[str, ...] = ()
    """Program and arguments; empty for Python code, which runs inside the daemon."""


class FoundTools(Struct, frozen=True):
    """The tools that sessions have, and the problems of others, as text for the user."""

    programs: tuple[Executable, ...] = ()
    functions: tuple[LoadedTool, ...] = ()
    problems: tuple[str, ...] = ()


_STILL = noted("The tools of installed packages are still being loaded: they come with a later request.")
_Loaded = tuple["list[LoadedTool]", list[str]]
_NONE: Mapping[str, Tool[Any]] = {}
_NOTHING = FoundTools()


class OwnTools:
    """Implements ``daemon.loop.services.ExtraTools``. Used on one event loop."""

    def __init__(self, workspace: Path, user_folder: Path, folder: Path) -> None:
        """``folder``: private, for approvals."""
        self._workspace = workspace
        self._user_folder = user_folder
        self._folder = folder
        self._files: ParsedFiles[Executable] | None = None
        self._loading: asyncio.Task[_Loaded] | None = None
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()
        self._found: dict[bool, FoundTools] = {}
        """As last read, by whether the folder was trusted then."""
        self._tools: dict[bool, Mapping[str, Tool[Any]]] = {}

    async def begin(self, trust: Trust, wait_s: float = WAIT_S, *, session_id: str = "") -> tuple[str, ...]:
        """Read the definitions again, and import the packages' tools the first time. Returns what the user should know.

        ``wait_s``: seconds to wait for the import.
        """
        if trust == "restricted":
            return ()
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self.preload))
        await asyncio.wait({self._loading}, timeout=wait_s)
        functions, problems = self._loading.result() if self._loading.done() else ([], [_STILL])
        found = await asyncio.to_thread(self._read, trust, functions, [t(text) for text in problems])
        trusted = trust == "trusted"
        if found != self._found.get(trusted):
            self._found[trusted], self._tools[trusted] = found, self._offered(found)
        return found.problems

    def preload(self) -> _Loaded:
        """Import the tools of packages, and return them with the problems. Blocks, in any thread."""
        with self._lock:
            if self._loaded is None:
                from daemon.own_tools.python_tools import load

                self._loaded = load()
            return self._loaded

    def tools(self, trust: Trust, session_id: str = "") -> Mapping[str, Tool[Any]]:
        """Return the tools, by name; the same object while nothing changes."""
        return _NONE if trust == "restricted" else self._tools.get(trust == "trusted", _NONE)

    async def requested(
        self, trust: Trust, text: str, have: Sequence[str], *, session_id: str, tell: Callable[[str], None]
    ) -> Sequence[FromServer]:
        """Return nothing: no prompt of the user names a tool."""
        return ()

    def status(self, trust: Trust) -> tuple[tuple[OwnTool, ...], tuple[str, ...]]:
        """Return all tools, as last read by ``begin``, and the problems of others."""
        found = _NOTHING if trust == "restricted" else self._found.get(trust == "trusted", _NOTHING)
        listed = [
            OwnTool(
                name=OWN + one.name,
                description=one.definition.description,
                origin=one.definition.origin,
                runs=getattr(one, "argv", ()),
            )
            for one in (*found.programs, *found.functions)
        ]
        return tuple(sorted(listed, key=lambda one: one.name)), found.problems

    def _read(self, trust: Trust, functions: list[LoadedTool], problems: list[str]) -> FoundTools:
        folders = (self._user_folder / "tools", self._workspace / ".goalwright" / "tools")
        if not functions and not any(folder.is_dir() for folder in folders):
            return FoundTools((), (), tuple(problems))
        from daemon.own_tools.files import find, parse

        if self._files is None:
            self._files = ParsedFiles(parse)
        programs, wrong = find(self._files, self._workspace, self._user_folder, trust)
        taken = {one.name: one.definition.origin for one in programs}
        wrong += [
            t(
                "Tool skipped: {name} of {package}: {other} has a tool of this name.",
                name=one.name,
                package=one.package,
                other=taken[one.name],
            )
            for one in functions
            if one.name in taken
        ]
        kept = tuple(one for one in functions if one.name not in taken)
        return FoundTools(tuple(programs), kept, (*problems, *wrong))

    def _offered(self, found: FoundTools) -> Mapping[str, Tool[Any]]:
        if not (found.programs or found.functions):
            return _NONE
        from daemon.own_tools.tool import ExecutableTool, PythonFunctionTool

        approved = Approvals(self._folder / "approved.json")
        tools: list[Tool[Any]] = [ExecutableTool(one, approved) for one in found.programs]
        tools += [PythonFunctionTool(one, approved) for one in found.functions]
        return {tool.name: tool for tool in sorted(tools, key=lambda one: one.name)}
