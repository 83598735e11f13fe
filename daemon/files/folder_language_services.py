"""The language services of a folder other than the workspace: ports that ``lsp_bridge`` implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tools.language_ports import (
    CurrentProblems,
    Diagnostics,
    DiagnosticsReport,
    DiagnosticsRun,
    Navigation,
    NoNavigation,
    Severity,
)


class FolderLanguageServices(Protocol):
    """Problems and places of one folder's files."""

    @property
    def diagnostics(self) -> Diagnostics:
        """The diagnostics of its files; no editor is involved."""
        ...

    @property
    def navigation(self) -> Navigation:
        """Where things are defined and used in it."""
        ...

    async def close(self) -> None:
        """Let go of the folder; returns when no process that looked at it is left. Twice is as good as once."""
        ...


OpenLanguageServices = Callable[[Path], FolderLanguageServices]
"""Language services for a folder (absolute, resolved). Costs nothing before something in it is looked at."""


class NoDiagnostics:
    """Implements Diagnostics where there are no language servers."""

    def warm(self, path: Path) -> None:
        """Do nothing, because there are no language servers."""

    async def begin(self, paths: Sequence[Path]) -> DiagnosticsRun:
        return _NoRun()

    async def changed(self, path: Path) -> None:
        """Do nothing, because there are no language servers."""

    def buffer_changed(self, path: Path) -> None:
        """Do nothing, because there are no language servers."""

    async def overdue(self, paths: Sequence[Path]) -> DiagnosticsReport | None:
        return None

    async def current(self, paths: Sequence[Path], least: Severity = "warning") -> CurrentProblems:
        return CurrentProblems(())


class _NoRun:
    async def extend(self, paths: Sequence[Path]) -> None:
        """Do nothing, because there are no language servers."""

    async def report(self) -> DiagnosticsReport:
        return DiagnosticsReport("no_server")

    def drop(self) -> None:
        """Do nothing, because there are no language servers."""


class NoLanguageServices:
    """An OpenLanguageServices without language services: ``NoLanguageServices(root)``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.diagnostics: Diagnostics = NoDiagnostics()
        self.navigation: Navigation = NoNavigation()

    async def close(self) -> None:
        """Do nothing, because there are no language servers."""
