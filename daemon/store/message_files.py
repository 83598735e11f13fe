"""The messages of a session one by one: from its log, or from their own files."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.model.branches import session_of
from daemon.model.messages import Message
from daemon.store.base import NewerFormat, StoreError
from daemon.store.event_log import LogReader
from daemon.store.ids import MESSAGE_ID
from daemon.store.message_index import Place
from tools.localization import t

if TYPE_CHECKING:
    from daemon.store.reading import FileReader

log = logging.getLogger(__name__)

_SUFFIX = ".json"


class MessageFiles:
    """Reads the messages of one session: from the log, which is the truth, else from their files."""

    def __init__(self, files: FileReader, folder: Path, trace_id: str, log_file: LogReader | None) -> None:
        self._files = files
        self._folder = folder / "messages"
        self._trace_id = trace_id
        self.log = log_file

    def message(self, name: str, place: Place | None) -> Message | None:
        """The message called ``name``; None when its line in the log is damaged and there is no file of it, either.

        Raises StoreError for a damaged file of a session that has no log."""
        if place is not None and self.log is not None:
            found = self._files.from_line(self.log.line(place.offset, place.size), self._trace_id)
            if found is not None:
                return found
            found = None if self._files.log_only(self._trace_id) else self.file(name)
            if found is None or found.sequence != place.sequence:
                # As when the log is replayed: one damaged message is not to cost the person all others.
                log.warning("message %a of %s is damaged in the log, and lost", name, self._trace_id)
                return None
            return found
        if not MESSAGE_ID.fullmatch(name):
            raise StoreError(t("{name!a} is not the id of a message.", name=name[:100]))
        return self._files.from_file(self._folder / f"{name}{_SUFFIX}", self._trace_id)

    def file(self, name: str) -> Message | None:
        """What the file of that very message has; None when there is none, or a damaged one."""
        try:
            found = self.message(name, None)
        except NewerFormat:
            raise
        except StoreError:
            return None
        if found is None or found.message_id != name:
            return None
        return found if session_of(found.trace_id, found.branch_id) == self._trace_id else None


def names_in(folder: Path) -> set[str]:
    """Ids of the messages that have a file. Files of a write that was killed begin with a dot."""
    if folder.is_symlink():
        return set()
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return {stem for stem in stems if MESSAGE_ID.fullmatch(stem)}
