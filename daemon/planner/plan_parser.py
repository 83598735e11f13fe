"""Parse the model's answer to a request for steps. Pure.

The request is for JSON. Models answer with JSON, fenced or not, with text around it, a bare list, other names for the
fields, a numbered or bulleted list, or a call of ``goal`` or ``step`` that adds goals; all are
accepted.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from daemon.plan.changes import MAX_DESCRIPTION, stored_line
from tools.json_access import array, mapping
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.model.messages import ToolCallPart

MAX_LAYERED = 12
MAX_SIGNPOSTS = 5
_MAX_WORDS = 2_000
"""Most characters of a reason and of a check; longer ones are cut."""
_MAX_ANSWER = 100_000
_TRIES = 200
"""Places at which JSON may begin."""

_LISTS = ("steps", "plan", "goals", "tasks", "todo", "todos")
_ADDED_BY = {"goal": "add", "step": "plan"}
"""The argument by which a tool adds goals."""
_GOALS = ("goal", "description", "step", "title", "task", "name", "content")
_REASONS = ("reason", "why", "rationale")
_CHECKS = ("check", "verify", "verification", "done_when", "success")
_BELOW = ("steps", "substeps", "sub_steps", "goals", "children")
_KEEPS = ("keep", "number")
_NEEDS = ("needs", "depends_on", "dependsOn", "dependencies", "requires")
_YES = (True, "true", "yes", 1)
_DEEPEST = 3
"""Levels below a step that are read at all."""

_FENCE = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_NUMBERED = re.compile(r"\D{0,10}(\d{1,3})\D{0,2}")
"""A field that represents a step: ``1``, ``step_1``."""


class BadPlanError(Exception):
    """Raised when the answer is no usable plan; the message explains the problem to the model."""


class PlanStep(Struct, frozen=True):
    """One step of an answer. ``keep``: the number of an open goal that stays; then ``goal`` may be empty."""

    goal: str
    reason: str = ""
    check: str = ""
    steps: tuple[PlanStep, ...] = ()
    keep: str = ""
    id: str = ""
    """The name by which other steps need it."""
    needs: tuple[str, ...] | None = None
    """Steps that must be done before, as the answer names them; None when the step does not say."""
    parallel: bool | None = None
    """A sub-agent may do it in parallel with other steps; None when the step does not say."""

    @property
    def why(self) -> str:
        """The reason of the goal: why, and how to check it."""
        check = f"Check: {self.check}" if self.check else ""
        return "\n".join(filter(None, (self.reason, check)))


def read_plan(
    text: str,
    calls: Sequence[ToolCallPart] = (),
    *,
    most: int = MAX_LAYERED,
    nested: bool = True,
    any_list: bool = False,
) -> tuple[PlanStep, ...]:
    """Return the steps of an answer; none when the model says that none are needed. Raises BadPlanError.

    ``most``: most steps, not counting those with steps below them. ``nested``: whether steps may have steps below them.
    ``any_list``: the model was told that its first answer was no plan, so a list in this one is a plan. Otherwise a
    list counts only where it can hardly be anything else: the task may be a question that is answered with a list.
    """
    steps = _read(head(text, _MAX_ANSWER), calls, any_list=any_list)
    leaves = sum(len(step.steps) or 1 for step in steps)
    if leaves > most:
        raise BadPlanError(f"There were {leaves} steps; at most {most} are allowed: use fewer, larger steps.")
    for step in steps:
        if step.steps and not nested:
            raise BadPlanError(f"{_named(step)} had steps below it; give one plain list of steps.")
        if any(below.steps for below in step.steps):
            raise BadPlanError(f"The steps below {_named(step)} were nested again; one level is allowed.")
    return steps


def _read(text: str, calls: Sequence[ToolCallPart], *, any_list: bool) -> tuple[PlanStep, ...]:
    problem = ""
    for value in _json_values(text):
        items = _items(value)
        if items is not None:
            return tuple(_step(item) for item in items)
        problem = problem or _no_list(value)
    if problem:
        pass
    elif re.search(r"[{\[]\s*[\"'](?:steps|goal)\b", text):
        problem = 'The JSON could not be read: answer with one complete object {"steps": [...]}.'
    elif rows := listed(text, strict=not any_list):
        return tuple(
            _checked(PlanStep(words, steps=tuple(_checked(PlanStep(one)) for one in below)))
            for words, below in rows
        )
    if goals := _added(calls):
        return tuple(_step(goal) for goal in goals)
    raise BadPlanError(problem or 'There was no plan in the answer: answer with JSON, {"steps": [...]}.')


def _json_values(text: str) -> Iterator[object]:
    """Yield all values that may be the answer: fenced ones first, then those within other text."""
    for fence in _FENCE.finditer(text):
        yield from _decoded(fence[1])
    yield from _decoded(text)


def _decoded(text: str) -> Iterator[object]:
    # A superfluous comma is the most common mistake.
    for source in dict.fromkeys((text, re.sub(r",(\s*[}\]])", r"\1", text))):
        decoder = json.JSONDecoder(strict=False)
        at = 0
        for _ in range(_TRIES):
            found = re.compile(r"[{\[]").search(source, at)
            if found is None:
                break
            try:
                value, at = decoder.raw_decode(source, found.start())
                yield value
            except (ValueError, RecursionError):
                at = found.start() + 1


def _items(value: object) -> list[object] | None:
    """Return the steps in a JSON value; None when it is no plan."""
    fields, items = mapping(value), array(value)
    for name in _LISTS:
        if isinstance(fields.get(name), list):
            # A single step, found because the object around it is damaged, is no plan.
            return None if _text(fields, _GOALS) else array(fields[name])
        if isinstance(fields.get(name), dict):
            inner = _items(fields[name])
            return _by_number(fields[name]) if inner is None else inner
    if items and all(map(_is_step, items)):
        return items
    if len(items) > 1 and all(isinstance(item, str) and " " in item.strip() for item in items):
        return items
    return None


def _by_number(fields: dict[str, Any]) -> list[object] | None:
    """Return steps that are keyed by their numbers: ``{"1": {"goal": …}, "2": …}``."""
    numbers = [_NUMBERED.fullmatch(name) for name in fields]
    found = [(int(number[1]), step) for number, step in zip(numbers, fields.values(), strict=True) if number]
    if len(found) != len(fields) or not all(isinstance(step, str) or _is_step(step) for _, step in found):
        return None
    return [step for _, step in sorted(found, key=lambda one: one[0])]


def _no_list(value: object) -> str:
    """Return the problem of an object whose steps are no list; empty for anything else."""
    fields = mapping(value)
    if "steps" not in fields or isinstance(fields["steps"], list) or _text(fields, _GOALS):
        return ""
    steps = fields["steps"]
    kind = (
        "null" if steps is None else "an object" if isinstance(steps, dict) else f"{head(str(steps), 60)!r}"
    )
    return (
        f'"steps" was {kind}; it must be a list, {{"steps": [...]}}, and an empty one when no plan is needed.'
    )


def _is_step(item: object) -> bool:
    fields = mapping(item)
    return bool(_text(fields, _GOALS) or _text(fields, _KEEPS))


def _step(item: object, depth: int = 0) -> PlanStep:
    if isinstance(item, str):
        return _checked(PlanStep(plain(item)))
    fields = mapping(item)
    if not isinstance(item, dict):
        raise BadPlanError(f"A step was {head(str(item), 80)!r}; each must be an object with a goal.")
    step = PlanStep(
        goal=plain(_text(fields, _GOALS)),
        reason=head(_text(fields, _REASONS), _MAX_WORDS),
        check=head(_text(fields, _CHECKS), _MAX_WORDS),
        keep=_text(fields, _KEEPS),
        id=_text(fields, ("id",)),
        needs=_needs(fields),
        parallel=fields["parallel"] in _YES if fields.get("parallel") is not None else None,
    )
    below = next(
        (array(fields[name]) for name in _BELOW if isinstance(fields.get(name), list)), list[object]()
    )
    if below and depth == _DEEPEST:
        raise BadPlanError("The steps were nested too deeply; one level below a step is allowed.")
    return replace(_checked(step), steps=tuple(_step(one, depth + 1) for one in below))


def _needs(fields: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of what a step needs: a list of texts or numbers, or one text with commas."""
    value = next((fields[name] for name in _NEEDS if fields.get(name) is not None), None)
    if value is None:
        return None
    items = array(value)
    if not isinstance(value, list):
        items += str(_plain_number(value)).split(",")
    if not all(isinstance(item, str | int | float) for item in items):
        raise BadPlanError(
            '"needs" contained something other than ids: give a list of ids, {"needs": ["a"]}.'
        )
    return tuple(dict.fromkeys(text for item in items if (text := str(_plain_number(item)).strip())))


