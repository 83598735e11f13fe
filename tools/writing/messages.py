"""Messages for the model when the files differ from what was approved: an editor formats on save, or a change failed
and could not be undone everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.diff.unified_diff import limited, of_change, shown_name, without_head
from tools.paths import explain_os_error
from tools.ports import EditRejectedError
from tools.tool import FileChange
from tools.writing import atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tools.writing.transaction import RollbackFailure

_LINES = 60


def saved_otherwise(
    plan: Sequence[FileChange], formatted: Mapping[Path, bytes | None], names: Mapping[Path, str]
) -> Iterator[str]:
    """Yield a paragraph for each such file. Pure, may be slow."""
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


def not_taken_back(why: str, left: Sequence[RollbackFailure], names: Mapping[Path, str]) -> str:
    """``why``: what made the change fail."""
    lines = [f"{why} The changes so far were rolled back, but not everywhere:"]
    for one in left:
        name = shown_name(names[one.change.path])
        if one.on_disk and one.content is None:
            what = "is not there any more"
        elif one.on_disk:
            what = "still has the change, on disk" + (" and in the editor" if one.in_buffer else "")
        else:
            what = "still has the change in the editor, unsaved; on disk it is unchanged"
        lines.append(f"- {name} {what}.")
    lines.append(
        "Everything else is unchanged. Tell the user which of these files still have the change, and read "
        "them again before you change anything."
    )
    if any(one.on_disk for one in left):
        lines.append("The change on disk is in the file history, and can be undone like any other.")
    return "\n".join(lines)


def why_not_written(
    error: Exception, plan: Sequence[FileChange], names: Mapping[Path, str]
) -> tuple[str, str]:
    """Return why a write failed, and what that means when all of it was undone, as text for the model."""
    if isinstance(error, atomic.ChangedOnDiskError):
        return (
            f"{names[error.path]} {error.what} while approval was pending.",
            "Nothing was written: read the file again and redo the change on its current text.",
        )
    if isinstance(error, atomic.NotUndoneError):
        return f"The change failed halfway: {error.strerror}.", "Tell the user."
    if isinstance(error, OSError):
        what = names[plan[0].path] if len(plan) == 1 else "The files"
        return explain_os_error(error, f"{what} could not be written"), "Nothing was changed."
    return error.why if isinstance(error, EditRejectedError) else str(error), ""
