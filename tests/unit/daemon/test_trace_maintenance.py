"""The daemon deletes, rebuilds and takes in traces, and lets nobody's work be lost by it."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.store import provenance
from daemon.store.archive import export_trace
from daemon.store.files import FileTraceStore
from daemon.store.provenance import OwnSessions
from daemon.store.pruning import PruneLimits
from daemon.store.trace_store import StoreError, UnknownTraceError
from daemon.trace_maintenance import InUseError, TraceMaintenance
from tests.support.drivers.core import ALLOW_ALL, Bench, daemon, finish, prompted
from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call
from tests.support.scenarios.stored_traces import ID, NOW, write_trace
from tools.files.regular_files import write_private

OTHER = "20260101-000000-000000bbbb"


async def worked(bench: Bench) -> str:
    """A session with a finished turn, which nobody looks at any more."""
    session = bench.session()
    await finish(prompted(session, "do it"))
    bench.core.bus.unsubscribe(bench.heard.append)
    return session.session_id


def left(bench: Bench) -> list[str]:
    return bench.core.store.trace_ids()


async def test_pruned_sessions_are_deleted_and_disowned(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one", "two", "three") as bench:
        ids = [await worked(bench) for _ in range(3)]
        done = await bench.core.trace_maintenance.prune(PruneLimits(keep=1))
        assert [one.trace_id for one in done.deleted] == ids[:2]
        assert (done.kept, left(bench)) == (1, [ids[2]])
        assert [bench.core.is_foreign(trace_id) for trace_id in ids] == [True, True, False]
        with pytest.raises(UnknownTraceError):
            await bench.core.session(ids[0])


async def test_traces_of_the_repository_do_not_displace_own_sessions(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one", "two", check=False) as bench:
        ids = [await worked(bench) for _ in range(2)]
        for name in ("z0", "z1", "z2"):
            write_trace(bench.core.store, name, created=datetime(9999, 1, 1, tzinfo=UTC), text="x" * 9000)
        for limits in (
            PruneLimits(keep=2),
            PruneLimits(max_mb=1e-6, keep=2),
            PruneLimits(keep=2, keep_days=1e-9),
        ):
            await bench.core.trace_maintenance.prune(limits)
            assert set(ids) < set(left(bench))
        assert len(left(bench)) == 4
        await bench.core.trace_maintenance.prune(PruneLimits(keep=1))
        assert ids[1] in left(bench)


async def test_a_dry_run_deletes_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one", "two") as bench:
        ids = [await worked(bench) for _ in range(2)]
        done = await bench.core.trace_maintenance.prune(PruneLimits(keep=1), dry_run=True)
        assert [one.trace_id for one in done.deleted] == ids[:1]
        assert done.freed > 0
        assert sorted(left(bench)) == ids
        assert bench.core.live(ids[0]) is not None


async def test_watched_session_is_not_pruned_or_rebuilt(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one", "two") as bench:
        first = await worked(bench)
        await worked(bench)
        bench.core.bus.subscribe(first, bench.heard.append)
        done = await bench.core.trace_maintenance.prune(PruneLimits(keep=1))
        assert (done.deleted, done.kept) == ((), 2)
        with pytest.raises(InUseError, match="somebody is working in it or viewing it"):
            await bench.core.trace_maintenance.rebuild(first)


async def test_running_or_waiting_session_is_not_pruned_or_rebuilt(tmp_path: Path) -> None:
    write = [Call("write", {"file_path": "a.txt", "content": "x"})]
    async with daemon(tmp_path, write, "two", "done") as bench:
        session = bench.core.new_session(model="fake/model")
        turn = prompted(session, "write it")
        await bench.asked()
        await worked(bench)  # so that it is not the newest
        done = await bench.core.trace_maintenance.prune(PruneLimits(keep=1))
        assert (done.deleted, done.kept) == ((), 2)
        with pytest.raises(InUseError):
            await bench.core.trace_maintenance.rebuild(session.session_id)
        await bench.answer()
        await finish(turn)


async def test_rebuilt_session_is_reloaded_from_its_new_files(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one", "two") as bench:
        session_id = await worked(bench)
        before = bench.core.live(session_id)
        folder = bench.core.store.folder(session_id)
        (folder / "meta.json").write_text("{")
        for path in (folder / "messages").glob("*.json"):
            path.unlink()
        done = await bench.core.trace_maintenance.rebuild(session_id)
        assert not done.failed
        assert bench.core.live(session_id) is None
        session = await bench.core.session(session_id)
        assert session is not before
        result = await finish(prompted(session, "go on"))
        assert result.stop == "end_turn"
        assert [m.role for m in session.state.messages] == ["user", "assistant"] * 2


async def test_session_cannot_be_opened_while_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, "one", "two") as bench:
        first = await worked(bench)
        await worked(bench)
        deleting, go_on = threading.Event(), threading.Event()
        delete = bench.core.store.delete

        def slow(trace_id: str) -> None:
            deleting.set()
            assert go_on.wait(60)
            delete(trace_id)

        monkeypatch.setattr(bench.core.store, "delete", slow)
        pruning = asyncio.create_task(bench.core.trace_maintenance.prune(PruneLimits(keep=1)))
        await until(deleting.is_set)
        try:
            with pytest.raises(InUseError, match="Try again"):
                await bench.core.session(first)
        finally:
            go_on.set()
        assert [one.trace_id for one in (await pruning).deleted] == [first]
        with pytest.raises(UnknownTraceError):
            await bench.core.session(first)


async def test_failed_deletion_is_reported_and_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, "one", "two", "three") as bench:
        ids = [await worked(bench) for _ in range(3)]
        delete = bench.core.store.delete

        def failing(trace_id: str) -> None:
            if trace_id == ids[0]:
                raise StoreError("it is in the way")
            delete(trace_id)

        monkeypatch.setattr(bench.core.store, "delete", failing)
        done = await bench.core.trace_maintenance.prune(PruneLimits(keep=1))
        assert [one.trace_id for one in done.deleted] == [ids[1]]
        assert done.problems == ("it is in the way",)


async def test_the_settings_prune_at_the_start_and_every_day(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / "workspace" / ".trace")
    (tmp_path / "workspace").mkdir()
    write_trace(store, ID)
    write_trace(store, OTHER, created=NOW + timedelta(days=100))
    settings = {"trace_keep_days": 30}
    now = NOW + timedelta(days=110)
    async with daemon(tmp_path, command_line=settings, now=lambda: now, check=False) as bench:
        tidying = asyncio.create_task(bench.core.trace_maintenance.daily(pause_s=0.01))
        await until(lambda: left(bench) == [OTHER], "the old one is gone")
        write_trace(store, ID)
        await until(lambda: left(bench) == [OTHER], "the old one is gone, the next day")
        tidying.cancel()


@pytest.mark.parametrize("dumped", [False, True], ids=["", "with debug_trace"])
async def test_an_unused_session_is_closed_and_opens_again_unchanged(tmp_path: Path, dumped: bool) -> None:
    async with daemon(tmp_path, "one", "two", "three", command_line={"debug_trace": dumped}) as bench:
        watched = bench.session()
        await finish(prompted(watched, "stay"))
        unused = await worked(bench)
        bench.core.bus.subscribe(watched.session_id, bench.heard.append)
        session = bench.core.live(unused)
        assert session is not None
        before, session = session.state.messages, weakref.ref(session)
        unloading = asyncio.create_task(bench.core.trace_maintenance.unload_unused(after_s=0, look_s=0.01))
        await until(lambda: bench.core.live(unused) is None, "nobody uses it")
        again = await bench.core.session(unused)
        unloading.cancel()
        assert bench.core.live(watched.session_id) is watched
        assert again.state.messages == before
        gc.collect()
        assert session() is None
        assert (await finish(prompted(again, "go on"))).stop == "end_turn"


async def test_a_session_at_work_or_with_a_question_stays_open(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one", Call("bash", {"command": "make it"}), "done") as bench:
        unused = await worked(bench)
        session = bench.session()
        turn = prompted(session, "do it")
        await until(lambda: bool(session.state.pending), "the question")
        bench.core.bus.unsubscribe(bench.heard.append)
        unloading = asyncio.create_task(bench.core.trace_maintenance.unload_unused(after_s=0, look_s=0.001))
        await until(lambda: bench.core.live(unused) is None, "nobody uses the other one")
        assert bench.core.live(session.session_id) is session
        unloading.cancel()
        session.cancel()
        await turn


async def test_leftovers_of_a_killed_import_are_removed_at_start(tmp_path: Path) -> None:
    left_behind = tmp_path / "workspace" / ".trace" / ".import-x" / "trace"
    left_behind.mkdir(parents=True)
    async with daemon(tmp_path) as bench:
        tidying = asyncio.create_task(bench.core.trace_maintenance.daily())
        await until(lambda: not left_behind.parent.exists(), "the folder is gone")
        tidying.cancel()


async def test_session_watched_without_being_opened_is_kept(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / "workspace" / ".trace")
    (tmp_path / "workspace").mkdir()
    for trace_id in (ID, OTHER):
        write_trace(store, trace_id)
    async with daemon(tmp_path, check=False) as bench:
        bench.core.bus.subscribe(ID, bench.heard.append)  # as the WebSocket does, which opens no session
        assert (await bench.core.trace_maintenance.prune(PruneLimits(keep=1))).deleted == ()
        bench.core.bus.unsubscribe(bench.heard.append)
        assert len((await bench.core.trace_maintenance.prune(PruneLimits(keep=1))).deleted) == 1


async def test_without_limits_nothing_is_pruned(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / "workspace" / ".trace")
    (tmp_path / "workspace").mkdir()
    for number in range(5):
        write_trace(store, f"20200101-000000-00000000{number:02d}")
    async with daemon(tmp_path, check=False) as bench:
        done = await bench.core.trace_maintenance.prune()
        assert (done.deleted, done.kept, done.kept_bytes) == ((), 5, None)


async def test_session_exported_here_still_counts_as_imported(tmp_path: Path) -> None:
    call = [Call("bash", {"command": "echo hi"})]
    async with daemon(tmp_path, call, "one", command_line=ALLOW_ALL) as bench:
        session_id = await worked(bench)
        archive = tmp_path / "a.tar.gz"
        export_trace(bench.core.store, session_id, archive)
        with pytest.raises(StoreError, match="already"):
            await bench.core.trace_maintenance.take_in(archive)
        assert not bench.core.is_foreign(session_id)
        await bench.core.trace_maintenance.prune(PruneLimits(keep=1))  # it is the newest: it stays
        bench.core.store.delete(session_id)
        with pytest.raises(InUseError, match="open in the daemon"):
            await bench.core.trace_maintenance.take_in(archive)
    async with daemon(tmp_path, check=False) as bench:  # of a foreign one less counts than its log says
        done = await bench.core.trace_maintenance.take_in(archive)
        assert (done.trace_id, left(bench)) == (session_id, [session_id])
        assert bench.core.is_foreign(session_id)
        session = await bench.core.session(session_id)
        assert session.foreign
        assert len(session.state.messages) == 4
    async with daemon(tmp_path, check=False) as bench:  # the next one reads the list from the disk
        assert bench.core.is_foreign(session_id)


async def test_a_branch_is_not_rebuilt_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path) as bench:
        with pytest.raises(StoreError, match="the session it belongs to"):
            await bench.core.trace_maintenance.rebuild(f"{ID}:A")


async def test_rebuild_does_not_write_through_links(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    write_trace(store)
    (tmp_path / "mine.json").write_text("mine")
    meta = store.root / ID / "meta.json"
    meta.unlink()
    meta.symlink_to(tmp_path / "mine.json")
    trace_maintenance = TraceMaintenance(
        store, OwnSessions(tmp_path / "home", tmp_path), lambda: datetime.now(UTC), limits=PruneLimits
    )
    with pytest.raises(StoreError, match="links"):
        await trace_maintenance.rebuild(ID)
    assert (tmp_path / "mine.json").read_text() == "mine"


def test_forgotten_session_is_removed_from_the_list(tmp_path: Path) -> None:
    own = OwnSessions(tmp_path / "home", tmp_path)
    own.add(ID)
    own.add(OTHER)
    own.forget(ID)
    own.forget("never there")
    assert (ID in own, OTHER in own) == (False, True)
    again = OwnSessions(tmp_path / "home", tmp_path)
    assert (ID in again, OTHER in again) == (False, True)


def test_session_begun_while_another_is_forgotten_stays_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnSessions(tmp_path, tmp_path)
    own.add(ID)
    beginning = threading.Thread(target=own.add, args=(OTHER,))

    def slow(path: Path, data: bytes) -> None:
        beginning.start()
        beginning.join(0.2)  # it may wait for us
        write_private(path, data)

    monkeypatch.setattr(provenance, "write_private", slow)
    own.forget(ID)
    beginning.join()
    assert OTHER in OwnSessions(tmp_path, tmp_path)


async def test_last_used_session_is_independent_of_the_clock(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    own = OwnSessions(tmp_path / "home", tmp_path)
    trace_maintenance = TraceMaintenance(store, own, lambda: datetime.now(UTC), limits=PruneLimits)
    assert await trace_maintenance.last_used() == ("", None)
    write_trace(store)
    own.add(ID)
    own.add(OTHER)  # never began
    assert await trace_maintenance.last_used() == (ID, None)
    write_trace(store, OTHER)
    assert await trace_maintenance.last_used() == (OTHER, None)
    for _ in range(1_000):
        own.use(ID)
        own.use(OTHER)
    own.use(ID)
    own.use("20200101-000000-000000beef")  # begun elsewhere
    again = OwnSessions(tmp_path / "home", tmp_path)
    assert (again.by_use(), again.all()) == ([ID, OTHER], {ID, OTHER})
    (listed,) = (tmp_path / "home/sessions").iterdir()
    assert len(listed.read_text().split()) < 300
    store.close()
    (store.root / ID / "meta.json").write_text("{}")
    (store.root / ID / "events.jsonl").write_text("")
    last, broken = await trace_maintenance.last_used()
    assert (last, broken and broken.trace_id) == (ID, ID)


async def test_unused_session_is_not_the_last_used_one(tmp_path: Path) -> None:
    async with daemon(tmp_path, "Done.") as bench:
        worked_on = await worked(bench)
        bench.core.used(worked_on)
        empty = bench.core.new_session()
        empty.notice("info", "told")
        trace_maintenance = bench.core.trace_maintenance
        assert await trace_maintenance.last_used() == (worked_on, None)
        assert [trace.trace_id for trace in await bench.core.traces(limit=9)] == [worked_on]
        bench.core.bus.subscribe(empty.session_id, lambda _: None)
        assert len(await bench.core.traces(limit=9)) == 2, "a client looks at it"
        bench.core.update_session(empty, {"title": "Mine", "titled_by": "user"})
        empty.record.snapshot()
        assert await trace_maintenance.last_used() == (empty.session_id, None)


async def test_the_session_used_last_is_not_pruned(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path / ".trace")
    own = OwnSessions(tmp_path / "home", tmp_path)
    for trace_id in sorted([ID, OTHER]):
        write_trace(store, trace_id)
        own.add(trace_id)
    first = min(ID, OTHER)
    own.use(first)
    trace_maintenance = TraceMaintenance(store, own, lambda: datetime.now(UTC), limits=PruneLimits)
    pruned = await trace_maintenance.prune(PruneLimits(keep_days=1e-9))
    assert first not in [one.trace_id for one in pruned.deleted]


async def test_session_is_deleted_while_shown_but_not_while_running(tmp_path: Path) -> None:
    write = [Call("write", {"file_path": "a.txt", "content": "x"})]
    async with daemon(tmp_path, "one", write, "done") as bench:
        trace_maintenance, first = bench.core.trace_maintenance, await worked(bench)
        bench.core.bus.subscribe(first, lambda item: None)
        await trace_maintenance.delete(first)
        assert (left(bench), bench.core.live(first), bench.core.is_foreign(first)) == ([], None, True)
        with pytest.raises(UnknownTraceError):
            await trace_maintenance.delete(first)

        session = bench.core.new_session(model="fake/model")
        turn = prompted(session, "write it")
        await bench.asked()
        with pytest.raises(InUseError, match="is running"):
            await trace_maintenance.delete(session.session_id)
        assert left(bench) == [session.session_id]
        await bench.answer()
        await finish(turn)
        with pytest.raises(StoreError, match="Delete the session it belongs to"):
            await trace_maintenance.delete(f"{session.session_id}:A")


async def test_a_damaged_session_can_be_deleted(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one") as bench:
        session_id = await worked(bench)
        folder = bench.core.store.folder(session_id)
    (folder / "meta.json").write_text("{")
    (folder / "events.jsonl").write_text("")
    async with daemon(tmp_path) as bench:
        await bench.core.trace_maintenance.delete(session_id)
        assert left(bench) == []
        with pytest.raises(UnknownTraceError):
            await bench.core.trace_maintenance.delete(session_id)


async def test_sessions_are_searched_by_title_and_text(tmp_path: Path) -> None:
    async with daemon(tmp_path, "The Straße is closed.", "nothing", check=False) as bench:
        first, second = await worked(bench), await worked(bench)
        trace_maintenance = bench.core.trace_maintenance
        [hit] = await trace_maintenance.search("  strasse is\nCLOSED ", 9)
        assert (hit.trace_id, hit.excerpt) == (first, "The Straße is closed.")
        assert [hit.trace_id for hit in await trace_maintenance.search("do it", 9)] == [second, first]
        assert len(await trace_maintenance.search("do it", 1)) == 1
        assert await trace_maintenance.search("tool_call", 9) == []
        assert await trace_maintenance.search(" ", 9) == []
        bench.core.update_session(await bench.core.session(first), {"title": "Roads"})
        [hit] = await trace_maintenance.search("roads", 9)
        assert (hit.kind, hit.title) == ("title", "Roads")


async def test_a_session_is_exported_also_over_an_older_archive(tmp_path: Path) -> None:
    async with daemon(tmp_path, "one") as bench:
        trace_id, target = await worked(bench), tmp_path / "one.tar.gz"
        target.write_bytes(b"older")
        done = await bench.core.trace_maintenance.export(trace_id, target)
        assert (done.path, done.size) == (target, target.stat().st_size)
