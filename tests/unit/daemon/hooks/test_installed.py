"""A package with hooks, really installed into the environment that the daemon runs in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.fakes.hooks import package

ROOT = Path(__file__).parents[4]

CODE = """
def check(payload):
    return {"decision": "deny", "reason": "the installed hook says no to " + payload["arguments"]["command"]}
"""

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from tests.support.drivers.core import ALLOW_ALL, daemon
from tests.support.fakes.models import Call

async def main():
    async with daemon(Path(sys.argv[1]), Call("bash", {"command": "touch made"}), "I see.") as bench:
        session = bench.session(settings=ALLOW_ALL)
        before = bench.core.hooks.started
        await session.prompt("run")
        found = [r for m in session.state.messages if (r := m.tool_result()) is not None]
        print(json.dumps([before == 0, found[0].content, [n for n in sys.modules if "hooks" in n]]))

asyncio.run(main())
"""


async def test_installed_hook_is_used_and_workspace_package_is_not(tmp_path: Path) -> None:
    env = tmp_path / "env"
    await asyncio.to_thread(venv.create, env, with_pip=False, symlinks=True)
    scheme = sysconfig.get_path("purelib", "venv", {"base": str(env)})
    package(Path(scheme), CODE, {"tool.execute.before": "check"}, "installed_hooks")
    # What the product and the tests need is taken from where they run now.
    (Path(scheme) / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    # A workspace that brings modules of these names along.
    workspace = tmp_path / "workspace"
    for name in ("installed_hooks", "json"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / "__init__.py").write_text("raise SystemExit('the workspace was imported')")
    package(workspace, "def check(payload): raise SystemExit(1)", {"session.start": "check"}, "evil_hooks")
    python = env / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = await asyncio.to_thread(
        subprocess.run,
        [str(python), "-I", "-c", SCRIPT, str(tmp_path)],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    no_host_before, content, modules = json.loads(done.stdout)
    assert no_host_before
    assert "the installed hook says no to touch made" in content
    assert not (workspace / "made").exists()
    assert "installed_hooks" not in modules, "the daemon itself imported it"
    assert "evil_hooks" not in done.stderr
