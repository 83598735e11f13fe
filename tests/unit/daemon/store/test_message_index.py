"""The index of messages finds in the heads of the lines what their whole says."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.encoding import json_bytes
from daemon.model.events import MessageAdded
from daemon.store.event_log import LogReader
from daemon.store.message_index import IndexedMessage, MessageIndexes
from tests.support.examples import examples
from tests.support.scenarios.stores import ID, NOW, added, message, started

names = st.one_of(
    st.sampled_from(["1", "12", '"', "\\", 'a","role":"tool', "message_added", "日", ""]),
    st.text(max_size=20),
)


def line(event: MessageAdded, number: int) -> bytes:
    return json_bytes(event.model_copy(update={"event_id": number}).stored()) + b"\n"


def indexed(folder: Path, content: bytes) -> dict[str, IndexedMessage]:
    (folder / "log").write_bytes(content)
    return MessageIndexes().found("t", folder / "log")


@given(st.lists(st.tuples(names, st.one_of(st.none(), names), st.booleans()), max_size=8))
@settings(max_examples=examples(80), deadline=None)
def test_every_spelling_of_a_message_is_indexed_alike(made: list[tuple[str, str | None, bool]]) -> None:
    import tempfile

    content, wanted = b"", dict[str, Any]()
    for number, (name, goal_id, spaced) in enumerate(made, 1):
        one = message(number).model_copy(update={"message_id": name + str(number), "goal_id": goal_id})
        raw = line(added(one), number)
        if spaced:
            raw = json.dumps(json.loads(raw), indent=None, sort_keys=True).encode() + b"\n"
        stored = json.loads(raw)["message"]  # halves of characters are mended when they are written
        wanted[stored["message_id"]] = (number, stored["goal_id"], len(content), len(raw) - 1)
        content += raw
    with tempfile.TemporaryDirectory() as folder:
        found = indexed(Path(folder), content)
    assert {name: (p.sequence, p.goal_id, p.offset, p.size) for name, p in found.items()} == wanted
    for place in found.values():
        assert LogReader(io.BytesIO(content)).line(place.offset, place.size).parsed()[0]["event"]


def test_what_is_no_message_of_its_own_is_not_indexed(tmp_path: Path) -> None:
    other = started().model_copy(update={"prompt_id": '"event":"message_added","message":{"message_id":"x"'})
    lines = [
        json_bytes(other.stored()),
        json.dumps({"event_id": 1, "x": {"event": "message_added", "message": {"message_id": "a"}}}).encode(),
        b'{"event_id":2,"trace_id":"t","time":"x","event":"message_added","message":5}',
        b'{"event_id":2,"trace_id":"t","time":"x","event":"message_added","message":{"message_id":7}}',
        b'{"event_id":2,"trace_id":"t","time":"x","event":"message_added","message":{"message_id":"a",',
        b'message_added {"event":"message_added"}',
        b"{" * 5000,
    ]
    assert indexed(tmp_path, b"\n".join(lines) + b"\n") == {}


def test_a_log_that_was_replaced_or_cut_is_indexed_anew(tmp_path: Path) -> None:
    indexes, log = MessageIndexes(), tmp_path / "log"
    log.write_bytes(line(added(message(1)), 1) + line(added(message(2)), 2))
    assert [p.sequence for p in indexes.found(ID, log).values()] == [1, 2]
    with log.open("ab") as file:
        file.write(line(added(message(3)), 3) + b'{"event_id":4,"torn')
    assert [p.sequence for p in indexes.found(ID, log).values()] == [1, 2, 3]
    log.write_bytes(line(added(message(1)), 1))
    assert [p.sequence for p in indexes.found(ID, log).values()] == [1]
    other = tmp_path / "other"
    other.write_bytes(line(added(message(7)), 1) * 1)
    other.replace(log)
    assert [p.sequence for p in indexes.found(ID, log).values()] == [7]
    log.unlink()
    assert indexes.found(ID, log) == {}


def test_only_so_many_traces_are_remembered(tmp_path: Path) -> None:
    indexes, log = MessageIndexes(), tmp_path / "log"
    log.write_bytes(line(MessageAdded(trace_id=ID, time=NOW, message=message(1)), 1))
    for number in range(30):
        assert len(indexes.found(f"t{number}", log)) == 1
    assert len(indexes._known) < 10
