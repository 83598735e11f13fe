from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.tool_context import FakeToolContext, fake_context, put
from tools.files.regular_files import sha256
from tools.patch import PatchInput, PatchTool
from tools.tool import PermissionDeniedError, ToolError, ToolResult


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    (tmp_path / "ws").mkdir()
    return fake_context(tmp_path / "ws")


async def patch(ctx: FakeToolContext, text: str, fuzz: int = 2) -> ToolResult:
    return await PatchTool().run(PatchInput(patch_text=text, fuzz=fuzz), ctx)


async def refused(ctx: FakeToolContext, text: str, fuzz: int = 2) -> str:
    before = tree(ctx.workspace)
    with pytest.raises(ToolError) as caught:
        await patch(ctx, text, fuzz)
    assert tree(ctx.workspace) == before
    assert "edit" not in ctx.permission.asked
    return str(caught.value)


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    done = subprocess.run(["git", *identity, *args], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize(
    "text",
    [
        "*** Begin Patch\n*** Update File: a.py\n@@\n a\n-b\n+B\n c\n*** End Patch\n",
        "*** Update File: a.py\n a\n-b\n+B\n c\n",
        "```diff\n*** Begin Patch\n*** Update File: a.py\n@@\n a\n-b\n+B\n*** End Patch\n```\n",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n@@\n-b\n+B\n*** End Patch\nEOF\n",
        "Here it is:\n*** Begin Patch\n*** Update File: ./a.py\n@@\n-b\n+B\n*** End Patch\nDone.\n",
        "*** Begin Patch\n*** Update File: a.py\n--- a/a.py\n+++ b/a.py\n@@ -2 +2 @@\n-b\n+B\n*** End Patch",
        "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
        "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
        "--- a.py.orig\t2024-01-01 10:00:00.000000000 +0100\n+++ a.py\t2024-01-02 10:00:00\n@@ -2 +2 @@\n-b\n+B\n",
        "--- a.py 2024-01-01 10:00:00\n+++ a.py 2024-01-02 10:00:00\n@@ -2 +2 @@\n-b\n+B\n",
        "diff -r -u old/a.py new/a.py\n--- old/a.py\n+++ new/a.py\n@@ -2 +2 @@\n-b\n+B\nOnly in new: x\n",
        "--- a/a.py\n+++ b/a.py\n@@ -900,9 +7 @@\n a\n-b\n+B\n c\n",
        "--- a/a.py\n+++ b/a.py\n@@ ... @@\n a\n-b\n+B\n c\n",
        "--- a/a.py\n+++ b/a.py\n@@\n a\n-b\n+B\n c\n",
        "--- a/a.py\n+++ b/a.py\n a\n-b\n+B\n c\n",
        "+++ b/a.py\n@@\n a\n-b\n+B\n c\n",
        "```diff\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n```\nThat is all:\n- one line\n",
        "--- a/a.py\r\n+++ b/a.py\r\n@@ -1,3 +1,3 @@\r\n a\r\n-b\r\n+B\r\n c\r\n",
    ],
)
async def test_all_the_ways_to_write_one_change(ctx: FakeToolContext, text: str) -> None:
    path = put(ctx, "a.py", b"a\nb\nc\n")
    result = await patch(ctx, text)
    assert path.read_bytes() == b"a\nB\nc\n"
    assert result.content.split("\n")[0] == "Edit applied: a.py (+1 -1)"


async def test_several_files_in_one_question_and_one_write(ctx: FakeToolContext) -> None:
    put(ctx, "a.py", b"a\n")
    put(ctx, "old.py", b"gone\n")
    put(ctx, "m.py", b"one\ntwo\n")
    await patch(
        ctx,
        "*** Begin Patch\n*** Add File: pkg/new.py\n+x = 1\n+\n+y = 2\n*** Update File: a.py\n@@\n-a\n+A\n"
        "*** Delete File: old.py\n*** Update File: m.py\n*** Move to: moved/m.py\n@@\n one\n-two\n+2\n*** End Patch",
    )
    assert tree(ctx.workspace) == {
        "pkg/new.py": b"x = 1\n\ny = 2\n",
        "a.py": b"A\n",
        "moved/m.py": b"one\n2\n",
    }
    assert ctx.permission.asked == ["edit"]


async def test_one_bad_hunk_and_no_file_is_touched(ctx: FakeToolContext) -> None:
    put(ctx, "a.py", b"a\n")
    put(ctx, "b.py", b"b\n")
    text = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+A\n--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+y\n"
    message = await refused(ctx, text)
    assert message.startswith("b.py: hunk 1 (@@ -1 +1 @@) fits nowhere")


async def test_a_file_twice_is_applied_one_after_the_other(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"1\n2\n3\n")
    one = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,4 @@\n 1\n 2\n+new\n 3\n"
    other = "--- a/./a.py\n+++ b/./a.py\n@@ -2,3 +2,3 @@\n 2\n-new\n+newer\n 3\n"
    await patch(ctx, one + other)
    assert path.read_bytes() == b"1\n2\nnewer\n3\n"
    assert len(ctx.history.kept) == 1


async def test_a_link_and_its_target_are_one_file(ctx: FakeToolContext) -> None:
    path = put(ctx, "real/a.py", b"1\n2\n")
    (ctx.workspace / "link.py").symlink_to(path)
    await patch(
        ctx,
        "*** Begin Patch\n*** Update File: link.py\n@@\n-1\n+one\n"
        "*** Update File: real/a.py\n@@\n one\n-2\n+two\n*** End Patch",
    )
    assert path.read_bytes() == b"one\ntwo\n"
    assert (ctx.workspace / "link.py").is_symlink()


@pytest.mark.parametrize(
    "text",
    [
        "*** Begin Patch\n*** Delete File: link.py\n*** End Patch",
        "*** Begin Patch\n*** Update File: link.py\n*** Move to: b.py\n*** End Patch",
        "*** Begin Patch\n*** Update File: a/link.py\n*** Move to: b.py\n*** End Patch",
        "*** Begin Patch\n*** Update File: `link.py`\n*** Move to: b.py\n*** End Patch",
        "*** Begin Patch\n*** Delete File: ./~\n*** End Patch",
    ],
)
async def test_a_link_itself_is_neither_deleted_nor_moved(ctx: FakeToolContext, text: str) -> None:
    path = put(ctx, "real.py", b"1\n")
    (ctx.workspace / "link.py").symlink_to(path)
    (ctx.workspace / "~").symlink_to(path)
    assert "symbolic link" in await refused(ctx, text)


async def test_unread_and_changed_files_are_refused(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"a\n")
    text = "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** End Patch"
    path.write_bytes(b"a\nmore\n")
    assert "changed" in await refused(ctx, text)
    ctx.files.seen.clear()
    for action in (text, "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"):
        assert "have not read it" in await refused(ctx, action)


async def test_adding_what_exists_is_refused(ctx: FakeToolContext) -> None:
    put(ctx, "a.py", b"a\n")
    add = "*** Begin Patch\n*** Add File: a.py\n+{}\n*** End Patch"
    assert "already exists, so it cannot be added." in await refused(ctx, add.format("b"))
    assert "already applied" in await refused(ctx, add.format("a"))


async def test_new_file_is_not_compared_with_one_never_read(ctx: FakeToolContext) -> None:
    put(ctx, ".env", b"KEY=1\n")
    put(ctx, "a.py", b"a\n")
    ctx.files.seen.pop(ctx.workspace / ".env")
    for text in (
        "*** Begin Patch\n*** Add File: .env\n+KEY=1\n*** End Patch",
        "*** Begin Patch\n*** Add File: .env\n+KEY=2\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.py\n*** Move to: .env\n*** End Patch",
    ):
        assert ".env exists and you have not read it" in await refused(ctx, text)


async def test_missing_files_are_refused_with_a_suggestion(ctx: FakeToolContext) -> None:
    put(ctx, "cart.py", b"a\n")
    for text in (
        "*** Begin Patch\n*** Delete File: carts.py\n*** End Patch",
        "--- a/carts.py\n+++ b/carts.py\n@@ -1 +1 @@\n-a\n+b\n",
        "*** Begin Patch\n*** Update File: carts.py\n*** Move to: b.py\n*** End Patch",
    ):
        assert "carts.py does not exist. Did you mean: cart.py?" in await refused(ctx, text)


async def test_moves_onto_itself_or_another_file_are_refused(ctx: FakeToolContext) -> None:
    put(ctx, "a.py", b"a\n")
    put(ctx, "b.py", b"b\n")
    move = "*** Begin Patch\n*** Update File: a.py\n*** Move to: {}\n@@\n-a\n+A\n*** End Patch"
    assert "onto itself" in await refused(ctx, move.format("./a.py"))
    assert "already exists" in await refused(ctx, move.format("b.py"))


async def test_a_move_keeps_the_mode_and_says_where_it_came_from(ctx: FakeToolContext) -> None:
    path = put(ctx, "run.sh", b"#!/bin/sh\n")
    path.chmod(0o751)
    await patch(ctx, "*** Begin Patch\n*** Update File: run.sh\n*** Move to: bin/run.sh\n*** End Patch")
    changes = {c.path.name + str(c.kind): c for c in ctx.permission.asks[0].changes}
    made = changes["run.shcreate"]
    assert (made.moved_from, made.mode) == (path, 0o751)
    assert (ctx.workspace / "bin/run.sh").stat().st_mode & 0o777 == 0o751
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o700, 0o644])
async def test_a_copy_can_be_read_by_nobody_else(ctx: FakeToolContext, mode: int) -> None:
    put(ctx, "key.sh", b"TOKEN=1\n").chmod(mode)
    await patch(ctx, "diff --git a/key.sh b/new.sh\ncopy from key.sh\ncopy to new.sh\n")
    assert stat.S_IMODE((ctx.workspace / "new.sh").stat().st_mode) == mode


