"""The scoreboard as the model reads it, and how a test command ended, as terminals and VS Code read it, too. Pure.

No models are imported: the terminal starts without pydantic. VS Code has the same words in ``explore/score.ts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.localization import noted, t
from tools.text.amounts import amount, cost_words, duration
from tools.text.truncate import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.model.branches import BranchMeta, CheckRun, Score

NOT_RUN = noted("not run")
_MAX_WHY = 80


def ended_words(
    exit_code: int | None, passed: int | None, failed: int | None, duration_ms: int, detail: str
) -> str:
    """Return e.g. ``3 passed, 2 failed``, ``5 passed, exit code 1``, ``not ended in 10 min 0 s``, ``not run: why``.

    The exit code is included where the counts do not imply it: a command may print that all tests passed and still fail
    (a limit of coverage), or have failures and succeed.
    """
    if exit_code is None and duration_ms:
        return t("timed out after {duration_ms}", duration_ms=duration(duration_ms))
    if exit_code is None:
        return f"{t(NOT_RUN)}: {one_line(detail, _MAX_WHY)}" if detail.strip() else t(NOT_RUN)
    counts = [
        t(text, count=count)
        for count, text in ((passed, noted("{count} passed")), (failed, noted("{count} failed")))
        if count is not None
    ]
    if not counts:
        return "ok" if exit_code == 0 else t("exit code {exit_code}", exit_code=exit_code)
    told = (exit_code != 0) == bool(failed)
    return ", ".join(counts if told else [*counts, t("exit code {exit_code}", exit_code=exit_code)])


_UNKNOWN = noted("unknown")
BRANCH_STATUS = {
    "exploring": noted("exploring"),
    "completed": noted("completed"),
    "abandoned": noted("abandoned"),
}
_MAX_DESCRIPTION = 60
_MAX_CHECKS = 120
_COLUMNS = (
    noted("Branch"),
    noted("Direction"),
    noted("Problems"),
    noted("Tests"),
    noted("Files"),
    noted("Tokens"),
    noted("Cost"),
    noted("Time"),
)


def score_table(branches: Sequence[BranchMeta]) -> str:
    """Return one row for each branch, as Markdown; unknown values are marked as such. No branch is called the
    winner."""
    rows = [tuple(map(t, _COLUMNS)), ("---",) * len(_COLUMNS), *(_row(branch) for branch in branches)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(branch: BranchMeta) -> tuple[str, ...]:
    name = branch.id if branch.status == "completed" else f"{branch.id} ({t(BRANCH_STATUS[branch.status])})"
    direction = _cell(branch.description, _MAX_DESCRIPTION)
    score = branch.score
    if score is None:
        return (name, direction, *(t(_UNKNOWN),) * (len(_COLUMNS) - 2))
    return (
        name,
        direction,
        problems_words(score),
        checks_words(score.test),
        size_words(score),
        amount(score.tokens),
        cost_words(score.cost, score.unpriced_tokens),
        duration(score.duration_ms),
    )


def problems_words(score: Score) -> str:
    """New and fixed problems of the changed files, in a few words."""
    if score.new_problems is None and score.fixed_problems is None:
        return t(_UNKNOWN)
    new, fixed = (
        t(_UNKNOWN) if score.new_problems is None else t("+{count} new", count=score.new_problems),
        t(_UNKNOWN) if score.fixed_problems is None else t("-{count} fixed", count=score.fixed_problems),
    )
    return f"{new}, {fixed}"


def size_words(score: Score) -> str:
    """Changed files and lines, in a few words."""
    if score.files is None or score.added is None or score.removed is None:
        return t(_UNKNOWN)
    return f"{score.files} +{score.added} -{score.removed}"


def checks_words(test: CheckRun | None) -> str:
    """Return how the tests went, in a few words."""
    if test is None:
        return t(NOT_RUN)
    return _cell(
        ended_words(test.exit_code, test.passed, test.failed, test.duration_ms, test.detail), _MAX_CHECKS
    )


def _cell(text: str, length: int) -> str:
    # A description is untrusted text, and must not end its cell or its row.
    return one_line(text, length).replace("\\", "\\\\").replace("|", "\\|")
