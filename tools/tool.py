"""The interface of tools, and the ports through which they reach the rest of the product.

A tool never talks to the user, the editor, a language server or the store directly: it uses the Protocols below, and an
outer layer implements them (``daemon`` and ``lsp_bridge``). So every tool can be run and tested with nothing but a
folder.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, get_args

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict

from tools.access import Access, Action, Suggestion, suggestions
from tools.errors import PermissionDeniedError as PermissionDeniedError
from tools.errors import ToolError as ToolError
from tools.language_ports import Diagnostics as Diagnostics
from tools.language_ports import DiagnosticsReport as DiagnosticsReport
from tools.language_ports import DiagnosticsRun as DiagnosticsRun
from tools.language_ports import Navigation, NoNavigation
from tools.language_ports import Problem as Problem
from tools.ports import Editors, SessionPorts
from tools.ports import Image as Image
from tools.ports import ToolResult as ToolResult
from tools.sandbox.confinement import Confinement
from tools.sandbox.policy import SandboxPolicy

ChangeKind = Literal["create", "update", "delete"]


class ToolInput(BaseModel):
    """Base of every tool's arguments. Unknown arguments are an error that is returned to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def kind_of_change(before: object | None, after: object | None) -> ChangeKind:
    """Return whether a file is created, updated or deleted by going from one content to another; None: no file."""
    if before is None:
        return "create"
    return "delete" if after is None else "update"


class FileChange(Struct, frozen=True):
    """A planned change of one file. ``before is None`` creates it, ``after is None`` deletes it."""

    path: Path
    """Absolute, symlinks resolved."""
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    """Permission bits the file is to have, e.g. ``0o755``. None: those it has, or the system's for a new file."""
    moved_from: Path | None = None
    """For the new file of a move: the old path. The old file's deletion is a separate change in the same plan."""

    @property
    def kind(self) -> ChangeKind:
        """Whether the file is created, updated or deleted."""
        return kind_of_change(self.before, self.after)


class DiffHunk(Struct, frozen=True):
    """A hunk of a diff: its rows in the text of the diff, and its lines in the file."""

    row: int
    """Its first row, which begins with ``@@``, from 0."""
    rows: int
    old_start: int
    """From 1, as in the first row: an empty side has the number of the line before it."""
    old_lines: int
    new_start: int
    new_lines: int


class Diff(Struct, frozen=True):
    """A unified diff (empty when the two are equal) and the number of lines added and removed."""

    text: str
    added: int
    removed: int
    binary: bool = False
    hunks: tuple[DiffHunk, ...] = ()


class ProposedFile(Struct, frozen=True):
    """One file of a proposed change as the user sees it. A move is one file, though it is two changes."""

    name: str
    """As rules and diffs name it: relative to the workspace with ``/``, absolute when outside of it."""
    change: FileChange
    diff: Diff
    source: FileChange | None = None
    """The deletion of the old file, when it is moved."""
    source_name: str = ""

    @property
    def base(self) -> bytes | None:
        """The content that the diff begins with."""
        return self.change.before if self.source is None else self.source.before

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The changes to write for it."""
        return (self.change,) if self.source is None else (self.source, self.change)


class QuestionOption(BaseModel, frozen=True):
    """An answer that a question offers."""

    label: str
    description: str = ""
    """Explanation of this option."""


class Question(BaseModel, frozen=True):
    """Something the model wants to know from the user. An answer in the user's own words is always possible."""

    text: str
    options: tuple[QuestionOption, ...] = ()
    multiple: bool = False
    """Several options may be chosen."""


class QuestionAnswer(BaseModel, frozen=True):
    """The answer to one question: chosen options, own words, or both. Neither: the question was skipped."""

    chosen: tuple[str, ...] = ()
    """Labels of options."""
    text: str = ""


