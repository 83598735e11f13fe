"""The ring against a list of everything that ever was in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from daemon.api.frames import EncodedItem, Wants
from daemon.api.ring import Ring


def entry(event_id: int, size: int = 1) -> EncodedItem:
    return EncodedItem(event_id, "notice" if event_id else "delta", b"%d " % event_id * size)


@dataclass
class Follower:
    """A client: what it has read, and where it is."""

    event_id: int
    place: int | None = None
    read: list[int] = field(default_factory=list[int])


@given(st.data())
def test_followers_get_every_event_once_or_are_told_to_read_the_log(data: st.DataObject) -> None:
    ring = Ring(data.draw(st.integers(0, 3), "floor"), frames=data.draw(st.integers(1, 6)), size=10**6)
    newest = first = ring.floor
    followers = [Follower(first), Follower(first)]
    for _ in range(data.draw(st.integers(0, 40), "steps")):
        action = data.draw(st.sampled_from(["add", "delta", "take", "take", "jump", "reset"]))
        if action == "add":
            newest += 1
            ring.add([entry(newest)])
        elif action == "delta":
            ring.add([entry(0)])
        elif action == "reset":
            newest += 1
            ring.reset(newest)
        else:
            who = data.draw(st.sampled_from(followers))
            if action == "jump" or who.place is None:
                who.place = ring.place_after(who.event_id)
                if who.place is None:
                    # The log has what is missing: some of it, or also what the ring still has.
                    to = data.draw(st.integers(ring.floor, newest))
                    who.read += range(who.event_id + 1, to + 1)
                    who.event_id = to
                continue
            taken = ring.take(
                who.place, who.event_id, Wants(), size=data.draw(st.integers(1, 30)), delta_lag=2
            )
            if taken is None:
                who.place = None
                continue
            numbers = [int(number) for number in taken.frames.split()]
            who.read += [number for number in numbers if number]
            who.place, who.event_id = taken.next, taken.event_id
        for who in followers:
            assert who.read == list(range(first + 1, who.event_id + 1))


def test_the_newest_entry_stays_however_large_it_is() -> None:
    ring = Ring(0, frames=10, size=50)
    ring.add([entry(1), entry(2, size=1000)])
    assert ring.floor == 1
    place = ring.place_after(1)
    assert place is not None
    taken = ring.take(place, 1, Wants(), size=1, delta_lag=1)
    assert taken is not None
    assert taken.event_id == 2


def test_who_is_far_behind_gets_no_deltas() -> None:
    ring = Ring(0, frames=100, size=10**6)
    ring.add([entry(1), entry(0), entry(2), entry(0), entry(3)])
    behind = ring.take(0, 0, Wants(), size=100, delta_lag=3)
    near = ring.take(0, 0, Wants(), size=100, delta_lag=5)
    assert behind is not None
    assert near is not None
    assert behind.frames == b"1 2 3 "
    assert near.frames == b"1 0 2 0 3 "


def test_a_newcomer_gets_no_delta_from_before_it_came() -> None:
    ring = Ring(0, frames=100, size=10**6)
    ring.add([entry(1), entry(0)])
    came = ring.end
    ring.add([entry(0), entry(2), entry(0)])
    newcomer = ring.take(0, 0, Wants(), size=100, delta_lag=10, deltas_from=came)
    other = ring.take(0, 0, Wants(), size=100, delta_lag=10)
    assert newcomer is not None
    assert other is not None
    assert newcomer.frames == b"1 0 2 0 "
    assert other.frames == b"1 0 0 2 0 "
