"""Who may use the API: the holder of the token, on this machine, from no foreign page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must show."""

    token: str
    port: int
    """The port that ``Host`` (and an ``Origin``) must name; 127.0.0.1, localhost or [::1] before it."""
