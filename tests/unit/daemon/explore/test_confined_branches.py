"""Commands of branches without the sandbox, in whole explorations: nothing reaches the workspace or outlives them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.drivers.waiting import until
from tests.support.fakes.models import Call
from tests.support.scenarios.branches import EDITS, FILES, explore, exploring, ran, repository

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and "CI" not in os.environ, reason="needs bwrap (CI installs it)"
)
RUN = {line: "allow" for line in ("make test", "sh h.sh", "sh job.sh", "sh wait.sh")}
FREE = {
    **EDITS,
    "sandbox": "off",
    "permission": {"edit": "allow", "bash": {"*": "allow", **RUN}, "external_directory": "allow"},
}
MAKEFILE = "test:\n\tmkdir -p node_modules/.cache\n\techo broken > node_modules/p.js\n"


def prepared(folder: Path, **files: str) -> Path:
    scripts = {f"{name}.sh": text for name, text in files.items()}
    workspace = repository(
        folder, {**FILES, ".gitignore": "*.log\n.trace/\nnode_modules/\n", "Makefile": MAKEFILE, **scripts}
    )
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules/p.js").write_text("whole\n")
    return workspace


def outputs(session_folder: Path) -> str:
    return "".join(path.read_text() for path in session_folder.rglob("events.jsonl"))


async def test_branch_command_cannot_write_into_linked_folders(tmp_path: Path) -> None:
    workspace = prepared(tmp_path)
    hard = (
        "ln node_modules/p.js hard.js 2>&1; echo x >> hard.js; git commit -qam mine 2>&1; git log --format=%s"
    )
    steps = {
        "A": [
            Call("bash", {"command": "make test"}),
            Call("write", {"file_path": "h.sh", "content": hard}),
            Call("bash", {"command": "sh h.sh"}),
            "Tried.",
        ],
        "B": ["Nothing."],
    }
    async with exploring(tmp_path, [explore("one", "two"), "Done."], steps) as bench:
        session = await ran(bench, settings={**FREE, "test_command": "make test"})
        said = outputs(bench.core.store.folder(session.session_id))
        assert "Read-only file system" in said
        assert "read-only, and sudo does not work" in said, "the model is told why"
        branch = session.state.children.branches["A"]
        assert branch.score is not None
        assert branch.score.test is not None
        assert branch.score.test.exit_code == 2, "the test command is kept from it, too"
        assert (workspace / "node_modules/p.js").read_text() == "whole\n"
        assert sorted(path.name for path in (workspace / "node_modules").iterdir()) == ["p.js"]


async def test_the_jobs_of_a_branch_end_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    job = f"setsid sleep 300 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"
    prepared(tmp_path, job=job, wait=f"until [ -e {pids} ]; do sleep 0.05; done")
    steps = {
        "A": [
            Call("bash", {"command": "sh job.sh", "background": True}),
            Call("bash", {"command": "sh wait.sh"}),
            "Begun.",
        ],
        "B": ["Nothing."],
    }
    async with exploring(tmp_path, [explore("one", "two"), "Done."], steps) as bench:
        await ran(bench, settings=FREE)
        assert len(pids.read_text().split()) == 2
        await until(lambda: not any(map(_alive, pids.read_text().split())), "the end of the job")


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
