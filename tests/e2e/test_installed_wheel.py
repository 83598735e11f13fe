"""The wheel that the extension carries, installed beside python-daemon."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from daemon.demo import PROMPT, copy_workspace
from tests.e2e.conftest import ROOT
from tests.support.drivers.command_line import CommandLine
from tests.support.fakes.hooks import package

HOOK = """
from pathlib import Path
import daemon

def check(payload):
    Path(__file__).with_name("imported").write_text(daemon.DaemonContext.__module__)
"""


@pytest.fixture
def environment(vsix: Path, tmp_path: Path) -> Path:
    """A fresh environment with both. The libraries they need are those of the running one."""
    (wheel,) = (ROOT / "vscode-extension" / "bundled").glob("*.whl")
    venv.create(tmp_path / "env", symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "env"), "--disable-pip-version-check"]
    wanted = (str(wheel), "python-daemon==3.1.2", "lockfile==0.12.2")
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-compile", *wanted], check=True, timeout=100
    )
    (site(tmp_path / "env") / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return tmp_path / "env"


def site(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))


def test_the_wheel_has_one_top_level_package(vsix: Path) -> None:
    with zipfile.ZipFile(vsix) as extension:
        (name,) = (name for name in extension.namelist() if name.endswith(".whl"))
        with extension.open(name) as file, zipfile.ZipFile(file) as wheel:
            top = {name.partition("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"goalwright"}


def test_installed_beside_python_daemon_each_has_its_own_modules(
    goalwright: CommandLine, environment: Path
) -> None:
    python = str(environment / "bin" / "python")
    goalwright.forker = None
    code = "import daemon, importlib.util as i; print(daemon.DaemonContext, i.find_spec('tools'))"
    result = goalwright.run(program=(python, "-I", "-c", code))
    assert result.stdout == "<class 'daemon.daemon.DaemonContext'> None\n", result.stderr

    for program in ((python, "-I", "-m", "goalwright"), (str(environment / "bin" / "goalwright"),)):
        result = goalwright.run("--version", program=program)
        assert result.stdout.startswith("goalwright "), result.stderr

    package(site(environment), HOOK, {"tool.execute.before": "check"})
    copy_workspace(goalwright.workspace)
    result = goalwright.run("run", PROMPT, "--yes", "--model", "demo/demo", program=program)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "discounted" in (goalwright.workspace / "shop" / "cart.py").read_text()
    assert (site(environment) / "imported").read_text() == "daemon.daemon"
    command = Path(f"/proc/{goalwright.paths.read_pid()}/cmdline").read_text()
    assert command.startswith(f"{python}\0-I\0-m\0goalwright\0"), command
