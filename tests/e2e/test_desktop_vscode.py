"""`make run` where there is a desktop VS Code: a stand-in for its ``code`` command records its calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.vscode.desktop import DesktopError, DesktopVSCode, desktop_command, processes_naming

CODE = """#!{python}
import json, os, subprocess, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "--version" in sys.argv:
    print("{version}\\n0123456789abcdef\\nx64")
elif "--install-extension" in sys.argv:
    sys.exit({install})
else:
    # The real command leaves the window to a process that is no child of it, and waits.
    sleep = [sys.executable, "-c", "import time; time.sleep(600)", *sys.argv]
    window = subprocess.Popen(sleep, start_new_session=True)
    with open({log!r}, "a") as log:
        log.write(json.dumps(["window", str(window.pid)]) + "\\n")
    window.wait()
"""


class FakeCode:
    def __init__(self, folder: Path, version: str = "1.139.1", install: int = 0) -> None:
        folder.mkdir(parents=True)
        self.path = folder / "code"
        self.log = folder / "log"
        self.path.write_text(
            CODE.format(python=sys.executable, log=str(self.log), version=version, install=install)
        )
        self.path.chmod(0o755)
        self.env = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "DISPLAY": ":0"}

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def test_the_desktop_is_used_when_it_can_open_a_window(tmp_path: Path) -> None:
    code = FakeCode(tmp_path / "bin")
    assert desktop_command(code.env) == code.path


@pytest.mark.skipif(sys.platform != "linux", reason="on macOS a screen is there unless one came by ssh")
def test_the_desktop_is_not_used_without_a_screen(tmp_path: Path) -> None:
    code = FakeCode(tmp_path / "bin")
    assert desktop_command({"PATH": code.env["PATH"]}) is None


def test_desktop_is_skipped_if_code_is_a_remote_cli(tmp_path: Path) -> None:
    code = FakeCode(tmp_path / ".vscode-server" / "bin" / "remote-cli")
    assert desktop_command(code.env) is None
    other = FakeCode(tmp_path / "bin")
    assert desktop_command({**other.env, "VSCODE_IPC_HOOK_CLI": "/tmp/x.sock"}) is None


def test_desktop_is_skipped_if_older_than_the_extension_requires(tmp_path: Path) -> None:
    assert desktop_command(FakeCode(tmp_path / "bin", version="1.99.3").env) is None


def test_desktop_window_has_its_own_directories_and_is_closed(tmp_path: Path) -> None:
    code = FakeCode(tmp_path / "bin")
    mine, workspace = tmp_path / "mine", tmp_path / "workspace"
    workspace.mkdir()
    with DesktopVSCode(code.path, mine, workspace, sys.executable, tmp_path / "x.vsix") as window:
        while len(code.calls()) < 3:
            assert window.running, "the command ended at once"
        assert int(code.calls()[-1][1]) in processes_naming(str(mine))
    install, opened, _ = code.calls()
    for call in (install, opened):
        assert call[:4] == ["--user-data-dir", f"{mine}/user", "--extensions-dir", f"{mine}/extensions"]
    assert install[-3:] == ["--install-extension", str(tmp_path / "x.vsix"), "--force"]
    assert opened[-1] == str(workspace) and "--wait" in opened
    settings = json.loads((mine / "user/User/settings.json").read_text())
    assert settings["goalwright.python"] == sys.executable
    assert processes_naming(str(mine)) == []


def test_failed_extension_install_is_reported_and_opens_nothing(tmp_path: Path) -> None:
    code = FakeCode(tmp_path / "bin", install=1)
    window = DesktopVSCode(code.path, tmp_path / "mine", tmp_path, sys.executable, tmp_path / "x.vsix")
    with pytest.raises(DesktopError, match="did not install"), window:
        pass
    assert [call for call in code.calls() if "--wait" in call] == []


def test_a_process_of_another_folder_is_never_named(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(tmp_path / "other")])
    try:
        assert other.pid not in processes_naming(str(tmp_path / "mine"))
    finally:
        other.kill()
        other.wait()
