"""The window over random sessions: what must hold whatever happened in them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.context.window import Window, WindowCache, build_window, keep_from, prunable
from daemon.model.goals import Goal
from daemon.model.messages import (
    FilePart,
    Message,
    NotePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from daemon.plan.tree import PlanTree
from daemon.provider import anthropic_wire, openai_wire
from daemon.provider.model_calls import ModelRequest
from tests.support.examples import examples
from tests.support.fakes.model_messages import check_anthropic, check_openai
from tests.support.scenarios.sessions import Action, FakeSession, scripts

often = settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def window_of(session: FakeSession, cache: WindowCache | None = None) -> Window:
    return build_window(session.messages, session.plan, session.marks, session.profile, cache=cache)


def flat(window: Window) -> list[tuple[str, Part]]:
    return [(message.role, part) for message in window.messages for part in message.content]


def texts(window: Window) -> str:
    """All that the model can read."""
    return "\n".join(_text(part) for _, part in flat(window))


def _text(part: Part) -> str:
    match part:
        case ToolCallPart():
            return part.input
        case ToolResultPart():
            return part.content
        case TextPart() | NotePart():
            return part.text
        case FilePart():
            return part.name
        case _:
            return ""


def chain(plan: PlanTree, goal_id: str | None) -> list[Goal]:
    goal = plan.goals.get(goal_id or "")
    return [] if goal is None else [goal, *plan.ancestors(goal.id)]


def is_live(plan: PlanTree, goal_id: str | None) -> bool:
    """Also of what has no goal."""
    return plan.ended_root(goal_id) is None


@dataclass
class Stored:
    """One stored message as it would be sent if nothing were left out, and which of its calls are answered where."""

    message: Message
    results: dict[str, Message] = field(default_factory=dict[str, Message])

    def goal_of(self, part: Part) -> str | None:
        if isinstance(part, ToolCallPart) and part.id in self.results:
            return self.results[part.id].goal_id
        return self.message.goal_id

    def left(self, plan: PlanTree) -> Sequence[Part]:
        """Return the blocks that belong to no ended goal."""
        parts = [
            part
            for part in self.message.content
            if part.type != "finish" and (part.type != "text" or part.text.strip())
        ]
        if self.message.role == "user":
            return parts
        return [part for part in parts if is_live(plan, self.goal_of(part))]


def stored(messages: Iterable[Message]) -> list[Stored]:
    found: list[Stored] = []
    for message in messages:
        if message.role == "tool":
            for before in reversed(found):
                if any(call.id == message.tool_call_id for call in before.message.tool_calls()):
                    before.results.setdefault(message.tool_call_id or "", message)
                    break
        elif message.compaction() is None:
            found.append(Stored(message))
    return found


def request_of(window: Window) -> ModelRequest:
    return ModelRequest(
        model="claude-sonnet-5-5", system=(), messages=window.messages, tail="## Current Plan"
    )


def check_valid(window: Window) -> None:
    for message in window.messages:
        assert message.content
    for request in (request_of(window), replace(request_of(window), tail="")):
        anthropic = anthropic_wire.build(request)
        check_anthropic(anthropic, "2026-10-21")
        calls: list[str] = []
        for message in anthropic["messages"]:
            results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
            assert results == calls
            calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        assert calls == []
        openai = openai_wire.to_messages(request)
        check_openai({"messages": openai})
        assert openai[0]["role"] == "user"
        assert openai[-1]["role"] in ("user", "tool")
        for at, message in enumerate(openai):
            wanted = [call["id"] for call in message.get("tool_calls", ())]
            answers = itertools.takewhile(lambda m: m["role"] == "tool", openai[at + 1 :])
            assert [m["tool_call_id"] for m in answers] == wanted or not wanted
            assert message["content"] or message.get("tool_calls")


@often
@given(scripts())
def test_every_window_is_valid_for_anthropic_and_openai(script: list[Action]) -> None:
    session = FakeSession()
    session.prompt()

    def check() -> None:
        check_valid(window_of(session))

    session.before_call = check
    session.play(script)
    check()


@often
@given(scripts())
def test_any_part_of_a_log_makes_a_valid_window(script: list[Action]) -> None:
    session = FakeSession().play(script)
    for length in {1, len(session.messages) // 3, len(session.messages) // 2}:
        for messages in (session.messages[:length], session.messages[length:]):
            if messages:
                check_valid(build_window(messages, session.plan, session.marks, session.profile))


@often
@given(scripts())
def test_user_messages_are_in_the_window_verbatim(script: list[Action]) -> None:
    session = FakeSession().play(script)
    shown = texts(window_of(session))
    for message in session.messages:
        if message.role == "user" and message.compaction() is None:
            assert message.text().strip() in shown


@often
@given(scripts(context=False))
def test_window_sends_everything_outside_ended_goals_in_order(
    script: list[Action],
) -> None:
    session = FakeSession().play(script)
    wanted: list[Part] = []
    for item in stored(session.messages):
        left = item.left(session.plan)
        wanted += left
        for part in left:
            if isinstance(part, ToolCallPart) and part.id in item.results:
                wanted.append(item.results[part.id].content[0])
    window = window_of(session)
    shown = [
        part
        for entry in window.entries
        for part in entry.prompt.content
        if entry.kind == "message"
        and not (isinstance(part, ToolResultPart) and "interrupted" in part.content)
    ]
    shown = [part for part in shown if not (isinstance(part, NotePart) and part not in wanted)]
    assert shown == wanted


@often
@given(scripts(context=False))
def test_ended_goal_leaves_exactly_one_summary(script: list[Action]) -> None:
    session = FakeSession().play(script)
    plan, window = session.plan, window_of(session)
    shown = texts(window)
    notes = [entry for entry in window.entries if entry.kind == "goal_summary"]
    worked_on: set[str] = set()
    for item in stored(session.messages):
        for part in item.message.content:
            root = plan.ended_root(item.goal_of(part))
            if root is None or item.message.role == "user" or part.type == "finish":
                continue
            worked_on.add(root)
            if _text(part).strip():
                assert _text(part) not in shown
    starts = Counter(
        entry.goal_id for entry in notes if _text(entry.prompt.content[0]).startswith("<goal_summary")
    )
    assert starts == Counter(worked_on)
    for root in worked_on:
        for goal in (plan.goals[root], *plan.descendants(root)):
            for words in (goal.summary or "").split("; "):
                assert words in shown
    event(f"ended goals: {min(len(worked_on), 3)}")


@often
@given(scripts(context=False))
def test_successor_of_abandoned_goals_starts_with_their_reasons(
    script: list[Action],
) -> None:
    session = FakeSession().play(script)
    plan, window = session.plan, window_of(session)
    told = {
        entry.goal_id: at
        for at, entry in enumerate(window.entries)
        if _text(entry.prompt.content[0]).startswith("<earlier_attempts>")
    }
    first: dict[str | None, int] = {}
    for at, entry in enumerate(window.entries):
        if entry.kind == "message":
            first.setdefault(entry.goal_id, at)
    for goal in plan.goals.values():
        before = plan.predecessors(goal.id)
        if not before or not is_live(plan, goal.id):
            assert goal.id not in told
        elif goal.id in first:
            assert told[goal.id] < first[goal.id]
            text = _text(window.entries[told[goal.id]].prompt.content[0])
            assert all((attempt.summary or "") in text for attempt in before)
            event("told of earlier attempts")


@often
@given(scripts(), st.integers(1, 3), st.booleans())
def test_last_steps_stay_whole_after_repeated_compactions(
    script: list[Action], times: int, steps_between: bool
) -> None:
    session = FakeSession().play(script)
    for _ in range(times):
        steps = last_steps(session)
        session.compact()
        window = window_of(session)
        check_valid(window)
        shown = [part for _, part in flat(window)]
        for item in steps:
            for part in item.left(session.plan):
                assert part in shown
                if isinstance(part, ToolCallPart) and part.id in item.results:
                    whole = item.results[part.id]
                    assert whole.content[0] in shown or whole.sequence in session.marks.pruned
        if steps_between:
            session.step(("read", 1))


def last_steps(session: FakeSession) -> list[Stored]:
    """The last ones of which the window shows something, and not only what the history rule leaves."""
    whole = [
        part
        for entry in window_of(session).entries
        if entry.kind == "message"
        for part in entry.prompt.content
    ]
    steps = [
        item
        for item in stored(session.messages)
        if item.message.role == "assistant" and any(part in whole for part in item.left(session.plan))
    ]
    return steps[-session.profile.keep_steps :]


@often
@given(scripts(), st.integers(0, 3))
def test_last_user_messages_survive_any_compaction(script: list[Action], more: int) -> None:
    session = FakeSession().play(script)
    said = [session.prompt() for _ in range(1 + more)]
    for cut in (False, True):
        assert session.compact(cut=cut) <= said[0].sequence
        entries = [entry for entry in window_of(session).entries if entry.kind != "compaction"]
        shown = [part for entry in entries for part in entry.prompt.content]
        assert [part for part in shown if part in [m.content[0] for m in said]] == [
            m.content[0] for m in said
        ]


@often
@given(scripts())
def test_a_cache_changes_nothing_and_nothing_stored_is_changed(script: list[Action]) -> None:
    session = FakeSession()
    cache = WindowCache()
    before: list[str] = []

    def check() -> None:
        before[len(before) :] = [m.model_dump_json() for m in session.messages[len(before) :]]
        fresh = window_of(session)
        cached = window_of(session, cache)
        assert cached == fresh
        arguments = (session.messages, session.plan, session.marks, session.profile)
        assert prunable(*arguments, cache=cache) == prunable(*arguments)
        assert keep_from(*arguments, cache=cache) == keep_from(*arguments)
        assert anthropic_wire.build(request_of(cached)) == anthropic_wire.build(request_of(fresh))
        assert openai_wire.to_messages(request_of(cached)) == openai_wire.to_messages(request_of(fresh))

    session.before_call = check
    session.play(script)
    check()
    assert [m.model_dump_json() for m in session.messages] == before


@often
@given(scripts())
def test_pruned_results_are_cleared_and_tokens_counted(script: list[Action]) -> None:
    session = FakeSession().play(script)
    before = window_of(session)
    sequences, freed = prunable(session.messages, session.plan, session.marks, session.profile)
    session.mark(pruned=sequences)
    after = window_of(session)
    # Instructions that stay are counted without the words around them, and may stand elsewhere too.
    assert abs(before.tokens - after.tokens - freed) <= 60 * len(sequences)
    assert prunable(session.messages, session.plan, session.marks, session.profile)[0] == ()
    if sequences:
        event("pruned")


@dataclass
class Call:
    """The request of one call of the model."""

    parts: list[tuple[str, Part]]
    goals: list[str | None]
    """Goal of each part."""
    ended: set[str]
    jumps: int


def _key(part: Part) -> str:
    """Return what tells a part from all others; a result belongs with its call."""
    match part:
        case ToolCallPart():
            return part.id
        case ToolResultPart():
            return part.tool_call_id
        case ReasoningPart():
            return part.text
        case _:
            return _text(part)


def call_of(session: FakeSession, cache: WindowCache) -> Call:
    window = window_of(session, cache)
    owners: dict[str, str | None] = {}
    for item in stored(session.messages):
        for part in item.message.content:
            owners[_key(part)] = item.goal_of(part) if item.message.role != "user" else None
    goals: list[str | None] = []
    for entry in window.entries:
        for part in entry.prompt.content:
            owner = owners.get(_key(part), entry.goal_id)
            goals.append(entry.goal_id if entry.kind == "goal_summary" else owner)
    ended = {goal_id for goal_id in session.plan.goals if session.plan.ended_root(goal_id)}
    return Call(flat(window), goals, ended, session.jumps)


@settings(often, max_examples=examples(300))
@given(scripts(damaged=False, max_size=50))
def test_prefix_before_the_outermost_ended_goal_is_stable(
    script: list[Action],
) -> None:
    session = FakeSession()
    session.prompt()
    cache = WindowCache()
    calls: list[Call] = []

    def check() -> None:
        calls.append(call_of(session, cache))
        if len(calls) > 1 and calls[-2].jumps == calls[-1].jumps:
            compare(calls[-2], calls[-1], session.plan)

    session.before_call = check
    session.play(script)


def compare(before: Call, now: Call, plan: PlanTree) -> None:
    new = now.ended - before.ended
    same = len(before.parts)
    for at, goal_id in enumerate(before.goals):
        if any(goal.id in new for goal in chain(plan, goal_id)):
            same = at
            event("a goal ended between two calls")
            break
    assert now.parts[:same] == before.parts[:same]
