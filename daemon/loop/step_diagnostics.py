"""The language servers' eyes as a session uses them: one report for all edits of a step, and what comes late.

A refactoring over several files is broken between its first edit and its last. So while more writing calls of the
same message are still to come, an edit is told "later", and the last one carries the report on all of them, against
what stood there before the first. Whatever becomes of the last one (it fails, it is refused), the report is not
lost: it stands in the result of the call with which the batch ended, or, after a cancellation, is told late.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tools.diagnostics_text import describe, problems_metadata
from tools.language import CurrentProblems, Diagnostics, DiagnosticsReport, DiagnosticsRun, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from daemon.model.messages import ToolCallPart, ToolResultPart
    from tools.access import Action

CallKind = Literal["writes", "looks", "other"]
"""What a tool means for a batch: ``looks`` wants to see the workspace as it is, so nothing may be put off over it."""

_log = logging.getLogger(__name__)

_MAX_TOUCHED = 100
_APPLIED = "What this step's calls before this one have changed stays changed."
_LOOKS = ("bash", "diagnostics", "symbols", "job", "task", "explore")


def kind_of(name: str, permission: str) -> CallKind:
    """The kind of a tool, by its name and the permission it asks for."""
    if name in _LOOKS:
        return "looks"
    return "writes" if permission == "edit" else "other"


class StepDiagnostics:
    """Implements the Diagnostics port for one session, and DiagnosticsRun for the batch that is under way."""

    def __init__(
        self,
        port: Diagnostics,
        workspace: Path,
        kind: Callable[[str], CallKind],
        least: Callable[[], Severity],
        reading: Callable[[Path], Action] | None = None,
    ) -> None:
        """``kind`` of a tool's name; ``least``: the mildest problems that the model is told after a change.

        ``reading``: what the rules say to reading a file, may block; without it nothing in the workspace is secret.
        Messages quote the code, so problems in what may not be read are only counted.
        """
        self._port = port
        self._workspace = workspace
        self._kind = kind
        self._least = least
        self._reading = reading
        self._run: DiagnosticsRun | None = None
        self._paths: set[Path] = set()
        """Files of ``_run``."""
        self._written = False
        """Something of ``_run`` is written and not reported yet."""
        self._more = False
        """Another write of the batch follows the call that runs now."""
        self._touched: dict[Path, None] = {}
        """Files of the changes before, oldest first: there may be late news of them."""
        self._leaving: set[asyncio.Task[DiagnosticsReport]] = set()
        self._late: list[tuple[DiagnosticsReport, set[Path]]] = []
        """Reports that nobody waited for, with the files of their changes."""

    def aside(self) -> StepDiagnostics:
        """The same view for a change beside the turn: what is found belongs to it, and not to a step's calls."""
        return StepDiagnostics(self._port, self._workspace, self._kind, self._least, self._reading)

    # ---- the ports

    def warm(self, path: Path) -> None:
        self._port.warm(path)

    async def begin(self, paths: Sequence[Path]) -> DiagnosticsRun:
        """A change of a batch that has begun becomes part of it."""
        if self._run is None:
            self._run = await self._port.begin(paths)
        else:
            await self._run.extend(paths)
        self._paths.update(paths)
        return self

    async def extend(self, paths: Sequence[Path]) -> None:
        await self.begin(paths)

    async def report(self) -> DiagnosticsReport:
        """What the write that has just been done is told."""
        self._written = True
        return DiagnosticsReport("later") if self._more else await self._judged()

    def drop(self) -> None:
        """The step itself sees whether something was written."""

    async def changed(self, path: Path) -> None:
        await self._port.changed(path)

    def buffer_changed(self, path: Path) -> None:
        self._port.buffer_changed(path)

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        report = await self._port.overdue(paths)
        return None if report is None else await self._told(report, paths)

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        return await self._port.current(paths, least)

    # ---- the step

    def before(self, calls: Sequence[ToolCallPart], position: int) -> None:
        """The call at ``position`` of a message is about to run."""
        if position == 0:
            self.leave()  # of a step that ended in a way that nobody foresaw
        self._more = False
        for call in calls[position + 1 :]:
            kind = self._kind(call.name)
            if kind != "other":
                self._more = kind == "writes"
                return

    async def after(self, result: ToolResultPart, *, last: bool = False) -> ToolResultPart:
        """The result of a call, with the report that it carries for the calls before it.

        ``last``: no call of the step follows, whatever the message says. A cancellation leaves the report for later.
        """
        if self._more and not last:
            return result
        if not self._written:
            self.leave()
            return result
        report = await self._judged()
        said = describe(report, self._workspace)
        if not said:
            return result
        found = {"verdict": report.verdict, "diagnostics": problems_metadata(report, self._workspace)}
        return result.model_copy(
            update={
                "content": f"{result.content}\n\n{_APPLIED} {said}".lstrip(),
                "metadata": {**result.metadata, **found},
            }
        )

    def leave(self) -> None:
        """The step is over, or canceled: what was written is judged in the background, and told late."""
        written = self._written
        run, paths = self._end()
        if run is not None and written:
            self._leave(asyncio.create_task(run.report()), paths)
        elif run is not None:
            run.drop()

    # ---- late

    @property
    def owed(self) -> bool:
        """Whether there may be something to tell about earlier steps."""
        return bool(self._late or self._touched)

    async def late(self) -> DiagnosticsReport | None:
        """What has come by now about earlier steps, to be told once; None: nothing. Waits for no server."""
        report = None
        if self._late:
            report = await self._told(*self._late.pop(0))
        elif self._touched:
            report = await self.overdue(list(self._touched))
        # Somebody who is silent still is told about when he has spoken.
        return report if report is not None and report.verdict in ("problems", "clean") else None

    async def close(self) -> None:
        """The session is over: nobody is told anything any more."""
        self.leave()
        for task in list(self._leaving):
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        self._touched.clear()

    # ----

    async def _judged(self) -> DiagnosticsReport:
        """The report on everything written in this batch."""
        run, paths = self._end()
        if run is None:
            return DiagnosticsReport("no_server")
        asked = asyncio.create_task(run.report())
        try:
            return await self._told(await asyncio.shield(asked), paths)
        except asyncio.CancelledError:
            self._leave(asked, paths)
            raise

    def _end(self) -> tuple[DiagnosticsRun | None, set[Path]]:
        run, paths = self._run, self._paths
        if self._written:
            kept = [path for path in self._touched if path not in paths]
            self._touched = dict.fromkeys([*kept, *paths][-_MAX_TOUCHED:])
        self._run, self._paths, self._written = None, set(), False
        return run, paths

    def _leave(self, asked: asyncio.Task[DiagnosticsReport], paths: set[Path]) -> None:
        def take(task: asyncio.Task[DiagnosticsReport]) -> None:
            self._leaving.discard(task)
            # The port never raises: it is being closed.
            if not task.cancelled() and task.exception() is None:
                self._late.append((task.result(), paths))

        self._leaving.add(asked)
        asked.add_done_callback(take)

    async def _told(self, report: DiagnosticsReport, own: Collection[Path]) -> DiagnosticsReport:
        """``report`` as far as the model is to know it, with problems only counted in files that it may not read.

        Of ``own`` files, which it wrote itself, it may be told even where the rules would ask the person again.
        """
        report = self._filtered(report)
        if not report.problems:
            return report
        files = {problem.path for problem in report.problems}

        def decide() -> set[Path]:
            return {path for path in files if self._may_be_told(path, own)}

        try:
            told = await asyncio.to_thread(decide)
        except Exception:  # the edit has been applied; in doubt nothing is shown
            _log.exception("the rules could not be asked about problems")
            told = set[Path]()
        shown = tuple(problem for problem in report.problems if problem.path in told)
        hidden = report.hidden + len(report.problems) - len(shown)
        return dataclasses.replace(report, problems=shown, hidden=hidden)

    def _filtered(self, report: DiagnosticsReport) -> DiagnosticsReport:
        """Without what is milder than the person wants the model to be told."""
        if self._least() != "error" or report.verdict != "problems":
            return report
        errors = tuple(problem for problem in report.problems if problem.severity == "error")
        if errors:
            return dataclasses.replace(report, problems=errors)
        verdict = "no_fresh_answer" if report.silent else "clean"
        return dataclasses.replace(report, verdict=verdict, problems=(), left_out=0)

    def _may_be_told(self, path: Path, own: Collection[Path]) -> bool:
        action = "allow" if self._reading is None else self._reading(path)
        if path in own:
            return action != "deny"
        return action == "allow" and self._workspace in path.parents
