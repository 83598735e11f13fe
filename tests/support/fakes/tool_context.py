"""A ToolContext made of recording fakes: a tool can be run with nothing but a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import field as struct_field
from msgspec.structs import asdict

from tools.files.regular_files import sha256
from tools.language_ports import CurrentProblems, Severity
from tools.ports import AppliedEdit, EditorGoneError, EditRejectedError, NotSavedError, OpenFile
from tools.tool import (
    Action,
    Approval,
    CommandChange,
    Counts,
    DiagnosticsReport,
    FileChange,
    PermissionAsk,
    PermissionDeniedError,
    PlanChange,
    PlanEdit,
    ToolContext,
    ToolError,
)


@dataclass
class FakePermission:
    """Records every ask. ``on_ask`` runs inside of it: look at the disk there, wait, or raise PermissionDeniedError."""

    asks: list[PermissionAsk] = field(default_factory=list[PermissionAsk])
    on_ask: Callable[[PermissionAsk], Awaitable[None]] | None = None
    refuse: set[str] = field(default_factory=set[str])
    """Permissions that are refused, e.g. ``edit``."""
    answered: bool = False
    """Whether it says that the user was asked."""
    unseen: bool = False
    """Whether it says that nobody looked at the question."""
    outside: bool = False
    """Whether it lets commands leave the sandbox."""
    leave: Callable[[tuple[FileChange, ...]], tuple[FileChange, ...]] | None = None
    """The changes that the user leaves of a proposal; None: all."""
    rules: list[tuple[str, str, Action]] = field(default_factory=list[tuple[str, str, Action]])
    """``(permission, pattern, action)`` for ``decide``; the last match wins, else "allow"."""

    async def ask(self, ask: PermissionAsk) -> Approval:
        self.asks.append(ask)
        if self.on_ask is not None:
            await self.on_ask(ask)
        if ask.leaves and not self.outside:
            raise PermissionDeniedError("to leave the sandbox was refused")
        if ask.permission in self.refuse:
            raise PermissionDeniedError(f"{ask.permission} was refused")
        if ask.changes and self.leave is not None:
            return Approval(self.leave(ask.changes))
        return Approval(asked=self.answered or self.unseen, unseen=self.unseen)

    def decide(self, permission: str, target: str) -> Action:
        action: Action = "ask" if permission == "network" else "allow"
        for wanted, pattern, then in self.rules:
            if wanted == permission and fnmatchcase(target, pattern):
                action = then
        return action

    @property
    def rules_key(self) -> Hashable:
        return tuple(self.rules)

    @property
    def denies_files(self) -> bool:
        return any(action == "deny" for _, _, action in self.rules)

    def concealed(self, workspace: Path) -> tuple[Path, ...]:
        return ()

    @property
    def asked(self) -> list[str]:
        """The permissions asked for, in order."""
        return [ask.permission for ask in self.asks]


@dataclass
class FakeFiles:
    """``buffers``: unsaved texts by path. ``seen``: hash of the version the model saw last, by path."""

    buffers: dict[Path, str] = field(default_factory=dict[Path, str])
    seen: dict[Path, str] = field(default_factory=dict[Path, str])

    @property
    def editors(self) -> FakeFiles:
        return self

    def unsaved(self, path: Path) -> str | None:
        return self.buffers.get(path)

    def unsaved_paths(self) -> list[Path]:
        return list(self.buffers)

    async def settle(self, path: Path | None = None) -> None:
        pass

    clean: set[Path] = field(default_factory=set[Path])
    """Files that are open without unsaved changes."""
    stale: dict[Path, str] = field(default_factory=dict[Path, str])
    """Text that the editor still shows of such files, when it differs from the disk."""
    refusals: dict[Path, str] = field(default_factory=dict[Path, str])
    gone: set[Path] = field(default_factory=set[Path])
    """Open files whose editor goes away when it is asked."""
    written: list[Path] = field(default_factory=list[Path])
    """Changes through the editor, in order."""
    moves: list[tuple[Path, Path]] = field(default_factory=list[tuple[Path, Path]])

    def opened(self, path: Path) -> OpenFile | None:
        if (why := self.refusals.get(path)) is not None:
            return OpenFile("", unsaved=False, writable=False, refusal=why)
        if (text := self.buffers.get(path)) is not None:
            return OpenFile(text, unsaved=True)
        if path not in self.clean:
            return None
        shown = self.stale.get(path, path.read_bytes().decode(errors="replace") if path.exists() else "")
        return OpenFile(shown, unsaved=False, movable=True)

    async def move(self, source: Path, target: Path) -> None:
        if source in self.gone:
            raise EditorGoneError(f"{source.name} is open no more.")
        if source in self.deaf:
            raise ToolError(f"{source.name}: the editor refused the move.")
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        self.moves.append((source, target))

    format_on_save: Callable[[str], str] = lambda text: text
    """Turns a text into the one that the editor saves."""
    deaf: set[Path] = field(default_factory=set[Path])
    """Files whose editor refuses changes."""

    unwilling: set[Path] = field(default_factory=set[Path])
    """Files whose editor does not save."""

    async def apply(self, path: Path, before: str, after: str) -> AppliedEdit:
        if path in self.gone:
            raise EditorGoneError(f"{path.name} is open no more.")
        current = self.buffers.get(path, path.read_bytes().decode())
        if path in self.deaf or current != before:
            raise EditRejectedError(f"{path.name}: the editor refused the change.", "Nothing was written.")
        self.buffers[path] = after
        edit = FakeEdit(self, path, before, after)
        return AppliedEdit(edit.save, edit.saved_late, edit.take_back)

    def note_read(self, path: Path, sha256: str) -> None:
        self.seen[path] = sha256

    def last_read(self, path: Path) -> str | None:
        return self.seen.get(path)


@dataclass
class FakeEdit:
    files: FakeFiles
    path: Path
    before: str
    after: str

    async def save(self) -> None:
        if self.path in self.files.unwilling:
            raise NotSavedError(f"The editor could not save {self.path.name}.")
        text = self.files.buffers.pop(self.path)
        self.files.clean.add(self.path)
        self.files.written.append(self.path)
        self.path.write_bytes(self.files.format_on_save(text).encode())

    async def saved_late(self) -> None:
        pass

    async def take_back(self) -> bool:
        files = self.files
        if files.buffers.get(self.path) != self.after:
            return False
        files.buffers[self.path] = self.before
        if self.path in files.clean and self.path.read_bytes().decode() == self.before:
            files.buffers.pop(self.path)
        return True


@dataclass
class FakeHistory:
    """``kept``: changes in order; ``fail`` is raised instead of keeping."""

    kept: list[tuple[FileChange, str]] = field(default_factory=list[tuple[FileChange, str]])
    fail: Exception | None = None

    done: list[str] = field(default_factory=list[str])
    """Versions that were reported as written."""
    watched: list[str] = field(default_factory=list[str])
    """Tool calls whose commands were watched."""
    seen: tuple[CommandChange, ...] = ()
    """Changes that a watched command is reported to have made."""

    async def keep(
        self, changes: Sequence[FileChange], tool_call_id: str, counts: Counts | None = None
    ) -> list[str]:
        if self.fail is not None:
            raise self.fail
        first = len(self.kept) + 1
        self.kept += [(change, tool_call_id) for change in changes]
        return [f"v{number}" for number in range(first, len(self.kept) + 1)]

    def written(self, versions: Sequence[str]) -> None:
        self.done += versions

    settled: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    """Contents of files after they were written, when they differ from the kept ones."""
    remaining: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    async def settle(self, versions: Sequence[str], contents: Mapping[Path, bytes]) -> None:
        self.settled |= contents

    def failed(self, versions: Sequence[str]) -> None:
        self.failures += versions

    def remained(self, versions: Sequence[str]) -> None:
        self.remaining += versions

    async def watch_command(self, tool_call_id: str) -> FakeCommandWatch:
        self.watched.append(tool_call_id)
        return FakeCommandWatch(self)


@dataclass
class FakeCommandWatch:
    owner: FakeHistory

    async def ended(self) -> Sequence[CommandChange]:
        return self.owner.seen


@dataclass
class FakeDiagnostics:
    """Answers every change with ``answer`` (or raises ``fail`` at the baseline)."""

    answer: DiagnosticsReport = field(default_factory=lambda: DiagnosticsReport("no_server"))
    fail: Exception | None = None
    begun: list[tuple[Path, ...]] = field(default_factory=list[tuple[Path, ...]])
    warmed: list[Path] = field(default_factory=list[Path])
    told: list[Path] = field(default_factory=list[Path])
    buffers_changed: list[Path] = field(default_factory=list[Path])
    written: int = 0
    reported: int = 0
    dropped: int = 0
    gate: asyncio.Event | None = None
    """Reports wait for it."""
    on_begin: Callable[[], Awaitable[None]] | None = None
    """Runs inside of the baseline, before it is there."""
    late: list[DiagnosticsReport] = field(default_factory=list[DiagnosticsReport])
    now: CurrentProblems = field(default_factory=lambda: CurrentProblems(()))

    def warm(self, path: Path) -> None:
        self.warmed.append(path)

    async def begin(self, paths: Sequence[Path]) -> FakeRun:
        self.begun.append(tuple(paths))
        if self.fail is not None:
            raise self.fail
        if self.on_begin is not None:
            await self.on_begin()
        return FakeRun(self)

    async def changed(self, path: Path) -> None:
        self.told.append(path)

    def buffer_changed(self, path: Path) -> None:
        self.buffers_changed.append(path)

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        return self.late.pop(0) if self.late else None

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        return self.now


@dataclass
class FakeRun:
    owner: FakeDiagnostics

    async def extend(self, paths: Sequence[Path]) -> None:
        self.owner.begun.append(tuple(paths))

    def written(self) -> None:
        self.owner.written += 1

    def drop(self) -> None:
        self.owner.dropped += 1

    async def report(self) -> DiagnosticsReport:
        self.owner.reported += 1
        if self.owner.gate is not None:
            await self.owner.gate.wait()
        return self.owner.answer


@dataclass
class FakePlan:
    """``calls``: the arguments of every update that say something; ``fail`` is what it raises."""

    calls: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    text: str = "Focus: 1 Look."
    fail: ToolError | None = None
    changed: Sequence[PlanChange] = ()

    async def update(self, edit: PlanEdit) -> str:
        if self.fail is not None:
            raise self.fail
        self.calls.append({name: value for name, value in asdict(edit).items() if value})
        return self.text

    async def step(
        self,
        *,
        plan: Sequence[str] = (),
        focus: str | None = None,
        complete: bool = False,
        summary: str | None = None,
    ) -> str:
        if self.fail is not None:
            raise self.fail
        given: dict[str, object] = {
            "plan": list(plan),
            "focus": focus,
            "complete": complete,
            "summary": summary,
        }
        self.calls.append({name: value for name, value in given.items() if value})
        return self.text

    def progress(self) -> str:
        return self.text


class FakeToolContext(ToolContext, frozen=True, kw_only=True):
    """A ToolContext whose ports are the fakes above, so that tests can look into them."""

    permission: FakePermission
    files: FakeFiles
    history: FakeHistory
    diagnostics: FakeDiagnostics
    plan: FakePlan
    output: list[str] = struct_field(default_factory=list[str])
    """Output that the tool sent to ``on_output``."""


def fake_context(
    workspace: Path, *, tool_call_id: str = "call_1", scratch: Path | None = None
) -> FakeToolContext:
    """A context over ``workspace``; ``scratch`` is a folder beside it when not given. Nothing is created."""
    root = workspace.resolve()
    output: list[str] = []
    history = FakeHistory()
    return FakeToolContext(
        workspace=root,
        tool_call_id=tool_call_id,
        permission=FakePermission(),
        files=FakeFiles(),
        history=history,
        watch_command=lambda call_id: history.watch_command(call_id),
        diagnostics=FakeDiagnostics(),
        plan=FakePlan(),
        journal=root.parent / f"{root.name}-journal",
        scratch=scratch or root.parent / f"{root.name}-scratch",
        on_output=output.append,
        output=output,
    )


def put(ctx: FakeToolContext, name: str, data: bytes) -> Path:
    """A file of the workspace that the model has read."""
    path = ctx.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    ctx.files.note_read(path, sha256(data))
    return path
