"""Three edits of real third-party code, through everything that is real but the model: the terminal command, the
daemon, the Anthropic SDK, the language servers. (`python -m tests.evals.benchmarks.real_package` does the same on a
package that it fetches.)"""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.scenarios.package_task import Edit, PackageTask, PlayedTask, play, result_text

_SECTION = """            yield name, self[name]
"""
_ADDED_TO_SECTION = '''
    def asdict(self) -> dict[str, str]:
        """The keys and values of the section, in the order of the file."""
        return dict(self.items())
'''
_FILE = """    def __contains__(self, arg: str) -> bool:
        return arg in self.sections
"""
_ADDED_TO_FILE = '''
    def asdict(self) -> dict[str, dict[str, str]]:
        """All sections by name, in the order of the file."""
        return {{section.name: section.{name}() for section in self}}
'''

TASK = PackageTask(
    prompt="Let sections and whole files be had as plain dicts",
    path="iniconfig/__init__.py",
    good=Edit("One section first.", _SECTION, _SECTION + _ADDED_TO_SECTION),
    wrong=Edit("And all of them.", _FILE, _FILE + _ADDED_TO_FILE.format(name="as_dict")),
    repair=Edit("I called it asdict.", "section.as_dict()", "section.asdict()"),
    complaint=r"ERROR \[\d+:\d+\] .*as_dict",
    summary="SectionWrapper.asdict and IniConfig.asdict return plain dicts.",
    proof="from iniconfig import IniConfig\n"
    "file = IniConfig('x.ini', data='[a]\\nx = 1\\n[b]\\ny = 2\\n')\n"
    "assert file.asdict() == {'a': {'x': '1'}, 'b': {'y': '2'}}",
)


@pytest.fixture
async def played() -> AsyncGenerator[PlayedTask]:
    with tempfile.TemporaryDirectory(prefix="gw-real-") as folder:
        workspace = Path(folder).resolve() / "iniconfig-source"
        spec = importlib.util.find_spec("iniconfig")
        assert spec is not None and spec.origin is not None
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(spec.origin).parent, workspace / "iniconfig", ignore=ignore)
        source = (workspace / TASK.path).read_text()
        for anchor in (_SECTION, _FILE):
            assert source.count(anchor) == 1, (
                f"this version of {TASK.path} is another: choose new edits for it"
            )
        yield await play(TASK, workspace)


@pytest.mark.timeout(300)
async def test_language_server_error_reaches_the_model_and_is_fixed(
    played: PlayedTask,
) -> None:
    assert played.run.code == 0, played.run.stdout + played.run.stderr
    assert TASK.summary in played.run.stdout, played.run.stdout

    delivered = played.delivered(TASK)
    assert delivered is not None
    number, block = delivered
    text = result_text(block)
    assert text.startswith(f"Edit applied: {TASK.path}")
    # What the file had before is not reported.
    assert len(re.findall("^(ERROR|WARNING) ", text, re.MULTILINE)) == 1

    [after_repair] = played.requests[number].json["messages"][-1]["content"][:1]
    assert "Diagnostics: clean" in result_text(after_repair)

    assert played.proof.code == 0, played.proof.stderr
    section, file = _ADDED_TO_SECTION, _ADDED_TO_FILE.format(name="asdict")
    assert played.after == played.before.replace(_SECTION, _SECTION + section).replace(_FILE, _FILE + file)
    assert re.findall("^diff --git (.*)", played.diff, re.MULTILINE) == [f"a/{TASK.path} b/{TASK.path}"]

    stored = played.events_of(str(block["tool_use_id"]))
    names = [event["event"] for event in stored]
    assert names.index("tool_started") < names.index("permission_asked") < names.index("file_changed")
    results = [e["message"]["content"][0] for e in stored if e.get("message", {}).get("role") == "tool"]
    assert [result["content"] for result in results] == [text]