class PermissionAsk(Struct, frozen=True):
    """A question to the permission service: may ``permission`` be used on all of ``targets``?

    ``targets`` are what rules match, see ``Access``. ``suggestions`` are the patterns that the answer "always" stores.
    """

    permission: str
    targets: tuple[str, ...]
    title: str
    """One line about the action, including the command itself. Never the model's own description."""
    suggestions: tuple[Suggestion, ...] = ()
    proposal: tuple[ProposedFile, ...] = ()
    detail: str = ""
    """The whole action: a command, a prompt. Nothing else, so that clients can show it unchanged."""
    model_says: str = ""
    """The model's own words about it. They may be wrong, so clients show them last, and as the model's."""
    notes: tuple[str, ...] = ()
    """Further information, in our words: "Runs outside of the sandbox, as it writes /opt/x"."""
    accesses: tuple[Access, ...] = ()
    """Further accesses of the call, e.g. the files that a command reads and writes."""
    warnings: tuple[str, ...] = ()
    """Effects that cannot be undone, as text for the user: "git reset --hard throws away changes that are not
    committed". No mode and no sandbox lets such a call run without approval."""
    read_only: bool = False
    """A command that is known to change nothing."""
    contained: bool = False
    """If no question is asked it runs in a sandbox, which protects files."""
    lifted: bool = False
    """Where it is contained, general questions about commands are not asked."""
    leaves: str = ""
    """Why it runs outside of the sandbox although there is one. That is a question, whatever rules allow."""
    fenced: bool | None = None
    """A command of a branch: whether mounts keep it from the workspace. None: of no branch."""
    unread: frozenset[str] = frozenset()
    """Commands whose effects are not bounded by their words (``make``, ``pytest``). Without a sandbox only a rule for
    exactly such a command lets it run."""
    questions: tuple[Question, ...] = ()
    """Questions to the user. Unless rules deny it, the user is always asked: no rule knows the answer."""

    @property
    def all_accesses(self) -> tuple[Access, ...]:
        """Everything that has to be allowed."""
        told = {access.target for access in self.accesses if access.plain or access.glue}
        named = (Access(self.permission, target) for target in self.targets if target not in told)
        return (*named, *self.accesses)

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """All changes of the proposal."""
        return tuple(change for file in self.proposal for change in file.changes)


class Approval(Struct, frozen=True):
    """An approval. ``changes``: what the user left of the proposal, by accepting some hunks or editing the text.

    None: all unchanged. Never empty: leaving nothing of a change is a rejection.
    """

    changes: tuple[FileChange, ...] | None = None
    asked: bool = False
    """A user was asked, so time has passed since the question was asked."""
    answers: tuple[QuestionAnswer, ...] = ()
    """One for each of the questions."""
    unseen: bool = False
    """Nobody looked at the question before it was answered (``--yes``)."""
    always: bool = False
    """The user answered for the future, too."""
    by_rules: bool = False
    """Rules that changed while the question waited allow it: nobody approved this call itself."""


class Permission(Protocol):
    """Rules first, then the user."""

    async def ask(self, ask: PermissionAsk) -> Approval:
        """Return when allowed. Raises PermissionDeniedError when a rule or the user rejects."""
        ...

    def decide(self, permission: str, target: str) -> Action:
        """Return the decision of the rules alone, without asking anybody. For filtering listings and search results."""
        ...

    @property
    def rules_key(self) -> Hashable:
        """A key for the decisions of ``decide``: while it is equal, so are all decisions."""
        ...

    @property
    def denies_files(self) -> bool:
        """Whether a rule denies reading or changing any file."""
        ...

    def concealed(self, workspace: Path) -> tuple[Path, ...]:
        """Return the paths outside the workspace that rules hide. Blocking."""
        ...


class Files(Protocol):
    """The files as the user sees them: the disk, and the editor's unsaved buffers over it."""

    @property
    def editors(self) -> Editors:
        """The open files: a change of one goes through its editor."""
        ...

    def note_read(self, path: Path, sha256: str) -> None:
        """Remember that the model has seen the version of ``path`` with this hash."""
        ...

    def last_read(self, path: Path) -> str | None:
        """Hash (hex sha256) of the version the model saw last; None when it never read the file."""
        ...


class CommandChange(Struct, frozen=True):
    """A file that changed while a command ran. ``version`` is None when its old content is not known."""

    path: Path
    """Absolute, symlinks resolved."""
    kind: ChangeKind
    version: str | None
    added: int
    removed: int
    """Lines; zero when the content is binary, too large or not known."""


class CommandWatch(Protocol):
    """The workspace under observation while a command runs."""

    async def ended(self) -> Sequence[CommandChange]:
        """Record the end of a command (or its cancellation); returns its changes, kept in the history. Never raises."""
        ...


Counts = Mapping[Path, tuple[int, int]]


class VersionKeeper(Protocol):
    """Keeps the contents that a write replaces and makes."""

    async def keep(
        self, changes: Sequence[FileChange], tool_call_id: str, counts: Counts | None = None
    ) -> Sequence[str]:
        """Store both sides of changes *before* they are written. Returns the id of each version.

        ``counts``: lines added and removed by path, when the caller has made the diffs already. Raises ToolError
        when that is not possible: then nothing must be written.
        """
        ...

    def written(self, versions: Sequence[str]) -> None:
        """The changes with these versions are on disk now. Never raises."""
        ...

    async def settle(self, versions: Sequence[str], contents: Mapping[Path, bytes]) -> None:
        """Record that the files of these versions have other contents than were kept. Call it before ``written``. Never
        raises.

        An editor may format what it saves; a later undo must know the contents after the write.
        """
        ...

    def failed(self, versions: Sequence[str]) -> None:
        """The write failed, and nothing of it is on disk. Never raises."""
        ...

    def remained(self, versions: Sequence[str]) -> None:
        """Record that the write failed, and that a part of these versions could not be undone. Never raises."""
        ...


