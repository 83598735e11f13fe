"""The daemon's diagnostics with real language servers: basedpyright and ruff, as installed beside the daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from lsp_bridge.language_client.specs.server_spec import ServerSpec
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tests.support.scenarios.language_workspace import HANG_S, LanguageWorkspace, eventually, process_lives
from tools.tool import DiagnosticsReport

# A busy machine may be slow; what is tested is the verdict, and waiting ends when the server has answered.
PATIENT = Timing(answer_s=30.0, around_s=5.0, quiet_s=0.5, deletion_s=30.0)

CART = "def total(prices: list[int]) -> int:\n    return sum(prices)\n"
USER = "from cart import total\n\nprint(total([1, 2]))\n"


def spec(name: str) -> ServerSpec:
    return next(spec for spec in DEFAULT_SPECS if spec.name == name)


SERVERS = {
    "basedpyright pulled": spec("pyright"),
    "basedpyright pushed": replace(spec("pyright"), announce_pull=False),
    "ruff pulled": spec("ruff"),
    "ruff pushed": replace(spec("ruff"), announce_pull=False),
}


async def workspace_of(root: Path, *specs: ServerSpec) -> AsyncIterator[LanguageWorkspace]:
    workspace = LanguageWorkspace(root, specs, PATIENT)
    workspace.write({workspace.path("cart.py"): CART, workspace.path("user.py"): USER})
    yield workspace
    pids = [pid for _, pid in workspace.servers.running()]
    assert len(pids) == len(specs)
    await asyncio.wait_for(workspace.diagnostics.close(), HANG_S)
    assert not [pid for pid in pids if process_lives(pid)]


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[LanguageWorkspace]:
    async for workspace in workspace_of(tmp_path, spec("pyright"), spec("ruff")):
        yield workspace


@pytest.fixture
async def pyright(tmp_path: Path) -> AsyncIterator[LanguageWorkspace]:
    async for workspace in workspace_of(tmp_path, spec("pyright")):
        yield workspace


@pytest.fixture(params=["basedpyright pulled", "basedpyright pushed"])
async def either(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LanguageWorkspace]:
    async for workspace in workspace_of(tmp_path, SERVERS[request.param]):
        yield workspace


@pytest.fixture(params=sorted(SERVERS))
async def each(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LanguageWorkspace]:
    async for workspace in workspace_of(tmp_path, SERVERS[request.param]):
        yield workspace


def found(report: DiagnosticsReport) -> list[tuple[str, int, str]]:
    return [(problem.path.name, problem.line, problem.code) for problem in report.problems]


async def test_both_servers_answer_about_one_change(both: LanguageWorkspace) -> None:
    report = await both.change(cart_py=CART + "print(undefined_name)\n")
    assert report.verdict == "problems"
    assert report.servers == ("basedpyright", "ruff")
    assert found(report) == [("cart.py", 3, "reportUndefinedVariable, F821")]
    assert [problem.source for problem in report.problems] == ["basedpyright, Ruff"]
    assert all("undefined_name" in problem.message and problem.column == 7 for problem in report.problems)
    # Warnings (an unused import) are not reported.
    assert await both.change(cart_py="import os\n" + CART) == DiagnosticsReport(
        "clean", (), ("basedpyright", "ruff")
    )


async def test_errors_are_seen_and_their_repair_too(each: LanguageWorkspace) -> None:
    first = await each.change(cart_py=CART + "print(undefined_name)\n")
    assert (first.verdict, [problem.line for problem in first.problems]) == ("problems", [3])
    assert (await each.change(cart_py=CART)).verdict == "clean"
    again = await each.change(cart_py="print(undefined_name)\n" + CART)
    assert (again.verdict, [problem.line for problem in again.problems]) == ("problems", [1])
    syntax = await each.change(cart_py=CART + "def broken(\n")
    assert syntax.verdict == "problems"
    assert all(problem.line >= 3 for problem in syntax.problems)


async def test_old_errors_are_not_reported_even_when_they_move(each: LanguageWorkspace) -> None:
    broken = "print(old_error)\n"
    each.write({each.path("cart.py"): CART + broken})
    assert (await each.change(cart_py="# moved down\n\n" + CART + broken)).verdict == "clean"
    report = await each.change(cart_py="# moved\n" + CART + broken + "print(new_error)\n")
    assert [problem.line for problem in report.problems] == [5]


async def test_a_created_file_is_checked_and_known_to_others(either: LanguageWorkspace) -> None:
    report = await either.change(new_py="from cart import absent\n")
    assert found(report) == [("new.py", 1, "reportAttributeAccessIssue")]
    report = await either.change(helper_py="value: int = 1\n")
    assert report.verdict == "clean"
    assert (await either.change(new_py="from helper import value\n")).verdict == "clean"


async def test_another_open_file_that_breaks_is_reported(either: LanguageWorkspace) -> None:
    assert (await either.change(user_py=USER + "\n")).verdict == "clean"
    report = await either.change(cart_py=CART.replace("list[int]", "str"))
    assert ("user.py", 3, "reportArgumentType") in found(report)


async def test_a_deleted_file_breaks_those_that_import_it(pyright: LanguageWorkspace) -> None:
    assert (await pyright.change(user_py=USER + "\n")).verdict == "clean"
    report = await pyright.change(cart_py=None)
    assert found(report) == [("user.py", 1, "reportMissingImports")]


async def test_two_files_changed_at_once_are_judged_together(pyright: LanguageWorkspace) -> None:
    report = await pyright.change(
        cart_py=CART.replace("total", "sum_up"), user_py=USER.replace("total", "sum_up")
    )
    assert report.verdict == "clean"
    assert report.servers == ("basedpyright",)


async def test_a_warmed_up_server_knows_the_file(both: LanguageWorkspace) -> None:
    both.diagnostics.warm(both.path("cart.py"))
    await eventually(lambda: len(list(both.servers.alive())) == 2, "the start")
    await eventually(
        lambda: all(s.answers.known(both.path("cart.py")) is not None for s in both.servers.alive()),
        "the first answers",
    )
    assert (await both.change(cart_py=CART + "x: int = ''\n")).verdict == "problems"


async def test_a_file_changed_by_somebody_else_is_the_new_baseline(both: LanguageWorkspace) -> None:
    assert (await both.change(cart_py=CART + "\n")).verdict == "clean"
    by_hand = CART + "print(by_hand)\n"
    both.write({both.path("cart.py"): by_hand})
    await both.diagnostics.changed(both.path("cart.py"))
    assert (await both.change(cart_py="# top\n" + by_hand)).verdict == "clean"


async def test_the_projects_own_configuration_is_respected(pyright: LanguageWorkspace) -> None:
    pyright.write({pyright.path("pyrightconfig.json"): '{"reportUndefinedVariable": "none"}'})
    assert (await pyright.change(cart_py=CART + "print(undefined_name)\n")).verdict == "clean"


@pytest.mark.skipif(os.name == "nt", reason="the trap is a shell script")
async def test_nothing_in_the_workspace_is_executed(both: LanguageWorkspace, tmp_path: Path) -> None:
    trap = f"#!/bin/sh\ntouch {tmp_path}/executed\n"
    packages = both.path(".venv/lib/python3.12/site-packages/thirdparty")
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text("value: int = 1\n", encoding="ascii")
    (packages / "py.typed").touch()
    both.path(".venv/bin").mkdir()
    both.path(".venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.0\n", encoding="ascii")
    for name in ("python", "python3", "ruff", "node", "basedpyright-langserver"):
        for folder in (both.path(".venv/bin"), both.root):
            (folder / name).write_text(trap, encoding="ascii")
            (folder / name).chmod(0o755)
    for name in ("json.py", "sitecustomize.py", "os.py"):
        both.write({both.path(name): f"open({str(tmp_path / 'executed')!r}, 'w')\n"})
    report = await both.change(cart_py="from thirdparty import value\nfrom thirdparty import absent\n" + CART)
    # The project's packages are known all the same: their folder is read, not asked of an interpreter.
    assert found(report) == [("cart.py", 2, "reportAttributeAccessIssue")]
    assert not (tmp_path / "executed").exists()
