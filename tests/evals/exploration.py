"""A whole exploration on a real package, by real processes: ``python -m tests.evals.exploration`` prints its record.

The package is a copy of unidiff in a git repository with uncommitted work in it (a new test). Three branches look for
the quickest way to find a file in a patch; one of them is wrong, one brings a new problem. The model is scripted, all
else is real: daemon, copies, edits, language server, tests, merge.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.drivers.goalwright import Goalwright, installed

TEST = '''\
from unidiff import PatchSet

PATCH = """\\
--- a/old.py
+++ b/new.py
@@ -1 +1 @@
-x
+y
--- a/same.py
+++ b/same.py
@@ -1 +1 @@
-x
+y
"""


def test_a_file_is_found_by_its_name() -> None:
    assert PatchSet(PATCH).find("same.py").path == "same.py"


def test_a_file_is_found_by_the_name_it_had() -> None:
    assert PatchSet(PATCH).find("old.py").target_file == "b/new.py"


def test_what_is_not_there_is_none() -> None:
    assert PatchSet(PATCH).find("other.py") is None
'''
LAST = '''    @property
    def removed(self) -> int:
        """Return the patch total removed lines."""
        return sum([f.removed for f in self])'''
CACHED = '''

    def find(self, name: str) -> Optional[PatchedFile]:
        """Return the file with this name, before or after the patch, or None."""
        names: dict[str, PatchedFile] = {}
        for f in self:
            names.setdefault(f.source_file.removeprefix('a/'), f)
            names[f.target_file.removeprefix('b/')] = f
        return names.get(name)'''
SCAN = '''

    def find(self, name: str) -> Optional[PatchedFile]:
        """Return the file with this name, or None."""
        return next((f for f in self if f.path == name), None)'''
TYPO = '''

    def find(self, name: str) -> Optional[PatchedFile]:
        """Return the file with this name, before or after the patch, or None."""
        for f in self:
            if name in (f.source_file.removeprefix('a/'), f.target_file.removeprefix('b/')):
                return f
        return missing_file'''


def _script() -> dict[str, Any]:
    patch = "${workspace}/unidiff/patch.py"

    def branch(text: str, summary: str) -> list[list[dict[str, Any]]]:
        return [
            [
                {
                    "tool_calls": [
                        {"name": "goal", "input": {"add": ["Write find", "Check it"], "focus": "1"}}
                    ]
                },
                {"tool_calls": [{"name": "read", "input": {"file_path": patch, "offset": 640}}]},
                {
                    "tool_calls": [
                        {
                            "name": "edit",
                            "input": {"file_path": patch, "old_string": LAST, "new_string": LAST + text},
                        }
                    ]
                },
                {"tool_calls": [{"name": "goal", "input": {"done": "find is in unidiff/patch.py."}}]},
                {"text": summary},
            ]
        ]

    directions = ["a table of all names", "a scan by path", "a scan by both names"]
    return {
        "name": "unidiff",
        "turns": [
            [
                {"tool_calls": [{"name": "read", "input": {"file_path": patch, "limit": 40}}]},
                {"text": "There are rival ways.", "tool_calls": [
                    {"name": "explore", "input": {"branches": directions}}]},
                {"tool_calls": [{"name": "explore", "input": {"select": ["A"]}}]},
                {"text": "`PatchSet.find` is in, by a table of all names."},
            ]
        ],
        "branches": {
            "A": branch(CACHED, "find looks into a table of old and new names. Good: both names. Bad: made anew."),
            "B": branch(SCAN, "find compares `path`. Good: short. Bad: old names are not found."),
            "C": branch(TYPO, "find compares both names while it goes. Good: no table. Bad: not run."),
        },
    }  # fmt: skip


def prepare(folder: Path) -> Path:
    """The package in a repository, with a test that nobody has committed. Returns the workspace."""
    spec = importlib.util.find_spec("unidiff")
    assert spec is not None and spec.origin is not None
    workspace = folder / "unidiff-package"
    shutil.copytree(
        Path(spec.origin).parent, workspace / "unidiff", ignore=shutil.ignore_patterns("__pycache__")
    )
    (workspace / "pyproject.toml").write_text(
        '[project]\nname = "unidiff"\nversion = "0"\n[tool.pytest.ini_options]\n'
    )
    (workspace / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    for command in (
        ("init", "-q"), ("add", "-A"),
        ("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "unidiff"),
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=workspace, check=True)
    (workspace / "tests").mkdir()
    (workspace / "tests" / "test_find.py").write_text(TEST)
    return workspace


def repository(workspace: Path) -> dict[str, str]:
    """Return what must be unchanged: every file below ``.git`` by content."""
    git = workspace / ".git"
    return {str(p.relative_to(git)): p.read_bytes().hex() for p in sorted(git.rglob("*")) if p.is_file()}


def changed(workspace: Path) -> str:
    """Return the output of ``git status``."""
    asked = ["git", "--no-optional-locks", "status", "--short"]
    return subprocess.run(asked, cwd=workspace, capture_output=True, text=True, check=True).stdout


async def explore(goalwright: Goalwright, script: Path) -> list[dict[str, Any]]:
    """Run it, and return the events of the main session."""
    (await goalwright.command("trust")).check()
    done = await goalwright.run("Let files be found by name.", "--yes", "--model", f"scripted/{script}")
    print(done.stdout, done.stderr, sep="\n")
    done.check()
    (log,) = (goalwright.workspace / ".trace").glob("*/events.jsonl")
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def _lines(events: list[dict[str, Any]]) -> Iterator[str]:
    counted = Counter(event["event"] for event in events)
    yield "events of the main line: " + ", ".join(f"{name} {count}" for name, count in counted.most_common())
    for event in events:
        name = event["event"]
        if name == "branch_started":
            yield f"{event['event_id']:>4} {name}: {event['branch']['id']} {event['branch']['description']}"
        elif name == "branch_goal_added":
            yield f"{event['event_id']:>4} {name}: {event['branch_id']} {event['goal']['description']}"
        elif name == "branch_message_added":
            message = event["message"]
            said = f"{message['role']}: {message['description'][:60]}"
            yield f"{event['event_id']:>4} {name}: {event['branch_id']} {said}"
        elif name == "branch_completed":
            yield f"{event['event_id']:>4} {name}: {event['branch_id']} {event['status']} {json.dumps(event['score'])}"
        elif name == "explore_completed":
            yield f"{event['event_id']:>4} {name}:\n{event['merge_summary']}"
        elif name == "goal_updated" and "selected_branch" in event["updates"]:
            yield f"{event['event_id']:>4} {name}: {json.dumps(event['updates'], ensure_ascii=False)}"


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gw-explore-") as folder:
        workspace = prepare(Path(folder))
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(_script()), "utf-8")
        before = repository(workspace)
        async with installed(workspace) as goalwright:
            events = await explore(goalwright, script)
            print("\n".join(_lines(events)))
            left = [str(p) for p in (goalwright.home / "gw" / "branches").glob("*/*")]
        status = await asyncio.to_thread(changed, workspace)
        print(
            f"\n.git as before: {repository(workspace) == before}; copies left: {left}; git status:\n{status}"
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
