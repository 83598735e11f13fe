"""Convert stored messages to the messages of a request: one pure function, which changes nothing that is stored.

Its steps, each a module of ``daemon.context.windowing``:

1. ``pairing``: messages become blocks, every call with exactly its result.
2. ``history``: a full compaction leaves its three messages and the last steps; long results of these may be cut. Past
   turns keep the user's message and the model's last text.
3. ``goals``: messages of an ended goal become its summary; a goal that replaced abandoned ones mentions them.
4. ``results``: marked old results are cleared. Instruction files outlive the results they came with.

From call to call the messages up to the first one of the outermost goal that ended in between are the same bytes,
except at a full compaction and at a mark (see ContextMarked).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from daemon.context.windowing.blocks import CLEARED, INTERRUPTED, Block, WindowMessage
from daemon.context.windowing.cache import WindowCache
from daemon.context.windowing.goals import GoalStatuses
from daemon.context.windowing.history import past_turns_reduced, since_compaction
from daemon.context.windowing.notes import BEGINS, GO_ON
from daemon.context.windowing.results import results_cleared, rules_kept, to_prune

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.context.profiles import ContextProfile
    from daemon.model.events import Marks
    from daemon.model.messages import Message
    from daemon.plan.tree import PlanTree
    from daemon.provider.model_calls import PromptMessage

__all__ = [
    "CLEARED",
    "INTERRUPTED",
    "Window",
    "WindowCache",
    "WindowMessage",
    "build_window",
    "keep_from",
    "prunable",
]


class Window(Struct, frozen=True):
    """The messages of a request. Tokens are estimated, not calibrated."""

    entries: tuple[WindowMessage, ...]
    tokens: int

    @property
    def messages(self) -> tuple[PromptMessage, ...]:
        """For a request."""
        return tuple([entry.prompt for entry in self.entries])

    def before(self, goal_id: str | None) -> int:
        """Return the number of messages before the first one of a goal; 0 when it has none."""
        if goal_id is None:
            return 0
        return next((n for n, entry in enumerate(self.entries) if entry.goal_id == goal_id), 0)


def build_window(
    messages: Sequence[Message],
    plan: PlanTree,
    marks: Marks,
    profile: ContextProfile,
    *,
    cache: WindowCache | None = None,
) -> Window:
    """Return the messages to send to the model: valid for every provider, whatever ``messages`` look like.

    They begin with a user message and never end with one of the model. ``cache`` belongs to the session and saves time.
    """
    cache = cache or WindowCache()
    blocks = _shown(messages, plan, marks, profile, cache)
    entries, tokens = cache.entries(blocks)
    added: list[WindowMessage] = []
    if entries and entries[0].prompt.role != "user":
        added = [*cache.notes.note(BEGINS, "message").entries]
        entries[:0] = added
    if messages and (not entries or entries[-1].prompt.role == "assistant"):
        added += (end := cache.notes.note(GO_ON, "message").entries)
        entries += end
    return Window(tuple(entries), tokens + sum([entry.tokens for entry in added]))


def prunable(
    messages: Sequence[Message],
    plan: PlanTree,
    marks: Marks,
    profile: ContextProfile,
    *,
    cache: WindowCache | None = None,
) -> tuple[tuple[int, ...], int]:
    """Return the sequences of the tool messages to clear now and the tokens that this frees; nothing when it is not
    worth it.

    Looks at what the window shows.
    """
    return to_prune(_shown(messages, plan, marks, profile, cache or WindowCache()), profile)


def keep_from(
    messages: Sequence[Message],
    plan: PlanTree,
    marks: Marks,
    profile: ContextProfile,
    *,
    cache: WindowCache | None = None,
) -> int:
    """Return the sequence from which a full compaction leaves everything whole: that of the first of the last N steps.

    Steps are counted as the window shows them, so those of ended goals do not count. The user's message directly before
    the first one stays with it, unless the compaction would then change nothing. The user's last messages that have no
    answer yet always stay. When nothing stays, it is the next sequence.
    """
    blocks = _shown(messages, plan, marks, profile, cache or WindowCache())
    blocks = [block for block in blocks if block.kind != "compaction" and block.entries]
    steps = [
        at
        for at, block in enumerate(blocks)
        if block.stored and block.role == "assistant" and block.kind == "message"
    ]
    if steps and profile.keep_steps > 0:
        return _with_words_before(blocks, steps[-profile.keep_steps :][0])
    pending = len(blocks)
    while pending > 0 and blocks[pending - 1].stored and blocks[pending - 1].role == "user":
        pending -= 1
    if pending < len(blocks):
        return blocks[pending].sequence
    return messages[-1].sequence + 1 if messages else 1


def _with_words_before(blocks: Sequence[Block], first: int) -> int:
    """Return the sequence of the step at ``first``, or of the user's message directly before it."""
    sequence = blocks[first].sequence
    found = sequence
    for block in reversed(blocks[:first]):
        if block.stored and block.role == "user":
            found = block.sequence
        elif block.stored or block.sequence != sequence:
            return found
    # Only the user's messages come before, so a compaction that keeps them would change nothing.
    return sequence


def _shown(
    messages: Sequence[Message], plan: PlanTree, marks: Marks, profile: ContextProfile, cache: WindowCache
) -> list[Block]:
    """Return the blocks of a session that are left after all reductions."""
    cache.notes.begin()
    reader = cache.reader(messages)
    statuses = GoalStatuses(plan)
    blocks = past_turns_reduced(
        since_compaction(reader),
        marks.history_before,
        profile.keep_steps,
        lambda goal_id: statuses.of(goal_id).known,
    )
    if plan.goals:
        blocks = cache.goals(plan, statuses, blocks, has_rules=reader.has_rules).replaced(blocks)
    blocks = results_cleared(blocks, marks.pruned)
    return rules_kept(blocks, cache.notes) if reader.has_rules else blocks
