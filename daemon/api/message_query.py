"""A page of messages: of one session, or of a goal with the branches of its explorations, read as one list.

A session, its branches and its sub-agents number their messages together, so ``sequence`` orders them all and is
where a page ends. In older traces branches that worked side by side may have the same numbers, and a page never ends
between these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from pydantic import BaseModel, Field

from daemon.model.branches import BRANCH_ID, BranchMeta, branch_of, child_id
from daemon.model.messages import Message, Role
from daemon.model.traces import BranchTrace, Trace
from daemon.state.session_state import SessionState
from daemon.store.trace_store import TraceStore, UnknownTraceError

BRANCH_OR_SUBAGENT = "A branch or sub-agent: A, s1, A.s1."
_MOST = 200
"""Branches that are looked at for one answer: far more than one exploration may have; a forged trace may claim any."""


class SessionLine(Struct, frozen=True):
    """A snapshot of a live session."""

    messages: Sequence[Message]
    branches: tuple[BranchMeta, ...]
    inherited: int
    """Sequence of the last message that belongs to the main session."""


class MessageQuery(BaseModel, frozen=True):
    """The parameters of a request for messages of a trace."""

    goal_id: str | None = Field(
        default=None,
        description="Id of a goal as in responses, e.g. 4, or its display number as #4 (%234) or 2.1.",
    )
    number: str | None = Field(
        default=None, description="Display number of a goal, e.g. 4 or 2.1; instead of goal_id."
    )
    internal_goal_id: str | None = Field(
        default=None, description="Id of a goal, never a number; instead of goal_id."
    )
    branch_id: str | None = Field(default=None, description=BRANCH_OR_SUBAGENT)
    role: Role | None = None
    inherited: bool = Field(
        default=True,
        description="For a branch: include the messages it started with. Its goals never include them.",
    )
    without_goal: bool = Field(default=False, description="Only messages without a goal.")
    descendants: bool = Field(
        default=False, description="Include the messages of the goals below and of their branches."
    )
    limit: int = Field(default=100, ge=1, le=1000)
    before: int | None = Field(default=None, ge=0, le=10**15, description="Sequence below which.")

    @property
    def goals(self) -> list[str]:
        """The parameters that name a goal or none; the routes refuse more than one."""
        named = ("goal_id", "number", "internal_goal_id")
        given = [name for name in named if getattr(self, name) is not None]
        return [*given, "without_goal"] if self.without_goal else given


def live_branches(live: Callable[[str], SessionState | None], session_id: str) -> dict[str, SessionLine]:
    """Return the live ones of a session's branches and theirs, by session id. On the event loop, and quick."""
    found: dict[str, SessionLine] = {}
    todo = [session_id]
    while todo and len(found) < _MOST:
        name = todo.pop()
        state = live(name)
        if state is None:
            continue
        branches = tuple(state.children.branches.values())
        if name != session_id:
            found[name] = SessionLine(list(state.messages), branches, begun_with(state.trace))
        todo.extend(child for branch in branches if (child := _child(name, branch)) is not None)
    return found


def page_of(
    store: TraceStore,
    lives: Mapping[str, SessionLine],
    session_id: str,
    line: SessionLine,
    goals: AbstractSet[str | None] | None,
    query: MessageQuery,
) -> tuple[list[Message], bool]:
    """Return the newest matching messages of a session or branch, and whether there are earlier ones.

    ``line``: with the newest ``query.limit + 1`` of its messages, see ``newest``; ``goals``: None: of all and of none;
    ``lives``: its open branches. Reads files of other branches. Raises StoreError.
    """
    found = line.messages
    if goals is not None or not query.inherited:
        # The goals of inherited messages belong to another plan, and may have the same ids.
        found = [message for message in found if message.sequence > line.inherited]
    if query.descendants and goals is not None:
        shown, has_earlier = _with_branches(store, lives, session_id, line.branches, goals, found, query)
    else:
        has_earlier = len(found) > query.limit
        shown = list(found[1:] if has_earlier else found)
    if goals is not None and query.role is None:
        shown = _with_calls(store, session_id, shown, has_earlier=has_earlier)
    return shown, has_earlier


