"""The bus: who hears what."""

from __future__ import annotations

from datetime import UTC, datetime

from daemon.bus import Bus
from daemon.model.events import Delta, Event, TurnStarted


def event(session: str) -> Event:
    return TurnStarted(trace_id=session, time=datetime(2025, 1, 1, tzinfo=UTC), prompt_id="p")


def test_a_listener_hears_its_session_once_and_no_other() -> None:
    bus, heard = Bus(), []
    listener = heard.append
    bus.subscribe("a", listener)
    bus.subscribe("a", listener)
    bus.publish(event("a"))
    bus.publish(event("b"))
    bus.publish(Delta(trace_id="a", kind="text", message_id="m", text="x"))
    assert [type(item).__name__ for item in heard] == ["TurnStarted", "Delta"]


def test_a_listener_that_fails_harms_nobody_else() -> None:
    bus, heard = Bus(), []

    def broken(item: object) -> None:
        raise RuntimeError("broken")

    bus.subscribe("a", broken)
    bus.subscribe("a", heard.append)
    bus.publish(event("a"))
    assert len(heard) == 1


def test_one_that_left_hears_nothing_any_more_also_when_it_leaves_while_it_listens() -> None:
    bus, heard = Bus(), []

    def leaving(item: object) -> None:
        heard.append(item)
        bus.unsubscribe(leaving)

    bus.subscribe("a", leaving)
    bus.subscribe("b", leaving)
    bus.publish(event("a"))
    bus.publish(event("a"))
    bus.publish(event("b"))
    assert len(heard) == 1
