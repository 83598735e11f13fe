"""A refactoring over several files in one step, judged by real basedpyright: half-way it is not judged at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.loop.step_diagnostics import StepDiagnostics, kind_of
from daemon.model.messages import ToolCallPart
from lsp_bridge.language_client.server.diagnostics_freshness import Timing
from lsp_bridge.language_client.specs.settings import DEFAULT_SPECS
from tests.support.scenarios.language_workspace import HANG_S, LanguageWorkspace
from tools.language_ports import DiagnosticsReport

# A busy machine may be slow; what is tested is the verdict, and waiting ends when the server has answered.
PATIENT = Timing(answer_s=40.0, around_s=10.0, quiet_s=2.0)
CART = "def total(prices: list[int]) -> int:\n    return sum(prices)\n"
ONE = "from cart import total\n\nprint(total([1]))\n"
OTHER = "import cart\n\nprint(cart.total([2]))\n"


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[LanguageWorkspace]:
    spec = next(spec for spec in DEFAULT_SPECS if spec.name == "pyright")
    made = LanguageWorkspace(tmp_path, [spec], PATIENT)
    made.write({made.path("cart.py"): CART, made.path("one.py"): ONE, made.path("other.py"): OTHER})
    for name in ("one.py", "other.py"):
        run = await made.diagnostics.begin([made.path(name)])  # as after a read: the files are open there
        assert (await asyncio.wait_for(run.report(), HANG_S)).verdict == "clean"
    yield made
    await asyncio.wait_for(made.diagnostics.close(), HANG_S)


def renamed(text: str) -> str:
    return text.replace("total", "sum_up")


async def step(workspace: LanguageWorkspace, **texts: str) -> list[DiagnosticsReport]:
    """The reports on the edits of one step, in order, as its tools get them."""
    diagnostics = StepDiagnostics(
        workspace.diagnostics, workspace.root, lambda name: kind_of(name, name), lambda: "error"
    )
    calls = [ToolCallPart(id=name, name="edit", input="{}") for name in texts]
    reports: list[DiagnosticsReport] = []
    for position, (name, text) in enumerate(texts.items()):
        diagnostics.before(calls, position)
        path = workspace.path(name.rstrip("_").replace("_", "."))
        run = await diagnostics.begin([path])
        workspace.write({path: text})
        reports.append(await asyncio.wait_for(run.report(), HANG_S))
    return reports


async def test_caller_missed_by_a_renaming_edit_is_reported(workspace: LanguageWorkspace) -> None:
    first, last = await step(workspace, cart_py=renamed(CART), one_py=renamed(ONE))
    assert first == DiagnosticsReport("later")
    assert [(p.path.name, p.line, p.code) for p in last.problems] == [
        ("other.py", 3, "reportAttributeAccessIssue")
    ]


async def test_a_refactoring_that_is_complete_is_clean(workspace: LanguageWorkspace) -> None:
    *before, last = await step(workspace, cart_py=renamed(CART), one_py=renamed(ONE), other_py=renamed(OTHER))
    assert before == [DiagnosticsReport("later")] * 2
    assert last == DiagnosticsReport("clean", (), ("basedpyright",))


async def test_breakage_by_the_first_edit_counts_as_new_in_the_second(workspace: LanguageWorkspace) -> None:
    # The second edit leaves the broken line as it is: its problem comes from the first edit all the same.
    *_, last = await step(workspace, cart_py=renamed(CART), other_py=OTHER + "\nprint('edited')\n")
    found = {(p.path.name, p.line) for p in last.problems}
    assert ("other.py", 3) in found
    assert ("one.py", 1) in found


async def test_file_edited_twice_is_compared_from_first_to_last_text(
    workspace: LanguageWorkspace,
) -> None:
    *_, last = await step(
        workspace, cart_py="def total(\n", one_py=ONE + "\n", cart_py_=CART + "\nprint(absent)\n"
    )
    assert [(p.path.name, p.line, p.code) for p in last.problems] == [
        ("cart.py", 4, "reportUndefinedVariable")
    ]
