"""The system's data about another process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def memory_mb(pid: int) -> float:
    """Resident memory in MB of 1024² bytes."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except FileNotFoundError:  # macOS
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
        return int(shown.stdout) / 1024
    raise AssertionError(f"process {pid} has ended")


def has_litellm(pid: int) -> bool | None:
    """Whether the process has imported litellm, told by the tokenizers it loads; None where that cannot be seen."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    except OSError:
        return None
    return "/tiktoken/" in maps or "/tokenizers/" in maps


def cpu_s(pid: int) -> float | None:
    """Processor time that the process has used, in seconds; None where that cannot be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
