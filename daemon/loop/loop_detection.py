"""Detect loops of the model, and repeated attempts at something that was abandoned.

Loops are detected within a turn, until the user says something: the same call again and again, and two alternating
calls. The memory of failures spans the whole session: a call that changes something and belonged to an abandoned goal
has failed before. Each check reads only calls that are new since the last one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from daemon.model.messages import Message, ToolCallPart, ToolResultPart
from daemon.model.tags import within
from tools.localization import noted, t
from tools.redaction.redactor import SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree

REPEATS = 3
"""Equal calls in a row after which, and again after each further so many, the user is asked."""
ALTERNATIONS = 4
"""Repetitions of an A-B-A-B pattern before it counts as a loop."""
_CHANGING = frozenset({"edit", "write", "patch", "bash"})
_TIMES = {3: noted("three"), 4: noted("four"), 6: noted("six"), 8: noted("eight"), 9: noted("nine")}

Key = bytes
"""A hash of a call's tool and arguments; the order of keys and white space in the JSON do not matter."""


class Repeat(Struct, frozen=True):
    """The findings about a call that is about to run. ``title``: a question for the user; empty: none."""

    title: str = ""
    note: str = ""
    """For the model, with the result."""
    circle: bool = False
    """The question is about calls that come again and again."""
    not_run: str = ""
    """Why the call is not run, without a question."""


class _RecentCalls(Struct):
    """The relevant calls since the user's last message."""

    last: Key = b""
    before: Key = b""
    equal: int = 0
    """How many of the last calls are the same."""
    alternating: int = 0
    """How many of the last calls are two different ones in turn."""
    refused: bool = False
    """The last one did not run because it was rejected."""

    def add(self, key: Key) -> None:
        if key == self.last:
            self.equal += 1
            self.alternating = 1
        else:
            self.alternating = self.alternating + 1 if key == self.before and self.alternating > 1 else 2
            self.equal = 1
            if not self.last:
                self.alternating = 1
        self.before, self.last = self.last, key

    def due(self, count: int, after: int) -> bool:
        """After a yes the next question comes after as many again; after a no at the next call."""
        return count >= after and (self.refused or count % after == 0)


