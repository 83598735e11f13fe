"""Changes on disk by somebody else, with the real watchdog."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.files.watch import FileWatch
from tests.support.drivers.waiting import until


def watching() -> set[threading.Thread]:
    """Return the threads that watch, those of other tests included."""
    return {thread for thread in threading.enumerate() if "Inotify" in type(thread).__name__}


class Watched:
    def __init__(self) -> None:
        self.changed: list[str] = []
        self.watch = FileWatch(lambda path: self.changed.append(path.name))

    async def ready(self) -> None:
        """Until the threads that set the watches are done."""
        await until(lambda: not self.watch._background)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.watch.close()


async def test_a_burst_of_changes_is_told_once(watched: Watched, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("0")
    watched.watch.add(path)
    await watched.ready()
    for number in range(20):
        path.write_text(str(number))
    await until(lambda: watched.changed)
    await until(lambda: not watched.watch._waiting)
    assert watched.changed == ["a.py"]


async def test_creation_removal_and_a_save_by_rename_are_changes(watched: Watched, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    watched.watch.add(path)
    await watched.ready()
    path.write_text("made")
    await until(lambda: watched.changed == ["a.py"], "the creation")
    (tmp_path / "a.py.tmp").write_text("new")
    (tmp_path / "a.py.tmp").replace(path)
    await until(lambda: watched.changed == ["a.py"] * 2, "the rename")
    path.unlink()
    await until(lambda: watched.changed == ["a.py"] * 3, "the removal")


async def test_neighbours_that_nobody_works_on_are_not_told(watched: Watched, tmp_path: Path) -> None:
    watched.watch.add(tmp_path / "a.py")
    await watched.ready()
    (tmp_path / "b.py").write_text("x")
    (tmp_path / "a.py").write_text("x")
    await until(lambda: watched.changed)
    assert watched.changed == ["a.py"]


async def test_many_folders_at_once_share_one_observer(watched: Watched, tmp_path: Path) -> None:
    before = threading.active_count()
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        watched.watch.add(folder / "a.py")
        watched.watch.add(folder / "b.py")
    await watched.ready()
    observers = [t for t in threading.enumerate() if type(t).__name__ == "InotifyObserver"]
    assert len(observers) <= 1, f"{before} threads before"
    for number in range(8):
        (tmp_path / str(number) / "b.py").write_text("x")
    await until(lambda: len(watched.changed) == 8)


async def test_a_folder_that_does_not_exist_is_no_error(watched: Watched, tmp_path: Path) -> None:
    watched.watch.add(tmp_path / "nowhere" / "a.py")
    await watched.ready()
    watched.watch.add(tmp_path / "b.py")
    await watched.ready()
    (tmp_path / "b.py").write_text("x")
    await until(lambda: watched.changed == ["b.py"])


async def test_a_folder_that_comes_later_can_be_watched_then(watched: Watched, tmp_path: Path) -> None:
    watched.watch.add(tmp_path / "later" / "a.py")
    await watched.ready()
    (tmp_path / "later").mkdir()
    watched.watch.add(tmp_path / "later" / "a.py")
    await watched.ready()
    (tmp_path / "later" / "a.py").write_text("x")
    await until(lambda: watched.changed == ["a.py"])


async def test_after_close_nothing_is_told_and_no_thread_is_left(tmp_path: Path) -> None:
    before = watching()
    watched = Watched()
    watched.watch.add(tmp_path / "a.py")
    await watched.ready()
    (tmp_path / "a.py").write_text("x")
    await watched.watch.close()
    await asyncio.sleep(0)
    count = len(watched.changed)
    (tmp_path / "a.py").write_text("y")
    await until(lambda: not watching() - before)
    assert len(watched.changed) == count
    await watched.watch.close()


async def test_closing_while_a_watch_is_being_set_leaves_no_thread(tmp_path: Path) -> None:
    before = watching()
    watched = Watched()
    watched.watch.add(tmp_path / "a.py")
    await watched.watch.close()
    await until(lambda: not watching() - before)
