"""Choose the language servers by the user's settings and trust, as one value that changes with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lsp_bridge.language_client.server.diagnostics_freshness import Timing

if TYPE_CHECKING:
    from daemon.settings import Settings
    from lsp_bridge.language_client.specs.server_spec import ServerSpec
    from tools.language_ports import Severity


class ServerChoice(Struct, frozen=True):
    """The settings that hold for all language servers of a workspace."""

    specs: tuple[ServerSpec, ...] = ()
    timing: Timing = field(default_factory=Timing)
    least_severity: Severity = "error"
    trusted: bool = False
    """The workspace's own programs may be executed."""
    problems: tuple[str, ...] = ()
    """Problems in the settings, as text for the user; the wrong parts are ignored."""


Chooser = Callable[[], ServerChoice]
"""Tells what holds now: the same object as long as nothing has changed. Cheap; asked for each file."""


class SettingsChooser:
    """A Chooser by the settings and the trust of the moment."""

    def __init__(
        self,
        settings: Callable[[bool], Settings],
        trusted: Callable[[], bool],
        *,
        told: Callable[[Sequence[str]], None] = lambda problems: None,
    ) -> None:
        """``settings``: those in force, in a folder that is trusted or not. ``told`` receives their problems, once for
        each change of them."""
        self._settings = settings
        self._trusted = trusted
        self._told = told
        self._last: tuple[Settings, bool, ServerChoice] | None = None

    def __call__(self) -> ServerChoice:
        trusted = self._trusted()
        settings = self._settings(trusted)
        last = self._last
        if last is not None and last[1] == trusted and (last[0] is settings or _alike(last[0], settings)):
            return last[2]
        choice = choice_of(settings, trusted=trusted)
        self._last = settings, trusted, choice
        if choice.problems:
            self._told(choice.problems)
        return choice


def choice_of(settings: Settings, *, trusted: bool) -> ServerChoice:
    """Return the effect of ``settings`` on language servers."""
    # Import late: the first file of a session is soon enough.
    from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS, configured

    specs, problems = configured(DEFAULT_SPECS, settings.languages.language_servers)
    return ServerChoice(
        specs=specs if settings.languages.diagnostics else (),
        timing=Timing.within(settings.languages.diagnostics_timeout_s),
        # Keep all of them, because the diagnostics tool shows milder ones. The session filters the reports about
        # changes.
        least_severity="hint",
        trusted=trusted,
        problems=problems,
    )


def _alike(one: Settings, other: Settings) -> bool:
    """Return whether two readings of the settings are equal for language servers."""
    names = ("language_servers", "diagnostics", "diagnostics_timeout_s")
    return all(getattr(one.languages, name) == getattr(other.languages, name) for name in names)
