"""The navigation against a server process that answers anything at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.language_client.navigation import locations
from lsp_bridge.language_client.navigation.server_navigation import AskingTiming
from tests.support.scenarios.language_workspace import HANG_S, eventually
from tests.support.scenarios.navigated import ALL, Navigated, location, span
from tools.language_ports import ToolError

HASTY = AskingTiming(cold_s=30.0, warm_s=0.5, again_s=0.01, begun_s=0.0)
DEFINITION = "textDocument/definition"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Navigated]:
    root = tmp_path / "workspace"
    root.mkdir()
    navigated = Navigated(root)
    yield navigated
    if navigated.servers is not None:
        await asyncio.wait_for(navigated.servers.close(), HANG_S)


async def refused(asked: Awaitable[object]) -> str:
    with pytest.raises(ToolError) as error:
        await asyncio.wait_for(asked, HANG_S)
    return str(error.value)


@pytest.mark.parametrize(("encoding", "units"), [("utf-16", 13), ("utf-8", 16), ("utf-32", 12), (None, 13)])
async def test_columns_are_characters_here_and_units_there(
    here: Navigated, encoding: str | None, units: int
) -> None:
    chosen: dict[str, Any] = {} if encoding is None else {"positionEncoding": encoding}
    here.serve({DEFINITION: [location(here.a, 0, units, units + 3)]}, **ALL, **chosen)
    found = await here.port().definition(here.at(1, 13))
    assert here.sent(DEFINITION)[0]["position"] == {"line": 0, "character": units}
    assert [(p.path, p.line, p.column, p.end_column, p.text) for p in found.items] == [
        (here.a, 1, 13, 16, "one = '😀é'; two")
    ]
    assert (found.servers, found.silent) == (("fake",), ())


async def test_all_location_shapes_are_parsed(here: Navigated) -> None:
    link = {
        "targetUri": here.b.as_uri(),
        "targetRange": span(0, 0, 5),
        "targetSelectionRange": span(1, 1, 3),
    }
    single = location(here.b, 0, 0, 5)
    here.serve({DEFINITION: [single, [single, single], [link], None, []]})
    port = here.port()
    answers = [[(p.line, p.column) for p in (await port.definition(here.at(1, 1))).items] for _ in range(5)]
    assert answers == [[(1, 1)], [(1, 1)], [(2, 2)], [], []]


FIRST = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
BAD_PLACES: list[Any] = [
    0, "file:///x", {}, {"uri": 5}, {"uri": "file:///x"}, [None, 1, "x", []], {"range": {}},
    {"uri": "untitled:Untitled-1", "range": FIRST},
    {"uri": "file://other-host/etc/x", "range": FIRST},
    {"uri": "file:///x%00y", "range": FIRST},
    {"uri": "file:relative", "range": FIRST},
    {"uri": "file:///%ff%fe", "range": FIRST},
]  # fmt: skip


async def test_invalid_locations_are_left_out(here: Navigated) -> None:
    good = location(here.b, 1, 0, 5)
    absurd = [
        {**good, "range": {"start": start, "end": {"line": 1, "character": 5}}}
        for start in (
            {"line": -1, "character": 0}, {"line": 2**40, "character": 0}, {"line": "1", "character": 0},
            {"line": 1.5, "character": 0}, {"line": True, "character": 0}, {"line": 9, "character": 0}, None, {},
        )
    ]  # fmt: skip
    beyond = location(here.b, 5_000, 0, 1)
    here.serve({DEFINITION: [*BAD_PLACES, [*absurd, beyond, good]]})
    port = here.port()
    for _ in BAD_PLACES:
        assert (await port.definition(here.at(1, 1))).items == ()
    assert [(p.line, p.column) for p in (await port.definition(here.at(1, 1))).items] == [(2, 1)]


async def test_a_column_beyond_the_line_is_its_end(here: Navigated) -> None:
    here.serve({DEFINITION: [location(here.b, 0, 2**31 - 1, 2**31 - 1)]})
    found = (await here.port().definition(here.at(1, 1))).items
    assert [(p.column, p.end_column) for p in found] == [(6, 6)]


async def test_a_flood_is_bounded_and_does_not_block(here: Navigated) -> None:
    here.serve({"textDocument/references": [{"$many": [100_000, location(here.b, 0, 0, 5)]}]})
    assert len((await here.port().references(here.at(1, 1))).items) == 1
    assert here.sent("textDocument/references")[0]["context"] == {"includeDeclaration": True}


async def test_outlines_are_flat_or_nested(here: Navigated) -> None:
    inner = {"name": "total", "kind": 6, "range": span(0, 0, 9), "selectionRange": span(0, 6, 9)}
    nested = {
        "name": "Cart",
        "kind": 5,
        "range": span(0, 0, 9),
        "selectionRange": span(0, 0, 3),
        "children": [inner],
    }
    flat = {"name": "total", "kind": 6, "location": location(here.a, 1, 0, 5), "containerName": "Cart"}
    wrong: list[Any] = [{"name": ""}, {"name": 5}, {"kind": 1}, None, {"name": "x", "kind": 99, "range": {}}]
    here.serve({"textDocument/documentSymbol": [[nested, *wrong], [flat, *wrong], {"$deep": 300}, "no", 7]})
    port = here.port()
    outlines = [(await port.outline(here.a)).items for _ in range(5)]
    named = [
        [(s.name, s.kind, s.container, s.place.line, s.place.column) for s in items] for items in outlines
    ]
    assert named[0] == [("Cart", "class", "", 1, 1), ("total", "method", "Cart", 1, 7)]
    assert named[1] == [("total", "method", "Cart", 2, 1)]
    assert 0 < len(named[2]) < 60
    assert named[3:] == [[], []]


async def test_symbols_of_the_workspace_come_from_the_server_of_a_file(here: Navigated) -> None:
    found = {"name": "three", "kind": 12, "location": {"uri": here.b.as_uri()}, "containerName": None}
    here.serve({"workspace/symbol": [[found]]})
    port = here.port()
    near = await port.find("three", here.a)
    assert [(s.name, s.kind, s.place.path, s.place.line) for s in near.items] == [
        ("three", "function", here.b, 1)
    ]
    assert here.sent("textDocument/didOpen")[0]["textDocument"]["uri"] == here.a.as_uri()


async def test_all_documentation_shapes_are_parsed(here: Navigated) -> None:
    contents: list[Any] = [
        "plain", {"kind": "markdown", "value": "*md*"}, {"language": "py", "value": "x: int"},
        [{"language": "py", "value": "x"}, "doc", 5, None], {"value": 5}, [], None, 7, "x" * 100_000,
    ]  # fmt: skip
    here.serve({"textDocument/hover": [*({"contents": each} for each in contents), None]})
    port = here.port()
    said = [await port.hover(here.at(1, 1)) for _ in range(10)]
    assert said[:8] == ["plain", "*md*", "```py\nx: int\n```", "```py\nx\n```\n\ndoc", "", "", "", ""]
    assert (len(said[8]) < 9_000, said[8].endswith("… (cut)"), said[9]) == (True, True, "")


async def test_first_capable_server_with_a_result_answers(here: Navigated) -> None:
    here.serve({}, "linter", hoverProvider=True)
    here.serve({DEFINITION: [[]]}, "ignorant")
    here.serve({DEFINITION: [location(here.b, 0, 0, 5)]}, "knowing")
    found = await here.port().definition(here.at(1, 1))
    assert (len(found.items), found.servers) == (1, ("knowing",))
    assert here.sent(DEFINITION, "linter") == []


async def test_unsupported_operation_is_reported(here: Navigated) -> None:
    here.serve(
        {DEFINITION: [{"$error": {"code": -32601, "message": "no such method"}}]}, definitionProvider={}
    )
    port = here.port()
    assert await refused(port.references(here.at(1, 1))) == (
        "fake does not support finding references. Use grep and read instead."
    )
    assert "fake does not support going to definitions" in await refused(port.definition(here.at(1, 1)))


async def test_files_without_a_server_are_named(here: Navigated, tmp_path: Path) -> None:
    here.serve({})
    port = here.port()
    other = here.root / "x.unknown"
    other.write_text("x", encoding="ascii")
    assert "No language server is available for x.unknown" in await refused(port.outline(other))
    assert "cannot be shown to a language server" in await refused(port.outline(here.root / "gone.txt"))
    outside = tmp_path / "outside.txt"
    outside.write_text("x", encoding="ascii")
    assert "No language server is available for outside.txt" in await refused(port.outline(outside))


async def test_a_silent_server_is_named_and_the_others_are_asked(here: Navigated) -> None:
    here.serve({DEFINITION: [None, {"$never": True}]}, "silent")
    here.serve({DEFINITION: [location(here.b, 0, 0, 5)]}, "quick")
    port = here.port(HASTY)
    assert (await port.definition(here.at(1, 1))).silent == ()
    found = await port.definition(here.at(1, 1))
    assert (found.servers, found.silent) == (("quick",), ("silent",))


@pytest.mark.parametrize("answer", [{"$never": True}, {"$die": True}])
async def test_missing_answer_differs_from_an_empty_answer(here: Navigated, answer: dict[str, Any]) -> None:
    here.serve({"textDocument/hover": ["x"], "textDocument/references": [answer]})
    port = here.port(HASTY)
    await port.hover(here.at(1, 1))
    said = await refused(port.references(here.at(1, 1)))
    assert said.startswith("fake did not answer in time")
    assert "The result is unknown, not empty." in said


async def test_a_server_that_starts_too_slowly_is_not_waited_for(here: Navigated) -> None:
    here.serve({}, startup_s=60)
    port = here.port(AskingTiming(cold_s=0.2))
    assert "did not answer in time" in await refused(port.definition(here.at(1, 1)))


async def test_empty_answer_of_an_indexing_server_is_asked_again(here: Navigated) -> None:
    here.serve({DEFINITION: [{"$busy": []}, [], location(here.b, 0, 0, 5)]})
    found = await here.port().definition(here.at(1, 1))
    assert [p.line for p in found.items] == [1]
    assert found.silent == ("fake (Indexing)",)


async def test_empty_answer_of_a_starting_server_is_asked_again(here: Navigated) -> None:
    here.serve({DEFINITION: [None, [], location(here.b, 0, 0, 5), []]})
    port = here.port(AskingTiming(cold_s=30.0, warm_s=30.0, again_s=0.01, begun_s=30.0))
    assert [p.line for p in (await port.definition(here.at(1, 1))).items] == [1]
    assert (await port.definition(here.at(1, 1))).items == ()


async def test_a_server_that_was_disturbed_is_asked_again(here: Navigated) -> None:
    modified = {"$error": {"code": -32801, "message": "content modified"}}
    here.serve({DEFINITION: [modified, modified, location(here.b, 0, 0, 5)]})
    assert len((await here.port().definition(here.at(1, 1))).items) == 1


async def test_server_refusal_message_is_passed_on(here: Navigated) -> None:
    here.serve({DEFINITION: [{"$error": {"code": -32803, "message": "not\nnow"}}]})
    assert (
        await refused(here.port().definition(here.at(1, 1)))
        == "The language server returned an error: fake: not now"
    )


async def test_servers_see_what_is_unsaved(here: Navigated) -> None:
    here.buffers |= {here.a: "new\n", here.b: "\ufeffalso new\nand more\n"}
    here.serve({DEFINITION: [location(here.b, 1, 4, 8)]})
    found = await here.port().definition(here.at(1, 1))
    texts = {
        params["textDocument"]["uri"]: params["textDocument"]["text"]
        for params in here.sent("textDocument/didOpen")
    }
    assert texts == {here.a.as_uri(): "new\n", here.b.as_uri(): "also new\nand more\n"}
    assert [p.text for p in found.items] == ["and more"]


async def test_places_in_a_stale_file_are_asked_for_again(
    here: Navigated,
) -> None:
    here.serve({
        "textDocument/documentSymbol": [[]],
        DEFINITION: [location(here.b, 0, 0, 5), location(here.b, 2, 0, 5)],
    })  # fmt: skip
    port = here.port()
    await port.outline(here.b)
    here.b.write_bytes(b"# new\n# lines\nthree\n")
    found = await port.definition(here.at(1, 1))
    assert [(p.line, p.text) for p in found.items] == [(3, "three")]


async def test_server_that_starts_is_shown_the_text_it_finds_then(here: Navigated) -> None:
    here.serve({"textDocument/documentSymbol": [[]]}, startup_s=0.2)
    asked = asyncio.ensure_future(here.port().outline(here.a))
    await eventually(lambda: here.servers is not None and any(here.servers.alive()), "the start")
    here.a.write_bytes(b"new\n")
    await asyncio.wait_for(asked, HANG_S)
    assert [opened["textDocument"]["text"] for opened in here.sent("textDocument/didOpen")] == ["new\n"]


async def test_text_that_changes_during_a_question_is_not_undone(
    here: Navigated, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.serve({DEFINITION: [location(here.a, 0, 0, 3)]})
    read = locations.places

    def changed_meanwhile(raw: object) -> object:
        here.a.write_bytes(b"new\n")
        return read(raw)

    monkeypatch.setattr(locations, "places", changed_meanwhile)
    found = await asyncio.wait_for(here.port().definition(here.at(1, 1)), HANG_S)
    assert [p.text for p in found.items] == ["new"]
    changes = [change for sent in here.sent("textDocument/didChange") for change in sent["contentChanges"]]
    assert changes == [{"text": "new\n"}]


async def test_linked_location_is_reported_by_its_real_path(here: Navigated, tmp_path: Path) -> None:
    link = here.root / "link.txt"
    link.symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("key\n", encoding="ascii")
    here.serve({DEFINITION: [location(link, 0, 0, 1)]})
    found = (await here.port().definition(here.at(1, 1))).items
    assert [p.path for p in found] == [(tmp_path / "secret").resolve()]


async def test_the_loop_stays_free_while_a_large_answer_is_read(here: Navigated) -> None:
    many = [location(here.b, 0, column, column + 1) for column in range(5)]
    here.serve({"textDocument/references": [{"$many": [50_000, many[0]]}]})
    port = here.port()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await port.references(here.at(1, 1))
    counting.cancel()
    assert turns > 100
