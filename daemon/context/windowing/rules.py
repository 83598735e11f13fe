"""Keep instructions of folders beyond the results that they came with: they are repeated in the replacement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.context.instructions import instruction_block

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.context.windowing.blocks import Block, CallWithResult
    from daemon.context.windowing.cache import WindowCache


def rules_kept(blocks: Sequence[Block], cache: WindowCache) -> list[Block]:
    """Return ``blocks`` with every instruction file that a dropped result showed, once, unless it was shown before."""
    shown: dict[str, str] = {}
    found: list[Block] = []
    for block in blocks:
        if block.rules:
            text = _missing(dict(block.rules), shown)
            if text or block.parts:
                found.append(cache.extended(block, text) if text else block)
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
