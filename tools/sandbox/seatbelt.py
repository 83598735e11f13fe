"""The sandbox of macOS: a profile for ``sandbox-exec``, from the same fence as on Linux.

This has not been run on macOS yet; only the text of the profile is tested. It follows the manual and the profiles that
come with macOS: in a profile the last rule that matches decides, ``subpath`` takes a folder and all below it, and
``literal`` one path. Everything is denied at first; then the list goes from general to special: read all, hide, show
again, write, protect, hide files in writable folders.
"""

from __future__ import annotations

import functools
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.sandbox.landlock import Fence

PROGRAM = "/usr/bin/sandbox-exec"
LIMITS = (
    "sandbox-exec is marked as deprecated by Apple, and has not been tested with Goalwright",
    "that hidden files exist can be seen",
)
"""Limits of this sandbox, as text for the user."""

_BASE = (
    "(version 1)",
    "(deny default)",
    # Programs start others, and signal and inspect processes of the same sandbox.
    "(allow process-exec*)",
    "(allow process-fork)",
    "(allow signal (target same-sandbox))",
    "(allow process-info* (target same-sandbox))",
    "(allow sysctl-read)",
    "(allow ipc-posix-sem)",
    # Lookups of users, time zones and certificates, but no pasteboard, key chain, Apple events or windows.
    "(allow mach-lookup",
    '  (global-name "com.apple.system.opendirectoryd.libinfo")',
    '  (global-name "com.apple.system.opendirectoryd.membership")',
    '  (global-name "com.apple.system.notification_center")',
    '  (global-name "com.apple.system.logger")',
    '  (global-name "com.apple.trustd.agent"))',
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper")
_NETWORK = (
    "(allow network-outbound (remote ip))",
    "(allow network-bind (local ip))",
    "(allow network-inbound (local ip))",
    "(allow system-socket)",
    '(allow network-outbound (literal "/private/var/run/mDNSResponder"))',
    '(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd"))',
)


@functools.cache
def usable() -> str | None:
    """Return None if this sandbox works here, else why not. Blocking; tried once."""
    try:
        done = subprocess.run(
            [PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sandbox-exec cannot be run here ({error})"
    return None if done.returncode == 0 else f"sandbox-exec does not work here (exit code {done.returncode})"


def profile(fence: Fence) -> str:
    """Write the profile of a fence. Raises ValueError for a path that no profile can name."""
    shown, protected = (*fence.readable, *fence.writable), (*fence.read_only, *fence.hidden)
    lines = [*_BASE, "(allow file-read*)"]
    lines += _rules("file-read*", shown, fence.hidden)
    # Programs stat the folders above them. That reveals no content, but because it comes last, it applies to hidden
    # ones.
    lines.append("(allow file-read-metadata)")
    lines += _rules("file-write*", fence.writable, protected)
    # A folder above a protected file could be renamed and replaced by another one.
    lines += [
        f"(deny file-write-unlink (literal {quoted(path)}))" for path in _above(protected, fence.writable)
    ]
    lines += [f"(allow file-read* file-write* (literal {quoted(path)}))" for path in _DEVICES]
    lines.append('(allow file-ioctl (literal "/dev/tty"))')
    # Allow sockets by path in writable folders. IP is denied even to this machine, where other programs' servers run.
    lines += _rules("network*", fence.writable, protected)
    lines += _NETWORK if fence.network else ()
    return "\n".join(lines) + "\n"


def prefix(fence: Fence) -> tuple[str, ...]:
    """Return the words before a command's own. Raises ValueError."""
    words = (PROGRAM, "-p", profile(fence))
    if fence.tmp is None:
        return words
    return (*words, "/usr/bin/env", *(f"{name}={fence.tmp}" for name in ("TMPDIR", "TMP", "TEMP")))


def quoted(path: Path | str) -> str:
    """Write a path as a string of the profile's language. Raises ValueError."""
    text = str(path)
    if any(ord(letter) < 32 or ord(letter) == 127 or 0xD800 <= ord(letter) < 0xE000 for letter in text):
        raise ValueError(
            f"the sandbox of macOS cannot be told about {text!r}: it has control characters in its name"
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rules(action: str, allowed: Iterable[Path], denied: Iterable[Path]) -> list[str]:
    """Rules from outer folders to inner ones, as the last that matches decides; of two for one path, the denial."""
    rows = {(path, "allow") for path in allowed} | {(path, "deny") for path in denied}
    ordered = sorted(rows, key=lambda row: (len(row[0].parts), row[0], row[1] == "deny"))
    return [f"({verb} {action} (subpath {quoted(path)}))" for path, verb in ordered]


def _above(protected: Iterable[Path], writable: Iterable[Path]) -> list[Path]:
    """Return the folders between a protected path and the writable tree that contains it, both ends except the
    first."""
    trees = tuple(writable)
    return sorted(
        {above for path in protected for above in path.parents if any(above.is_relative_to(t) for t in trees)}
    )
