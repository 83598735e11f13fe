"""The text that a full compaction carries over word for word. Pure.

A model's summary may leave things out. What the user said, the rules of the folders worked in, and the results of ended
goals must not be lost. The text is stored as a message of its own, so it never changes. It has no display numbers
because those do change.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.context.instructions import instruction_block, instructions_of
from daemon.context.profiles import RESULT_KEPT, RESULT_LIMIT
from daemon.context.tokens import estimate_tokens, message_tokens
from daemon.context.windowing.goals import GoalStatuses
from daemon.model.messages import (
    FilePart,
    Message,
    NotePart,
    Part,
    SubtaskPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    whole_characters,
)
from daemon.model.tags import is_handover, one_each, plain, said_block, within
from daemon.provider.model_calls import PromptMessage
from tools.text.truncate import head, tail

if TYPE_CHECKING:
    from daemon.model.goals import Goal
    from daemon.plan.tree import PlanTree

_LONGEST = 20_000
"""Characters of one text in the short form of a window, see ``shortened``."""
_SHORTEST = 500
"""Least tokens to keep of a user's long message before whole messages are left out."""
_AROUND = 25
"""Tokens of the text around a message, including the note on how much of it is left out."""
_OTHERS_SHARE = 0.4
"""Share of the limit that is reserved for everything but the user's own words when not everything fits."""
_ENDED = ("completed", "abandoned")
MAX_GOALS = 60
"""Most open goals to list."""
_MAX_DEPTH = 20
"""Goals above another one that are named."""
_GO_ON = "Continue the work from here. Do not repeat what is done; files can be read again."


History = Callable[[int], str]
"""The plan with results and summaries, in at most about so many tokens."""


class CarriedOver(Struct, frozen=True):
    """The paragraphs that a full compaction carries over, and how many of the user's messages did not fit."""

    blocks: list[str]
    shortened: int = 0
    """Only both ends of them are there."""
    left_out: int = 0
    rules: bool = False
    """There are instructions of folders among the removed messages."""

    @property
    def text(self) -> str:
        """All of it."""
        return "\n\n".join(self.blocks)


def carried_over(
    messages: Sequence[Message],
    plan: PlanTree,
    keep_from: int,
    limit_tokens: int,
    *,
    words_tokens: int = 0,
    with_plan: bool = False,
    history: History | None = None,
) -> CarriedOver:
    """Return the message that carries over the essentials of the messages with a sequence below ``keep_from``.

    ``words_tokens``: limit for the user's own words when that is more than their share of ``limit_tokens``.
    ``with_plan``: list the open goals, because requests do not include the plan. ``history``: instead of ended and open
    goals, include the whole plan with its results, in about this many tokens.
    """
    found = verbatim(messages, plan, keep_from, limit_tokens, words_tokens=words_tokens, history=history)
    blocks = ["Copied word for word from the conversation before the summary:", *found.blocks]
    if with_plan and history is None and (goals := open_goals(plan)):
        title = "## Open goals at this time; read_progress shows their current state"
        blocks += [title, one_each(goals, MAX_GOALS)]
    return replace(found, blocks=[*blocks, _GO_ON])


def verbatim(
    messages: Sequence[Message],
    plan: PlanTree,
    keep_from: int,
    limit_tokens: int,
    *,
    words_tokens: int = 0,
    history: History | None = None,
) -> CarriedOver:
    """Return as paragraphs what must survive of the messages with a sequence below ``keep_from``.

    This is everything the user said, instruction files that tools showed, reasons of abandoned goals and summaries of
    finished ones. Beyond ``limit_tokens`` (estimated) the user's longest messages keep only both ends, then older
    things are left out and counted. Of the user's words the first message, which is the mission, and the newest ones
    stay. ``words_tokens`` and ``history`` as for ``carried_over``.
    """
    older = [message for message in messages if message.sequence < keep_from]
    said = [text for message in older if (text := user_text(message))]
    rules = {path: instruction_block(path, text) for path, text in shown_instructions(older).items()}
    ended = _ended_goals(messages, plan, keep_from) if history is None else []
    given_up = [texts for status, texts in ended if status == "abandoned"]
    finished = [texts for status, texts in ended if status == "completed"]
    share = int(limit_tokens * _OTHERS_SHARE)
    told = [] if history is None else [history(share)]
    others = sum(_tokens(texts) for texts in (rules.values(), *given_up, *finished, told))
    for_others = min(others, share)
    words = _fit_said(said, max(limit_tokens - for_others, words_tokens))
    # Rules and reasons keep their share, however long the user's messages are.
    left = max(limit_tokens - _tokens(words.blocks), for_others)
    blocks: list[str] = []
    if words.blocks:
        blocks += ["## What the user said, oldest first", *words.blocks]
    if rules:
        texts = _fit_rules(rules, left)
        left -= _tokens(texts)
        blocks += ["## Instructions of folders worked in", *texts]
    for title, groups in (("## Abandoned, and why", given_up), ("## Finished", finished)):
        if groups:
            texts = _newest(groups, left)
            left -= _tokens(texts)
            # Wrap them in a tag, so that no text in them can pass for one of the headings here.
            blocks += [title, within("goal_summaries", "\n\n".join(texts))]
    if history is not None and (text := plain(history(max(left, 0)))):
        blocks += ["## The plan and its results", within("goal_summaries", text)]
    return replace(words, blocks=blocks, rules=bool(rules))


