"""The state of a session, as the sum of its events.

The live session and the replay after a crash run the same ``apply``, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field
from pydantic import ValidationError

from daemon.context.instructions import UNTRUSTED_KEY, instructions_of
from daemon.context.prompt_record import with_prompt
from daemon.context.tokens import calibrated, stored_calibration
from daemon.model import notice_codes
from daemon.model.events import (
    ContextMarked,
    Event,
    FilesRestored,
    GoalAdded,
    GoalMoved,
    GoalRemoved,
    GoalUpdated,
    Marks,
    MessageAdded,
    Notice,
    PermissionForgotten,
    PermissionReplied,
    QueueChanged,
    SessionUpdated,
    SystemPromptChanged,
    TurnEnded,
    TurnStarted,
)
from daemon.model.messages import Message, NotePart, Usage, added, priced
from daemon.model.permissions import PermissionRequest, Rule
from daemon.model.traces import BranchTrace, Budget, Carried, QueuedPrompt, RecordedPrompt, Trace
from daemon.plan.tree import PlanTree
from daemon.state.notes import with_note, with_notice
from daemon.state.open_turn import OpenTurn
from daemon.state.session_head import SessionHead
from daemon.state.spending import Spending
from tools.json_access import mapping, strings
from tools.tool_names import MCP_LOADED, MCP_SEARCH

if TYPE_CHECKING:
    from daemon.state.children import Spent


class Order(Struct, weakref=True):
    """The sequence of the newest message of a session and all that it started."""

    last: int

    def reserve(self, count: int) -> int:
        """Give the next sequences to messages that are numbered elsewhere. Returns the one before the first."""
        before, self.last = self.last, self.last + count
        return before


class Given(Struct):
    """Things that the model has, and need not be given again."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    """Hash of the version of each file that the model saw last, by absolute path."""
    instructions: dict[str, str] = field(default_factory=dict[str, str])
    """Instruction files of folders: text by shown path."""
    untrusted_instructions: dict[str, str] = field(default_factory=dict[str, str])
    """Those that were shown as information only."""
    tools: dict[str, None] = field(default_factory=dict[str, None])
    """MCP tools whose definitions a search has loaded, in order; see daemon.loop.tool_selection."""

    def include(
        self, files: Mapping[str, str], instructions: Mapping[str, str], untrusted: Mapping[str, str]
    ) -> None:
        """Take over what the model of another session has."""
        self.files.update(files)
        self.instructions.update(instructions)
        self.untrusted_instructions.update(untrusted)

    def note(self, message: Message, workspace: str) -> None:
        """Take a message into account."""
        # The rule "read before you change" must also hold after a restart of the daemon.
        result = message.tool_result() if message.role == "tool" else None
        if result is None or result.is_error:
            return
        if result.name == MCP_SEARCH:
            self.tools.update(dict.fromkeys(strings(result.metadata.get(MCP_LOADED))))
        self.instructions.update(instructions_of(result.metadata))
        self.untrusted_instructions.update(instructions_of(result.metadata, UNTRUSTED_KEY))
        files = cast("list[object]", result.metadata.get("files") or [result.metadata])
        for entry in files:
            fields = mapping(entry)
            path, sha256 = fields.get("path"), fields.get("sha256")
            if isinstance(path, str) and isinstance(sha256, str):
                self.files[str(Path(workspace, path))] = sha256


class SessionState(SessionHead):
    """All of one session: its head, messages, plan and queue."""

    def __init__(self, trace: Trace, plan: PlanTree | None = None, messages: Iterable[Message] = ()) -> None:
        super().__init__(trace)
        self.plan = plan or PlanTree()
        self.messages: list[Message] = list(messages)
        self.order = Order(max((message.sequence for message in self.messages), default=0))
        self.queue: tuple[QueuedPrompt, ...] = trace.carried.queue
        self.turn: str | None = None
        """Prompt id of the turn under way."""
        self.open = OpenTurn()
        self.jobs: dict[str, str] = dict(trace.carried.jobs)
        """Background commands without a recorded end: the command by the job's id."""
        self._ended_early: set[str] = set()
        """Jobs that ended before the result that names them was stored."""
        self.granted: list[Rule] = list(trace.carried.granted)
        """Rules that the user allowed for the rest of the session by "always"."""
        self.given = Given()
        self.notes: tuple[str, ...] = trace.carried.notes
        """Notes for the model with the next prompt."""
        self.marks = Marks(frozenset(trace.carried.pruned), trace.carried.history_before)
        """The parts of the past that are no longer sent."""
        self.system_prompt = trace.carried.system_prompt
        """The system prompt that was recorded last."""
        self.calibration = 1.0
        """Tokens that the provider counts for each one of our estimate."""
        self.set_calibration(trace.carried.calibration)
        self.budget = trace.carried.budget
        """The limits of this session, when they are not those of the settings."""
        self.raised_limits = dict(trace.carried.raised_limits)
        """Limits that the user raised by "once", see daemon.loop.budget."""
        self.spending = Spending()
        """Tokens by goal."""
        self.spending.recount(self.messages, self.plan, self.children)
        self._counted = (0, 0)
        """Prompts, and answers since the last one."""
        self.call_ids: set[str] = set()
        """Ids of all tool calls so far."""
        for message in self.messages:
            self._count(message)
            self.given.note(message, self.trace.workspace)
            self.call_ids.update(call.id for call in message.tool_calls())

    def apply(self, event: Event) -> Spent | None:
        """Take one event into account; returns what a branch or sub-agent took by it, None for other events."""
        self.open.apply(event, self.pending)
        self._note(event)
        asked = self.pending.get(event.request_id) if isinstance(event, PermissionReplied) else None
        if (spent := super().apply(event)) is not None:
            self.spending.add_child(event, spent, self.plan, self.children)
        match event:
            case MessageAdded():
                self._add_message(event)
            case GoalAdded() | GoalUpdated() | GoalRemoved() | GoalMoved():
                self.plan.apply(event)
                if isinstance(event, GoalMoved):
                    self.spending.recount(self.messages, self.plan, self.children)
            case PermissionReplied():
                self._remember(event, asked)
            case PermissionForgotten():
                gone = {(grant.permission, grant.pattern) for grant in event.grants}
                self.granted = [rule for rule in self.granted if (rule.permission, rule.pattern) not in gone]
            case TurnStarted():
                self.turn = event.prompt_id
            case TurnEnded():
                self.turn = None
            case ContextMarked():
                before = self.marks.history_before if event.history_before is None else event.history_before
                self.marks = Marks(self.marks.pruned | frozenset(event.pruned), before)
            case QueueChanged():
                self.queue = event.queue
            case SessionUpdated():
                self._update(event.updates)
            case SystemPromptChanged():
                self.system_prompt = with_prompt(self.system_prompt, event)
            case _:
                pass
        self._set(last_event_id=event.event_id, updated_at=event.time)
        return spent

    def _note(self, event: Event) -> None:
        """Add to ``notes`` the note that the model needs about ``event``."""
        if isinstance(event, FilesRestored | GoalAdded | GoalUpdated | GoalMoved | GoalRemoved):
            self.notes = with_note(self.notes, event, self.plan)
        elif isinstance(event, Notice):
            self.notes = with_notice(self.notes, event)
            if (
                event.code in (notice_codes.JOB_ENDED, notice_codes.JOB_KILLED)
                and self.jobs.pop(event.about, None) is None
            ):
                self._ended_early.add(event.about)

    def _remember(self, event: PermissionReplied, request: PermissionRequest | None) -> None:
        if request is None or event.reply != "always" or event.scope != "session":
            return
        grants = request.suggestions if event.remembered is None else event.remembered
        self.granted += [
            Rule(permission=grant.permission, pattern=grant.pattern, action="allow", source="session")
            for grant in grants
        ]

    def calibrate(self, counted: int, estimated: int) -> None:
        """Learn from a request: the tokens that the provider counted, and our estimate of them."""
        self.calibration = calibrated(self.calibration, counted, estimated)

    def set_calibration(self, ratio: float) -> None:
        """Go on with what an earlier record or another session has learned."""
        self.calibration = stored_calibration(ratio)

    def set_granted(self, rules: Iterable[Rule]) -> None:
        """Replace the rules for the session by those of the session that this one stands for."""
        self.granted = list(rules)

    def disown(self) -> None:
        """Drop everything that would act in the user's name: this session is not their own."""
        self.granted.clear()
        self.queue = ()
        self.notes = ()
        self.jobs = {}
        self.budget = None
        self.raised_limits = {}
        self.calibration = 1.0
        self.system_prompt = RecordedPrompt()
        usage, cost = Usage(), 0.0
        for message in self.messages:
            usage = added(usage, priced(message.usage, message.cost))
            cost += message.cost or 0.0
        self.trace = self.trace.model_copy(
            update={"model": None, "mode": None, "usage": usage, "total_cost": cost}
        )

    def carrying(self) -> Trace:
        """Return the metadata for a snapshot."""
        carried = Carried(
            granted=tuple(self.granted),
            queue=self.queue,
            pending=tuple(self.pending.values()),
            jobs=dict(self.jobs),
            last_goal_id=self.plan.last_id,
            replaceable_goal=self.plan.replaceable,
            replaced_goals=self.plan.replaced,
            pruned=tuple(sorted(self.marks.pruned)),
            history_before=self.marks.history_before,
            calibration=self.calibration,
            system_prompt=self.system_prompt,
            budget=self.budget,
            raised_limits=self.raised_limits,
            notes=self.notes,
            branches=tuple(self.children.branches.values()),
            branch_usage=dict(self.children.usage),
            branch_cost=dict(self.children.cost),
            subagents=tuple(self.children.subagents.values()),
            explored=tuple(self.children.explored),
            persons_choice=tuple(self.children.persons_choice),
            choices=dict(self.children.choices),
        )
        return self.trace.model_copy(update={"carried": carried})

    @property
    def position(self) -> tuple[int, int]:
        """How many prompts came before the last one, and how many answers since it."""
        prompts, answers = self._counted
        return max(0, prompts - 1), answers

    def open_tool_calls(self) -> list[tuple[Message, str, str]]:
        """Tool calls without a result: (assistant message, call id, tool name), in order."""
        answered: set[str | None] = set()
        found: list[tuple[Message, str, str]] = []
        for message in reversed(self.messages):
            if message.role == "user":
                break
            if message.role == "tool":
                answered.add(message.tool_call_id)
            else:
                found[:0] = [(message, c.id, c.name) for c in message.tool_calls() if c.id not in answered]
                answered.clear()  # some servers restart the numbers of their calls in each answer
        return found

    def next_sequence(self) -> int:
        """Return the sequence of the next message: above all those of this session, its branches and sub-agents."""
        return self.order.last + 1

    def take_sequence(self) -> int:
        """Return the sequence of the next message, which no other message will have."""
        self.order.last += 1
        return self.order.last

    def share_order(self, order: Order) -> None:
        """Number messages together with all sessions that have ``order``: a main session and its children."""
        order.last = max(order.last, self.order.last)
        self.order = order

    def _add_message(self, event: MessageAdded) -> None:
        message = event.message
        if message.role == "user" and message.compaction() is None:
            self.notes = ()  # it carries them
        self.messages.append(message)
        self.order.last = max(self.order.last, message.sequence)
        self._count(message)
        self.call_ids.update(call.id for call in message.tool_calls())
        self.plan.apply_counts(event.affected_goals)
        self.given.note(message, self.trace.workspace)
        self._note_job(message)
        self.spending.add(message, self.plan)

    def _update(self, updates: Mapping[str, object]) -> None:
        """Apply known and valid fields; a damaged or untrusted log may contain anything here."""
        if "budget" in updates:
            try:
                self.budget = Budget.model_validate(updates["budget"])
            except ValidationError:
                self.budget = None
            self.raised_limits = {}
            # New limits raise a new question, so an earlier "always" no longer applies.
            self.granted = [rule for rule in self.granted if rule.permission != "budget"]
        raised = updates.get("raised_limits")
        if isinstance(raised, Mapping):
            items = cast("Mapping[str, object]", raised).items()
            limits = {key: float(limit) for key, limit in items if isinstance(limit, int | float)}
            self.raised_limits = {**self.raised_limits, **limits}
        mission = updates.get("mission")
        if isinstance(mission, str):
            self.plan.mission = mission

    def _count(self, message: Message) -> None:
        if message.compaction() is not None or self._is_inherited(message):
            return
        if message.role == "user" and any(not isinstance(part, NotePart) for part in message.content):
            self._counted = (self._counted[0] + 1, 0)
        elif message.role == "assistant":
            self._counted = (self._counted[0], self._counted[1] + 1)

    def _is_inherited(self, message: Message) -> bool:
        """Return whether a message came from the main session: a branch counts its own prompts and answers only."""
        return isinstance(self.trace, BranchTrace) and message.sequence <= self.trace.inherited

    def _note_job(self, message: Message) -> None:
        result = message.tool_result() if message.role == "tool" else None
        if result is None or result.name != "bash":
            return
        job_id, command = result.metadata.get("job_id"), result.metadata.get("command")
        if not isinstance(job_id, str) or not isinstance(command, str):
            return
        if job_id in self._ended_early:
            self._ended_early.discard(job_id)
        else:
            self.jobs[job_id] = command
