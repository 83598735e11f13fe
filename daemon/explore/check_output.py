"""How many tests passed and failed, read from what test runners print. Pure."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PYTEST = re.compile(
    r"^(?:=+ )?((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?|rerun|subtests passed)"
    r"(?:, )?)+) in [\d.:]+ ?s.*$|^(?:=+ )?no tests (?:ran|collected).*$",
    re.MULTILINE,
)
_UNITTEST = re.compile(
    r"^Ran (\d{1,9}) tests? in [\d.]+s\n{1,3}(OK|FAILED|NO TESTS RAN)(?: \(([^)\n]*)\))?[ \t]*$", re.MULTILINE
)
_JEST = re.compile(r"^Tests: +(\d[^\n]*?), (\d{1,9}) total[ \t]*$", re.MULTILINE)
_VITEST = re.compile(r"^[ \t]*Tests +(\d[^\n]*?) \((\d{1,9})\)[ \t]*$", re.MULTILINE)
_MOCHA = re.compile(
    r"^ +(\d{1,9}) passing \([^)\n]*\)[ \t]*$((?:\n[ \t]*\d+ (?:pending|failing)[ \t]*$)*)", re.MULTILINE
)
_CARGO = re.compile(r"^test result: \w+\. (\d{1,9}) passed; (\d{1,9}) failed;", re.MULTILINE)
_GO_CASE = re.compile(r"^--- (PASS|FAIL): ", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(?:ok|FAIL)[ \t]+\S+[ \t]+(?:[\d.]+s|\(cached\)|\[build failed\])", re.MULTILINE)
_NODE = re.compile(r"^(?:#|\u2139) pass (\d{1,9})[ \t]*\n(?:#|\u2139) fail (\d{1,9})[ \t]*$", re.MULTILINE)
_TAP_PLAN = re.compile(r"^1\.\.\d+", re.MULTILINE)
_TAP_CASE = re.compile(r"^(not )?ok\b(?: +\d+)?([^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TestCounts:
    """Numbers of tests; None where the output does not have them. ``at``: their position."""

    passed: int | None
    failed: int | None
    at: int = 0


def count_tests(output: str) -> tuple[int | None, int | None]:
    """Return the numbers of passed and failed tests, by the last summary in the output; None where it is missing."""
    text = _ANSI.sub("", output).replace("\r\n", "\n").replace("\r", "\n")
    found = [one for read in _READERS if (one := read(text)) is not None]
    last = max(found, key=lambda one: one.at, default=TestCounts(None, None))
    return last.passed, last.failed


_MISSING = re.compile(
    r"^.*(?:No module named '?([\w.]+)'?"  # python -m
    r"|(?:^|: )([\w./+-]+): (?:command not found|not found|No such file or directory)"
    r"|npm (?:ERR!|error) Missing script: \"?([\w:-]+)).*$",
    re.MULTILINE,
)


def not_run(command: str, exit_code: int, output: str) -> str:
    """Return why a test command could not run at all, e.g. ``No module named pytest``; empty when it ran.

    A module that the tests themselves miss is a failure of the tests: only what the command names counts.
    """
    if exit_code in (126, 127) or (exit_code != 0 and count_tests(output) == (None, None)):
        for found in _MISSING.finditer(_ANSI.sub("", output)):
            name = next(filter(None, found.groups()), "")
            if exit_code in (126, 127) or name in command.split() or found[3]:
                return found[0].strip()
    return ""


def last_lines(output: str, lines: int = 20, characters: int = 2000) -> str:
    """Return the end of an output, for people and models."""
    text = _ANSI.sub("", output).replace("\r\n", "\n").rstrip()
    shown = "\n".join(text.split("\n")[-lines:])
    return shown if len(shown) <= characters else f"…{shown[-characters + 1 :]}"


def _number(text: str, *words: str) -> int:
    return sum(int(count) for word in words for count in re.findall(rf"(\d{{1,9}}) {word}\b", text))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _pytest(text: str) -> TestCounts | None:
    if (match := _last(_PYTEST, text)) is None:
        return None
    words = (match[1] or "").replace("subtests passed", "")
    return TestCounts(_number(words, "passed", "xpassed"), _number(words, "failed", "errors?"), match.start())


def _unittest(text: str) -> TestCounts | None:
    if (match := _last(_UNITTEST, text)) is None:
        return None
    told = {
        name.strip(): int(count) for name, count in re.findall(r"([a-z ]{1,30})=(\d{1,9})", match[3] or "")
    }
    failed = told.get("failures", 0) + told.get("errors", 0) + told.get("unexpected successes", 0)
    others = told.get("skipped", 0) + told.get("expected failures", 0)
    return TestCounts(max(0, int(match[1]) - failed - others), failed, match.start())


def _javascript(pattern: re.Pattern[str], text: str) -> TestCounts | None:
    """Read a summary of jest or vitest."""
    if (match := _last(pattern, text)) is None:
        return None
    return TestCounts(_number(match[1], "passed"), _number(match[1], "failed"), match.start())


def _mocha(text: str) -> TestCounts | None:
    match = _last(_MOCHA, text)
    return match and TestCounts(int(match[1]), _number(match[2], "failing"), match.start())


def _cargo(text: str) -> TestCounts | None:
    found = list(_CARGO.finditer(text))
    if not found:
        return None
    # One summary for each crate and kind of test.
    return TestCounts(sum(int(m[1]) for m in found), sum(int(m[2]) for m in found), found[-1].start())


def _go(text: str) -> TestCounts | None:
    if (package := _last(_GO_PACKAGE, text)) is None:
        return None
    cases = [match[1] for match in _GO_CASE.finditer(text)]
    # Without -v, `go test` names only failed tests, so the number of passed ones is unknown.
    passed = cases.count("PASS") if "PASS" in cases else None
    return TestCounts(passed, cases.count("FAIL"), package.start())


def _node(text: str) -> TestCounts | None:
    match = _last(_NODE, text)
    return None if match is None else TestCounts(int(match[1]), int(match[2]), match.start())


def _tap(text: str) -> TestCounts | None:
    if _TAP_PLAN.search(text) is None:
        return None
    passed = failed = at = 0
    for match in _TAP_CASE.finditer(text):
        at = match.start()
        if re.search(r"# *(?:skip|todo)\b", match[2], re.IGNORECASE):
            continue
        if match[1]:
            failed += 1
        else:
            passed += 1
    return TestCounts(passed, failed, at) if passed or failed else None


_READERS: tuple[Callable[[str], TestCounts | None], ...] = (
    _pytest,
    _unittest,
    partial(_javascript, _JEST),
    partial(_javascript, _VITEST),
    _mocha,
    _cargo,
    _go,
    _node,
    _tap,
)
