"""The policy of a sandbox for commands, and a sandbox that is ready for one command. Data, except ``leave``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tools.localization import t
from tools.process.environment import is_proxy, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tools.sandbox.replaced import HiddenFiles
    from tools.sandbox.state import SandboxState

_NO_WAY_OUT = words(
    "SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY "
    "XAUTHORITY DOCKER_HOST VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE GIT_ASKPASS SSH_ASKPASS TMPDIR TMP TEMP"
)
_NETWORK = re.compile(
    r"Network is unreachable|ENETUNREACH|EAI_AGAIN|ENOTFOUND|Temporary failure in name resolution|"
    r"Could ?n[o']t resolve|Name or service not known|Failed to connect|Could ?n[o']t connect|"
    r"Connection refused|ECONNREFUSED|"
    r"failed to lookup address|dial tcp: lookup|Unable to resolve|nodename nor servname",
    re.IGNORECASE,
)
_SILENT = {"curl": (5, 6, 7, 28, 35), "wget": (4, 5)}
"""Exit codes of programs that may print nothing when they cannot reach the network."""
_READ_ONLY = re.compile(
    r"Read-only file system|EROFS|Device or resource busy|Invalid cross-device link|EXDEV", re.IGNORECASE
)
_REFUSED = re.compile(
    r"Permission denied|EACCES|Operation not permitted|EPERM|Cannot connect to|"
    # Only where a command sees a folder of the sandbox instead of the real one.
    r"(?:/tmp|/run|/dev/shm)\b[^\n]*(?:No such file or directory|ENOENT)|"
    r"(?:No such file or directory|ENOENT)[^\n]*(?:/tmp|/run|/dev/shm)\b",
    re.IGNORECASE,
)

Kind = Literal["off", "workspace-write", "read-only"]
Setting = Literal["on", "off", "workspace-write", "read-only"]
"""The values of the setting ``sandbox``. Unlike ``workspace-write``, ``on`` keeps questions that rules ask about any
command."""


class UnavailableError(Exception):
    """Raised when there is no sandbox here. The message says why, for the user."""


def no_sandbox(why: UnavailableError) -> str:
    """Return the message for the user about a missing sandbox and its effect."""
    return t(
        "Commands cannot run in a sandbox: {why}. Without one, only read-only commands and commands with "
        "an exact rule run without asking.",
        why=why,
    )


class SandboxPolicy(Struct, frozen=True):
    """The permissions of a command in the sandbox. ``off``: there is no sandbox."""

    kind: Kind = "off"
    network: bool = False
    writable: tuple[Path, ...] = ()
    """More folders that may be written, absolute and resolved."""
    hidden: tuple[Path, ...] = ()
    """Goalwright's own state, with which a command could answer its own questions."""
    readable: tuple[Path, ...] = ()
    """Folders that are visible anywhere, and read-only. Absolute, resolved."""
    kept: tuple[Path, ...] = ()
    """Files of the workspace that Goalwright runs outside of the sandbox: they are read-only, or must not be made.
    Absolute."""
    copy_of: Path | None = None
    """The workspace itself, when the command works in a copy of it: visible and read-only. Files of the workspace that
    rules hide are hidden there, too."""
    folder: Path | None = None
    """Where the command starts; None: in the workspace. The other back ends keep the folder of the process."""
    lifts: bool = False
    """General questions about commands are not asked, as the sandbox answers them."""
    always: bool = False
    """Commands that the user approves run in it, too: the mode or the agent changes nothing."""

    @property
    def writes(self) -> bool:
        """Whether the workspace is writable."""
        return self.kind == "workspace-write"

    @property
    def words(self) -> str:
        """For the model and the user."""
        disk = t("workspace writable, rest read-only") if self.writes else t("disk read-only")
        return f"{disk}, {'with' if self.network else 'no'} network"


def policy_for(setting: Setting, *, network: bool = False) -> SandboxPolicy:
    """Return the policy for the user's setting."""
    if setting == "off":
        return SandboxPolicy()
    kind: Kind = "read-only" if setting == "read-only" else "workspace-write"
    return SandboxPolicy(kind, network, lifts=setting != "on")


class Sandbox(Struct, frozen=True):
    """A sandbox that is ready for one command. Call ``leave`` after it, when none of its processes runs any more."""

    prefix: tuple[str, ...]
    """Program and options before the command's own."""
    policy: SandboxPolicy
    guard: SandboxState | None
    """Looks after what the command makes; None where it can make nothing."""
    earlier: tuple[str, ...] = ()
    """Sentences about earlier commands that have not been reported yet, as ``leave`` returns them."""
    writable: tuple[Path, ...] = ()
    """Folders that the command can write, besides the workspace; rules may reduce those of the policy."""
    hides: HiddenFiles | None = None
    """Looks after hidden files where there is no ``guard``."""
    own_tmp: bool = True
    """Whether the command has its own ``/tmp``."""

    @property
    def words(self) -> str:
        """Describe the real limits of the command for the model and the user: the policy is only the most it may
        get."""
        places = ["workspace"] if self.guard is not None else []
        places += [folder.as_posix() for folder in self.writable]
        disk = (
            t("{places} writable, rest read-only", places=", ".join(places))
            if places
            else t("disk read-only")
        )
        return f"{disk}, {'with' if self.policy.network else 'no'} network"

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return ``environment`` without the ways to agents and daemons outside, and to a network that is not there."""
        return {
            name: value
            for name, value in environment.items()
            if name not in _NO_WAY_OUT and (self.policy.network or not is_proxy(name))
        }

    def met(self, output: str, programs: Iterable[str] = (), exit_code: int = 1) -> str:
        """Return the line of ``output`` that shows that the command met a limit of the sandbox; empty when none does.

        For silent ``programs``, the exit code shows it.
        """
        for pattern in (_READ_ONLY, *(() if self.policy.network else (_NETWORK,)), _REFUSED):
            if found := pattern.search(output):
                start = output.rfind("\n", 0, found.start()) + 1
                end = output.find("\n", found.end())
                return output[start : end if end >= 0 else len(output)].strip()
        for program in () if self.policy.network else programs:
            if exit_code in _SILENT.get(program, ()):
                return t(
                    "{program} ended with exit code {exit_code}: it could not reach the network",
                    program=program,
                    exit_code=exit_code,
                )
        return ""

    def leave(self) -> list[str]:
        """Move away forbidden entries of the command; return sentences about them, and about protected or hidden
        files that others replaced meanwhile. Blocking; idempotent."""
        after = self.guard or self.hides
        return [] if after is None else after.leave()
