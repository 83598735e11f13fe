"""Every kind of language server that Goalwright knows, for real: the verdict is true, or says that there is none.

The servers come from ``tests/evals/language_servers`` (npm's lock, and the development dependencies).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from tests.evals.language_servers import install
from tests.evals.language_servers.cases import CASES, Case
from tests.support.drivers.process_tree import family, send, stopped
from tests.support.drivers.waiting import until
from tests.support.scenarios.language_workspace import HANG_S, LanguageWorkspace, eventually, process_lives
from tools.language_ports import DiagnosticsReport

# A busy machine may be slow; what is tested is the verdict, and waiting ends when the server has answered.
PATIENT = Timing(answer_s=40.0, silent_answer_s=40.0, around_s=10.0, quiet_s=2.0)
HASTY = replace(PATIENT, answer_s=0.5, silent_answer_s=0.5)
"""For a server that is frozen: the whole wait is waited for."""

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="processes are looked at in /proc"),
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    install.ensure()


@pytest.fixture(params=CASES, ids=lambda case: case.id)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture(params=[case for case in CASES if case.across], ids=lambda case: case.id)
def linked(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def seen() -> Iterator[set[int]]:
    """Ids of all processes of servers that a test has seen; none of them may be left."""
    pids: set[int] = set()
    yield pids
    assert not [pid for pid in pids if process_lives(pid)]


class Scene:
    """A workspace with the sample of one server."""

    def __init__(self, case: Case, root: Path, seen: set[int]) -> None:
        self.case = case
        self.seen = seen
        self.workspace = LanguageWorkspace(root, [case.spec], PATIENT, environment=case.environment)
        self.file = self.workspace.path(case.sample.file)
        self.write(case.sample.others)
        self.write({case.sample.file: case.sample.right})

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.workspace.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    async def change(self, text: str) -> DiagnosticsReport:
        return await self.change_file(self.file, text)

    async def change_file(self, path: Path, text: str) -> DiagnosticsReport:
        run = await self.workspace.diagnostics.begin([path])
        path.write_text(text, "utf-8")
        report = await asyncio.wait_for(run.report(), HANG_S * 2)
        self.processes()
        return report

    def processes(self) -> list[int]:
        found = [pid for _, server in self.workspace.servers.running() for pid in family(server)]
        self.seen.update(found)
        return found

    def set_timing(self, timing: Timing) -> None:
        for server in self.workspace.servers.alive():
            server.timing = timing

    def has_the_error(self, report: DiagnosticsReport) -> bool:
        sample, case = self.case.sample, self.case
        return report.verdict == "problems" and (self.file, sample.line, case.column, case.code) in [
            (problem.path, problem.line, problem.column, problem.code) for problem in report.problems
        ]


@pytest.fixture
async def scene(case: Case, tmp_path: Path, seen: set[int]) -> AsyncIterator[Scene]:
    scene = Scene(case, tmp_path, seen)
    yield scene
    await asyncio.wait_for(scene.workspace.diagnostics.close(), HANG_S)


async def test_a_new_error_is_seen_cold_and_warm_and_so_is_its_repair(scene: Scene) -> None:
    sample = scene.case.sample
    cold = await scene.change(sample.wrong)
    assert scene.has_the_error(cold), cold
    repaired = await scene.change(sample.right)
    assert (repaired.verdict, repaired.problems) == ("clean", ())
    assert scene.has_the_error(await scene.change(sample.wrong))
    # What was wrong before is not news.
    assert (await scene.change(sample.wrong + "\n")).verdict == "clean"
    assert (await scene.change(sample.right)).verdict == "clean"


async def test_a_frozen_server_gives_no_answer_and_that_is_not_clean(scene: Scene) -> None:
    sample = scene.case.sample
    assert (await scene.change(sample.right + "\n")).verdict == "clean"
    frozen = scene.processes()
    assert frozen
    scene.set_timing(HASTY)
    send(frozen, signal.SIGSTOP)
    try:
        await until(lambda: stopped(frozen) and set(scene.processes()) <= set(frozen), "its stop")
        silent = await scene.change(sample.wrong)
        assert stopped(frozen)
        assert set(scene.processes()) <= set(frozen)
        assert (silent.verdict, silent.problems, silent.servers) == ("no_fresh_answer", (), ())
        assert len(silent.silent) == 1
        # Nor is the second change, whatever the first one's answer is waited for.
        assert (await scene.change(sample.right)).verdict == "no_fresh_answer"
    finally:
        send(frozen, signal.SIGCONT)
    scene.set_timing(PATIENT)
    assert scene.has_the_error(await scene.change(sample.wrong))
    assert (await scene.change(sample.right)).verdict == "clean"


async def test_a_killed_server_is_started_again(scene: Scene) -> None:
    sample = scene.case.sample
    assert (await scene.change(sample.right + "\n")).verdict == "clean"
    before = scene.processes()
    send(before, signal.SIGKILL)
    await eventually(lambda: not any(map(process_lives, before)), "their end")
    deadline = asyncio.get_running_loop().time() + HANG_S
    while not scene.has_the_error(report := await scene.change(sample.wrong)):
        # It may be resting after its crash; that is said, and nothing is called clean.
        assert report.verdict == "no_fresh_answer", report
        assert asyncio.get_running_loop().time() < deadline
        await scene.change(sample.right)
        await asyncio.sleep(0.1)
    assert not set(scene.processes()) & set(before)
    assert (await scene.change(sample.right)).verdict == "clean"


async def test_another_file_that_a_change_breaks_is_reported(
    linked: Case, tmp_path: Path, seen: set[int]
) -> None:
    across = linked.across
    assert across is not None
    scene = Scene(linked, tmp_path, seen)
    scene.write(across.files)
    try:
        broken = scene.workspace.path(across.broken[0])
        # The agent has worked on it before, so it is open.
        assert (await scene.change_file(broken, broken.read_text() + "\n")).verdict == "clean"
        changed = scene.workspace.path(across.changed)
        told: DiagnosticsReport | None = await scene.change_file(changed, across.text)
        # Servers that push look at the others in their own time. What comes late is told before the next request.
        async with asyncio.timeout(HANG_S):
            while told is None or across.broken not in [(one.path.name, one.line) for one in told.problems]:
                await asyncio.sleep(0.1)
                told = await scene.workspace.diagnostics.overdue([changed])
    finally:
        await asyncio.wait_for(scene.workspace.diagnostics.close(), HANG_S)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "basedpyright" in case.id], ids=lambda case: case.id, indirect=True
)
async def test_old_problems_of_a_restored_file_are_not_told_as_new(scene: Scene) -> None:
    # Many, so that the server is still at work on them when the next change comes.
    old = "".join(f"def f{n}() -> int:\n    return missing_{n}\n\n" for n in range(200))
    restored = scene.workspace.path("restored.py")
    restored.write_text(old, "utf-8")
    assert (await scene.change(scene.case.sample.right + "\n")).verdict == "clean"
    for number in range(2, 5):
        assert (await scene.change_file(restored, f"# added\n{old}")).verdict == "clean"
        restored.write_text(old, "utf-8")  # as an undo does
        await scene.workspace.diagnostics.changed(restored)
        report = await scene.change(scene.case.sample.right + "\n" * number)
        assert (report.verdict, report.problems) == ("clean", ())
        late = await scene.workspace.diagnostics.overdue([restored, scene.file])
        assert late is None or late.problems == ()


async def test_nothing_of_an_untrusted_workspace_is_executed(scene: Scene, tmp_path: Path) -> None:
    touched = tmp_path.with_name(tmp_path.name + "-executed")
    trap = f"#!/bin/sh\ntouch {touched}\n"
    code = f"require('fs').writeFileSync({str(touched)!r}, '');\n"
    for folder in (".venv/bin", "venv/bin", "node_modules/.bin", "bin", "."):
        for program in (
            "python",
            "python3",
            "node",
            "ruff",
            "ty",
            "tsc",
            "clangd",
            "shellcheck",
            "npm",
            "git",
        ):
            path = tmp_path / folder / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(trap, "ascii")
            path.chmod(0o755)
    scene.write(
        {
            ".venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.12.0\n",
            "node_modules/typescript/package.json": '{"name": "typescript", "version": "5.9.0"}',
            "node_modules/typescript/lib/tsserver.js": code,
            "node_modules/typescript/lib/typescript.js": code,
            "node_modules/evil/package.json": '{"name": "evil", "main": "index.js"}',
            "node_modules/evil/index.js": code,
            "tsconfig.json": '{"compilerOptions": {"strict": true, "plugins": [{"name": "evil"}]}}\n',
            "sitecustomize.py": f"open({str(touched)!r}, 'w')\n",
            ".clangd": "CompileFlags:\n  Compiler: ./bin/clangd\n",
            "compile_flags.txt": "-fplugin=./x.so\n",
        }
    )
    if scene.case.id == "typescript-7":
        scene.write({"node_modules/typescript/package.json": '{"name": "typescript", "version": "7.0.0"}'})
    assert scene.has_the_error(await scene.change(scene.case.sample.wrong))
    assert not touched.exists()
