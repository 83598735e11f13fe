"""Why a file cannot be run as a program, in words for the user who wrote or installed it."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
from pathlib import Path

from tools.localization import t

_FIRST_LINE = 256
"""Bytes of a first line that Linux reads."""


def why_not_run(path: Path, error: Exception | None = None) -> str:
    """Return what is wrong with a program, and what to do; empty when nothing is seen. Blocking.

    ``path``: absolute. ``error``: of a start, where the kernel says "no such file" for a missing interpreter, too.
    """
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return t("{path} is text without a first line such as #!/usr/bin/env python3: add it", path=path)
    try:
        if not path.exists():
            if path.is_symlink():
                return t(
                    "{path} is a link to {target}, which does not exist", path=path, target=path.readlink()
                )
            return t("there is no file {path}: install the program, or correct the path", path=path)
        if path.is_dir():
            return t("{path} is a folder: name the program in it", path=path)
        if not path.is_file():
            return t("{path} is not a file", path=path)
        if sys.platform == "win32":
            return ""
        if not os.access(path, os.X_OK):
            command = f"chmod +x {shlex.quote(str(path))}"
            return t("{path} is not executable: run `{command}`", path=path, command=command)
        with path.open("rb") as file:
            return _of_content(path, file.read(_FIRST_LINE))
    except PermissionError:
        return ""  # a program that can be run need not be readable
    except (OSError, ValueError, RuntimeError) as why:  # ValueError: a NUL; RuntimeError: a loop of links
        return t("{path} cannot be used: {error}", path=path, error=getattr(why, "strerror", "") or why)


def _of_content(path: Path, start: bytes) -> str:
    if not start:
        return t("{path} is empty", path=path)
    if not start.startswith(b"#!"):
        return ""  # a binary; or text, which some systems give to a shell
    line = start.partition(b"\n")[0][2:]
    if line.endswith(b"\r"):
        return t("the lines of {path} end as on Windows: save it with line ends LF", path=path)
    words = line.decode("utf-8", "replace").split()
    interpreter = words[0] if words else ""
    if Path(interpreter).name == "env":
        wanted = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        if wanted and shutil.which(wanted) is None:
            interpreter = wanted
        elif Path(interpreter).is_file():
            return ""
    elif interpreter.startswith("/") and Path(interpreter).is_file():
        return ""
    return t(
        "the first line of {path} names {interpreter}, which is not found: install it, or correct the line",
        path=path,
        interpreter=interpreter or "#!",
    )
