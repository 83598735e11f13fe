"""What is too much to be copied, and what is left out where no repository says what is ignored."""

from __future__ import annotations

MOST_FILES = 200_000
"""More are not copied: nobody waits that long, and something that should be ignored is not."""
MOST_BYTES = 10 << 30
"""Of a folder that is in no repository."""
HEAVY = (
    *(
        ".trace",
        "node_modules",
        ".venv",
        "venv",
        "__pycache__",
        "target",
        "dist",
        ".tox",
        ".nox",
        ".mypy_cache",
    ),
    *(".ruff_cache", ".pytest_cache", ".gradle", ".next", ".cache"),
)
"""Folders that are left out where no repository says what is ignored."""
