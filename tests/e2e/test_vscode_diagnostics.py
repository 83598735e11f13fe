"""Real VS Code: the model receives diagnostics of the user's own extensions for its edits, and no server is started."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenVSCode
from tests.e2e.vscode import task
from tests.e2e.vscode.install import BUILD
from tests.e2e.vscode.parcels import environment, read
from tests.e2e.vscode.second_extension import COMPLAINT, make_vsix
from tests.e2e.vscode.server import VSCodeServer
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

DONE = "All is mended."
TSDK = BUILD / "language-servers" / "node_modules" / "typescript" / "lib"
"""VS Code's TypeScript extension comes without a TypeScript in the package from npm."""
SERVERS = ("typescript-language-server", "tsc", "tsserver", "vscode-json-language-server")
BY_ITSELF = {"goalwright.mode": "accept-edits"}
CLEAN = "clean, no new problems (VS Code)"


@pytest.fixture
def workspace(scratch: Path) -> Path:
    folder = scratch / "w"
    (folder / ".vscode").mkdir(parents=True)
    (folder / ".vscode" / "settings.json").write_text('{"files.autoSave": "off"}')
    (folder / "a.bad").write_text("one good thing\nand another\n")
    (folder / "b.bad").write_text("not open anywhere\n")
    (folder / "sum.ts").write_text("export function twice(n: number): number {\n  return 2 * n;\n}\n")
    (folder / "use.ts").write_text(
        'import { twice } from "./sum";\n\nexport const four: number = twice(2);\n'
    )
    (folder / "broken.ts").write_text('export const five: number = "five";\n')
    (folder / "data.json").write_text('{\n  "name": "x"\n}\n')
    return folder


@pytest.fixture
def tripwires(scratch: Path) -> dict[str, str]:
    """An environment in which the daemon finds language servers that leave a trace when they are started."""
    programs = scratch / "programs"
    programs.mkdir()
    for name in SERVERS:
        program = programs / name
        program.write_text(f"#!/bin/sh\necho {name} >> {scratch}/started.log\nexec sleep 60\n")
        program.chmod(0o755)
    node = shutil.which("node")
    assert node is not None
    path = f"{programs}:{Path(node).parent}:/usr/bin:/bin"
    return {"PATH": path}


def edit(file: Path, old: str, new: str) -> Reply:
    return task.call("edit", file_path=str(file), old_string=old, new_string=new)


def result(model: ModelServer, number: int) -> str:
    """Return the result that the model received for its call number ``number``, from 0."""
    return json.dumps(model.requests[number + 1].json["messages"][-1])


def nothing_started(scratch: Path) -> None:
    started = scratch / "started.log"
    assert not started.exists(), started.read_text()


async def test_diagnostics_of_extensions_reach_model_without_a_server(
    open_vscode: OpenVSCode, workspace: Path, scratch: Path, tripwires: Mapping[str, str]
) -> None:
    assert TSDK.is_dir(), "run `make language-servers` (`make test` does)"
    shown, hidden = workspace / "a.bad", workspace / "b.bad"
    source, data = workspace / "sum.ts", workspace / "data.json"
    of_another = [
        read(shown),
        edit(shown, "and another", "a BAD one"),
        edit(shown, "a BAD one", "a better one"),
        edit(shown, "a better one", "the best one"),
        read(hidden),
        edit(hidden, "not open", "BAD"),
        edit(hidden, "BAD", "not open"),
        Reply(text=DONE),
    ]
    of_its_own = [
        read(source),
        read(data),
        # Clean as before, three times: TypeScript's extension tells nobody.
        edit(source, "2 * n", "n * 2"),
        edit(source, "n * 2", "n + n"),
        edit(source, "n + n", "2 * n"),
        edit(source, "return 2 * n", 'return "many"'),
        edit(source, 'return "many"', "return 2 * n"),
        edit(data, '"x"', '"x",'),
        edit(data, '"x",', '"y"'),
        Reply(text=DONE),
    ]
    (scratch / "vscode").mkdir()
    VSCodeServer(scratch / "vscode", workspace, sys.executable).install(make_vsix(scratch))
    settings = {**BY_ITSELF, "typescript.tsdk": str(TSDK)}
    async with (
        ModelServer([*of_another, *of_its_own]) as model,
        open_vscode({**environment(model), **tripwires}, settings=settings) as window,
    ):
        await window.open_file("a.bad")
        await window.show_chat()
        await window.say("Break it, then mend it.")
        await expect(window.answers().last).to_contain_text(DONE)

        assert COMPLAINT in result(model, 1), result(model, 1)
        assert "bad-looker" in result(model, 1)
        assert CLEAN in result(model, 2), result(model, 2)
        assert CLEAN in result(model, 3), result(model, 3)
        assert COMPLAINT in result(model, 5), result(model, 5)
        assert CLEAN in result(model, 6), result(model, 6)
        await expect(window.tool("edit", "done").first.get_by_role("list", name="Problems")).to_contain_text(
            COMPLAINT
        )
        # The file that the agent worked on beside was never shown.
        await expect(window.tab("b.bad")).to_have_count(0)
        assert shown.read_text() == "one good thing\nthe best one\n"
        looks = (scratch / "looks.log").read_text().splitlines()
        assert {"a.bad 0", "a.bad 1", "b.bad 0", "b.bad 1"} == set(looks)

        await window.new_session()
        await window.open_file("data.json")
        await window.open_file("broken.ts")
        # TypeScript takes seconds to start; a real model would, too.
        await expect(window.page.locator(".squiggly-error").first).to_be_visible()
        await window.show_chat()
        await window.say("Try it in other ways.")
        await expect(window.answers().last).to_contain_text(DONE)

        first = len(of_another)
        for number in (2, 3, 4):
            assert CLEAN in result(model, first + number), result(model, first + number)
        assert "is not assignable to type 'number'" in result(model, first + 5), result(model, first + 5)
        assert CLEAN in result(model, first + 6), result(model, first + 6)
        assert "Trailing comma" in result(model, first + 7), result(model, first + 7)
        assert CLEAN in result(model, first + 8), result(model, first + 8)
        await expect(window.tab("sum.ts")).to_have_count(0)
    nothing_started(scratch)