def _plain_number(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value


def _checked(step: PlanStep) -> PlanStep:
    goal = stored_line(step.goal)
    if not goal and not step.keep:
        raise BadPlanError('A step had no goal: each needs one, {"goal": "what will be achieved"}.')
    if len(goal) > MAX_DESCRIPTION:
        raise BadPlanError(
            f"The goal {head(goal, 60)!r}… has {len(goal)} characters; "
            f"at most {MAX_DESCRIPTION}: put the rest into reason."
        )
    return replace(
        step, goal=goal, reason=step.reason.strip(), check=step.check.strip(), keep=step.keep.strip()
    )


def _text(fields: dict[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if name in (*_KEEPS, "id") and isinstance(value, int | float) and not isinstance(value, bool):
            return f"{value:g}"
        if name not in _BELOW and (several := array(value)):
            return "; ".join(map(str, several))
    return ""


def _added(calls: Sequence[ToolCallPart]) -> list[str]:
    if not any(call.name in _ADDED_BY for call in calls):
        return []
    from tools.goal_lines import split_goals  # the daemon answers its first client before it imports tools

    goals: list[str] = []
    for call in calls:
        if (argument := _ADDED_BY.get(call.name)) is None:
            continue
        try:
            add = call.arguments().get(argument)
        except ValueError:
            continue
        goals += split_goals(add if isinstance(add, str) else list(map(str, array(add))))
    return goals


def _named(step: PlanStep) -> str:
    return f'"{head(step.goal or step.keep, 60)}"'


# -- plans that are written as a list: numbered (in the ways of several languages), bulleted, or with boxes --

_HAN = "[一二三四五六七八九十百零〇]{1,4}"
_ANY = rf"(?:\d{{1,3}}|{_HAN})"
_ITEM = re.compile(
    r"^(?P<indent>[ \t]*)(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:"
    # 第一步, 步骤 2: words that can only number steps.
    rf"(?P<step>第[ \t]*{_ANY}[ \t]*步(?:骤)?|步骤[ \t]*{_ANY})[ \t]*[：:、，,.．)）-]?(?:\*\*|__)?[ \t]*"
    rf"|(?P<han>{_HAN})[、.．：:][ \t]*"
    # 1、 and （1） need no space after them; in Chinese the text does not begin with one.
    rf"|(?P<wide>\d{{1,3}})(?:[、．：）]|[.](?=[\u3400-\u9fff]))[ \t]*"
    rf"|[(（](?P<round>{_ANY})[)）][ \t]*"
    r"|(?P<ring>[①-⑳])[ \t]*"
    r"|(?:(?:step|goal)[ \t]+)?(?P<number>\d+(?:\.\d+)*)(?:[.):](?:\*\*|__)?|(?<=\.\d)|(?<=\.\d\d))[ \t]+"
    r"|(?P<bullet>[-*•+])[ \t]+"
    r")(?P<words>\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_BOX = re.compile(r"^\[[ xX→✓]?\][ \t]+")
_PREFIX = re.compile(
    rf"^(?:(?:(?:step|goal)\s+)?\d+(?:\.\d+)*[.):]\s+|(?:第\s*{_ANY}\s*步(?:骤)?|步骤\s*{_ANY})\s*[：:、，,.．-]\s*"
    rf"|(?:\d{{1,3}}|{_HAN})[、．]\s*)",
    re.IGNORECASE,
)
_MOST_PROSE = 240
"""Characters around a list that is a plan: an introduction and a closing word, but no answer to a question."""


class _Row(Struct, frozen=True):
    indent: int
    rank: int
    """0 for the outermost of several kinds with the same indent: ``一、`` above ``1.`` above ``1.1``."""
    numbered: bool
    box: bool
    words: str


def listed(text: str, *, strict: bool = False) -> list[tuple[str, list[str]]]:
    """Return the items of a list, each with those below it: further indented ones, or those numbered as a part.

    ``strict``: only a list that can hardly be anything but steps: numbered, or with boxes to tick, more than one of
    them, and with little prose around it.
    """
    rows = [_row(match) for match in _ITEM.finditer(text)]
    if not rows or (strict and not _can_only_be_steps(text, rows)):
        return []
    top = min(row.rank for row in rows if row.numbered) if any(row.numbered for row in rows) else 0
    least = min(row.indent for row in rows)
    numbered = any(row.numbered and row.rank == top for row in rows)
    found: list[tuple[str, list[str]]] = []
    for row in rows:
        below = row.indent > least + 1 or (row.numbered and row.rank > top)
        if below and found:
            found[-1][1].append(row.words)
        elif row.numbered or not numbered:
            # In a numbered list, bullets at its own level are remarks, not steps.
            found.append((row.words, []))
    return found


def plain(text: str) -> str:
    """Without marks of a list and of emphasis: the numbers are the tree's own."""
    text = _PREFIX.sub("", text.strip())
    text = _BOX.sub("", text)
    return re.sub(r"(\*\*|__)(.+?)\1", r"\2", text).strip()


def _row(match: re.Match[str]) -> _Row:
    number, words = match["number"] or "", match["words"]
    if match["step"] or match["han"]:
        rank = 0
    elif match["round"] or match["ring"] or "." in number:
        rank = 2
    else:
        rank = 1
    return _Row(
        indent=len(match["indent"].expandtabs(4)),
        rank=rank,
        numbered=match["bullet"] is None,
        box=_BOX.match(words) is not None,
        words=_unpaired(plain(words)),
    )


def _unpaired(words: str) -> str:
    """Remove the closing mark in ``**1. Read it**``, whose opening mark went with the number."""
    for mark in ("**", "__"):
        if words.count(mark) == 1:
            return words.replace(mark, "").strip()
    return words


def _can_only_be_steps(text: str, rows: list[_Row]) -> bool:
    items = [row for row in rows if row.numbered or row.box]
    if len(items) < 2:
        return False
    # Further indented lines belong to an item; a heading is no prose.
    lines = [
        line for line in _ITEM.sub("", text).split("\n") if line[:1].strip() and not line.startswith("#")
    ]
    return sum(len(line.strip()) for line in lines) <= _MOST_PROSE
