"""Files that say what must come out, to the letter: ``tests/contract/golden/traces/``.

``GOALWRIGHT_GOLDEN=write`` rewrites them; then check the changes with git.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "contract" / "golden" / "traces"


def check_golden(name: str, text: str) -> None:
    """``text`` is what the file ``name`` says."""
    file = FOLDER / name
    if os.environ.get("GOALWRIGHT_GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    assert file.exists(), f"There is no {file}: run with GOALWRIGHT_GOLDEN=write."
    assert text == file.read_text("utf-8"), f"{name} came out differently: see GOALWRIGHT_GOLDEN=write."


def check_golden_json(name: str, value: object) -> None:
    """Check JSON in the same way, whose keys keep their order."""
    check_golden(name, json.dumps(value, ensure_ascii=False, indent=1) + "\n")
