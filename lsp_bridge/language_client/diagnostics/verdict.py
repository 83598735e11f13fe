"""Compare the texts and problems before a change with those after it, to find new problems.

Long lists and texts are compared in a thread, because the event loop must stay free.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from lsp_bridge.language_client.diagnostics.diagnostics_diff import map_lines, new_problems
from lsp_bridge.language_client.diagnostics.merging import by_weight, without_duplicates
from lsp_bridge.language_client.text.problems import RawDiagnostic, severe, to_problems
from tools.language_ports import DiagnosticsReport, Problem, Severity
from tools.text.lines import lsp_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

Raw = tuple[RawDiagnostic, ...]

MAX_PROBLEMS_A_FILE = 20
MAX_OTHER_FILES = 5
_MAX_COMPARED = 200
"""Problems of one file, the worst ones, that are looked through for those that several servers report."""
_MANY_PROBLEMS = 300
_MUCH_TEXT = 200_000
"""Characters; beyond these two the comparison is done in a thread."""

_MadeT = TypeVar("_MadeT")


async def news(
    path: Path, before: str | None, after: str, known: Raw | None, raw: Raw, least: Severity
) -> list[Problem]:
    """Return the problems of ``raw`` (about ``after``) that ``known`` (about ``before``) does not account for.

    Without ``known`` all of them; only those at least as severe as ``least``.
    """

    def compare() -> list[Problem]:
        current = severe(raw, least)
        if not current:
            return []
        old = None if known is None or before is None else to_problems(path, known, lsp_lines(before))
        return new_problems(before, after, old, to_problems(path, current, lsp_lines(after)))

    return await _aside(compare, len(raw), after)


async def on_new_lines(path: Path, before: str, after: str, raw: Raw, least: Severity) -> list[Problem]:
    """Return the problems of ``raw`` on lines that the change brought: news even when nothing is known from before."""

    def compare() -> list[Problem]:
        old = [line.strip() for line in lsp_lines(before)]
        lines = lsp_lines(after)
        kept = set(map_lines(old, [line.strip() for line in lines]).values())
        return [p for p in to_problems(path, severe(raw, least), lines) if p.line - 1 not in kept]

    return await _aside(compare, len(raw), after)


def bounded(problems: Sequence[Problem], changed: Collection[Path]) -> tuple[tuple[Problem, ...], int]:
    """Return the ``problems`` to report, and how many errors are left out: no duplicates, not more than a model can
    use.

    The changed files come first, then the other files, those with errors before those with warnings.
    """
    files: dict[Path, list[Problem]] = {path: [] for path in changed}
    for problem in dict.fromkeys(problems):
        files.setdefault(problem.path, []).append(problem)
    errors = 0
    told: list[Problem] = []
    for found in files.values():
        found.sort(key=by_weight)
    others = [path for path, found in files.items() if found and path not in changed]
    others.sort(key=lambda path: by_weight(files[path][0])[0])
    shown = {*changed, *others[:MAX_OTHER_FILES]}
    for path in [*changed, *others]:
        # Comparing is expensive, so in a flood the problems beyond the shown ones are only counted.
        found, rest = files[path][:_MAX_COMPARED], files[path][_MAX_COMPARED:]
        once = without_duplicates(found) if path in shown else tuple(found)
        ordered = sorted(once, key=by_weight)
        kept = ordered[:MAX_PROBLEMS_A_FILE] if path in shown else []
        told += kept
        errors += sum(problem.severity == "error" for problem in (*ordered[len(kept) :], *rest))
    return tuple(told), errors


async def verdict_on(
    problems: Sequence[Problem], changed: Collection[Path], answered: Sequence[str], silent: Sequence[str]
) -> DiagnosticsReport:
    """Return the combined report of all sources about a change: the names of those that answered, and of those that did
    not.

    A problem of any source makes it ``problems``; without any it is ``clean`` only when no source is silent.
    """
    if not answered and not silent:
        return DiagnosticsReport("no_server")
    missing = tuple(dict.fromkeys(silent))
    names = tuple(name for name in dict.fromkeys(answered) if name not in missing)
    told, left_out = await _aside(lambda: bounded(problems, changed), len(problems), "")
    verdict = "problems" if told else "no_fresh_answer" if missing else "clean"
    return DiagnosticsReport(verdict, told, names, missing, left_out)


async def _aside(work: Callable[[], _MadeT], problems: int, text: str) -> _MadeT:
    small = problems <= _MANY_PROBLEMS and len(text) <= _MUCH_TEXT
    return work() if small else await asyncio.to_thread(work)
