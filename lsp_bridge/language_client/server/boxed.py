"""A sandbox for language servers of the workspace: the agent could have changed their programs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lsp_bridge.language_client.specs.server_spec import Project


def boxed(
    argv: Sequence[str], environment: Mapping[str, str], project: Project
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return a server's command and environment for a read-only sandbox without network; unchanged where no sandbox
    works. Blocking. Raises UnavailableError."""
    from daemon.runtime import state_dir
    from tools.sandbox.policy import SandboxPolicy
    from tools.sandbox.prepare import prepare, works

    if not works(project.workspace, project.origin):
        return argv, environment
    state = state_dir()
    home = os.fsencode(project.origin or project.workspace)
    scratch = state / "servers" / hashlib.sha256(home).hexdigest()[:16]
    policy = SandboxPolicy("read-only", hidden=(state,), copy_of=project.origin)
    sandbox = prepare(policy, project.workspace, scratch, lambda permission, name: "allow", key="servers")
    # Not in the workspace: some programs look for plugins or modules in the current folder.
    folder, prefix = str(Path(argv[0]).parent), sandbox.prefix
    inside = (
        folder if before == "--chdir" else word for before, word in zip(("", *prefix), prefix, strict=False)
    )
    return (*inside, *argv), sandbox.environment(environment)