class LoopDetector(Struct):
    """The calls of one session, lives beside its state. ``general``: whether a command only looks or tests."""

    general: Callable[[str], bool] = lambda command: False
    _taken: int = 0
    """How many messages are known."""
    _waiting: dict[str, ToolCallPart] = field(default_factory=dict[str, ToolCallPart])
    """Calls without a result, by id."""
    _keys: dict[str, Key] = field(default_factory=dict[str, Key])
    """Keys of calls under way."""
    _goals: dict[Key, tuple[str, ...]] = field(default_factory=dict[Key, tuple[str, ...]])
    """For which goals a changing call was made."""
    _agreed: dict[Key, str] = field(default_factory=dict[Key, str])
    """The abandoned goal despite which the user allowed the call."""
    _row: _RecentCalls = field(default_factory=_RecentCalls)
    _other: str = ""
    """Tool of the call before the last one."""

    def starting(self, call: ToolCallPart, messages: Sequence[Message], plan: PlanTree) -> Repeat:
        """Check a call that is about to run (it is in the last message, maybe with others). Call it once for each."""
        self._take(messages)
        key = key_of(call)
        self._keys[call.id] = key
        return self._check(call, key, plan)

    def _check(self, call: ToolCallPart, key: Key, plan: PlanTree) -> Repeat:
        row = self._row
        row.add(key)
        tool, other = call.name, self._other
        circle = ""
        if row.due(row.equal, REPEATS):
            times = t(_TIMES.get(row.equal, str(row.equal)))
            circle = t(
                "The agent seems stuck: it made the same {tool} call {times} times.", tool=tool, times=times
            )
        elif row.due(row.alternating, ALTERNATIONS):
            both = (
                t("the same two {tool} calls", tool=tool)
                if tool == other
                else t("the same calls of {other} and {tool}", other=other, tool=tool)
            )
            circle = t("The agent seems stuck: it repeats {both} in turn.", both=both)
        self._other = tool
        goal = self._given_up(key, plan)
        if goal is None or (tool == "bash" and self.general(call.argument("command"))):
            return Repeat(circle, circle=bool(circle))
        said = t(
            "The same call was made for the goal {name}, which was abandoned: {reason}",
            name=f'"{goal.description}"',
            reason=goal.summary or t("no reason was given"),
        )
        note = within("earlier_attempts", said)
        if circle or self._agreed.get(key) == goal.id:
            return Repeat(circle, note, circle=bool(circle))
        self._agreed[key] = goal.id
        return Repeat(said, note)

    def _given_up(self, key: Key, plan: PlanTree) -> Goal | None:
        """Return the last goal that was abandoned, of those that the call was made for, or the nearest above it."""
        for goal_id in reversed(self._goals.get(key, ())):
            goal = plan.goals.get(goal_id)
            if goal is None:
                continue
            chain = (goal, *plan.ancestors(goal_id))
            given_up = [above for above in chain if above.status == "abandoned"]
            if given_up:
                return next((above for above in given_up if above.summary), given_up[0])
        return None

    def _take(self, messages: Sequence[Message]) -> None:
        new = messages[self._taken :]
        opened = self._taken == 0
        self._taken = len(messages)
        ran: list[ToolCallPart] = []
        for message in new:
            if message.role == "user":
                if message.compaction() is None:
                    self._row = _RecentCalls()
                    ran.clear()
            elif message.role == "assistant":
                self._waiting.update((call.id, call) for call in message.tool_calls())
            elif (result := message.tool_result()) is not None:
                call = self._waiting.pop(result.tool_call_id, None)
                if call is not None:
                    self._ended(call, result, message.goal_id)
                    ran.append(call)
        if opened:
            # The session was opened in the middle of a turn, so its row must be rebuilt from the log.
            for call in ran:
                self._row.add(key_of(call))
                self._other = call.name

    def _ended(self, call: ToolCallPart, result: ToolResultPart, goal_id: str | None) -> None:
        key = self._keys.pop(call.id, None)
        self._row.refused = "denied" in result.metadata
        if not {"denied", "not_run", "canceled"}.isdisjoint(result.metadata):
            if key is not None:
                self._agreed.pop(key, None)
            if "canceled" not in result.metadata:  # otherwise part of it may have happened
                return
        if goal_id is None or call.name not in _CHANGING:
            return
        key = key or key_of(call)
        known = self._goals.get(key, ())
        if goal_id not in known:
            self._goals[key] = (*known, goal_id)


def key_of(call: ToolCallPart) -> Key:
    """Return the key of a call. Secrets are removed first, so that a session read from its log recognises its calls."""
    try:
        arguments = call.arguments()
        if call.name == "bash" and isinstance(command := arguments.get("command"), str):
            # Another description or timeout does not make another command.
            arguments = {"command": command.strip(), "background": bool(arguments.get("background"))}
        text = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    except ValueError:
        text = call.input
    data = f"{call.name}\n{SECRETS.text(text)}".encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).digest()


def same_call(one: ToolCallPart, other: ToolCallPart) -> bool:
    """Same tool and equal input."""
    return key_of(one) == key_of(other)


def general_command(workspace: Path) -> Callable[[str], bool]:
    """Return whether a command line only looks, tests or builds: to repeat that is everyday work."""

    def is_general(command: str) -> bool:
        from tools.shell.question import CommandPlace, question  # with its grammar, only when it is needed

        asked = question(command, CommandPlace(workspace=workspace, home=Path.home()))
        if asked.read_only:
            return True
        patterns = [each.pattern for each in asked.suggestions if each.permission == "bash"]
        return bool(patterns) and all(text.endswith(" *") or text.startswith("cd ") for text in patterns)

    return is_general
