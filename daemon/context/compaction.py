"""What a full compaction carries over word for word (source: mission M8 "Always", seed 001). Pure.

A model's summary may forget; what the person said, the rules of the folders worked in, and how goals ended must not
be. The text is stored as a message of its own, so it never changes. It holds no display numbers: those do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from daemon.context.instructions import instruction_block, instructions_of
from daemon.context.window import estimate_tokens
from daemon.model.goals import Goal
from daemon.model.messages import FilePart, Message, SubtaskPart, TextPart
from daemon.plan.tree import PlanTree

MAX_SAID = 20_000
"""Characters of one message of the person; of a longer one the middle is left out."""
MAX_HANDED_OVER = 60_000
"""The same for what another agent handed over, which is bounded by itself, see ``daemon.context.handover``."""
HANDOVER_TAGS = ("<init_to_execute_context>", "<execute_to_init_context>")
"""How a hand-over begins (source: seed 001)."""
_OTHERS_SHARE = 0.4
"""Of the limit, kept for what is not the person's own words when there is not room for everything."""
_ENDED = ("completed", "abandoned")
_GO_ON = "Go on with the work where it stands. What is done need not be done again; files can be read again."


def carried_text(messages: Sequence[Message], plan: PlanTree, keep_from: int, limit_tokens: int) -> str:
    """The message that carries over what stays of the messages with a sequence below ``keep_from``."""
    head = "Carried over word for word from the conversation before the summary:"
    return "\n\n".join([head, *verbatim_blocks(messages, plan, keep_from, limit_tokens), _GO_ON])


def verbatim_blocks(
    messages: Sequence[Message], plan: PlanTree, keep_from: int, limit_tokens: int
) -> list[str]:
    """What must not be lost of the messages with a sequence below ``keep_from``, as paragraphs.

    Everything the person said, instruction files that tools showed, reasons of abandoned goals and summaries of
    finished ones. Beyond ``limit_tokens`` (estimated) older things are left out and counted; of the person's words
    the first message, which is the mission, and the newest ones stay.
    """
    older = [message for message in messages if message.sequence < keep_from]
    said = [text for message in older if (text := person_said(message))]
    rules = {path: instruction_block(path, text) for path, text in shown_instructions(older).items()}
    ended = ended_goals(messages, plan, keep_from)
    given_up = [goal.texts for goal in ended if goal.status == "abandoned"]
    finished = [goal.texts for goal in ended if goal.status == "completed"]
    others = sum(_tokens(texts) for texts in (rules.values(), *given_up, *finished))
    words = _fit_said(said, limit_tokens - min(others, int(limit_tokens * _OTHERS_SHARE)))
    left = limit_tokens - _tokens(words)
    blocks: list[str] = []
    if words:
        blocks += ["## What the person said, oldest first", *words]
    if rules:
        texts = _fit_rules(rules, left)
        left -= _tokens(texts)
        blocks += ["## Instructions of folders worked in", *texts]
    for title, groups in (("## Given up, and why", given_up), ("## Finished", finished)):
        if groups:
            texts = _newest(groups, left)
            left -= _tokens(texts)
            blocks += [title, *texts]
    return blocks


def person_said(message: Message) -> str:
    """The person's own words in a message, with attachments by name; empty when it holds none."""
    if message.role != "user" or message.compaction() is not None:
        return ""
    text = "".join(
        part.text if isinstance(part, TextPart) else part.prompt
        for part in message.content
        if isinstance(part, TextPart | SubtaskPart)
    )
    files = [f"[attached: {part.name}]" for part in message.content if isinstance(part, FilePart)]
    limit = MAX_HANDED_OVER if text.startswith(HANDOVER_TAGS) else MAX_SAID
    return "\n".join(filter(None, (cut_middle(text, limit), *files)))


def cut_middle(text: str, length: int) -> str:
    """``text``, or both its ends when it has more than ``length`` characters."""
    if len(text) <= length:
        return text
    half = length // 2
    note = f"\n[… {len(text) - 2 * half:,} characters left out here …]\n"
    return text[:half] + note + text[len(text) - half :]


def shown_instructions(messages: Iterable[Message]) -> dict[str, str]:
    """Instruction files by path that tool results showed; the newest text of each."""
    found: dict[str, str] = {}
    for message in messages:
        if (result := message.tool_result()) is not None:
            found.update(instructions_of(result.metadata))
    return found


