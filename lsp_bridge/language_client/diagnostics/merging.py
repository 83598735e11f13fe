"""Report a problem once when two servers, or a server and an editor, report it alike. Pure.

Two entries are one problem only when they come from different sources, begin at the same place of the same file, and
have equal codes, codes known to mean the same, or the same words. In doubt both stay: a problem that is shown twice
costs a line, one that is dropped costs a bug.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lsp_bridge.language_client.text.problems import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tools.language_ports import Problem

_SAME_KIND = (
    # Rule names as servers write them, compared without a prefix such as "lint/correctness/".
    (
        "undefined",
        "reportundefinedvariable f821 unresolved-reference unknown-name name-defined e0602 undefined-variable",
    ),
    ("undefined", "2304 2552 no-undef noundeclaredvariables"),
    (
        "missing import",
        "reportmissingimports unresolved-import missing-import import-not-found import-error e0401",
    ),
    ("missing import", "2307 no-unresolved import-untyped reportmissingmodulesource"),
    ("unused import", "reportunusedimport f401 unused-import w0611 nounusedimports"),
    ("unused variable", "reportunusedvariable f841 unused-variable w0612 nounusedvariables"),
    ("unused", "6133 6192 6196 no-unused-vars"),
    ("possibly unbound", "reportpossiblyunbound possibly-unbound possibly-unresolved-reference unbound-name"),
    ("redefined", "reportredeclaration f811 no-redef function-redefined e0102 no-redeclare 2451"),
    (
        "no attribute",
        "reportattributeaccessissue unresolved-attribute missing-attribute attr-defined e1101 no-member",
    ),
    ("argument", "reportargumenttype invalid-argument-type bad-argument-type arg-type"),
    ("return", "reportreturntype invalid-return-type bad-return return-value"),
    ("assignment", "reportassignmenttype invalid-assignment bad-assignment assignment"),
    (
        "call",
        "reportcallissue missing-argument too-many-positional-arguments unknown-argument call-arg no-matching-overload",
    ),
    ("syntax", "invalid-syntax syntax-error syntaxerror parse-error e999 e0001 e902 syntax"),
)
_KIND_OF = {code: kind for kind, codes in _SAME_KIND for code in codes.split()}
_PYRIGHTS = frozenset({"pyright", "basedpyright", "pylance"})
"""Their syntax errors are those that have no code."""

_QUOTED = re.compile(r"\"([^\"\n]+)\"|`([^`\n]+)`|'([^'\n]+)'|[‘“]([^’”\n]+)[’”]")
_WORD = re.compile(r"[\w.]+|[^\s\w\"'`‘’“”.,;:!?()\[\]]")
_MAX_AT_ONE_PLACE = 40
"""Problems at one place that are compared with each other. A server whose ranges are no good puts all of its problems
at the top of the file, and comparing each with each would take minutes."""
_ENOUGH_WORDS = 3
"""A message that extends another one is the same problem, if the shorter one has at least this many words."""


def without_duplicates(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return ``problems`` in their order, with one entry for equal reports of different sources.

    The entry is the most detailed one, with the worst severity, and all sources and codes. Within one source only exact
    repetitions are removed, and at one place everything beyond the first few dozen stays unchanged.
    """
    places: dict[tuple[Path, int, int], list[_MergedProblem]] = {}
    entries: list[_MergedProblem] = []
    for problem in dict.fromkeys(problems):
        here = places.setdefault((problem.path, problem.line, problem.column), [])
        for entry in here if len(here) < _MAX_AT_ONE_PLACE else ():
            if entry.takes(problem):
                break
        else:
            here.append(entry := _MergedProblem(problem))
            entries.append(entry)
    return tuple(entry.whole() for entry in entries)


def in_order(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """File by file as they first come, in each the errors first, then by line."""
    files = {path: number for number, path in enumerate(dict.fromkeys(problem.path for problem in problems))}
    return tuple(sorted(problems, key=lambda problem: (files[problem.path], *by_weight(problem))))


def by_weight(problem: Problem) -> tuple[int, int, int]:
    """Sorts problems of one file: errors first, then from the top."""
    return SEVERITIES.index(problem.severity), problem.line, problem.column


class _MergedProblem:
    """One problem, and its sources."""

    def __init__(self, problem: Problem) -> None:
        self._said = [problem]

    def takes(self, problem: Problem) -> bool:
        """Join ``problem`` if it is the same as this one."""
        if any(problem.source == said.source and not _equal(problem, said) for said in self._said):
            return False  # these are two different findings of the source
        if not any(_same(problem, said) for said in self._said):
            return False
        self._said.append(problem)
        return True

    def whole(self) -> Problem:
        """Return the merged problem."""
        if len(self._said) == 1:
            return self._said[0]
        best = max(self._said, key=lambda problem: len(problem.message))
        return replace(
            best,
            severity=min((problem.severity for problem in self._said), key=SEVERITIES.index),
            source=_listed(problem.source for problem in self._said),
            code=_listed(problem.code for problem in self._said),
        )


def _listed(names: Iterable[str]) -> str:
    single = (part for name in names for part in name.split(", "))
    return ", ".join(dict.fromkeys(filter(None, single)))


def _equal(one: Problem, other: Problem) -> bool:
    """Return whether they are equal but for severity, which an editor may show in its own way."""
    return (one.code, one.message) == (other.code, other.message)


def _same(one: Problem, other: Problem) -> bool:
    if _equal(one, other):
        return True
    return _same_words(one.message, other.message) or (
        bool(_kinds(one) & _kinds(other)) and _about_the_same(one.message, other.message)
    )


def _kinds(problem: Problem) -> frozenset[str]:
    """Return the meaning of its code in terms that all servers share; an unshared code means itself."""
    if not problem.code:
        sources = problem.source.lower().split(", ")
        return frozenset({"syntax"}) if _PYRIGHTS.intersection(sources) else frozenset()
    codes = (code.rpartition("/")[2].lower() for code in problem.code.split(", "))
    return frozenset(_KIND_OF.get(code, code) for code in codes)


def _about_the_same(one: str, other: str) -> bool:
    """Return whether two messages may be about the same thing: not if they name different things."""
    first, second = _names(one), _names(other)
    if not first or not second:
        return True
    return any(a == b or a.endswith(f".{b}") or b.endswith(f".{a}") for a in first for b in second)


def _names(message: str) -> set[str]:
    return {next(filter(None, groups)) for groups in _QUOTED.findall(message)}


def _same_words(one: str, other: str) -> bool:
    first, second = _words(one), _words(other)
    if len(first) > len(second):
        first, second = second, first
    return first == second or (len(first) >= _ENOUGH_WORDS and second[: len(first)] == first)


def _words(message: str) -> list[str]:
    return [word.rstrip(".") for word in _WORD.findall(message)]
