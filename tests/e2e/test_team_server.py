"""``goalwright team``: a shared server in a process of its own, its tokens, and its page in a real Chromium."""

from __future__ import annotations

import json
import re
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from playwright.async_api import expect

from daemon.store.sql.store import SqlTraceStore
from tests.e2e.vscode.accessibility import findings
from tests.support.drivers.command_line import CommandLine
from tests.support.drivers.postgres import Postgres, database_for, give_back
from tests.support.drivers.team import ANN, BOB, SECRET, team, tell
from tests.support.drivers.trace_page import browser_page, pictures

expect.set_options(timeout=30_000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlTraceStore]:
    found = SqlTraceStore.open(database_for(tmp_path))
    tell(found, ANN, "ann", "harmless")
    tell(found, BOB, "bob", SECRET)
    yield found
    found.close()
    give_back(tmp_path)


def test_server_and_tokens_on_the_command_line(
    goalwright: CommandLine, store: SqlTraceStore, tmp_path: Path
) -> None:
    url = database_for(tmp_path)

    def told(*arguments: str, code: int = 0) -> str:
        result = goalwright.run("team", *arguments)
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    for arguments in (("list",), ("serve",), ("add", "ann")):
        assert "Name a database" in told(*arguments, code=1)
    goalwright.configure(store_url=url)
    assert "no tokens" in told("list")
    ann = goalwright.run("team", "add", "ann", "--days", "30").stdout.strip()
    boss = json.loads(told("add", "boss", "--scope", "all", "--json"))["token"]
    listed = told("list")
    assert [line.split()[1:3] for line in listed.splitlines()] == [["ann", "own"], ["boss", "all"]]
    assert ann.split("_", 2)[2] not in listed

    assert "--public-url" in told("serve", "--http", "0.0.0.0:0", code=1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "Cannot listen" in told("serve", "--http", str(taken.getsockname()[1]), code=1)

    process = goalwright.popen("team", "serve", "--http", "0", "--json")
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 60)
        assert ready, "nothing was printed"
        server = json.loads(process.stdout.readline())["url"]
        for token, count in ((ann, 1), (boss, 2)):
            answer = httpx.get(
                f"{server}/api/traces", headers={"authorization": f"Bearer {token}"}, timeout=60
            )
            assert len(answer.json()["traces"]) == count
        assert httpx.get(f"{server}/api/traces?token={ann}", timeout=60).status_code == 401
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, rest) == (0, "")
    assert "gwt_" not in errors

    for arguments, count in (
        (("--user", "bob"), 1),
        (("--before", "1"), 2),
        (("--trace", ANN, "--user", "bob"), 0),
    ):
        shown = goalwright.run("trace", "delete", *arguments)
        assert (shown.returncode, shown.stdout.count("\n")) == (0, count)
        assert ("Add --yes" in shown.stderr) == (count > 0)
    assert len(store.traces(limit=9)) == 2
    assert "Say which" in goalwright.run("trace", "delete").stderr
    assert goalwright.run("trace", "delete", "--user", "bob", "--yes").stdout.endswith("Deleted 1 session.\n")
    assert [one.trace_id for one in store.traces(limit=9)] == [ANN]

    assert "no such token" in told("remove", "nobody", code=1)
    assert told("remove", "ann") == "Removed 1 token.\n"
    missing = told("list", "--store", f"sqlite:///{tmp_path}/no.db", code=1)
    assert "There is no database" in missing and not (tmp_path / "no.db").exists()


def test_server_ends_although_its_database_hangs(goalwright: CommandLine) -> None:
    database = Postgres()
    try:
        url = database.database("team")
        with psycopg.connect(url) as held:
            held.execute("LOCK TABLE traces, messages, texts IN ACCESS EXCLUSIVE MODE")
            for command in (("stats",), ("trace", "search", "word")):
                waiting = goalwright.popen(*command, "--store", url)
                deadline = time.monotonic() + 60
                while not held.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                    assert waiting.poll() is None and time.monotonic() < deadline
                waiting.send_signal(signal.SIGINT)
                waiting.communicate(timeout=60)
                assert waiting.returncode == 130
        token = goalwright.run("team", "add", "ann", "--store", url).stdout.strip()
        process = goalwright.popen("team", "serve", "--http", "0", "--json", "--store", url)
        try:
            assert process.stdout is not None
            port = urlsplit(json.loads(process.stdout.readline())["url"]).port
            database.freeze()
            with socket.create_connection(("127.0.0.1", port)) as waiting:
                waiting.sendall(
                    f"GET /api/me HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
                )
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0
        database.freeze(signal.SIGCONT)
    finally:
        database.end()


