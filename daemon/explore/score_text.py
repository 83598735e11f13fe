"""The scoreboard as the model reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.model.branches import BranchMeta, CheckRun, Score
from daemon.model.words import cut_line

_UNKNOWN = "unknown"
_MAX_DESCRIPTION = 60
_MAX_WHY = 80
_COLUMNS = ("Branch", "Direction", "Problems", "Tests", "Files", "Tokens", "Cost", "Time")


def score_table(branches: Sequence[BranchMeta]) -> str:
    """One row a branch, as Markdown; what is not known is said to be unknown. Nobody is called the winner."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *(_row(branch) for branch in branches)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(branch: BranchMeta) -> tuple[str, ...]:
    name = branch.id if branch.status == "completed" else f"{branch.id} ({branch.status})"
    direction = _cell(branch.description, _MAX_DESCRIPTION)
    score = branch.score
    if score is None:
        return (name, direction, *(_UNKNOWN,) * (len(_COLUMNS) - 2))
    return (
        name,
        direction,
        problems_words(score),
        checks_words(score.test),
        f"{score.files} +{score.added} -{score.removed}",
        _tokens(score.tokens),
        f"${score.cost:.4f}" if score.cost < 1 else f"${score.cost:.2f}",
        duration_words(score.duration_ms),
    )


def problems_words(score: Score) -> str:
    """New and fixed problems of the changed files, in a few words."""
    if score.new_problems is None and score.fixed_problems is None:
        return _UNKNOWN
    new = _UNKNOWN if score.new_problems is None else f"+{score.new_problems} new"
    fixed = _UNKNOWN if score.fixed_problems is None else f"-{score.fixed_problems} fixed"
    return f"{new}, {fixed}"


def checks_words(test: CheckRun | None) -> str:
    """How the tests went, in a few words."""
    if test is None:
        return "not run"
    if test.exit_code is None:
        how = "not ended" if test.duration_ms else "not run"
        return f"{how}: {_cell(test.detail, _MAX_WHY)}" if test.detail else how
    counted = [
        f"{count} {what}"
        for count, what in ((test.passed, "passed"), (test.failed, "failed"))
        if count is not None
    ]
    outcome = "" if test.ok and counted else "ok" if test.ok else f"exit code {test.exit_code}"
    if test.ok is False and test.failed:
        outcome = ""
    return ", ".join(filter(None, [*counted, outcome]))


def duration_words(milliseconds: int) -> str:
    """A time, as people say it."""
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _tokens(count: int) -> str:
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def _cell(text: str, length: int) -> str:
    # A description is anybody's text: it must not end its cell, or its row.
    return cut_line(text, length).replace("\\", "\\\\").replace("|", "\\|")
