"""The user's permanent grants: kept in two files that several daemons share."""

from __future__ import annotations

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import filelock
import pytest

from daemon.model.permissions import Grant, Rule
from daemon.permission import grants as module
from daemon.permission.grants import GrantsNotStoredError, GrantStore, Lasting
from daemon.permission.rules import RuleSet
from daemon.store.trace_store import StoreError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOG = Grant(permission="bash", pattern="git log *")
SRC = Grant(permission="edit", pattern="src/*")


def store_in(folder: Path, workspace: str = "one") -> GrantStore:
    return GrantStore(folder / "grants.json", folder / "grants" / f"{workspace}.json", lambda: NOW)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home"


def patterns(store: GrantStore) -> list[tuple[str, str]]:
    return [(grant.scope, grant.pattern) for grant in store.all()]


def test_without_files_there_are_no_grants_and_none_is_created(folder: Path) -> None:
    store = store_in(folder)
    assert store.rules() == ((), ())
    assert (store.all(), store.problems(), store.forget(["x"])) == ([], (), ())
    assert not folder.exists()


def test_grants_persist_and_know_their_file(folder: Path) -> None:
    (added,) = store_in(folder).add([LOG], "user", by="VS Code", title="Run git log")
    store_in(folder).add([SRC], "workspace")
    store = store_in(folder)
    everywhere, here = store.rules()
    assert everywhere == (
        Rule(
            permission="bash",
            pattern="git log *",
            action="allow",
            source="granted",
            file=str(folder / "grants.json"),
        ),
    )
    assert [(rule.pattern, rule.file) for rule in here] == [("src/*", str(folder / "grants" / "one.json"))]
    first = store.all()[0]
    assert first == added
    assert (first.by, first.title, first.granted_at, first.scope) == ("VS Code", "Run git log", NOW, "user")


def test_a_workspace_does_not_see_what_was_granted_in_another(folder: Path) -> None:
    store_in(folder, "one").add([SRC], "workspace")
    store_in(folder, "one").add([LOG], "user")
    assert patterns(store_in(folder, "two")) == [("user", "git log *")]


def test_duplicate_grants_are_not_stored_twice(folder: Path) -> None:
    store = store_in(folder)
    assert len(store.add([LOG, LOG, SRC], "user")) == 2
    assert store.add([SRC], "user") == ()
    assert len(store.add([SRC], "workspace")) == 1
    assert len({grant.grant_id for grant in store.all()}) == 3


def test_grants_are_revoked_by_id_in_any_scope(folder: Path) -> None:
    store = store_in(folder)
    (log,) = store.add([LOG], "user")
    (src,) = store.add([SRC], "workspace")
    (kept,) = store.add([Grant(permission="bash", pattern="ls *")], "workspace")
    assert store.forget({log.grant_id, src.grant_id, "grant_unknown"}) == (log, src)
    assert store.forget({log.grant_id}) == ()
    assert store.all() == [kept]
    assert store_in(folder).all() == [kept]


def test_grant_of_another_daemon_applies_at_once(folder: Path) -> None:
    mine, theirs = store_in(folder, "one"), store_in(folder, "two")
    assert mine.rules() == ((), ())
    (log,) = theirs.add([LOG], "user")
    assert [rule.pattern for rule in mine.rules()[0]] == ["git log *"]
    mine.add([SRC], "user")
    assert [grant.pattern for grant in theirs.all()] == ["git log *", "src/*"]
    mine.forget([log.grant_id])
    assert [rule.pattern for rule in theirs.rules()[0]] == ["src/*"]
    (folder / "grants.json").unlink()
    assert mine.rules() == theirs.rules() == ((), ())


def test_daemons_that_write_at_once_lose_nothing(folder: Path) -> None:
    def grant(number: int) -> None:
        store_in(folder, str(number)).add([Grant(permission="bash", pattern=f"command-{number}")], "user")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(grant, range(40)))
    assert {grant.pattern for grant in store_in(folder).all()} == {f"command-{n}" for n in range(40)}


def test_the_files_are_read_again_only_when_they_have_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(folder)
    store.add([LOG], "user")
    first = store.rules()
    monkeypatch.setattr(json, "loads", None)
    assert store.rules() == first


