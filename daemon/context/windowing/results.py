"""Clear old tool results. Instructions of folders outlive the results they came with: they are repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from daemon.context.instructions import instruction_block
from daemon.context.profiles import (
    PRUNE_MINIMUM,
    PRUNE_PROTECT,
    PRUNE_PROTECTED_TURNS,
    ContextProfile,
)
from daemon.context.tokens import estimate_tokens, part_tokens
from daemon.context.windowing.blocks import CLEARED, Block, CallWithResult
from daemon.model.messages import ToolResultPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.context.windowing.blocks import Block, CallWithResult
    from daemon.context.windowing.notes import NoteCache


def results_cleared(blocks: Sequence[Block], sequences: frozenset[int]) -> list[Block]:
    """Return the results of these messages without their content and images."""
    if not sequences:
        return list(blocks)
    found: list[Block] = []
    for block in blocks:
        gone = frozenset([answer.sequence for answer in block.answers if answer.sequence in sequences])
        if gone:
            block = block.with_results(("cleared", gone), lambda answer, gone=gone: _cleared(answer, gone))
        found.append(block)
    return found


def _cleared(answer: CallWithResult, gone: frozenset[int | None]) -> CallWithResult:
    if answer.result is None or answer.sequence not in gone:
        return answer
    result = answer.result.model_copy(update={"content": CLEARED, "images": ()})
    return replace(answer, result=result, cleared=True)


def to_prune(blocks: Sequence[Block], profile: ContextProfile) -> tuple[tuple[int, ...], int]:
    """Return the sequences of the messages whose results to clear, rising, and the tokens that this frees.

    From the newest back: the last turns stay whole, then the newest PRUNE_PROTECT tokens; protected tools, and results
    that would not become shorter, are skipped. Nothing for less than PRUNE_MINIMUM.
    """
    turns = kept = freed = 0
    found: list[int] = []
    for block in reversed(blocks):
        turns += block.person
        if turns < PRUNE_PROTECTED_TURNS:
            continue
        for answer in reversed(block.answers):
            tokens = _freed(answer, profile)
            kept += tokens
            if tokens and kept > PRUNE_PROTECT and answer.sequence is not None:
                found.append(answer.sequence)
                freed += tokens
    if freed < PRUNE_MINIMUM:
        return (), 0
    return tuple(sorted(found)), freed


def _freed(answer: CallWithResult, profile: ContextProfile) -> int:
    if answer.result is None or answer.cleared or answer.call.name in profile.prune_protected_tools:
        return 0
    cleared = part_tokens(ToolResultPart(tool_call_id="", name="", content=CLEARED))
    stays = cleared + sum(map(estimate_tokens, answer.rules.values()))
    return max(0, part_tokens(answer.result) - stays)


def rules_kept(blocks: Sequence[Block], notes: NoteCache) -> list[Block]:
    """Return ``blocks`` with every instruction file that a dropped result showed, once, unless it was shown before."""
    shown: dict[str, str] = {}
    found: list[Block] = []
    for block in blocks:
        if block.rules:
            text = _missing(dict(block.rules), shown)
            if text or block.parts:
                found.append(notes.extended(block, text) if text else block)
            continue
        cleared: dict[int, str] = {}
        for at, answer in enumerate(block.answers):
            if (rules := answer.rules) and answer.cleared:
                cleared[at] = _missing(rules, shown)
            elif rules:
                shown.update(rules)
        if any(cleared.values()):
            block = _repeated(block, cleared)
        found.append(block)
    return found


def _missing(rules: Mapping[str, str], shown: dict[str, str]) -> str:
    """Return the instructions that were not shown before, and mark them as shown."""
    texts = [instruction_block(path, text) for path, text in rules.items() if shown.get(path) != text]
    shown.update(rules)
    return "\n\n".join(texts)


def _repeated(block: Block, texts: Mapping[int, str]) -> Block:
    return block.make(
        ("repeated", tuple(texts.items())),
        lambda: block.but(
            answers=tuple([_with_text(answer, texts.get(at)) for at, answer in enumerate(block.answers)])
        ),
    )


def _with_text(answer: CallWithResult, text: str | None) -> CallWithResult:
    if answer.result is None or not text:
        return answer
    content = f"{answer.result.content}\n\n{text}"
    return replace(answer, result=answer.result.model_copy(update={"content": content}))
