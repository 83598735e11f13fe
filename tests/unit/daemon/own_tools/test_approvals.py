"""Approvals of definitions, which several calls and daemons remember in one file."""

from __future__ import annotations

from pathlib import Path

from daemon.outside_tools.approvals import Approvals


def test_approvals_that_were_made_meanwhile_stay_known(tmp_path: Path) -> None:
    path = tmp_path / "approved.json"
    waiting, other = Approvals(path), Approvals(path)
    assert not waiting.changed("tool__slow", "1")  # its question waits for the user
    other.add("tool__quick", "1")
    waiting.add("tool__slow", "1")
    known = Approvals(path)
    assert known.changed("tool__slow", "2")
    assert known.changed("tool__quick", "2")
