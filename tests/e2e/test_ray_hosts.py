"""Two hosts with a network between them: network namespaces with a name of their own, and a Ray node in each.

Needs root, as on CI: elsewhere the test is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from daemon.explore.results import load_result
from daemon.model.events import BranchCompleted, BranchPlaced
from daemon.store.files import FileTraceStore
from tests.support.programs import ray_driver
from tests.support.scenarios.branches import repository, state_of

RAY = Path(sysconfig.get_path("scripts")) / "ray"
PORT = 6379


def run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return done


class Hosts:
    """``one`` is the driver's and has no CPUs; branches work on ``two``."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gw-hosts-"))
        key = f"{os.getpid():x}"
        self.names = {name: f"gw{key}{name}" for name in ("one", "two")}
        try:
            for name in self.names.values():
                run("ip", "netns", "add", name)
                self.inside(name, "ip", "link", "set", "lo", "up")
            ends = {name: f"gw{key}{at}" for at, name in enumerate(self.names.values())}
            first, second = self.names.values()
            run("ip", "link", "add", ends[first], "netns", first, "type", "veth", "peer", "name", ends[second],
                "netns", second)  # fmt: skip
            for at, (name, end) in enumerate(ends.items(), 1):
                self.inside(name, "ip", "addr", "add", f"10.77.0.{at}/24", "dev", end)
                self.inside(name, "ip", "link", "set", end, "up")
            small = ["--object-store-memory=100000000", "--disable-usage-stats"]
            head = ["--head", f"--port={PORT}", f"--temp-dir={self.folder}/ray", "--include-dashboard=false"]
            self.ray("one", "--node-ip-address=10.77.0.1", "--num-cpus=0", *head, *small)
            self.ray(
                "two", "--node-ip-address=10.77.0.2", "--num-cpus=2", f"--address=10.77.0.1:{PORT}", *small
            )
        except BaseException:
            self.end()
            raise

    def inside(self, name: str, *words: str) -> None:
        run("ip", "netns", "exec", name, *words)

    def ray(self, name: str, *options: str) -> None:
        home = self.folder / name
        home.mkdir()
        env = [f"HOME={home}", f"GOALWRIGHT_HOME={home}/state", "RAY_USAGE_STATS_ENABLED=0"]
        named = ["unshare", "--uts", "sh", "-c", f'hostname host-{name}; exec "$@"', "sh"]
        self.inside(self.names[name], *named, "env", *env, str(RAY), "start", *options)

    def end(self) -> None:
        for name in self.names.values():
            listed = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
            )
            for pid in listed.stdout.split():
                subprocess.run(["kill", "-9", pid], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def hosts() -> Generator[Hosts]:
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip")
    probe = f"gw{os.getpid():x}probe"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs network namespaces")
    run("ip", "netns", "del", probe)
    made = Hosts()
    yield made
    made.end()


def test_branches_work_on_another_host(tmp_path: Path, hosts: Hosts) -> None:
    before = state_of(repository(tmp_path))
    (tmp_path / "home").mkdir()
    settings = {"explore_on": "ray", "ray_address": f"10.77.0.1:{PORT}", "ray_fallback": "fail"}
    (tmp_path / "home" / "config.json").write_text(json.dumps(settings))
    hosts.inside(hosts.names["one"], sys.executable, ray_driver.__file__, str(tmp_path), "ends")
    store = FileTraceStore(tmp_path / "workspace" / ".trace")
    (session_id,) = store.trace_ids()
    events = store.events(session_id)
    ended = [e for e in events if isinstance(e, BranchCompleted)]
    assert [e.status for e in ended] == ["completed", "completed"], ended
    assert [e.node for e in events if isinstance(e, BranchPlaced)] == ["host-two", "host-two"]
    results = [
        found.content for m in store.messages(f"{session_id}:A") if (found := m.tool_result()) is not None
    ]
    assert "first\nuntracked\nhost-two" in results[-1]
    kept = load_result(store.folder(f"{session_id}:A") / "result")
    assert kept is not None
    assert [change.name for change in kept.changes] == ["a.txt"]
    # The objects are where the branches were, and only there.
    assert list((hosts.folder / "two" / "state" / "cluster" / "objects").iterdir())
    assert list((hosts.folder / "two" / "state" / "cluster" / "runs").iterdir()) == []
    assert not (hosts.folder / "one" / "state").exists()
    assert state_of(tmp_path / "workspace") == before
