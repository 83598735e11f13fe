"""Write all generated files of the extension and the documents, or with ``--check`` only say which are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import generate_docs  # noqa: E402
import generate_protocol  # noqa: E402
import generate_settings  # noqa: E402


def main() -> int:
    """Write the files whose text has changed. Returns the exit code, 1 when ``--check`` finds one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a file is not fresh")
    check = parser.parse_args().check
    files = generate_protocol.files(ROOT) | generate_settings.files(ROOT) | generate_docs.files(ROOT)
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        name = path.relative_to(ROOT)
        if check:
            print(f"{name} is stale: run `make generate` and commit the result.", file=sys.stderr)
        else:
            path.write_text(files[path], "utf-8", newline="\n")
            print(f"wrote {name}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    raise SystemExit(main())
