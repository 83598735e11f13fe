"""The answer "always": what it remembers, where, and what else it answers; and questions that nobody answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.model.permissions import Grant, Rule, Scope
from daemon.permission.answers import LONGEST_PATTERN, MOST_GRANTS
from daemon.permission.grants import GrantsNotStoredError, GrantStore
from daemon.permission.service import CallInfo
from daemon.store.trace_store import StoreError
from tests.support.fakes.asker import NOW, FakeAsker, Inbox
from tools.access import Access
from tools.tool import PermissionDeniedError, ToolError


def grant(pattern: str, permission: str = "edit") -> Grant:
    return Grant(permission=permission, pattern=pattern)


@pytest.fixture
def store(tmp_path: Path) -> GrantStore:
    return GrantStore(tmp_path / "home" / "grants.json", tmp_path / "home" / "here.json", lambda: NOW)


def asker_of(store: GrantStore, session_id: str = "s") -> FakeAsker:
    """A session to which the store's grants apply."""
    asker = FakeAsker(session_id)
    asker.everywhere = lambda: (*store.rules()[0], *store.rules()[1])
    return asker


async def test_edited_grant_is_stored_and_releases_matching_requests() -> None:
    inbox, asker = Inbox(), FakeAsker()
    first = await inbox.ask(asker, "src/a.py", "src/*")
    await inbox.ask(asker, "src/b.txt", "src/*")
    await inbox.ask(asker, "lib/c.py", "lib/*")
    inbox.service.reply(first, "always", None, "x", grants=[grant("*.py"), grant("*.py")])
    assert asker.remembered[0] == ((grant("*.py"),), "session")
    assert await inbox.outcome(2) == "allowed"
    assert [r.targets[0] for r in inbox.service.pending()] == ["src/b.txt"]


@pytest.mark.parametrize("scope", ["workspace", "user"])
async def test_wider_grant_is_stored_and_releases_requests_elsewhere(store: GrantStore, scope: Scope) -> None:
    inbox = Inbox(store)
    one, other = asker_of(store, "s"), asker_of(store, "t")
    first = await inbox.ask(one, "src/a.py", "src/*")
    await inbox.ask(other, "src/b.py", "src/*")
    await inbox.ask(other, "lib/c.py", "lib/*")
    assert inbox.service.reply(first, "always", None, "Ann", scope=scope) == (True, "Ann")
    assert await inbox.outcome(0) == await inbox.outcome(1) == "allowed"
    assert [r.targets[0] for r in inbox.service.pending()] == ["lib/c.py"]
    (kept,) = store.all()
    assert (kept.scope, kept.pattern, kept.by, kept.title) == (scope, "src/*", "Ann", "edit src/a.py")
    assert one.remembered == [((grant("src/*"),), scope)]
    assert one.granted == []
    assert await inbox.ask(other, "src/d.py") == ""


BAD: list[tuple[list[Grant], str]] = [
    ([], "write a pattern, or answer once"),
    ([grant("")], "is empty"),
    ([grant("  ")], "is empty"),
    ([grant("a\nb")], "control character"),
    ([grant("a\x00")], "control character"),
    ([grant("a\x1b[2J")], "control character"),
    ([grant("a\u2028b")], "line break"),
    ([grant("\ud83d")], "control character"),
    ([grant("x" * (LONGEST_PATTERN + 1))], "501 characters"),
    ([grant(f"{number}") for number in range(MOST_GRANTS + 1)], "21 patterns"),
    ([grant("*", "bash")], "not about 'bash'"),
    ([grant("*", "*")], "not about '\\*'"),
    ([grant("src/*"), grant("ls *", "bash\n")], "not about 'bash"),
]


@pytest.mark.parametrize(("grants", "message"), BAD)
@pytest.mark.parametrize("scope", ["session", "workspace", "user"])
async def test_invalid_grant_is_refused_and_the_request_stays_open(
    store: GrantStore, grants: list[Grant], message: str, scope: Scope
) -> None:
    inbox, asker = Inbox(store), asker_of(store)
    request_id = await inbox.ask(asker, "src/a.py", "src/*")
    with pytest.raises(ToolError, match=message):
        inbox.service.reply(request_id, "always", None, "x", grants=grants, scope=scope)
    assert [r.request_id for r in inbox.service.pending()] == [request_id]
    assert (asker.replies, store.all()) == ([], [])
    inbox.service.reply(request_id, "once", None, "x", grants=grants, scope=scope)  # "once" remembers nothing
    assert await inbox.outcome(0) == "allowed"
    assert (asker.granted, store.all()) == ([], [])


async def test_additional_accesses_of_a_call_can_be_granted() -> None:
    inbox, asker = Inbox(), FakeAsker()
    outside = Access("external_directory", "/data/*")
    first = await inbox.ask(asker, "make", "make *", permission="bash", accesses=(outside,))
    grants = [grant("make *", "bash"), grant("/data/*", "external_directory")]
    inbox.service.reply(first, "always", None, "x", grants=grants)
    assert await inbox.outcome(0) == "allowed"
    assert await inbox.ask(asker, "make", permission="bash", accesses=(outside,)) == ""


