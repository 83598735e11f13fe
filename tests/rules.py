"""Asks the permission rules from outside; through the code that the daemon uses.

One JSON line in, one JSON line out:

    {"layers": [[[permission, pattern, action], …], …], "permission": "edit", "target": "src/a.py"}
    {"layers": …, "bash": "git status && cat .env"}
    → {"action": "allow"|"ask"|"deny", "rule": [permission, pattern, action] | null, "layer": …, "source": …, …}

Layers go from weak to strong. Exactly five are shipped, user, workspace (tightens only, unless ``"trusted": true``),
session and agent; any other number is one flat stack. No shipped rules are added. Optional: ``mode``, ``trusted``,
``restricted``, ``sandbox`` (as the setting: on, workspace-write, read-only; default off, as on a machine that has no
sandbox), ``sandboxed`` (true: workspace-write), ``insists`` (permissions the agent insists on, by commas),
``workspace`` (default /workspace), ``home`` (/home/user), ``implied``, ``several``, and ``id``, which comes back.
The disk is never looked at. A line that cannot be understood is answered with ``error``.
``--table`` prints the table of cases. Run it as ``python tests/rules.py`` from anywhere.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> int:
    """Serve stdin, with the repository's own modules and, if this Python lacks what they need, its own Python."""
    # The folder of this script is not to be imported from; the repository is.
    sys.path[:] = [
        str(REPOSITORY),
        *(p for p in sys.path if Path(p or ".").resolve() not in (REPOSITORY, REPOSITORY / "tests")),
    ]
    venv = REPOSITORY / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    lacking = any(
        importlib.util.find_spec(name) is None for name in ("pydantic", "tree_sitter", "tree_sitter_bash")
    )
    if lacking and venv.exists() and "GOALWRIGHT_RULES" not in os.environ:
        os.environ["GOALWRIGHT_RULES"] = "1"
        os.execv(venv, [str(venv), str(Path(__file__).resolve()), *sys.argv[1:]])
    if "--table" in sys.argv[1:]:
        from tests.evals.rule_cases.table import print_table

        return print_table()
    from tests.support.drivers.rule_judge import serve

    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
