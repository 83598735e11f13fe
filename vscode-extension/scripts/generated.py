"""Writes generated files, or with ``--check`` only says which are stale. Shared by the scripts beside it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]


def write_or_check(about: str | None, files: Mapping[Path, str]) -> int:
    """Write the files whose text is not that in ``files``. Returns the exit code, 1 when ``--check`` finds one."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a file is not fresh")
    check = parser.parse_args().check
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        name = path.relative_to(ROOT)
        if check:
            print(f"{name} is stale: run `make generate` and commit the result.", file=sys.stderr)
        else:
            path.write_text(files[path], "utf-8", newline="\n")
            print(f"wrote {name}")
    return 1 if stale and check else 0
