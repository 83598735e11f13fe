"""The permission service: one inbox, the first answer wins, no caller waits forever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.loop.parallel_calls import CallTime, CallTimes
from daemon.model.permissions import FileAnswer, Grant, Rule
from daemon.permission.service import CallInfo, CallPermission, WaitingTime
from tests.support.drivers.waiting import until
from tests.support.fakes.asker import NOW, FakeAsker, Inbox
from tools.tool import FileChange, PermissionAsk, PermissionDeniedError, ToolError
from tools.writing.proposal import propose


async def test_allowed_call_asks_nothing() -> None:
    inbox, asker = Inbox(), FakeAsker()
    assert await inbox.ask(asker, "a.py", permission="read") == ""
    assert await inbox.outcome(0) == "allowed"
    assert asker.asked_for == []


async def test_denied_call_asks_nothing_and_names_its_rule() -> None:
    deny = Rule(permission="edit", pattern="*.lock", action="deny", source="user")
    inbox, asker = Inbox(), FakeAsker("s", deny)
    await inbox.ask(asker, "a.lock")
    with pytest.raises(
        PermissionDeniedError, match=r"user rule `edit: \*\.lock → deny` forbids edit on a\.lock"
    ) as caught:
        await inbox.tasks[0]
    assert caught.value.by_rule
    assert asker.asked_for == []


async def test_request_names_its_targets_and_rule() -> None:
    inbox, asker = Inbox(), FakeAsker()
    await inbox.ask(asker, "src/a.py", "src/*")
    (request,) = inbox.service.pending("s")
    assert request.targets == ("src/a.py",)
    assert request.suggestions == (Grant(permission="edit", pattern="src/*"),)
    assert [(r.permission, r.target, r.rule) for r in request.reasons] == [("edit", "src/a.py", request.rule)]
    assert request.branch_id is None
    assert (request.rule.permission, request.rule.pattern, request.rule.source) == ("edit", "*", "shipped")
    assert request.created_at == NOW
    assert request.tool_call_id == "c"
    assert inbox.service.pending("other") == []
    inbox.service.reply(request.request_id, "once", None, "Ann")
    assert await inbox.outcome(0) == "allowed"
    assert inbox.service.pending() == []


async def test_first_reply_wins_and_the_second_learns_who_replied() -> None:
    inbox, asker = Inbox(), FakeAsker()
    request_id = await inbox.ask(asker, "a.py")
    assert inbox.service.reply(request_id, "once", None, "Ann") == (True, "Ann")
    assert inbox.service.reply(request_id, "reject", None, "Bob") == (False, "Ann")
    assert await inbox.outcome(0) == "allowed"
    assert [(answer, by) for _, answer, _, by in asker.replies] == [("once", "Ann")]


async def test_an_unknown_request_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Inbox().service.reply("perm_nobody", "once", None, "x")


async def test_once_allows_this_and_nothing_else() -> None:
    inbox, asker = Inbox(), FakeAsker()
    first = await inbox.ask(asker, "src/a.py", "src/*")
    await inbox.ask(asker, "src/b.py", "src/*")
    inbox.service.reply(first, "once", None, "x")
    assert await inbox.outcome(0) == "allowed"
    assert len(inbox.service.pending()) == 1
    assert await inbox.ask(asker, "src/a.py", "src/*") != ""


async def test_always_releases_what_it_covers_in_this_session_only() -> None:
    inbox, asker, other = Inbox(), FakeAsker("s"), FakeAsker("t")
    first = await inbox.ask(asker, "src/a.py", "src/*")
    await inbox.ask(asker, "src/b.py", "src/*")
    await inbox.ask(asker, "lib/c.py", "lib/*")
    await inbox.ask(other, "src/d.py", "src/*")
    inbox.service.reply(first, "always", None, "x")
    assert await inbox.outcome(0) == "allowed"
    assert await inbox.outcome(1) == "allowed"
    assert [r.targets[0] for r in inbox.service.pending()] == ["lib/c.py", "src/d.py"]
    assert [answer for _, answer, _, _ in asker.replies] == ["always", "once"]
    assert await inbox.ask(asker, "src/e.py", "src/*") == ""
    assert await inbox.outcome(4) == "allowed"


async def test_plain_rejection_rejects_all_requests_of_the_session() -> None:
    inbox, asker, other = Inbox(), FakeAsker("s"), FakeAsker("t")
    first = await inbox.ask(asker, "a.py")
    await inbox.ask(asker, "b.py")
    await inbox.ask(other, "c.py")
    inbox.service.reply(first, "reject", None, "x")
    assert await inbox.outcome(0) == "denied: None"
    assert await inbox.outcome(1) == "denied: None"
    assert [r.targets[0] for r in inbox.service.pending()] == ["c.py"]


async def test_rejection_with_feedback_concerns_one_request() -> None:
    inbox, asker = Inbox(), FakeAsker()
    first = await inbox.ask(asker, "a.py")
    await inbox.ask(asker, "b.py")
    inbox.service.reply(first, "reject", "use c.py", "x")
    assert await inbox.outcome(0) == "denied: use c.py"
    assert len(inbox.service.pending()) == 1


async def test_a_canceled_call_withdraws_its_request() -> None:
    inbox, asker = Inbox(), FakeAsker()
    request_id = await inbox.ask(asker, "a.py")
    inbox.tasks[0].cancel()
    await asyncio.wait({inbox.tasks[0]})
    assert inbox.service.pending() == []
    assert [answer for _, answer, _, _ in asker.replies] == ["canceled"]
    with pytest.raises(KeyError):
        inbox.service.reply(request_id, "once", None, "late")


async def test_simultaneous_reply_and_cancel_record_one_end() -> None:
    inbox, asker = Inbox(), FakeAsker()
    request_id = await inbox.ask(asker, "a.py")
    inbox.service.reply(request_id, "once", None, "x")
    inbox.tasks[0].cancel()
    await asyncio.wait({inbox.tasks[0]})
    assert [answer for _, answer, _, _ in asker.replies] == ["once"]


async def test_both_versions_are_readable_while_a_change_is_pending() -> None:
    inbox, asker = Inbox(), FakeAsker()
    changes = (
        FileChange(Path("/w/a.py"), b"old\n", b"new\n"),
        FileChange(Path("/w/b.py"), None, b"made\n"),
    )
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "edit"), two_files(*changes)))
    await until(lambda: asker.asked_for)
    request = asker.asked_for[0]
    assert [(f.path, f.kind, f.added, f.removed) for f in request.files] == [
        ("a.py", "update", 1, 1),
        ("b.py", "create", 1, 0),
    ]
    proposed = inbox.service.proposed(request.request_id, "b.py")
    assert proposed is not None and proposed.change == changes[1]
    assert inbox.service.proposed(request.request_id, "c.py") is None
    inbox.service.reply(request.request_id, "once", None, "x")
    await task
    with pytest.raises(KeyError):
        inbox.service.proposed(request.request_id, "a.py")


def two_files(*changes: FileChange) -> PermissionAsk:
    names = {change.path: change.path.name for change in changes}
    return PermissionAsk("edit", tuple(names.values()), "files", proposal=propose(changes, names))


OLD = b"".join(b"line %d\n" % number for number in range(1, 31))
NEW = OLD.replace(b"line 3\n", b"line three\n").replace(b"line 20\n", b"line twenty\n")


async def test_accepting_some_hunks_leaves_the_others_unchanged() -> None:
    inbox, asker = Inbox(), FakeAsker()
    ask = two_files(FileChange(Path("/w/a.py"), OLD, NEW), FileChange(Path("/w/b.py"), None, b"made\n"))
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "patch"), ask))
    await until(lambda: asker.asked_for)
    request = asker.asked_for[0]
    assert [file.hunks for file in request.files] == [2, 0]
    answers = [FileAnswer(path="a.py", hunks=(1,)), FileAnswer(path="b.py", hunks=())]
    left = await inbox.service.left(request.request_id, answers)
    inbox.service.reply(request.request_id, "once", None, "x", left)
    approval = await task
    assert approval.changes is not None
    (change,) = approval.changes
    assert change.after == OLD.replace(b"line 20\n", b"line twenty\n")


@pytest.mark.parametrize(("added", "shown"), [(1982, 2), (1983, 1), (1991, 1), (1992, 0)])
async def test_a_cut_diff_names_the_hunks_that_it_shows(added: int, shown: int) -> None:
    """Of a diff 2,000 rows are shown: two of names, 7 and the added ones of the first hunk, 9 of the second."""
    inbox, asker = Inbox(), FakeAsker()
    new = NEW.replace(b"line three\n", b"more\n" * added)
    task = asyncio.create_task(
        inbox.service.ask(asker, CallInfo("c", "patch"), two_files(FileChange(Path("/w/a.py"), OLD, new)))
    )
    await until(lambda: asker.asked_for)
    (file,) = asker.asked_for[0].files
    rows = file.diff.split("\n")
    assert (file.hunks, len(file.shown_hunks)) == (2, shown)
    assert [rows[hunk.row][:2] for hunk in file.shown_hunks] == ["@@"] * shown
    inbox.service.reply(asker.asked_for[0].request_id, "once", None, "x")
    await task


async def test_edited_text_is_previewed_as_a_diff() -> None:
    inbox, asker = Inbox(), FakeAsker()
    ask = two_files(FileChange(Path("/w/a.py"), OLD, NEW), FileChange(Path("/w/b.py"), None, b"made\n"))
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "patch"), ask))
    await until(lambda: asker.asked_for)
    request_id = asker.asked_for[0].request_id
    mine = OLD.decode().replace("line 3\n", "my line\n")
    a, b = await inbox.service.preview(request_id, [FileAnswer(path="a.py", text=mine)])
    assert "+my line" in a.diff
    assert "line twenty" not in a.diff
    assert (a.path, a.added, a.removed, a.hunks) == ("a.py", 1, 1, 1)
    assert b.path == "b.py"
    (only,) = await inbox.service.preview(request_id, [FileAnswer(path="b.py", hunks=())])
    assert only.diff == asker.asked_for[0].files[0].diff
    inbox.service.reply(request_id, "once", None, "x")
    assert (await task).changes is None
    with pytest.raises(KeyError):
        await inbox.service.preview(request_id, [])


async def test_edited_text_keeps_the_line_ends_of_the_file() -> None:
    inbox, asker = Inbox(), FakeAsker()
    ask = two_files(FileChange(Path("/w/a.py"), b"a\r\nb\n", b"a\r\nB\n"))
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "edit"), ask))
    await until(lambda: asker.asked_for)
    request_id = asker.asked_for[0].request_id
    left = await inbox.service.left(request_id, [FileAnswer(path="a.py", text="a\nmine\nB\n")])
    inbox.service.reply(request_id, "once", None, "x", left)
    approval = await task
    assert approval.changes is not None
    assert approval.changes[0].after == b"a\r\nmine\r\nB\n"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([FileAnswer(path="a.py", hunks=(2,))], "no hunk 2: its hunks are 0 to 1"),
        ([FileAnswer(path="a.py", hunks=(-1,))], "no hunk -1"),
        ([FileAnswer(path="b.py", hunks=(0,))], "no hunk 0: accept it whole"),
        ([FileAnswer(path="c.py", hunks=())], "does not include c.py"),
        ([FileAnswer(path="a.py", hunks=()), FileAnswer(path="a.py", hunks=())], "answered twice"),
        ([FileAnswer(path="a.py", hunks=(), text="x")], "either hunks or text"),
        ([FileAnswer(path="a.py")], "either hunks or text"),
        ([FileAnswer(path="a.py", hunks=()), FileAnswer(path="b.py", hunks=())], "reject it instead"),
    ],
)
async def test_invalid_file_answer_is_refused_and_request_stays_open(
    answers: list[FileAnswer], message: str
) -> None:
    inbox, asker = Inbox(), FakeAsker()
    ask = two_files(FileChange(Path("/w/a.py"), OLD, NEW), FileChange(Path("/w/b.py"), None, b"made\n"))
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "patch"), ask))
    await until(lambda: asker.asked_for)
    request_id = asker.asked_for[0].request_id
    with pytest.raises(ToolError, match=message):
        await inbox.service.left(request_id, answers)
    assert [request.request_id for request in inbox.service.pending()] == [request_id]
    inbox.service.reply(request_id, "once", None, "x")
    assert (await task).changes is None


async def test_all_hunks_and_unchanged_text_count_as_plain_acceptance() -> None:
    inbox, asker = Inbox(), FakeAsker()
    ask = two_files(FileChange(Path("/w/a.py"), OLD, NEW), FileChange(Path("/w/b.py"), None, b"made\n"))
    task = asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "patch"), ask))
    await until(lambda: asker.asked_for)
    request_id = asker.asked_for[0].request_id
    answers = [FileAnswer(path="a.py", hunks=(0, 1)), FileAnswer(path="b.py", text="made\n")]
    assert await inbox.service.left(request_id, answers) is None
    inbox.service.reply(request_id, "once", None, "x")
    await task
    assert await inbox.service.left(request_id, answers) is None


async def test_record_of_old_replies_is_limited() -> None:
    inbox, asker = Inbox(), FakeAsker()
    first = await inbox.ask(asker, "a.py")
    inbox.service.reply(first, "once", None, "x")
    asks = [PermissionAsk("edit", (f"{number}.py",), "edit") for number in range(510)]
    more = [asyncio.create_task(inbox.service.ask(asker, CallInfo("c", "edit"), ask)) for ask in asks]
    await until(lambda: len(asker.asked_for) == 511)
    for request in inbox.service.pending():
        inbox.service.reply(request.request_id, "once", None, "x")
    with pytest.raises(KeyError):
        inbox.service.reply(first, "once", None, "late")
    await asyncio.gather(*inbox.tasks, *more)


async def test_time_waiting_for_approval_is_not_call_time() -> None:
    inbox, asker = Inbox(), FakeAsker()
    port = CallPermission(inbox.service, asker, CallInfo("c", "edit"))
    asking = asyncio.create_task(port.ask(PermissionAsk("edit", ("a.py",), "edit")))
    await until(lambda: bool(asker.asked_for))
    assert port.waited.seconds == 0
    inbox.service.reply(inbox.service.pending()[0].request_id, "once", None, "x")
    await asking
    assert port.waited.seconds > 0
    times = CallTimes()
    times.asks("c", WaitingTime(3600.0))
    times.begin("c")
    assert times.end("c") == CallTime(0)
    assert times.end("c") == CallTime()


async def test_a_port_decides_by_rules_alone_for_listings() -> None:
    port = CallPermission(Inbox().service, FakeAsker(), CallInfo("c", "ls"))
    assert port.decide("read", "a.env") == "ask"
    assert port.decide("read", "a.py") == "allow"
