"""What the model has to be told of what the person did to its files. Pure."""

from __future__ import annotations

from daemon.model.events import FilesRestored, RestoredFile

MAX_NOTES = 20
"""Older ones are left out: the files say how they read."""
_MAX_FILES = 20


def restored_note(event: FilesRestored) -> str:
    """One event in words for the model; empty when no file was changed."""
    if not event.files:
        return ""
    did, now = {
        "undo": (f"undid your {event.target}", "as before"),
        "redo": (f"redid your {event.target}", "as after your change again"),
        "restore": (f"took back {event.target}", "as before"),
    }[event.action]
    names = [_named(file) for file in event.files[:_MAX_FILES]]
    more = len(event.files) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"the person {did}. Written on disk: {listed}. What you had changed there reads {now}."


def notes_text(notes: tuple[str, ...]) -> str:
    """All notes as the text that goes with the next prompt; empty for none."""
    if not notes:
        return ""
    said = "Note: since your last message " + "\nThen ".join(notes)
    return f"{said}\nRead these files again before you rely on them."


def _named(file: RestoredFile) -> str:
    if file.kind == "delete":
        return f"{file.path} (deleted)"
    return f"{file.path} ({'new, ' if file.kind == 'create' else ''}+{file.added} -{file.removed})"