async def test_suggested_multi_line_command_can_be_granted() -> None:
    inbox, asker = Inbox(), FakeAsker()
    command = "echo 'a\nb'"
    first = await inbox.ask(asker, command, command, permission="bash")
    inbox.service.reply(first, "always", None, "x", grants=[grant(command, "bash")])
    assert await inbox.ask(asker, command, permission="bash") == ""


async def test_always_without_suggestions_acts_once_and_takes_no_scope(
    store: GrantStore,
) -> None:
    inbox, asker = Inbox(store), asker_of(store)
    request_id = await inbox.ask(asker, "src/a.py")
    with pytest.raises(ToolError, match="answer once"):
        inbox.service.reply(request_id, "always", None, "x", scope="user")
    inbox.service.reply(request_id, "always", None, "x")
    assert await inbox.outcome(0) == "allowed"
    assert await inbox.ask(asker, "src/a.py") != ""


@pytest.mark.parametrize("permission", ["budget", "doom_loop"])
async def test_budget_and_loop_answers_are_not_kept_beyond_the_session(
    store: GrantStore, permission: str
) -> None:
    inbox, asker = Inbox(store), asker_of(store)
    request_id = await inbox.ask(asker, "session", "session", permission=permission)
    with pytest.raises(ToolError, match="only be allowed for this session"):
        inbox.service.reply(request_id, "always", None, "x", scope="workspace")
    inbox.service.reply(request_id, "always", None, "x")
    assert await inbox.outcome(0) == "allowed"


async def test_wider_scope_that_cannot_be_stored_is_refused() -> None:
    inbox, asker = Inbox(), FakeAsker()
    request_id = await inbox.ask(asker, "a.py", "*")
    with pytest.raises(StoreError, match="for the session only"):
        inbox.service.reply(request_id, "always", None, "x", scope="user")
    assert len(inbox.service.pending()) == 1
    inbox.service.reply(request_id, "always", None, "x")
    assert await inbox.outcome(0) == "allowed"