async def test_git_modes_are_set(ctx: FakeToolContext) -> None:
    path = put(ctx, "run.sh", b"echo\n")
    path.chmod(0o640)
    await patch(
        ctx,
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/new.sh b/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+echo\n",
    )
    assert path.stat().st_mode & 0o777 == 0o750
    assert (ctx.workspace / "new.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a.py\n", "symbolic link"),
        ("diff --git a/s b/s\nindex 1111111..2222222 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-a\n+b\n", "submodule"),
        ("diff --git a/i.png b/i.png\nindex 1..2\nGIT binary patch\nliteral 1\nIc", "binary"),
        ("Binary files a/i.png and b/i.png differ\n", "binary"),
        ("diff --cc a.py\n@@@ -1,1 -1,1 +1,1 @@@\n", "combined"),
        ("*** a.py\n--- a.py\n***************\n*** 1,2 ****\n- a\n--- 1,2 ----\n", "context diff"),
        ("1c1\n< a\n---\n> b\n", "plain diff"),
        ("Nothing here.\n", "no patch in it"),
        ("", "no patch in it"),
        ("@@ -1 +1 @@\n-a\n+b\n", "hunk without a file"),
        ("--- a/a.py\n@@ -1 +1 @@\n-a\n+b\n", r"the \+\+\+ line"),
        ("--- a/a.py\n+++ b/a.py\n", "no hunk"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n a\n", "changes nothing"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+a\n", "changes nothing"),
        ("*** Begin Patch\n*** Update File: a.py\n*** End Patch", "no changes"),
        ("*** Begin Patch\n*** Update File:\n@@\n-a\n+b\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Add File: b.py\nx = 1\n*** End Patch", r"must begin with '\+'"),
        ("*** Begin Patch\n*** Update File: a.py\n@@\nfoo\n-a\n+b\n*** End Patch", "has no prefix"),
        ("*** Begin Patch\n*** Delete File: a.py\n-a\n*** End Patch", "no further lines"),
        ("*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** Move to: b.py\n*** End Patch", "directly under"),
        ("*** Begin Patch\n*** Add File: b.py\n+x\n*** End Patch\ndiff --git a/c b/c\n", "mixed"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n*** Update File: b.py\n", "mixed"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a\nforgotten\n-x\n+y\n", "has no prefix"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_is_said(ctx: FakeToolContext, text: str, message: str) -> None:
    put(ctx, "a.py", b"a\n")
    before = tree(ctx.workspace)
    with pytest.raises(ToolError, match=message):
        await patch(ctx, text)
    assert tree(ctx.workspace) == before


async def test_a_deletion_must_know_the_whole_content(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"a\nb\n")
    delete = "--- a/a.py\n+++ /dev/null\n@@ -1,{0} +0,0 @@\n-a\n{1}"
    assert "more lines than the patch removes" in await refused(ctx, delete.format(1, ""))
    await patch(ctx, delete.format(2, "-b\n"))
    assert not path.exists()


async def test_diff_n_says_missing_files_by_their_date(ctx: FakeToolContext) -> None:
    put(ctx, "gone.py", b"a\n")
    await patch(
        ctx,
        "diff -ruN old/new.py new/new.py\n--- old/new.py\t1970-01-01 01:00:00.000000000 +0100\n"
        "+++ new/new.py\t2024-01-01 10:00:00.000000000 +0100\n@@ -0,0 +1 @@\n+x\n"
        "diff -ruN old/gone.py new/gone.py\n--- old/gone.py\t2024-01-01 10:00:00.000000000 +0100\n"
        "+++ new/gone.py\t1969-12-31 19:00:00.000000000 -0500\n@@ -1 +0,0 @@\n-a\n",
    )
    assert set(tree(ctx.workspace)) == {"new.py"}


async def test_a_new_file_may_be_written_as_an_update_from_nothing(ctx: FakeToolContext) -> None:
    await patch(ctx, "--- a/n.py\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+x\n+y\n")
    assert tree(ctx.workspace) == {"n.py": b"x\ny\n"}


async def test_a_prefix_that_may_be_a_folder_is_asked_about(ctx: FakeToolContext) -> None:
    put(ctx, "b/x.py", b"1\n")
    new = "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+x\n"
    assert "a folder or a prefix" in await refused(ctx, new)
    await patch(ctx, "diff --git a/n.py b/n.py\nnew file mode 100644\n" + new)
    assert (ctx.workspace / "n.py").exists()


async def test_files_in_folders_named_like_prefixes_are_found(ctx: FakeToolContext) -> None:
    put(ctx, "a/x.py", b"1\n")
    await patch(ctx, "--- a/x.py\n+++ a/x.py\n@@ -1 +1 @@\n-1\n+2\n")
    assert tree(ctx.workspace) == {"a/x.py": b"2\n"}


async def test_two_possible_files_are_refused(ctx: FakeToolContext) -> None:
    put(ctx, "old/x.py", b"1\n")
    put(ctx, "new/x.py", b"1\n")
    text = "--- old/x.py\n+++ new/x.py\n@@ -1 +1 @@\n-1\n+2\n"
    assert "unclear which file" in await refused(ctx, text)


async def test_another_name_without_rename_lines_is_refused(ctx: FakeToolContext) -> None:
    put(ctx, "x.py", b"1\n")
    assert "renamed as well" in await refused(ctx, "--- a/x.py\n+++ b/y.py\n@@ -1 +1 @@\n-1\n+2\n")


async def test_outside_of_the_workspace_is_one_question(ctx: FakeToolContext, tmp_path: Path) -> None:
    for name in ("p.py", "q.py"):
        put(ctx, f"../out/{name}", b"1\n")
        ctx.files.note_read((tmp_path / "out" / name).resolve(), sha256(b"1\n"))
    out = (tmp_path / "out").resolve()
    hunks = "".join(f"*** Update File: {out}/{n}\n@@\n-1\n+2\n" for n in ("p.py", "q.py"))
    await patch(ctx, f"*** Begin Patch\n{hunks}*** End Patch")
    (ask,) = ctx.permission.asks
    assert ask.targets == (f"{out.as_posix()}/p.py", f"{out.as_posix()}/q.py")


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(
        st.sampled_from(
            [
                *(
                    "*** Begin Patch",
                    "*** Update File: ",
                    "*** Add File: ",
                    "*** Delete File: ",
                    "*** Move to: ",
                ),
                *(
                    "--- a/",
                    "+++ b/",
                    "--- ",
                    "+++ ",
                    "diff --git ",
                    "rename from ",
                    "rename to ",
                    "copy to ",
                    "@@\n",
                ),
                *(
                    "a",
                    "b/",
                    "..",
                    "/",
                    "\n",
                    "\n",
                    "\n+x",
                    "\n-x",
                    "x\n",
                    "/dev/null",
                    "\0",
                    "\ud800",
                    '"\\377"',
                    "~",
                    "n" * 300,
                ),
            ]
        ),
        max_size=30,
    )
)
async def test_whatever_names_come_only_expected_errors_are_raised(
    ctx: FakeToolContext, text: list[str]
) -> None:
    put(ctx, "a", b"x\n")
    ctx.permission.refuse = {"edit", "external_directory"}
    with pytest.raises((ToolError, PermissionDeniedError)):
        await patch(ctx, "".join(text))


