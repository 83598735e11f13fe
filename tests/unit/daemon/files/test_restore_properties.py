"""Undo and redo over random histories: the agent's changes come and go exactly, the user's changes stay."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.files.changes import FileSetChange, changes_of
from daemon.files.history import SessionHistory
from daemon.files.restore import ConflictError, RestorePlanner
from daemon.files.versions import Action
from tests.support.examples import examples
from tools.tool import FileChange

NOW = datetime(2025, 1, 1, tzinfo=UTC)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
CODECS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252", "cp1251", "gb18030"])
LETTERS = {"cp1251": "абвгде", "gb18030": "中文字符", "cp1252": "äöüß"}
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Disk:
    """A session's history over a real folder; undo and redo as the daemon does them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "w"
        self.root.mkdir()
        self.history = SessionHistory(folder / "files", lambda: NOW, self.root)

    def apply(self, changes: Sequence[FileChange], call_id: str) -> None:
        """Do what a tool call does."""
        versions = self.history._keep(changes, call_id)
        self.write(changes)
        self.history.written(versions)

    def write(self, changes: Sequence[FileChange]) -> None:
        for change in changes:
            if change.after is None:
                change.path.unlink()
            else:
                change.path.parent.mkdir(parents=True, exist_ok=True)
                change.path.write_bytes(change.after)

    def change(self, call_id: str) -> FileSetChange:
        return next(c for c in changes_of(self.history.record()) if c.change_id == call_id)

    def step(self, action: Action, call_ids: Sequence[str]) -> None:
        """Undo or redo. Raises ConflictError, and changes nothing then."""
        found = [self.change(call_id) for call_id in call_ids]
        groups = [change.forward() if action == "redo" else change.backward() for change in found]
        planner = RestorePlanner(self.history.blobs, str, lambda path: None)
        planner.apply(groups)
        plan = planner.result()
        step = self.history.keep_step(action, call_ids, plan)
        for change in plan:
            assert (change.path.read_bytes() if change.path.exists() else None) == change.before
        self.write(plan)
        self.history.step_done(step)

    def tree(self) -> dict[str, bytes]:
        return {
            p.relative_to(self.root).as_posix(): p.read_bytes() for p in self.root.rglob("*") if p.is_file()
        }


def encoded(lines: Sequence[str], codec: str) -> bytes:
    return "".join(lines).encode(codec)


@st.composite
def agent_and_person(draw: st.DrawFn) -> tuple[str, list[str], list[str], list[str], list[str]]:
    """Generate a codec, a file, the file as the agent left it, and both after the user has edited other lines."""
    codec = draw(CODECS)
    letters = LETTERS.get(codec, "aé中")
    count = draw(st.integers(3, 25))
    base = [f"{n} {draw(st.text(letters, max_size=4))}{letters}{draw(ENDS)}" for n in range(count)]
    if draw(st.booleans()):
        base[-1] = base[-1].rstrip("\r\n")
    agent, person = dict[int, list[str]](), dict[int, list[str]]()
    at = draw(st.integers(0, 2))
    while at < count:
        # The last line may lack its end: then it is replaced by one that lacks it, too.
        last = at == count - 1
        ends = [draw(ENDS) for _ in range(draw(st.integers(1 if last else 0, 2)))]
        new = [f"new {at} {n} {letters}{end}" for n, end in enumerate(ends)]
        if last and new:
            new[-1] = new[-1].rstrip("\r\n")
        (agent if not agent or draw(st.booleans()) else person)[at] = new
        at += draw(st.integers(2, 5))

    def made(*edits: dict[int, list[str]]) -> list[str]:
        every = {n: new for side in edits for n, new in side.items()}
        return [line for n in range(count) for line in every.get(n, [base[n]])]

    return codec, base, made(agent), made(person), made(agent, person)


