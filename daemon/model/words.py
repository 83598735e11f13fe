"""Text in short. Pure."""

from __future__ import annotations

from tools.text.truncate import head


def cut_line(text: str, length: int) -> str:
    """``text`` without line breaks, cut to ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else head(line, length - 1).rstrip() + "…"
