"""Ids of sessions as path segments and in lists. They come from clients, and from an untrusted folder."""

from __future__ import annotations

import re

from daemon.model.branches import BRANCH_ID, branch_of, root_of
from daemon.store.trace_store import UnknownTraceError
from tools.localization import t

TRACE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""Id of a main session: a name that does not climb, is not hidden, and has no ``:``."""
MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


def sequence_of(message_id: str) -> int:
    """Return the sequence in an id: ``msg_000012_ab12cd`` → 12; 0 if it has none."""
    parts = message_id.split("_")
    return int(parts[1]) if len(parts) > 1 and parts[1].isascii() and parts[1].isdigit() else 0


def parent_of(session_id: str) -> str:
    """Return the id of a child's direct parent: ``t:A.s1`` → ``t:A`` → ``t``; a main session is its own."""
    root, child = root_of(session_id), branch_of(session_id)
    above = (child or "").rpartition(".")[0]
    return f"{root}:{above}" if above else root


def order_of_children(session_id: str) -> tuple[bool, int, str]:
    """Sorts the children of one session: branches A … Z, AA …, then sub-agents s1, s2, … s10."""
    name = (branch_of(session_id) or "").rpartition(".")[2]
    return (name.startswith("s"), int(name[1:]) if name.startswith("s") else len(name), name)


def folder_names(session_id: str) -> tuple[str, ...]:
    """Return the folders from the store's root down to a session. Raises UnknownTraceError."""
    root, child = root_of(session_id), branch_of(session_id)
    if not TRACE_ID.fullmatch(root) or (child is None) != (root == session_id):
        raise UnknownTraceError(t("{session_id!a} is not a session id.", session_id=session_id[:100]))
    if child is None:
        return (root,)
    if not BRANCH_ID.fullmatch(child):
        raise UnknownTraceError(t("{session_id!a} is not a session id.", session_id=session_id[:100]))
    return (root, *(part for name in child.split(".") for part in (kind_of(name), name)))


def kind_of(name: str) -> str:
    """Return the folder in which a child called ``name`` is kept."""
    return "agents" if name.startswith("s") else "branches"
