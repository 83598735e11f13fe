from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.copies.working_copy import BranchChange
from daemon.explore.copy_manager import BranchCopies, copies_for
from daemon.explore.results import ResultError, load_result, name_problem, remove_result, save_result
from tests.support.examples import examples
from tests.support.scenarios.branches import git
from tests.support.scenarios.explored import LINK, PLAIN, PROGRAM, created, deleted, updated

CHANGES = (
    created("new/über.txt", "neu\n"),
    created(os.fsdecode(b"odd\xff\nname"), b"\0\1"),
    updated("src/a.py", b"a\r\n", b"b\r\n", PLAIN, PROGRAM),
    deleted("src/gone", b""),
    BranchChange("link", None, b"src/a.py", None, LINK),
)


def test_result_round_trips_with_any_file_names(tmp_path: Path) -> None:
    save_result(tmp_path / "result", CHANGES, b"diff\0")
    found = load_result(tmp_path / "result")
    assert found is not None
    assert set(found.changes) == set(CHANGES)
    assert [change.name for change in found.changes] == sorted(change.name for change in CHANGES)
    assert found.patch == b"diff\0"


def test_second_result_replaces_the_first_and_removal_deletes_it(tmp_path: Path) -> None:
    folder = tmp_path / "branches" / "A" / "result"
    assert load_result(folder) is None
    save_result(folder, CHANGES, b"1")
    save_result(folder, (), b"")
    found = load_result(folder)
    assert found is not None and found.changes == () and found.patch == b""
    remove_result(folder)
    remove_result(folder)
    assert load_result(folder) is None
    assert list(folder.parent.iterdir()) == []


def test_saved_result_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        save_result(tmp_path / "result", CHANGES, b"x")
    finally:
        os.umask(before)
    for path in (tmp_path / "result", *(tmp_path / "result").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_crash_during_save_leaves_no_result_and_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "result"

    def dies(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    def keeps(*args: object, **kwargs: object) -> None:
        pass  # as after kill -9: nobody cleans up

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dies)
        patch.setattr("shutil.rmtree", keeps)
        with pytest.raises(KeyboardInterrupt):
            save_result(folder, CHANGES, b"x")
    assert load_result(folder) is None
    assert len(list(tmp_path.iterdir())) == 1
    save_result(folder, CHANGES, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "a//b", "", "a/", "./a", "a\0b", ".", ".."]
)
def test_names_that_escape_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    assert name_problem(name)
    with pytest.raises(ResultError, match="not used"):
        save_result(tmp_path / "result", [created(name, "x")], b"")
    save_result(tmp_path / "result", [created("good", "x")], b"")
    _edited(tmp_path, lambda known: known["files"][0].update(name=name))
    with pytest.raises(ResultError, match="not used"):
        load_result(tmp_path / "result")


@pytest.mark.parametrize(
    "damage",
    [
        lambda known: known.update(version=2),
        lambda known: known.update(files={}),
        lambda known: known.update(files=["x"]),
        lambda known: known.update(patch="0" * 64),
        lambda known: known["files"][0].update(after="0" * 64),
        lambda known: known["files"][0].update(after="../../../etc/passwd"),
        lambda known: known["files"][0].update(after=7),
        lambda known: known["files"][0].update(after=None),
        lambda known: known["files"][0].update(name=7),
        lambda known: known["files"][0].update(after_mode=0o104755),
        lambda known: known["files"][0].update(after_mode=[]),
        lambda known: known["files"].append(dict(known["files"][0])),
        lambda known: known["files"][0].pop("before"),
    ],
)
def test_manipulated_change_list_is_refused(tmp_path: Path, damage: Any) -> None:
    save_result(tmp_path / "result", [created("good", "x")], b"p")
    _edited(tmp_path, damage)
    with pytest.raises(ResultError, match="result"):
        load_result(tmp_path / "result")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_invalid_change_list_is_refused(tmp_path: Path, data: bytes) -> None:
    save_result(tmp_path / "result", CHANGES, b"p")
    (tmp_path / "result/changes.json").write_bytes(data)
    with pytest.raises(ResultError, match="damaged"):
        load_result(tmp_path / "result")


