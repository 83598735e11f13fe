"""A shared server over a real PostgreSQL: users, their tokens, and what each of them sees."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon.api import team_access, team_server
from daemon.api.address import ApiError
from daemon.api.team_access import Brake, TeamAccess, public_place
from daemon.store.sql.schema import metadata
from daemon.store.sql.store import SqlTraceStore
from daemon.store.sql.tokens import grant_of, grants, issue, revoke
from daemon.store.trace_store import StoreError, UnknownTraceError, UnreachableError
from tests.support.drivers.postgres import Postgres, database_for, give_back
from tests.support.drivers.team import ANN, BOB, SECRET, team, tell
from tests.support.drivers.trace_api import get, raw, upgrade
from tests.support.drivers.waiting import until
from tests.support.drivers.watched import hear
from tests.support.scenarios.stores import added, message

WITHOUT_SESSIONS = {"/openapi.json", "/", "/page/{name}", "/sign-in", "/sign-out", "/api/me"}
"""Paths that show nothing of sessions."""
QUERIES: dict[str, list[dict[str, Any]]] = {
    "/api/traces": [{}, {"q": SECRET}, {"agent": SECRET}],
    "/api/traces/{trace_id}/messages": [{}, {"goal_id": "1", "descendants": "true"}, {"branch_id": "A"}],
    "/api/traces/{trace_id}/tree": [{}, {"branch_id": "A"}],
    "/api/search": [{"q": SECRET}, {"q": "please"}, {"q": "goal"}, {"q": "src/"}],
    "/api/stats": [{"by": "agent"}, {"by": "folder"}, {"by": "model"}],
    "/api/traces/{trace_id}/node/{step_id:path}": [{"expand": "true"}, {"branch_id": "A"}],
}
"""Parameters that each path is asked with; a path that is not here is asked without any."""
NAMES = {"{trace_id}": BOB, "{branch_id}": "A", "{step_id:path}": "root", "{name}": "page.js"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlTraceStore]:
    found = SqlTraceStore.open(database_for(tmp_path))
    tell(found, ANN, "ann", "harmless")
    tell(found, BOB, "bob", SECRET)
    yield found
    found.close()
    give_back(tmp_path)


def all_routes(router: Any) -> Iterator[BaseRoute]:
    """The routes of an application or router, those of included routers too."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from all_routes(inner)


def watched(port: int, trace_id: str, headers: dict[str, str], query: str = "") -> connect:
    url = f"ws://127.0.0.1:{port}/api/traces/{trace_id}/watch?since_event_id=0&{query}"
    return connect(url, additional_headers=headers, max_size=None, close_timeout=1)


# -- what a user sees --


async def test_no_route_shows_sessions_of_another_user(store: SqlTraceStore) -> None:
    async with team(store) as bench:
        paths = [route for route in all_routes(bench.server.app) if isinstance(route, APIRoute)]
        assert len(paths) > 8
        for route in paths:
            path = route.path
            asked = path
            for name, value in NAMES.items():
                asked = asked.replace(name, value)
            assert "{" not in asked, f"give the test values for {path}"
            if path in WITHOUT_SESSIONS or route.methods != {"GET"} or path.endswith("/watch"):
                continue
            for query in QUERIES.get(path, [{}]):
                for user in ("ann", "bob", "boss"):
                    answer = await bench.get(user, asked, **query)
                    where = (path, query, user, answer.status_code)
                    assert (SECRET in answer.text) == (user != "ann"), where
                    assert answer.status_code in ((200, 404) if user == "ann" else (200,)), where


async def test_routes_without_sessions_show_none(store: SqlTraceStore) -> None:
    async with team(store) as bench:
        for path in ("/", "/page/page.js", "/openapi.json", "/api/me"):
            for user in ("ann", "boss"):
                answer = await bench.get(user, path)
                assert answer.status_code == 200
                assert SECRET not in answer.text


async def test_watching_shows_only_own_sessions(store: SqlTraceStore) -> None:
    async with team(store) as bench:
        routes = [route for route in all_routes(bench.server.app) if isinstance(route, APIWebSocketRoute)]
        assert [route.path for route in routes] == ["/api/traces/{trace_id}/watch"], (
            "add the new one to this test"
        )
        for query in ("", "branch_id=A"):
            with pytest.raises(InvalidStatus) as refused:
                await watched(bench.port, BOB, bench.bearer("ann"), query)
            assert refused.value.response.status_code == 404
            assert SECRET.encode() not in (refused.value.response.body or b"")
            for user in ("bob", "boss"):
                async with watched(bench.port, BOB, bench.bearer(user), query) as socket:
                    assert SECRET in str(await socket.recv())


