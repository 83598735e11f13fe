"""Steps as a terminal shows them: the tree with costs, and one small line for each that comes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.model.branches import branch_of
from daemon.model.events import (
    BranchCompleted,
    Event,
    Notice,
    PermissionAsked,
    SessionCreated,
    TraceCompleted,
    TurnEnded,
)
from daemon.model.traces import BranchTrace, Trace, TraceStatus
from daemon.steps.fold import StepAdded, StepChange, StepFold
from daemon.steps.head import stop_words
from daemon.steps.texts import ICONS
from lsp_bridge.cli.text import Style, clean, fit, one_line, pad, shown_line, state, tokens
from tools.localization import n, noted, t
from tools.text.amounts import cost_words, duration, money

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.context.prompt_record import PromptHistory
    from daemon.model.steps import Step
    from daemon.steps.tree import StepTree

_LEVELS = {
    "info": noted("note: {text}"),
    "warning": noted("warning: {text}"),
    "error": noted("error: {text}"),
}
_INDENT = 24
"""Levels that are drawn; a made-up log may have any number."""
_LEAST_COLUMNS = 40
_STATUS_COLUMNS = 9


def trace_line(trace: Trace, mission: str, status: TraceStatus, style: Style, columns: int) -> str:
    """Return a trace in a list: id, start (the sort key), status, usage, and subject."""
    about = one_line(trace.title or mission or t("(no messages yet)"))
    took = t(
        "{message_count:>5} messages {total_cost:>9}",
        message_count=trace.message_count,
        total_cost=money(trace.total_cost, trace.usage.unpriced),
    )
    began = f"{trace.created_at.astimezone():%Y-%m-%d %H:%M}"
    room = columns - len(trace.trace_id) - len(began) - _STATUS_COLUMNS - len(took) - 8
    shown = _coloured(pad(state(status), _STATUS_COLUMNS), status, style)
    columns_of_it = (style.cyan(one_line(trace.trace_id)), began, shown, style.dim(took))
    return "  ".join((*columns_of_it, fit(about, max(_LEAST_COLUMNS, room))))


def head_lines(fold: StepFold, style: Style) -> list[str]:
    """Return the lines above the tree."""
    head, trace = fold.head, fold.head.trace
    took = _usage(trace.message_count, trace.usage.total, trace.total_cost, trace.usage.unpriced)
    lines = [
        f"{style.bold(one_line(trace.title or head.task or trace.trace_id))}  {style.dim(trace.trace_id)}"
    ]
    if trace.title and head.task not in ("", trace.title):
        lines.append(one_line(head.task, 300))
    model = f", {one_line(trace.model, 60)}" if trace.model else ""
    by = t("{took}, agent {agent}{model}", took=took, agent=one_line(trace.agent, 40), model=model)
    lines.append(f"{_coloured(state(head.status), head.status, style)} {style.dim(by)}")
    if changes := head.prompts.changes:
        changed, latest = len(changes) - 1, short_hash(changes[-1].sha256)
        times = n(", changed once", ", changed {count} times", changed) if changed else ""
        lines.append(style.dim(t("system prompt {hash}{times}", hash=latest, times=times)))
    if head.detail:
        lines.append(_coloured(one_line(head.detail, 300), head.status, style))
    return [*lines, ""]


def prompt_lines(history: PromptHistory, style: Style) -> Iterator[str]:
    """Yield the system prompts that were in force, oldest first; a layer that stayed the same is only named."""
    shown: set[str] = set()
    for change in history.changes:
        since = t("used from {time:%Y-%m-%d %H:%M:%S}", time=change.time.astimezone())
        title = t("System prompt {hash}", hash=short_hash(change.sha256))
        yield f"{style.bold(title)}  {style.dim(since)}"
        for layer in change.layers:
            again = style.dim(f"  {t('(shown above)')}") if layer.sha256 in shown else ""
            yield f"{style.cyan(f'[{one_line(layer.name, 300)}]')} {style.dim(short_hash(layer.sha256))}{again}"
            if not again:
                yield from clean(history.text(layer)).splitlines()
            shown.add(layer.sha256)
        yield ""


def short_hash(sha256: str) -> str:
    """Return as much of a hash as distinguishes it from others."""
    return one_line(sha256, 12)


class StepLines:
    """The lines of one tree."""

    def __init__(self, tree: StepTree, style: Style, columns: int, *, full: bool = False) -> None:
        """``full``: with the texts of thoughts, results and summaries; else one line a step."""
        self._tree = tree
        self._style = style
        self._columns = max(_LEAST_COLUMNS, columns)
        self._full = full
        self._is_branch = False

    def tree(self) -> Iterator[str]:
        """Yield all steps, drawn as a tree."""
        todo = self._level(None, "")
        while todo:
            step, prefix, is_last = todo.pop()
            yield self._style.dim(prefix + ("└─ " if is_last else "├─ ")) + self._step(step, len(prefix) + 3)
            below = prefix + ("   " if is_last else "│  ") if len(prefix) < 3 * _INDENT else prefix
            if self._full:
                bar = below + ("│  " if self._tree.child_count(step.step_id) else "   ")
                for line in _texts(step):
                    yield self._style.dim(bar) + self._style.dim(line)
            todo += self._level(step.step_id, below)

    def told(self, event: Event, changes: Sequence[StepChange]) -> list[str]:
        """Return the lines about one event, while it happens."""
        clock = self._style.dim(f"{event.time.astimezone():%H:%M:%S}")
        return [f"{clock}  {line}" for line in [*self._changed(changes), *self._said(event)]]

    def _level(self, parent: str | None, prefix: str) -> list[tuple[Step, str, bool]]:
        children = self._tree.children(parent)
        level = [(step, prefix, place == len(children)) for place, step in enumerate(children, 1)]
        return level[::-1]

    def _step(self, step: Step, used: int) -> str:
        took = " · ".join(_took(step))
        kind = f"[{ICONS[step.status]}] {step.step_type}"
        room = max(_LEAST_COLUMNS // 2, self._columns - used - len(kind) - len(took) - 5)
        text = one_line(step.description, 300)
        shortened = fit(text, room)
        text = text if shortened == text else f"{fit(text, room - 1)}…"
        shown = f"{_coloured(kind, step.status, self._style)}: {text}"
        return f"{shown}  {self._style.dim(took)}" if took else shown

    def _changed(self, changes: Sequence[StepChange]) -> Iterator[str]:
        for change in changes:
            if isinstance(change, StepAdded):
                yield self._placed(change.step)
            elif "status" in change.updates:
                step = self._tree.get(change.step_id)
                if step is not None and step.step_type == "goal":
                    yield self._placed(step)  # the result of an action reports its end

    def _placed(self, step: Step) -> str:
        depth = sum(1 for _, _ in zip(range(_INDENT), self._tree.line(step.parent_id), strict=False))
        indent = "  " * depth
        return indent + self._step(step, len(indent) + 10)

    def _said(self, event: Event) -> Iterator[str]:
        style = self._style
        if isinstance(event, SessionCreated):
            self._is_branch = isinstance(event.trace, BranchTrace)
        elif isinstance(event, TurnEnded):
            if words := one_line(stop_words(event), 300):
                paint = style.yellow if event.stop_reason in ("end_turn", "canceled") else style.red
                yield paint(f"{state(event.stop_reason)}: {words}")
            # The end of a branch is written below; a main session has an event for it.
            if branch_of(event.trace_id) is not None and not self._is_branch:
                status: TraceStatus = "completed" if event.stop_reason == "end_turn" else "failed"
                yield _coloured(t("the sub-agent has ended"), status, style)
        elif isinstance(event, BranchCompleted):
            status = "completed" if event.status == "completed" else "failed"
            name = "" if event.branch_id == branch_of(event.trace_id) else f" {event.branch_id}"
            messages, usage = event.cumulative_stats.message_count, event.usage
            took = _usage(messages, usage.total, event.cost, usage.unpriced)
            ended = t("branch{name} {state}", name=name, state=state(event.status))
            yield f"{_coloured(ended, status, style)}: {took}"
        elif isinstance(event, TraceCompleted):
            spent = event.total_cost, event.unpriced_tokens
            took = _usage(event.total_messages, event.total_tokens, *spent)
            yield f"{_coloured(state(event.status), event.status, style)}: {took}"
        elif isinstance(event, PermissionAsked):
            yield style.yellow(t("[?] waiting for you: {title}", title=shown_line(event.request.title)))
        elif isinstance(event, Notice):
            paint = style.dim if event.level == "info" else style.yellow
            yield paint(t(_LEVELS[event.level], text=one_line(event.text, 300)))


def _usage(messages: int, total: int, cost: float, unpriced: int) -> str:
    spent = cost_words(cost, unpriced)
    return t(
        "{message_count} messages, {total}, {cost}", message_count=messages, total=tokens(total), cost=spent
    )


def _took(step: Step) -> Iterator[str]:
    if took := step.duration_ms:
        yield duration(took)
    if step.tokens:
        yield tokens(step.tokens)
    if step.cost or step.unpriced_tokens:
        yield cost_words(step.cost, step.unpriced_tokens)


def _texts(step: Step) -> Iterator[str]:
    text = step.summary or str(step.data.get("output") or step.data.get("content") or "")
    if step.step_type == "goal":
        text = str(step.data.get("reason") or "")
    yield from clean(text).splitlines()


def _coloured(text: str, status: str | TraceStatus, style: Style) -> str:
    if status == "completed":
        return style.green(text)
    if status in ("failed", "canceled"):
        return style.red(text)
    return style.yellow(text) if status in ("in_progress", "running", "waiting") else style.dim(text)
