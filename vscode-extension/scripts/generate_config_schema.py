"""Writes ``schemas/config.schema.json`` from ``daemon/settings.py``; ``--check`` only says whether it is fresh."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "vscode-extension" / "schemas" / "config.schema.json"
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from generated import write_or_check  # noqa: E402

from daemon.settings import settings_schema  # noqa: E402


def main() -> int:
    """Write, or with ``--check`` compare. Returns the exit code."""
    schema = settings_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    return write_or_check(__doc__, {TARGET: json.dumps(schema, indent=2) + "\n"})


if __name__ == "__main__":
    raise SystemExit(main())
