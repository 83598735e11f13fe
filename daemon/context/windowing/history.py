"""The history rule: a past turn keeps only the user's message and the final answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.context.windowing.blocks import Block, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def past_turns_reduced(
    blocks: Sequence[Block], before: int, keep_steps: int, belongs: Callable[[str | None], bool]
) -> list[Block]:
    """Reduce turns that began below the sequence ``before`` to the user's message and the model's last text.

    The last ``keep_steps`` steps below ``before`` stay whole, and so do blocks that ``belongs`` assigns to a goal: goal
    compaction handles those. A turn begins where the user says something, so all the user's messages stay. Which text
    is the last does not depend on the plan, so nothing changes here when a goal ends.
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
        # A turn that is running when the mark is set continues behind it, and that part is not history.
        past = [block for block in turn if block.sequence < before]
        last = next((block for block in reversed(past) if _is_step(block) and block.says), None)
        for block in turn:
            kept = (
                block in whole or block.sequence >= before or not block.stored or block.kind == "compaction"
            )
            # Keep what the model has not seen yet, too.
            if kept or (block.role == "user" and block.sequence > answered):
                found.append(block)
            else:
                found += _reduced(block, block is last, belongs)
    return found


def _turns(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield turns: split before each block in which the user says something, and after a compaction."""
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
        yield block.make(("rules", rules), lambda: note("", "history", sequence=block.sequence, rules=rules))
