"""The history rule: of a past turn only what was asked and what was answered (source: seed 001, "History")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.windowing.blocks import Block, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def past_turns_reduced(
    blocks: Sequence[Block], before: int, keep_steps: int, belongs: Callable[[str | None], bool]
) -> list[Block]:
    """Of turns that began below the sequence ``before`` the person's message and the last text of the model stay.

    Whole stay the last ``keep_steps`` steps below ``before``, and what ``belongs`` to a goal: that is left to goal
    compaction. A turn begins where the person says something, so all that was said stays. Which text is the last does
    not depend on the plan: so nothing changes here when a goal ends.
    """
    if before <= 0:
        return list(blocks)
    steps = [block for block in blocks if _is_step(block) and block.sequence < before]
    answered = steps[-1].sequence if steps else 0
    whole = frozenset(steps[len(steps) - keep_steps :] if keep_steps < len(steps) else steps)
    found: list[Block] = []
    for turn in _turns(blocks):
        if turn[0].sequence >= before:
            found += turn
            continue
        # A turn that is under way when the mark is set grows on behind it: nothing there is history.
        past = [block for block in turn if block.sequence < before]
        last = next((block for block in reversed(past) if _is_step(block) and block.says), None)
        for block in turn:
            kept = (
                block in whole or block.sequence >= before or not block.stored or block.kind == "compaction"
            )
            # Also what the model has not seen yet.
            if kept or (block.role == "user" and block.sequence > answered):
                found.append(block)
            else:
                found += _reduced(block, block is last, belongs)
    return found


def _turns(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Split before each block in which the person says something; also behind what a compaction left."""
    turn: list[Block] = []
    for block in blocks:
        if turn and (block.person or turn[-1].kind == "compaction" != block.kind):
            yield turn
            turn = []
        turn.append(block)
    if turn:
        yield turn


def _is_step(block: Block) -> bool:
    return block.stored and block.role == "assistant" and block.kind == "message"


def _reduced(block: Block, is_last: bool, belongs: Callable[[str | None], bool]) -> Iterator[Block]:
    if block.role == "user":
        if block.person or belongs(block.goal_id):
            yield block
        return
    own = "all" if belongs(block.goal_id) else "text" if is_last else "none"
    kept = [at for at, answer in enumerate(block.answers) if belongs(answer.goal_id)]
    left = block.left(own, kept, "history")
    if left is not None:
        yield left
    if left is block:
        return
    rules = tuple(
        rule for at, answer in enumerate(block.answers) if at not in kept for rule in answer.rules.items()
    )
    if rules:
        place = block.make(
            ("rules", rules), lambda: note("", "history", sequence=block.sequence, rules=rules)
        )
        if place is not None:
            yield place
