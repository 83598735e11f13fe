"""A message whose line in the log is damaged while its own file is whole is there for every reader, and stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.loop.recovery import read_state, replayed
from daemon.store.files import FileTraceStore
from daemon.store.own import OwnSessions
from daemon.store.place import open_store, stored
from daemon.store.rebuild import rebuild
from tests.support.examples import examples
from tests.support.scenarios.stored_traces import ID, write_trace
from tests.support.scenarios.stores import added, message


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("written") / ".trace"
    store = FileTraceStore(root)
    write_trace(store, turns=3)
    store.close()
    return root


def lines_of(root: Path) -> list[bytes]:
    return (root / ID / "events.jsonl").read_bytes().splitlines(keepends=True)


def messages_in(lines: list[bytes]) -> list[int]:
    return [number for number, line in enumerate(lines) if b'"event":"message_added"' in line]


def write_lines(root: Path, lines: list[bytes]) -> None:
    (root / ID / "events.jsonl").write_bytes(b"".join(lines))


def told(root: Path, log_only: Callable[[str], bool] = lambda _: False) -> tuple[list[int], ...]:
    """What each reader has, each without what another one remembers."""

    def store() -> FileTraceStore:
        return FileTraceStore(root, log_only=log_only)

    def paged() -> list[int]:
        found: list[int] = []
        after = 0
        while events := store().events(ID, after=after, limit=2):
            found += [event.message.sequence for event in events if event.event == "message_added"]
            assert events[0].event_id > after
            after = events[-1].event_id
        return found

    return (
        [one.sequence for one in store().messages(ID)],
        [one.sequence for one in store().messages(ID, limit=100)],
        [one.sequence for one in replayed(store(), ID).messages],
        paged(),
    )


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_one_damaged_byte_of_a_message_changes_what_nobody_is_told(
    written: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("r") / ".trace"
    shutil.copytree(written, root)
    lines = lines_of(root)
    number = data.draw(st.sampled_from(messages_in(lines)))
    line = bytearray(lines[number])
    # Digits stay out: another id or number is no damage that a reader could see.
    places = [at for at, byte in enumerate(line) if not chr(byte).isdigit()]
    place = data.draw(
        st.one_of(st.sampled_from(places), st.integers(0, 12), st.integers(80, 130), st.just(len(line) - 1))
    )
    line[place] = data.draw(st.sampled_from(b"\x00#"))
    lines[number] = bytes(line)
    write_lines(root, lines)
    sequences = list(range(1, 7))
    texts = [one.text() for one in FileTraceStore(written).messages(ID)]
    try:
        json.loads(lines[number])
        readable = True
    except ValueError:
        readable = False
    assert told(root) == (sequences,) * 4
    done = rebuild(FileTraceStore(root), ID).sessions[0]
    assert done.messages == 6
    if readable:  # the line says something else, and is believed
        texts = [one.text() for one in FileTraceStore(root).messages(ID)]
    else:
        assert not list(root.rglob("aside/*/msg_*"))
    assert told(root) == (sequences,) * 4
    again = FileTraceStore(root)
    assert [one.text() for one in read_state(again, ID).messages] == texts
    again.recover(ID)
    new = again.append(added(message(7, trace_id=ID)))
    again.close()
    assert told(root) == ([*sequences, 7],) * 4
    assert again.events(ID)[-1] == new


def test_the_report_says_where_a_message_was_read_from(written: Path, tmp_path: Path) -> None:
    root = tmp_path / ".trace"
    shutil.copytree(written, root)
    lines = lines_of(root)
    number = messages_in(lines)[2]
    lines[number] = lines[number][:-3] + b"#}\n"
    write_lines(root, lines)
    done = rebuild(FileTraceStore(root), ID).sessions[0]
    assert done.problems == (
        f"damaged in the log, and read from the messages' own files instead: 1 line (line {number + 1})",
    )
    assert FileTraceStore(root).without_effect(ID) == []


def test_a_file_of_another_message_is_not_taken_for_a_damaged_one(written: Path, tmp_path: Path) -> None:
    root = tmp_path / ".trace"
    shutil.copytree(written, root)
    lines = lines_of(root)
    numbers = messages_in(lines)
    name = json.loads(lines[numbers[2]])["message"]["message_id"]
    lines[numbers[2]] = b"#" * 100 + b"\n"
    write_lines(root, lines)
    kept = root / ID / "messages" / f"{name}.json"
    raw = json.loads(kept.read_bytes())
    for wrong in ({"sequence": 9}, {"message_id": "msg_000003_00000000"}, {"branch_id": "A"}):
        kept.write_text(json.dumps(raw | wrong))
        assert told(root) == ([1, 2, 4, 5, 6],) * 4
    other = kept.with_name("msg_000003_00000000.json")
    kept.write_text(json.dumps(raw))
    other.write_text(json.dumps(raw | {"message_id": other.stem}))
    assert told(root) == ([1, 2, 4, 5, 6],) * 4  # one of the two is forged


def test_a_file_without_a_damaged_line_is_no_message(written: Path, tmp_path: Path) -> None:
    root = tmp_path / ".trace"
    shutil.copytree(written, root)
    lines = lines_of(root)
    del lines[messages_in(lines)[2]]
    write_lines(root, lines)
    assert told(root) == ([1, 2, 4, 5, 6],) * 4


def test_of_a_session_from_elsewhere_the_log_alone_counts(written: Path, tmp_path: Path) -> None:
    workspace, state = tmp_path / "w", tmp_path / "state"
    workspace.mkdir()
    shutil.copytree(written, workspace / ".trace")
    lines = lines_of(workspace / ".trace")
    number = messages_in(lines)[2]
    lines[number] = lines[number][:-3] + b"#}\n"
    write_lines(workspace / ".trace", lines)
    assert told(workspace / ".trace", log_only=lambda _: True) == ([1, 2, 4, 5, 6],) * 4
    for opened in (lambda: open_store(workspace, state)[0], lambda: stored(workspace, state)):
        assert [one.sequence for one in opened().messages(ID)] == [1, 2, 4, 5, 6]
    OwnSessions(state, workspace).add(ID)
    assert [one.sequence for one in open_store(workspace, state)[0].messages(ID)] == [1, 2, 3, 4, 5, 6]
