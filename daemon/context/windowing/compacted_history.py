"""The messages that a full compaction leaves: its own, and those that stay whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.context.instructions import instruction_block
from daemon.context.profiles import RESULT_KEPT, RESULT_LIMIT
from daemon.context.windowing.blocks import Block, CallWithResult, note
from daemon.model.messages import NotePart, TextPart
from tools.text.truncate import head, tail

if TYPE_CHECKING:
    from daemon.context.windowing.pairing import Compaction, MessageReader


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
