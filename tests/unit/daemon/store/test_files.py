"""The store's files: layout, damage, and reading from the end."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.model.branches import is_within
from daemon.model.events import Event, MessageAdded, SessionCreated, SessionUpdated, TurnEnded, TurnStarted
from daemon.model.goals import GoalTree
from daemon.model.messages import Message, TextPart
from daemon.model.traces import FORMAT, Trace
from daemon.store import event_log, files
from daemon.store.event_log import LogReader
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import NewerFormatError, StoreError, UnknownTraceError
from tests.support.examples import examples

NOW = datetime(2025, 1, 1, tzinfo=UTC)
ID = "20250101-000000-aaaaaa"


def trace(**fields: object) -> Trace:
    values = {"trace_id": ID, "workspace": "/w", "created_at": NOW, "updated_at": NOW, **fields}
    return Trace.model_validate(values)


def started(prompt: str) -> TurnStarted:
    return TurnStarted(trace_id=ID, time=NOW, prompt_id=prompt)


def message(sequence: int) -> Message:
    return Message(
        message_id=f"msg_{sequence:06d}_0000000a",
        trace_id=ID,
        role="user",
        sequence=sequence,
        content=(TextPart(text="x"),),
        created_at=NOW,
    )


def added(message: Message) -> MessageAdded:
    return MessageAdded(trace_id=ID, time=NOW, message=message)


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    store = FileTraceStore(tmp_path / ".trace")
    store.create(trace())
    return store


@pytest.fixture
def log(store: FileTraceStore) -> Path:
    return store.root / ID / "events.jsonl"


def prompts(events: object) -> list[str]:
    assert isinstance(events, list)
    return [event.prompt_id for event in events if isinstance(event, TurnStarted)]


def test_layout_matches_the_documentation(store: FileTraceStore, log: Path) -> None:
    store.append(started("p"))
    store.append(added(message(1)))
    store.save_snapshot(trace(), GoalTree())
    names = {p.relative_to(store.root).as_posix() for p in store.root.rglob("*") if p.is_file()}
    assert names == {
        ".gitignore",
        f"{ID}/meta.json",
        f"{ID}/goal.json",
        f"{ID}/events.jsonl",
        f"{ID}/messages/msg_000001_0000000a.json",
    }
    assert json.loads((store.root / ID / "meta.json").read_bytes())["trace_id"] == ID
    assert json.loads(log.read_bytes().splitlines()[0])["event"] == "turn_started"


def test_gitignore_is_created_and_never_overwritten(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    store.prepare()
    assert (tmp_path / ".trace" / ".gitignore").read_text() == "*\n"
    (tmp_path / ".trace" / ".gitignore").write_text("mine")
    store.prepare()
    assert (tmp_path / ".trace" / ".gitignore").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="mode bits")
def test_only_the_user_can_look_into_the_folder(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    store.prepare()
    assert store.root.stat().st_mode & 0o077 == 0


def test_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".trace").write_text("")
    with pytest.raises(StoreError, match=r"\.trace"):
        FileTraceStore(tmp_path / ".trace").prepare()
    with pytest.raises(StoreError):
        FileTraceStore(tmp_path / ".trace").create(trace())


def test_every_event_is_on_disk_as_a_whole_line_at_once(store: FileTraceStore, log: Path) -> None:
    for number in range(3):
        store.append(started(f"p{number}"))
        assert len(log.read_bytes().splitlines()) == number + 1
        assert log.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    "torn", [b'{"event": "turn_st', b"\xe6\x97", b"x" * 200_000], ids=["json", "char", "long"]
)
def test_torn_last_line_is_removed_on_reopening(store: FileTraceStore, log: Path, torn: bytes) -> None:
    store.append(started("a"))
    store.append(started("b"))
    store.close()
    whole = log.read_bytes()
    log.write_bytes(whole + torn)
    again = FileTraceStore(store.root)
    assert prompts(again.events(ID)) == ["a", "b"]
    assert again.last_event_id(ID) == 2
    assert again.append(started("c")).event_id == 3
    assert prompts(again.events(ID)) == ["a", "b", "c"]
    assert log.read_bytes().startswith(whole)


def test_log_of_one_torn_line_starts_over(store: FileTraceStore, log: Path) -> None:
    log.write_bytes(b'{"event"')
    assert store.append(started("a")).event_id == 1
    assert prompts(store.events(ID)) == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"5",
        b"null",
        b'{"event_id": "x"}',
        b"{}",
        b"\xff\xfe",
        b'{"event_id": 2, "event": "new"}',
        b"",
    ],
)
def test_unreadable_line_costs_only_itself(store: FileTraceStore, log: Path, line: bytes) -> None:
    store.append(started("a"))
    store.close()
    later = started("c").model_copy(update={"event_id": 3})
    with log.open("ab") as file:
        file.write(line + b"\n" + json.dumps(later.stored()).encode() + b"\n")
    assert prompts(store.events(ID)) == ["a", "c"]
    assert prompts(store.events(ID, after=2)) == ["c"]
    assert store.append(started("d")).event_id == 4


@pytest.mark.parametrize("line", [b"not json", b"[]", b'{"event_id": "x"}'])
def test_an_unreadable_last_line_does_not_reset_the_ids(
    store: FileTraceStore, log: Path, line: bytes
) -> None:
    store.append(started("a"))
    store.close()
    with log.open("ab") as file:
        file.write(line + b"\n")
    assert store.last_event_id(ID) == 1
    assert store.append(started("b")).event_id > 1


lines = st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1), max_size=12)


@given(lines, st.sampled_from(["", "torn", "\u65e5"]), st.integers(1, 9))
@settings(max_examples=examples(80), deadline=None)
def test_reader_finds_every_line_in_both_directions(texts: list[str], torn: str, block: int) -> None:
    import tempfile
    from unittest import mock

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(event_log, "_BLOCK", block):
        path = Path(folder) / "log"
        path.write_bytes("".join(text + "\n" for text in texts).encode() + torn.encode())
        with path.open("rb") as file:
            reader = LogReader(file)
            assert [line.data.decode() for line in reader.backwards()] == texts[::-1]
            forwards = list(reader.forwards())
        assert [line.data.decode() for line in forwards] == texts
        content = path.read_bytes()
        assert [content[line.offset : line.offset + line.size] for line in forwards] == [
            line.data for line in forwards
        ]
        files._cut_torn_line(path)
        assert path.read_bytes() == "".join(text + "\n" for text in texts).encode()


def test_lines_and_characters_across_block_borders_are_read(store: FileTraceStore) -> None:
    sizes = [10, event_log._BLOCK - 1, event_log._BLOCK, event_log._BLOCK + 1, 3 * event_log._BLOCK, 5]
    for size in sizes:
        # Three bytes each, so that the border of a block falls into a character.
        store.append(started("日" * (size // 3) + "x"))
    store.close()
    again = FileTraceStore(store.root)
    assert [len(p) for p in prompts(again.events(ID))] == [size // 3 + 1 for size in sizes]
    assert [event.event_id for event in again.events(ID, after=4)] == [5, 6]
    assert again.last_event_id(ID) == 6


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"format": null}', b'{"trace_id": 1}', b"\xff"]
)
def test_damaged_metadata_is_an_error_but_session_stays_listed(store: FileTraceStore, content: bytes) -> None:
    store.append(SessionCreated(trace_id=ID, time=NOW, trace=trace()))
    store.append(SessionUpdated(trace_id=ID, time=NOW, updates={"title": "shop", "mission": "m"}))
    (store.root / ID / "meta.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"meta\.json"):
        store.trace(ID)
    assert [(t.trace_id, t.title) for t in store.traces(limit=5)] == [(ID, "shop")]


def test_folder_without_metadata_and_events_is_no_session(store: FileTraceStore) -> None:
    (store.root / ID / "meta.json").unlink()
    (store.root / ".hidden").mkdir()
    assert store.traces(limit=5) == []
    with pytest.raises(UnknownTraceError):
        store.trace(ID)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"goals": 1}', None])
def test_a_damaged_goal_tree_is_a_clear_error(store: FileTraceStore, content: bytes | None) -> None:
    path = store.root / ID / "goal.json"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=r"goal\.json"):
        store.goal_tree(ID)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", None])
def test_message_files_are_written_but_never_read(store: FileTraceStore, content: bytes | None) -> None:
    store.append(added(message(1)))
    store.close()
    file = store.root / ID / "messages" / "msg_000001_0000000a.json"
    assert Message.model_validate_json(file.read_bytes()) == message(1)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert store.messages(ID) == FileTraceStore(store.root).messages(ID) == [message(1)]


def test_message_files_follow_after_a_turn_and_after_a_kill(store: FileTraceStore) -> None:
    folder = store.root / ID / "messages"
    store.append(added(message(1)))
    store.append(TurnEnded(trace_id=ID, time=NOW, prompt_id="p1", stop_reason="end_turn"))
    first = list(folder.iterdir())
    assert [path.name for path in first] == ["msg_000001_0000000a.json"]
    store.append(added(message(2)))
    store.save_snapshot(trace(last_event_id=3), GoalTree())
    store.append(added(message(3)))  # and now the daemon is killed
    again = FileTraceStore(store.root)
    assert len(list(folder.iterdir())) == 2
    again.recover(ID)
    assert sorted(path.name[:10] for path in folder.iterdir()) == ["msg_000001", "msg_000002", "msg_000003"]


def test_a_lost_messages_folder_is_made_again(store: FileTraceStore) -> None:
    (store.root / ID / "messages").rmdir()
    assert store.messages(ID) == []
    store.append(added(message(1)))
    assert store.messages(ID) == [message(1)]
    store.close()
    assert len(list((store.root / ID / "messages").iterdir())) == 1


def test_message_file_lost_by_a_kill_is_rewritten_on_recover(
    store: FileTraceStore,
) -> None:
    for number in (1, 2, 3):
        store.append(added(message(number)))
    store.close()
    folder = store.root / ID / "messages"
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    (folder / "msg_000003_0000000a.json").unlink()
    (folder / ".msg_000003_0000000a.json.x1y2").write_bytes(b"{")
    store.close()
    again = FileTraceStore(store.root)
    assert again.recover(ID) == 0
    assert {path: path.read_bytes() for path in folder.glob("msg*")} == whole


def test_unwritable_message_file_is_written_on_recovery(store: FileTraceStore) -> None:
    folder = store.root / ID / "messages"
    folder.rmdir()
    folder.write_text("Make the folder writable, or remove whatever is in its place.")
    store.append(added(message(1)))
    assert store.messages(ID) == [message(1)]
    store.close()
    folder.unlink()
    FileTraceStore(store.root).recover(ID)
    assert len(list(folder.iterdir())) == 1


def test_newer_format_is_refused_with_advice(store: FileTraceStore) -> None:
    fields = {**trace().stored(), "format": FORMAT + 1, "created_at": "in words from now on"}
    (store.root / ID / "meta.json").write_text(json.dumps(fields))
    with pytest.raises(NewerFormatError, match="Update Goalwright to open it"):
        store.trace(ID)
    assert store.traces(limit=5) == []


class FullDisk:
    """A raw file on a disk with room for so many more bytes, as the kernel shows it: first a short write."""

    def __init__(self, path: Path, room: int) -> None:
        self._file = path.open("ab", buffering=0)
        self._room = room

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, data: bytes) -> int:
        if self._room <= 0:
            raise OSError(28, "No space left on device")
        taken = self._file.write(bytes(data)[: self._room])
        self._room -= taken
        return taken

    def close(self) -> None:
        self._file.close()


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_full_disk_is_an_error_and_leaves_the_log_whole(
    store: FileTraceStore, log: Path, room: int
) -> None:
    store.append(started("a"))
    store._logs[ID].close()
    store._logs[ID] = FullDisk(log, room)  # type: ignore[assignment]  # stands in for the raw file
    with pytest.raises(StoreError, match="No space left"):
        store.append(started("b"))
    # There is room again.
    event: Event = store.append(started("c"))
    assert event.event_id == 2
    assert prompts(store.events(ID)) == ["a", "c"]
    assert log.read_bytes().count(b"\n") == 2


def test_partial_kernel_write_is_completed(store: FileTraceStore, log: Path) -> None:
    class Pieces(FullDisk):
        def write(self, data: bytes) -> int:
            return self._file.write(bytes(data)[:7])

    store.append(started("a"))
    store._logs[ID].close()
    store._logs[ID] = Pieces(log, 0)  # type: ignore[assignment]  # stands in for the raw file
    store.append(started("b"))
    store.close()
    assert prompts(store.events(ID)) == ["a", "b"]


def test_a_log_that_cannot_be_opened_is_a_clear_error(store: FileTraceStore, log: Path) -> None:
    log.mkdir()
    with pytest.raises(StoreError, match="log"):
        store.append(started("a"))


def test_an_event_with_a_message_keeps_its_order_in_the_log(store: FileTraceStore) -> None:
    for number in range(1, 4):
        store.append(added(message(number)))
    found = [e.message.sequence for e in store.events(ID) if isinstance(e, MessageAdded)]
    assert found == [1, 2, 3]


@pytest.mark.parametrize("refused", ["goal.json", "meta.json"])
def test_failed_creation_leaves_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    write = files.write_file

    def full(path: Path, data: bytes) -> None:
        if path.name == refused:
            raise StoreError("No space left on device.")
        write(path, data)

    monkeypatch.setattr(files, "write_file", full)
    store = FileTraceStore(tmp_path / ".trace")
    with pytest.raises(StoreError, match="No space left"):
        store.create(trace())
    assert store.trace_ids() == []
    monkeypatch.undo()
    store.create(trace())
    assert store.trace(ID).trace_id == ID


def test_refused_create_leaves_the_existing_trace(store: FileTraceStore, log: Path) -> None:
    store.append(started("p"))
    with pytest.raises(StoreError, match="cannot be stored"):
        store.create(trace())
    assert prompts(store.events(ID)) == ["p"]


def test_deletion_bears_with_a_session_that_opens_meanwhile(
    store: FileTraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "20250102-000000-bbbbbb"
    store.create(trace(trace_id=other))
    store.recover(ID)

    def within(session_id: str, above: str) -> bool:
        store.recover(other)  # as another thread does that opens it
        return is_within(session_id, above)

    monkeypatch.setattr(files, "is_within", within)
    store.delete(ID)
    assert store.trace_ids() == [other]
