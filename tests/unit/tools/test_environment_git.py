from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.process.environment import scrubbed_environment

BASE = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *args: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_bare_repository_in_a_folder_runs_nothing(tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    git(tmp_path, "init", "-q", "--bare", "evil", env=BASE)
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/PWNED\n")
    script.chmod(0o755)
    for name, value in (("core.bare", "false"), ("core.worktree", ".."), ("core.fsmonitor", str(script))):
        git(tmp_path, "config", "-f", "evil/config", name, value, env=BASE)
    git(evil, "status", env=BASE)
    assert (tmp_path / "PWNED").exists(), "the attack does not work any more: mend the test"
    (tmp_path / "PWNED").unlink()
    refused = git(evil, "status", env=scrubbed_environment(BASE))
    git(tmp_path, "-C", "evil", "status", env=scrubbed_environment(BASE))
    assert not (tmp_path / "PWNED").exists()
    assert "bare repository" in refused.stderr


def test_fsmonitor_of_a_repository_is_not_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", env=BASE)
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/PWNED; false", env=BASE)
    (tmp_path / "src").mkdir()
    done = git(tmp_path / "src", "status", "--short", env=scrubbed_environment(BASE))
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "PWNED").exists()


def test_user_git_settings_from_the_environment_are_kept(tmp_path: Path) -> None:
    own = BASE | {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Ada",
        "GIT_CONFIG_KEY_1": "http.proxy",
        "GIT_CONFIG_VALUE_1": "https://me:secret@proxy",
    }
    once = scrubbed_environment(own)
    assert git(tmp_path, "config", "user.name", env=once).stdout == "Ada\n"
    assert git(tmp_path, "config", "core.fsmonitor", env=once).stdout == "false\n"
    assert "secret" not in str(once)
    assert scrubbed_environment(once) == once


def test_invalid_git_config_count_is_replaced(tmp_path: Path) -> None:
    env = scrubbed_environment(BASE | {"GIT_CONFIG_COUNT": "many"})
    assert env["GIT_CONFIG_COUNT"] == "2"
    assert git(tmp_path, "version", env=env).returncode == 0
