"""Ports that outer layers implement: open files of editors, background jobs, and the work of other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from msgspec import Struct, field

from tools.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path


class EditorGoneError(ToolError):
    """The editor went away before it was asked for anything: neither its buffer nor the file was touched."""


class EditRejectedError(ToolError):
    """Raised when an editor did not do what it was asked to. ``why`` is only that; the state of the file is another
    question."""

    def __init__(self, why: str, rest: str) -> None:
        super().__init__(f"{why} {rest}")
        self.why = why


class NotSavedError(EditRejectedError):
    """Raised when an editor did not confirm a save. ``pending``: it may save yet."""

    def __init__(self, why: str, *, pending: bool = False) -> None:
        rest = "Its text is unchanged; nothing was written. Ask the user to save it, then read it again."
        super().__init__(why, rest)
        self.pending = pending


class AppliedEdit(Struct, frozen=True):
    """A change that is in the buffer of an editor, and not saved."""

    save: Callable[[], Awaitable[None]]
    """Have the editor save it. Raises NotSavedError; then only the disk shows its content."""
    saved_late: Callable[[], Awaitable[None]]
    """After ``save`` was abandoned: return when the editor reports a save, or will not any more."""
    take_back: Callable[[], Awaitable[bool]]
    """Undo it, also when the text elsewhere has changed since; nothing is saved. False when it is still there, because
    newer text conflicts with it."""


class OpenFile(Struct, frozen=True):
    """A file that is open in an editor."""

    text: str
    unsaved: bool
    """The text has changes that are not on disk."""
    writable: bool = True
    """The editor can be asked to change the text and to save it."""
    movable: bool = False
    """The editor can be asked to rename the file, so that its tab follows."""
    refusal: str = ""
    """Why the file must not be changed now, and the user's remedy, for the model."""
    editable: bool = False
    """The editor can be asked to change the text, but not to save it: the file is written beside."""


class Editors(Protocol):
    """The open files of all attached editors. Paths are absolute, symlinks resolved."""

    def unsaved(self, path: Path) -> str | None:
        """Return the text of ``path`` in an editor when it has unsaved changes there, else None."""
        ...

    def unsaved_paths(self) -> Sequence[Path]:
        """Return the files with unsaved changes."""
        ...

    async def settle(self, path: Path | None = None) -> None:
        """Compare long texts with changed files in a thread; of one file or of all. Until then they are unsaved."""
        ...

    def opened(self, path: Path) -> OpenFile | None:
        """Return the state of an open file; None when it is open nowhere."""
        ...

    async def apply(self, path: Path, before: str, after: str) -> AppliedEdit:
        """Turn ``before``, the text of an open file, into ``after`` in its editor; nothing is saved.

        Raises EditorGoneError when there is no such editor (any more), ToolError when it did not take the change.
        """
        ...

    async def move(self, source: Path, target: Path) -> None:
        """Rename an open file, so that its tab follows. Raises like ``apply``."""
        ...


class NoEditors:
    """No editor is attached."""

    def unsaved(self, path: Path) -> str | None:
        return None

    def unsaved_paths(self) -> Sequence[Path]:
        return ()

    async def settle(self, path: Path | None = None) -> None:
        """Do nothing, because no editor is attached."""

    def opened(self, path: Path) -> OpenFile | None:
        return None

    async def apply(self, path: Path, before: str, after: str) -> AppliedEdit:
        raise EditorGoneError(f"{path.name} is not open in an editor.")

    async def move(self, source: Path, target: Path) -> None:
        raise EditorGoneError(f"{source.name} is not open in an editor.")


class Image(Struct, frozen=True):
    """An image for the model: base64 data and its media type, e.g. ``image/png``."""

    media_type: str
    data: str


class ToolResult(Struct, frozen=True):
    """One answer for each audience: ``content`` for the model, ``title`` and ``metadata`` for the display."""

    content: str
    title: str = ""
    """One line for the tool card, e.g. ``cart.py +3 -1``."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON-able. Known keys: ``path``, ``diff``, ``added``, ``removed``, ``diagnostics``, ``sha256``, ``exit_code``,
    ``colored`` (the output with its colours), ``output_lines`` (how many lines of ``content``, from its second on, are
    the output of a command)."""
    is_error: bool = False
    images: tuple[Image, ...] = ()


