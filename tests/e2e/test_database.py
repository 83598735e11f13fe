"""The copy of all sessions in PostgreSQL, as a user has it: while the server and the daemon are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from daemon.store.sql.store import SqlTraceStore
from tests.support.drivers.command_line import CommandLine, wait_until
from tests.support.drivers.postgres import Postgres

SLOW = [{"text": "word " * 400, "chunk": 5, "delay_ms": 5}]


@pytest.fixture
def server() -> Iterator[Postgres]:
    found = Postgres()
    yield found
    found.end()


def lines(goalwright: CommandLine) -> dict[str, list[bytes]]:
    """The logs in the folder, by session."""
    logs = sorted((goalwright.workspace / ".trace").glob("*/events.jsonl"))
    return {log.parent.name: log.read_bytes().splitlines() for log in logs}


def copied(store: SqlTraceStore, session_id: str) -> list[bytes]:
    return [line.body for line in store.lines(session_id)] if store.copied(session_id) else []


def wait_until_copied(goalwright: CommandLine, store: SqlTraceStore) -> None:
    wait_until(
        lambda: all(copied(store, name) == log for name, log in lines(goalwright).items()), "the copies"
    )


def test_sessions_are_copied_found_and_counted(goalwright: CommandLine) -> None:
    database = f"sqlite:///{goalwright.folder / 'traces.db'}"
    model = goalwright.script([{"text": "The RATES are set."}], repeat=True)
    for said in ("Lower the rates.", "Raise the fees."):
        assert goalwright.run("run", said, "--model", model).returncode == 0

    def told(*arguments: str) -> str:
        result = goalwright.run(*arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    before = lines(goalwright)
    assert told("trace", "copy", "files", database) == "Copied 2 sessions.\n"
    again = told("trace", "copy", "files", database)
    assert again == "Copied 0 sessions.\nAlready there, without changes: 2.\n"
    for store in ([], ["--store", database]):
        found = told("trace", "search", "raise the FEES", *store).splitlines()
        assert (len(found), found[1]) == (2, "  message: Raise the fees.")
        assert len(told("trace", "search", "rates are", *store).splitlines()) == 4
        (counted,) = (
            json.loads(line) for line in told("stats", "--by", "agent", "--json", *store).splitlines()
        )
        assert (counted["key"], counted["sessions"], counted["finished"], counted["calls"]) == (
            "build",
            2,
            2,
            2,
        )
        assert "build         2     100 %      2" in told("stats", "--by", "agent", *store)
    assert told("stats", "--days", "1", "--user", "nobody else") == ""
    assert "Only a database knows users" in goalwright.run("trace", "search", "fees", "--user", "ann").stderr

    # One that was deleted comes back, as something that came from elsewhere.
    session_id = min(before)
    goalwright.stop()
    shutil.rmtree(goalwright.workspace / ".trace" / session_id)
    again = told("trace", "copy", database, "files")
    assert again == "Copied 1 session.\nAlready there, without changes: 1.\n"
    assert lines(goalwright) == before
    assert json.loads(told("trace", "list", "--json").splitlines()[1])["foreign"] is True

    missing = goalwright.run("trace", "search", "rates", "--store", f"sqlite:///{goalwright.folder}/no/x.db")
    assert (missing.returncode, missing.stderr) == (1, f"There is no database {goalwright.folder}/no/x.db.\n")
    assert not (goalwright.folder / "no").exists()
    refused = goalwright.run("trace", "copy", "mysql://ann:geheim@host/d", "files")
    assert refused.returncode == 1
    assert "is not supported" in refused.stderr
    assert "geheim" not in refused.stdout + refused.stderr

    goalwright.configure().write_text('{"store_url": broken')
    assert "config.json is not used" in goalwright.run("stats").stderr
    assert "config.json is not used" in goalwright.run("mcp").stderr


def test_database_has_all_events_whatever_is_killed(goalwright: CommandLine, server: Postgres) -> None:
    url = server.database("record")
    goalwright.configure(store_url=url)
    model = goalwright.script([{"text": "Done."}], SLOW, repeat=True)
    assert goalwright.run("run", "First.", "--model", model).returncode == 0
    store = SqlTraceStore.open(url)
    wait_until_copied(goalwright, store)

    # The server is killed in the middle of a turn: nobody waits, and the user is told.
    running = goalwright.popen("run", "Take your time.", "--continue", "--model", model)
    (session_id,) = lines(goalwright)
    before = len(lines(goalwright)[session_id])
    wait_until(lambda: len(lines(goalwright)[session_id]) > before + 2, "work")
    server.kill()
    assert running.wait(60) == 0
    assert goalwright.run("run", "And once more.", "--model", model).returncode == 0
    wait_until(lambda: "copied to the database later" in goalwright.run("status").stdout, "the notice")

    # So is the daemon, with events that the database does not have.
    os.kill(goalwright.start().pid, signal.SIGKILL)
    goalwright.wait_until_gone()
    server.start()
    goalwright.start()
    wait_until_copied(goalwright, store)
    assert len(lines(goalwright)) == 2
    assert "database" not in goalwright.run("status").stdout
    store.close()