def test_a_view_of_one_user_refuses_every_method(store: SqlTraceStore) -> None:
    view = store.of_user("ann")
    for name in (
        "trace",
        "goal_tree",
        "children",
        "messages",
        "events",
        "last_event_id",
        "size",
        "snapshot",
        "delete",
    ):
        for session_id in (BOB, f"{BOB}:A"):
            with pytest.raises(UnknownTraceError):
                getattr(view, name)(session_id)
    for session_id in (BOB, f"{BOB}:A"):
        with pytest.raises(UnknownTraceError):
            list(view.attached(session_id))
        with pytest.raises(UnknownTraceError):
            list(view.lines(session_id))
        assert view.copied(session_id) == 0
    assert [one.trace_id for one in view.traces(limit=9)] == [ANN]
    assert view.missions([ANN, BOB]) == {ANN: "mission harmless"}
    assert view.size(ANN) > 0 and view.children(ANN) == [f"{ANN}:A"]


async def test_running_session_of_another_machine_is_followed(store: SqlTraceStore) -> None:
    bob = SqlTraceStore(store.engine, "bob")
    async with team(store) as bench, watched(bench.port, BOB, bench.bearer("bob")) as socket:
        last = bob.last_event_id(BOB)
        await hear(socket, to=last)
        bob.append(added(message(3, "one more", BOB), BOB))
        bob.append(added(message(4, "and another", BOB), BOB))
        heard = await hear(socket, to=last + 2)
        said = [
            frame["message"]["content"][0]["text"] for frame in heard if frame["event"] == "message_added"
        ]
        assert said == ["one more", "and another"]


# -- tokens --


