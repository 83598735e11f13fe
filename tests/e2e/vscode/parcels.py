"""A file with two places far from each other, and what the model makes of them: for approval and undo by parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.e2e.vscode import task
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

RATES = '''"""Shipping rates, in cents."""

LOCAL = 400


def local(weight: int) -> int:
    """Rate within the town."""
    return LOCAL + weight // 10


def far(weight: int) -> int:
    """Rate within the country."""
    return 2 * LOCAL + weight // 5


def abroad(weight: int) -> int:
    """Rate to everywhere else."""
    return 5 * LOCAL + weight
'''
CHEAPER = ("LOCAL = 400", "LOCAL = 350")
DEARER = ("return 5 * LOCAL + weight\n", "return 6 * LOCAL + 2 * weight\n")
PROPOSED = RATES.replace(*CHEAPER).replace(*DEARER)
"""Two changes, far enough from each other to be two hunks."""
ASKED = "Make local parcels cheaper."
SET = "The rates are set."


def make_parcels(folder: Path) -> Path:
    """The workspace."""
    folder.mkdir(exist_ok=True)
    (folder / "rates.py").write_text(RATES)
    return folder


def environment(model: ModelServer) -> Mapping[str, str]:
    """Return the environment with which the daemon reaches the played model."""
    return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "a-key-for-tests"}


def read(file: Path) -> Reply:
    """An answer that reads a file."""
    return task.call("read", file_path=str(file))


def write(file: Path, content: str) -> Reply:
    """An answer that writes a whole file."""
    return task.call("write", "Like this.", file_path=str(file), content=content)


def set_rates(workspace: Path) -> list[Reply]:
    """All answers for ``ASKED``."""
    file = workspace / "rates.py"
    return [read(file), write(file, PROPOSED), Reply(text=SET)]
