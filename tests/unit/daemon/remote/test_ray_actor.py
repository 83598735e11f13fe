"""Where an actor on a node finds our packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import goalwright
from daemon.remote import ray_actor


def test_packages_are_found_where_the_entry_point_finds_them() -> None:
    assert ray_actor._home() == goalwright.HOME


@pytest.mark.parametrize("layout", [".", "goalwright"], ids=["repository", "wheel"])
def test_packages_are_found_without_importing_the_entry_point(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "goalwright").mkdir()
    (tmp_path / "goalwright" / "__init__.py").touch()
    (tmp_path / layout / "daemon").mkdir()
    monkeypatch.delitem(sys.modules, "goalwright")
    monkeypatch.syspath_prepend(tmp_path)
    assert Path(ray_actor._home()) == tmp_path / layout
    assert "goalwright" not in sys.modules


def test_node_without_an_installation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "goalwright")
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ImportError, match="goalwright"):
        ray_actor._home()
