"""How long language servers are waited for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from lsp_bridge.language.answers import Settling


@dataclass(frozen=True, slots=True)
class Timing:
    """Every wait on a language server, in seconds.

    The waits for an answer are counted from the end of the write and for all servers together: whoever asks
    several of them computes one moment and waits for all of them until then. A server that is not even ready at
    that moment has given no fresh answer; it goes on starting, and what it says later is told later.
    """

    answer_s: float = 2.5
    """For a fresh answer about a change (the setting ``diagnostics_timeout_s``)."""
    cold_answer_s: float = 1.0
    """The same, from a server that has never said anything yet: most likely it is still starting, and waiting for
    that would make the first edit the slowest. As soon as it says something it has ``answer_s``, counted from the
    same beginning."""
    silent_answer_s: float = 1.0
    """The same, from a server that left the last two changes unanswered."""
    quiet_s: float = 0.5
    """Without news, after a change that leaves no file to answer about (a deletion)."""
    deletion_s: float = 1.2
    """After a deletion, for the files that used what is gone; basedpyright looks at it half a second later."""
    around_s: float = 0.5
    """For what it says about other open files, once it has answered about the changed ones."""
    stalled_s: float = 60.0
    """What a server began (``$/progress``) and said nothing more about for so long holds up no answer."""
    initialize_s: float = 20.0
    pull_s: float = 30.0
    shutdown_s: float = 1.0
    """For the answer to ``shutdown``, and again for the process to end after ``exit``."""
    terminate_s: float = 3.0
    """Between TERM and KILL."""
    settling: Settling = field(default_factory=lambda: Settling(versioned_s=0.3))
    """Several servers push an empty list for a new text first, with its version, and the problems some time later."""

    @classmethod
    def within(cls, answer_s: float) -> Timing:
        """The defaults, with at most ``answer_s`` for an answer, and a share of it for those who said nothing yet."""
        normal = cls()
        share = answer_s / normal.answer_s
        return dataclasses.replace(
            normal,
            answer_s=answer_s,
            cold_answer_s=normal.cold_answer_s * share,
            silent_answer_s=normal.silent_answer_s * share,
        )
