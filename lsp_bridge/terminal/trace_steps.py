"""``goalwright trace list|show|dump|tail``: reads the store, so it works without a daemon and beside one.

Each returns the exit code: 0, 1 when the trace cannot be read, 2 when there is no such trace.
``trace``: an id, the beginning of one (if it is the only one with it), or ``latest``. ``branch``: ``A``, ``s1``, ``A.s1``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def list_traces(workspace: Path, *, limit: int = 20, as_json: bool = False) -> int:
    """``goalwright trace list``: newest first; ``as_json``: one JSON object a line."""
    raise NotImplementedError


def show_trace(
    workspace: Path, trace: str = "latest", *, branch: str | None = None, full: bool = False
) -> int:
    """``goalwright trace show``: the step tree with costs; ``full``: texts are not shortened to a line."""
    raise NotImplementedError


def dump_trace(
    workspace: Path,
    trace: str = "latest",
    *,
    form: Literal["txt", "md", "json"] = "txt",
    branch: str | None = None,
    output: Path | None = None,
) -> int:
    """``goalwright trace dump``: the tree as text, Markdown or JSON, to stdout or the file ``output``."""
    raise NotImplementedError


def tail_trace(
    workspace: Path,
    trace: str = "latest",
    *,
    branch: str | None = None,
    since: int | None = None,
    as_json: bool = False,
    follow: bool = True,
) -> int:
    """``goalwright trace tail``: steps as they come, until Ctrl+C. ``since``: all behind this event id (None: only
    what is new); ``as_json``: the stored events, one a line; not ``follow``: end when all that is there was said."""
    raise NotImplementedError
