"""The real kernel's reports about changed files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.files.event_sources import InotifySource, ObserverSource, Source
from tests.support.drivers.waiting import until


class Heard:
    """The reports of a source; it can be made to wait."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.lost = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.sources: list[Source] = []

    def path(self, path: str) -> None:
        self.paths.append(path)
        self.may_go_on.wait()

    def lose(self) -> None:
        self.lost += 1

    def inotify(self, folder: Path, *, touched: bool = True) -> InotifySource:
        source = InotifySource(self.path, self.lose, touched=touched)
        self.sources.append(source)
        source.add(str(folder))
        return source


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    yield heard
    heard.may_go_on.set()
    for source in heard.sources:
        source.close()


async def test_an_overflow_of_the_kernels_queue_is_told(heard: Heard, tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.touch()
    source = heard.inotify(tmp_path)
    heard.may_go_on.clear()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(most + 10_000):
        os.utime(files[number % 2])
    assert heard.lost == 0
    heard.may_go_on.set()
    await until(lambda: heard.lost == 1, "the overflow")
    # It goes on after that.
    (tmp_path / "c").touch()
    await until(lambda: str(tmp_path / "c") in heard.paths)
    source.close()


async def test_a_folder_that_moved_goes_by_its_new_name(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    source = heard.inotify(tmp_path)
    source.add(str(tmp_path / "old"))
    source.add(str(tmp_path / "old"))  # twice is as good as once
    (tmp_path / "old").rename(tmp_path / "new")
    source.add(str(tmp_path / "new"))
    (tmp_path / "new" / "a").touch()
    await until(lambda: str(tmp_path / "new" / "a") in heard.paths)
    source.remove(str(tmp_path / "old"))
    source.remove(str(tmp_path / "new"))
    (tmp_path / "new" / "b").touch()
    (tmp_path / "c").touch()
    await until(lambda: str(tmp_path / "c") in heard.paths)
    assert str(tmp_path / "new" / "b") not in heard.paths


async def test_reads_are_ignored_and_touches_reported_on_request(heard: Heard, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("a")
    heard.inotify(tmp_path, touched=False)
    file.read_text()
    file.chmod(0o600)
    (tmp_path / "b").touch()
    await until(lambda: str(tmp_path / "b") in heard.paths)
    assert set(heard.paths) == {str(tmp_path / "b")}
    heard.inotify(tmp_path)
    file.chmod(0o644)
    await until(lambda: str(file) in heard.paths)


async def test_a_folder_that_is_not_there_is_an_error(heard: Heard, tmp_path: Path) -> None:
    source = heard.inotify(tmp_path)
    with pytest.raises(FileNotFoundError):
        source.add(str(tmp_path / "nowhere"))


async def test_a_folder_that_is_made_anew_can_be_watched_anew(heard: Heard, tmp_path: Path) -> None:
    source = heard.inotify(tmp_path)
    for _ in range(3):
        (tmp_path / "x").mkdir()
        source.add(str(tmp_path / "x"))
        heard.paths.clear()
        (tmp_path / "x" / "a").touch()
        await until(lambda: str(tmp_path / "x" / "a") in heard.paths)
        (tmp_path / "x" / "a").unlink()
        (tmp_path / "x").rmdir()


async def test_elsewhere_a_whole_folder_or_single_ones_are_watched(heard: Heard, tmp_path: Path) -> None:
    for name in ("whole/deep", "single"):
        (tmp_path / name).mkdir(parents=True)
    source = ObserverSource(heard.path, tmp_path / "whole")
    source.add(str(tmp_path / "whole" / "deep"))
    source.add(str(tmp_path / "single"))
    for name in ("whole/deep/a", "single/b"):
        (tmp_path / name).write_text("x")
        await until(lambda name=name: str(tmp_path / name) in heard.paths)
    source.close()
    await until(lambda: not [t for t in threading.enumerate() if type(t).__name__ == "InotifyObserver"])
