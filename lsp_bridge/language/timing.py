"""How long language servers are waited for."""

from __future__ import annotations

from dataclasses import dataclass, field

from lsp_bridge.language.answers import Settling


@dataclass(frozen=True, slots=True)
class Timing:
    """Every wait on a language server, in seconds."""

    answer_s: float = 2.5
    """For a fresh answer about a change."""
    cold_answer_s: float = 5.0
    """The same, from a server that has never said anything yet: it may still be starting."""
    silent_answer_s: float = 1.0
    """The same, from a server that left the last two changes unanswered."""
    quiet_s: float = 0.5
    """Without news, after a change that leaves no file to answer about (a deletion)."""
    around_s: float = 0.5
    """For what it says about other open files, once it has answered about the changed ones."""
    initialize_s: float = 20.0
    pull_s: float = 30.0
    shutdown_s: float = 1.0
    """For the answer to ``shutdown``, and again for the process to end after ``exit``."""
    terminate_s: float = 3.0
    """Between TERM and KILL."""
    settling: Settling = field(default_factory=Settling)
