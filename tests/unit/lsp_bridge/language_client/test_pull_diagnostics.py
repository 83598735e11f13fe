from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lsp_bridge.language_client.server import pull_diagnostics as module
from lsp_bridge.language_client.server.diagnostics_freshness import DiagnosticsTracker
from lsp_bridge.language_client.server.pull_diagnostics import Pulls

FILES = [Path(f"/w/{number}.py") for number in range(5)]
TURNS = 2000
"""Rounds of the event loop: far more than anything that ends on its own takes here."""


class Server:
    """Asked through Pulls; ``then`` is what it does when it has answered, and ``meanwhile`` what is read in one piece
    with the answer."""

    def __init__(self, items: list[dict[str, Any]] | None = None) -> None:
        self.asked: list[str] = []
        self.taken: list[tuple[dict[str, Any], ...]] = []
        self.waited: set[Path] = set()
        self.then: Callable[[], None] = lambda: None
        self.meanwhile: Callable[[], None] = lambda: None
        self.answers = DiagnosticsTracker()
        self.items = items or []
        self.tasks: set[asyncio.Task[None]] = set()
        self.pulls = Pulls(
            self.ask, self.answers, lambda _: [None], self.take, self.spawn, waited=self.waited.__contains__,
            timeout_s=10.0,
        )  # fmt: skip
        for path in FILES:
            self.answers.sync(path, "text", now=0.0, pull=True)

    async def ask(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        self.asked.append(Path(params["textDocument"]["uri"]).name)
        items = self.items
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(self.then)
        self.meanwhile()
        return {"kind": "full", "items": items}

    def take(self, path: Path, version: int, reports: list[Mapping[str, Any]]) -> None:
        self.taken.append(tuple(reports[0]["items"]))
        self.answers.pull(path, version, self.taken[-1], now=0.0)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def settle(self) -> int:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return len(self.asked)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_REFRESH_PAUSE_S", 0.0)
    yield


async def test_work_that_our_own_pulls_cause_makes_no_endless_pulls() -> None:
    server = Server()
    server.then = server.pulls.after_work
    for path in FILES:
        server.pulls.soon(path)
    assert await server.settle() >= len(FILES)
    for _ in range(5):
        server.pulls.after_work()
        await server.settle()
    assert len(server.asked) <= 3 * len(FILES)


async def test_refresh_after_every_answer_causes_no_endless_pulls() -> None:
    server = Server()
    server.then = server.pulls.refresh
    for path in FILES:
        server.pulls.soon(path)
    assert await server.settle() <= 2 * len(FILES)


@pytest.mark.parametrize("waited", [False, True])
async def test_empty_answer_read_with_end_of_work_is_not_taken(waited: bool) -> None:
    server = Server()
    server.waited.update(FILES[:1] if waited else ())

    def end_of_work() -> None:
        assert not server.answers.has_pulled(FILES[0])
        server.items, server.meanwhile = [{"message": "bad"}], lambda: None
        server.pulls.after_work()

    server.meanwhile = end_of_work
    server.pulls.soon(FILES[0])
    assert await server.settle() == 2
    assert server.taken == [({"message": "bad"},)]


async def test_awaited_answer_read_with_a_refresh_is_not_taken() -> None:
    server = Server([{"message": "old"}])
    server.waited.add(FILES[0])
    refreshes = iter((server.pulls.refresh, server.pulls.refresh))

    def refresh() -> None:
        server.items = [{"message": f"new {len(server.asked)}"}]
        next(refreshes, lambda: None)()

    server.meanwhile = refresh
    server.answers.documents = OrderedDict({FILES[0]: server.answers.documents[FILES[0]]})
    server.pulls.soon(FILES[0])
    assert await server.settle() == 3
    assert server.taken == [({"message": "new 2"},)]


@pytest.mark.parametrize("event", ["refresh", "after_work"])
async def test_endless_events_beside_answers_do_not_keep_them_away(event: str) -> None:
    server = Server()
    server.meanwhile = getattr(server.pulls, event)
    server.waited.add(FILES[0])

    def stop_waiting() -> None:
        if server.taken:
            server.waited.clear()

    server.then = stop_waiting
    server.answers.documents = OrderedDict({FILES[0]: server.answers.documents[FILES[0]]})
    server.pulls.soon(FILES[0])
    assert await server.settle() <= 4
    assert server.taken and server.answers.has_pulled(FILES[0])


async def test_sure_answer_read_with_the_end_of_work_is_taken() -> None:
    server = Server([{"message": "bad"}])
    server.meanwhile = server.pulls.after_work
    server.pulls.soon(FILES[0])
    assert await server.settle() == 1
    assert server.taken == [({"message": "bad"},)]


async def test_after_work_only_empty_answers_are_pulled_again() -> None:
    server = Server([{"message": "bad"}])
    server.pulls.soon(FILES[0])
    await server.settle()
    server.answers.pull(FILES[0], server.answers.documents[FILES[0]].version, ({"message": "bad"},), now=0.0)
    server.pulls.after_work()
    assert await server.settle() == 1


async def test_refresh_pulls_only_awaited_or_unanswered_files() -> None:
    server = Server()
    for path in FILES[:4]:
        server.pulls.soon(path)
    await server.settle()
    server.asked.clear()
    server.waited.add(FILES[1])
    server.pulls.refresh()
    await server.settle()
    assert sorted(server.asked) == ["1.py", "4.py"]


async def test_refreshed_files_are_pulled_before_a_comparison() -> None:
    server = Server()
    for path in FILES:
        server.pulls.soon(path)
    await server.settle()
    server.asked.clear()
    server.pulls.refresh()
    assert await server.settle() == 0
    server.pulls.catch_up()
    assert await server.settle() == len(FILES)
    server.pulls.catch_up()
    assert await server.settle() == len(FILES)


async def test_answered_file_is_asked_about_again_only_after_a_change() -> None:
    server = Server([{"message": "bad"}])
    server.pulls.soon(FILES[0])
    server.pulls.again(FILES[0])
    await server.settle()
    server.pulls.again(FILES[0])
    assert await server.settle() == 1
    server.answers.sync(FILES[1], "other", now=0.0, pull=True)
    server.pulls.again(FILES[0])
    assert await server.settle() == 2
    server.answers.changed_on_disk()
    server.pulls.again(FILES[0])
    assert await server.settle() == 3
    server.pulls.refresh()
    server.pulls.again(FILES[0])
    await server.settle()
    assert "0.py" in server.asked[3:]


async def test_unanswered_or_closed_files_are_not_taken_for_answered() -> None:
    server = Server()
    server.pulls.again(FILES[0])
    server.pulls.again(Path("/w/closed.py"))
    await server.settle()
    assert server.asked == ["0.py"]
    # An empty answer may be too early; that of such a server is asked for again.
    server.pulls.again(FILES[0])
    await server.settle()
    assert server.asked == ["0.py", "0.py"]


async def test_the_file_that_is_waited_for_is_asked_about_first() -> None:
    server = Server()
    for path in reversed(FILES):
        server.pulls.soon(path)
    await server.settle()
    assert server.asked == ["4.py", "3.py", "2.py", "1.py", "0.py"]


async def test_newly_registered_server_is_pulled_for_everything() -> None:
    server = Server()
    server.pulls.everything()
    assert await server.settle() == len(FILES)


@pytest.mark.parametrize("rounds", range(8))
async def test_answer_from_before_a_question_does_not_answer_it(rounds: int) -> None:
    server = Server([{"message": "old"}])
    server.pulls.soon(FILES[0])
    for _ in range(rounds):
        await asyncio.sleep(0)
    server.items, before = [{"message": "new"}], server.answers.count
    server.pulls.soon(FILES[0])
    for _ in range(TURNS):
        if server.answers.heard(FILES[0], before):
            break
        await asyncio.sleep(0)
    assert server.answers.known(FILES[0]) == ({"message": "new"},)
