from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.language_client.connection import MethodNotFoundError, ServerError
from lsp_bridge.language_client.server.registrations import Registrations
from lsp_bridge.language_client.text.positions import MAX_SOURCE_BYTES, read_source
from lsp_bridge.language_client.text.problems import severe, to_problems
from lsp_bridge.language_client.text.watch_globs import covers, watchers_of

FILE = Path("/w/a.py")
SETTINGS = {"python": {"analysis": {"mode": "x"}}}


def raw(severity: object = 1, line: object = 0, character: object = 0, **more: object) -> dict[str, Any]:
    return {"range": {"start": {"line": line, "character": character}}, "severity": severity, **more}


def test_problems_count_from_one_and_keep_source_and_code() -> None:
    [problem] = to_problems(FILE, [raw(2, 3, 4, message="m", source="s", code=17)])
    assert (problem.line, problem.column, problem.severity) == (4, 5, "warning")
    assert (problem.message, problem.source, problem.code) == ("m", "s", "17")


def test_only_what_is_severe_enough_is_kept() -> None:
    items = [raw(1), raw(2), raw(3), raw(4)]
    assert severe(items, "error") == (items[0],)
    assert severe(items, "information") == tuple(items[:3])


def test_a_diagnostic_without_a_usable_severity_is_an_error() -> None:
    items = [raw(None), raw("1"), raw(9)]
    assert len(severe(items, "error")) == 3


def test_garbage_becomes_no_problem_or_a_harmless_one() -> None:
    assert severe([None, 3, "x", []], "hint") == ()
    strange = [{}, {"range": None}, raw(line="x"), raw(line=-5, character=-1), raw(message={"value": "v"})]
    problems = to_problems(FILE, strange)
    assert {(p.line, p.column) for p in problems} == {(1, 1)}
    assert problems[-1].message == "v"


def test_an_endless_message_is_cut() -> None:
    assert len(to_problems(FILE, [raw(message="x" * 100_000)])[0].message) < 3000


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("**/*.py", "a.py", True),
        ("**/*.py", "deep/er/a.py", True),
        ("*.py", "deep/a.py", False),
        ("**/{ruff,pyproject}.toml", "x/ruff.toml", True),
        ("**/{ruff,pyproject}.toml", "x/other.toml", False),
        ("**/*.{ts,js}", "x/y.js", True),
        ("file?.[!a-c]", "file1.d", True),
        ("file?.[!a-c]", "file1.a", False),
        ("src/**", "src/a/b", True),
        ("a+(b).txt", "a+(b).txt", True),
        ("/w/*.py", "/w/a.py", True),
        ("**/*.py", "/w/a.py", True),
        ("{unclosed", "{unclosed", True),
        ("[z-a]", "x", False),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert covers(glob, path) == matches


def test_watchers_know_their_folder_and_kinds() -> None:
    options = {
        "watchers": [
            {"globPattern": {"baseUri": "file:///w/lib", "pattern": "*.py"}, "kind": 4},
            {"globPattern": 5},
            "nonsense",
        ]
    }
    [watcher] = watchers_of(options, Path("/w"))
    assert watcher.wants(Path("/w/lib/a.py"), "delete")
    assert not watcher.wants(Path("/w/lib/a.py"), "update")
    assert not watcher.wants(Path("/w/a.py"), "delete")


def test_a_glob_may_be_absolute() -> None:
    [watcher] = watchers_of({"watchers": [{"globPattern": "/w/lib/**/*.rs"}]}, Path("/w"))
    assert watcher.wants(Path("/w/lib/x/a.rs"), "update")
    assert not watcher.wants(Path("/w/a.rs"), "update")


def register(registrations: Registrations, method: str, options: dict[str, Any]) -> None:
    entry = {"id": "i", "method": method, "registerOptions": options}
    registrations.answer("client/registerCapability", {"registrations": [entry]})


def test_pulling_can_be_registered_for_a_language_and_taken_back() -> None:
    registrations = Registrations(Path("/w"), {}, allow_pull=True)
    assert not registrations.pulls(FILE, "python")
    register(registrations, "textDocument/diagnostic", {"documentSelector": [{"language": "python"}]})
    assert registrations.pulls(FILE, "python")
    assert not registrations.pulls(FILE, "rust")
    registrations.answer("client/unregisterCapability", {"unregisterations": [{"id": "i"}]})
    assert not registrations.pulls(FILE, "python")


def test_pulling_that_was_not_announced_is_not_done() -> None:
    registrations = Registrations(Path("/w"), {}, allow_pull=False)
    registrations.initialized({"diagnosticProvider": {}})
    register(registrations, "textDocument/diagnostic", {})
    assert not registrations.pulls(FILE, "python")


def test_configuration_is_answered_by_section() -> None:
    registrations = Registrations(Path("/w"), SETTINGS, allow_pull=True)
    items = [{"section": "python.analysis"}, {"section": "absent.deep"}, {}, "nonsense"]
    assert registrations.answer("workspace/configuration", {"items": items}) == [
        {"mode": "x"},
        None,
        SETTINGS,
        SETTINGS,
    ]


def test_a_server_may_not_edit_and_the_unknown_is_refused() -> None:
    registrations = Registrations(Path("/w"), {}, allow_pull=True)
    assert registrations.answer("workspace/applyEdit", {}) == {
        "applied": False,
        "failureReason": "edits by language servers are not accepted",
    }
    assert registrations.answer("window/workDoneProgress/create", {"token": 1}) is None
    with pytest.raises(MethodNotFoundError):
        registrations.answer("evil/method", {})


@pytest.mark.parametrize("error", [None, "text", {"code": "x"}, {"code": -32802, "message": "later"}])
def test_any_error_of_a_server_is_understood(error: object) -> None:
    assert isinstance(ServerError.from_wire(error).code, int)


async def test_source_is_text_without_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfx = '\xff'\r\n")
    assert await read_source(path) == "x = '\ufffd'\r\n"


async def test_large_files_are_read_but_not_huge_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x" * 300_000)
    assert len(await read_source(path) or "") == 300_000
    path.write_bytes(b"x" * (MAX_SOURCE_BYTES + 1))
    assert await read_source(path) is None


async def test_what_is_no_file_has_no_source(tmp_path: Path) -> None:
    assert await read_source(tmp_path) is None
    assert await read_source(tmp_path / "absent") is None
    assert await read_source(Path("/\0")) is None
