"""Applies recorded calls of the writing tools to folders: what ``tests/replay.py`` and the corpus are made of.

The calls go through the product's own tools and ``tools.change``; only the ports are fakes. Everything is approved
and every file counts as read just before the call. What leads out of the root is refused. Commands are another matter:
they run in a session of the daemon's core, see ``tests.support.drivers.product_shell``, and its questions are refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NotRequired, TypedDict, cast, get_args

from daemon.model.permissions import Mode
from tests.support.fakes.tool_context import FakeDiagnostics, FakeHistory, FakePlan
from tools.ports import NoEditors
from tools.registry import builtin_tools, run_tool, unknown_tool
from tools.tool import Action, Approval, PermissionAsk, PermissionDeniedError, ToolContext

if TYPE_CHECKING:
    from tests.support.drivers.product_shell import ProductShell
    from tools.registry import AnyTool

WRITERS = ("edit", "patch", "write")
_ALIASES = {
    "path": "file_path", "filePath": "file_path", "filename": "file_path", "file": "file_path",
    "oldString": "old_string", "old_str": "old_string", "old_text": "old_string",
    "newString": "new_string", "new_str": "new_string", "new_text": "new_string",
    "replaceAll": "replace_all",
    "patch": "patch_text", "patchText": "patch_text", "input": "patch_text", "diff": "patch_text", "text": "patch_text",
    "contents": "content",
}  # fmt: skip
"""Names that other agents give to the same arguments."""
_EXPECTED_LINE = 'Expected {"root": DIR, "calls": [...]}.'


class Result(TypedDict):
    """The outcome of one call. ``asked``: a command would have asked the user, and was refused."""

    ok: bool
    message: str
    asked: NotRequired[Literal[True]]


@dataclass(frozen=True, slots=True)
class User:
    """On whose behalf commands run, see ``tests/replay.py``."""

    config: Mapping[str, Any] | None = None
    mode: Mode | None = None
    home: Path | None = None
    trusted: bool = False


NOBODY = User()
"""A user without settings, whose home folder is a new one."""


@dataclass(frozen=True, slots=True)
class _ApproveInside:
    """Says yes to everything below ``root``, and no to everything else."""

    root: Path

    async def ask(self, ask: PermissionAsk) -> Approval:
        outside = ask.permission == "external_directory" or not all(
            path.is_relative_to(self.root)
            for change in ask.changes
            for path in (change.path, change.moved_from)
            if path is not None
        )
        if outside:
            raise PermissionDeniedError(f"{', '.join(ask.targets)} is outside of the root.", by_rule=True)
        return Approval()

    def decide(self, permission: str, target: str) -> Action:
        return "deny" if permission == "external_directory" else "allow"

    @property
    def rules_key(self) -> Path:
        return self.root

    @property
    def denies_files(self) -> bool:
        return False

    def concealed(self, workspace: Path) -> tuple[Path, ...]:
        return ()


class _AllRead:
    """The disk as it is counts as read; nothing is open in an editor."""

    def unsaved(self, path: Path) -> str | None:
        return None

    @property
    def editors(self) -> NoEditors:
        return NoEditors()

    def note_read(self, path: Path, sha256: str) -> None:
        pass

    def last_read(self, path: Path) -> str | None:
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return None


class Replayer:
    """Applies calls. ``litter`` is a folder of its own for journals and the like, outside of every root."""

    def __init__(self, litter: Path) -> None:
        self._litter = litter
        self._tools: dict[str, AnyTool] = {n: t for n, t in builtin_tools().items() if n in WRITERS}

    async def answer(self, line: bytes | str) -> dict[str, object]:
        """The answer to one line of input; never raises but for a cancellation."""
        try:
            request: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            return {"results": [], "error": f"Not a JSON line: {error}"}
        if not isinstance(request, dict):
            return {"results": [], "error": _EXPECTED_LINE}
        fields = cast("dict[str, object]", request)
        root, calls = fields.get("root"), fields.get("calls")
        if not isinstance(root, str) or not isinstance(calls, list):
            return {"results": [], "error": _EXPECTED_LINE}
        try:
            user = _user(fields)
        except ValueError as error:
            return {"results": [], "error": str(error)}
        return {"results": await self.apply(Path(root), cast("list[object]", calls), user)}

    async def apply(self, root: Path, calls: Iterable[object], user: User = NOBODY) -> Sequence[Result]:
        """Apply ``calls`` in order, each on what the ones before it left."""
        async with AsyncExitStack() as stack:
            shell = _Shell(stack, user, self._litter)
            return [await self._call(root, call, number, shell) for number, call in enumerate(calls, 1)]

    async def _call(self, root: Path, call: object, number: int, shell: _Shell) -> Result:
        try:
            real = Path(os.path.realpath(root))
            if not real.is_dir():
                return {"ok": False, "message": f"The root {str(root)!r} is no folder."}
            fields = cast("dict[str, object]", call) if isinstance(call, dict) else {}
            name, args = fields.get("tool"), fields.get("args")
            if not isinstance(name, str) or not isinstance(args, dict):
                return {"ok": False, "message": 'Expected a call {"tool": NAME, "args": {...}}.'}
            if name == "bash":
                return await shell.bash(real, cast("dict[str, object]", args))
            tool = self._tools.get(name)
            if tool is None:
                return {"ok": False, "message": unknown_tool(name, self._tools)}
            arguments = _own_names(cast("dict[str, object]", args), tool)
            result = await run_tool(tool, json.dumps(arguments), self._context(real, number))
        except PermissionDeniedError as error:
            return {"ok": False, "message": f"Refused: {error.reason}"}
        except Exception as error:  # Whatever it is: the other calls want their answers too.
            return {"ok": False, "message": f"{type(error).__name__}: {error}"}
        return {"ok": not result.is_error, "message": result.content}

    def _context(self, root: Path, number: int) -> ToolContext:
        history = FakeHistory()
        return ToolContext(
            workspace=root,
            tool_call_id=f"call_{number}",
            permission=_ApproveInside(root),
            files=_AllRead(),
            history=history,
            watch_command=history.watch_command,
            diagnostics=FakeDiagnostics(),
            plan=FakePlan(),
            scratch=self._litter / "scratch",
            journal=self._litter / "journal",
        )


class _Shell:
    """The session for the commands of a line; it begins with the first one."""

    def __init__(self, stack: AsyncExitStack, user: User, litter: Path) -> None:
        self._stack = stack
        self._user = user
        self._litter = litter
        self._open: ProductShell | None = None

    async def bash(self, root: Path, args: Mapping[str, object]) -> Result:
        """Run one call as the product does."""
        if self._open is None:
            self._open = await self._begin(root)
        answer = await self._open.bash(args)
        if answer.outcome == "asked":
            return {"ok": False, "asked": True, "message": f"{answer.message} Asked by {answer.rule}."}
        return {"ok": answer.ok, "message": answer.message}

    async def _begin(self, root: Path) -> ProductShell:
        # Here: the daemon takes longer to import than most lines take to replay.
        from tests.support.drivers.product_shell import opened

        user = self._user
        self._litter.mkdir(parents=True, exist_ok=True)
        home = user.home or Path(tempfile.mkdtemp(prefix="home-", dir=self._litter))
        record = root / ".trace"
        if not os.path.lexists(record):
            self._stack.callback(shutil.rmtree, record, ignore_errors=True)
        return await self._stack.enter_async_context(
            opened(root, home, user.config, user.mode, trusted=user.trusted)
        )


def _user(fields: Mapping[str, object]) -> User:
    """Read the user of a line. Raises ValueError."""
    config, home, trusted = fields.get("config"), fields.get("home"), fields.get("trusted", False)
    mode = fields.get("mode")
    known = next((one for one in get_args(Mode) if one == mode), None)
    if config is not None and not isinstance(config, dict):
        raise ValueError("config is an object, as in config.json.")
    if mode is not None and known is None:
        raise ValueError(f"mode is one of {', '.join(get_args(Mode))}.")
    if home is not None and not (isinstance(home, str) and Path(home).is_absolute()):
        raise ValueError("home is an absolute path.")
    if not isinstance(trusted, bool):
        raise ValueError("trusted is true or false.")
    folder = None if home is None else Path(os.path.realpath(home))
    return User(cast("dict[str, Any] | None", config), known, folder, trusted)


def _own_names(args: dict[str, object], tool: AnyTool) -> dict[str, object]:
    """``args`` with the tool's own names for arguments that came under another agent's."""
    known = set(tool.Input.model_fields)
    named: dict[str, object] = {}
    for name, value in args.items():
        own = _ALIASES.get(name, name)
        take = name not in known and own in known and own not in args
        named[own if take else name] = value
    return named


async def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    with tempfile.TemporaryDirectory(prefix="goalwright-replay-") as litter:
        replayer = Replayer(Path(os.path.realpath(litter)))
        for line in source:
            if line.strip():
                sink.write(json.dumps(await replayer.answer(line)).encode() + b"\n")
                sink.flush()


def serve() -> None:
    """Answer the lines of stdin until it ends. Only answers go to stdout."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr
    asyncio.run(_serve(sys.stdin.buffer, answers))
