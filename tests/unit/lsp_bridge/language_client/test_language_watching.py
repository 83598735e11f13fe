from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.language_client.pool.usage import ProcessUsage, UsageLimits, UsageWatch, usage_of
from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker, Settling
from lsp_bridge.language_client.server.work_progress import ServerWork
from lsp_bridge.language_client.specs.discovery import root_of
from lsp_bridge.language_client.text.watch_globs import covers, watchers_of

FILE = Path("/w/a")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def begin(token: object = 1, **more: object) -> dict[str, object]:
    return {"token": token, "value": {"kind": "begin", **more}}


def end(token: object = 1) -> dict[str, object]:
    return {"token": token, "value": {"kind": "end"}}


def test_a_server_is_busy_from_begin_to_end() -> None:
    progress = ServerWork(Clock())
    assert progress.busy is None
    progress.take(begin(title="Indexing", percentage=3))
    progress.take({"token": 1, "value": {"kind": "report", "percentage": 40}})
    assert progress.busy == "Indexing 40 %"
    assert progress.take(end())
    assert progress.busy is None


def test_invalid_progress_is_ignored_and_tasks_are_limited() -> None:
    progress = ServerWork(Clock())
    value: Any = {"kind": 7}
    nonsense: list[Any] = [
        {},
        {"token": []},
        begin(None),
        {"token": 1, "value": 3},
        end(5),
        {"token": 1, "value": value},
    ]
    for params in nonsense:
        assert not progress.take(params)
    assert progress.busy is None
    for token in range(1_000):
        progress.take(begin(token, title="x" * 10_000, percentage="many"))
    assert len(progress.busy or "") < 200
    for token in range(1_000):
        progress.take(end(token))
    assert progress.busy is None


def test_stalled_progress_does_not_delay_answers_forever() -> None:
    clock = Clock()
    progress = ServerWork(clock, stalled_s=60)
    progress.take(begin())
    clock.now = 59
    assert progress.busy
    clock.now = 61
    assert progress.busy is None


def answers(clock: Clock) -> tuple[DiagnosticsTracker, int]:
    books = DiagnosticsTracker(
        Settling(versioned_s=0.1, unversioned_s=0.3, doubtful_s=1.5), ServerWork(clock)
    )
    return books, books.sync(FILE, "text", now=clock.now, pull=False)[1]


def test_empty_answer_during_loading_is_not_final() -> None:
    clock = Clock()
    progress = ServerWork(clock)
    books = DiagnosticsTracker(Settling(versioned_s=0.1, unversioned_s=0.3, doubtful_s=1.5), progress)
    progress.take(begin())
    clock.now = 1.0
    _, version = books.sync(FILE, "text", now=clock.now, pull=False)
    books.push(FILE, version, (), now=2.0)
    assert books.settled_at(FILE, version, pull=False) is None
    clock.now = 3.0
    progress.take(end())
    assert books.settled_at(FILE, version, pull=False) == 4.5
    books.push(FILE, version, (), now=3.2)
    assert books.settled_at(FILE, version, pull=False) == 3.2 + 0.1


def test_answer_settles_when_work_ends_but_problems_at_once() -> None:
    clock = Clock()
    books, version = answers(clock)
    clock.now = 1.0
    books.progress.take(begin())
    books.push(FILE, version, (), now=2.0)
    assert books.settled_at(FILE, version, pull=False) is None
    books.push(FILE, version, ({"message": "bad"},), now=2.5)
    assert books.settled_at(FILE, version, pull=False) == 2.6
    books.push(FILE, version, (), now=2.7)
    clock.now = 3.0
    books.progress.take(end())
    assert books.settled_at(FILE, version, pull=False) == 3.3


@pytest.mark.parametrize("final", [True, False])
def test_work_delays_empty_pulls_of_most_servers(final: bool) -> None:
    clock = Clock()
    progress = ServerWork(clock)
    books = DiagnosticsTracker(Settling(unversioned_s=0.3), progress, pulls_are_final=final)
    _, version = books.sync(FILE, "text", now=clock.now, pull=True)
    clock.now = 1.0
    progress.take(begin())
    books.pull(FILE, version, (), now=2.0)
    assert books.settled_at(FILE, version, pull=True) == (2.0 if final else None)
    assert books.has_pulled(FILE, surely=True) is final
    clock.now = 3.0
    progress.take(end())
    assert books.settled_at(FILE, version, pull=True) == (2.0 if final else 3.3)


