"""Databases of traces: addresses, versions of the tables, replaced texts, copies, and a server that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event

from daemon.bus import Bus
from daemon.model.encoding import json_bytes
from daemon.model.events import SessionUpdated
from daemon.model.goals import GoalTree
from daemon.store.archive import export_trace
from daemon.store.event_log import StoredLine
from daemon.store.facts import facts
from daemon.store.files import FileTraceStore
from daemon.store.sql.copying import store_archive, write_session
from daemon.store.sql.database import address, open_database
from daemon.store.sql.deleting import chosen, delete
from daemon.store.sql.replica import Replica, copy_session
from daemon.store.sql.schema import metadata
from daemon.store.sql.search import search
from daemon.store.sql.stats import sums
from daemon.store.sql.store import SqlTraceStore
from daemon.store.sql.tokens import grants, issue
from daemon.store.trace_store import NewerFormatError, StoreError, UnknownTraceError, UnreachableError
from tests.support.drivers.postgres import Postgres, database_for, give_back, shared
from tests.support.drivers.team import tell
from tests.support.drivers.waiting import until
from tests.support.scenarios.stores import ID, NOW, added, branch_trace, file_changed, message, started, trace

OTHER = "20260101-000001-bbbbbb"


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'traces.db'}" if request.param == "sqlite" else database_for(tmp_path)


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[SqlTraceStore]:
    found = SqlTraceStore.open(url, owner="ann")
    yield found
    found.close()
    give_back(tmp_path)


# -- the database --


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "mysql://u:geheim@h/d",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite+aiosqlite:///x",
        "postgresql+asyncpg://u:geheim@h/d",
        "postgresql://u:ge@heim@h/d",
        "postgresql://u:a@geheim/heim@h:1/d",
        "postgresql://u:a@h?geheim@h/d",
        "sqlite:///x?geheim=1",
        "mysql://h/d?password=geheim",
    ],
)
def test_address_that_is_none_is_refused_without_a_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        address(url)
    assert "geheim" not in str(caught.value)
    assert "heim" not in str(caught.value)


def test_server_that_is_not_there_is_told_without_a_password() -> None:
    with pytest.raises(UnreachableError) as caught:
        open_database("postgresql://ann:geheim@127.0.0.1:9/goalwright?password=geheimer&connect_timeout=9")
    assert "postgresql://ann@127.0.0.1:9/goalwright cannot" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_only_the_user_reads_a_database_of_sqlite(tmp_path: Path) -> None:
    SqlTraceStore.open(f"sqlite:///{tmp_path}/new/traces.db").create(trace())
    assert [path.stat().st_mode & 0o077 for path in (tmp_path / "new").iterdir()] == [0] * len(
        list((tmp_path / "new").iterdir())
    )


def test_migrations_make_the_tables_of_the_schema(store: SqlTraceStore) -> None:
    ours = {*metadata.tables, *(index.name for table in metadata.tables.values() for index in table.indexes)}

    def compared(_object: object, name: str | None, kind: str, _reflected: bool, _other: object) -> bool:
        # Search has tables and an index of its own in each database.
        return kind not in ("table", "index") or name in ours

    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": compared})
        assert compare_metadata(context, metadata) == []


def test_a_new_file_that_another_program_writes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: other.execute("COMMIT"))
        monkeypatch.setattr("daemon.store.sql.database.time", clock)
        open_database(f"sqlite:///{path}").dispose()
        assert not other.in_transaction


def test_programs_that_open_a_new_database_at_once_agree(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path / 'new.db'}", _empty_database(tmp_path)):
        problems: list[Exception] = []

        def opened(url: str = url, problems: list[Exception] = problems) -> None:
            try:
                open_database(url).dispose()
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=opened) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []


def _empty_database(folder: Path) -> str:
    return shared().database("empty" + folder.name.lower(), template="template1")


def test_database_of_a_newer_version_is_not_touched(store: SqlTraceStore, url: str) -> None:
    change = sa.text("UPDATE alembic_version SET version_num = :version")
    with store.engine.begin() as connection:
        ours = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        connection.execute(change, {"version": "9999"})
    with pytest.raises(StoreError, match="newer version"):
        open_database(url)
    with store.engine.begin() as connection:
        connection.execute(change, {"version": ours})


def test_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    for number, tables in enumerate((("traces",), ("films",), ("films", "alembic_version"))):
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(path)) as file:
            for table in tables:
                file.execute(f"CREATE TABLE {table} (version_num TEXT)")
        before = path.read_bytes()
        with pytest.raises(StoreError, match=rf"{number}.db is the database of another program") as caught:
            open_database(f"sqlite:///{path}")
        assert not isinstance(caught.value, UnreachableError)
        assert path.read_bytes() == before
    url = _empty_database(tmp_path)
    engine = sa.create_engine(address(url))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE films (id INTEGER)"))
    open_database(url).dispose()  # a server's database may have tables of others
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE alembic_version"))
    with pytest.raises(StoreError, match="is the database of another program"):
        open_database(url)
    engine.dispose()


# -- search: also test_searching.py --


def test_search_costs_what_it_returns_not_what_it_finds(store: SqlTraceStore) -> None:
    for trace_id in (ID, OTHER):
        store.create(trace(trace_id))
    some = [added(message(number, f"rates {number}")).stored() for number in range(1, 400)]
    store.put_lines(
        ID, [StoredLine(at, json_bytes({**one, "event_id": at})) for at, one in enumerate(some, 1)]
    )
    store.append(added(message(1, "rates", OTHER)))
    statements: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *said: statements.append(said[2]))
    assert [found.trace_id for found in search(store, "rates", limit=9)] == [OTHER, ID]
    assert [found.trace_id for found in search(store, "rates", limit=9, before=OTHER)] == [ID]
    assert len([one for one in statements if one.startswith("SELECT")]) < 12


def test_replaced_and_deleted_texts_are_not_found(store: SqlTraceStore) -> None:
    store.create(trace(title="first title"))
    store.append(added(message(1, "old words")))
    store.append(added(message(1, "new words")))
    store.save_snapshot(trace(title="second title", last_event_id=2), GoalTree())
    assert search(store, "old words", limit=9) == search(store, "first title", limit=9) == []
    assert [found.kind for found in search(store, "second title", limit=9)] == ["title"]
    store.delete(ID)
    assert search(store, "words", limit=9) == []


def test_older_snapshot_changes_neither_title_nor_search(store: SqlTraceStore) -> None:
    store.create(trace(title="newest title", last_event_id=5))
    store.save_snapshot(trace(title="older title", last_event_id=4), GoalTree())
    older = b'{"trace_id": "x", "title": "copied title", "last_event_id": 3}'
    store.put_trace(ID, older, b"{}")
    assert store.trace(ID).title == "newest title"
    assert [len(search(store, said, limit=9)) for said in ("newest", "older", "copied")] == [1, 0, 0]
    store.put_trace(ID, older.replace(b"3", b"6"), b"{}")
    assert [len(search(store, said, limit=9)) for said in ("newest", "copied")] == [0, 1]


# -- copies --


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as packed:
        files = {name: packed.extractfile(name) for name in packed.getnames()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_session_comes_out_of_a_database_as_it_went_in(store: SqlTraceStore, tmp_path: Path) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    files.create(trace(title="Rates"))
    files.create(branch_trace(f"{ID}:A"))
    files.append(started())
    files.append(added(message(1, "half \ud83d and 说")))
    files.append(added(message(1, "in a branch", f"{ID}", branch_id="A"), f"{ID}:A"))
    files.save_snapshot(trace(title="Rates", last_event_id=2), GoalTree(mission="m"))
    files.close()
    output = tmp_path / ".trace" / ID / "output"
    output.mkdir()
    (output / "call_1").write_bytes(b"\x00 bytes \xff")
    with (tmp_path / ".trace" / ID / "events.jsonl").open("ab") as log:
        log.write(b'{"event_id":3,"event":"of another program", "spelled": "otherwise"}\n')
    export_trace(files, ID, tmp_path / "one.tar.gz")

    assert store_archive(store, tmp_path / "one.tar.gz") == 4
    assert store_archive(store, tmp_path / "one.tar.gz") == 0, "nothing is new"
    assert dict(store.attached(ID)) == {"output/call_1": b"\x00 bytes \xff"}
    assert [event.event_id for event in store.events(ID)] == [1, 2]
    assert store.children(ID) == [f"{ID}:A"]
    assert store.messages(f"{ID}:A")[0].text() == "in a branch"

    write_session(store, ID, tmp_path / "two.tar.gz")
    before, after = members(tmp_path / "one.tar.gz"), members(tmp_path / "two.tar.gz")
    # Files of messages are made from the log again.
    assert after == {name: data for name, data in before.items() if "/messages/" not in name}


# -- a server that is killed --


def test_killed_server_loses_nothing_that_was_acknowledged() -> None:
    server = Postgres()
    try:
        store = SqlTraceStore.open(server.database("killed"))
        store.create(trace())
        acknowledged = 0
        stop = threading.Timer(0.2, server.kill)
        stop.start()
        with pytest.raises(UnreachableError):
            while True:
                acknowledged = store.append(started(f"p{acknowledged}")).event_id
        stop.join()
        server.start()
        again = store.last_event_id(ID)
        # The last one may be there although its acknowledgement was lost.
        assert again in (acknowledged, acknowledged + 1)
        assert store.append(started()).event_id == again + 1
        assert [event.event_id for event in store.events(ID)] == list(range(1, again + 2))
        store.close()
    finally:
        server.end()


# -- the copy in the background --


async def test_a_server_that_hangs_keeps_no_daemon_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.store.sql.replica._SILENT_S", 1)
    monkeypatch.setattr("daemon.store.sql.replica._END_S", 1.0)
    monkeypatch.setattr("daemon.store.sql.replica._LONGEST_WAIT_S", 0.5)
    monkeypatch.setattr("daemon.store.sql.connections._CONNECT_S", 2)
    server = Postgres()
    try:
        files, bus = FileTraceStore(tmp_path), Bus()
        files.create(trace())
        replica = Replica(files, bus, lambda: frozenset({ID}), server.database("hangs"))
        replica.start()
        database = SqlTraceStore.open(server.url("hangs"))
        bus.publish(files.append(started()))
        await until(lambda: database.copied(ID) == 1, "the first event")
        server.freeze()
        bus.publish(files.append(started()))
        await until(lambda: "cannot be reached" in replica.problem, "that it is said")
        server.freeze(signal.SIGCONT)
        await until(lambda: database.copied(ID) == 2, "the second event", within_s=60)
        server.freeze()
        bus.publish(files.append(started()))
        async with asyncio.timeout(30):
            await replica.close()
        server.freeze(signal.SIGCONT)
        database.close()
    finally:
        server.end()


async def test_a_damaged_session_keeps_no_other_from_being_copied(tmp_path: Path) -> None:
    files, bus = FileTraceStore(tmp_path), Bus()
    early = datetime.fromisoformat("0001-01-01T00:00:00+14:00")
    for trace_id in (ID, OTHER):
        files.create(trace(trace_id))
        files.append(added(message(1, trace_id=trace_id).model_copy(update={"created_at": early}), trace_id))
    replica = Replica(files, bus, lambda: frozenset({ID, OTHER}), f"sqlite:///{tmp_path}/traces.db")
    replica.start()
    database = SqlTraceStore.open(f"sqlite:///{tmp_path}/traces.db", owner="j\udcf6rg")
    await until(lambda: database.copied(ID) == database.copied(OTHER) == 1, "both")
    database.create(trace("20260101-000009-dddddd"))
    assert sums(database, "user", owner="\udcf6") == []
    await replica.close()
    database.close()


async def test_unreadable_folder_keeps_no_other_from_being_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, bus = FileTraceStore(tmp_path), Bus()
    for trace_id in (ID, OTHER):
        files.create(trace(trace_id))
        files.append(started(trace_id=trace_id))
    files.create(branch_trace(f"{ID}:A"))
    scandir = os.scandir

    def shut(path: Path) -> object:
        if path == tmp_path / ID / "branches":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", shut)
    database = SqlTraceStore.open(f"sqlite:///{tmp_path}/traces.db", owner="ann")
    replica = Replica(files, bus, lambda: frozenset({ID, OTHER}), f"sqlite:///{tmp_path}/traces.db")
    replica.start()
    await until(lambda: database.copied(OTHER) == 1, "the other one")
    await replica.close()
    database.close()


async def test_new_title_of_an_idle_session_is_copied(tmp_path: Path) -> None:
    files, bus = FileTraceStore(tmp_path), Bus()
    files.create(trace(title="old"))
    database = SqlTraceStore.open(f"sqlite:///{tmp_path}/traces.db", owner="ann")
    replica = Replica(files, bus, lambda: frozenset({ID}), f"sqlite:///{tmp_path}/traces.db")
    replica.start()
    renamed = SessionUpdated(trace_id=ID, time=NOW, updates={"title": "new"})
    bus.publish(files.append(renamed))
    await until(lambda: database.copied(ID) == 1, "the event")
    assert database.trace(ID).title == "old"
    files.save_snapshot(trace(title="new", last_event_id=1), GoalTree())  # a second later, as a record does
    await until(lambda: database.trace(ID).title == "new", "the title")
    await replica.close()
    database.close()


@pytest.mark.parametrize("cost", [10**400, float("nan"), -(2**70), "7", True])
def test_costs_that_are_none_are_left_out(cost: object) -> None:
    event = {"event": "message_added", "message": {"message_id": "m", "sequence": 1, "cost": cost}}
    row = facts(event).message
    assert row is not None
    assert row["cost"] in (None, 1.0)


def test_names_of_any_length_are_stored_and_found(store: SqlTraceStore) -> None:
    letters = random.Random(1)
    name, other = ("".join(letters.choices("abcdefghijklmnopqrstuvwxyz/说", k=4000)) for _ in range(2))
    store.create(trace())
    for path in (name, other, name):
        store.append(file_changed(path))
    store.append(added(message(1, "said").model_copy(update={"message_id": name})))
    assert [len(search(store, text, limit=9)) for text in (name[-80:], other[-80:], "said")] == [1, 1, 1]
    assert store.messages(ID)[0].message_id == name


def test_events_of_others_are_left_out_and_newer_ones_refused(store: SqlTraceStore) -> None:
    store.create(trace())
    ours, other = started(), started().model_copy(update={"trace_id": OTHER})
    records = [
        event.model_copy(update={"event_id": at}).stored() for at, event in enumerate((ours, other), 1)
    ]
    store.put_lines(ID, [StoredLine(at, json_bytes(record)) for at, record in enumerate(records, 1)])
    assert [event.event_id for event in store.events(ID)] == [1]
    store.put_lines(ID, [StoredLine(3, json_bytes({**records[0], "event_id": 3, "format": 99}))])
    with pytest.raises(NewerFormatError):
        store.events(ID)


def test_archive_without_events_is_not_stored(store: SqlTraceStore, tmp_path: Path) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    files.create(trace())
    (tmp_path / ".trace" / ID / "events.jsonl").touch()
    export_trace(files, ID, tmp_path / "one.tar.gz")
    with pytest.raises(StoreError, match="nothing to export"):
        store_archive(store, tmp_path / "one.tar.gz")
    assert store.traces(limit=9) == []


def test_branches_count_in_the_folder_of_their_session(store: SqlTraceStore) -> None:
    tell(store, ID, "ann", "harmless")
    (total,) = sums(store, "folder")
    assert (total.key, total.calls) == ("/harmless", 2)


def test_session_without_events_is_not_copied(store: SqlTraceStore, tmp_path: Path) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    files.create(trace())
    copy_session(files, store, ID)
    assert store.traces(limit=9) == []
    files.append(started())
    copy_session(files, store, ID)
    assert store.copied(ID) == 1


@pytest.mark.parametrize("written_to", [False, True])
def test_a_file_that_may_only_be_read_is_read(tmp_path: Path, written_to: bool) -> None:
    url = f"sqlite:///{tmp_path}/traces.db"
    store = SqlTraceStore.open(url)
    tell(store, ID, "ann", "harmless")
    if not written_to:
        store.close()
    read = (
        "import sys; from daemon.store.sql.store import SqlTraceStore\n"
        "from daemon.store.sql.search import search\n"
        "store = SqlTraceStore.open(sys.argv[1], existing=True)\n"
        "print(len(search(store, 'harmless', limit=9)))\n"
        "try:\n    store.delete(sys.argv[2])\nexcept Exception as error:\n    print(error)"
    )
    whole_disk = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    done = subprocess.run(
        [*whole_disk, sys.executable, "-c", read, url, ID],
        capture_output=True, text=True, cwd=Path.cwd(), check=False,
    )  # fmt: skip
    found, _, refused = done.stdout.partition("\n")
    assert int(found or 0) > 0, done.stderr
    assert "cannot be used: attempt to write a readonly database" in refused
    store.close()


def test_inherited_answers_are_counted_once(store: SqlTraceStore) -> None:
    store.create(trace())
    answer = message(1, trace_id=ID).model_copy(update={"role": "assistant", "model": "m", "cost": 0.5})
    store.append(added(answer, ID))
    store.create(branch_trace(f"{ID}:A"))
    store.append(added(answer.model_copy(update={"model": None, "cost": None}), f"{ID}:A"))
    (total,) = sums(store, "user")
    assert (total.calls, total.sessions, total.cost) == (1, 1, 0.5)


def test_reading_makes_no_tables(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There are no sessions in"):
        open_database(_empty_database(tmp_path), filled=True)


async def test_a_refused_session_keeps_no_other_from_being_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.store.sql.replica._EVERY_S", 0.05)
    monkeypatch.setattr("daemon.store.sql.replica._LONGEST_WAIT_S", 0.1)
    url = f"sqlite:///{tmp_path / 'traces.db'}"
    database = SqlTraceStore.open(url)
    with database.engine.begin() as connection:
        when = f"BEFORE INSERT ON events WHEN new.trace = '{ID}'"
        connection.exec_driver_sql(f"CREATE TRIGGER no {when} BEGIN SELECT RAISE(ABORT, 'no'); END")
    files = FileTraceStore(tmp_path / ".trace")
    foreign = "20260101-000002-cccccc"
    for trace_id in (ID, OTHER, foreign):
        files.create(trace(trace_id))
        files.append(started(trace_id=trace_id))
    bus = Bus()
    replica = Replica(files, bus, lambda: frozenset({ID, OTHER}), url)
    replica.start()
    await until(lambda: replica.problem, "the refusal")
    assert "refused: no" in replica.problem
    assert database.copied(OTHER) == 1
    bus.publish(files.append(started(trace_id=OTHER)))
    await until(lambda: database.copied(OTHER) == 2, "the next event")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER no")
    await until(lambda: not replica.problem, "the end of the problem")
    assert (database.copied(ID), database.copied(foreign)) == (1, 0)
    await replica.close()
    database.close()


def test_what_is_copied_already_is_not_written_again(tmp_path: Path) -> None:
    files = FileTraceStore(tmp_path)
    database = SqlTraceStore.open(f"sqlite:///{tmp_path}/traces.db")
    files.create(trace(title="first"))
    files.append(started())
    copy_session(files, database, ID)
    with database.engine.begin() as connection:
        for table, change in (("traces", "UPDATE"), ("events", "INSERT")):
            connection.exec_driver_sql(
                f"CREATE TRIGGER no_{table} BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'again'); END"
            )
    copy_session(files, database, ID)
    files.save_snapshot(trace(title="second"), GoalTree())
    with pytest.raises(StoreError, match="again"):
        copy_session(files, database, ID)
    database.close()


# -- the database of a team --


def test_roles_keep_writers_to_their_own_sessions(tmp_path: Path) -> None:
    server = shared()
    url = server.database("roles" + tmp_path.name.lower())
    roles = Path(__file__).parents[4] / "deploy" / "team-server" / "roles.sql"
    names = {
        "goalwright_writer": ("ann", "bob"),
        "goalwright_reader": ("goalwright_server", "keeper"),
        "goalwright_cleaner": ("keeper",),
    }
    with psycopg.connect(url, autocommit=True) as owner:
        for _ in range(2):
            owner.execute(roles.read_bytes())
        for group, members in names.items():
            for name in members:
                if owner.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone() is None:
                    owner.execute(f"CREATE ROLE {name} LOGIN".encode())
                owner.execute(f"GRANT {group} TO {name}".encode())

    def opened(name: str, owner: str | None = None) -> SqlTraceStore:
        return SqlTraceStore.open(url.replace("goalwright@", f"{name}@"), owner or name)

    ann, bob, reader = opened("ann"), opened("bob"), opened("goalwright_server")
    files = FileTraceStore(tmp_path / ".trace")
    files.create(trace(title="of ann"))
    files.create(branch_trace(f"{ID}:A"))
    for session_id in (ID, f"{ID}:A"):
        files.append(started(trace_id=session_id))
        files.append(added(message(1, "words of ann", ID), session_id))
        copy_session(files, ann, session_id)
        copy_session(files, ann, session_id)
    export_trace(files, ID, tmp_path / "one.tar.gz")
    store_archive(ann, tmp_path / "one.tar.gz")
    for one in (ann, reader):
        assert [found.trace_id for found in one.traces(limit=9)] == [ID]
        assert len(search(one, "words", limit=9)) == 1
    assert bob.traces(limit=9) == search(bob, "words", limit=9) == []
    with bob.engine.connect() as connection:
        for table in ("traces", "events", "messages", "texts", "attachments"):
            assert connection.execute(sa.text(f"SELECT * FROM {table}")).all() == []
    for store, work in (
        (bob, lambda: copy_session(files, bob, ID)),
        (
            bob,
            lambda: bob.create(trace(OTHER)) or opened("bob", "ann").create(trace("20260101-000003-dddddd")),
        ),
        (bob, lambda: grants(bob)),
        (ann, lambda: ann.delete(ID)),
        (reader, lambda: reader.create(trace("20260101-000004-eeeeee"))),
        (reader, lambda: reader.append(started())),
        (reader, lambda: issue(reader, "bob", ["all"], NOW)),
    ):
        with pytest.raises(StoreError, match=r"refused|permission|There is a session"):
            work()
        store.close()
    assert grants(reader) == []
    with (
        psycopg.connect(url.replace("goalwright@", "bob@")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
    ):
        connection.execute("UPDATE traces SET id = %s WHERE id = %s", [f"{ID}:B", OTHER])
    keeper = opened("keeper")
    assert delete(keeper, chosen(keeper, user="ann")) == 1
    with pytest.raises(UnknownTraceError, match="stays deleted"):
        copy_session(files, ann, ID)
    keeper.close()
    assert bob.copied(ID) == 0
    for one in (ann, bob, reader):
        one.close()


def test_sessions_to_delete_are_chosen_by_user_age_and_id(store: SqlTraceStore) -> None:
    bob = SqlTraceStore(store.engine, "bob")
    store.create(trace())
    bob.create(trace(OTHER))
    store.create(branch_trace(f"{ID}:A"))
    for one, trace_id in ((store, ID), (bob, OTHER), (store, f"{ID}:A")):
        one.append(added(message(1, trace_id=ID), trace_id))
    later = message(2, trace_id=ID).model_copy(update={"created_at": NOW + timedelta(days=9)})
    store.append(added(later, f"{ID}:A"))

    def ids(**wanted: Any) -> list[str]:
        return [one.trace_id for one in chosen(store, **wanted)]

    assert ids() == [ID, OTHER]
    assert ids(user="bob") == [OTHER] == ids(trace_id=OTHER)
    assert ids(unused_since=NOW) == ids(user="bob", trace_id=ID) == ids(trace_id=f"{ID}:A") == []
    assert ids(unused_since=NOW + timedelta(days=1)) == [OTHER]
    assert ids(unused_since=NOW + timedelta(days=10)) == [ID, OTHER]
    assert [(one.owner, one.used) for one in chosen(store, trace_id=ID)] == [("ann", NOW + timedelta(days=9))]
    assert delete(store, [*chosen(store), *chosen(store)]) == 2
    with store.engine.connect() as connection:
        for table in ("traces", "events", "messages", "texts", "attachments"):
            assert connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) == 0


async def test_replica_does_not_bring_deleted_sessions_back(
    store: SqlTraceStore, url: str, tmp_path: Path
) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    for trace_id in (ID, OTHER):
        files.create(trace(trace_id))
        files.append(started(trace_id=trace_id))
    bus = Bus()
    replica = Replica(files, bus, lambda: frozenset({ID, OTHER}), url)
    replica.start()
    await until(lambda: store.copied(ID) and store.copied(OTHER), "the copies")
    store.forget(ID)
    for trace_id in (ID, OTHER):
        bus.publish(files.append(started(trace_id=trace_id)))
    await until(lambda: store.copied(OTHER) == 2, "the next event")
    assert (store.copied(ID), replica.problem) == (0, "")
    await replica.close()
    assert [one.trace_id for one in store.traces(limit=9)] == [OTHER]


def test_deleting_beside_writing_leaves_nothing_behind(store: SqlTraceStore, tmp_path: Path) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    files.create(trace())
    files.append(started())
    for name in "ABCDEFGH":
        files.create(branch_trace(f"{ID}:{name}"))
        files.append(started(trace_id=f"{ID}:{name}"))
    copy_session(files, store, ID)
    ready = threading.Barrier(2)

    def write() -> None:
        ready.wait()
        for name in "ABCDEFGH":
            with contextlib.suppress(UnknownTraceError):
                copy_session(files, store, f"{ID}:{name}")

    writing = threading.Thread(target=write)
    writing.start()
    ready.wait()
    store.forget(ID)
    writing.join()
    with store.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM traces")) == 0


def test_forgotten_session_is_not_copied_again(store: SqlTraceStore, tmp_path: Path) -> None:
    files = FileTraceStore(tmp_path / ".trace")
    files.create(trace())
    files.create(branch_trace(f"{ID}:A"))
    for session_id in (ID, f"{ID}:A"):
        files.append(started(trace_id=session_id))
        copy_session(files, store, session_id)
    store.forget(ID)
    for session_id in (ID, f"{ID}:A"):
        with pytest.raises(UnknownTraceError, match="stays deleted"):
            copy_session(files, store, session_id)
        assert store.copied(session_id) == 0
    assert store.traces(limit=9) == []
