"""Writes ``schemas/config.schema.json`` from ``daemon/settings.py``; ``--check`` only says whether it is fresh."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "vscode-extension" / "schemas" / "config.schema.json"
sys.path.insert(0, str(ROOT))

from daemon.settings import settings_schema  # noqa: E402


def main() -> int:
    """Write, or with ``--check`` compare. Returns the exit code."""
    schema = settings_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    fresh = json.dumps(schema, indent=2) + "\n"
    if TARGET.exists() and TARGET.read_text("utf-8") == fresh:
        return 0
    if "--check" in sys.argv[1:]:
        print(
            f"{TARGET.relative_to(ROOT)} is stale: run `make generate` and commit the result.",
            file=sys.stderr,
        )
        return 1
    TARGET.write_text(fresh, "utf-8", newline="\n")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
