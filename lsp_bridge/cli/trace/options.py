"""What ``goalwright trace …`` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

DumpFormat = Literal["txt", "md", "json"]


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """One ``goalwright trace`` command; what an action has no use for keeps its default."""

    action: str
    """list, show, dump, tail, rebuild, export, import, prune, page."""
    workspace: Path
    trace: str | None = None
    """An id, the beginning of one, ``latest``, or None for the same."""
    branch: str | None = None
    """Of a branch or sub-agent, e.g. ``A``, ``A.s1``."""
    json: bool = False
    limit: int = 50
    full: bool = False
    """Of ``show``: texts are not shortened to a line."""
    system_prompt: bool = False
    """Of ``show``: the system prompts instead of the steps."""
    format: DumpFormat = "txt"
    output: Path | None = None
    """None: stdout, of an export: a name made from the trace's id in the current folder."""
    since: int | None = None
    """Event id; None: only what is new, 0: everything."""
    follow: bool = True
    all: bool = False
    force: bool = False
    """Of ``export`` and ``dump``: replace a file that is there."""
    archive: Path | None = None
    dry_run: bool = False
    keep_days: float | None = None
    max_mb: float | None = None
    keep: int | None = None
    """None: as the settings say."""
    open: bool = False
