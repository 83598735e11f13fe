"""Keep instructions of folders beyond the results that they came with: they are repeated in the replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from daemon.context.instructions import instruction_block
from daemon.context.windowing.blocks import Block, CallWithResult
from daemon.model.messages import NotePart

MakeNote = Callable[[Block, str], Block]
"""The note with this text more."""


def rules_kept(blocks: Sequence[Block], with_text: MakeNote) -> list[Block]:
    """Return ``blocks`` with every instruction file that a dropped result showed, once, unless it was shown before."""
    shown: dict[str, str] = {}
    found: list[Block] = []
    for block in blocks:
        if block.rules:
            text = _missing(dict(block.rules), shown)
            if text or block.parts:
                found.append(with_text(block, text) if text else block)
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
    def build() -> Block:
        return replace(
            block, answers=tuple(map(_with_text, block.answers, map(texts.get, range(len(block.answers)))))
        )

    found = block.make(("repeated", tuple(texts.items())), build)
    assert found is not None
    return found


def _with_text(answer: CallWithResult, text: str | None) -> CallWithResult:
    if answer.result is None or not text:
        return answer
    content = f"{answer.result.content}\n\n{text}"
    return replace(answer, result=answer.result.model_copy(update={"content": content}))


def extended(block: Block, text: str) -> Block:
    """Return a note with ``text`` at its end."""
    words = "\n\n".join([*(part.text for part in block.parts if isinstance(part, NotePart)), text])
    return block.but(parts=(NotePart(text=words),))