@dataclass(frozen=True, slots=True)
class EndedGoal:
    """A goal that ended while the one above it is still open, with the finished goals below it."""

    status: str
    texts: list[str]
    """Its own summary first, then those below it."""


def ended_goals(messages: Sequence[Message], plan: PlanTree, keep_from: int) -> list[EndedGoal]:
    """Goals at the top of what is finished or given up, oldest first; not those worked on from ``keep_from`` only."""
    roots = [
        goal
        for goal in plan.goals.values()
        if goal.status in _ENDED and not any(above.status in _ENDED for above in plan.ancestors(goal.id))
    ]
    root_of: dict[str | None, str] = {}
    for root in roots:
        root_of.update((goal.id, root.id) for goal in (root, *_below(plan, root)))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for message in messages:
        root_id = root_of.get(message.goal_id)
        if root_id is not None:
            first.setdefault(root_id, message.sequence)
            last[root_id] = message.sequence
    wanted = [root for root in roots if first.get(root.id, 0) < keep_from]
    wanted.sort(key=lambda root: last.get(root.id, 0))
    instead = {old: new for new, old in plan.replaced.items()}
    return [EndedGoal(root.status, _texts(plan, root, instead)) for root in wanted]


def _below(plan: PlanTree, goal: Goal) -> list[Goal]:
    """All goals below, each before those below it. Not recursive: a tree may be deep."""
    found: list[Goal] = []
    todo = list(reversed(plan.children(goal.id)))
    while todo:
        found.append(child := todo.pop())
        todo += reversed(plan.children(child.id))
    return found


def _texts(plan: PlanTree, root: Goal, instead: Mapping[str, str]) -> list[str]:
    # What is below a goal that was given up went with it: its reason says what is worth knowing.
    goals = [root] if root.status == "abandoned" else [root, *_below(plan, root)]
    texts: list[str] = []
    for goal in goals:
        if goal.status not in _ENDED or not goal.summary:
            continue
        name = " › ".join(above.description for above in (*reversed(list(plan.ancestors(goal.id))), goal))
        successor = plan.goals.get(instead.get(goal.id, ""))
        if successor is not None:
            name += f" (instead: {successor.description})"
        elif goal.status == "abandoned" and goal is not root:
            name += " (given up)"
        texts.append(f"**{name}**\n{goal.summary}")
    return texts or [f"**{root.description}**"]


def _said_block(text: str) -> str:
    return f"<said>\n{text}\n</said>"


def _tokens(texts: Iterable[str]) -> int:
    return sum(map(estimate_tokens, texts))


def _fit_said(said: Sequence[str], limit: int) -> list[str]:
    blocks = [_said_block(text) for text in said]
    if _tokens(blocks) <= limit or not said:
        return blocks
    first = _said_block(_cut_to(said[0], limit // 2))
    left = limit - estimate_tokens(first)
    newest: list[str] = []
    for text in reversed(said[1:]):
        block = _said_block(text)
        if not newest:  # what was said last is said in part rather than not at all
            block = _said_block(_cut_to(text, left - 10))
        if newest and estimate_tokens(block) > left:
            break
        newest.insert(0, block)
        left -= estimate_tokens(block)
    dropped = len(said) - 1 - len(newest)
    return [first, *([f"[{dropped} more left out here]"] if dropped else []), *newest]


def _cut_to(text: str, limit: int) -> str:
    tokens = estimate_tokens(text)
    return text if tokens <= limit else cut_middle(text, max(200, len(text) * max(limit, 0) // tokens))


def _fit_rules(rules: Mapping[str, str], limit: int) -> list[str]:
    """Those that fit; of the others the model knows at least where they are."""
    texts: list[str] = []
    left_out: list[str] = []
    for path, text in rules.items():
        tokens = estimate_tokens(text)
        if tokens > limit:
            left_out.append(path)
            continue
        limit -= tokens
        texts.append(text)
    if left_out:
        texts.append(f"[left out here, read them before you work there: {', '.join(left_out)}]")
    return texts


def _newest(groups: Sequence[Sequence[str]], limit: int) -> list[str]:
    """The newest groups that fit, in order; of the last that fits not as a whole only its first text."""
    kept: list[str] = []
    left_out = 0
    for group in reversed(groups):
        texts = list(group)
        if left_out == 0 and _tokens(texts) > limit:
            texts = texts[:1]
        if left_out or _tokens(texts) > limit:
            left_out += 1
            continue
        kept[:0] = texts
        limit -= _tokens(texts)
    return [*([f"[{left_out} older left out here]"] if left_out else []), *kept]
