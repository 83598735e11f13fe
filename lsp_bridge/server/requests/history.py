"""What a client can ask about the session's changes of files: ``goalwright/history/…``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.files.restore import RestoreRefusedError
from daemon.loop.restoring import Caller, Outcome, Restorer, UnknownChangeError
from daemon.loop.session import BusyError
from lsp_bridge.protocol import methods as p
from lsp_bridge.protocol.handshake import RequestError
from tools.localization import t
from tools.paths import rule_target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from daemon.core import Daemon
    from daemon.files.changes import FileSetChange
    from daemon.model.base import Model


class HistoryRequests:
    """The history requests of one connection. ``client_name`` is who is told to have done it."""

    def __init__(self, core: Daemon, client_name: Callable[[], str]) -> None:
        self._core = core
        self._client_name = client_name
        self.handlers: Mapping[str, Callable[[Any], Awaitable[Model]]] = {
            "goalwright/history/list": self.list,
            "goalwright/history/undo": self.undo,
            "goalwright/history/redo": self.redo,
            "goalwright/history/restore": self.restore,
        }

    async def list(self, params: p.SessionParams) -> p.HistoryResult:
        """The session's changes of files."""
        restorer = await self._restorer(params.session_id)
        try:
            overview = await restorer.overview()
        except RestoreRefusedError as error:
            raise RequestError(p.HISTORY_CONFLICT, str(error)) from error
        callers = restorer.callers()
        return p.HistoryResult(
            changes=tuple(self._change(change, callers) for change in overview.changes),
            undo=overview.undo.change_id if overview.undo is not None else None,
            redo=overview.redo.change_id if overview.redo is not None else None,
        )

    async def undo(self, params: p.HistoryStepParams) -> p.HistoryOutcome:
        """Take back one change."""
        restorer = await self._restorer(params.session_id)
        return await _answered(
            restorer.undo(params.change_id, dry_run=params.dry_run, by=self._client_name())
        )

    async def redo(self, params: p.HistoryStepParams) -> p.HistoryOutcome:
        """Do a change again that was taken back."""
        restorer = await self._restorer(params.session_id)
        return await _answered(
            restorer.redo(params.change_id, dry_run=params.dry_run, by=self._client_name())
        )

    async def restore(self, params: p.HistoryRestoreParams) -> p.HistoryOutcome:
        """Take back everything since a message, or for a goal."""
        if (params.message_id is None) == (params.goal_id is None):
            raise RequestError(p.INVALID_PARAMS, t("Say either a message or a goal to restore, not both."))
        restorer = await self._restorer(params.session_id)
        return await _answered(
            restorer.restore(
                message_id=params.message_id,
                goal_id=params.goal_id,
                dry_run=params.dry_run,
                by=self._client_name(),
            ),
            texts=params.texts,
        )

    async def _restorer(self, session_id: str) -> Restorer:
        return Restorer(await self._core.session(session_id))

    def _change(self, change: FileSetChange, callers: Mapping[str, Caller]) -> p.HistoryChange:
        caller = callers.get(change.change_id)
        return p.HistoryChange(
            change_id=change.change_id,
            tool_call_id=change.change_id,
            tool=caller.call.name if caller is not None else "",
            time=change.time,
            goal_id=caller.goal_id if caller is not None else None,
            message_id=caller.message.message_id if caller is not None else None,
            state="undone" if change.undone else "applied",
            files=tuple(
                p.HistoryFile(
                    path=rule_target(version.path, self._core.workspace),
                    kind=version.kind,
                    added=version.added,
                    removed=version.removed,
                    undoable=version.entry is not None,
                )
                for version in change.versions
            ),
        )


async def _answered(work: Awaitable[Outcome], *, texts: bool = False) -> p.HistoryOutcome:
    try:
        outcome = await work
    except BusyError as error:
        raise RequestError(p.BUSY, str(error)) from error
    except UnknownChangeError as error:
        raise RequestError(p.UNKNOWN_REQUEST, str(error)) from error
    except RestoreRefusedError as error:
        raise RequestError(p.HISTORY_CONFLICT, str(error)) from error
    contents = tuple(map(_text, outcome.contents)) if texts else ()
    return p.HistoryOutcome(target=outcome.target, files=outcome.files, texts=contents)


def _text(data: bytes | None) -> str | None:
    return None if data is None or b"\0" in data[:8_000] else data.decode(errors="replace")
