"""Keep the commands of a branch away from the workspace, whatever they run, by mounts (``bwrap`` on Linux).

Rules read words; they cannot read what ``make`` or a script does. So each command of a branch runs where the workspace,
folders that are linked from it and the other copies are mounted read-only. Unlike the sandbox (``tools.sandbox``),
which covers this already, it changes nothing else: network, processes, environment and the rest of the disk are as they
are. The kernel does not allow programs in it to change the user (``sudo``).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from tools.sandbox import bwrap
from tools.sandbox.policy import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# With these root could undo a mount, access the disk directly, or enter the daemon, which has the real disk.
_DROPPED = ("SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "MKNOD", "DAC_READ_SEARCH")
_CHECK = """
left=$1; shift
for path; do
    if [ $left -gt 0 ]; then [ ! -w "$path" ] || exit 9; else [ -w "$path" ] || exit 8; fi
    left=$((left-1))
done
"""
"""A shell script that checks paths: the first ones must not be writable, the others must be."""
_MET = re.compile(
    r"Read-only file system|EROFS|Invalid cross-device link|EXDEV|no new privileges", re.IGNORECASE
)


class Confinement(Struct, frozen=True):
    """For all commands of one branch."""

    prefix: tuple[str, ...] = ()
    """Program and options to put before a command's own; empty without confinement."""
    lacking: str = ""
    """Why there is no confinement, for the user; empty where it works, and outside branches."""

    @property
    def fenced(self) -> bool | None:
        return True if self.prefix else False if self.lacking else None

    @property
    def warning(self) -> str:
        """Return the warning for the user, shown once."""
        return (
            "Here, nothing prevents the programs that branches run from writing to the workspace: "
            f"{self.lacking}. So they need approval in every mode, unless their effect is known."
        )

    def hint(self, output: str) -> str:
        """Return a hint for the model when a command failed on it; empty when the output does not show that."""
        if not self.prefix or not _MET.search(output):
            return ""
        return (
            "In a branch the workspace, what is linked from it (node_modules, .venv) and other copies are "
            "read-only, and sudo does not work. Write elsewhere: copy what you must change into another "
            "folder, and give a program that needs a cache another place for it, or do without it."
        )


def confine(
    workspace: Path, origin: Path, read_only: Sequence[Path], writable: Sequence[Path]
) -> Confinement:
    """Return the confinement for commands in ``workspace``, the copy of ``origin``. ``read_only``, and in it
    ``writable``: absolute and resolved; missing ones are left out. Blocking: it is tested. Never raises."""
    opened = [path for path in dict.fromkeys(writable) if path.exists()]
    kept = [
        path
        for path in sorted(dict.fromkeys(read_only), key=lambda path: len(path.parts))
        if path.exists() and not any(path.is_relative_to(folder) for folder in opened)
    ]
    dropped = [word for name in _DROPPED for word in ("--cap-drop", f"CAP_{name}")]
    mounts = ["--dev-bind", "/", "/"]
    for path in kept:
        mounts += ["--ro-bind", str(path), str(path)]
    for path in sorted(opened, key=lambda path: len(path.parts)):
        mounts += ["--bind", str(path), str(path)]
    checked = [path for path in (*kept, *opened) if path in opened or os.access(path, os.W_OK)]
    shut = sum(path in kept for path in checked)
    check = ("/bin/sh", "-c", _CHECK, "sh", str(shut), *map(str, checked))
    why = ""
    try:
        program = bwrap.program(workspace, origin)
        # Root needs no user namespace, and in one it could not use files of other users.
        for options in ((), ("--unshare-user",)):
            prefix = (program, *options, *dropped, *mounts, "--")
            failed = bwrap.why_not([*prefix, *check])
            if not failed:
                return Confinement(prefix)
            why = why or failed
    except UnavailableError as error:
        why = str(error)
    return Confinement(lacking=why)
