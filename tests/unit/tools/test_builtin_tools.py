from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tools.registry import BuiltinTools, builtin_tools

ROOT = Path(__file__).parents[3]


def test_lazy_tools_match_the_full_set_in_order() -> None:
    assert [(name, type(tool)) for name, tool in BuiltinTools().items()] == [
        (name, type(tool)) for name, tool in builtin_tools().items()
    ]
    assert BuiltinTools().get("no such tool") is None


def test_tools_requested_in_threads_are_loaded_once() -> None:
    tools = BuiltinTools()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(id(tools["read"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_unused_daemon_has_imported_no_tool(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from daemon.core import Daemon
from daemon.provider.models import ProviderModels
from lsp_bridge.language_client.diagnostics.server_source import ServerSource
from lsp_bridge.language_client.diagnostics.service import DiagnosticsService
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
seen = DiagnosticsService(Path(sys.argv[1]), [ServerSource(LanguageServers(Path(sys.argv[1]), ServerChoice))])
Daemon(Path(sys.argv[1]), diagnostics=seen, models=ProviderModels(), state_folder=Path(sys.argv[2]))
print(sorted({"tools.patch", "tools.edit", "tools.bash", "tools.symbols"} & set(sys.modules)))
"""
    (tmp_path / "w").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "w"), str(tmp_path / "state")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == "[]", ran.stderr
