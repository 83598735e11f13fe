"""What is too much to be copied, and what is left out where no repository says what is ignored."""

from __future__ import annotations

MOST_FILES = 200_000
"""More are not copied: nobody waits that long, and something that should be ignored is not."""
MOST_BYTES = 10 << 30
"""Of all files of a copy; and of what is uncommitted, which is stored once more for comparing."""
MOST_PATCH = 64 << 20
"""Bytes of the files in ``Base.patch``, before and after: it is kept in memory while its branches work."""
MOST_CHANGED = 512 << 20
"""Bytes of the files that a branch changed, before and after: they are in memory while they are stored."""
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
