from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home/journal"
