"""Archives that somebody made to do harm, or that are broken: refused in words, and nothing is left of them."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.model.traces import FORMAT
from daemon.store import archive_import
from daemon.store.archive import MANIFEST, export_trace
from daemon.store.archive_import import ArchiveError, import_trace
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import StoreError
from tests.support.examples import examples, in_full
from tests.support.scenarios.stored_traces import ID, write_children, write_trace
from tools.files.regular_files import sha256

NOW = datetime(2026, 2, 1, tzinfo=UTC)
OTHER = "20260101-000000-000000bbbb"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("good")
    store = FileTraceStore(folder / ".trace")
    write_trace(store)
    write_children(store)
    export_trace(store, ID, folder / "a.tar.gz")
    found: dict[str, bytes] = {}
    with tarfile.open(folder / "a.tar.gz") as opened:
        for member in opened:
            file = opened.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
    return found


@pytest.fixture
def store(tmp_path: Path) -> FileTraceStore:
    (tmp_path / "w").mkdir()
    return FileTraceStore(tmp_path / "w" / ".trace")


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(data)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, data


def packed(
    files: Mapping[str, bytes], *more: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT
) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for made, data in (*(member(name, data) for name, data in files.items()), *more):
            archive.addfile(made, io.BytesIO(data))
    return gzip.compress(stream.getvalue(), 1)


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(data)
    return path


def refused(store: FileTraceStore, archive: Path, **options: Any) -> str:
    around = {path.relative_to(store.root.parent.parent) for path in store.root.parent.parent.rglob("*")}
    with pytest.raises(StoreError) as error:
        import_trace(store, archive, NOW, **options)
    now = {path.relative_to(store.root.parent.parent) for path in store.root.parent.parent.rglob("*")}
    left = {path.as_posix() for path in now - around} - {"w/.trace", "w/.trace/.gitignore"}
    assert not left, "something was left behind"
    assert "othing was imported" in str(error.value) or "cannot be read" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "../escaped.json",
        "trace/../../escaped.json",
        "trace/messages/../../../escaped.json",
        "/tmp/escaped.json",
        "//tmp/escaped.json",
        "trace/..",
        "C:/escaped.json",
        "trace/messages\\..\\..\\escaped.json",
        "trace//events.jsonl",
        "trace/messages/a\nb.json",
        "..",
    ],
)
def test_escaping_names_are_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], name: str
) -> None:
    assert "The archive contains a name that leads outside of it:" in refused(
        store, write(tmp_path, packed(good, member(name, b"x")))
    )
    assert not Path("/tmp/escaped.json").exists()


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CONTTYPE,
        b"S",
    ],
)
@pytest.mark.parametrize("name", ["trace/messages", "trace/output/bash-1.txt", "trace", "harmless"])
def test_links_and_devices_are_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], kind: bytes, name: str
) -> None:
    made = member(name, type=kind, linkname="/etc/passwd")
    assert "something that is not a file" in refused(store, write(tmp_path, packed(good, made)))


@pytest.mark.parametrize(
    "name", [MANIFEST, "trace/events.jsonl", "TRACE/events.JSONL", "trace/EVENTS.jsonl", "readme"]
)
def test_duplicate_names_are_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], name: str
) -> None:
    data = packed(good, member(name.lower() if name == "readme" else "trace/events.jsonl"), member(name))
    assert "twice" in refused(store, write(tmp_path, data))


def test_archive_bomb_is_stopped_during_unpacking(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    bomb = packed(good, member("trace/output/bash-1.txt", bytes(30_000_000)))
    assert len(bomb) < 200_000
    assert "more than 20 MB" in refused(store, write(tmp_path, bomb), max_mb=20.0)
    # What is not wanted is unpacked, too, to get behind it.
    bomb = packed(good, member("beside", bytes(30_000_000)))
    assert "more than 20 MB" in refused(store, write(tmp_path, bomb), max_mb=20.0)


def test_oversized_headers_are_refused(store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
        data = packed(good, member("header", bytes(5_000_000), type=kind), member("x", b"x"))
        assert "The archive has a header larger than" in refused(store, write(tmp_path, data))


def test_too_many_files_are_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_import, "MAX_FILES", 50)
    many = [member(f"trace/output/bash-{number}.txt") for number in range(60)]
    assert "more than 50 files" in refused(store, write(tmp_path, packed(good, *many)))


def test_logs_that_are_too_long(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_import, "MAX_LOG", 1_000_000)
    long = {**good, "trace/branches/B/events.jsonl": b"x" * 1_000_000}
    assert "The archive's logs are larger than" in refused(store, write(tmp_path, packed(long)))
    monkeypatch.setattr(archive_import, "MAX_LINE", 1_000)
    assert "The archive's log has a line longer than" in refused(
        store, write(tmp_path, packed({**good, "trace/branches/B/events.jsonl": b"x" * 2_000}))
    )


@pytest.mark.parametrize("older", [False, True])
def test_content_with_a_wrong_hash_is_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], older: bool
) -> None:
    digest = sha256(b"good")
    name = f"trace/files/blobs/{f'{digest[:2]}/' if older else ''}{digest}"
    assert "is damaged:" in refused(store, write(tmp_path, packed({**good, name: b"evil"})))


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (None, "has no goalwright-trace.json"),
        (b"", "goalwright-trace.json is"),
        (b"[]", "goalwright-trace.json is"),
        (b"[" * 60_000, "goalwright-trace.json is"),
        (b"{" + b" " * 70_000 + b"}", "too long"),
        (b'{"kind": "other"}', "goalwright-trace.json is"),
        ({"format": 99}, "newer"),
        ({"trace_format": FORMAT + 1}, "newer"),
        ({"format": True}, "has no format"),
        ({"trace_id": "../x"}, "no valid trace id"),
        ({"trace_id": ".hidden"}, "no valid trace id"),
        ({"trace_id": f"{ID}:A"}, "no valid trace id"),
        ({"trace_id": 7}, "no valid trace id"),
        *[
            ({"trace_id": name}, "no valid trace id")
            for name in ("latest", "tree.txt", "CON", "z0", "9" * 100, f"{ID} ")
        ],
        ({"trace_id": ID.upper()}, "no valid trace id"),  # the same file where case does not count
        ({"trace_id": OTHER}, "another session"),
    ],
)
def test_invalid_manifests_are_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], manifest: Any, words: str
) -> None:
    files = dict(good)
    if manifest is None:
        del files[MANIFEST]
    elif isinstance(manifest, bytes):
        files[MANIFEST] = manifest
    else:
        files[MANIFEST] = json.dumps({**json.loads(good[MANIFEST]), **manifest}).encode()
    assert words in refused(store, write(tmp_path, packed(files)))


def test_existing_trace_is_not_replaced(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    archive = write(tmp_path, packed(good))
    (store.root / ID).mkdir(parents=True)
    assert "already" in refused(store, archive)
    (store.root / ID).rmdir()
    (store.root / ID).symlink_to(tmp_path / "elsewhere")  # also one that leads nowhere
    assert "already" in refused(store, archive)
    assert not (tmp_path / "elsewhere").exists()


def test_link_in_place_of_the_traces_folder_is_refused(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    archive = write(tmp_path, packed(good))
    (tmp_path / "elsewhere").mkdir()
    store.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="it is a symbolic link"):
        import_trace(store, archive, NOW)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_logs_that_cannot_be_read(store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]) -> None:
    log = good["trace/events.jsonl"]
    lines = log.splitlines(keepends=True)
    created = json.loads(lines[0])
    created["trace"]["format"] = FORMAT + 1
    newer = json.dumps(created).encode() + b"\n"
    for bad, words in (
        (b"", " start"),
        (b"".join(lines[1:]), " start"),
        (b"\x00\xff\n" * 100, " start"),
        (b"[" * 100_000 + b"\n", " start"),
        (log.replace(ID.encode(), OTHER.encode()), "another session"),
        (newer + b"".join(lines[1:]), "newer"),
    ):
        files = {**good, "trace/events.jsonl": bad}
        assert words in refused(store, write(tmp_path, packed(files)))
    files = dict(good)
    del files["trace/events.jsonl"]
    refused(store, write(tmp_path, packed(files)))


def test_branch_without_a_readable_log_is_dropped(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    files = {**good, "trace/branches/B/events.jsonl": b"noise\n", "trace/branches/B/output/bash-1.txt": b"x"}
    done = import_trace(store, write(tmp_path, packed(files)), NOW)
    assert [dropped.partition(":")[0] for dropped in done.dropped] == ["B"]
    assert store.children(ID) == [f"{ID}:A"]


def test_derived_files_are_rebuilt_instead_of_imported(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    forged = {
        **good,
        "trace/meta.json": json.dumps({"trace_id": OTHER, "title": "forged"}).encode(),
        "trace/goal.json": b'{"mission": "forged", "goals": []}',
        "trace/messages/msg_000001_00000001.json": b'{"forged": true}',
        "trace/messages/msg_000099_00000099.json": b'{"forged": true}',
    }
    import_trace(store, write(tmp_path, packed(forged)), NOW)
    assert store.trace(ID).title == "a title"
    assert [message.text() for message in store.messages(ID)] == ["text 0", "answer 0", "text 1", "answer 1"]
    assert "forged" not in "".join(
        path.read_text() for path in (store.root / ID).rglob("*.json") if path.name != "imported.json"
    )


def test_long_log_is_imported_in_pages(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = good["trace/events.jsonl"].splitlines(keepends=True)
    more = [
        json.dumps({**json.loads(lines[-1]), "event_id": number}, separators=(",", ":")).encode() + b"\n"
        for number in range(len(lines) + 1, 3001)
    ]
    read, held = FileTraceStore.events, list[int]()

    def counted(store: FileTraceStore, trace_id: str, *, after: int = 0, limit: int | None = None) -> Any:
        events = read(store, trace_id, after=after, limit=limit)
        held.append(len(events))
        return events

    monkeypatch.setattr(FileTraceStore, "events", counted)
    log = {"trace/events.jsonl": b"".join(lines + more)}
    done = import_trace(store, write(tmp_path, packed(good | log)), NOW)
    assert done.sessions[0].events == 3000
    assert max(held) <= 1000


def test_unknown_members_are_left_out_and_reported(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    more = [
        member("__MACOSX/._trace"),
        member("trace/.DS_Store", b"x"),
        member("trace/hooks/run.sh", b"#!/bin/sh", mode=0o777),
        member("trace/output", type=tarfile.DIRTYPE),
        member("trace/branches/b1/events.jsonl", b"x"),
        member("trace/messages/msg.json.exe", b"x"),
    ]
    done = import_trace(store, write(tmp_path, packed(good, *more)), NOW)
    assert done.left_out == (
        '"__MACOSX/._trace"',
        '"trace/.DS_Store"',
        '"trace/branches/b1/events.jsonl"',
        '"trace/hooks/run.sh"',
        '"trace/messages/msg.json.exe"',
    )
    names = {path.name for path in (store.root / ID).rglob("*")}
    assert not names & {".DS_Store", "run.sh", "b1", "msg.json.exe", "hooks"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (store.root / ID).rglob("*.jsonl")), (
        "others could read it"
    )


def test_blob_below_the_folder_of_another_hash_is_left_out(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    digest = sha256(b"content")
    wrong = f"trace/files/blobs/{(int(digest[:2], 16) + 1) % 256:02x}/{digest}"
    done = import_trace(store, write(tmp_path, packed(good, member(wrong, b"content"))), NOW)
    assert done.left_out == (f'"{wrong}"',)
    assert not [path for path in store.root.rglob(digest)]


def test_long_output_is_imported_in_chunks_with_redaction(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    line = f"ü {token} and more\n".encode()
    lines = in_full(4, 1)
    outputs = (line * 25_000 * lines, b"x" * 24_000_000, b"\xff \n" * 1_000_000 * lines)
    for number, output in enumerate(outputs):
        packed_up = write(tmp_path, packed({**good, "trace/output/big.txt": output}))
        into = FileTraceStore(store.root.parent / str(number))
        tracemalloc.start()
        try:
            import_trace(into, packed_up, NOW)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 16_000_000, number
        kept = (into.root / ID / "output" / "big.txt").read_bytes()
        assert kept == output.replace(token.encode(), f"[redacted: …{token[-4:]}]".encode())


def test_a_full_disk_is_named_and_not_the_archive(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive_import, "_write", full)
    with pytest.raises(StoreError) as refusal:
        import_trace(store, write(tmp_path, packed(good)), NOW)
    assert str(refusal.value) == f"{store.root}: No space left on device. Nothing was imported."


def test_invalid_archives_are_refused(store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]) -> None:
    whole = packed(good)
    for data, words in (
        (b"", "is not a .tar.gz archive made by `goalwright trace export`."),
        (b"PK\x03\x04 a zip", "is not a .tar.gz archive made by `goalwright trace export`."),
        (b"\x1f\x8b", "damaged"),
        (gzip.compress(b"hello"), "damaged"),
        (gzip.compress(b""), "damaged"),
        (whole[: len(whole) // 2], "damaged"),
        (whole[:-4], "damaged"),
        (whole[:-8] + b"\x00\x00\x00\x00" + whole[-4:], "damaged"),
    ):
        assert words in refused(store, write(tmp_path, data))
    with pytest.raises(ArchiveError, match="cannot be read"):
        import_trace(store, tmp_path / "nothing.tar.gz", NOW)
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in refused(store, tmp_path / "pipe")
    assert "not a file" in refused(store, tmp_path)


def test_leftovers_of_a_killed_import_are_removed(
    store: FileTraceStore, tmp_path: Path, good: dict[str, bytes]
) -> None:
    left = store.root / ".import-abc"
    left.mkdir(parents=True)
    (left / "x").write_text("x")
    import_trace(store, write(tmp_path, packed(good)), NOW)
    assert not left.exists()


@given(data=st.data())
@settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damaged_archive_is_refused_or_imported_whole(
    tmp_path_factory: pytest.TempPathFactory, good: dict[str, bytes], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("d")
    (folder / "w").mkdir()
    store = FileTraceStore(folder / "w" / ".trace")
    stream = bytearray(gzip.decompress(packed(good)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at] = data.draw(st.integers(0, 255))
    archive = write(folder, gzip.compress(bytes(stream), 1))
    try:
        import_trace(store, archive, NOW)
    except StoreError:
        assert [path.name for path in store.root.iterdir()] == [".gitignore"]
    else:
        assert store.messages(store.trace_ids()[0])
        assert len(store.trace_ids()) == 1
