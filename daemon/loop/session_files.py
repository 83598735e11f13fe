"""The changes that a session makes to files: their versions, and the events about them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from daemon.files.history import SessionHistory
from daemon.files.tree import MAX_FILES
from daemon.model.events import FileChanged
from daemon.store.trace_store import StoreError
from tools.localization import t
from tools.paths import rule_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.files.history import Place
    from daemon.files.versions import Version
    from daemon.loop.policy import Policy
    from tools.tool import CommandWatch

log = logging.getLogger(__name__)


class FileWork:
    """The file changes of one session."""

    def __init__(self, policy: Policy) -> None:
        record, services = policy.record, policy.record.services
        self.history = SessionHistory(
            services.store.folder(record.session_id) / "files",
            services.now,
            services.workspace,
            on_written=self._written,
            watch=self._watch,
            writes=services.watching.commands.writes,
            read_only=record.foreign,
        )
        self.lock = asyncio.Lock()
        """Held by a turn, and while changes of files are undone."""
        self._record = record
        self._policy = policy

    async def _watch(self, places: Sequence[Place]) -> CommandWatch:
        commands = self._record.services.watching.commands
        watch = await commands.watch(places)
        if commands.given_up:
            self._record.notice_once(
                t(
                    "Changes by commands cannot be undone: this folder has more than {count} files, or could not be "
                    "watched. Add what is not needed to .gitignore.",
                    count=f"{MAX_FILES:,}",
                )
            )
        return watch

    def _written(self, versions: Sequence[Version]) -> None:
        written: list[tuple[str, str]] = []
        for version in versions:
            try:
                path = rule_target(version.path, self._record.services.workspace)
                written.append((path, version.tool_call_id))
                self._record.emit(
                    FileChanged(
                        **self._record.here(),
                        path=path,
                        kind=version.kind,
                        version=version.version or "",
                        tool_call_id=version.tool_call_id,
                        added=version.added,
                        removed=version.removed,
                    )
                )
            except StoreError as error:
                log.warning("a change of %s is not in the log: %s", version.path, error)
        try:
            self._policy.note_changes(written)
        except StoreError as error:
            log.warning("what was changed of the design is not in the log: %s", error)
