"""The test command of an exploration: found, allowed once, run in each copy.

Only in a trusted folder: a repository's files must not run anything by being opened. The user approves it like any
command; it runs with the branches' changes, and the question says so. At most two of an exploration's branches test at
the same time (and never more than work at a time): test suites use all processors, and disturb each other's timing.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from daemon.context.check_command import find_test_command
from daemon.explore.branch_task import TestCommand
from daemon.loop.tool_context import explore_context
from daemon.model import notice_codes
from daemon.model.branches import CheckRun
from daemon.permission.service import CallInfo
from tools.localization import t
from tools.process import programs
from tools.redaction.redactor import SECRETS
from tools.running import environment, leave, sandbox_of
from tools.text.terminal import LONGEST_TITLE, shown_brief
from tools.tool import PermissionAsk, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.copies.working_copy import WorkingCopy
    from daemon.loop.session import Session
    from tools.sandbox.policy import Sandbox

AT_ONCE = 2
"""Test runs at the same time."""
_KEPT = 400_000
"""Bytes of the output that are read for numbers: the last ones."""


async def agree_on_test(session: Session, call_id: str, *, on_nodes: bool = False) -> TestCommand:
    """Return the command that tests the branches of the exploration ``call_id``, once it is allowed.

    ``on_nodes``: branches work on a cluster.

    Start it as a task at the beginning of an exploration and await it at its end: the user's answer may take time.
    """
    if session.foreign:
        return TestCommand(None, t("this session was not started by you"))
    if session.trust != "trusted":
        return TestCommand(None, t("this folder is not trusted"))
    services = session.services
    command = session.config.settings.commands.test_command
    if command == "":
        return TestCommand(None, t("test_command is empty"))
    if command is None:
        command = await asyncio.to_thread(find_test_command, services.workspace)
    command = (command or "").strip()
    if not command or "\0" in command:
        return TestCommand(None, t("no test command is known (setting test_command)"))
    ask = await _question(session, command)
    if on_nodes:
        ask = replace(ask, notes=(*ask.notes, t("Branches on a node of the Ray cluster are tested there.")))
    call = CallInfo(
        call_id,
        "explore",
        goal_id=session.state.plan.current_id,
        timeout_s=session.config.settings.approval.permission_timeout_s,
        alone=True,
    )
    try:
        approval = await services.permissions.ask(session, call, ask)
    except PermissionDeniedError as denied:
        words = denied.feedback or denied.reason
        session.notice(
            "info",
            t("The branches are not tested: {words}", words=words),
            notice_codes.TESTS_NOT_RUN,
            about=call_id,
        )
        if denied.by_rule:
            return TestCommand(None, denied.reason)
        said = f": {denied.feedback}" if denied.feedback else ""
        return TestCommand(None, t("rejected by the user{said}", said=said))
    if approval.asked:
        again = await _question(session, command)
        if not set(again.all_accesses) <= set(ask.all_accesses):
            why = t("the files that the command reads or writes changed while it waited for your approval")
            session.notice(
                "warning",
                t("The branches are not tested: {why}.", why=why),
                notice_codes.TESTS_NOT_RUN,
                about=call_id,
            )
            return TestCommand(None, why)
    seen = not (approval.unseen and session.policy.rules.denies_files)
    return TestCommand(command, approved=approval.asked and seen and not approval.by_rules)


async def run_test(
    command: str,
    copy: WorkingCopy,
    session: Session,
    timeout_s: float,
    *,
    approved: bool = False,
) -> CheckRun:
    """Run the test command in a branch's copy, as bash runs commands of the branch's ``session``.

    ``approved``: the user allowed it, so it needs no sandbox. Files that the tests leave in the copy are no change of
    the branch: compare before. A cancellation stops the command and its child processes.
    """
    root, services = copy.root, session.services
    limit = min(AT_ONCE, services.config().settings.agents.max_parallel)
    async with services.children.testing.place(limit):
        argv = programs.shell_argv(command, root, services.folder.branch.copy_of)
        if argv is None:
            return CheckRun(command=command, detail=t("no shell was found on PATH"))
        output = bytearray()

        def keep(_fd: int, data: bytes) -> None:
            output.extend(data)
            del output[:-_KEPT]

        ctx = explore_context(session, session.session_id)
        env = environment(ctx) | copy.environment
        sandbox: Sandbox | None = None
        try:
            if approved or ctx.sandbox.kind == "off" or not await _works(session):
                argv = (*services.folder.branch.confinement.prefix, *argv)
            elif (sandbox := await sandbox_of(ctx, network=ctx.sandbox.network)) is not None:
                argv, env = (*sandbox.prefix, *argv), sandbox.environment(env)
            else:  # it was allowed in a sandbox
                return CheckRun(command=command, detail=t("no sandbox is available for it"))
            began = time.monotonic()
            ended = await programs.run(
                argv, cwd=root, env=env, on_output=keep, timeout_s=timeout_s, merge_stderr=True
            )
        except OSError as error:
            return CheckRun(
                command=command,
                detail=t("it could not be started ({strerror})", strerror=error.strerror or error),
            )
        finally:
            await leave(sandbox, ctx)
        duration = round((time.monotonic() - began) * 1000)
        return await asyncio.to_thread(_check_run, command, ended, bytes(output), duration, timeout_s)


async def _question(session: Session, command: str) -> PermissionAsk:
    from tools.sandbox.policy import policy_for
    from tools.shell.path_lookup import real_place
    from tools.shell.question import question

    workspace, origin = session.services.workspace, session.services.folder.branch.copy_of
    policy = policy_for(session.config.settings.commands.sandbox)
    contained = policy.kind != "off" and await _works(session)
    ask = await asyncio.to_thread(lambda: question(command, real_place(workspace, origin)))
    outside = any(access.permission == "edit" and access.target.startswith("/") for access in ask.accesses)
    return replace(
        ask,
        title=t("Test each branch: {command}", command=shown_brief(command, LONGEST_TITLE)),
        notes=(t("Runs in the copy of each branch when the branch has ended, with all its changes."),),
        contained=contained and not outside,
        lifted=policy.lifts,
        read_only=False,
    )


async def _works(session: Session) -> bool:
    """Return whether there are sandboxes for the session's commands on this machine."""
    from tools.sandbox.prepare import works

    services = session.services
    return await asyncio.to_thread(works, services.workspace, services.folder.branch.copy_of)


