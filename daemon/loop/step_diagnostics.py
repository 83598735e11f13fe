"""Diagnostics in a session: one report for all edits of a step, and late answers.

A refactoring over several files is broken between its first edit and its last. So while more writing calls of the same
message are still to come, an edit gets "later", and the last one carries the report on all of them, compared with the
state before the first. Even if the last one fails or is rejected, the report is not lost: it is in the result of the
call with which the batch ended, or, after a cancellation, comes late.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from tools.diagnostics_text import describe, problems_metadata
from tools.language_ports import CurrentProblems, Diagnostics, DiagnosticsReport, DiagnosticsRun, Severity
from tools.process.background import Background
from tools.tool_names import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from daemon.model.messages import ToolCallPart, ToolResultPart
    from tools.access import Action

CallKind = Literal["writes", "looks", "other"]
"""The role of a tool in a batch: ``looks`` reads the current workspace, so nothing may be deferred past it."""

_log = logging.getLogger(__name__)

_MAX_TOUCHED = 100
_APPLIED = "The changes of this step's earlier calls are kept."
_LOOKS = ("bash", "diagnostics", "symbols", "job", "task", "explore")


def kind_of(name: str, permission: str) -> CallKind:
    """Return the kind of a tool, by its name and the permission it asks for."""
    if name in _LOOKS or name.startswith(OWN):
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
        """``kind`` of a tool's name; ``least``: the mildest problems that the model sees after a change.

        ``reading``: the rules' decision on reading a file, may block; without it nothing in the workspace is secret.
        Messages quote the code, so problems in unreadable files are only counted.
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
        self._reports = Background("the report on a change")
        self._late: list[tuple[DiagnosticsReport, set[Path]]] = []
        """Reports that nothing waited for, with the files of their changes."""

    def aside(self) -> StepDiagnostics:
        """Return the same view for a change outside the turn, so that its findings do not belong to a step's calls."""
        return StepDiagnostics(self._port, self._workspace, self._kind, self._least, self._reading)

    # ---- the ports

    def warm(self, path: Path) -> None:
        self._port.warm(path)

    async def begin(self, paths: Sequence[Path]) -> DiagnosticsRun:
        """Start watching a change, as a part of a batch that has begun."""
        if self._run is None:
            self._run = await self._port.begin(paths)
        else:
            await self._run.extend(paths)
        self._paths.update(paths)
        return self

    async def extend(self, paths: Sequence[Path]) -> None:
        await self.begin(paths)

    def written(self) -> None:
        self._written = True

    async def report(self) -> DiagnosticsReport:
        """Return the report for the write that has just been done."""
        return DiagnosticsReport("later") if self._more else await self._judged()

    def drop(self) -> None:
        """The step itself sees whether something was written."""

    async def changed(self, path: Path) -> None:
        await self._port.changed(path)

    def buffer_changed(self, path: Path) -> None:
        self._port.buffer_changed(path)

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        report = await self._port.overdue(paths)
        return None if report is None else await self._readable_report(report, paths)

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        return await self._port.current(paths, least)

    # ---- the step

    def before(self, calls: Sequence[ToolCallPart], position: int) -> None:
        """The call at ``position`` of a message is about to run."""
        if position == 0:
            self.leave()  # of a step that ended unexpectedly
        self._more = False
        for call in calls[position + 1 :]:
            kind = self._kind(call.name)
            if kind != "other":
                self._more = kind == "writes"
                return

    async def after(self, result: ToolResultPart, *, last: bool = False) -> ToolResultPart:
        """Return the result of a call, with the report that it carries for the calls before it.

        ``last``: no call of the step follows, even if the message has more. A cancellation leaves the report for later.
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
        """End the step: its writes are checked in the background, and reported late."""
        written = self._written
        run, paths = self._end()
        if run is not None and written:
            self._leave(self._reports.start(run.report()), paths)
        elif run is not None:
            run.drop()

    # ---- late reports

    @property
    def owed(self) -> bool:
        """Whether there may be reports about earlier steps."""
        return bool(self._late or self._touched)

    async def late(self) -> DiagnosticsReport | None:
        """Return late findings about earlier steps, once; None: nothing new. Waits for no server."""
        report = None
        if self._late:
            report = await self._readable_report(*self._late.pop(0))
        elif self._touched:
            report = await self.overdue(list(self._touched))
        # Servers that are still silent are reported when they have answered.
        return report if report is not None and report.verdict in ("problems", "clean") else None

    async def close(self) -> None:
        """Close it: nothing is reported any more."""
        self.leave()
        await self._reports.close()
        self._touched.clear()

    # ----

    async def _judged(self) -> DiagnosticsReport:
        """Return the report on everything written in this batch."""
        run, paths = self._end()
        if run is None:
            return DiagnosticsReport("no_server")
        asked = self._reports.start(run.report())
        try:
            return await self._readable_report(await asyncio.shield(asked), paths)
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
            # The port never raises: it is being closed.
            if not task.cancelled() and task.exception() is None:
                self._late.append((task.result(), paths))

        asked.add_done_callback(take)

    async def _readable_report(self, report: DiagnosticsReport, own: Collection[Path]) -> DiagnosticsReport:
        """Return the part of ``report`` for the model, with problems in files that it may not read only counted.

        ``own`` files, which it wrote itself, are shown even where the rules would ask the user again.
        """
        report = self._filtered(report)
        if not report.problems:
            return report
        files = {problem.path for problem in report.problems}

        def decide() -> set[Path]:
            return {path for path in files if self._may_be_told(path, own)}

        try:
            told = await asyncio.to_thread(decide)
        except Exception:  # the edit has been applied; if in doubt, show nothing
            _log.exception("the rules could not be asked about problems")
            told = set[Path]()
        shown = tuple(problem for problem in report.problems if problem.path in told)
        hidden = report.hidden + len(report.problems) - len(shown)
        return replace(report, problems=shown, hidden=hidden)

    def _filtered(self, report: DiagnosticsReport) -> DiagnosticsReport:
        """Return the report without problems that are milder than the user wants the model to see."""
        if self._least() != "error" or report.verdict != "problems":
            return report
        errors = tuple(problem for problem in report.problems if problem.severity == "error")
        if errors:
            return replace(report, problems=errors)
        verdict = "no_fresh_answer" if report.silent else "clean"
        return replace(report, verdict=verdict, problems=(), left_out=0)

    def _may_be_told(self, path: Path, own: Collection[Path]) -> bool:
        action = "allow" if self._reading is None else self._reading(path)
        if path in own:
            return action != "deny"
        return action == "allow" and self._workspace in path.parents
