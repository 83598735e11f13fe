from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenarios.command_rules import build, verdicts
from tools.shell.question import CommandPlace, question

HOLES = [
    # The path of a revision stands after any colon.
    "git show :0:secrets/key.txt",
    "git cat-file -p :0:secrets/key.txt",
    "git show 'HEAD^{/one: x}:secrets/key.txt'",
    "git show 'HEAD@{2030-01-01 10:00:00}:secrets/key.txt'",
    "git diff HEAD:src/a.py :0:.env",
    "cd src && git show HEAD:secrets/key.txt",
    "git -C src show HEAD:secrets/key.txt",
    # Folders in a revision.
    "git grep TOP HEAD:secrets",
    "git archive HEAD:secrets",
    # Pathspecs.
    "git grep TOP -- ':/secrets'",
    "git grep TOP ':(top)secrets'",
    "git grep TOP ':(glob)sec*/*'",
    "git grep TOP -- ':sec*'",
    "git grep TOP -- '*.txt'",
    "git grep TOP ':(icase)SECRETS'",
    "git grep TOP -- ':!src'",
    "git -C src grep TOP -- :/",
    "git -C src grep TOP -- :/secrets",
    "git show HEAD -- ':/secrets'",
    "git log -p -- ':(top,literal)secrets'",
    "git rm -rfq ':/'",
    "git rm -rfq ':(top)poetry.lock'",
    "git rm -rfq ':/*.lock'",
    "git checkout -- ':/poetry.lock'",
    "git checkout ':/poetry.lock'",
    "git mv ':/poetry.lock' z",
    # A revision is no limit.
    "git grep TOP HEAD",
    "git grep -h -e TOP HEAD~2",
    "git grep TOP @{1}",
    "git grep TOP origin/main",
    "git config -f secrets/key.txt -l",
    "git -C secrets config -f key.txt -l",
    "git config --blob=HEAD:secrets/key.txt -l",
    "git config --blob HEAD:secrets/key.txt --list",
    "git interpret-trailers secrets/key.txt",
    "git interpret-trailers --in-place --trailer 'a: b' poetry.lock",
    "git interpret-trailers --in-pl --trailer 'a: b' poetry.lock",
    "git merge-file -p src/a.py src/a.py secrets/key.txt",
    "git cat-file --batch <<< HEAD:secrets/key.txt",
    "git cat-file --batch --batch-all-objects",
    "git cat-file --batch-command",
    "git cat-file -p 0123abcd",
    # Whole trees.
    "git archive HEAD | tar xO",
    "git fast-export HEAD",
    "git checkout-index -a --prefix=out/",
    "git checkout-index --prefix=poetry src/.lock",
    "git worktree add -q wt; cat wt/secrets/key.txt",
    "git format-patch --stdout --root HEAD",
    "git format-patch --std --root HEAD",
    "git bundle create x HEAD",
    # What a line names counts also where nothing can be looked up.
    "git archive HEAD secrets",
    "git log -1 -p -- secrets",
    "git grep TOP -- secrets",
    "git grep TOP secrets",
    "git grep -he TOP HEAD -- secrets",
    "git --literal-pathspecs grep TOP secrets",
    "git -C src grep TOP ../secrets",
    "git rm -rfq .",
    "git checkout -- .",
    "git commit-tree HEAD^{tree} -F secrets/key.txt",
    "git diff HEAD conf/../secrets/key.txt",
    "git diff /dev/null src/../secrets/key.txt",
    "git log -p conf/../.env",
    "git blame conf/../secrets/key.txt",
    "git diff /dev/null secrets/HEADER",
    "git diff /dev/null secrets/key~",
    "git diff --relative .env",
    "git diff -U .env",
    "git diff --unified secrets/key.txt",
    "git log -p --abbrev .env",
    "git log -p --pretty .env",
    "git show --pretty HEAD:.env",
    "git blame --abbrev secrets/key.txt",
]
RUN = [
    "git ls-remote --upload=./evil.sh .",
    "git ls-remote --u=./evil.sh .",
    "git ls-remote -u ./evil.sh .",
    "git fetch -q --upl=./evil.sh . main",
    "git push -q --exe=./evil.sh . main:x",
    "git push -q --rece=./evil.sh . main:x",
    "git send-pack --rece=./evil.sh . main:y",
    "git fetch-pack --exe ./evil.sh . main",
    "git clone -u ./evil.sh . sub",
    "git clone -qu ./evil.sh . sub",
    "git clone --config core.hooksPath=x . sub",
    "git clone -ccore.hooksPath=x . sub",
    "git clone --conf=core.hooksPath=x . sub",
    "git clone --temp=src . sub",
    "git init --temp=src sub",
    "git archive --remote=. --exec=./evil.sh HEAD",
    "git archive --remote=. --exe=./evil.sh HEAD",
    "git grep --op=./evil.sh limit",
    "git remote-ext x ./evil.sh",
    "git merge-index ./evil.sh -a",
    "git hook run pre-commit",
    "git rebase --exe=./evil.sh --root",
    "git config edit",
]
EVERYDAY = [
    "git status",
    "git log -3 --oneline",
    "git log -p",
    "git log --cc main",
    "git log --text -p src/a.py",
    "git show",
    "git show HEAD",
    "git show HEAD:src/a.py",
    "cd src && git show HEAD:src/a.py",
    "git diff",
    "git diff main..dev -- src",
    "git diff --exit-code HEAD~1 src/a.py",
    "git diff -U5 HEAD~1...feature/x -- src",
    "git diff ORIG_HEAD HEAD@{1}",
    "git log --pretty=%h -3",
    "git log feature/x~2..HEAD",
    "git grep -n limit src",
    "git grep -n limit -- src",
    "git grep -n limit -- '*.py'",
    "git grep limit HEAD -- src",
    "git add src",
    "git checkout main",
    "git checkout -b new",
    "git push -u origin main",
    "git fetch origin",
    "git fetch -u origin main:x",
    "git clone https://h/r.git out",
    "git branch -u origin/main",
    "git config user.name",
    "git commit -m 'a: b/c'",
    "git restore src/a.py",
    "git stash push -m 'x: y'",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return build(tmp_path)


@pytest.mark.parametrize("line", HOLES)
def test_every_git_way_of_naming_a_file_asks(line: str, workspace: Path) -> None:
    assert "allow" not in verdicts(line, workspace).values()


@pytest.mark.parametrize("line", RUN)
def test_git_options_that_run_programs_are_opaque(line: str) -> None:
    accesses = question(line, CommandPlace(Path("/w"), Path("/home/me"))).accesses
    assert any(access.opaque for access in accesses if "git" in access.target)


@pytest.mark.parametrize("line", EVERYDAY)
def test_everyday_git_is_not_asked_about(line: str, workspace: Path) -> None:
    assert verdicts(line, workspace, contained=True)["looking"] == "allow"


def test_git_path_of_outer_repository_is_judged_relative_to_here(workspace: Path) -> None:
    assert verdicts("git show HEAD:pkg/secrets/key.txt", workspace)["looking"] == "deny"
    assert verdicts("git show HEAD:docs/x.md", workspace)["looking"] == "allow"