@given(agent_and_person())
@settings(SETTINGS, max_examples=examples(200))
def test_user_edits_survive_undo_and_redo_byte_for_byte(
    case: tuple[str, list[str], list[str], list[str], list[str]],
) -> None:
    codec, *versions = case
    before, after, mine, both = (encoded(lines, codec) for lines in versions)
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder))
        path = disk.root / "a.txt"
        path.write_bytes(before)
        disk.apply([FileChange(path, before, after)], "c")
        disk.step("undo", ["c"])
        assert path.read_bytes() == before
        disk.step("redo", ["c"])
        assert path.read_bytes() == after
        path.write_bytes(both)
        disk.step("undo", ["c"])
        assert path.read_bytes() == mine
        disk.step("redo", ["c"])
        assert path.read_bytes() == both


CONTENT = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.lists(st.sampled_from(["a\n", "b\r\n", "}\n", "\n", "c\r", "d"]), max_size=10).map(
        lambda lines: "".join(lines).encode()
    ),
)
NAMES = st.sampled_from(["a.txt", "b.txt", "deep/c.txt"])


@given(st.lists(st.dictionaries(NAMES, CONTENT, min_size=1), min_size=1, max_size=6), st.data())
@settings(SETTINGS, max_examples=examples(200))
def test_undo_and_redo_of_all_changes_pass_through_every_state(
    calls: list[dict[str, bytes | None]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder))
        states = [disk.tree()]
        ids: list[str] = []
        for number, call in enumerate(calls):
            now = disk.tree()
            changes = [
                FileChange(disk.root / name, now.get(name), after)
                for name, after in call.items()
                if now.get(name) != after
            ]
            if changes:
                ids.append(f"c{number}")
                disk.apply(changes, ids[-1])
                states.append(disk.tree())
        if data.draw(st.booleans(), "all at once"):
            disk.step("restore", ids[::-1])
            assert disk.tree() == states[0]
        else:
            for number in reversed(range(len(ids))):
                disk.step("undo", [ids[number]])
                assert disk.tree() == states[number]
        if data.draw(st.booleans(), "after a restart"):
            disk.history = SessionHistory(Path(folder) / "files", lambda: NOW, disk.root)
        for number, call_id in enumerate(ids):
            disk.step("redo", [call_id])
            assert disk.tree() == states[number + 1]


@given(
    st.lists(
        st.tuples(st.sampled_from(["agent", "person", "undo", "redo"]), CONTENT, st.integers(0, 5)),
        max_size=12,
    )
)
@settings(SETTINGS, max_examples=examples(200))
def test_refused_undo_changes_nothing_and_redo_reverses_undo(
    moves: list[tuple[str, bytes | None, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder))
        path = disk.root / "a.txt"
        ids: list[str] = []
        for number, (who, content, which) in enumerate(moves):
            before = path.read_bytes() if path.exists() else None
            if who == "person":
                disk.write([FileChange(path, before, content)] if content != before else [])
            elif who == "agent" and content != before:
                ids.append(f"c{number}")
                disk.apply([FileChange(path, before, content)], ids[-1])
            elif who in ("undo", "redo") and ids:
                chosen = ids[which % len(ids)]
                action: Action = "redo" if disk.change(chosen).undone else "undo"
                tree = disk.tree()
                try:
                    disk.step(action, [chosen])
                except ConflictError:
                    assert disk.tree() == tree
                    continue
                disk.step("undo" if action == "redo" else "redo", [chosen])
                assert disk.tree() == tree
                disk.step(action, [chosen])


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
@settings(SETTINGS, max_examples=examples(100))
def test_binary_file_is_restored_only_if_unchanged(before: bytes, after: bytes, now: bytes) -> None:
    before, after = b"\0\xff" + before, b"\0\xfe" + after
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder))
        path = disk.root / "a.bin"
        path.write_bytes(before)
        disk.apply([FileChange(path, before, after)], "c")
        path.write_bytes(now)
        try:
            disk.step("undo", ["c"])
        except ConflictError:
            assert path.read_bytes() == now
        else:
            assert now in (before, after)
            assert path.read_bytes() == before
