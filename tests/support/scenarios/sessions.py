"""Sessions as scripts of small steps, random ones too: what the window's property tests are run on.

A script is data (names and numbers), so that hypothesis can shrink it; ``FakeSession`` plays it as a real session
would: messages with rising sequences, calls and results with the goal in focus, operations on the plan in between.
Every text is unique, so that a test can look for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import strategies as st

from daemon.context.instructions import instruction_block
from daemon.context.profiles import RESULT_LIMIT, ContextProfile
from daemon.context.window import keep_from
from daemon.model.events import Marks
from daemon.model.messages import (
    CompactionPart,
    FilePart,
    FinishPart,
    Message,
    NotePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from daemon.plan.tree import Change, PlanError, PlanTree

NOW = datetime(2025, 1, 1, tzinfo=UTC)
FINISH = FinishPart(reason="end_turn", time=NOW)
PROFILE = ContextProfile("test", window=100_000, compact_at=75_000, keep_steps=3)

Call = tuple[str, int]
"""The action of a call of a step, and a number that chooses among its objects."""
Action = tuple[str, int, tuple[Call, ...]]


@dataclass
class FakeSession:
    """The state of a session, without the session."""

    profile: ContextProfile = PROFILE
    messages: list[Message] = field(default_factory=list[Message])
    plan: PlanTree = field(default_factory=PlanTree)
    marks: Marks = field(default_factory=Marks)
    jumps: int = 0
    """Compactions and marks so far: where the prefix may change."""
    before_call: Callable[[], None] = lambda: None
    """Called where the model would be: what is stored by then is what it would be sent."""
    _count: int = 0

    # -- storing --

    def unique(self, word: str) -> str:
        """A text that is nowhere else."""
        self._count += 1
        return f"{word} number {self._count}."

    def add(self, role: Role, *parts: Part, goal_id: str | None = None) -> Message:
        """Store a message. ``goal_id`` is its goal, None for none."""
        sequence = len(self.messages) + 1
        call_id = next((part.tool_call_id for part in parts if isinstance(part, ToolResultPart)), None)
        message = Message(
            message_id=f"m{sequence}",
            trace_id="t",
            role=role,
            sequence=sequence,
            goal_id=goal_id,
            tool_call_id=call_id,
            content=parts,
            created_at=NOW,
        )
        self.messages.append(message)
        self.plan.apply_counts(self.plan.count(goal_id, tokens=1, cost=0.0, tools=()))
        return message

    def prompt(self, text: str | None = None, *, with_file: bool = False) -> Message:
        """The person says something."""
        parts: list[Part] = [TextPart(text=text or self.unique("The user said"))]
        if with_file:
            parts.append(FilePart(name=self.unique("file"), media_type="text/plain", data="QQ=="))
        return self.add("user", *parts, goal_id=self.plan.current_id)

    def step(self, *calls: Call, text: bool = True, reasoning: bool = False) -> Message:
        """The model answers, then its calls run. A goal-changing call belongs to the goal it found in focus."""
        if self._is_at_rest():
            self.prompt()
        self.before_call()
        parts: list[Part] = []
        if reasoning:
            parts.append(ReasoningPart(text=self.unique("thought"), signature=self.unique("signature")))
        if text or not calls:
            parts.append(TextPart(text=self.unique("The model said")))
        named = [(f"call{self._count}_{at}", *call) for at, call in enumerate(calls)]
        parts += [
            ToolCallPart(id=call_id, name=_tool(kind), input=f'{{"n": "{self.unique("input")}"}}')
            for call_id, kind, _ in named
        ]
        own = self.plan.current_id if not any(kind == "stranger" for kind, _ in calls) else "999"
        message = self.add("assistant", *parts, FINISH, goal_id=own)
        for call_id, kind, number in named:
            if kind == "crash":
                break
            self._run(call_id, kind, number)
        return message

    def _is_at_rest(self) -> bool:
        last = next((message for message in reversed(self.messages) if message.compaction() is None), None)
        return last is None or (last.role == "assistant" and not last.tool_calls())

    def _run(self, call_id: str, kind: str, number: int) -> None:
        focus = self.plan.current_id
        content, metadata = self.unique("result"), {}
        if kind == "long":
            content += "x" * (RESULT_LIMIT + number)
        elif kind == "huge":
            content += "x" * 70_000
        elif kind == "rules":
            path, text = f"folder{number % 3}/AGENTS.md", f"rule {number % 5} of folder {number % 3}"
            content += "\n\n" + instruction_block(path, text)
            metadata = {"instructions": {path: text}}
        elif kind != "read":
            self.change(kind, number)
        goal_id = "999" if kind == "stranger" else focus
        result = ToolResultPart(
            tool_call_id=call_id,
            name=_tool(kind),
            content=content,
            metadata=metadata,
            is_error=number % 7 == 0,
        )
        self.add("tool", result, goal_id=goal_id)

    # -- the plan --

    def change(self, kind: str, number: int) -> bool:
        """Apply an operation of the model or the user; False when it is not possible now."""
        try:
            for part in kind.split("+"):
                for change in self._planned(part, number):
                    self.plan.apply(change)
        except PlanError:
            return False
        return True

    def _planned(self, kind: str, number: int) -> list[Change]:
        goals = list(self.plan.goals.values())
        goal = goals[number % len(goals)] if goals else None
        match kind:
            case "add":
                return self.plan.plan_add([self.unique("goal") for _ in range(1 + number % 2)], "")
            case "done":
                return self.plan.plan_done(self.unique("summary"))
            case "abandon":
                return self.plan.plan_abandon(self.unique("reason"))
            case "focus" if goal is not None:
                return self.plan.plan_focus(goal)
            case "person_done" if goal is not None:
                return self.plan.plan_done(self.unique("summary"), goal)
            case "person_abandon" if goal is not None:
                return self.plan.plan_abandon(self.unique("reason"), goal)
            case "rename" if goal is not None:
                return self.plan.plan_rename(goal, self.unique("renamed"))
            case "move" if goal is not None:
                parent = goals[number // 7 % len(goals)]
                return self.plan.plan_move(goal, None if number % 3 == 0 else parent.id)
            case _:
                return []

    # -- the context --

    def compact(self, *, cut: bool = False, stages: int = 3) -> int:
        """A full compaction, or as much of it as a crash left (``stages`` of its three messages)."""
        self.jumps += 1
        first = keep_from(self.messages, self.plan, self.marks, self.profile)
        said = [m.text() for m in self.messages if m.role == "user" and m.compaction() is None]
        mark = CompactionPart(keep_from=first, cut_results=cut)
        carried = "\n".join([*said, *(goal.summary or "" for goal in self.plan.goals.values())])
        words = (self.unique("Sum it up"), f"<compact_summary>{self.unique('{}')}</compact_summary>", carried)
        kinds = ("request", "summary", "carried")
        for kind, text in list(zip(kinds, words, strict=True))[:stages]:
            role: Role = "assistant" if kind == "summary" else "user"
            self.add(role, TextPart(text=text or "-"), mark.model_copy(update={"kind": kind}))
        return first

    def mark(self, *, pruned: Sequence[int] = (), history: bool = False) -> None:
        """Do what ``ContextMarked`` does."""
        self.jumps += 1
        before = len(self.messages) + 1 if history else self.marks.history_before
        self.marks = Marks(self.marks.pruned | frozenset(pruned), before)

    # -- playing a script --

    def play(self, script: Sequence[Action]) -> FakeSession:
        """Do all of it."""
        for name, number, calls in script:
            self.act(name, number, calls)
        return self

    def act(self, name: str, number: int, calls: tuple[Call, ...]) -> None:
        """One action of a script."""
        match name:
            case "step":
                self.step(*calls, text=number % 3 != 0, reasoning=number % 4 == 0)
            case "prompt":
                self.prompt(with_file=number % 4 == 0)
            case "note":
                self.add("user", NotePart(text=self.unique("note")), goal_id=self.plan.current_id)
            case "person":
                kinds = ("person_done", "person_abandon", "rename", "move", "add", "focus")
                self.change(kinds[number % len(kinds)], number // len(kinds))
            case "compact":
                self.compact(cut=number % 2 == 0, stages=3 if number % 5 else 1 + number % 3)
            case "history":
                self.mark(history=True)
            case "prune":
                tools = [m.sequence for m in self.messages if m.role == "tool"]
                self.mark(pruned=tools[: number % (len(tools) + 1)])
            case "blank":
                self.add(("user", "assistant")[number % 2], TextPart(text=" \n"), FINISH)
            case "orphan":
                self.add(
                    "tool", ToolResultPart(tool_call_id="none", name="read", content=self.unique("orphan"))
                )
            case _:
                raise ValueError(name)


def _tool(kind: str) -> str:
    return "read" if kind in ("read", "long", "huge", "rules", "crash", "stranger") else "goal"


_PLAN = ("add", "focus", "done", "abandon", "abandon+add", "done+focus", "add+focus")
_PERSON = ("person_done", "person_abandon", "move", "rename")
_calls = st.tuples(
    st.one_of(
        st.sampled_from(("read", "read", "long", "rules")),
        st.sampled_from(_PLAN),
        st.sampled_from((*_PERSON, "huge", "crash", "stranger")),
    ),
    st.integers(0, 40),
)
_some_calls = st.lists(_calls, max_size=4).map(tuple)


def _actions(*names: str) -> st.SearchStrategy[Action]:
    return st.tuples(st.sampled_from(names), st.integers(0, 60), st.just(()))


_steps = st.tuples(st.just("step"), st.integers(0, 60), _some_calls)


def scripts(
    *, context: bool = True, damaged: bool = True, max_size: int = 40
) -> st.SearchStrategy[list[Action]]:
    """Scripts of sessions. ``context``: with compactions and marks; ``damaged``: with what only a bad log has."""
    rare = ["person", "note"]
    if context:
        rare += ["compact", "history", "prune"]
    if damaged:
        rare += ["blank", "orphan"]
    return st.lists(st.one_of(_steps, _steps, _actions("prompt"), _actions(*rare)), max_size=max_size)
