"""Find the trace that a command is about, and report what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.branches import BRANCH_ID, session_of
from daemon.runtime import AlreadyRunningError, RuntimeFolderError, state_dir
from daemon.store.file_reader import holds_trace
from daemon.store.location import stored
from daemon.store.trace_index import never_begun
from daemon.store.trace_store import StoreError, UnknownTraceError
from daemon.workspace_key import real_workspace
from lsp_bridge.cli.invocation import reporting
from lsp_bridge.protocol.handshake import RequestError
from tools.localization import t

if TYPE_CHECKING:
    from pathlib import Path

    from daemon.store.files import FileTraceStore

_NAMED = 5

trace_command = reporting(
    StoreError,
    AlreadyRunningError,
    RuntimeFolderError,
    RequestError,
    OSError,
    usage=(UnknownTraceError,),
)
"""Make a command about stored sessions; its exit code is 2 when there is no such trace."""


def store_of(workspace: Path) -> FileTraceStore:
    """Return the traces of a workspace, to be read; nothing is made."""
    return stored(real_workspace(workspace), state_dir())


def all_of(store: FileTraceStore) -> list[str]:
    """Return ids, newest first, without sessions that were killed at their start: they are empty."""
    return [name for name in store.trace_ids() if holds_trace(store.folder(name))]


def chosen(store: FileTraceStore, wanted: str, branch: str | None = None) -> str:
    """Return the session that ``wanted`` names: an id, a unique beginning of one, or ``latest``.

    ``branch``: a branch or sub-agent of it; ``ID:A`` names both. Raises UnknownTraceError with advice.
    """
    wanted, inside, named = wanted.partition(":")
    if branch is None and inside:
        branch = named
    ids = all_of(store)
    if not ids:
        raise UnknownTraceError(t("There are no traces in {root}.", root=store.root))
    if wanted in ("", "latest"):
        found = [next((name for name in ids if _begun(store, name)), ids[0])]
    else:
        found = [wanted] if wanted in ids else [name for name in ids if name.startswith(wanted)]
    if not found:
        raise UnknownTraceError(
            t("There is no trace {wanted!a}. List them with `goalwright trace list`.", wanted=wanted[:100])
        )
    if len(found) > 1:
        more = "" if len(found) <= _NAMED else t(" and {count} more", count=len(found) - _NAMED)
        raise UnknownTraceError(
            t(
                "{wanted!a} matches {count} traces: {found}{more}. Type more of the id.",
                wanted=wanted,
                count=len(found),
                found=", ".join(found[:_NAMED]),
                more=more,
            )
        )
    return found[0] if branch is None else _child(store, found[0], branch)


def _begun(store: FileTraceStore, name: str) -> bool:
    try:
        return not never_begun(store, store.trace(name))
    except StoreError:
        return True  # reading it will report what is wrong


def _child(store: FileTraceStore, trace_id: str, branch: str) -> str:
    session_id = session_of(trace_id, branch)
    if BRANCH_ID.fullmatch(branch) and holds_trace(store.folder(session_id)):
        return session_id
    known = [child.partition(":")[2] for child in store.children(trace_id)]
    there = t("there are {known}", known=", ".join(known)) if known else t("it has none")
    raise UnknownTraceError(
        t(
            "Trace {trace_id} has no branch or sub-agent {branch!a}: {there}.",
            trace_id=trace_id,
            branch=branch[:40],
            there=there,
        )
    )