async def test_unstorable_grant_leaves_the_request_pending(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    store = GrantStore(tmp_path / "home" / "grants.json", tmp_path / "home" / "here.json", lambda: NOW)
    inbox, asker = Inbox(store), asker_of(store)
    request_id = await inbox.ask(asker, "src/a.py", "src/*")
    await inbox.ask(asker, "src/b.py", "src/*")
    with pytest.raises(GrantsNotStoredError):
        inbox.service.reply(request_id, "always", None, "x", scope="user")
    assert len(inbox.service.pending()) == 2
    assert asker.replies == []
    inbox.service.reply(request_id, "always", None, "x")
    assert await inbox.outcome(0) == await inbox.outcome(1) == "allowed"


async def test_unrecordable_reply_leaves_no_grant(store: GrantStore) -> None:
    inbox, asker = Inbox(store), asker_of(store)
    request_id = await inbox.ask(asker, "src/a.py", "src/*")
    asker.broken = True
    with pytest.raises(StoreError, match="disk is full"):
        inbox.service.reply(request_id, "always", None, "x", scope="user")
    assert store.all() == []
    with pytest.raises(StoreError):
        await inbox.tasks[0]


async def test_failing_release_in_one_session_does_not_block_others(
    store: GrantStore,
) -> None:
    inbox = Inbox(store)
    askers = [asker_of(store, name) for name in ("one", "broken", "three")]
    ids = [await inbox.ask(asker, "src/a.py", "src/*") for asker in askers]
    askers[1].broken = True
    assert inbox.service.reply(ids[0], "always", None, "x", scope="user") == (True, "x")
    assert await inbox.outcome(0) == await inbox.outcome(2) == "allowed"
    with pytest.raises(StoreError):
        await inbox.tasks[1]


async def test_the_second_answer_stores_nothing(store: GrantStore) -> None:
    inbox, asker = Inbox(store), asker_of(store)
    request_id = await inbox.ask(asker, "src/a.py", "src/*")
    assert inbox.service.reply(request_id, "reject", "no", "Ann") == (True, "Ann")
    assert inbox.service.reply(request_id, "always", None, "Bob", scope="user") == (False, "Ann")
    assert store.all() == []


async def test_pending_requests_are_released_when_rules_allow_them() -> None:
    inbox, one, other = Inbox(), FakeAsker("s"), FakeAsker("t")
    await inbox.ask(one, "a.py")
    await inbox.ask(other, "a.py")
    for asker in (one, other):
        asker.granted.append(Rule(permission="edit", pattern="*.py", action="allow", source="session"))
    inbox.service.release("s", "Ann")
    assert await inbox.outcome(0) == "allowed"
    assert [r.trace_id for r in inbox.service.pending()] == ["t"]
    inbox.service.release(None, "Ann")
    assert await inbox.outcome(1) == "allowed"


# -- what a refusal and a question say --


async def test_a_denied_argument_of_a_command_is_named() -> None:
    deny = Rule(permission="read", pattern="*.env", action="deny", source="user", file="/home/a/config.json")
    inbox, asker = Inbox(), FakeAsker("s", deny)
    reads = Access("read", ".env", why="argument of cat", implied=True)
    await inbox.ask(asker, "cat .env", permission="bash", accesses=(reads,))
    with pytest.raises(PermissionDeniedError) as caught:
        await inbox.tasks[0]
    assert caught.value.by_rule
    assert "The command would read .env (argument of cat)" in caught.value.reason
    assert "the user rule `read: *.env → deny` of /home/a/config.json forbids" in caught.value.reason
    assert asker.asked_for == []


async def test_denial_names_some_targets_and_counts_the_rest() -> None:
    deny = Rule(permission="read", pattern="secret/*", action="deny", source="user")
    inbox, asker = Inbox(), FakeAsker("s", deny)
    reads = tuple(Access("read", f"secret/{number}") for number in range(10))
    await inbox.ask(asker, "cat secret/*", permission="bash", accesses=reads)
    with pytest.raises(PermissionDeniedError, match="And 7 more"):
        await inbox.tasks[0]


async def test_request_lists_all_accesses_and_warnings() -> None:
    inbox, asker = Inbox(), FakeAsker()
    accesses = (Access("read", "a.py"), Access("edit", "out.txt", why="> out.txt"))
    warnings = ("git reset --hard discards uncommitted changes",)
    await inbox.ask(asker, "make", permission="bash", accesses=accesses, warnings=warnings)
    (request,) = asker.asked_for
    assert {(r.permission, r.target, r.why) for r in request.reasons} == {
        ("bash", "make", ""),
        ("edit", "out.txt", "> out.txt"),
    }
    assert request.warnings == warnings
    inbox.tasks[0].cancel()


async def test_child_requests_are_listed_under_the_main_session() -> None:
    inbox = Inbox()
    for session_id in ("s", "s:A", "s:A.s1", "s2"):
        await inbox.ask(FakeAsker(session_id), "a.py", "*.py")
    assert [(r.trace_id, r.branch_id) for r in inbox.service.pending("s")] == [
        ("s", None),
        ("s", "A"),
        ("s", "A.s1"),
    ]
    assert [r.branch_id for r in inbox.service.pending("s:A")] == ["A", "A.s1"]
    for task in inbox.tasks:
        task.cancel()


async def test_rejection_in_one_branch_does_not_affect_others() -> None:
    inbox = Inbox()
    first = await inbox.ask(FakeAsker("s:A"), "a.py", "*.py")
    await inbox.ask(FakeAsker("s:A.s1"), "b.py")
    other = await inbox.ask(FakeAsker("s:B"), "a.py", "*.py")
    inbox.service.reply(first, "reject", None, "x")
    assert await inbox.outcome(0) == "denied: None"
    assert await inbox.outcome(1) == "denied: None"
    assert [r.request_id for r in inbox.service.pending()] == [other]
    inbox.tasks[2].cancel()


# -- nobody answers --


async def test_unanswered_request_is_rejected_after_its_timeout() -> None:
    inbox, asker = Inbox(), FakeAsker()
    await inbox.ask(asker, "a.py", call=CallInfo("c", "edit", timeout_s=0.01))
    with pytest.raises(PermissionDeniedError, match="Nobody answered") as caught:
        async with asyncio.timeout(20):
            await inbox.tasks[0]
    assert caught.value.by_rule
    assert [(answer, by) for _, answer, _, by in asker.replies] == [("reject", "timeout")]
    assert inbox.service.pending() == []
    assert inbox.service.reply(asker.asked_for[0].request_id, "once", None, "late") == (False, "timeout")


async def test_timeout_rejects_no_other_request() -> None:
    inbox, asker = Inbox(), FakeAsker()
    other = await inbox.ask(asker, "b.py")
    await inbox.ask(asker, "a.py", call=CallInfo("c", "edit", timeout_s=0.01))
    assert await inbox.outcome(1) == "denied: None"
    assert [r.request_id for r in inbox.service.pending()] == [other]


@pytest.mark.parametrize("end", ["answer", "cancel"])
async def test_a_question_that_has_ended_is_not_timed_out_any_more(end: str) -> None:
    inbox, asker = Inbox(), FakeAsker()
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def noted(delay: float, *args: object) -> asyncio.TimerHandle:
        timers.append(call_later(delay, *args))  # type: ignore[arg-type]
        return timers[-1]

    loop.call_later = noted  # type: ignore[method-assign]
    request_id = await inbox.ask(asker, "a.py", call=CallInfo("c", "edit", timeout_s=3600))
    loop.call_later = call_later  # type: ignore[method-assign]
    (timer,) = [timer for timer in timers if timer.when() > loop.time() + 1000]
    if end == "answer":
        inbox.service.reply(request_id, "once", None, "x")
    else:
        inbox.tasks[0].cancel()
    await asyncio.wait(inbox.tasks)
    assert timer.cancelled()


async def test_unrecordable_timeout_still_ends_the_wait() -> None:
    inbox, asker = Inbox(), FakeAsker()
    asker.broken = True
    await inbox.ask(asker, "a.py", call=CallInfo("c", "edit", timeout_s=0.01))
    with pytest.raises(StoreError):
        async with asyncio.timeout(20):
            await inbox.tasks[0]