PlanOperation = Literal["added", "completed", "abandoned", "removed", "focused", "renamed", "moved"]


class PlanChange(Struct, frozen=True):
    """One change of a goal by a call. ``description``: the goal's, after the change."""

    operation: PlanOperation
    goal_id: str
    description: str


class PlanEdit(Struct, frozen=True, kw_only=True):
    """The operations of one call of ``goal``. Raises ToolError for those that exclude each other.

    ``focus``, ``goal``, ``before`` and ``after`` name goals by id (``g4``) or display number (``2.1``). ``goal`` is
    the subject of ``done``, ``abandon`` and ``rename``, None the one in focus. ``before`` or ``after`` is the place
    of the goals of ``add``; without ``add``, that of ``goal``. ``rename`` is another description; ``revert_files``
    belongs to ``abandon`` and undoes the changes for the goal, after approval.
    """

    add: Sequence[str] = ()
    reason: str | None = None
    done: str | None = None
    abandon: str | None = None
    focus: str | None = None
    rename: str | None = None
    goal: str | None = None
    before: str | None = None
    after: str | None = None
    revert_files: bool = False

    def __post_init__(self) -> None:
        moves = self.place is not None
        if self.done is not None and self.abandon is not None:
            raise ToolError("A goal is either done or abandoned: give one of the two.")
        if self.revert_files and self.abandon is None:
            raise ToolError("revert_files goes with abandon: it undoes the file changes of that goal.")
        if self.rename is not None and self.ends and (self.focus is None or self.goal is not None):
            raise ToolError("rename is for a goal that stays open: add the new work as a new goal.")
        if self.before is not None and self.after is not None:
            raise ToolError("A goal goes either before or after another one: give one of the two.")
        if moves and not self.add and self.goal is None:
            raise ToolError("before and after need add (for new goals) or goal (for one that moves).")
        if self.goal is not None and not (self.add or self.ends or self.rename is not None or moves):
            raise ToolError(
                "goal names the goal for done, abandon, rename, add, before or after: give one of them."
            )

    @property
    def place(self) -> str | None:
        """The goal beside which something goes."""
        return self.before if self.before is not None else self.after

    @property
    def ends(self) -> bool:
        """A goal is completed or abandoned."""
        return self.done is not None or self.abandon is not None


class Plan(Protocol):
    """The goal tree, as the ``goal`` tool sees it, or the ``step`` tool."""

    @property
    def changed(self) -> Sequence[PlanChange]:
        """Return the changes of the last successful ``update`` or ``step``, in order, for the display."""
        ...

    async def update(self, edit: PlanEdit) -> str:
        """Apply the operations; all of them or none.

        Returns a short result for the model (which sees the plan itself in each request). Raises ToolError when an
        operation is not possible (the tree is then unchanged).
        """
        ...

    async def step(
        self,
        *,
        plan: Sequence[str] = (),
        focus: str | None = None,
        complete: bool = False,
        summary: str | None = None,
    ) -> str:
        """Update the plan in the terms of the ``step`` tool; all of it or nothing.

        ``focus`` is a goal's description, or its display number; it may name a goal that ``plan`` adds. ``summary``
        goes with ``complete``, and must be there then. Returns what happened, and raises, as ``update`` does.
        """
        ...

    def progress(self) -> str:
        """Return the plan's state for the model, on demand."""
        ...


class BranchCommands(Struct, frozen=True):
    """The difference that a branch's copy of the workspace makes to commands; empty in the workspace itself."""

    copy_of: Path | None = None
    """The workspace."""
    confinement: Confinement = field(default_factory=Confinement)
    """The confinement that keeps the commands from it."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables on top of the daemon's."""