def shortened(messages: Sequence[PromptMessage], limit_tokens: int) -> tuple[PromptMessage, ...]:
    """Return a window that did not fit, for the request that sums it up: long results cut, then the oldest left out.

    The first message, which is the mission or the summary before, stays; of it and of what else is too long only both
    ends. Calls and results are never parted. About ``limit_tokens`` (estimated) at most.
    """
    steps: list[list[PromptMessage]] = []
    longest = max(400, min(_LONGEST, limit_tokens))  # in characters: about a quarter of the limit
    for message in messages:
        cut = PromptMessage(message.role, tuple(_cut_part(part, longest) for part in message.content))
        if message.role == "tool" and steps:
            steps[-1].append(cut)
        else:
            steps.append([cut])
    head, rest = steps[:1], steps[1:]
    left = limit_tokens - sum(message_tokens(message) for step in head for message in step)
    kept: list[list[PromptMessage]] = []
    for step in reversed(rest):
        left -= sum(map(message_tokens, step))
        if left < 0 and kept:
            break
        kept.insert(0, step)
    if len(kept) < len(rest):
        note = NotePart(text=f"[{len(rest) - len(kept)} older messages are left out here]")
        head.append([PromptMessage("user", (note,))])
    return tuple(message for step in (*head, *kept) for message in step)


def _cut_part(part: Part, longest: int) -> Part:
    match part:
        case ToolResultPart():
            text = part.content
            content = text if len(text) <= RESULT_LIMIT else cut_middle(text, 2 * RESULT_KEPT)
            return part.model_copy(update={"content": content, "images": ()})
        case TextPart() | NotePart():
            return part.model_copy(update={"text": cut_middle(part.text, longest)})
        case FilePart():
            return TextPart(text=f"[attached: {part.name}]")
        case ToolCallPart() if len(part.input) > RESULT_LIMIT:
            return part.model_copy(update={"input": _cut_input(part)})
        case _:
            return part


def _cut_input(call: ToolCallPart) -> str:
    """Return the arguments, still as JSON: providers take nothing else."""
    try:
        arguments = call.arguments()
    except ValueError:
        return json.dumps({"cut": cut_middle(call.input, 2 * RESULT_KEPT)})
    cut = {
        name: cut_middle(value if isinstance(value, str) else json.dumps(value), 2 * RESULT_KEPT)
        for name, value in arguments.items()
    }
    return whole_characters(json.dumps(cut, ensure_ascii=False))


def open_goals(plan: PlanTree) -> list[str]:
    """Goals that are not ended, one a line, by name: numbers change, and in another session mean other goals."""
    found: list[str] = []
    todo = [(goal, goal.description) for goal in reversed(plan.children(None))]
    while todo:
        goal, name = todo.pop()
        if goal.status in _ENDED:
            continue
        if goal.status == "in_progress" or not plan.children(goal.id):
            found.append(f"- {name}" + (" (in progress)" if goal.status == "in_progress" else ""))
        todo += [(child, f"{name} › {child.description}") for child in reversed(plan.children(goal.id))]
    return found


def user_text(message: Message) -> str:
    """Return the user's own words in a message, in full, with attachments by name; empty when it has none."""
    if message.role != "user" or message.compaction() is not None:
        return ""
    text = "".join(
        part.text if isinstance(part, TextPart) else part.prompt
        for part in message.content
        if isinstance(part, TextPart | SubtaskPart)
    )
    files = [f"[attached: {part.name}]" for part in message.content if isinstance(part, FilePart)]
    return "\n".join(filter(None, (text, *files)))


def cut_middle(text: str, length: int) -> str:
    """Return ``text``, or both its ends when it has more than ``length`` characters."""
    if len(text) <= length:
        return text
    half = length // 2
    note = f"\n[… {len(text) - 2 * half:,} characters left out here …]\n"
    return head(text, half) + note + tail(text, half)


def shown_instructions(messages: Iterable[Message]) -> dict[str, str]:
    """Instruction files by path that tool results showed; the newest text of each."""
    found: dict[str, str] = {}
    for message in messages:
        if message.role == "tool" and (result := message.tool_result()) is not None:
            found.update(instructions_of(result.metadata))
    return found