def _check_run(
    command: str, ended: programs.Ended, output: bytes, duration: int, timeout_s: float
) -> CheckRun:
    text = SECRETS.text(output.decode("utf-8", "replace"))
    passed, failed = count_tests(text)
    detail = last_lines(text)
    if ended.timed_out:
        detail = t(
            "it did not end within {timeout_s:g} s\n{detail}", timeout_s=timeout_s, detail=detail
        ).rstrip()
    elif why := not_run(command, ended.exit_code, text):
        return CheckRun(command=command, detail=why)
    return CheckRun(
        command=command,
        exit_code=None if ended.timed_out else ended.exit_code,
        passed=passed,
        failed=failed,
        duration_ms=duration,
        detail=detail,
    )


# -- how many tests passed and failed, read from what test runners print; pure --

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


class TestCounts(Struct, frozen=True):
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


def _named(
    pattern: re.Pattern[str], passed: Sequence[str], failed: Sequence[str], text: str
) -> TestCounts | None:
    """Read a summary in which a word stands behind each number."""
    if (match := _last(pattern, text)) is None:
        return None
    words = (match[1] or "").replace("subtests passed", "")
    return TestCounts(_number(words, *passed), _number(words, *failed), match.start())


def _unittest(text: str) -> TestCounts | None:
    if (match := _last(_UNITTEST, text)) is None:
        return None
    told = {
        name.strip(): int(count) for name, count in re.findall(r"([a-z ]{1,30})=(\d{1,9})", match[3] or "")
    }
    failed = told.get("failures", 0) + told.get("errors", 0) + told.get("unexpected successes", 0)
    others = told.get("skipped", 0) + told.get("expected failures", 0)
    return TestCounts(max(0, int(match[1]) - failed - others), failed, match.start())


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
    partial(_named, _PYTEST, ("passed", "xpassed"), ("failed", "errors?")),
    _unittest,
    partial(_named, _JEST, ("passed",), ("failed",)),
    partial(_named, _VITEST, ("passed",), ("failed",)),
    _mocha,
    _cargo,
    _go,
    _node,
    _tap,
)
