"""Judging adapter: replays tool calls on folders.

One JSON line in, ``{"root": DIR, "calls": [{"tool": "edit"|"patch"|"write"|"bash", "args": {...}}]}``, one JSON line
out, ``{"results": [{"ok": bool, "message": str}]}``. Calls are applied in order. Paths are relative to ``root`` or
absolute. A line that cannot be understood is answered with no results and an ``error``. Run it as
``python tests/replay.py`` from anywhere.

``edit``, ``patch`` and ``write`` run with everything approved and reading implied; what leads out of ``root`` is
refused.

``bash`` (``{"command": STR}``, and the tool's other arguments) runs as the product does: through a session of the
daemon's core, with its rules, sandbox and environment, and every question is refused. Such a result is
``{"ok": false, "asked": true, "message": str}``; what a rule denies is not ``ok`` and not ``asked``. A command that
ran is ``ok`` unless the product calls it an error; its exit code and output are in ``message``. Optional for a line:

- ``"config"``: the user's configuration, an object as in ``~/.goalwright/config.json``. It is written there.
- ``"mode"``: ask, accept-edits, plan or auto; as in the product, auto needs a trusted folder.
- ``"home"``: the user's home folder, absolute; it is made when it is missing. Without it, a new one for each line.
- ``"trusted"``: true: the user trusts ``root``. Else the list of trusted folders in ``home`` decides.

The ``bash`` calls of a line share one session, so the same call three times in a row is asked about. What the session
itself records (``.trace`` in ``root``) is removed after the line, unless it was there before.
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
    lacking = any(
        importlib.util.find_spec(name) is None for name in ("pydantic", "charset_normalizer", "tree_sitter")
    )
    if lacking and venv.exists() and "GOALWRIGHT_REPLAY" not in os.environ:
        os.environ["GOALWRIGHT_REPLAY"] = "1"
        os.execv(venv, [str(venv), *sys.argv])
    from tests.support.drivers.replayer import serve

    serve()


if __name__ == "__main__":
    main()
