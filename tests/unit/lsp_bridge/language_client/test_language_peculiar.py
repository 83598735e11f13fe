"""Servers that keep to the protocol in a way of their own: what they say counts all the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker, Settling, Timing
from lsp_bridge.language_client.specs.server_spec import ServerSpec
from tests.support.scenarios.language_workspace import HANG_S, SOON, LanguageWorkspace, eventually, fake_spec

FILE = Path("/w/a")
BAD = ({"message": "bad"},)
WAITS = Settling(versioned_s=0.1, unversioned_s=0.3, doubtful_s=1.5)
ONLY_ON_SAVE = ("--on-save", "--sync", json.dumps({"openClose": True, "change": 1, "save": True}))


@contextlib.asynccontextmanager
async def workspace(
    tmp_path: Path, spec: ServerSpec, timing: Timing = SOON
) -> AsyncGenerator[LanguageWorkspace]:
    made = LanguageWorkspace(tmp_path, [spec], timing)
    made.write({made.path("a.txt"): "fine"})
    made.diagnostics.warm(made.path("a.txt"))
    await eventually(lambda: bool(list(made.servers.alive())), "a server")
    await made.running()
    try:
        yield made
    finally:
        await asyncio.wait_for(made.diagnostics.close(), HANG_S)


async def verdicts(made: LanguageWorkspace, *texts: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for text in texts:
        report = await made.change(a_txt=text)
        found.append((report.verdict, [problem.message for problem in report.problems]))
    return found


@pytest.mark.parametrize("step", ["own-version", "uri:dots", "uri:localhost", "uri:double"])
async def test_odd_versions_and_uris_are_understood(tmp_path: Path, step: str) -> None:
    async with workspace(tmp_path, fake_spec(plan=[[step]])) as made:
        assert await verdicts(made, "BAD one", "BAD one\nBAD two", "ok") == [
            ("problems", ["bad: BAD one"]),
            ("problems", ["bad: BAD two"]),
            ("clean", []),
        ]


async def test_server_that_only_checks_saved_files_gets_save_events(tmp_path: Path) -> None:
    timing = replace(SOON, answer_s=4.0)
    spec = fake_spec(*ONLY_ON_SAVE, plan=[["nothing"]])
    async with workspace(tmp_path, spec, timing) as made:
        await made.change(a_txt="fine too")
        [server] = made.servers.alive()
        await eventually(lambda: server.answers.needs_save, "what it has learnt")
        assert await verdicts(made, "BAD one", "BAD one\nBAD two", "ok") == [
            ("problems", ["bad: BAD one"]),
            ("problems", ["bad: BAD two"]),
            ("clean", []),
        ]
        made.write({made.path("b.txt"): "BAD old"})
        report = await made.change(b_txt="BAD old\nBAD new")
        assert [problem.message for problem in report.problems] == ["bad: BAD new"]


def test_unsent_version_numbers_are_the_servers_own() -> None:
    answers = DiagnosticsTracker(WAITS)
    answers.sync(FILE, "old", now=0.0, pull=False)
    assert answers.push(FILE, 1, (), now=1.0)
    _, new = answers.sync(FILE, "new", now=2.0, pull=False)
    assert answers.push(FILE, 2, BAD, now=3.0)
    assert answers.settled_at(FILE, new, pull=False) == 3.3


def test_old_version_of_ours_is_not_taken_for_the_servers_own() -> None:
    answers = DiagnosticsTracker(WAITS)
    _, old = answers.sync(FILE, "old", now=0.0, pull=False)
    _, new = answers.sync(FILE, "new", now=2.0, pull=False)
    assert answers.push(FILE, old, BAD, now=3.0)
    answers.close(FILE)
    _, again = answers.sync(FILE, "again", now=4.0, pull=False)
    assert answers.push(FILE, new, BAD, now=5.0)
    assert answers.settled_at(FILE, again, pull=False) is None


def ignored_until_saved() -> DiagnosticsTracker:
    answers = DiagnosticsTracker(WAITS)
    answers.sync(FILE, "old", now=0.0, pull=False)
    answers.sync(FILE, "new", now=5.0, pull=False)
    answers.saved(FILE)
    answers.push(FILE, None, BAD, now=6.0)
    assert answers.needs_save
    return answers


def test_unsaved_versions_do_not_make_the_next_answer_doubtful() -> None:
    answers = ignored_until_saved()
    answers.sync(FILE, "not saved", now=10.0, pull=False)
    assert answers.passed_over_at(FILE, pull=False) == 11.5
    _, version = answers.sync(FILE, "saved", now=20.0, pull=False)
    assert answers.saved(FILE)
    assert not answers.saved(FILE)
    answers.push(FILE, None, BAD, now=21.0)
    assert answers.settled_at(FILE, version, pull=False) == 21.3


def test_answer_about_unsaved_text_ends_the_need_for_saves() -> None:
    answers = ignored_until_saved()
    answers.sync(FILE, "not saved", now=10.0, pull=False)
    answers.push(FILE, None, BAD, now=10.5)
    assert not answers.needs_save
