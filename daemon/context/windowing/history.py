"""The past that stays: what a full compaction leaves, and of a past turn the user's message and the final answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.context.instructions import instruction_block
from daemon.context.profiles import RESULT_KEPT, RESULT_LIMIT
from daemon.context.windowing.blocks import Block, CallWithResult, note
from daemon.model.messages import NotePart, TextPart
from tools.text.truncate import head, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.context.windowing.pairing import Compaction, MessageReader


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


def since_compaction(reader: MessageReader) -> list[Block]:
    """Return all blocks, or those of the last complete compaction, the kept ones, and later ones.

    Compactions that a crash cut off are ignored.
    """
    done = reader.compaction
    if done is None:
        return list(reader.blocks)
    kept = [block for block in reader.blocks[: done.before] if block.sequence >= done.mark.keep_from]
    if done.mark.cut_results:
        kept = [results_cut(block) for block in kept]
    return [*done.blocks, *_rules_left(reader, done), *kept, *reader.blocks[done.before :]]


def results_cut(block: Block) -> Block:
    """Return ``block`` with both ends of results that are longer than RESULT_LIMIT characters."""
    if not any(answer.result and len(answer.result.content) > RESULT_LIMIT for answer in block.answers):
        return block
    return block.with_results("cut", _cut)


def _cut(answer: CallWithResult) -> CallWithResult:
    result = answer.result
    if result is None or len(result.content) <= RESULT_LIMIT:
        return answer
    text = result.content
    left_out = len(text) - 2 * RESULT_KEPT
    cut = f"{head(text, RESULT_KEPT)}\n\n[... {left_out} chars omitted ...]\n\n{tail(text, RESULT_KEPT)}"
    for path, rules in answer.rules.items():
        block = instruction_block(path, rules)
        if block in text and block not in cut:
            cut += f"\n\n{block}"
    return replace(answer, result=result.model_copy(update={"content": cut}))


def _rules_left(reader: MessageReader, done: Compaction) -> list[Block]:
    """Return the folders' instructions among removed messages, as far as they were not carried over."""
    if not reader.has_rules:
        return []
    rules: dict[str, str] = {}
    for block in reader.blocks[: done.before]:
        if block.sequence < done.mark.keep_from:
            for answer in block.answers:
                rules |= answer.rules
    carried = "\n".join(
        part.text for block in done.blocks for part in block.parts if isinstance(part, TextPart | NotePart)
    )
    missing = [(path, text) for path, text in rules.items() if instruction_block(path, text) not in carried]
    return [note("", "compaction", sequence=done.sequence, rules=tuple(missing))] if missing else []