async def test_a_real_series_of_commits(ctx: FakeToolContext, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q")
    names = ["plain.py", "with blank.txt", 'quote"d.txt', "ümlaut.txt", "tab\there.txt", "crlf.txt"]
    body = "".join(f"line {n}\n" for n in range(30))
    for name in names:
        text = body.replace("\n", "\r\n") if name == "crlf.txt" else body
        (repo / name).write_bytes(text.encode())
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "first")
    for name, data in tree(repo).items():
        if not name.startswith(".git"):
            put(ctx, name, data)
    for name in names:
        data = (repo / name).read_bytes()
        (repo / name).write_bytes(
            data.replace(b"line 3\n", b"line three\n").replace(b"line 20", b"-- line 20")
        )
    (repo / "added file.py").write_bytes(b"no end")
    (repo / "empty.py").write_bytes(b"")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "second\n\n- a bullet\n+ another\n")
    git(repo, "mv", "plain.py", "renamed here.py")
    git(repo, "mv", "ümlaut.txt", "umlaut.txt")
    git(repo, "rm", "-q", 'quote"d.txt')
    (repo / "umlaut.txt").write_bytes((repo / "umlaut.txt").read_bytes() + b"end")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "third")
    await patch(ctx, git(repo, "format-patch", "--stdout", "-M", "HEAD~2"))
    expected = {name: data for name, data in tree(repo).items() if not name.startswith(".git")}
    assert tree(ctx.workspace) == expected
    assert expected["added file.py"] == b"no end"


