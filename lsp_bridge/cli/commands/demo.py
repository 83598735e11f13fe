"""``goalwright demo``: a scripted model works in a copy of the sample workspace, and ends automatically."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

from lsp_bridge.cli.commands import daemon
from lsp_bridge.cli.console import Console
from lsp_bridge.cli.invocation import EXIT_FAILED, EXIT_OK, Invocation, reporting
from lsp_bridge.cli.launch import Launcher
from lsp_bridge.cli.run.command import run
from lsp_bridge.cli.run.conversation import RunOptions
from tools.diff.unified_diff import unified
from tools.localization import language, t

MODEL = "demo/demo"


@reporting(OSError)
async def play(cli: Invocation) -> int:
    """Play it, show the changes, and clean up. Exit code 0 only when the change exists."""
    from daemon.demo import PROMPT, copy_workspace

    console, style = cli.console, cli.console.style
    with tempfile.TemporaryDirectory(prefix="goalwright-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        workspace = folder / "shop"
        copy_workspace(workspace)
        before = _texts(workspace)
        # A home of its own makes the demo independent of the user's configuration, and leaves nothing behind.
        home = folder / "home"
        home.mkdir(mode=0o700)
        # Its first edit comes while the language servers start, and is to show what they say.
        settings = {"language": language(), "diagnostics_timeout_s": 10, "preload": False}
        (home / "config.json").write_text(json.dumps(settings), encoding="utf-8")
        launcher = Launcher(home=home, serve_args=("--model", MODEL))
        words = t("The demo works in a copy of the sample workspace: {workspace}\n", workspace=workspace)
        console.write(style.dim(words))
        console.write(style.bold(f"› {PROMPT}\n"))
        options = RunOptions(workspace=workspace, task=PROMPT, model=MODEL, yes=True, show_accepted=True)
        try:
            code = await run(options, launcher, console)
        finally:
            quiet = Console(out=io.StringIO(), err=console.err)
            await daemon.stop(Invocation(workspace, quiet, launcher), force=True)
        if code != EXIT_OK:
            return code
        after = _texts(workspace)
        names = sorted(before | after)
        diff = "".join(unified(before.get(name), after.get(name), name).text for name in names)
        if not diff:
            console.warn(console.err_style.red(t("The demo changed nothing.")))
            return EXIT_FAILED
        console.line(style.bold(t("\nChanges:\n")) + style.diff(diff))
        return EXIT_OK


def _texts(workspace: Path) -> dict[str, str]:
    """Return the Python sources by their paths: what the commands of the demo leave behind is not of interest."""
    files = sorted(path for path in workspace.rglob("*.py") if path.is_file())
    return {path.relative_to(workspace).as_posix(): path.read_text("utf-8") for path in files}
