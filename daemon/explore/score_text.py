"""The scoreboard as the model reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.explore.check_words import NOT_RUN, duration_words, ended_words
from daemon.model.branches import BranchMeta, CheckRun, Score
from daemon.model.words import cut_line

_UNKNOWN = "unknown"
_MAX_DESCRIPTION = 60
_MAX_CHECKS = 120
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
        size_words(score),
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


def size_words(score: Score) -> str:
    """Changed files and lines, in a few words."""
    if score.files is None or score.added is None or score.removed is None:
        return _UNKNOWN
    return f"{score.files} +{score.added} -{score.removed}"


def checks_words(test: CheckRun | None) -> str:
    """How the tests went, in a few words."""
    if test is None:
        return NOT_RUN
    return _cell(
        ended_words(test.exit_code, test.passed, test.failed, test.duration_ms, test.detail), _MAX_CHECKS
    )


def _tokens(count: int) -> str:
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def _cell(text: str, length: int) -> str:
    # A description is anybody's text: it must not end its cell, or its row.
    return cut_line(text, length).replace("\\", "\\\\").replace("|", "\\|")
