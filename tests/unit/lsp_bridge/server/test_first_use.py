"""What is built before it is used for the first time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def test_every_model_is_built_ahead() -> None:
    code = (
        "import lsp_bridge.server.listen, daemon.core\n"
        "from pydantic import BaseModel\n"
        "from lsp_bridge.server.first_use import build_ahead\n"
        "def left():\n"
        "    found = [BaseModel]\n"
        "    for model in found: found += model.__subclasses__()\n"
        "    own = [one for one in found if one.__module__.startswith(('daemon.', 'lsp_bridge.', 'tools.'))]\n"
        "    return [one.__qualname__ for one in own if not one.__pydantic_complete__]\n"
        "before, parts = len(left()), sum(1 for _ in build_ahead())\n"
        "print(before, parts, *left())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    before, parts, *left = done.stdout.split()
    assert int(parts) > int(before) > 100
    assert left == []


def test_first_tool_calls_import_nothing_more() -> None:
    code = (
        "import sys\n"
        "from lsp_bridge.cli.preloader import import_all\n"
        "from lsp_bridge.server.first_use import import_ahead\n"
        "import_all()\n"
        "import_ahead()\n"
        "before = set(sys.modules)\n"
        "from daemon.files.event_sources import open_source\n"
        "from daemon.settings import Settings\n"
        "from lsp_bridge.language_client.pool.server_choice import choice_of\n"
        "open_source(print).close()\n"
        "assert choice_of(Settings(), trusted=False).specs\n"
        "print(*set(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_all_is_imported_without_a_scheduler_to_ask() -> None:
    """As on macOS, where ``make venv`` imports it all, too."""
    code = (
        "import os\n"
        "for name in ('sched_getscheduler', 'sched_setscheduler', 'sched_param', 'SCHED_IDLE', 'SCHED_OTHER'):\n"
        "    if hasattr(os, name): delattr(os, name)\n"
        "from lsp_bridge.cli.preloader import import_all\n"
        "import_all()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
