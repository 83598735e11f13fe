"""Requests about the session's changes of files: ``goalwright/history/…``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.explore.branch_actions import SELECT_CALL
from daemon.loop.forking import is_prompt
from daemon.loop.undo import Caller, Outcome, Restorer
from lsp_bridge.protocol import history as p
from lsp_bridge.protocol.handshake import RequestError
from lsp_bridge.protocol.sessions import SessionParams
from lsp_bridge.server.requests.declaration import RequestArea, request
from tools.localization import t
from tools.paths import rule_target
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.files.changes import FileSetChange
    from daemon.model.messages import Message

_PROMPT = 80
"""Characters of a prompt beside its changes."""


class HistoryRequests(RequestArea):
    """The history requests of one connection."""

    @request("goalwright/history/list", changes=False)
    async def list(self, params: SessionParams) -> p.HistoryResult:
        """List the session's changes of files."""
        restorer = await self._restorer(params.session_id)
        overview = await restorer.overview()
        callers = restorer.callers()
        session = await self._core.session(params.session_id)
        prompts = [message for message in session.state.messages if is_prompt(message)]
        return p.HistoryResult(
            changes=tuple(self._change(change, callers, prompts) for change in overview.changes),
            undo=overview.undo.change_id if overview.undo is not None else None,
            redo=overview.redo.change_id if overview.redo is not None else None,
        )

    @request("goalwright/history/undo", changes=True)
    async def undo(self, params: p.HistoryStepParams) -> p.HistoryOutcome:
        """Undo one change; with ``dryRun`` only report it."""
        restorer = await self._restorer(params.session_id)
        return _outcome(
            await restorer.undo(params.change_id, dry_run=params.dry_run, by=self._context.client_name)
        )

    @request("goalwright/history/redo", changes=True)
    async def redo(self, params: p.HistoryStepParams) -> p.HistoryOutcome:
        """Redo an undone change; with ``dryRun`` only report it."""
        restorer = await self._restorer(params.session_id)
        return _outcome(
            await restorer.redo(params.change_id, dry_run=params.dry_run, by=self._context.client_name)
        )

    @request("goalwright/history/restore", changes=True)
    async def restore(self, params: p.HistoryRestoreParams) -> p.HistoryOutcome:
        """Undo everything since a message, or for a goal; with ``dryRun`` only report it."""
        if (params.message_id is None) == (params.goal_id is None):
            raise RequestError(t("Choose either a message or a goal to restore, not both."))
        restorer = await self._restorer(params.session_id)
        outcome = await restorer.restore(
            message_id=params.message_id,
            goal_id=params.goal_id,
            dry_run=params.dry_run,
            by=self._context.client_name,
        )
        return _outcome(outcome, texts=params.texts)

    async def _restorer(self, session_id: str) -> Restorer:
        return Restorer(await self._core.session(session_id))

    def _change(
        self, change: FileSetChange, callers: Mapping[str, Caller], prompts: Sequence[Message]
    ) -> p.HistoryChange:
        caller = callers.get(change.change_id)
        chosen = "explore" if change.change_id.startswith(SELECT_CALL) else ""
        made = caller.message.created_at if caller is not None else change.time
        prompt = next((one for one in reversed(prompts) if one.created_at <= made), None)
        return p.HistoryChange(
            change_id=change.change_id,
            tool_call_id=change.change_id,
            tool=caller.call.name if caller is not None else chosen,
            time=change.time,
            goal_id=caller.goal_id if caller is not None else None,
            message_id=caller.message.message_id if caller is not None else None,
            prompt_id=None if prompt is None else prompt.message_id,
            prompt="" if prompt is None else one_line(prompt.text(), _PROMPT),
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


def _outcome(outcome: Outcome, *, texts: bool = False) -> p.HistoryOutcome:
    contents = tuple(map(_text, outcome.contents)) if texts else ()
    return p.HistoryOutcome(target=outcome.target, files=outcome.files, texts=contents)


def _text(data: bytes | None) -> str | None:
    return None if data is None or b"\0" in data[:8_000] else data.decode(errors="replace")
