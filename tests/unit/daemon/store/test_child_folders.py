"""Where the files of branches and sub-agents are."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.model.goals import GoalTree
from daemon.store.files import FileTraceStore
from daemon.store.trace_store import StoreError, UnknownTraceError
from tests.support.scenarios.stores import ID as MAIN
from tests.support.scenarios.stores import branch_trace, trace


def test_the_folders_are_those_of_the_seed(tmp_path: Path) -> None:
    store = FileTraceStore(tmp_path)
    folders = {
        f"{MAIN}:A": "branches/A",
        f"{MAIN}:AB": "branches/AB",
        f"{MAIN}:s3": "agents/s3",
        f"{MAIN}:A.s1": "branches/A/agents/s1",
    }
    for session_id, folder in folders.items():
        assert store.folder(session_id) == tmp_path / MAIN / folder


def test_a_folder_of_branches_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "A" / "messages").mkdir(parents=True)
    store = FileTraceStore(tmp_path / "traces")
    store.create(trace())
    (tmp_path / "traces" / MAIN / "branches").symlink_to(elsewhere)
    with pytest.raises(UnknownTraceError):
        store.save_snapshot(branch_trace(f"{MAIN}:A"), GoalTree())
    with pytest.raises(StoreError, match="it is reached through a symbolic link"):
        store.create(branch_trace(f"{MAIN}:B"))
    assert [path.name for path in elsewhere.iterdir()] == ["A"]
    assert list((elsewhere / "A").iterdir()) == [elsewhere / "A" / "messages"]


@pytest.mark.parametrize("left", [(), ("messages/",), ("messages/", "goal.json", ".meta.json.x1")])
def test_what_a_kill_leaves_of_a_beginning_is_no_child(tmp_path: Path, left: tuple[str, ...]) -> None:
    store = FileTraceStore(tmp_path)
    store.create(trace())
    store.create(branch_trace(f"{MAIN}:A"))
    folder = tmp_path / MAIN / "branches" / "B"
    folder.mkdir()
    for name in left:
        (folder / name).mkdir() if name.endswith("/") else (folder / name).write_text("{")
    assert store.children(MAIN) == [f"{MAIN}:A"]
    # Nothing tells that it ever was, so the next branch has its name.
    store.create(branch_trace(f"{MAIN}:B"))
    assert store.children(MAIN) == [f"{MAIN}:A", f"{MAIN}:B"]
    assert store.goal_tree(f"{MAIN}:B") == GoalTree()
    with pytest.raises(StoreError, match="File exists"):
        store.create(branch_trace(f"{MAIN}:B"))
