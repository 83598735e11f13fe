from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# Time is never what a test is about, and the machine is shared.
settings.register_profile("goalwright", deadline=None)
settings.load_profile("goalwright")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home/journal"
