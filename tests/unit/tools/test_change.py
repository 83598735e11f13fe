from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.fakes.tool_context import FakeToolContext, fake_context
from tools.access import suggestions
from tools.change import apply_changes, base_of
from tools.files.regular_files import sha256
from tools.paths import resolve
from tools.tool import (
    DiagnosticsReport,
    FileChange,
    PermissionAsk,
    PermissionDeniedError,
    Problem,
    ToolError,
)
from tools.writing import atomic


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def ctx(workspace: Path) -> FakeToolContext:
    return fake_context(workspace)


def known(ctx: FakeToolContext, path: Path, data: bytes) -> Path:
    """A file that the model has read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    ctx.files.note_read(path, sha256(data))
    return path


def update(path: Path, after: bytes | None) -> FileChange:
    return FileChange(path, path.read_bytes(), after)


def snapshot(root: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")}


async def test_a_change_is_asked_kept_written_and_reported(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "src/a.py", b"one\ntwo\n")
    outcome = await apply_changes([update(path, b"one\n2\n3\n")], ctx)
    assert path.read_bytes() == b"one\n2\n3\n"
    (ask,) = ctx.permission.asks
    assert (ask.permission, ask.targets, ask.suggestions) == (
        "edit",
        ("src/a.py",),
        suggestions("edit", ("src/*",)),
    )
    assert ask.changes[0].after == b"one\n2\n3\n"
    assert ask.title == "Edit src/a.py (+2 -1)"
    assert [(c.before, call) for c, call in ctx.history.kept] == [(b"one\ntwo\n", "call_1")]
    assert ctx.files.last_read(path) == sha256(b"one\n2\n3\n")
    result = outcome.result()
    assert result.content.startswith("Edit applied: src/a.py (+2 -1)\n@@")
    assert result.metadata["sha256"] == sha256(b"one\n2\n3\n")
    assert result.metadata["files"][0]["version"] == "v1"
    assert (result.metadata["added"], result.metadata["removed"]) == (2, 1)
    assert result.title == "src/a.py +2 -1"


async def test_nothing_is_written_before_approval(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    before = snapshot(workspace)
    seen: list[dict[str, bytes | None]] = []

    async def look(ask: PermissionAsk) -> None:
        seen.append(snapshot(workspace))
        assert not ctx.history.done

    ctx.permission.on_ask = look
    plan = [update(path, b"two\n"), FileChange(workspace / "new/deep/b.py", None, b"b\n")]
    await apply_changes(plan, ctx)
    assert seen == [before]
    assert (workspace / "new/deep/b.py").read_bytes() == b"b\n"


async def test_a_refusal_passes_through_and_touches_nothing(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    before = snapshot(workspace)
    ctx.permission.refuse = {"edit"}
    plan = [update(path, b"two\n"), FileChange(workspace / "new/b.py", None, b"b\n")]
    with pytest.raises(PermissionDeniedError):
        await apply_changes(plan, ctx)
    assert snapshot(workspace) == before
    assert not ctx.history.done
    assert ctx.diagnostics.reported == 0


@pytest.mark.parametrize("meanwhile", [b"other\n", b"one\n\n", None])
async def test_a_file_changed_during_the_approval_is_not_overwritten(
    ctx: FakeToolContext, workspace: Path, meanwhile: bytes | None
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")

    async def change(ask: PermissionAsk) -> None:
        if meanwhile is None:
            path.unlink()
        else:
            path.write_bytes(meanwhile)

    ctx.permission.on_ask = change
    with pytest.raises(ToolError, match="while approval was pending"):
        await apply_changes([update(path, b"two\n")], ctx)
    assert (path.read_bytes() if path.exists() else None) == meanwhile
    assert not ctx.history.done
    assert ctx.history.failures == ["v1"]


async def test_a_file_created_during_the_approval_is_not_overwritten(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = workspace / "a.py"

    async def create(ask: PermissionAsk) -> None:
        path.write_bytes(b"the person's\n")

    ctx.permission.on_ask = create
    with pytest.raises(ToolError, match="while approval was pending"):
        await apply_changes([FileChange(path, None, b"mine\n")], ctx)
    assert path.read_bytes() == b"the person's\n"


async def test_a_buffer_made_dirty_during_the_approval_stops_the_write(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")

    async def type_something(ask: PermissionAsk) -> None:
        ctx.files.buffers[path] = "typed"

    ctx.permission.on_ask = type_something
    with pytest.raises(ToolError, match="changed in the editor in the meantime"):
        await apply_changes([update(path, b"two\n")], ctx)
    assert path.read_bytes() == b"one\n"


async def test_folder_replaced_by_a_link_during_approval_is_refused(
    ctx: FakeToolContext, workspace: Path, tmp_path: Path
) -> None:
    path = known(ctx, workspace / "src/a.py", b"one\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.py").write_bytes(b"one\n")

    async def swap(ask: PermissionAsk) -> None:
        path.unlink()
        path.parent.rmdir()
        path.parent.symlink_to(elsewhere, target_is_directory=True)

    ctx.permission.on_ask = swap
    with pytest.raises(ToolError, match="leads somewhere else now"):
        await apply_changes([update(path, b"two\n")], ctx)
    assert (elsewhere / "a.py").read_bytes() == b"one\n"


async def test_a_file_that_was_never_read_is_refused_before_asking(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = workspace / "a.py"
    path.write_bytes(b"one\n")
    with pytest.raises(ToolError, match="have not read it"):
        await apply_changes([update(path, b"two\n")], ctx)
    assert not ctx.permission.asks


async def test_file_changed_since_read_is_refused_but_a_touch_is_not(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    os.utime(path, (1, 1))
    await apply_changes([update(path, b"two\n")], ctx)
    path.write_bytes(b"three\n")
    with pytest.raises(ToolError, match="changed since you read it"):
        await apply_changes([update(path, b"four\n")], ctx)


async def test_file_that_has_grown_too_large_is_not_read(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "server.log", b"one\n")
    os.truncate(path, 300_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ToolError, match="has changed since you read it"):
            await base_of(resolve("server.log", ctx), ctx)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


async def test_change_without_effect_is_refused(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    with pytest.raises(ToolError, match="nothing to change"):
        await apply_changes([update(path, b"one\n")], ctx)
    with pytest.raises(ToolError, match="nothing to change"):
        await apply_changes([], ctx)
    with pytest.raises(ToolError, match="twice"):
        await apply_changes([update(path, b"2"), update(path, b"3")], ctx)


async def test_a_delete_removes_the_file(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    outcome = await apply_changes([update(path, None)], ctx)
    assert not path.exists()
    assert outcome.result().content.startswith("Edit applied: a.py (+0 -1, deleted)")


async def test_mode_bits_are_kept_and_no_temporary_file_is_left(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "run.sh", b"one\n")
    path.chmod(0o751)
    await apply_changes([update(path, b"two\n")], ctx)
    assert path.stat().st_mode & 0o777 == 0o751
    assert [p.name for p in workspace.iterdir()] == ["run.sh"]


async def test_read_only_file_is_refused_with_a_reason(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    path.chmod(0o444)
    with pytest.raises(ToolError, match=r"a\.py could not be written: .* Nothing was changed"):
        await apply_changes([update(path, b"two\n")], ctx)
    assert path.read_bytes() == b"one\n"


async def test_a_parent_that_is_a_file_is_explained(ctx: FakeToolContext, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"file")
    with pytest.raises(ToolError, match="a part of the path is a file"):
        await apply_changes([FileChange(workspace / "a/b.py", None, b"x")], ctx)
    assert (workspace / "a").read_bytes() == b"file"


async def test_a_history_that_fails_stops_the_write(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    ctx.history.fail = OSError(28, "No space left on device")
    with pytest.raises(ToolError, match="No space left on device"):
        await apply_changes([update(path, b"two\n")], ctx)
    assert path.read_bytes() == b"one\n"


def test_a_change_between_staging_and_renaming_is_noticed(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a"
    path.write_bytes(b"changed")
    with pytest.raises(atomic.ChangedOnDiskError):
        atomic.write_all([FileChange(path, b"old", b"new")])
    assert snapshot(tmp_path) == {"a": b"changed"}


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        atomic.read_or_none(tmp_path / "pipe")


async def test_two_changes_of_one_file_do_not_both_win(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    plans = [[update(path, b"two\n")], [update(path, b"three\n")]]
    results = await asyncio.gather(*(apply_changes(plan, ctx) for plan in plans), return_exceptions=True)
    assert sum(isinstance(result, ToolError) for result in results) == 1
    assert len(ctx.history.done) == 1


async def test_a_cancellation_during_the_write_takes_effect_after_it(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    trace_maintenance, go_on = asyncio.Event(), asyncio.Event()
    keep = ctx.history.keep

    async def slow(changes: Sequence[FileChange], tool_call_id: str, counts: object) -> list[str]:
        trace_maintenance.set()
        await go_on.wait()
        return await keep(changes, tool_call_id)

    ctx.history.keep = slow  # type: ignore[method-assign]  # to hold the write half-way
    task = asyncio.create_task(apply_changes([update(path, b"two\n")], ctx))
    await trace_maintenance.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert path.read_bytes() == b"two\n"
    assert ctx.files.last_read(path) == sha256(b"two\n")
    assert ctx.diagnostics.written == 1, "its verdict is owed"


async def test_a_cancellation_while_asking_touches_nothing(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    asked = asyncio.Event()

    async def wait(ask: PermissionAsk) -> None:
        asked.set()
        await asyncio.Event().wait()

    ctx.permission.on_ask = wait
    task = asyncio.create_task(apply_changes([update(path, b"two\n")], ctx))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert path.read_bytes() == b"one\n"


def report_with(path: Path, count: int) -> DiagnosticsReport:
    problems = [Problem(path, n, 5, "error", f"bad {n}", "basedpyright", "x") for n in range(1, count + 1)]
    problems.append(Problem(path, 1, 1, "hint", "not shown"))
    return DiagnosticsReport("problems", tuple(problems), ("basedpyright",))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            lambda p: DiagnosticsReport("clean", servers=("ruff",)),
            "Diagnostics: clean, no new problems (ruff).",
        ),
        (
            lambda p: report_with(p, 1),
            "Diagnostics: 1 new problem since this edit (basedpyright):\n"
            '<diagnostics file="a.py">\nERROR [1:5] bad 1 (basedpyright x)\n</diagnostics>',
        ),
        (lambda p: report_with(p, 23), "… and 3 more\n</diagnostics>"),
        (
            lambda p: DiagnosticsReport("no_fresh_answer"),
            "Diagnostics: NO FRESH ANSWER in time. This does not mean",
        ),
    ],
)
async def test_the_verdicts_of_language_servers_cannot_be_confused(
    ctx: FakeToolContext, workspace: Path, answer: Callable[[Path], DiagnosticsReport], expected: str
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    ctx.diagnostics.answer = answer(path)
    result = (await apply_changes([update(path, b"two\n")], ctx)).result("a note")
    assert result.content.startswith("Edit applied: a.py (+1 -1)\na note\n")
    assert expected in result.content
    assert result.metadata["verdict"] == ctx.diagnostics.answer.verdict
    assert len(result.metadata["diagnostics"]) == len(ctx.diagnostics.answer.problems)


async def test_without_a_language_server_no_diagnostics_are_reported(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    result = (await apply_changes([update(path, b"two\n")], ctx)).result()
    assert "Diagnostics" not in result.content


async def test_failed_baseline_does_not_stop_an_edit_or_pass_as_clean(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    ctx.diagnostics.fail = RuntimeError("server died")
    result = (await apply_changes([update(path, b"two\n")], ctx)).result()
    assert path.read_bytes() == b"two\n"
    assert "NO FRESH ANSWER" in result.content


async def test_baseline_is_taken_while_the_question_is_open(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    asked, looking = asyncio.Event(), asyncio.Event()

    async def look() -> None:
        looking.set()
        await asked.wait()

    async def ask(ask: PermissionAsk) -> None:
        asked.set()
        await looking.wait()

    ctx.diagnostics.on_begin, ctx.permission.on_ask = look, ask
    async with asyncio.timeout(5):
        await apply_changes([update(path, b"two\n")], ctx)
    assert ctx.diagnostics.reported == 1


async def test_nothing_is_written_before_the_baseline_is_there(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    approved, seen = asyncio.Event(), list[bytes]()

    async def look() -> None:
        await approved.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append(path.read_bytes())

    async def approve(ask: PermissionAsk) -> None:
        approved.set()

    ctx.diagnostics.on_begin, ctx.permission.on_ask = look, approve
    await apply_changes([update(path, b"two\n")], ctx)
    assert (seen, path.read_bytes()) == ([b"one\n"], b"two\n")


async def test_baseline_ends_with_a_refused_question(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    looking, ended = asyncio.Event(), asyncio.Event()

    async def look() -> None:
        looking.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def refuse(ask: PermissionAsk) -> None:
        await looking.wait()
        raise PermissionDeniedError("no")

    ctx.diagnostics.on_begin, ctx.permission.on_ask = look, refuse
    with pytest.raises(PermissionDeniedError):
        await apply_changes([update(path, b"two\n")], ctx)
    assert ended.is_set() and path.read_bytes() == b"one\n"


async def test_a_stop_after_a_refusal_is_not_lost(ctx: FakeToolContext, workspace: Path) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    looking, ending, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def look() -> None:
        looking.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await go.wait()

    async def refuse(ask: PermissionAsk) -> None:
        await looking.wait()
        raise PermissionDeniedError("no", feedback="Another way, please.")

    ctx.diagnostics.on_begin, ctx.permission.on_ask = look, refuse
    task = asyncio.create_task(apply_changes([update(path, b"two\n")], ctx))
    await ending.wait()
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert path.read_bytes() == b"one\n"


async def test_changes_the_user_keeps_are_written_and_reported(ctx: FakeToolContext, workspace: Path) -> None:
    first, second = known(ctx, workspace / "a.py", b"one\n"), known(ctx, workspace / "b.py", b"one\n")
    ctx.permission.leave = lambda changes: (update_to(changes[0], b"mine\n"),)
    outcome = await apply_changes([update(first, b"two\n"), update(second, b"two\n")], ctx)
    assert (first.read_bytes(), second.read_bytes()) == (b"mine\n", b"one\n")
    result = outcome.result()
    assert result.content.startswith("Edit applied: a.py (+1 -1)\n")
    assert "-one\n+mine" in result.content
    assert "a.py, - as you proposed it, + as it was written:\n@@ -1 +1 @@\n-two\n+mine" in result.content
    assert "Left out by the user, unchanged on disk: b.py" in result.content
    assert result.metadata["altered"] is True
    assert [entry["path"] for entry in result.metadata["files"]] == ["a.py"]
    assert ctx.files.last_read(first) == sha256(b"mine\n")
    assert len(ctx.history.done) == 1


def update_to(change: FileChange, after: bytes) -> FileChange:
    return FileChange(change.path, change.before, after)


async def test_move_is_reported_as_one_file(ctx: FakeToolContext, workspace: Path) -> None:
    old = known(ctx, workspace / "a.py", b"one\n")
    new = workspace / "sub" / "b.py"
    plan = [FileChange(old, b"one\n", None), FileChange(new, None, b"two\n", moved_from=old)]
    outcome = await apply_changes(plan, ctx)
    assert not old.exists()
    assert new.read_bytes() == b"two\n"
    (ask,) = ctx.permission.asks
    assert ask.title == "Move a.py to sub/b.py (+1 -1)"
    assert set(ask.targets) == {"a.py", "sub/b.py"}
    result = outcome.result()
    assert result.content.startswith("Edit applied: sub/b.py (+1 -1, moved from a.py)")
    assert [(e["path"], e["kind"]) for e in result.metadata["files"]] == [
        ("a.py", "delete"),
        ("sub/b.py", "create"),
    ]


def dirty(ctx: FakeToolContext, path: Path, text: str) -> Path:
    """Act as a user who has typed ``text``, which the model has read."""
    ctx.files.buffers[path] = text
    ctx.files.note_read(path, sha256(text.encode()))
    return path


async def test_a_buffer_is_the_file_and_is_changed_through_its_editor(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = dirty(ctx, known(ctx, workspace / "a.py", b"one\n"), "one\ntyped\n")
    outcome = await apply_changes([FileChange(path, b"one\ntyped\n", b"two\ntyped\n")], ctx)
    assert path.read_bytes() == b"two\ntyped\n"
    assert ctx.files.editors.unsaved(path) is None
    assert "-one\n+two\n typed" in outcome.result().content
    assert ctx.files.last_read(path) == sha256(b"two\ntyped\n")


async def test_a_buffer_that_moved_during_the_approval_stops_the_write(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = dirty(ctx, known(ctx, workspace / "a.py", b"one\n"), "typed\n")

    async def type_more(ask: PermissionAsk) -> None:
        ctx.files.buffers[path] = "typed more\n"

    ctx.permission.on_ask = type_more
    with pytest.raises(ToolError, match="changed in the editor in the meantime"):
        await apply_changes([FileChange(path, b"typed\n", b"two\n")], ctx)
    assert (path.read_bytes(), ctx.files.editors.unsaved(path)) == (b"one\n", "typed more\n")


async def test_a_buffer_saved_during_the_approval_is_the_disk_again(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = dirty(ctx, known(ctx, workspace / "a.py", b"one\n"), "typed\n")

    async def save(ask: PermissionAsk) -> None:
        path.write_text(ctx.files.buffers.pop(path))

    ctx.permission.on_ask = save
    await apply_changes([FileChange(path, b"typed\n", b"two\n")], ctx)
    assert path.read_bytes() == b"two\n"


async def test_refusal_by_an_editor_writes_no_file_of_the_change(
    ctx: FakeToolContext, workspace: Path
) -> None:
    first = dirty(ctx, known(ctx, workspace / "a.py", b"one\n"), "typed\n")
    second = dirty(ctx, known(ctx, workspace / "b.py", b"one\n"), "typed\n")
    third = known(ctx, workspace / "c.py", b"one\n")
    ctx.files.deaf.add(second)
    plan = [FileChange(path, b"typed\n", b"two\n") for path in (first, second)]
    with pytest.raises(ToolError, match="editor refused"):
        await apply_changes([*plan, update(third, b"two\n")], ctx)
    assert (first.read_bytes(), second.read_bytes(), third.read_bytes()) == (b"one\n", b"one\n", b"one\n")
    assert ctx.files.buffers == {first: "typed\n", second: "typed\n"}


async def test_file_changed_by_format_on_save_must_be_read_again(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = dirty(ctx, known(ctx, workspace / "a.py", b"one\n"), "typed\n")
    ctx.files.format_on_save = lambda text: text.upper()
    outcome = await apply_changes([FileChange(path, b"typed\n", b"two\n")], ctx)
    assert path.read_bytes() == b"TWO\n"
    assert ctx.files.last_read(path) != sha256(b"TWO\n")
    assert outcome.result().metadata["files"][0]["sha256"] is None  # a session takes this as read


async def test_short_diff_has_no_header_even_with_a_mode_change(
    ctx: FakeToolContext, workspace: Path
) -> None:
    path = known(ctx, workspace / "a.py", b"one\n")
    outcome = await apply_changes([FileChange(path, b"one\n", b"two\n", mode=0o755)], ctx)
    assert outcome.result().content.split("\n")[1:] == ["@@ -1 +1 @@", "-one", "+two"]
