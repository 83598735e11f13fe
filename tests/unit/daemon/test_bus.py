"""The bus: who hears what."""

from __future__ import annotations

from datetime import UTC, datetime

from daemon.bus import Bus
from daemon.model.events import Delta, Event, TurnStarted


def event(session: str) -> Event:
    return TurnStarted(trace_id=session, time=datetime(2025, 1, 1, tzinfo=UTC), prompt_id="p")


def test_listener_receives_only_its_session_once() -> None:
    bus, heard = Bus(), []
    listener = heard.append
    bus.subscribe("a", listener)
    bus.subscribe("a", listener)
    bus.publish(event("a"))
    bus.publish(event("b"))
    bus.publish(Delta(trace_id="a", kind="text", message_id="m", text="x"))
    assert [type(item).__name__ for item in heard] == ["TurnStarted", "Delta"]


def test_failing_listener_does_not_affect_others() -> None:
    bus, heard = Bus(), []

    def broken(item: object) -> None:
        raise RuntimeError("broken")

    bus.subscribe("a", broken)
    bus.subscribe("a", heard.append)
    bus.publish(event("a"))
    assert len(heard) == 1


def test_unsubscribed_listener_receives_nothing_more() -> None:
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


def test_listener_that_left_a_session_hears_the_others() -> None:
    bus, heard = Bus(), []
    listener = heard.append
    for session in ("a", "b"):
        bus.subscribe(session, listener)
    bus.leave("a", listener)
    bus.leave("c", listener)
    bus.publish(event("a"))
    bus.publish(event("b"))
    assert [item.trace_id for item in heard] == ["b"]
    assert bus.heard() == {"b"}
