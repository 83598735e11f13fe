"""The step tree of a trace for the API: folded from its log, kept for a while, and carried on from where it was.

Runs in threads; one fold is changed by one at a time.
"""

from __future__ import annotations

import logging
import threading
from functools import lru_cache

from pydantic import BaseModel, Field

from daemon.api.message_query import BRANCH_OR_SUBAGENT
from daemon.api.session_summary import JsonObject
from daemon.model.steps import Step
from daemon.model.traces import TraceStatus
from daemon.steps.fold import StepFold
from daemon.steps.tree import StepTree
from daemon.store.trace_store import StoreError, TraceStore, all_events

log = logging.getLogger(__name__)

MAX_STEPS = 2000
"""Most steps in one response."""
MAX_DEPTH = 100
"""Deepest nesting in one response: many JSON parsers limit it. Real plans stay below; a forged trace may not."""
CUT = 4000
"""Characters of a text in a step's ``data``; the whole is among the messages."""
_FOLDS = 6


class NotFoundError(Exception):
    """Raised for an unknown trace, branch, goal or step; the message says what to do."""


class AnswerTooLargeError(Exception):
    """Raised when one response cannot hold the data; the message suggests a narrower request."""


class NodeQuery(BaseModel, frozen=True):
    """The parameters of a request for the children of a step.

    Very many children are given in parts, oldest first, and ``more`` says that there are others: behind these, from the
    first or the child ``after`` on; or in front of them, with ``newest`` (the last ones) or ``before`` a child.
    """

    expand: bool = Field(default=False, description="Include the steps below the children.")
    max_depth: int = Field(default=1, ge=0, le=MAX_DEPTH, description="How many levels to include.")
    branch_id: str | None = Field(default=None, description=BRANCH_OR_SUBAGENT)
    limit: int = Field(default=1000, ge=1, le=MAX_STEPS)
    after: str | None = Field(default=None, description="Children after this one.")
    before: str | None = Field(default=None, description="Children before this one, nearest first.")
    newest: bool = Field(default=False, description="The last children instead of the first.")


class _CachedTree:
    def __init__(self, session_id: str) -> None:
        self.fold = StepFold(session_id, cut=CUT)
        self.lock = threading.Lock()


class StepViews:
    """The trees of the sessions that were looked at last."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store
        self._entry = lru_cache(_FOLDS)(_CachedTree)

    def tree(
        self, session_id: str, trace_id: str, status: TraceStatus, *, is_live: bool = True
    ) -> JsonObject:
        """Return the step tree. ``is_live``: a daemon works on the session, or may."""
        entry = self._entry(session_id)
        with entry.lock:
            tree = self._shown(entry, is_live=is_live)
            if tree.total_steps > MAX_STEPS:
                raise AnswerTooLargeError(
                    f"This trace has {tree.total_steps} steps, and /tree returns at most {MAX_STEPS}: use "
                    f"/api/traces/{trace_id}/node/root, and request the nodes below it as needed."
                )
            return {
                "trace_id": trace_id,
                "status": status,
                "total_steps": tree.total_steps,
                "root_nodes": _nodes(tree, tree.children(None), MAX_DEPTH),
            }

    def node(
        self, session_id: str, step_id: str | None, query: NodeQuery, *, is_live: bool = True
    ) -> JsonObject:
        """Return a step with its children."""
        entry = self._entry(session_id)
        with entry.lock:
            tree = self._shown(entry, is_live=is_live)
            if step_id is not None and tree.get(step_id) is None:
                raise NotFoundError(
                    f"There is no step {step_id[:200]!a} in this trace; the first one is `root`."
                )
            children = tree.children(step_id)
            if query.before is not None:
                children = children[: _place(children, query.before)]
            if query.after is not None:
                children = children[_place(children, query.after) + 1 :]
            backwards = query.newest or query.before is not None
            shown = children[-query.limit :] if backwards else children[: query.limit]
            nodes = _nodes(tree, shown, query.max_depth if query.expand else 0)
            return {"step_id": step_id, "children": nodes, "more": len(children) > len(shown)}

    def fold_at(self, session_id: str, event_id: int) -> StepFold | None:
        """Return a copy of the fold after an event; None when it is further, or broken. Raises StoreError."""
        entry = self._entry(session_id)
        with entry.lock:
            try:
                self._current(entry, event_id)
            except StoreError:
                raise
            except Exception:
                log.exception("the steps of a trace cannot be derived")
                return None
            return entry.fold.copy() if entry.fold.last_event_id <= event_id else None

    def _shown(self, entry: _CachedTree, *, is_live: bool) -> StepTree:
        """Return the steps to show: those that were in progress when a daemon died count as ended."""
        self._current(entry)
        fold = entry.fold
        if not is_live and fold.head.status in ("running", "waiting"):
            fold = fold.copy()  # the session may be opened, and continue
            fold.break_off()
        return fold.tree

    def _current(self, entry: _CachedTree, to: int | None = None) -> None:
        """Bring the fold up to what the log has, or to the event ``to``."""
        fold = entry.fold
        session_id = fold.tree.trace_id
        if fold.last_event_id > self._store.last_event_id(session_id):
            # The log has been replaced, because the trace was deleted and imported again.
            entry.fold = fold = StepFold(session_id, cut=CUT)
        for event in all_events(self._store.events, session_id, after=fold.last_event_id):
            if to is not None and event.event_id > to:
                break
            fold.apply(event)


def _place(children: list[Step], step_id: str) -> int:
    place = next((at for at, step in enumerate(children) if step.step_id == step_id), None)
    if place is None:
        raise NotFoundError(
            f"{step_id[:200]!a} is not a child of this step, or not in the given range: give one of its "
            "children."
        )
    return place


def _nodes(tree: StepTree, steps: list[Step], depth: int) -> list[JsonObject]:
    """Return steps with ``depth`` levels below them. Raises AnswerTooLargeError."""
    top: list[JsonObject] = []
    todo = [(top, steps, 0)]
    count = 0
    while todo:
        into, level, deep = todo.pop()
        count += len(level)
        if count > MAX_STEPS:
            raise AnswerTooLargeError(
                f"These are more than {MAX_STEPS} steps: ask for fewer levels (max_depth, expand=false) or fewer "
                "children (limit)."
            )
        for step in level:
            children: list[JsonObject] = []
            below = tree.children(step.step_id)
            into.append({**step.stored(), "child_count": len(below), "children": children})
            if below and deep < depth:
                todo.append((children, below, deep + 1))
    return top
