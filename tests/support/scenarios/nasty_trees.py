"""The nasty trees, by name. Each makes a repository in an empty folder, dirty in its own way."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.support.scenarios.trees import Tree, commit, git, put, start


def hostile(folder: Path) -> str:
    """A program that leaves a mark beside the repository when it is run."""
    program = put(
        folder.parent, "evil.sh", b"#!/bin/sh\ntouch '%s'\ncat\n" % os.fsencode(folder.parent / "ran"), 0o755
    )
    return str(program)


def clean(top: Path) -> None:
    start(top)


def dirty(top: Path) -> None:
    start(top)
    put(top, "a.txt", b"staged\n")
    git(top, "add", "a.txt")
    put(top, "a.txt", b"staged, then changed\n")
    (top / "gone.txt").unlink()
    put(top, "src/b.py", b"b = 2\n")
    put(top, "new/deep/file.txt", b"untracked\n")
    put(top, "staged.txt", b"new\n")
    git(top, "add", "staged.txt")
    put(top, "ignored/x", b"not copied")
    put(top, "some.log", b"not copied")
    git(top, "rm", "-q", "--cached", "run.sh")


def names(top: Path) -> None:
    start(top)
    for name in (
        b"a\nb",
        b'quo"te',
        b"-dash",
        b"\xff\xfe bytes",
        b" space ",
        b"back\\slash",
        b"*star",
        "ü/ñ".encode(),
        b"!x",
    ):
        put(top, name, name)
    commit(top)
    for name in (b"u a\nb", b'u"q', b"--", b"-rf", b"d\xff/\xfe", b"#x", b":(top)x", b"tab\t"):
        put(top, name, name)


def links(top: Path) -> None:
    start(top)
    (top.parent / "outside").write_text("outside")
    for name, to in {
        "to_file": "a.txt",
        "to_folder": "src",
        "absolute": str(top / "a.txt"),
        "dangling": "nowhere",
        "out": "../outside",
        "self": "self",
    }.items():
        (top / name).symlink_to(to)
    commit(top)
    (top / "to_file").unlink()
    (top / "to_file").symlink_to("run.sh")
    (top / "a.txt").unlink()
    (top / "a.txt").symlink_to("/etc/hostname")
    (top / "untracked").symlink_to("nowhere else")


def bits(top: Path) -> None:
    start(top)
    (top / "a.txt").chmod(0o755)
    (top / "run.sh").chmod(0o644)
    put(top, "tool", b"#!/bin/sh\n", 0o700)
    put(top, "read_only", b"x", 0o444)
    put(top, "shut/file", b"x")
    (top / "shut").chmod(0o555)


def line_ends(top: Path) -> None:
    start(top)
    put(
        top,
        ".gitattributes",
        b"*.txt text\n*.win text eol=crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n*.bin binary\n",
    )
    put(top, "lf.txt", b"a\nb\n")
    put(top, "crlf.txt", b"a\r\nb\r\n")
    put(top, "mixed.txt", b"a\r\nb\nc\r\n")
    put(top, "x.win", b"a\r\nb\r\n")
    put(top, "k.id", b"$Id$\n")
    put(top, "e.u16", "text\n".encode("utf-16"))
    put(top, "raw.bin", b"\0\r\n\r\n")
    commit(top)
    put(top, "lf.txt", b"a\r\nb\r\n")
    put(top, "k.id", b"$Id: something $\n")
    put(top, "new.win", b"lf\nonly\n")
    put(top, "new_mixed.txt", b"a\r\nb\n")


def autocrlf(top: Path) -> None:
    start(top)
    git(top, "config", "core.autocrlf", "true")
    put(top, "crlf.c", b"a\r\nb\r\n")
    put(top, "lf.c", b"a\nb\n")
    commit(top)
    put(top, "untracked.c", b"x\r\ny\n")
    put(top, "crlf.c", b"a\r\nb\r\nc\n")


def filters(top: Path) -> None:
    start(top)
    put(
        top,
        ".gitattributes",
        b"*.evil filter=evil\n*.lfs filter=lfs diff=lfs merge=lfs -text\n*.md diff=evil\n",
    )
    put(top, "x.evil", b"content\n")
    put(top, "big.lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    put(top, "read.md", b"text\n")
    commit(top)
    program = hostile(top)
    for name in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.lfs.process",
        "core.fsmonitor",
        "diff.evil.command",
    ):
        git(top, "config", name, program)
    for name in (
        "diff.evil.textconv",
        "core.sshCommand",
        "alias.add",
        "core.pager",
        "gpg.program",
        "core.editor",
    ):
        git(top, "config", name, program)
    for name in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction"):
        put(top, f".git/hooks/{name}", Path(program).read_bytes(), 0o755)
    put(top, "a.txt", b"dirty\n")


def submodules(top: Path) -> None:
    inner = top.parent / "library"
    start(inner)
    start(top)
    for name in ("sub", "not_there"):
        git(top, "submodule", "--quiet", "add", str(inner), name)
    commit(top)
    git(top, "submodule", "--quiet", "deinit", "-f", "not_there")
    put(top, "sub/a.txt", b"dirty inside\n")
    put(top, "sub/new.txt", b"untracked inside\n")
    put(top, "sub/some.log", b"ignored inside\n")
    (top / "sub/gone.txt").unlink()
    start(top / "nested/repository")
    put(top, "nested/repository/more.txt", b"more\n")


def sparse(top: Path) -> None:
    start(top)
    put(top, "left/a", b"a")
    put(top, "right/b", b"b")
    commit(top)
    git(top, "sparse-checkout", "set", "--no-cone", "/src/", "/a.txt")
    put(top, "src/b.py", b"b = 3\n")


def cone(top: Path) -> None:
    start(top)
    put(top, "left/a", b"a")
    put(top, "right/b", b"b")
    commit(top)
    git(top, "sparse-checkout", "set", "--cone", "--sparse-index", "left")
    put(top, "left/a", b"changed")
    put(top, "left/new", b"new")


def flags(top: Path) -> None:
    start(top)
    put(top, "later.txt", b"later\n")
    git(top, "add", "-N", "later.txt")
    git(top, "update-index", "--assume-unchanged", "a.txt")
    put(top, "a.txt", b"changed, and git may not look\n")
    git(top, "update-index", "--skip-worktree", "src/b.py")
    put(top, "src/b.py", b"local = 1\n")


def replaced(top: Path) -> None:
    start(top)
    (top / "a.txt").unlink()
    put(top, "a.txt/inner", b"a folder now\n")
    (top / "src/b.py").unlink()
    (top / "src").rmdir()
    put(top, "src", b"a file now\n")
    (top / "run.sh").rename(top / "RUN.sh")


def unborn(top: Path) -> None:
    top.mkdir(parents=True)
    git(top, "init", "-q")
    put(top, "first.txt", b"first\n")
    put(top, "staged.txt", b"staged\n")
    git(top, "add", "staged.txt")


def empty(top: Path) -> None:
    top.mkdir(parents=True)
    git(top, "init", "-q")


def detached(top: Path) -> None:
    start(top)
    commit(top)
    git(top, "checkout", "-q", "--detach", "HEAD~1")
    put(top, "a.txt", b"on no branch\n")


def conflict(top: Path) -> None:
    start(top)
    git(top, "checkout", "-qb", "other")
    put(top, "a.txt", b"theirs\n")
    put(top, "gone.txt", b"changed there\n")
    commit(top)
    git(top, "checkout", "-q", "main")
    put(top, "a.txt", b"ours\n")
    (top / "gone.txt").unlink()
    commit(top)
    git(top, "merge", "other", check=False)
    put(top, "extra", b"x")


def rebase(top: Path) -> None:
    conflict(top)
    git(top, "merge", "--abort")
    git(top, "rebase", "other", check=False)


def stash(top: Path) -> None:
    start(top)
    put(top, "a.txt", b"stashed\n")
    git(top, "stash", "-q")
    put(top, "a.txt", b"now\n")
    git(top, "tag", "-am", "a tag", "v1")


def split_index(top: Path) -> None:
    start(top)
    git(top, "update-index", "--split-index")
    put(top, "more", b"x")
    git(top, "add", "more")
    put(top, "a.txt", b"dirty\n")


def version_4(top: Path) -> None:
    start(top)
    put(top, "src/c.py", b"c")
    git(top, "add", "-A")
    git(top, "update-index", "--index-version", "4")
    git(top, "update-index", "--untracked-cache")
    git(top, "status")
    put(top, "src/d.py", b"d")


def worktree(top: Path) -> None:
    main = top.parent / "main_repository"
    start(main)
    git(main, "worktree", "add", "-q", "-b", "side", str(top))
    put(top, "a.txt", b"in the linked one\n")
    put(top, "staged", b"x")
    git(top, "add", "staged")


def shallow(top: Path) -> None:
    origin = top.parent / "origin"
    start(origin)
    put(origin, "a.txt", b"second\n")
    commit(origin)
    git(top.parent, "clone", "-q", "--depth=1", f"file://{origin}", str(top))
    put(top, "a.txt", b"dirty\n")


def partial(top: Path) -> None:
    origin = top.parent / "origin"
    start(origin)
    put(origin, "a.txt", b"second\n")
    commit(origin)
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(top.parent, "clone", "-q", "--filter=blob:none", f"file://{origin}", str(top))
    put(top, "a.txt", b"dirty\n")
    put(top, "b.txt", b"dirty\n")


def borrowed(top: Path) -> None:
    origin = top.parent / "origin"
    start(origin)
    git(top.parent, "clone", "-q", "--shared", str(origin), str(top))
    git(top, "config", "remote.origin.url", "https://me:secret@example.org/x.git")
    put(top, "a.txt", b"dirty\n")


def sha256(top: Path) -> None:
    start(top, "--object-format=sha256")
    put(top, "a.txt", b"dirty\n")
    put(top, "new", b"x")


def pipes(top: Path) -> None:
    start(top)
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(top)  # a socket's path is short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
    put(top, ".trace/.gitignore", b"*\n")
    put(top, ".trace/x/events.jsonl", b"{}\n")
    put(top, "huge.bin", os.urandom(3 << 20))


TREES: dict[str, Tree] = {
    make.__name__: make
    for make in (
        *(
            clean,
            dirty,
            names,
            links,
            bits,
            line_ends,
            autocrlf,
            filters,
            submodules,
            sparse,
            cone,
            flags,
            replaced,
        ),
        *(
            unborn,
            empty,
            detached,
            conflict,
            rebase,
            stash,
            split_index,
            version_4,
            worktree,
            shallow,
            partial,
        ),
        *(borrowed, sha256, pipes),
    )
}
