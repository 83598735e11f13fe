"""Real daemons, each in a process of its own, made by forking one that has done the imports.

``python tests/fakes/forked_daemons.py`` reads one JSON object a line, ``{"workspace", "home", "arguments": [...]}``,
forks a child that is ``goalwright serve`` on that workspace with that home, and answers with its pid. Forking saves the
second that the imports take, so that two hundred daemons can be killed within minutes; all else is the real program.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import daemon.__main__ as program  # noqa: E402

_KEPT = ("PATH", "LANG", "LC_ALL")
_IMPORTED = (
    "daemon.core",
    "daemon.planner.driver",
    "daemon.provider.models",
    "daemon.provider.scripted",
    "lsp_bridge.branch_eyes",
    "lsp_bridge.language_servers",
    "lsp_bridge.listen",
    "lsp_bridge.eyes",
)


def be_daemon(order: dict[str, Any]) -> int:
    """What ``goalwright serve`` does. Returns its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, HOME=order["home"], GOALWRIGHT_HOME=order["home"])
    os.chdir(order["workspace"])
    sys.argv = ["goalwright", "serve", "--workspace", order["workspace"], *order["arguments"]]
    return program.main()


def main() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = be_daemon(order)
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed are not to stay as zombies
    main()
