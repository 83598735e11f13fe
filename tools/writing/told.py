"""What the model is told when an editor saved something else than was approved: it formats on save, or so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.base import FileChange
from tools.diff import limited, of_change, shown_name, without_head

_LINES = 60


def saved_otherwise(
    plan: Sequence[FileChange], formatted: Mapping[Path, bytes | None], names: Mapping[Path, str]
) -> Iterator[str]:
    """A paragraph for each such file. Pure, may be slow."""
    for change in plan:
        if change.path not in formatted:
            continue
        name, data = shown_name(names[change.path]), formatted[change.path]
        if data is None:
            yield f"{name} could not be read after the editor saved it: read it again before you change it."
            continue
        diff = of_change(FileChange(change.path, change.after, data), names[change.path])
        body = without_head(limited(diff.text, max_lines=_LINES)).rstrip("\n")
        yield (
            f"The editor changed {name} while saving it (it may format on save). Read it again before you change it. "
            f"- as you proposed it, + as it is on disk:\n{body}"
        )