SideMessage = tuple[Literal["user", "assistant"], str]
"""Role and text of a message of a conversation beside the session's."""


class SideAnswer(Struct, frozen=True):
    """A model's answer. ``cut``: it reached the most tokens that it may have."""

    text: str
    model: str
    cut: bool = False


class SideModel(Struct, frozen=True):
    """The session's model, for questions outside the conversation."""

    name: Callable[[], str]
    """Return ``provider/model``."""
    answer: Callable[[str, Sequence[SideMessage], int], Awaitable[SideAnswer]]
    """Ask it, with a system prompt, messages and the most tokens; the session pays. May ask the user about the budget.
    Raises ToolError."""


class LoadedSkill(Struct, frozen=True):
    """A skill as the model gets it. ``folder``: relative to the workspace, or absolute; ``files`` are relative to it.
    ``more``: how many files are not named."""

    name: str
    folder: str
    body: str
    files: tuple[str, ...] = ()
    more: int = 0


class Job(Struct, frozen=True):
    """A command in the background. ``exit_code`` is None while it runs, negative for a signal."""

    job_id: str
    command: str
    started_at: datetime
    exit_code: int | None = None
    output_file: Path | None = None
    """Everything it wrote so far."""
    tool_call_id: str = ""
    """The call that started it."""


class Jobs(Protocol):
    """A session's jobs. They end with the session at the latest; none of them outlives the daemon."""

    async def start(
        self,
        argv: Sequence[str],
        *,
        command: str,
        cwd: Path,
        env: Mapping[str, str],
        tool_call_id: str,
        on_end: Callable[[], object] | None = None,
    ) -> Job:
        """Begin a job that was approved. Raises OSError, and ToolError when there are too many.

        ``on_end`` is called in a thread when it has ended; not when this raises.
        """
        ...

    def all(self) -> Sequence[Job]:
        """Running ones and those that ended lately, oldest first."""
        ...

    def output(self, job_id: str) -> str:
        """Return the output since the model's last request, head and tail when long. Raises ToolError for an unknown
        id."""
        ...

    async def kill(self, job_id: str) -> Job:
        """Stop it with all its processes. Raises ToolError for an unknown id."""
        ...


_NOT_HERE = "This is not available here."


class _Absent:
    """Stands for a port that a context does without, e.g. for the merge of a branch. Every use raises ToolError."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ToolError(_NOT_HERE)

    def __call__(self, *_: object) -> NoReturn:
        raise ToolError(_NOT_HERE)


ABSENT: Any = _Absent()


class SessionPorts(Struct, frozen=True):
    """Ports that only a session has. Without one, a tool that needs them is refused."""

    jobs: Jobs = ABSENT
    """Commands in the background."""
    explore: Callable[[Sequence[str], str | None], Awaitable[ToolResult]] = ABSENT
    """Work on all directions in parallel, each in a branch with a copy of the working tree, and return their results.
    With the start of each branch; None: the conversation so far. Raises ToolError."""
    select: Callable[[Sequence[str]], Awaitable[ToolResult]] = ABSENT
    """Apply a branch (``A``) or parts of several (``A:src/a.py``, ``B:docs``) as one change that the user reviews.
    Raises ToolError, also on a conflict with changes meanwhile; PermissionDeniedError passes through."""
    run_task: Callable[[str, str], Awaitable[ToolResult]] = ABSENT
    """Have an agent do a task; returns its last words. Raises ToolError for an unknown agent."""
    hand_over: Callable[[str, float | None], Awaitable[ToolResult]] = ABSENT
    """Pass the work on to another agent (plan → build, init → execute, execute → init), with a report of what it must
    know, and the success rate of an iteration, 0 to 1. Raises ToolError."""
    load_skill: Callable[[str], Awaitable[LoadedSkill]] = ABSENT
    """Read a skill. Raises ToolError when there is none with this name, or its file cannot be used."""
    side_model: SideModel = ABSENT
    offers: Callable[[str], bool] = lambda name: True
    """Whether the session's model may have a tool of this name."""
