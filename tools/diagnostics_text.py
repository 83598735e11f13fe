"""What the language servers say about a change, in words for the model. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.base import DiagnosticsReport, Problem
from tools.language import CurrentProblems
from tools.paths import rule_target

MAX_PER_FILE = 20
MAX_FILES = 6
"""The file that was changed and five others (source: conventions.md, "Diagnostics after a write")."""
_RANK = {"error": 0, "warning": 1, "information": 2, "hint": 3}


def describe(report: DiagnosticsReport, workspace: Path) -> str:
    """Three verdicts that cannot be confused: clean, problems, no fresh answer. Empty without a server."""
    who = f" ({', '.join(report.servers)})" if report.servers else ""
    told = [problem for problem in report.problems if _RANK[problem.severity] <= 1]
    if report.verdict == "problems" and told:
        count = f"{len(told)} new problem{'s' if len(told) > 1 else ''}"
        return f"Diagnostics: {count} since this edit{who}:\n{blocks(told, workspace)}"
    if report.verdict == "no_fresh_answer":
        text = f"Diagnostics: NO FRESH ANSWER in time{who}. This does not mean the code is clean."
        return f"{text} Known so far:\n{blocks(told, workspace)}" if told else text
    if report.verdict == "no_server":
        return ""
    return f"Diagnostics: clean, no new problems{who}."


def problems_metadata(report: DiagnosticsReport | CurrentProblems, workspace: Path) -> list[dict[str, Any]]:
    """The problems as JSON-able values, for the display."""
    return [
        {
            "path": rule_target(problem.path, workspace),
            "line": problem.line,
            "column": problem.column,
            "severity": problem.severity,
            "message": problem.message,
            "source": problem.source,
            "code": problem.code,
        }
        for problem in report.problems
    ]


def blocks(
    problems: Sequence[Problem], workspace: Path, *, files: int = MAX_FILES, per_file: int = MAX_PER_FILE
) -> str:
    """Problems file by file, errors first, of at most so many files and so many of each."""
    by_file: dict[Path, list[Problem]] = {}
    for problem in problems:
        by_file.setdefault(problem.path, []).append(problem)
    made: list[str] = []
    for path, found in list(by_file.items())[:files]:
        found.sort(key=lambda p: (_RANK[p.severity], p.line, p.column))
        lines = [_line(problem) for problem in found[:per_file]]
        if len(found) > per_file:
            lines.append(f"… and {len(found) - per_file} more")
        name = rule_target(path, workspace)
        made.append(f'<diagnostics file="{name}">\n' + "\n".join(lines) + "\n</diagnostics>")
    if len(by_file) > files:
        made.append(f"… and problems in {len(by_file) - files} more files")
    return "\n".join(made)


def _line(problem: Problem) -> str:
    label = " ".join(filter(None, (problem.source, problem.code)))
    message = " ".join(problem.message.split())
    return f"{problem.severity.upper()} [{problem.line}:{problem.column}] {message}" + (
        f" ({label})" if label else ""
    )