@pytest.mark.asyncio(loop_scope="session")
async def test_page_asks_for_a_token_and_shows_own_sessions(store: SqlTraceStore) -> None:
    errors: list[str] = []
    async with team(store) as bench, browser_page(errors=errors) as page:
        address = f"http://127.0.0.1:{bench.port}/"
        await page.goto(f"{address}#/{ANN}")
        dialog = page.get_by_role("dialog", name="Goalwright traces")
        token = dialog.get_by_label("Token")
        await expect(token).to_be_focused()
        await pictures(page, "team-sign-in")
        assert await findings(page.main_frame) == []
        await page.keyboard.press("Escape")
        await token.fill("gwt_wrong")
        await page.keyboard.press("Enter")
        await expect(dialog.get_by_role("alert")).to_contain_text("not valid")
        await token.fill(bench.tokens["ann"])
        await dialog.get_by_role("button", name="Sign in").click()
        await expect(dialog).to_be_hidden()
        await expect(page.get_by_role("link", name="harmless")).to_have_count(1)
        await expect(page.locator("#title")).to_have_text("harmless")
        await expect(page.locator("#connection")).to_have_text("Live")
        assert page.url == f"{address}#/{ANN}"
        assert SECRET not in await page.content()
        assert await page.evaluate("[document.cookie, sessionStorage.length, localStorage.length]") == [
            "",
            0,
            0,
        ]
        await pictures(page, "team-page")
        await page.get_by_label("Search traces").fill("ANSWER harm")
        found = page.get_by_role("region", name="Found in sessions")
        await expect(found.get_by_role("link")).to_have_text(
            re.compile("harmless.*answer harmless.*message · ann", re.S)
        )
        await page.get_by_label("Search traces").fill(SECRET)
        await expect(found).to_contain_text("Nothing was found.")
        await pictures(page, "team-search")
        await page.get_by_role("link", name="Numbers").click()
        numbers = page.get_by_role("region", name="Numbers", exact=True)
        await numbers.get_by_label("Period").select_option("All time")
        await expect(numbers.get_by_role("row", name=re.compile("^2026-01-01"))).to_contain_text("$1.00")
        plot = numbers.get_by_role("img", name=re.compile("^Cost, at most [$]1.00 [(]2026-01-01[)]"))
        await expect(plot).to_be_visible()
        await pictures(page, "team-numbers-days")
        await numbers.get_by_label("By").select_option("Agent")
        await expect(numbers.get_by_role("row", name="harmless")).to_have_count(1)
        await expect(numbers.get_by_role("img")).to_have_count(5)
        await expect(numbers.get_by_role("img", name=re.compile("^Cache rate, at most 10 %"))).to_be_visible()
        await pictures(page, "team-numbers")
        assert await findings(page.main_frame) == []
        away = {"detail": "The database is away."}
        await page.route("**/api/stats?*", lambda route: route.fulfill(status=503, json=away), times=1)
        await numbers.get_by_label("By").select_option("Model")
        await expect(numbers).to_contain_text("The database is away.")
        # It asks again by itself.
        await expect(numbers.get_by_role("row", name="fake/harmless")).to_have_count(1)
        await page.goto(f"{address}#/{BOB}")
        await expect(numbers).to_be_hidden()
        await expect(page.locator("#empty")).to_contain_text("There is no trace")
        await page.get_by_role("button", name="Sign out").click()
        await expect(token).to_be_focused()
        assert [error for error in errors if not re.search("40[14]|503", error)] == []
