"""Three edits of real third-party code, through everything that is real but the model: the terminal command, the
daemon, the Anthropic SDK, the language servers. (`python -m tests.benchmarks.real_package` does the same on a
package that it fetches.)"""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.fakes.package_task import Edit, PackageTask, PlayedTask, play, result_text

_ADDED_TO_FILE = '''
    @property
    def changed(self) -> int:
        """Return the file total added and removed lines."""
        return self.added + self.removed
'''
_ADDED_TO_SET = '''
    @property
    def changed(self) -> int:
        """Return the patch total added and removed lines."""
        return sum([f.{name} for f in self])
'''
_FILE_ANCHOR = "        return sum([hunk.removed for hunk in self])\n"
_SET_ANCHOR = "        return sum([f.removed for f in self])\n"

TASK = PackageTask(
    prompt="Give files and patches a property with the number of their changed lines",
    path="unidiff/patch.py",
    good=Edit("A property for one file.", _FILE_ANCHOR, _FILE_ANCHOR + _ADDED_TO_FILE),
    wrong=Edit("And their sum.", _SET_ANCHOR, _SET_ANCHOR + _ADDED_TO_SET.format(name="chnaged")),
    repair=Edit("I misspelled it.", "f.chnaged for f", "f.changed for f"),
    complaint=r"ERROR \[\d+:\d+\] .*chnaged",
    summary="PatchedFile.changed and PatchSet.changed count added and removed lines.",
    proof="from unidiff import PatchSet\n"
    "patch = PatchSet('--- a/x\\n+++ b/x\\n@@ -1,2 +1,1 @@\\n-a\\n-b\\n+c\\n')\n"
    "assert patch[0].changed == patch.changed == 3",
)


@pytest.fixture
async def played() -> AsyncGenerator[PlayedTask]:
    with tempfile.TemporaryDirectory(prefix="gw-real-") as folder:
        workspace = Path(folder).resolve() / "unidiff-source"
        spec = importlib.util.find_spec("unidiff")
        assert spec is not None and spec.origin is not None
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(spec.origin).parent, workspace / "unidiff", ignore=ignore)
        source = (workspace / TASK.path).read_text()
        for anchor in (_FILE_ANCHOR, _SET_ANCHOR):
            assert source.count(anchor) == 1, (
                f"this version of unidiff is another: choose new edits for {TASK.path}"
            )
        yield await play(TASK, workspace)


@pytest.mark.timeout(300)
async def test_the_language_servers_complaint_reaches_the_model_and_the_code_ends_up_right(
    played: PlayedTask,
) -> None:
    assert played.run.code == 0, played.run.stdout + played.run.stderr
    assert TASK.summary in played.run.stdout

    delivered = played.delivered(TASK)
    assert delivered is not None
    number, block = delivered
    text = result_text(block)
    assert text.startswith(f"Edit applied: {TASK.path}")
    assert (
        len(re.findall("^(ERROR|WARNING) ", text, re.MULTILINE)) == 1
    )  # what was there before is not reported

    [after_repair] = played.requests[number].json["messages"][-1]["content"][:1]
    assert "Diagnostics: clean" in result_text(after_repair)

    assert played.proof.code == 0, played.proof.stderr
    changed = [
        line for line in played.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    wanted = (_ADDED_TO_FILE + _ADDED_TO_SET.format(name="changed")).splitlines()
    assert changed == [f"+{line}" for line in wanted]

    stored = played.events_of(str(block["tool_use_id"]))
    names = [event["event"] for event in stored]
    assert names.index("tool_started") < names.index("permission_asked") < names.index("file_changed")
    results = [e["message"]["content"][0] for e in stored if e.get("message", {}).get("role") == "tool"]
    assert [result["content"] for result in results] == [text]
