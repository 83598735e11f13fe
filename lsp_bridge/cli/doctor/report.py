"""The doctor's report, as data: printed by ``command``, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, to_builtins

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

State = Literal["ok", "note", "warning", "broken"]
"""``note``: for information, no action needed; ``broken``: something necessary does not work."""
ServerState = Literal["found", "missing", "unusable", "broken", "disabled", "unneeded"]
"""``unusable``: it exists and must not or cannot be used here; ``broken``: it does not run; ``unneeded``: another one
reports the same."""


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: State
    text: str
    """The result as text for the user, with a remedy."""


class Trial(Struct, frozen=True):
    """A server that was really started, on a file with an error."""

    answered: bool
    saw_error: bool
    cold_s: float | None = None
    """Seconds from its start to the first answer."""
    warm_s: float | None = None
    """Seconds from the change that made the error to the answer about it."""
    text: str = ""


class ServerReport(Struct, frozen=True):
    """One language server for one language of the workspace."""

    name: str
    """Its key in the setting ``language_servers``."""
    state: ServerState
    program: str = ""
    """Path of the program to start."""
    version: str = ""
    text: str = ""
    """Why it is not used, or other information."""
    install: tuple[str, ...] = ()
    """Command lines, of which one is enough; only when it is missing."""
    ignored: tuple[str, ...] = ()
    """The project's own, not used because the folder is not trusted."""
    trial: Trial | None = None


class LanguageReport(Struct, frozen=True):
    """One group of languages that a server covers."""

    title: str
    files: int
    servers: tuple[ServerReport, ...]

    @property
    def covered(self) -> bool:
        """Whether some server covers it."""
        return any(server.state == "found" for server in self.servers)

    @property
    def broken(self) -> bool:
        """The only servers there are do not work."""
        states = {server.state for server in self.servers}
        failed = any(s.trial is not None and not s.trial.saw_error for s in self.servers)
        return failed or ("broken" in states and not self.covered)


class Report(Struct, frozen=True):
    """Everything."""

    workspace: Path
    trusted: bool
    checks: tuple[Check, ...]
    languages: tuple[LanguageReport, ...]
    cut: bool = False
    """There are more files than were looked at."""

    @property
    def ok(self) -> bool:
        """Nothing that is needed is broken. A server that is not installed is not broken."""
        return not any(check.state == "broken" for check in self.checks) and not any(
            language.broken for language in self.languages
        )

    def to_json(self) -> Mapping[str, Any]:
        """Return JSON for programs."""
        return {
            "ok": self.ok,
            "workspace": str(self.workspace),
            "trusted": self.trusted,
            "cut": self.cut,
            "checks": [to_builtins(check) for check in self.checks],
            "languages": [{**to_builtins(each), "covered": each.covered} for each in self.languages],
        }
