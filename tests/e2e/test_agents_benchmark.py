"""``make bench`` with few calls: everything is played and reported, whatever the numbers are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ROOT

PEERS = '[peers]\npi = ["no-such-program-here"]\ncodex = ["true"]\nclaude-code = ["false"]\n'


def bench(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "tests.evals.benchmarks", "--results", str(tmp_path / "results")]
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=580, check=False
    )


@pytest.mark.timeout(600)
def test_agents_are_measured_and_failures_are_reported(tmp_path: Path) -> None:
    peers = tmp_path / "peers.toml"
    peers.write_text(PEERS)
    chosen = [part for name in ("floor", "goalwright", "peers") for part in ("--agents", name)]
    done = bench(tmp_path, "--runs", "1", "--calls", "2", "--peers", str(peers), *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = (tmp_path / "results").iterdir()
    assert str(file) in done.stdout
    found = json.loads(file.read_text())
    rows: dict[str, Any] = {row["name"]: row for row in found["rows"]}
    off = "Goalwright, diagnostics off: "
    played = [
        "floor",
        off + "no daemon",
        off + "daemon just started, first session",
        off + "second session of that daemon",
    ]
    if sys.platform == "linux":
        played.append(off + "no daemon, its preloader is there")
    for name in played:
        [run] = rows[name]["runs"]
        assert not rows[name]["problem"]
        assert run["start_s"] > 0
        assert run["cpu_s"] > 0
        assert run["request_bytes"] > 100
        assert len(run["reads_ms"]) == len(run["edits_ms"]) == 1
        assert name in done.stdout
    [editor] = rows[off + "no daemon, first prompt of VS Code"]["runs"]
    assert editor["start_s"] > 0
    if sys.platform == "linux":
        [floor], [ours] = rows["floor"]["memory"], rows[off + "no daemon"]["memory"]
        assert floor["processes"] == 1
        assert ours["processes"] >= 2, "the daemon counts, too"
        assert ours["mb"] > floor["mb"] > 5
    assert len(found["wireAloneMs"]) == 2
    assert found["notInstalled"] == ["pi"]
    assert "codex did not do the work: 0 requests instead of 3" in rows["codex"]["problem"]
    assert "ended with exit code 1" in rows["claude-code"]["problem"]
    assert "not installed, so not measured: pi" in done.stdout


def test_a_wrong_peers_file_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    peers = tmp_path / "peers.toml"
    peers.write_text('[peers]\nnobody = ["nobody"]\n')
    done = bench(tmp_path, "--peers", str(peers))
    assert done.returncode == 2
    assert "no agent 'nobody' is known; known are pi, codex, opencode, claude-code" in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.timeout(600)
def test_sessions_are_measured_as_they_grow() -> None:
    small = "LENGTHS, EDGE, MESSAGES, IDLE, TURNS, TURN_CALLS, LEFT_S, EVENTS = (6,), 4, 8, 2, 2, 2, 0.0, 800"
    code = (
        "import asyncio\n"
        "from tests.evals.benchmarks import sessions\n"
        "from tests.evals.benchmarks.stage import Stage\n"
        f"exec({small!r}, vars(sessions))\n"
        "for part in (sessions.length, sessions.memory, sessions.opening):\n"
        "    print(*asyncio.run(part(Stage(1, print))), sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in (
        "overhead of the last 4 of 6 calls'",
        "overhead of the last 4 of 6 calls, a goal in focus'",
        "memory: a session of 8 messages, just ended'",
        "memory: each, left for 0 s'",
        "opening: the newest page of 800 events, stale metadata'",
    ):
        assert f"Measure(name='{name}" in done.stdout