def test_damaged_contents_patch_or_links_fail_to_load(tmp_path: Path) -> None:
    save_result(tmp_path / "result", [created("good", "x")], b"p")
    content = next(path for path in (tmp_path / "result/contents").rglob("*") if path.is_file())
    content.write_bytes(b"y")
    with pytest.raises(ResultError, match="damaged"):
        load_result(tmp_path / "result")
    save_result(tmp_path / "result", [created("good", "x")], b"p")
    (tmp_path / "result/changes.patch").write_bytes(b"q")
    with pytest.raises(ResultError, match="patch"):
        load_result(tmp_path / "result")
    (tmp_path / "secret").write_bytes(b"p")
    (tmp_path / "result/changes.patch").unlink()
    (tmp_path / "result/changes.patch").symlink_to(tmp_path / "secret")
    with pytest.raises(ResultError, match="cannot be read"):
        load_result(tmp_path / "result")


def test_removing_a_linked_result_keeps_the_link_target(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/changes.json").write_text("{}")
    (tmp_path / "result").symlink_to(tmp_path / "precious")
    remove_result(tmp_path / "result")
    assert not (tmp_path / "result").is_symlink()
    assert (tmp_path / "precious/changes.json").exists()


names = st.binary(min_size=1, max_size=12).map(os.fsdecode).filter(lambda name: not name_problem(name))


@settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.dictionaries(names, st.tuples(st.binary(), st.sampled_from([PLAIN, PROGRAM, LINK])), max_size=4))
def test_any_names_and_bytes_survive(tmp_path: Path, files: dict[str, tuple[bytes, int]]) -> None:
    changes = [created(name, content, mode) for name, (content, mode) in files.items()]
    save_result(tmp_path / "result", changes, b"")
    found = load_result(tmp_path / "result")
    assert found is not None and set(found.changes) == set(changes)


def _edited(folder: Path, damage: Any) -> None:
    file = folder / "result/changes.json"
    known = json.loads(file.read_text())
    damage(known)
    file.write_text(json.dumps(known))


KILLED = """
import asyncio, os, sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from daemon.copies.working_copy import BranchChange
from daemon.explore.copy_manager import copies_for
from daemon.explore.results import save_result

async def work(workspace, state, result):
    copies = copies_for(workspace, state / "branches", ())
    copy = await copies.open("session:A", await copies.base())
    (copy.root / "a.py").write_text("changed")
    (copy.root / "b.local").write_text("written")
    changes, patch = await copy.outcome()
    if result.parent.name == "tested":
        save_result(result, changes, patch, [BranchChange("b.local", None, b"written", None, 0o100644)])
        (copy.root / "coverage.xml").write_text("by the tests")
    else:
        (copy.root.parent / "above.txt").write_text("above")
    os._exit(9)

asyncio.run(work(*map(Path, sys.argv[1:])))
"""


@pytest.mark.parametrize("killed", ["tested", "working"])
async def test_recovery_stores_what_was_not_stored_yet(tmp_path: Path, killed: str) -> None:
    workspace, state, trace = tmp_path / "top" / "workspace", tmp_path / "state", tmp_path / killed
    for folder in (workspace, state, trace):
        folder.mkdir(parents=True)
    git(workspace.parent, "init", "-q")
    (workspace / ".gitignore").write_text("*.local\n")
    (workspace / "a.py").write_text("a")
    run = [sys.executable, "-c", KILLED, workspace, state, trace / "result"]
    assert (await asyncio.to_thread(subprocess.run, run, check=False)).returncode == 9
    store = SimpleNamespace(folder=lambda session_id: trace)
    copies = BranchCopies(workspace, state, copies_for)
    copies.recover(cast("Any", SimpleNamespace(store=store, now=partial(datetime.now, UTC))))
    await copies.recovered()
    found = load_result(trace / "result")
    assert found is not None
    assert [change.name for change in found.changes] == ["a.py"]
    assert [(change.name, change.after) for change in found.ignored] == [("b.local", b"written")]