async def test_blanks_after_the_last_line_of_a_hunk_are_no_context(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", b"one\ntwo\nthree\n")
    await patch(
        ctx,
        "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n   \n"
        "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n  \n   \n",
    )
    assert path.read_bytes() == b"one\n2\nthree\n"
    assert (ctx.workspace / "new.py").read_bytes() == b"x\n"


@pytest.mark.parametrize("name", ["`src/c.py`", '"src/c.py"', "a/src/c.py", "src\\c.py", "./src/c.py"])
async def test_a_name_in_an_envelope_may_be_spelled_as_models_do(ctx: FakeToolContext, name: str) -> None:
    path = put(ctx, "src/c.py", b"one\ntwo\n")
    await patch(ctx, f"*** Begin Patch\n*** Update File: {name}\n@@\n-one\n+1\n*** End Patch\n")
    assert path.read_bytes() == b"1\ntwo\n"


async def test_an_envelope_may_be_indented_as_a_whole(ctx: FakeToolContext) -> None:
    path = put(ctx, "c.py", b"one\n  two\n")
    text = "*** Begin Patch\n*** Update File: c.py\n@@\n one\n-  two\n+  2\n*** End Patch\n"
    await patch(ctx, "".join(f"    {line}\n" for line in text.splitlines()))
    assert path.read_bytes() == b"one\n  2\n"


async def test_a_new_file_with_the_name_of_a_folder_is_refused(ctx: FakeToolContext) -> None:
    assert "names a folder" in await refused(ctx, "*** Begin Patch\n*** Add File: foo/\n+x\n*** End Patch\n")


BLANKS = " " * 100_000


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        f"*** Begin Patch\n*** Delete File: a{BLANKS}b\n*** End Patch\n",
        f"*** Begin Patch\n*** Update File: a.py\n*** Move to: a{BLANKS}b\n*** End Patch\n",
        f"--- a{BLANKS[:8_000]}b\n+++ b/a.py\n" * 900 + "@@\n-a\n+b\n",
        "--- a/a.py\n+++ b/a.py\n@@\n-a\n" + "\n" * 200_000 + "+b\n",
    ],
)
async def test_time_stays_bounded_for_long_runs_of_blanks(ctx: FakeToolContext, text: str) -> None:
    # Each took minutes, mostly in one call into the pattern matcher that stops all other threads.
    put(ctx, "a.py", b"x\n")
    assert await refused(ctx, text)
