"""Text of an answer that is stored before its part is complete."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from daemon.loop import step
from daemon.loop.step import TextCheckpoints
from daemon.model.events import Delta, MessageDiscarded, MessagePartAdded
from daemon.model.messages import TextPart
from daemon.store.trace_store import StoreError
from tests.support.drivers.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def piece(text: str, index: int = 0) -> Delta:
    return Delta(trace_id="t", kind="text", message_id="m", index=index, text=text)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "MOST_S", 0.0)


async def test_what_came_together_is_stored_together() -> None:
    stored: list[Delta] = []
    text = TextCheckpoints(stored.append)
    for one in ("Half ", "a sentence, ", "and a word that goes o"):
        text.add(piece(one))
    await until(lambda: stored)
    assert [delta.text for delta in stored] == ["Half a sentence, and a word that goes "]
    text.add(piece("n "))
    await until(lambda: len(stored) == 2)
    assert stored[1].text == "on "


async def test_a_part_that_is_complete_or_void_is_not_stored_again() -> None:
    stored: list[Delta] = []
    text = TextCheckpoints(stored.append)
    text.add(piece("whole "))
    text.add(piece("half ", 1))
    text.stored(
        MessagePartAdded(trace_id="t", time=NOW, message_id="m", index=0, part=TextPart(text="whole "))
    )
    await until(lambda: stored)
    assert [(delta.index, delta.text) for delta in stored] == [(1, "half ")]
    text.add(piece("more ", 1))
    text.stored(MessageDiscarded(trace_id="t", time=NOW, message_id="m", reason="again"))
    text.add(piece("new ", 2))
    await until(lambda: len(stored) == 2)
    assert stored[1].text == "new "
    text.add(piece("never ", 2))
    text.stop()
    text.add(piece("later ", 3))
    await until(lambda: len(stored) == 3)
    assert stored[2].text == "later "


async def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    tried: list[Delta] = []

    def full(delta: Delta) -> None:
        tried.append(delta)
        raise StoreError("no space left")

    text = TextCheckpoints(full)
    text.add(piece("a "))
    await until(lambda: tried)
    text.add(piece("b "))
    await until(lambda: len(tried) == 2)
