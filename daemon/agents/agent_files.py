"""The files of agents on disk: which of them may be read, and their text. All functions block.

An agent's file becomes part of the prompt. So a workspace's file must belong to the workspace, wherever links lead: a
repository may contain ``review.md -> ../../.env``, and users do not look for that before they trust it. The user's own
folder may contain links, as dotfiles are often kept elsewhere; but none to a secret, which nobody meant to send.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.agents.profile_file import MAX_FILE, AgentFileError
from daemon.permission.matching import fold
from daemon.permission.protected import OWN_STATE, protected
from tools.files.regular_files import open_regular
from tools.localization import t

if TYPE_CHECKING:
    from daemon.agents.profile import AgentSource

WORKSPACE_FOLDER = Path(".goalwright") / "agents"
MAX_AGENTS = 200
"""Files of a folder; a workspace may hold any number."""

Stamp = tuple[object, ...]
"""Another one means that a file, or what a link leads to, is another one."""


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a file; None when there is no entry of this name. A dangling link is an entry."""
    try:
        link = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ("unreadable", error.errno)
    try:
        file = path.stat()
    except OSError as error:
        return ("nowhere", error.errno, link.st_mtime_ns)
    # Replacing a parent folder by a link changes neither the time nor the size of the file.
    return (file.st_mtime_ns, file.st_size, file.st_ino, file.st_dev, link.st_ino, os.path.realpath(path))


def read_agent(path: Path, source: AgentSource, workspace: Path | None = None) -> str:
    """Return the text of an agent's file. Raises AgentFileError, FileNotFoundError.

    ``workspace``: its root, for a file of ``source`` workspace.
    """
    real = _allowed(path, source, workspace)
    try:
        with open_regular(real) as file:  # not a link or a pipe that was put there meanwhile
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise AgentFileError(t("it is larger than {max_file:,} bytes: shorten it", max_file=MAX_FILE))
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise AgentFileError(t("it cannot be read: {strerror}", strerror=error.strerror or error)) from error
    except UnicodeDecodeError as error:
        raise AgentFileError(t("it is not UTF-8 text: save it as UTF-8")) from error


def _allowed(path: Path, source: AgentSource, workspace: Path | None) -> Path:
    """Return where the file really is. Raises AgentFileError, FileNotFoundError."""
    try:
        real = path.resolve(strict=True)
        folder = path.parent.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, in Python below 3.13
        if not os.path.lexists(path):
            raise FileNotFoundError(path) from error
        raise AgentFileError(t("it is a broken symbolic link")) from error
    if not real.is_file():
        # A workspace may hold a link to a device or a pipe: reading it would never end.
        raise AgentFileError(t("it is not a file"))
    if source == "workspace" and not leads_out(path.parent, workspace) and real.parent != folder:
        raise AgentFileError(
            t("it is a symbolic link that leads out of the agents folder: put the file itself there")
        )
    if source == "workspace" and leads_out(path.parent, workspace):
        raise AgentFileError(
            t("its folder is a link that leads out of the workspace: put the files themselves there")
        )
    if real != path and (kinds := _secrets(real, folder, workspace)):
        raise AgentFileError(
            t("it is a link to a protected file ({kinds}): put a regular file there", kinds=kinds)
        )
    return real


def leads_out(folder: Path, workspace: Path | None) -> bool:
    """Return whether the folder of a workspace's agents is somewhere else."""
    if workspace is None:
        return True
    try:
        return not folder.resolve().is_relative_to(workspace.resolve())
    except (OSError, RuntimeError):
        return True


def _secrets(real: Path, folder: Path, workspace: Path | None) -> str:
    """Return the kinds of protection that apply to the target of a link, as text for the user; empty when there are
    none."""
    name, root = real.as_posix(), "" if workspace is None else workspace.resolve().as_posix()
    inside = name.removeprefix(f"{root}/") if root else name
    kinds = protected("read", inside, fold(inside), root)
    # Agents are in our own state: here, or where users keep the dotfiles that are linked from here.
    ours = real.parent == folder or real.parent.parts[-2:] == WORKSPACE_FOLDER.parts
    return ", ".join(t(kind.what) for kind in kinds if not (ours and kind.what == OWN_STATE))


def agent_files(folder: Path, source: AgentSource, workspace: Path | None = None) -> list[Path]:
    """Markdown files of a folder, in the order of their names; none when there is no such folder, or it leads out."""
    if source == "workspace" and leads_out(folder, workspace):
        return []
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".md"]
    except OSError:
        return []
    return sorted(found)[:MAX_AGENTS]
