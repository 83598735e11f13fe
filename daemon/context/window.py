"""Convert stored messages to the messages of a request: one pure function, which changes nothing that is stored.

Its steps, each a module of ``daemon.context.windowing``:

1. ``pairing``: messages become blocks, every call with exactly its result.
2. ``cutting``: a full compaction leaves its three messages and the last steps; long results of these may be cut.
3. ``history``: past turns keep the user's message and the model's last text.
4. ``goals``: messages of an ended goal become its summary; a goal that replaced abandoned ones mentions them.
5. ``pruning``: marked old results are cleared.
6. ``rules``: instruction files outlive the results they came with.

From call to call the messages up to the first one of the outermost goal that ended in between are the same bytes,
except at a full compaction and at a mark (see ContextMarked).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.context.profiles import ContextProfile
from daemon.context.windowing.blocks import CLEARED, INTERRUPTED, Block, Kind, Rules, WindowMessage, note
from daemon.context.windowing.compacted_history import since_compaction
from daemon.context.windowing.goal_status import GoalStatuses
from daemon.context.windowing.goals import GoalCompaction
from daemon.context.windowing.history import past_turns_reduced
from daemon.context.windowing.notes import BEGINS, GO_ON, IN_SUMMARY, attempts_text, summary_text
from daemon.context.windowing.pairing import MessageReader
from daemon.context.windowing.pruning import results_cleared, to_prune
from daemon.context.windowing.rules import extended, rules_kept
from daemon.model.events import Marks
from daemon.plan.tree import PlanTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.goals import Goal
    from daemon.model.messages import Message
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

_PLAIN = ContextProfile("plain", window=200_000, compact_at=150_000, keep_steps=3)


@dataclass(frozen=True, slots=True)
class Window:
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


class WindowCache:
    """A cache that a session keeps from one window to the next. It saves time and changes no result.

    Not for two sessions at once: results would still be right, but slow.
    """

    def __init__(self) -> None:
        self._reader = MessageReader()
        self._notes: dict[object, Block] = {}
        self._old_notes: dict[object, Block] = {}
        self._summaries: dict[str, tuple[tuple[Goal, ...], str]] = {}
        self._blocks: list[Block] = []
        self._entries: list[WindowMessage] = []
        self._tokens = 0

    def reader(self, messages: Sequence[Message]) -> MessageReader:
        """Return a reader that has read ``messages``."""
        if not self._reader.follows(messages):
            self._reader = MessageReader()
        self._reader.read(messages)
        return self._reader

    def begin(self) -> None:
        """A window is built: notes that the one before the last had are forgotten."""
        self._old_notes, self._notes = self._notes, {}

    def note(
        self, text: str, kind: Kind, *, goal_id: str | None = None, sequence: int = 0, rules: Rules = ()
    ) -> Block:
        """Return the same block for the same text, so that whatever is cached with the block is found again."""
        key = (text, kind, goal_id, sequence, rules)
        found = self._old_notes.get(key)
        if found is None:
            found = note(text, kind, goal_id=goal_id, sequence=sequence, rules=rules)
        self._notes[key] = found
        return found

    def summary(self, plan: PlanTree, root: Goal) -> str:
        """Return the summary that replaces an ended goal. It is rebuilt only when one of its goals is another
        object."""
        goals = (root, *plan.descendants(root.id))
        known = self._summaries.get(root.id)
        if known is None or known[0] != goals:
            known = self._summaries[root.id] = (goals, summary_text(plan, root))
        return known[1]

    def entries(self, blocks: Sequence[Block]) -> tuple[list[WindowMessage], int]:
        """Return the messages of ``blocks`` and their tokens. Only what the last window had not is looked at."""
        known = len(self._blocks)
        if known >= len(blocks) or blocks[:known] != self._blocks:  # compares by identity
            known, self._blocks, self._entries, self._tokens = 0, [], [], 0
        # Results may still change the last block.
        new = blocks[known:-1]
        found = [entry for block in new for entry in block.entries]
        self._blocks += new
        self._entries += found
        self._tokens += sum([entry.tokens for entry in found])
        last = [entry for block in blocks[-1:] for entry in block.entries]
        return [*self._entries, *last], self._tokens + sum([entry.tokens for entry in last])

    def extended(self, block: Block, text: str) -> Block:
        """Return ``block`` with this text at its end; the same one for the same words."""
        key = (block, text)
        found = self._old_notes.get(key) or extended(block, text)
        self._notes[key] = found
        return found


def build_window(
    messages: Sequence[Message],
    plan: PlanTree | None = None,
    marks: Marks | None = None,
    profile: ContextProfile | None = None,
    *,
    cache: WindowCache | None = None,
) -> Window:
    """Return the messages to send to the model: valid for every provider, whatever ``messages`` look like.

    They begin with a user message and never end with one of the model. ``profile`` None: three steps stay whole, and
    goal compaction is on. ``cache`` belongs to the session and saves time.
    """
    plan, marks, profile = plan or PlanTree(), marks or Marks(), profile or _PLAIN
    cache = cache or WindowCache()
    blocks = _shown(messages, plan, marks, profile, cache)
    entries, tokens = cache.entries(blocks)
    added: list[WindowMessage] = []
    if entries and entries[0].prompt.role != "user":
        added = [*cache.note(BEGINS, "message").entries]
        entries[:0] = added
    if messages and (not entries or entries[-1].prompt.role == "assistant"):
        added += (end := cache.note(GO_ON, "message").entries)
        entries += end
    return Window(tuple(entries), tokens + sum([entry.tokens for entry in added]))


def prunable(
    messages: Sequence[Message],
    plan: PlanTree | None = None,
    marks: Marks | None = None,
    profile: ContextProfile | None = None,
    *,
    cache: WindowCache | None = None,
) -> tuple[tuple[int, ...], int]:
    """Return the sequences of the tool messages to clear now and the tokens that this frees; nothing when it is not
    worth it.

    Looks at what the window shows.
    """
    profile = profile or _PLAIN
    return to_prune(
        _shown(messages, plan or PlanTree(), marks or Marks(), profile, cache or WindowCache()), profile
    )


def keep_from(
    messages: Sequence[Message],
    plan: PlanTree | None = None,
    marks: Marks | None = None,
    profile: ContextProfile | None = None,
    *,
    cache: WindowCache | None = None,
) -> int:
    """Return the sequence from which a full compaction leaves everything whole: that of the first of the last N steps.

    Steps are counted as the window shows them, so those of ended goals do not count. The user's message directly before
    the first one stays with it, unless the compaction would then change nothing. The user's last messages that have no
    answer yet always stay. When nothing stays, it is the next sequence.
    """
    profile = profile or _PLAIN
    blocks = _shown(messages, plan or PlanTree(), marks or Marks(), profile, cache or WindowCache())
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
    cache.begin()
    reader = cache.reader(messages)
    statuses = GoalStatuses(plan)
    blocks = since_compaction(reader)

    def belongs(goal_id: str | None) -> bool:
        standing = statuses.of(goal_id)
        return standing.known if profile.goal_compaction else standing.live

    blocks = past_turns_reduced(blocks, marks.history_before, profile.keep_steps, belongs)
    if profile.goal_compaction and plan.goals:
        blocks = _goals_replaced(blocks, plan, statuses, cache, has_rules=reader.has_rules)
    blocks = results_cleared(blocks, marks.pruned)
    return rules_kept(blocks, cache.extended) if reader.has_rules else blocks


def _goals_replaced(
    blocks: Sequence[Block], plan: PlanTree, statuses: GoalStatuses, cache: WindowCache, *, has_rules: bool
) -> list[Block]:
    def summary(root: Goal, sequence: int, rules: Rules) -> Block:
        text = cache.summary(plan, root)
        return cache.note(text, "goal_summary", goal_id=root.id, sequence=sequence, rules=rules)

    def attempts(goal: Goal, sequence: int) -> Block:
        text = attempts_text(plan, goal)
        return cache.note(text, "goal_summary", goal_id=goal.id, sequence=sequence)

    def pointer(goal: Goal, sequence: int) -> Block:
        return cache.note(IN_SUMMARY, "goal_summary", goal_id=goal.id, sequence=sequence)

    return GoalCompaction(statuses, summary, attempts, pointer, has_rules=has_rules).replaced(blocks)
