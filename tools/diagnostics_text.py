"""Describe the diagnostics of language servers about a change, for the model. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tools.diff.unified_diff import shown_name
from tools.localization import joined, t
from tools.paths import rule_target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.language_ports import CurrentProblems
    from tools.tool import DiagnosticsReport, Problem

MAX_PER_FILE = 20
MAX_FILES = 6
"""Most files in a report: the changed one and five others."""
_HIDING = r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f"
_UNSEEN = re.compile(rf"[\x00-\x1f\x7f-\x9f{_HIDING}]+")
"""Control characters, terminal sequences' included, and what hides or reorders text."""
_UNSEEN_IN_TEXT = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_HIDING}]+")
_TAGS = (
    "diagnostics|said|carried|goal_summary|goal_summaries|earlier_attempts|(?:untrusted_)?instructions|environment"
    "|compact_summary|handed_over|agent_report|hook_context|system(?:[-_]reminder)?"
)
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{_TAGS})\b)", re.IGNORECASE)
"""Tags in messages, which quote code, that would end a report's block early or look like a part of the prompt."""
_RANK = {"error": 0, "warning": 1, "information": 2, "hint": 3}


def describe(report: DiagnosticsReport, workspace: Path) -> str:
    """Describe a report with unambiguous verdicts: clean, problems, no fresh answer, later. Empty without a server.

    If some servers found problems and others did not answer, both is reported. Nothing here is about the success of the
    edit: the caller has reported that before.
    """
    who = f" ({', '.join(report.servers)})" if report.servers else ""
    told = _told(report)
    if report.verdict == "problems" and (told or report.hidden):
        count = len(told) + report.left_out
        lines = [
            f"Diagnostics: {count} new problem{'s' if count > 1 else ''} since this edit{who}:",
            *_listed(told, report, workspace),
        ]
        if not told:
            lines = [f"Diagnostics: no new problems in files that may be read{who}.", *_hidden(report)]
        if report.silent:
            lines.append(f"NO FRESH ANSWER in time from {', '.join(report.silent)}: there may be more.")
        return "\n".join(lines)
    if report.verdict == "no_fresh_answer" or report.silent:
        whom = f" from {', '.join(report.silent)}" if report.silent else ""
        text = f"Diagnostics: NO FRESH ANSWER in time{whom}. This does not mean the code is clean."
        if report.servers:
            text += f" No new problems from {', '.join(report.servers)}."
        return f"{text} Known so far:\n{blocks(told, workspace)}" if told else text
    if report.verdict == "later":
        return "Diagnostics: judged together with the next edits of this step."
    if report.verdict == "no_server":
        return ""
    return f"Diagnostics: clean, no new problems{who}."


def describe_late(report: DiagnosticsReport, workspace: Path) -> str:
    """Describe late diagnostics of earlier edits, in the language of the user."""
    told = _told(report)
    values = {"count": len(told) + report.left_out, "servers": ", ".join(report.servers)}
    if report.verdict == "problems" and told:
        said = t(
            "Language servers answered about earlier edits. New problems: {count} ({servers}):", **values
        )
        lines = [said, *_listed(told, report, workspace)]
    elif report.hidden:
        said = t(
            "Language servers answered about earlier edits: no new problems in the files that may be read "
            "({servers}).",
            **values,
        )
        lines = [said, *_hidden(report)]
    else:
        lines = [
            t("Language servers answered about earlier edits: clean, no new problems ({servers}).", **values)
        ]
    if report.silent:
        # The server may have answered about others of these edits.
        silent = ", ".join(report.silent)
        lines.append(t("{servers} has not answered yet about some of these edits.", servers=silent))
    return joined(*lines, sep="\n")


def problems_metadata(report: DiagnosticsReport | CurrentProblems, workspace: Path) -> list[dict[str, Any]]:
    """Return the problems as JSON-able values, for the display."""
    return [
        {
            "path": rule_target(problem.path, workspace),
            "line": problem.line,
            "column": problem.column,
            "severity": problem.severity,
            "message": _UNSEEN_IN_TEXT.sub("", problem.message),
            "source": plain(problem.source),
            "code": plain(problem.code),
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
        name = shown_name(rule_target(path, workspace)).replace('"', "'").replace("<", "‹")
        made.append(f'<diagnostics file="{name}">\n' + "\n".join(lines) + "\n</diagnostics>")
    if len(by_file) > files:
        made.append(f"… and problems in {len(by_file) - files} more files")
    return "\n".join(made)


def _told(report: DiagnosticsReport) -> list[Problem]:
    return [problem for problem in report.problems if _RANK[problem.severity] <= 1]


def _listed(told: Sequence[Problem], report: DiagnosticsReport, workspace: Path) -> list[str]:
    more = [f"… and {report.left_out} more that are not listed."] if report.left_out else []
    return [blocks(told, workspace), *more, *_hidden(report)]


def _hidden(report: DiagnosticsReport) -> list[str]:
    if not report.hidden:
        return []
    return [f"{report.hidden} problem{'s' if report.hidden > 1 else ''} in files that may not be read."]


def plain(text: str) -> str:
    """``text`` of a server on one line: without what cannot be seen, and without tags that mean something here."""
    return _TAG.sub("‹", " ".join(_UNSEEN.sub(" ", text).split()))


def _line(problem: Problem) -> str:
    # Several sources form a list of their own, before that of their codes.
    source = f"{problem.source}:" if ", " in problem.source and problem.code else problem.source
    label = plain(" ".join(filter(None, (source, problem.code))))
    message = plain(problem.message)
    return f"{problem.severity.upper()} [{problem.line}:{problem.column}] {message}" + (
        f" ({label})" if label else ""
    )
