import sys
from pathlib import Path

import pytest

from daemon.outside_tools.entry_points import HOOKS, TOOLS, entry_points
from tests.support.fakes.hooks import package


def test_packages_are_read_again_only_when_one_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = package(tmp_path / "site", "", {"session.end": "x"}, "a_hooks")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    (first,) = entry_points(HOOKS)
    assert entry_points(HOOKS)[0] is first
    assert entry_points(TOOLS) == ()
    package(site, "", {"session.end": "y"}, "b_hooks")
    assert [one.value for one in entry_points(HOOKS)] == ["a_hooks:x", "b_hooks:y"]
    monkeypatch.undo()
    assert entry_points(HOOKS) == ()
