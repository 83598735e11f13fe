"""Judging adapter: replays the writing tools' calls on folders, as issue 3 words it.

One JSON line in, ``{"root": DIR, "calls": [{"tool": "edit"|"patch"|"write", "args": {...}}]}``, one JSON line out,
``{"results": [{"ok": bool, "message": str}]}``. Calls are applied in order, with everything approved and reading
implied. Paths are relative to ``root`` or absolute; what leads out of it is refused. A line that cannot be understood
is answered with no results and an ``error``. Run it as ``python tests/replay.py`` from anywhere.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    """Serve stdin, with the repository's own modules and, if this Python lacks what they need, its own Python."""
    # The folder of this script is not to be imported from; the repository is.
    sys.path[:] = [
        str(REPOSITORY),
        *(p for p in sys.path if Path(p or ".").resolve() != REPOSITORY / "tests"),
    ]
    venv = REPOSITORY / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    lacking = any(importlib.util.find_spec(name) is None for name in ("pydantic", "charset_normalizer"))
    if lacking and venv.exists() and "GOALWRIGHT_REPLAY" not in os.environ:
        os.environ["GOALWRIGHT_REPLAY"] = "1"
        os.execv(venv, [str(venv), *sys.argv])
    from tests.replayer import serve

    serve()


if __name__ == "__main__":
    main()
