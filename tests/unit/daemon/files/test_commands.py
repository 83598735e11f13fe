"""Changes by commands are seen, with the content before: real files, real git, the real kernel's events."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.files import command_changes, event_sources
from daemon.files.changes import changes_of
from daemon.files.command_changes import CommandWatches
from daemon.files.history import SessionHistory
from daemon.files.versions import Version
from tests.support.drivers.waiting import until
from tools.tool import CommandChange

NOW = datetime(2025, 1, 1, tzinfo=UTC)
PATIENT_S = 60.0
CLEAN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def sh(folder: Path, script: str) -> None:
    """Run a script with nothing of the developer's own git settings."""
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    env = {"PATH": os.environ["PATH"], **CLEAN, **dict.fromkeys(names, "t")}
    subprocess.run(["sh", "-ec", script], cwd=folder, env=env, check=True, capture_output=True)


class Watched:
    """A workspace whose commands are watched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "w"
        (self.workspace / ".trace").mkdir(parents=True)
        self.told: list[Version] = []
        self.changed: list[Path] = []
        self.open()

    def open(self) -> None:
        self.watches = CommandWatches(
            self.workspace,
            self.workspace / ".trace",
            self.folder / "copies",
            self.changed.append,
            before_s=PATIENT_S,
            after_s=PATIENT_S,
        )
        self.history = SessionHistory(
            self.folder / "files",
            lambda: NOW,
            self.workspace,
            on_written=self.told.extend,
            watch=self.watches.watch,
        )

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def git(self, *ignored: str) -> None:
        """Commit everything that is there."""
        self.write(".gitignore", "".join(f"{name}\n" for name in (".trace", *ignored)))
        sh(self.workspace, "git init -q; git add -A; git commit -qm one")
        # Changed in the very moment git looks, a file would not be trusted to be what git saw.
        os.utime(self.workspace / ".git" / "index", (2_000_000_000, 2_000_000_000))

    async def ready(self) -> None:
        """Know the tree, with all that can be copied."""
        await self.command("true")

    async def command(self, script: str) -> Sequence[CommandChange]:
        watch = await self.history.watch_command("call_1")
        await asyncio.to_thread(sh, self.workspace, script)
        return await watch.ended()

    def names(self, changes: Sequence[CommandChange]) -> list[tuple[str, str, bool]]:
        """Path, kind, and whether it can be undone."""
        return [
            (c.path.relative_to(self.workspace).as_posix(), c.kind, c.version is not None) for c in changes
        ]

    def before(self, change: CommandChange) -> bytes | None:
        """The kept old content of a change."""
        version = next(v for v in self.history.record().versions() if v.version == change.version)
        assert version.entry is not None
        return None if version.entry.before is None else self.history.blobs.get(version.entry.before)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    await watched.watches.close()


async def test_tracked_files_have_their_old_content_from_git(watched: Watched) -> None:
    watched.write("src/a.py", "one\ntwo\n")
    watched.write("src/gone.py", "gone\n")
    watched.git()
    changes = await watched.command("sed -i s/two/2/ src/a.py; rm src/gone.py; echo new > b.txt; cat src/*")
    assert watched.names(changes) == [
        ("b.txt", "create", True),
        ("src/a.py", "update", True),
        ("src/gone.py", "delete", True),
    ]
    assert [(c.added, c.removed) for c in changes] == [(1, 0), (1, 1), (0, 1)]
    assert [watched.before(change) for change in changes] == [None, b"one\ntwo\n", b"gone\n"]
    assert [v.path.name for v in watched.told] == ["b.txt", "a.py", "gone.py"]
    assert {path.name for path in watched.changed} == {"b.txt", "a.py", "gone.py"}


async def test_content_missing_in_git_is_copied_before_a_command(watched: Watched) -> None:
    dirty = watched.write("dirty.txt", "committed\n")
    watched.git()
    dirty.write_text("not committed\n")
    watched.write("untracked.txt", "untracked\n")
    await watched.ready()
    changes = await watched.command("echo x >> dirty.txt; echo x > untracked.txt")
    assert watched.names(changes) == [("dirty.txt", "update", True), ("untracked.txt", "update", True)]
    assert [watched.before(c) for c in changes] == [b"not committed\n", b"untracked\n"]


async def test_command_changes_are_tracked_without_git(watched: Watched) -> None:
    watched.write("a.txt", "a\n")
    watched.write("node_modules/m.js", "m\n")
    watched.write("build/out.o", "o\n")
    changes = await watched.command("echo b > a.txt; echo x > node_modules/m.js; echo x > build/out.o")
    assert watched.names(changes) == [("a.txt", "update", True)]
    assert watched.before(changes[0]) == b"a\n"


async def test_one_command_after_another(watched: Watched) -> None:
    path = watched.write("a.txt", "0\n")
    watched.git()
    for number in range(1, 6):
        (change,) = await watched.command(f"echo {number} > a.txt")
        assert watched.before(change) == f"{number - 1}\n".encode()
    path.write_text("mine\n")
    (change,) = await watched.command("echo theirs > a.txt")
    assert watched.before(change) == b"mine\n"
    assert await watched.command("cat a.txt; ls; git status") == []


async def test_ignored_files_are_not_reported(watched: Watched) -> None:
    watched.write("out/old.log", "x\n")
    watched.git("out", "*.log", "fresh")
    changes = await watched.command(
        "echo y >> out/old.log; echo y > new.log; mkdir -p fresh/deep; echo y > fresh/deep/f; git gc -q; echo y > a"
    )
    assert watched.names(changes) == [("a", "create", True)]


async def test_ignored_files_in_new_folders_are_not_reported(watched: Watched) -> None:
    watched.write("app", "x\n")
    watched.git("*.log", "target/")
    await watched.ready()
    changes = await watched.command(
        "rm app; for d in app web; do mkdir -p $d/target; echo x | tee $d/a $d/a.log $d/target/o $d/out; done;"
        "echo out > web/.gitignore"
    )
    names = [("app", "delete"), ("app/a", "create"), ("app/out", "create"), ("web/.gitignore", "create")]
    assert [named[:2] for named in watched.names(changes)] == [*names, ("web/a", "create")]


async def test_ignored_files_are_skipped_beside_inner_repositories(watched: Watched) -> None:
    watched.write("lib/a", "x\n")
    watched.write("src/a", "x\n")
    watched.write("to/a", "x\n")
    sh(watched.workspace / "lib", "git init -q; git add -A; git commit -qm one")
    watched.git("*.log")
    await watched.ready()
    changes = await watched.command(
        "mkdir lib/new new; rm -r src; ln -s to src; echo x | tee lib/b lib/new/b src/b z.log new/b new/z.log"
    )
    assert [name for name, _, _ in watched.names(changes)] == ["lib/b", "lib/new/b", "new/b", "src/a", "to/b"]


@pytest.mark.parametrize("with_events", [True, False])
async def test_files_that_become_ignored_are_not_deleted(watched: Watched, with_events: bool) -> None:
    watched.git()
    watched.write("data/a.csv", "1\n")
    watched.write("a.tmp", "1\n")
    await watched.ready()
    if not with_events:
        watched.watches.events._lose()
    changes = await watched.command("printf 'data/\n*.tmp\n' >> .gitignore")
    assert watched.names(changes) == [(".gitignore", "update", True)]
    assert watched.names(await watched.command("echo 2 | tee data/a.csv a.tmp")) == []


async def test_folders_that_move_come_and_go(watched: Watched) -> None:
    watched.write("old/deep/a.txt", "a\n")
    watched.write("old/b.txt", "b\n")
    watched.git()
    changes = await watched.command("mv old new; mkdir -p other/x; echo c > other/x/c.txt")
    assert watched.names(changes) == [
        ("new/b.txt", "create", True),
        ("new/deep/a.txt", "create", True),
        ("old/b.txt", "delete", True),
        ("old/deep/a.txt", "delete", True),
        ("other/x/c.txt", "create", True),
    ]
    entry = watched.told[-1].entry
    assert entry is not None
    assert [f.relative_to(watched.workspace).as_posix() for f in entry.folders] == ["other", "other/x"]
    changes = await watched.command("echo more >> new/deep/a.txt; rm -r other")
    assert watched.names(changes) == [("new/deep/a.txt", "update", True), ("other/x/c.txt", "delete", True)]
    assert watched.before(changes[0]) == b"a\n"


async def test_a_checkout_of_another_commit_can_be_undone(watched: Watched) -> None:
    for number in range(20):
        watched.write(f"{number}.txt", f"one {number}\n")
    watched.git()
    sh(watched.workspace, "git checkout -qb two; for f in *.txt; do echo two > $f; done; git commit -qam two")
    await watched.ready()
    changes = await watched.command("git checkout -q -")
    assert len(changes) == 20
    assert all(watched.before(change) == b"two\n" for change in changes)


async def test_mode_change_is_reported_but_a_touch_is_not(watched: Watched) -> None:
    path = watched.write("run.sh", "true\n")
    path.chmod(0o644)
    watched.git()
    changes = await watched.command("chmod 755 run.sh; touch .gitignore")
    assert watched.names(changes) == [("run.sh", "update", True)]
    entry = watched.told[-1].entry
    assert entry is not None
    assert (entry.before_mode, entry.after_mode) == (0o644, 0o755)


async def test_oversized_file_change_is_reported_as_not_undoable(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.files.tree.MAX_FILE", 10)
    watched.write("large.txt", "x" * 100)
    changes = await watched.command("echo y > large.txt")
    assert watched.names(changes) == [("large.txt", "update", False)]
    assert [(v.version, v.entry) for v in watched.told] == [(None, None)]


async def test_concurrent_writes_of_others_are_not_attributed(watched: Watched) -> None:
    watched.write("mine.txt", "1\n")
    await watched.ready()
    watch = await watched.history.watch_command("call_1")
    path = watched.write("mine.txt", "2\n")
    watched.watches.wrote(path)
    watched.write("its.txt", "x\n")
    assert watched.names(await watch.ended()) == [("its.txt", "create", True)]
    assert await watched.command("true") == []


async def test_two_commands_at_once_miss_nothing(watched: Watched) -> None:
    watched.write("a.txt", "1\n")
    first = await watched.history.watch_command("call_1")
    watched.write("a.txt", "2\n")
    second = await watched.history.watch_command("call_2")
    watched.write("b.txt", "2\n")
    assert watched.names(await first.ended()) == [("a.txt", "update", True), ("b.txt", "create", True)]
    assert watched.names(await second.ended()) == [] or watched.names(await second.ended())


async def test_lost_file_events_cause_a_full_scan(watched: Watched) -> None:
    watched.write("a/b/c.txt", "1\n")
    watched.git()
    await watched.ready()
    watch = await watched.history.watch_command("call_1")
    sh(watched.workspace, "echo 2 > a/b/c.txt; mkdir new; echo n > new/n.txt")
    watched.watches.events._lose()
    assert watched.names(await watch.ended()) == [
        ("a/b/c.txt", "update", True),
        ("new/n.txt", "create", True),
    ]


async def test_without_inotify_the_whole_tree_is_compared(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(24, "no instance left")

    monkeypatch.setattr(event_sources, "InotifySource", refuse)
    watched.write("a.txt", "1\n")
    watched.write("b/b.txt", "1\n")
    changes = await watched.command("echo 2 > a.txt; rm -r b; mkdir c; echo c > c/c.txt")
    assert watched.names(changes) == [
        ("a.txt", "update", True),
        ("b/b.txt", "delete", True),
        ("c/c.txt", "create", True),
    ]


async def test_watchdog_events_track_changes_on_other_platforms(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_sources.sys, "platform", "elsewhere")
    watched.write("a/a.txt", "1\n")
    await watched.ready()
    for number in range(2, 5):
        (change,) = await watched.command(f"echo {number} > a/a.txt")
        assert watched.before(change) == f"{number - 1}\n".encode()


async def test_command_that_outruns_the_scan_reports_no_undo_version(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.write("a.txt", "1\n")
    monkeypatch.setattr(watched.watches, "_before_s", 0.0)
    watch = await watched.history.watch_command("call_1")
    await until(lambda: watched.watches._built)
    watched.write("a.txt", "2\n")
    assert watched.names(await watch.ended()) == [("a.txt", "update", False)]


async def test_changes_recorded_too_late_to_report_can_be_undone(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.write("a.txt", "1\n")
    await watched.ready()
    monkeypatch.setattr(watched.watches, "_after_s", 0.0)
    assert list(await watched.command("echo 2 > a.txt")) == []
    await until(lambda: bool(watched.told))
    (change,) = changes_of(watched.history.record())
    assert len(change.entries) == 1


async def test_changes_beyond_the_limit_are_counted_but_not_kept(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_changes, "MAX_CHANGES", 150)
    changes = await watched.command("for n in $(seq 200); do echo $n > $n.txt; done")
    assert len(changes) == 200
    assert sum(change.version is not None for change in changes) == 150
    assert len(watched.told) == 150
    (change,) = changes_of(watched.history.record())
    assert len(change.entries) == 150
    # An undo says what it leaves.
    assert len(change.unknown) == 50


async def test_a_filter_of_the_repository_is_never_run(watched: Watched) -> None:
    watched.write("a.txt", "one\n")
    watched.write(".gitattributes", "*.txt filter=evil\n")
    watched.git()
    sh(
        watched.workspace,
        "git config filter.evil.clean 'touch ran; cat'; git config filter.evil.smudge 'touch ran; cat';"
        "git config core.fsmonitor 'touch ran; false'; git config core.hooksPath hooks; mkdir hooks;"
        "printf '#!/bin/sh\\ntouch ran\\n' > hooks/post-index-change; chmod +x hooks/*",
    )
    (change,) = await watched.command("echo two > a.txt")
    assert watched.before(change) == b"one\n"
    assert not (watched.workspace / "ran").exists()


async def test_converted_line_ends_are_those_of_the_disk(watched: Watched) -> None:
    watched.write("a.txt", "one\r\ntwo\r\n")
    watched.write(".gitattributes", "*.txt text eol=crlf\n")
    watched.git()
    (change,) = await watched.command("echo x > a.txt")
    assert watched.before(change) == b"one\r\ntwo\r\n"


async def test_formerly_ignored_file_is_not_reported_as_new(watched: Watched) -> None:
    watched.write("secret.txt", "mine\n")
    watched.git("secret.txt")
    await watched.ready()
    changes = await watched.command("echo .trace > .gitignore; echo x >> secret.txt")
    assert watched.names(changes) == [(".gitignore", "update", True), ("secret.txt", "update", False)]


async def test_links_are_not_followed(watched: Watched) -> None:
    outside = watched.folder / "outside"
    outside.mkdir()
    (outside / "o.txt").write_text("o\n")
    (watched.workspace / "link").symlink_to(outside)
    changes = await watched.command("echo x > link/o.txt; ln -s /etc/passwd p; echo x > a")
    assert watched.names(changes) == [("a", "create", True)]


async def test_file_replacing_a_link_is_not_reported_as_new(watched: Watched) -> None:
    watched.write("a.txt", "a\n")
    (watched.workspace / "link").symlink_to("a.txt")
    await watched.ready()
    changes = await watched.command("rm link; echo x > link")
    assert watched.names(changes) == [("link", "update", False)]


async def test_copies_of_an_earlier_daemon_are_used_again(watched: Watched) -> None:
    watched.write("a.txt", "1\n")
    await watched.ready()
    await watched.watches.close()
    blobs = {p.name: p.stat().st_ino for p in (watched.folder / "copies" / "blobs").iterdir()}
    assert len(blobs) == 1
    watched.open()
    await watched.ready()
    assert {p.name: p.stat().st_ino for p in (watched.folder / "copies" / "blobs").iterdir()} == blobs
    (change,) = await watched.command("echo 2 > a.txt")
    assert watched.before(change) == b"1\n"


async def test_copies_are_pruned(watched: Watched) -> None:
    watched.write("a.txt", "0\n")
    for number in range(1, 6):
        await watched.command(f"echo {number} > a.txt")
    copies = watched.folder / "copies" / "blobs"
    await until(lambda: len(list(copies.iterdir())) == 1)


async def test_a_workspace_with_too_many_files_is_left_alone(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.files.tree.MAX_FILES", 5)
    for number in range(10):
        watched.write(f"{number}.txt", "x\n")
    assert list(await watched.command("echo y > 1.txt")) == []
    assert list(await watched.command("echo z > 1.txt")) == []