class ToolContext(Struct, frozen=True):
    """Everything a tool may use while it runs one call."""

    workspace: Path
    """Root of the workspace, absolute and resolved."""
    tool_call_id: str
    permission: Permission
    files: Files
    history: VersionKeeper
    """Versions of every file that the session changes."""
    watch_command: Callable[[str], Awaitable[CommandWatch]]
    """Called with the call's id before a command runs that may change files. Never raises."""
    diagnostics: Diagnostics
    plan: Plan
    scratch: Path
    """Private folder of the session, outside the workspace's sources, for full outputs the model may read."""
    journal: Path
    """Private folder outside the workspace with the record of the current write: for recovery after a crash."""
    on_output: Callable[[str], None] = lambda text: None
    """Live output (bash) for the display; may be dropped for a slow client. It may have colours."""
    on_stop: Callable[[ToolResult], None] = lambda result: None
    """Takes what a call has come to when it is canceled, before the tool raises CancelledError."""
    session: SessionPorts = field(default_factory=SessionPorts)
    sandbox: SandboxPolicy = field(default_factory=SandboxPolicy)
    """Where commands run."""
    redact: Callable[[str], str] = lambda text: text
    """Removes secrets from stored data, e.g. full outputs in ``scratch``."""
    navigation: Navigation = field(default_factory=NoNavigation)
    """Where things are defined and used."""
    branch: BranchCommands = field(default_factory=BranchCommands)
    """When ``workspace`` is a branch's copy."""
    notify_user: Callable[[str], None] = lambda text: None
    """Shows a notice to the user, e.g. that a setting has no effect here; once a session."""


InputT = TypeVar("InputT", bound=ToolInput)


class Tool(Generic[InputT]):
    """A tool: a name, a description (the ``.md`` beside the module), typed arguments, and ``run``.

    ``class ReadTool(Tool[ReadInput], name="read")`` sets the three attributes; the permission has the tool's name
    unless another is given. A subclass implements ``run``. It raises ToolError for expected failures;
    PermissionDeniedError passes through, and asyncio.CancelledError must, after clean-up.
    """

    name: str
    permission: str
    """The permission the tool asks for, so that tools denied outright are not offered to the model."""
    Input: type[InputT]

    def __init_subclass__(cls, *, name: str = "", permission: str = "") -> None:
        super().__init_subclass__()
        if name:
            cls.name, cls.permission = name, permission or name
        for base in vars(cls).get("__orig_bases__", ()):
            (cls.Input,) = get_args(base)

    @property
    def description(self) -> str:
        """The text the model sees; one file a tool."""
        return _description(self.name)

    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, without the noise that models do not need."""
        return json.loads(_schema(self.Input))

    async def run(self, args: InputT, ctx: ToolContext) -> ToolResult:
        """Run the tool. See the class for exceptions."""
        raise NotImplementedError

    async def ask(self, ctx: ToolContext, target: str, title: str, detail: str = "") -> None:
        """Ask for one use of the tool; the answer "always" allows all uses. Raises PermissionDeniedError."""
        everything = suggestions(self.permission, ("*",))
        await ctx.permission.ask(PermissionAsk(self.permission, (target,), title, everything, detail=detail))


@functools.cache
def _description(name: str) -> str:
    return importlib.resources.files("tools").joinpath(f"{name}.md").read_text("utf-8").strip()


@functools.cache
def _schema(arguments: type[ToolInput]) -> str:
    # Every request contains the schemas, and creating one takes most of a millisecond. Cached as text, because
    # libraries modify their arguments and each caller needs a copy.
    schema = arguments.model_json_schema()
    schema.pop("description", None)  # our docstring; the tool has its own description
    return json.dumps(_lean(schema))


def _lean(node: object) -> object:
    """Return a JSON schema without parts that do not help a model: titles, values for omitted arguments, and that there
    are no others, which an error says when it matters.

    An optional argument may be omitted; that None, an empty text or "no" counts as omitted is an internal matter.
    """
    if isinstance(node, list):
        return [_lean(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, object]", node)
    if schema.get("default", ...) is None:
        schema = _without_null(schema)
    elif schema.get("default") == "" or schema.get("default") is False:
        schema = {k: v for k, v in schema.items() if k != "default"}
    # A property may itself be called "title": only the string annotation is removed.
    return {
        k: _lean(v)
        for k, v in schema.items()
        if not (k == "title" and isinstance(v, str)) and not (k == "additionalProperties" and v is False)
    }


def _without_null(schema: dict[str, object]) -> dict[str, object]:
    rest = {k: v for k, v in schema.items() if k != "default"}
    kinds = rest.get("anyOf")
    if not isinstance(kinds, list):
        return rest
    left = [kind for kind in cast("list[object]", kinds) if kind != {"type": "null"}]
    if len(left) == 1 and isinstance(left[0], dict):
        # The description of the argument takes precedence over that of its type.
        return cast("dict[str, object]", left[0]) | {k: v for k, v in rest.items() if k != "anyOf"}
    return rest | {"anyOf": left}