def _with_calls(
    store: TraceStore, session_id: str, shown: Sequence[Message], *, has_earlier: bool
) -> list[Message]:
    """Put the answers in whose calls ran for the goal, while the answer itself belongs to the goal before it.

    Where the page is cut, they come with the earlier page, which may have more of their results.
    """
    found: list[Message] = []
    called: set[str | None] = set()
    for at, message in enumerate(shown):
        own = message.branch_id == branch_of(session_id)
        if own and message.role == "tool" and message.tool_call_id not in called and (at or not has_earlier):
            answers = store.messages(session_id, limit=1, before=message.sequence, role="assistant")
            if answers and any(call.id == message.tool_call_id for call in answers[0].tool_calls()):
                found.append(answers[0])
                called.update(call.id for call in answers[0].tool_calls())
        found.append(message)
        called.update(call.id for call in message.tool_calls())
    return found


def _with_branches(
    store: TraceStore,
    lives: Mapping[str, SessionLine],
    session_id: str,
    branches: Iterable[BranchMeta],
    goals: AbstractSet[str | None],
    own: Sequence[Message],
    query: MessageQuery,
) -> tuple[list[Message], bool]:
    begun = [branch for branch in branches if branch.explore_start_id in goals]
    found = [(message.sequence, 0, message) for message in own]
    for at, messages in enumerate(_branches(store, lives, session_id, begun, query), 1):
        found += [(message.sequence, at, message) for message in messages]
    found.sort(key=lambda one: one[:2])
    first = max(0, len(found) - query.limit)
    if first and found[first - 1][0] == found[first][0]:
        cut = found[first][0]
        # Messages with the same sequence stay together: on the next page, or on this one if a page cannot hold more.
        later = next((at for at in range(first, len(found)) if found[at][0] != cut), None)
        first = later if later is not None else next(at for at, one in enumerate(found) if one[0] == cut)
    return [message for _, _, message in found[first:]], first > 0


def _branches(
    store: TraceStore,
    lives: Mapping[str, SessionLine],
    session_id: str,
    begun: Iterable[BranchMeta],
    query: MessageQuery,
) -> Iterator[list[Message]]:
    todo = [child for branch in begun if (child := _child(session_id, branch)) is not None][::-1]
    for _ in range(_MOST):
        if not todo:
            return
        name = todo.pop()
        line = lives.get(name)
        try:
            if line is not None:
                inherited, branches = line.inherited, line.branches
                messages = newest(line.messages, query)
            else:
                trace = store.trace(name)
                inherited, branches = begun_with(trace), trace.carried.branches
                messages = store.messages(name, limit=query.limit + 1, before=query.before, role=query.role)
        except UnknownTraceError:
            continue  # it is being created, or the user has removed it
        yield [message for message in messages if message.sequence > inherited]
        todo += [child for branch in branches[::-1] if (child := _child(name, branch)) is not None]


def newest(
    messages: Sequence[Message], query: MessageQuery, goals: AbstractSet[str | None] | None = None
) -> list[Message]:
    """Return the newest of a live session, oldest first, and one more than a page has. ``goals``: of these; None: of
    any."""
    found: list[Message] = []
    for message in reversed(messages):
        if len(found) > query.limit:
            break
        if query.before is not None and message.sequence >= query.before:
            continue
        if query.role in (None, message.role) and (goals is None or message.goal_id in goals):
            found.append(message)
    return found[::-1]


def begun_with(trace: Trace) -> int:
    """Sequence of the last message that is not a branch's own, but of the line that it left; 0: all are its own."""
    return trace.inherited if isinstance(trace, BranchTrace) else 0


def _child(session_id: str, branch: BranchMeta) -> str | None:
    """Return the id of a branch's session; None if the log, which may be untrusted, has an invalid name."""
    name = branch.id.rpartition(".")[2]
    return child_id(session_id, name) if BRANCH_ID.fullmatch(name) else None
