"""Pages of messages, by goal and role, in every store."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.model.messages import Message, Role
from daemon.store.trace_store import TraceStore
from tests.support.examples import examples
from tests.support.scenarios.stores import ID, added, branch_trace, message, trace

ROLES: tuple[Role, ...] = ("user", "assistant", "tool")


def sequences(messages: list[Message]) -> list[int]:
    return [found.sequence for found in messages]


def filled(store: TraceStore, count: int = 12) -> TraceStore:
    """Message n has role n % 3 and goal n % 4, which is none for 0."""
    for number in range(1, count + 1):
        made = message(number, role=ROLES[number % 3], goal_id=str(number % 4) if number % 4 else None)
        store.append(added(made))
    return store


def test_messages_of_some_goals(store: TraceStore) -> None:
    filled(store)
    assert sequences(store.messages(ID, goal_ids=frozenset(["1"]))) == [1, 5, 9]
    assert sequences(store.messages(ID, goal_ids=frozenset(["1", "3"]))) == [1, 3, 5, 7, 9, 11]
    assert sequences(store.messages(ID, goal_ids=frozenset([None]))) == [4, 8, 12]
    assert sequences(store.messages(ID, goal_ids=frozenset([None, "2"]))) == [2, 4, 6, 8, 10, 12]
    assert store.messages(ID, goal_ids=frozenset()) == []
    assert store.messages(ID, goal_ids=frozenset(["99", "", "1\n"])) == []


def test_messages_of_a_role(store: TraceStore) -> None:
    filled(store)
    assert sequences(store.messages(ID, role="assistant")) == [1, 4, 7, 10]
    assert sequences(store.messages(ID, role="tool", goal_ids=frozenset(["1"]))) == [5]


def test_a_page_of_a_goal_is_its_newest_below_the_last_page(store: TraceStore) -> None:
    filled(store)
    goal = frozenset(["1"])
    assert sequences(store.messages(ID, goal_ids=goal, limit=2)) == [5, 9]
    assert sequences(store.messages(ID, goal_ids=goal, limit=2, before=5)) == [1]
    assert store.messages(ID, goal_ids=goal, limit=2, before=1) == []
    assert store.messages(ID, goal_ids=goal, limit=0) == []


def test_what_is_appended_between_two_pages_is_in_the_next_one(store: TraceStore) -> None:
    filled(store, 4)
    assert len(store.messages(ID, goal_ids=frozenset(["1"]))) == 1
    for number in (5, 6):
        store.append(added(message(number, goal_id="1")))
        assert sequences(store.messages(ID, goal_ids=frozenset(["1"])))[-1] == number


def test_the_messages_of_a_child_are_its_own(store: TraceStore) -> None:
    filled(store, 2)
    store.create(branch_trace(f"{ID}:A"))
    own = message(1, "of A", branch_id="A", goal_id="1")
    store.append(added(own, f"{ID}:A"))
    assert store.messages(f"{ID}:A", goal_ids=frozenset(["1"])) == [own]
    assert sequences(store.messages(ID)) == [1, 2]


def test_odd_names_of_goals_are_told_apart(store: TraceStore) -> None:
    names = ["1", "01", '"1"', "a\\", "\u65e5", "", "null", "1,2", "x" * 300]
    for number, name in enumerate(names, 1):
        made = message(number, goal_id=name)
        store.append(added(made))
    for number, name in enumerate(names, 1):
        assert sequences(store.messages(ID, goal_ids=frozenset([name]))) == [number]


@given(
    st.lists(st.tuples(st.sampled_from(ROLES), st.sampled_from([None, "1", "2"])), max_size=12),
    st.one_of(st.none(), st.integers(0, 14)),
    st.one_of(st.none(), st.integers(-1, 14)),
    st.one_of(st.none(), st.frozensets(st.sampled_from([None, "1", "2", "3"]))),
    st.one_of(st.none(), st.sampled_from(ROLES)),
)
@settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_page_is_what_the_words_of_the_protocol_say(
    empty: TraceStore,
    made: list[tuple[Role, str | None]],
    limit: int | None,
    before: int | None,
    goal_ids: frozenset[str | None] | None,
    role: Role | None,
) -> None:
    if empty.traces(limit=1):
        empty.delete(ID)
    empty.create(trace())
    messages = [message(n, role=r, goal_id=g) for n, (r, g) in enumerate(made, 1)]
    for one in messages:
        empty.append(added(one))
    wanted = [
        one
        for one in messages
        if (before is None or one.sequence < before)
        and (goal_ids is None or one.goal_id in goal_ids)
        and (role is None or one.role == role)
    ]
    expected = wanted if limit is None else wanted[max(0, len(wanted) - limit) :]
    assert empty.messages(ID, limit=limit, before=before, goal_ids=goal_ids, role=role) == expected
