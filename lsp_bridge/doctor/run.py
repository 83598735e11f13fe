"""Running a program for a moment, to see what it says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.localization import t

_MAX_OUTPUT = 20_000


@dataclass(frozen=True, slots=True)
class Said:
    """What came of it. ``code`` is None when it did not end in time or could not be started."""

    code: int | None
    text: str


async def ask(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Said:
    """Run ``argv`` in the folder of its program; never raises. Nothing of it runs on afterwards."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            # Not in the workspace: some programs look for plugins in the current folder.
            cwd=Path(argv[0]).parent,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Said(None, t("it cannot be started: {strerror}", strerror=error.strerror or error))
    try:
        data, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        return Said(None, t("no answer within {timeout_s:g} seconds", timeout_s=timeout_s))
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            elif process.returncode is None:
                process.kill()
    return Said(process.returncode, data[:_MAX_OUTPUT].decode("utf-8", "replace"))
