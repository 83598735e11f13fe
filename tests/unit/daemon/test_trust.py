"""The list of trusted folders: other processes change it, and nothing reads it again for that."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from daemon.trust import TrustedFolders


def test_trust_that_another_process_withdraws_ends_at_once(tmp_path: Path) -> None:
    mine, theirs, folder = TrustedFolders(tmp_path), TrustedFolders(tmp_path), tmp_path / "a"
    assert mine.trust(folder) == "unknown"
    theirs.add(folder)
    assert mine.trust(folder) == "trusted"
    assert theirs.remove(folder)
    assert mine.trust(folder) == "unknown"
    theirs.add(folder)
    assert mine.trust(folder) == "trusted"
    (tmp_path / "trusted.json").unlink()
    assert mine.trust(folder) == "unknown"


def test_list_of_the_same_size_and_time_is_another_one(tmp_path: Path) -> None:
    mine, theirs, file = TrustedFolders(tmp_path), TrustedFolders(tmp_path), tmp_path / "trusted.json"
    theirs.add(tmp_path / "a")
    assert mine.trust(tmp_path / "a") == "trusted"
    before = file.stat()
    theirs.remove(tmp_path / "a")
    theirs.add(tmp_path / "b")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert mine.trust(tmp_path / "a") == "unknown"
    assert mine.trust(tmp_path / "b") == "trusted"


def test_unchanged_list_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = TrustedFolders(tmp_path)
    known.add(tmp_path)
    assert known.trust(tmp_path) == "trusted"
    monkeypatch.setattr(json, "loads", None)
    assert known.trust(tmp_path) == "trusted"


def test_list_that_cannot_be_read_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = TrustedFolders(tmp_path)
    known.add(tmp_path)

    def too_many_open_files(*_: object) -> str:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", too_many_open_files)
        assert known.trust(tmp_path) == "unknown"
    assert known.trust(tmp_path) == "trusted"


def test_trust_does_not_outlive_a_list_that_came_and_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = TrustedFolders(tmp_path)
    known.add(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("daemon.trust.stamp_of", lambda _file: None)  # written just after the look
        assert known.trust(tmp_path) == "trusted"
    (tmp_path / "trusted.json").unlink()
    assert known.trust(tmp_path) == "unknown"