async def test_only_a_valid_token_opens_paths(store: SqlTraceStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    now = datetime.now(UTC)
    over = issue(store, "ann", ["own"], now - timedelta(days=2), now - timedelta(days=1))
    async with team(store) as bench:
        ann = bench.tokens["ann"]
        other = ann[:-1] + ("A" if ann[-1] != "A" else "B")
        bench.server.access.brake = Brake(lambda: 0.0)
        for path in (
            "/api/traces",
            f"/api/traces/{ANN}",
            "/openapi.json",
            "/api/me",
            "/nothing",
            "/page/../api/traces",
        ):
            for lines in (
                [],
                ["Authorization: Bearer "],
                [f"Authorization: Basic {ann}"],
                [f"X-Token: {ann}"],
                [f"Authorization: Bearer {ann}", f"Authorization: Bearer {ann}"],
                [f"Cookie: goalwright={ann}"],
                [f"Cookie: goalwright-{bench.port}={ann}; goalwright-{bench.port}={bench.tokens['boss']}"],
            ):
                answer = await get(bench.port, path, *lines)
                assert answer.status == 401, (path, lines)
                assert b"traceback" not in answer.body.lower()
            assert (await get(bench.port, f"{path}?token={ann}")).status == 401
        for token in (over, ann[4:], "gwt_00000000_" + "A" * 43):
            assert (await get(bench.port, "/api/traces", f"Authorization: Bearer {token}")).status == 401
        assert (await get(bench.port, "/api/traces", f"Authorization: Bearer {other}")).status == 401
        assert (await get(bench.port, "/api/traces", f"Authorization: Bearer {ann}")).status == 200
        assert (
            await get(bench.port, "/api/traces", f"Cookie: x=y; goalwright-{bench.port}={ann}")
        ).status == 200
        for status, path in ((401, f"/api/traces/{ANN}/watch"), (401, "/"), (401, "/page/page.js")):
            assert (await upgrade(bench.port, path)).status == status
    assert not re.search("gwt_[0-9a-f]{8}_", caplog.text)


async def test_signing_in_sets_a_cookie_that_scripts_cannot_read(store: SqlTraceStore) -> None:
    async with team(store) as bench:
        origin = {"origin": f"http://127.0.0.1:{bench.port}"}
        signed = await bench.client.post("/sign-in", json={"token": bench.tokens["ann"]}, headers=origin)
        assert (signed.status_code, signed.content) == (204, b"")
        cookie = signed.headers["set-cookie"]
        assert cookie.startswith(f"goalwright-{bench.port}=gwt_")
        assert cookie.endswith("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict")
        me = await bench.client.get("/api/me")
        assert me.json() == {"user": "ann", "scopes": ["own"], "expires_at": None}
        out = await bench.client.post("/sign-out", headers=origin)
        assert "Max-Age=0" in out.headers["set-cookie"]
        assert (await bench.client.get("/api/me")).status_code == 401
        for headers, body, status in (
            ({}, {"token": bench.tokens["ann"]}, 403),
            ({"origin": "https://evil.example"}, {"token": bench.tokens["ann"]}, 403),
            ({"origin": "null"}, {"token": bench.tokens["ann"]}, 403),
            (origin, {"token": "wrong"}, 401),
            (origin, {"token": ["x"]}, 422),
            (origin, {"token": "x" * 5000}, 422),
        ):
            answer = await bench.client.post("/sign-in", json=body, headers=headers)
            assert (answer.status_code, "set-cookie" in answer.headers) == (status, False), (headers, body)
        for method, path in (("POST", "/api/traces"), ("DELETE", "/api/search"), ("PUT", "/sign-in")):
            answer = await bench.client.request(method, path, headers={**bench.bearer("boss"), **origin})
            assert answer.status_code == 405


async def test_behind_tls_only_the_public_address_counts(store: SqlTraceStore) -> None:
    async with team(store, public_url="https://Traces.example.com/") as bench:
        token = f"Authorization: Bearer {bench.tokens['ann']}"
        for host, origin, status in (
            ("traces.example.com", "https://traces.example.com", 200),
            ("traces.example.com:443", "https://traces.example.com", 200),
            ("traces.example.com", "http://traces.example.com", 403),
            ("traces.example.com", "https://traces.example.com.evil.example", 403),
            ("evil.example", "https://traces.example.com", 403),
            ("traces.example.com:80", "https://traces.example.com", 403),
        ):
            answer = await get(bench.port, "/api/traces", token, f"Origin: {origin}", host=host)
            assert answer.status == status, (host, origin)
        forwarded = ("X-Forwarded-Host: traces.example.com", "Forwarded: host=traces.example.com")
        assert (await get(bench.port, "/api/traces", token, *forwarded, host="evil.example")).status == 403
        signed = await bench.client.post(
            "/sign-in",
            json={"token": bench.tokens["ann"]},
            headers={"host": "traces.example.com", "origin": "https://traces.example.com"},
        )
        assert signed.headers["set-cookie"].startswith("__Host-goalwright=gwt_")
        assert signed.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
        page = await get(bench.port, "/", host="traces.example.com")
        assert "wss://traces.example.com" in page.header("content-security-policy")
        assert b"token=" not in page.body


@pytest.mark.parametrize(
    ("host", "url", "plain", "words"),
    [
        ("0.0.0.0", None, False, "--public-url"),
        ("192.0.2.1", None, True, "--public-url"),
        ("0.0.0.0", "http://traces.example.com", False, "--plain-http"),
        ("127.0.0.1", "ftp://x", False, "is not an address"),
        ("127.0.0.1", "https://x/path", False, "is not an address"),
        ("127.0.0.1", "https://u:p@x", False, "is not an address"),
        ("127.0.0.1", "https://x:99999", False, "is not an address"),
        ("127.0.0.1", "https://", False, "is not an address"),
        ("127.0.0.1", "https://[::1", False, "is not an address"),
    ],
)
def test_unsafe_addresses_are_refused(host: str, url: str | None, plain: bool, words: str) -> None:
    with pytest.raises(ApiError, match=words):
        public_place(url, host, 8000, plain=plain)


def test_safe_addresses_are_accepted() -> None:
    assert public_place(None, "::1", 8000, plain=False).url == "http://[::1]:8000"
    assert public_place("http://box:8000", "0.0.0.0", 8000, plain=True).url == "http://box:8000"
    assert (
        public_place("http://localhost:8000", "127.0.0.1", 8000, plain=False).url == "http://localhost:8000"
    )


async def test_removed_token_ends_its_watching(store: SqlTraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_access, "_LOOKS_S", 0.02)
    monkeypatch.setattr(team_access, "_REMEMBERED_S", 0.0)
    async with team(store) as bench, watched(bench.port, ANN, bench.bearer("ann")) as socket:
        await socket.recv()
        assert revoke(store, "ann") == 1
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        assert (await bench.get("ann", "/api/traces")).status_code == 401


def test_wrong_tokens_are_answered_later_and_later() -> None:
    now = [0.0]
    brake = Brake(lambda: now[0])
    waits = [brake.failed() for _ in range(9)]
    assert waits == [0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    now[0] = 61.0
    assert brake.failed() == 0.0


async def test_many_wrong_tokens_keep_nobody_out(
    store: SqlTraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_access, "_LONGEST_S", 1.0)
    monkeypatch.setattr(team_access, "_MOST_WAITING", 4)
    async with team(store) as bench:
        wrong = [get(bench.port, "/api/traces", "Authorization: Bearer x") for _ in range(60)]
        trying = asyncio.gather(*wrong)
        assert (await bench.get("ann", "/api/traces")).status_code == 200
        answers = await trying
        assert {answer.status for answer in answers} == {401, 429}


def test_tokens_are_listed_and_removed_without_secrets(store: SqlTraceStore) -> None:
    now = datetime.now(UTC)
    first = issue(store, "ann", ["own"], now)
    second = issue(store, "ann", ["all"], now, now + timedelta(days=1))
    assert {(one.user, one.sees) for one in grants(store)} == {("ann", "ann"), ("ann", None)}
    with store.engine.connect() as connection:
        rows = repr(connection.execute(sa.select(metadata.tables["tokens"])).all())
    assert first.split("_", 2)[2] not in rows
    assert grant_of(store, second, now) is not None
    assert grant_of(store, second, now + timedelta(days=1)) is None
    assert revoke(store, "bob") == revoke(store, "ann", "00000000") == 0
    assert revoke(store, "ann", first.split("_")[1]) == 1
    assert grant_of(store, first, now) is None
    for name in ("", " ", "a\nb", "x" * 101):
        with pytest.raises(StoreError):
            issue(store, name, ["own"], now)


async def test_slow_sender_is_answered(store: SqlTraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_server, "HEAD_S", 0.05)
    async with team(store) as bench:
        host = f"127.0.0.1:{bench.port}"
        head = f"POST /sign-in HTTP/1.1\nHost: {host}\nOrigin: http://{host}\nConnection: close\n"
        head += "Content-Length: 900\n\n{"
        assert (await raw(bench.port, head)).status == 422


# -- deleting --


async def test_only_who_may_delete_deletes_what_it_sees(store: SqlTraceStore) -> None:
    async with team(store) as bench:
        bench.tokens["cleaner"] = issue(store, "bob", ["own", "delete"], datetime.now(UTC))
        for user, trace_id, status in (
            ("bob", BOB, 403),
            ("boss", BOB, 403),
            ("cleaner", ANN, 404),
            ("cleaner", f"{BOB}:A", 404),
            ("cleaner", "nothing", 404),
            ("cleaner", BOB, 204),
            ("cleaner", BOB, 404),
        ):
            answer = await bench.client.delete(f"/api/traces/{trace_id}", headers=bench.bearer(user))
            assert answer.status_code == status, (user, trace_id)
        cookie = {"cookie": f"goalwright-{bench.port}={bench.tokens['cleaner']}"}
        assert (await bench.client.delete(f"/api/traces/{BOB}", headers=cookie)).status_code == 403
        assert [one["trace_id"] for one in (await bench.get("boss", "/api/traces")).json()["traces"]] == [ANN]
        assert SECRET not in (await bench.get("boss", "/api/search", q=SECRET)).text


async def test_server_deletes_sessions_that_nobody_used(store: SqlTraceStore) -> None:
    new = message(3, "new", ANN).model_copy(update={"created_at": datetime.now(UTC)})
    SqlTraceStore(store.engine, "ann").append(added(new, f"{ANN}:A"))
    async with team(store, keep_days=30):
        await until(lambda: len(store.traces(limit=9)) == 1, "the deletion")
    assert [one.trace_id for one in store.traces(limit=9)] == [ANN], "a branch was used"


# -- a hostile user, and a server that is killed --


async def test_hostile_ids_and_parameters_find_nothing(store: SqlTraceStore) -> None:
    async with team(store) as bench:
        for path in (
            f"/api/traces/{BOB}%00",
            f"/api/traces/{BOB}:A",
            f"/api/traces/{ANN}/../{BOB}",
            f"/api/traces/..%2f{BOB}",
            f"/api/traces/{ANN}/branches/..%2f..%2f{BOB}",
            "/api/traces/'%20OR%201=1--",
            f"/api/traces/{ANN}%25",
            f"/api/traces/{BOB.upper()}",
            f"/api/traces/{ANN}/messages?branch_id=A%27%20OR%20%271",
            f"/api/traces?before={BOB}'--",
            "/api/traces?before=%00",
            "/api/search?q=%00&before=%00",
            "/api/search?q=%22%20OR%20folded%20MATCH%20%22ge",
            "/api/search?q=%25&limit=200",
            "/api/search?q=_&before=~",
            "/api/stats?by=user'--",
            "/api/stats?days=nan",
            "/api/stats?days=1e308&limit=1000",
            "/api/traces?limit=500&before=~~~",
            f"/api/traces/{ANN}/messages?limit=1000&before=999999999999999",
            "/api/traces?agent='%20OR%20''='",
        ):
            answer = await get(bench.port, path, f"Authorization: Bearer {bench.tokens['ann']}")
            assert answer.status in (200, 400, 404, 422), (path, answer.status)
            assert SECRET.encode() not in answer.body, path


async def test_requests_with_one_token_ask_the_database_once() -> None:
    asked: list[str] = []
    go = asyncio.Event()

    async def check(token: str) -> None:
        asked.append(token)
        await go.wait()
        raise UnreachableError("gone")

    access = TeamAccess(public_place(None, "127.0.0.1", 1, plain=False), check)
    waiting = [asyncio.create_task(access.signed_in(token)) for token in "aaab"]
    await until(lambda: len(asked) == 2, "both tokens")
    waiting[0].cancel()
    go.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [getattr(one, "status", None) for one in answers] == [None, 503, 503, 503]
    assert asked == ["a", "b"]
    assert getattr(await access.signed_in("a"), "status", None) == 503
    assert asked == ["a", "b", "a"]


async def test_killed_database_is_told_and_comes_back(tmp_path: Path) -> None:
    server = Postgres()
    try:
        store = SqlTraceStore.open(server.database("team"))
        tell(store, ANN, "ann", "harmless")
        async with team(store) as bench:
            async with watched(bench.port, ANN, bench.bearer("ann")) as socket:
                await socket.recv()
                server.kill()
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        await socket.recv()
                assert closed.value.rcvd is not None
                assert (closed.value.rcvd.code, "database" in closed.value.rcvd.reason) == (1013, True)
            for user in ("ann", "boss"):
                answer = await bench.get(user, f"/api/traces/{ANN}/messages")
                assert answer.status_code == 503
                assert "cannot be reached" in answer.text and str(server.folder) not in answer.text
            with pytest.raises(InvalidStatus) as refused:
                await watched(bench.port, ANN, bench.bearer("ann"))
            assert refused.value.response.status_code == 503
            server.start()
            assert (await bench.get("ann", f"/api/traces/{ANN}/messages")).status_code == 200
            async with watched(bench.port, ANN, bench.bearer("ann")) as socket:
                assert "harmless" in str(await socket.recv())
        store.close()
    finally:
        server.end()


async def test_database_that_hangs_is_told_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_access, "_REMEMBERED_S", 0.0)
    monkeypatch.setattr("daemon.store.sql.connections._CONNECT_S", 2)
    server = Postgres()
    try:
        store = SqlTraceStore.open(server.database("team"), silent_s=1)
        tell(store, ANN, "ann", "harmless")
        async with team(store) as bench:
            assert (await bench.get("ann", f"/api/traces/{ANN}/messages")).status_code == 200
            server.freeze()
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(bench.get("ann", f"/api/traces/{ANN}/messages")) for _ in range(3)]
            assert {one.result().status_code for one in asked} == {503}
            assert caplog.text.count("nobody is let in: The database postgresql://goalwright@/team") == 1
            server.freeze(signal.SIGCONT)
            assert (await bench.get("ann", f"/api/traces/{ANN}/messages")).status_code == 200
        store.close()
    finally:
        server.end()