def test_server_without_change_sync_is_judged_by_order() -> None:
    books = DiagnosticsTracker()
    _, opened = books.sync(FILE, "old", now=0.0, pull=False)
    _, version = books.sync(FILE, "new", now=1.0, pull=False, tell=False)
    assert books.documents[FILE].told_text == "old"
    books.push(FILE, opened, (), now=2.0)
    assert books.settled_at(FILE, version, pull=False) is not None


def test_the_nearest_marked_folder_is_the_root(tmp_path: Path) -> None:
    inner = tmp_path / "packages/inner"
    (inner / "src").mkdir(parents=True)
    markers = ("package.json", "*.csproj")
    file = inner / "src/a.ts"
    assert root_of(file, tmp_path, ()) == tmp_path
    assert root_of(file, tmp_path, markers) == tmp_path
    (tmp_path / "packages/x.csproj").touch()
    assert root_of(file, tmp_path, markers) == tmp_path / "packages"
    (inner / "package.json").touch()
    assert root_of(file, tmp_path, markers) == inner
    assert root_of(inner / "not/yet/there.ts", tmp_path, markers) == inner
    (inner / "package.json").unlink()
    assert root_of(file, tmp_path, markers) == tmp_path / "packages"


def test_markers_outside_of_the_workspace_do_not_count(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (tmp_path / "package.json").touch()
    assert root_of(workspace / "a.ts", workspace, ("package.json",)) == workspace


def test_usage_includes_memory_of_child_processes() -> None:
    child = "x = bytearray(80_000_000); input()"
    code = f"import subprocess as s, sys; p = s.Popen([sys.executable, '-c', {child!r}]); print(flush=True); p.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()

        deadline = time.monotonic() + 60
        while usage_of([server.pid])[server.pid].memory_bytes < 80_000_000:
            assert time.monotonic() < deadline
        assert server.pid not in usage_of([os.getpid() + 10_000_000])
        server.communicate(b"\n")
    assert usage_of([server.pid]) == {}


def test_too_much_memory_is_a_reason_to_restart() -> None:
    limits = UsageLimits(memory_bytes=1 << 30)
    watch = UsageWatch()
    assert watch.too_much_memory(limits) is None
    watch.look(ProcessUsage(3 << 30, 0.0), 0.0, limits)
    assert watch.too_much_memory(limits) == "used 3072 MB of memory, more than 1024 MB"
    watch.look(None, 1.0, limits)
    assert watch.too_much_memory(limits) is None


def test_server_spinning_while_unused_is_stopped() -> None:
    limits, watch = UsageLimits(cpu_s=100.0), UsageWatch()
    for second in range(0, 120, 10):
        watch.look(ProcessUsage(0, second * 0.95), float(second), limits)
    assert watch.spins(limits, 110.0, used_at=0.0)
    assert watch.spins(limits, 110.0, used_at=60.0) is None
    watch.look(ProcessUsage(0, 110 * 0.95), 120.0, limits)
    assert watch.spins(limits, 500.0, used_at=0.0) is None


def test_a_glob_that_is_made_to_hang_does_not() -> None:
    evil = "**/" * 30 + "*a" * 30 + "b"
    assert not covers(evil, "/".join(["a" * 60] * 30))
    assert not covers("*a" * 400, "a" * 300)
    assert not covers("{a,b}" * 200, "whatever")
    assert covers("{a,b}" * 200, "ab" * 100)
    assert covers("*a" * 5_000, "whatever")
    assert covers("{{a,b},{c,d{e,f}}}x", "dfx")


def test_too_many_watchers_become_one_for_everything() -> None:
    [watcher] = watchers_of({"watchers": [{"globPattern": f"{n}"} for n in range(5000)]}, Path("/w"))
    assert watcher.wants(Path("/w/any/thing"), "create")
    assert watchers_of({"watchers": 5}, Path("/w")) == []