def _ended_goals(messages: Sequence[Message], plan: PlanTree, keep_from: int) -> list[tuple[str, list[str]]]:
    """Return the topmost finished or abandoned goals, oldest first; not those worked on from ``keep_from`` only.

    Each has its status, and the summaries of it and of the goals below it.
    """
    statuses = GoalStatuses(plan)
    roots = [goal for goal in plan.goals.values() if statuses.of(goal.id).root is goal]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for message in messages:
        if (root := statuses.of(message.goal_id).root) is not None:
            first.setdefault(root.id, message.sequence)
            last[root.id] = message.sequence
    wanted = [root for root in roots if first.get(root.id, 0) < keep_from]
    wanted.sort(key=lambda root: last.get(root.id, 0))
    instead = {old: new for new, old in plan.replaced.items()}
    return [(root.status, _texts(plan, root, instead)) for root in wanted]


def _named(plan: PlanTree, goal: Goal) -> str:
    """Return the goal's name with those above it, as its context."""
    above = list(itertools.islice(plan.ancestors(goal.id), _MAX_DEPTH))
    return " › ".join(found.description for found in (*reversed(above), goal))


def _texts(plan: PlanTree, root: Goal, instead: Mapping[str, str]) -> list[str]:
    # Sub-goals of an abandoned goal were abandoned with it, so its reason is enough.
    goals = [root] if root.status == "abandoned" else [root, *plan.descendants(root.id)]
    texts: list[str] = []
    for goal in goals:
        summary = goal.summary or goal.merge_summary
        if goal.status not in _ENDED or not summary:
            continue
        name = _named(plan, goal)
        successor = plan.goals.get(instead.get(goal.id, ""))
        if successor is not None:
            name += f" (instead: {successor.description})"
        elif goal.status == "abandoned" and goal is not root:
            name += " (abandoned)"
        texts.append(plain(f"**{name}**\n{summary}"))
    return texts or [plain(f"**{root.description}**")]


def _block(text: str) -> str:
    # A handover has tags of its own, and so have the user's words in it.
    return text if is_handover(text) else said_block(text)


def _tokens(texts: Iterable[str]) -> int:
    return sum(map(estimate_tokens, texts))


def _fit_said(said: Sequence[str], limit: int) -> CarriedOver:
    """Return all of it; else shorten the longest to one common length; else keep the first one and the newest ones."""
    blocks = [_block(text) for text in said]
    sizes = [estimate_tokens(block) for block in blocks]
    if sum(sizes) <= limit or not said:
        return CarriedOver(blocks)
    if (level := _level(sizes, limit)) >= _SHORTEST:
        cut = [_block(cut_to(text, level - _AROUND)) for text in said]
        return CarriedOver(cut, shortened=sum(size > level for size in sizes))
    return _ends(said, limit)


def _level(sizes: Sequence[int], limit: int) -> int:
    """Return the most that each may take so that all together stay within ``limit``."""
    left = limit
    for at, size in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - at)
        if size > share:
            return share
        left -= size
    return left


def _ends(said: Sequence[str], limit: int) -> CarriedOver:
    """Return the first one, which is the mission, and the newest ones."""
    first = _block(cut_to(said[0], limit // 2))
    left = limit - estimate_tokens(first)
    newest: list[str] = []
    kept: list[str] = []
    for text in reversed(said[1:]):
        # Shorten the newest message rather than drop it, but let a long one not displace those before it.
        room = max(_SHORTEST, left // 2) if newest else left
        block = _block(cut_to(text, room - _AROUND))
        if newest and estimate_tokens(block) > left:
            break
        newest.insert(0, block)
        kept.insert(0, text)
        left -= estimate_tokens(block)
    dropped = len(said) - 1 - len(newest)
    texts = [said[0], *kept]
    shortened = sum(_block(text) != block for text, block in zip(texts, [first, *newest], strict=True))
    note = [f"[{dropped} more left out here]"] if dropped else []
    return CarriedOver([first, *note, *newest], shortened, dropped)


def cut_to(text: str, limit: int) -> str:
    """Return ``text``, or both its ends when it has more than about ``limit`` tokens."""
    tokens = estimate_tokens(text)
    return text if tokens <= limit else cut_middle(text, max(200, len(text) * max(limit, 0) // tokens))


def _fit_rules(rules: Mapping[str, str], limit: int) -> list[str]:
    """Return the instructions that fit, and the paths of the others."""
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
        texts.append(f"[left out here; read them before you work there: {', '.join(left_out)}]")
    return texts


def _newest(groups: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Return the newest groups that fit, in order; of the last that fits not as a whole only its first text."""
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
