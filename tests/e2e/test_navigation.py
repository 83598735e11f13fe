"""Definitions, uses, symbols and renames with real language servers; a rename in a whole session, and its undo."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.loop.undo import Restorer
from lsp_bridge.language_client.navigation.server_navigation import AskingTiming, ServerNavigation
from lsp_bridge.language_client.pool.server_choice import ServerChoice
from lsp_bridge.language_client.pool.server_pool import LanguageServers
from tests.evals.language_servers import install
from tests.evals.language_servers.cases import CASES, Case
from tests.support.drivers.core import Bench, daemon, finish, prompted
from tests.support.drivers.process_tree import family
from tests.support.fakes.models import Call
from tests.support.scenarios.language_workspace import HANG_S, process_lives
from tools.language_ports import CodePlace, Navigation, Position, ToolError

# A busy machine may be slow; waiting ends when the server has answered something.
PATIENT = AskingTiming(cold_s=60.0, warm_s=60.0, begun_s=20.0)

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="processes are looked at in /proc"),
    pytest.mark.timeout(240),
]

PYTHON = {
    "cart.py": "class Cart:\n    def total(self, é: str = '😀') -> int:\n        '''Sums up.'''\n        return 1\n",
    "user.py": "from cart import Cart\n\nprint('😀', Cart().total())\n",
}
TYPESCRIPT = {
    "tsconfig.json": '{"compilerOptions": {"strict": true, "target": "es2020", "module": "commonjs"}}\n',
    "cart.ts": "export class Cart {\n  total(): number {\n    return 1;\n  }\n}\n",
    "user.ts": "import { Cart } from './cart';\n\nconst text = '😀'; const sum = new Cart().total();\n",
}
C = {
    "cart.h": "int total(int a);\n",
    "cart.c": '#include "cart.h"\nint total(int a) { return a; }\n',
    "user.c": '#include "cart.h"\n/* 😀 */ int main(void) { return total(1); }\n',
}
FILES = {
    "basedpyright": PYTHON,
    "ty": PYTHON,
    "typescript-language-server": TYPESCRIPT,
    "typescript-7": TYPESCRIPT,
}
FILES["clangd"] = C


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    install.ensure()


@pytest.fixture
def pids() -> Iterator[set[int]]:
    """Ids of all processes of servers that a test has seen; none of them may be left."""
    seen: set[int] = set()
    yield seen
    assert not [pid for pid in seen if process_lives(pid)]


class Sources:
    """A workspace with a small project in the language of a server."""

    def __init__(self, case: Case, root: Path) -> None:
        self.root = root.resolve()
        self.texts = FILES[case.id]
        for name, text in self.texts.items():
            (self.root / name).write_text(text, "utf-8")
        self.buffers: dict[Path, str] = {}
        choice = ServerChoice((case.spec,))
        self.servers = LanguageServers(self.root, lambda: choice, environment=case.environment)
        self.port: Navigation = ServerNavigation(
            self.servers, self.buffers.get, lambda: list(self.buffers), timing=PATIENT
        )
        self.user, self.cart = (
            self.root
            / next(name for name in self.texts if name.startswith(stem + ".") and not name.endswith(".h"))
            for stem in ("user", "cart")
        )

    def at(self, path: Path, word: str = "total") -> Position:
        text = self.buffers.get(path) or path.read_text("utf-8")
        lines = text.split("\n")
        line = next(number for number, each in enumerate(lines) if f"{word}(" in each)
        return Position(path, line + 1, lines[line].index(f"{word}(") + 1)

    def shown(self, places: tuple[CodePlace, ...]) -> set[tuple[str, int, int]]:
        return {(place.path.name, place.line, place.column) for place in places}


@asynccontextmanager
async def sources(case: Case, root: Path, pids: set[int]) -> AsyncGenerator[Sources]:
    root.mkdir(exist_ok=True)
    made = Sources(case, root)
    try:
        yield made
    finally:
        pids.update(pid for _, server in made.servers.running() for pid in family(server))
        await asyncio.wait_for(made.servers.close(), HANG_S)


@pytest.fixture(params=[case for case in CASES if case.id in FILES], ids=lambda case: case.id)
async def here(request: pytest.FixtureRequest, tmp_path: Path, pids: set[int]) -> AsyncIterator[Sources]:
    async with sources(request.param, tmp_path / "workspace", pids) as made:
        yield made


def case(name: str) -> Case:
    return next(case for case in CASES if case.id == name)


async def test_everything_is_found_in_the_code_of_every_language(here: Sources) -> None:
    user, cart = here.at(here.user), here.at(here.cart)
    # A C file is compiled alone: what it uses is declared in the header.
    defined = (here.cart.name, cart.line, cart.column)
    if here.cart.suffix == ".c":
        await here.port.outline(here.cart)
    found = here.shown((await here.port.definition(user)).items)
    assert found <= {defined, ("cart.h", 1, 5)} and found
    uses = here.shown((await here.port.references(user)).items)
    assert (user.path.name, user.line, user.column) in uses
    outline = (await here.port.outline(here.cart)).items
    assert [
        (item.place.line, item.kind in ("method", "function")) for item in outline if "total" in item.name
    ] == [(cart.line, True)]
    assert "total" in await here.port.hover(user)
    named = (await here.port.find("total", here.user)).items
    assert any("total" in item.name for item in named)


async def test_a_rename_is_worked_out_over_all_files(here: Sources) -> None:
    if here.cart.suffix == ".c":
        await here.port.outline(here.cart)
    await here.port.references(here.at(here.user))
    renamed = {file.path.name: file for file in await here.port.rename(here.at(here.user), "sum_up")}
    assert renamed[here.user.name].after == here.texts[here.user.name].replace("total(", "sum_up(")
    for name, file in renamed.items():
        assert (file.before, file.after) == (here.texts[name], here.texts[name].replace("total(", "sum_up("))
    assert len(renamed) > 1


async def test_unsaved_text_is_what_is_asked_about(here: Sources) -> None:
    await here.port.hover(here.at(here.user))
    comment = "# new\n" if here.user.suffix == ".py" else "// new\n"
    here.buffers[here.user] = comment + here.texts[here.user.name]
    at = here.at(here.user)
    assert (here.user.name, at.line, at.column) in here.shown((await here.port.references(at)).items)
    renamed = {file.path: file for file in await here.port.rename(at, "sum_up")}
    assert renamed[here.user].before == here.buffers[here.user]


async def test_what_is_no_name_cannot_be_renamed(here: Sources) -> None:
    await here.port.hover(here.at(here.user))
    # An empty line; in C a comment.
    try:
        assert await here.port.rename(Position(here.user, 2, 1), "x") == ()
    except ToolError as error:
        assert "rename" in str(error)


@asynccontextmanager
async def project(folder: Path, pids: set[int]) -> AsyncGenerator[tuple[Sources, Bench]]:
    """The Python project in a whole daemon, with basedpyright."""
    async with (
        sources(case("basedpyright"), folder / "workspace", pids) as made,
        daemon(folder, navigation=made.port) as bench,
    ):
        yield made, bench


def rename(**more: object) -> Call:
    arguments = {"operation": "rename", "path": "user.py", "symbol": "total", "line": 3, "new_name": "sum_up"}
    return Call("symbols", {**arguments, **more})


def results(bench: Bench) -> list[str]:
    (session,) = bench.core.open_sessions
    found = [message.tool_result() for message in session.state.messages if message.role == "tool"]
    return [result.content for result in found if result is not None]


async def test_a_rename_is_approved_written_kept_and_taken_back(tmp_path: Path, pids: set[int]) -> None:
    async with project(tmp_path, pids) as (made, bench):
        session = bench.session()
        bench.models.then(
            rename(),
            Call("edit", {"file_path": "cart.py", "old_string": "1", "new_string": "2"}),
            "Done.",
        )
        turn = prompted(session, "rename it")
        (request,) = await bench.asked()
        assert (request.permission, sorted(file.path for file in request.files)) == (
            "edit",
            ["cart.py", "user.py"],
        )
        assert made.user.read_text("utf-8") == PYTHON["user.py"]
        await bench.answer("once")
        await finish(turn, within_s=120)
        after = {name: text.replace("total(", "sum_up(") for name, text in PYTHON.items()}
        assert {name: (made.root / name).read_text("utf-8") for name in PYTHON} == after
        renamed, edited = results(bench)
        assert renamed.startswith("Edit applied: ")
        # It was renamed, but the model has not read it.
        assert "you have not read it" in edited
        await Restorer(session).undo(by="Ann")
        assert {name: (made.root / name).read_text("utf-8") for name in PYTHON} == PYTHON
        await Restorer(session).redo()
        assert {name: (made.root / name).read_text("utf-8") for name in PYTHON} == after


async def test_a_rename_that_rules_forbid_changes_nothing(tmp_path: Path, pids: set[int]) -> None:
    async with project(tmp_path, pids) as (made, bench):
        session = bench.session(settings={"permission": {"edit": "deny"}})
        bench.models.then(rename(), rename(preview=True), "Done.")
        await finish(prompted(session, "rename it"), within_s=120)
        refused, preview = results(bench)
        assert refused.startswith("Permission denied.")
        assert preview.startswith("Preview, nothing was changed. 2 files:")
        assert {name: (made.root / name).read_text("utf-8") for name in PYTHON} == PYTHON


async def test_what_must_not_be_read_is_not_found_either(tmp_path: Path, pids: set[int]) -> None:
    async with project(tmp_path, pids) as (made, bench):
        session = bench.session(settings={"permission": {"read": {"*": "allow", "cart.py": "deny"}}})
        asked = {"path": "user.py", "symbol": "total", "line": 3}
        operations = ("definition", "references", "hover")
        steps = [Call("symbols", {"operation": name, **asked}) for name in operations]
        bench.models.then(*steps, rename(), Call("symbols", {"operation": "find", "query": "total"}), "Done.")
        await finish(prompted(session, "look"), within_s=120)
        told = results(bench)
        assert not [
            content
            for content in told
            if "cart.py:" in content or "Summarizes a conversation when the context is compacted." in content
        ]
        assert told[0] == "No definition found.\n(1 more are in files that must not be read.)"
        assert "user.py:3:" in told[1]
        assert "cart.py, which must not be read. Nothing was changed." in told[3]
        assert {name: (made.root / name).read_text("utf-8") for name in PYTHON} == PYTHON