@pytest.mark.skipif(sys.platform == "win32", reason="no permission bits there")
def test_only_the_user_can_read_the_files(folder: Path) -> None:
    store = store_in(folder)
    store.add([LOG], "user")
    store.add([SRC], "workspace")
    for name in ("grants.json", "grants/one.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "grants").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"x"', "[" * 100_000, '{"format": 1}', '{"format": 1, "grants": {}}', "\x00"],
    ids=["empty", "cut", "list", "text", "deep", "no grants", "no list", "zero"],
)
def test_damaged_grant_file_is_ignored_reported_and_set_aside(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "grants.json").write_text(text)
    store = store_in(folder)
    store.add([SRC], "workspace")
    assert store.rules()[0] == ()
    (problem,) = store.problems()
    assert str(folder / "grants.json") in problem
    assert (folder / "grants.json").read_text() == text
    store.add([LOG], "user")
    assert patterns(store_in(folder)) == [("user", "git log *"), ("workspace", "src/*")]
    assert store.problems() == ()
    (aside,) = folder.glob("grants.json.damaged-*")
    assert aside.read_text() == text


@pytest.mark.parametrize(
    "entry",
    [5, None, {}, {"grant_id": "x"}, {"grant_id": "x", "permission": "bash", "pattern": ["*"]}],
)
def test_damaged_entry_costs_only_itself(folder: Path, entry: object) -> None:
    store = store_in(folder)
    store.add([LOG], "user")
    path = folder / "grants.json"
    value = json.loads(path.read_text())
    value["grants"].insert(0, entry)
    path.write_text(json.dumps(value))
    assert [rule.pattern for rule in store.rules()[0]] == ["git log *"]
    assert "1 of 2" in store.problems()[0]
    store.add([SRC], "user")
    (aside,) = folder.glob("grants.json.damaged-*")
    assert json.loads(aside.read_text()) == value


def test_grant_file_cannot_claim_another_scope(folder: Path) -> None:
    store = store_in(folder)
    store.add([SRC], "workspace")
    path = folder / "grants" / "one.json"
    path.write_text(path.read_text().replace('"permission"', '"scope": "user", "permission"'))
    assert patterns(store) == [("workspace", "src/*")]


def test_file_of_a_newer_version_is_not_changed(folder: Path) -> None:
    folder.mkdir()
    text = json.dumps({"format": 2, "grants": [], "more": 1})
    (folder / "grants.json").write_text(text)
    store = store_in(folder)
    assert "newer" in store.problems()[0]
    with pytest.raises(GrantsNotStoredError, match="Update"):
        store.add([LOG], "user")
    assert (folder / "grants.json").read_text() == text
    assert [path.name for path in folder.glob("*damaged*")] == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipe_in_place_of_the_grant_file_does_not_block(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "grants.json")
    store = store_in(folder)
    assert store.rules() == ((), ())
    assert "not a file" in store.problems()[0]


def test_unwritable_grant_store_is_an_error_and_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file is in the way")
    with pytest.raises(StoreError, match="Cannot write"):
        store_in(tmp_path / "home").add([LOG], "user")
    assert store_in(tmp_path / "home").all() == []


def test_locked_grant_file_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(folder)
    store.add([LOG], "user")
    monkeypatch.setattr(module, "LOCK_WAIT_S", 0.0)
    with (
        filelock.FileLock(folder / "grants.json.lock"),
        pytest.raises(GrantsNotStoredError, match="Try again"),
    ):
        store.add([SRC], "user")
    assert patterns(store) == [("user", "git log *")]


def test_grant_limit_error_gives_advice(folder: Path) -> None:
    store = store_in(folder)
    many = [Grant(permission="bash", pattern=f"c{number}") for number in range(module.MOST)]
    store.add(many, "user")
    with pytest.raises(
        GrantsNotStoredError,
        match="Remove some \\(`goalwright permissions`\\) or allow something more general\\.",
    ):
        store.add([LOG], "user")
    assert len(store_in(folder).all()) == module.MOST


@pytest.mark.parametrize("pattern", ["日本/*", "a\\b", 'quote"', "\ud83d half", "a" * 500])
def test_any_pattern_text_round_trips(folder: Path, pattern: str) -> None:
    store_in(folder).add([Grant(permission="edit", pattern=pattern)], "workspace")
    (found,) = store_in(folder).all()
    assert found.pattern == pattern.replace("\ud83d", "\ufffd")


@pytest.mark.parametrize("scope", ["user", "workspace"])
def test_grant_overrides_ask_but_not_deny(folder: Path, scope: Lasting) -> None:
    store = store_in(folder)
    store.add([Grant(permission="bash", pattern="*")], scope)
    everywhere, here = store.rules()
    deny = Rule(permission="bash", pattern="rm *", action="deny", source="user")
    ask = Rule(permission="bash", pattern="*", action="ask", source="shipped")
    rules = RuleSet((ask, deny), granted=everywhere, granted_here=here)
    assert rules.decide("bash", "rm -rf x").action == "deny"
