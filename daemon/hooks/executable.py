"""Hooks that are programs of the configuration: JSON on stdin, JSON (or nothing) on stdout.

The exit code 2 refuses, with stderr as the reason, as users of Claude Code know it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from daemon.hooks.answer import MAX_OUTPUT, HookAnswer, HookError, denial, may_deny, read_text
from tools.localization import t
from tools.paths import without_tilde
from tools.process.programs import find_program, run, scrubbed_environment
from tools.process.runnable import why_not_run
from tools.text.truncate import head, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.settings import Hook, HookName

_DENIES = 2
_MAX_ERRORS = 4_000
"""Bytes of stderr that are kept."""
_BORDER = 8_000
"""Bytes of errors beyond the limit: they show whether the limit would split a secret."""
_GRACE_S = 0.5
"""Seconds between TERM and KILL: the caller has already waited long enough."""


class HookExecutable(Struct, frozen=True):
    """One program, in one workspace."""

    hook: Hook
    workspace: Path
    trusted: bool
    """Programs of the workspace may be run."""
    origin: Path | None = None
    """The workspace itself, in a branch that works in a copy of it: as little to be trusted."""

    @property
    def label(self) -> str:
        """The hook's name for the user."""
        return one_line(shlex.join(self.hook.command), 80)

    @property
    def tools(self) -> str:
        return self.hook.tools

    @property
    def denies_on_failure(self) -> bool:
        return self.hook.on_failure == "deny"

    async def ask(self, name: HookName, payload: Mapping[str, Any]) -> HookAnswer:
        """Run it to its end. Raises HookError; on cancellation the process is gone."""
        printed, errors = bytearray(), bytearray()

        def heard(fd: int, data: bytes) -> bool:
            if fd == 2:
                errors.extend(data[: _MAX_ERRORS + _BORDER - len(errors)])
                return True
            printed.extend(data[: MAX_OUTPUT + 1 - len(printed)])
            return len(printed) <= MAX_OUTPUT

        told = json.dumps(payload, default=str).encode()
        argv = [self._program(), *self._arguments()]
        try:
            ended = await run(
                argv,
                cwd=self.workspace,
                env=self._environment(name),
                on_output=heard,
                timeout_s=self.hook.timeout_s,
                grace_s=_GRACE_S,
                feed=lambda pipe: (pipe.write(told), pipe.close())[1],
            )
        except (OSError, ValueError) as error:
            why = await asyncio.to_thread(why_not_run, Path(argv[0]), error) or error
            raise HookError("start", t("could not be started: {error}", error=why)) from error
        if len(printed) > MAX_OUTPUT:
            raise HookError(
                "output",
                t("printed more than {max_output} KB and was stopped", max_output=MAX_OUTPUT // 1024),
            )
        if ended.timed_out:
            raise HookError(
                "timeout",
                t("took longer than {timeout_s:g} s and was stopped", timeout_s=self.hook.timeout_s),
            )
        said = head(errors.decode("utf-8", "replace").strip(), _MAX_ERRORS)
        if ended.exit_code == _DENIES and may_deny(name):
            return denial(said)
        if ended.exit_code < 0:
            raise HookError("crash", t("was killed by signal {value}", value=-ended.exit_code))
        if ended.exit_code:
            why = f": {one_line(said, 300)}" if said else ""
            raise HookError(
                "exit", t("failed with exit code {exit_code}{why}", exit_code=ended.exit_code, why=why)
            )
        return read_text(name, printed.decode("utf-8", "replace"))

    def _program(self) -> str:
        """Return the program's full path. Raises HookError.

        A workspace could contain a program of any name, so it is looked for elsewhere, unless the workspace is trusted,
        or the (trusted) configuration names that very file.
        """
        name = self.hook.command[0]
        path = without_tilde(name)
        if path.is_absolute():
            return str(path)
        if name != path.name:  # ./x as well as x/y
            if not self.trusted:
                raise HookError(
                    "missing",
                    t("is in a folder that is not trusted: name it by its full path, or trust the folder"),
                )
            return str(self.workspace / path)
        found = find_program(name, self.workspace, self.origin) or (
            shutil.which(name) if self.trusted else None
        )
        if found is None:
            where = (
                t("on PATH") if self.trusted else t("on PATH outside of the workspace, which is not trusted")
            )
            raise HookError("missing", t("was not found {where}", where=where))
        return found

    def _arguments(self) -> tuple[str, ...]:
        """Return the arguments. Raises HookError: ``python hook.py`` would run the workspace's own ``hook.py``."""
        arguments = self.hook.command[1:]
        for argument in () if self.trusted else arguments:
            path = Path(argument)
            # This one is false, too, for a name that is too long or has a null character.
            if not path.is_absolute() and os.path.isfile(self.workspace / path):  # noqa: PTH113
                raise HookError(
                    "missing",
                    t(
                        "is called with {argument}, a file in a folder that is not trusted: name it by its "
                        "full path, or trust the folder",
                        argument=one_line(argument, 80),
                    ),
                )
        return arguments

    def _environment(self, name: HookName) -> dict[str, str]:
        env = scrubbed_environment(os.environ)
        env |= {"GOALWRIGHT_HOOK": name, "GOALWRIGHT_WORKSPACE": str(self.workspace)}
        if not self.trusted:
            # The current folder is the workspace: neither the hook nor its children may find programs there.
            env["PYTHONSAFEPATH"] = "1"
            for variable in ("PATH", "PYTHONPATH"):
                if (value := env.get(variable)) is not None:
                    env[variable] = os.pathsep.join(filter(self._is_outside, value.split(os.pathsep)))
        return env

    def _is_outside(self, folder: str) -> bool:
        path = Path(folder)
        return path.is_absolute() and not any(
            path.is_relative_to(place) or Path(os.path.realpath(path)).is_relative_to(place)
            for place in (self.workspace, self.origin)
            if place is not None
        )
