"""The frames of the WebSocket as JSON. Pure.

An event's frame has the event's fields as they are stored, with ``event_id``. The frames of its steps come before it,
with ``of_event_id`` and no id of their own, so that a client that returns with the last ``event_id`` misses nothing:
steps are found by their id, and receiving one twice changes nothing. For clients that subscribe to everything, an
event's frame has as ``view`` its changes of the trace's status, totals and display numbers
(``daemon.state.projection``). A frame that many clients would reject is shortened (``daemon.api.frame_limits``), alike
when live and from the log; the REST endpoints return it in full.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from daemon.api.frame_limits import shorten_connected_frame, shorten_frame
from daemon.model.branches import branch_of, root_of
from daemon.model.encoding import json_bytes, json_text
from daemon.model.events import Delta, Event

if TYPE_CHECKING:
    from daemon.model.traces import ViewUpdate
    from daemon.steps.fold import StepAdded, StepUpdated

JsonObject = dict[str, Any]
Chosen = Literal["all", "goals", "steps"]
"""The events a client subscribes to: all, those that the graph is drawn from, or those of the step tree."""

CHOICES: Mapping[str, Chosen] = {"all": "all", "goals": "goals", "steps": "steps"}
GRAPH_EVENTS = frozenset(
    ["session_created", "session_updated", "message_added", "goal_added", "goal_updated", "goal_moved", "goal_removed",
     "turn_started", "turn_ended", "trace_completed", "branch_started", "branch_placed", "branch_goal_added",
     "branch_goal_updated", "branch_message_added", "branch_completed", "branch_selected", "branch_removed",
     "explore_completed", "subagent_started", "subagent_completed"]
)  # fmt: skip
"""Events that ``events=goals`` sends: changes of goals and branches, and whatever else the graph and its numbers
show."""
_LAST = "trace_completed"
"""The stored event that subscribers of the step tree receive, too."""


class Subscription(Struct, frozen=True):
    """The subscription of one client."""

    events: Chosen = "all"
    deltas: bool = True

    @property
    def steps(self) -> bool:
        """Whether frames of steps are among it."""
        return self.events != "goals"


class EncodedItem(Struct):
    """One event or delta, encoded once for all clients."""

    event_id: int
    """0: a delta."""
    kind: str
    event: str
    steps: tuple[str, ...] = ()
    """Frames of its steps, which are sent before the event."""
    steps_alone: tuple[str, ...] = ()
    """The frames for clients that get no events; the last frame has the event's id."""
    view: str = ""
    """Field of the event's frame for clients that get everything: what changed of status, totals and numbers."""
    size: int = 0
    """Characters that it holds, about."""

    def __post_init__(self) -> None:
        self.size = len(self.event) + len(self.view) + sum(map(len, self.steps)) + 100

    def of(self, wants: Subscription) -> tuple[str, ...]:
        """Return the frames that a client wants; may be none."""
        if not self.event_id:
            return (self.event,) if wants.deltas and wants.events == "all" else ()
        if wants.events == "all":
            return (*self.steps, f"{self.event[:-1]},{self.view}}}" if self.view else self.event)
        if wants.events == "goals":
            return (self.event,) if self.kind in GRAPH_EVENTS else ()
        return (*self.steps_alone, self.event) if self.kind == _LAST else self.steps_alone


def event_entry(
    event: Event,
    changes: Sequence[StepAdded | StepUpdated] = (),
    line: bytes | None = None,
    view: ViewUpdate | None = None,
) -> EncodedItem:
    """Encode a stored event with its changes of steps, and of what clients show.

    ``line``: as our store has just written it.
    """
    steps = tuple(shorten_frame(json_bytes(step_frame(event, change))).decode() for change in changes)
    alone = (*steps[:-1], f'{steps[-1][:-1]},"event_id":{event.event_id}}}') if steps else ()
    text = shorten_frame(event_text(event, line)).decode()
    shown = (
        ""
        if view is None
        else f'"view":{json_bytes(view.model_dump(mode="json", exclude_unset=True)).decode()}'
    )
    return EncodedItem(event.event_id, event.event, text, steps, alone, shown)


def delta_entry(delta: Delta) -> EncodedItem:
    """Encode a piece of a text that grows."""
    frame = {"event": "delta", **delta.stored(), "trace_id": root_of(delta.trace_id)}
    return EncodedItem(0, "delta", shorten_frame(json_bytes(frame)).decode())


def connected_frame(session_id: str, current_event_id: int, known: Mapping[str, Any]) -> str:
    """Return the first frame of each client, ``connected``.

    ``known``: ``goal_tree`` and the other fields of the frame.
    """
    frame = {
        "event": "connected",
        "trace_id": root_of(session_id),
        "branch_id": branch_of(session_id),
        "current_event_id": current_event_id,
        **known,
    }
    return shorten_connected_frame(frame).decode()


def event_text(event: Event, line: bytes | None = None) -> bytes:
    """Return an event as clients get it, as JSON without secrets. ``line``: as our store has just written it.

    Unchanged fields of a goal are left out instead of being null.
    """
    # A line is already redacted: looking for secrets is the expensive part.
    line = json_bytes(event.stored()) if line is None else line
    root = root_of(event.trace_id)
    if root == event.trace_id and not getattr(event, "affected_goals", ()):
        return line
    frame = cast("JsonObject", json.loads(line))
    frame["trace_id"] = root
    affected = cast("list[JsonObject]", frame.get("affected_goals", []))
    for goal in affected:
        for name in [name for name, value in goal.items() if value is None]:
            del goal[name]
    if "updates" in frame:
        # The documented event has the goal's numbers in ``updates`` as well as beside it, so send both.
        own = next((goal for goal in affected if goal["goal_id"] == frame["goal_id"]), None)
        if own is not None and "cumulative_stats" in own:
            frame["updates"]["cumulative_stats"] = own["cumulative_stats"]
    return json_text(frame).encode()


def step_frame(event: Event, change: StepAdded | StepUpdated) -> JsonObject:
    """Return the ``step_added`` or ``step_updated`` frame for one change that an event made to the step tree."""
    from daemon.steps.fold import StepAdded

    head = {"trace_id": root_of(event.trace_id), "of_event_id": event.event_id}
    if isinstance(change, StepAdded):
        step = {**change.step.stored(), "trace_id": root_of(event.trace_id)}
        frame = {"event": "step_added", **head, "step": step}
        return frame if change.before_id is None else {**frame, "before_id": change.before_id}
    return {"event": "step_updated", **head, "step_id": change.step_id, "updates": change.updates}
