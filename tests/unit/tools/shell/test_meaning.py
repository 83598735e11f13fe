from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.shell.bash_words import Word
from tools.shell.command_effects import Meaning, meaning
from tools.shell.command_line import Simple
from tools.shell.syntax import parse


def of(line: str) -> Meaning:
    """The meaning of the first command of a line."""
    return meaning(parse(line).commands[0])


OPAQUE = [
    "awk '{print $1}' f", "awk -f x f", "gawk 'NR > 1' f", "eval 'ls'", "eval ls -la", "sqlite3 x.db 'select 1'",
    "trap 'rm x' EXIT", "git config --show-scope alias.x '!cmd'", "git config alias.x '!cmd' get", "git unheard-of",
    "git grep -lhO'CMD' hello README.md", "make zz.o CC='CMD;:'", "file -C -m x",
    "python -c x", "python3.11 -c x", "python -Bc x", "python - < f", "python", "python -m timeit x",
    "python -m pdb x",
    "python $X", "pypy3 -c x", ".venv/bin/python -c x", "/usr/bin/python3 -c x",
    "node -e x", "node --eval=x", "node -pe x", "node -r ./x y.js", "deno eval x", "bun -e x",
    "perl -e x", "perl -ne x f", "perl -pi -e x f", "perl -Mx f", "ruby -e x", "ruby -rx f", "php -r x",
    "lua -e x",
    "Rscript -e x", "osascript -e x", "pwsh -Command x",
    "awk '{system(\"x\")}' f", "awk '{print > \"x\"}' f", "awk 'BEGIN{getline x < \".env\"}'", "awk \"$X\" f",
    "awk '{print | \"sh\"}' f", "awk 'BEGIN{ARGV[1]=\".env\"}' f", "gawk -i inplace x f",
    "gawk '@load \"x\"' f",
    "awk '{printf \"%s\", $1 >> \"x\"}' f",
    "sed 's/a/b/w out' f", "sed 's/a/b/e' f", "sed '1e rm x' f", "sed 'w out' f", "sed 'r .env' f",
    "sed \"$X\" f",
    "sed -n '/a/w out' f", "sed 's/[/]/g;s/e;#/x/' f", "sed -e p -e 'w out' f", "sed 'R .env' f",
    "sed '$!e' f",
    "sed --expression='w x' f", "sed 's,a,b,w x' f", "sed 'y/a/b/;w x' f", "sed --posix 'a\\' f",
    "vim -c x", "vi f", "ed f", "emacs --eval x", "ex f", "code .",
    "make -f - x", "make --eval=x", "make SHELL=./x", "make x MAKEFLAGS=y",
    "ssh host cmd", "docker run x", "docker exec c ls", "docker compose up",
    "kubectl exec p -- ls", "kubectl apply -f x",
    "npx x", "uvx x", "pipx run x", "nc -l 1", "gdb x", "psql -c x",
    "bash", "sh -s", "bash -c \"$X\"", "bash -c $X", "bash -", "bash /dev/stdin", "bash -i", "zsh -c",
    "bash $X",
    "source /dev/stdin", ". <(curl x)", "eval \"$X\"", "eval $(x)", "$CMD x", "\"$CMD\" x", "/bin/r? x",
    "$(x) y",
    "parallel rm", "watch $X", "env -S \"$X\"", "env PATH=. ls", "env LD_PRELOAD=x ls", "env -C x ls",
    "PATH=. ls", "LD_PRELOAD=./x ls", "GIT_PAGER=x git log", "PAGER=x git log", "HOME=. git log",
    "BASH_ENV=x bash a.sh",
    "PYTHONPATH=/tmp pytest", "PYTHONPATH=../x pytest", "NODE_OPTIONS=x npm test", "PATH=.", "IFS=x",
    "export PATH=.", "declare -x PATH=.", "local IFS=x", "readonly BASH_ENV=x",
    "shopt -s expand_aliases", "enable -f x y", "at now", "crontab f", "systemd-run x",
    "mapfile -C x y",
    "git -c core.pager=x log", "git -ccore.pager=x log", "git --exec-path=. log", "git --config-env=a=B log",
    "git --git-dir=x log", "git $X", "git grep -Ox y", "git grep --open-files-in-pager=x y",
    "git log --ext-diff",
    "git filter-branch x", "git difftool", "git submodule foreach x", "git bisect run x",
    "git rebase -i main",
    "git config core.pager x", "git config --global alias.x '!rm'", "git fetch --upload-pack=x",
    "git clone -c a=b x",
    "git push --receive-pack=x", "git -p$X log",
    "rg --pre ./x y", "rg --hostname-bin x y", "rg --pre=x y", "tar --to-command=x -xf a", "tar -I x -cf a b",
    "tar --checkpoint-action=exec=x -cf a b", "tar xf a --use-compress-program=x", "rsync -e x a b",
    "scp -S x a b:c",
    "curl -K x", "wget -e use_askpass=x y", "split --filter=x a", "zip a b -T -TT x", "sudo -s", "su",
    "su -c \"$X\"",
    "goalwright permission allow x", "python -m daemon", "hyperfine 'rm x'", "tmux new rm", "uv run -c x",
    "ipython -c x", "R -e x", "tsx -e x",
    "script", "go test -exec ./x ./...", "go build -toolexec=x", "sqlite3 x.db '.shell rm'", "sqlite3 x.db",
    "sqlite3 x.db \"select writefile('a', 'b')\"", "xargs -I{} {} x", "watch -n 1 $X", "flock x -c \"$X\"",
    "trap \"$X\" EXIT", "timeout $X ls", "nice $X ls", "xargs $X ls", "time $X",
]  # fmt: skip


@pytest.mark.parametrize("line", OPAQUE)
def test_what_rules_cannot_read_says_so(line: str) -> None:
    found = of(line)
    if line in ("xargs -I{} {} x", "nice $X ls", "xargs $X ls", "time $X"):
        inner = [meaning(Simple(tuple(words))) for words in found.inner if not isinstance(words, str)]
        assert all(each.opaque for each in inner)
        return
    assert found.opaque
    assert not found.read_only
    assert not found.general


@pytest.mark.parametrize(
    "line",
    [
        "python x.py", "python -u x.py a", "python -m pytest -q", "python3 -m http.server", "python -V",
        "node x.js",
        "node --version", "perl x.pl", "ruby x.rb", "bash x.sh a", "bash -x x.sh", "sh ./x",
        "source .venv/bin/activate",
        ". ./x", "./x.sh",



        "sed -n 1,5p f", "sed 's/a/b/g' f", "sed -e 's|a|b|' -e '/x/d' f", "sed -i s/a/b/ f", "sed '$d' f",
        "sed 's/[^a-z]*//' f", "sed -E 's/(a)/\\1/; s/b/c/I' f", "sed '/a/,/b/p' f", "sed -n '/a/{p;q}' f",
        "sed '/^$/d' f", "sed 10q f", "sed 's#a/b#c#' f", "sed -n '$=' f",
        "make test", "make -j4 x", "make -f Makefile.dev x", "npm test", "npm run build", "docker ps",
        "docker logs x",
        "kubectl get pods", "FOO=1 ls", "CI=1 npm test", "PYTHONPATH=src pytest",
        "IFS= read -r line", "x=5", "export FOO=1", "read line", "env FOO=1 ls", "tar xf a", "rsync -a a b",
        "git config --get user.name", "git config user.name", "git log -c", "git clean -xfd",
        "git switch -c x",
        "git cherry-pick -x abc", "git push -u origin main", "git commit -c HEAD", "git bisect start",
        "git rebase main",
        "go test ./...", "find . -exec ls {} +", "xargs ls", "sudo ls", "alias",
        "curl https://h", "git checkout -b x", "git stash", "trap - EXIT", "type ls",
        "gh pr list",
    ],
)  # fmt: skip
def test_ordinary_commands_are_judged_by_their_text(line: str) -> None:
    assert of(line).opaque == ""


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("env -i -u X A=b ls -l", ["ls -l"]),
        ("env -S 'ls -l' x", ["ls -l x"]),
        ("nohup ls", ["ls"]),
        ("nice ls", ["ls"]),
        ("nice -n5 ls", ["ls"]),
        ("nice -n 5 ls -n", ["ls -n"]),
        ("ionice -c 3 ls", ["ls"]),
        ("timeout 5 ls", ["ls"]),
        ("timeout -k 1 -s KILL 5s ls", ["ls"]),
        ("timeout --signal=KILL 5 ls", ["ls"]),
        ("stdbuf -oL ls", ["ls"]),
        ("stdbuf -o L ls", ["ls"]),
        ("setsid -w ls", ["ls"]),
        ("command ls", ["ls"]),
        ("command -p ls", ["ls"]),
        ("command -v ls", []),
        ("builtin cd x", ["cd x"]),
        ("exec -a x ls", ["ls"]),
        ("sudo -u me A=b ls", ["ls"]),
        ("doas ls", ["ls"]),
        ("su -c 'ls -l' me", ["ls -l"]),
        ("xargs ls -l", ["ls -l"]),
        ("xargs -0 -n1 -P 4 ls", ["ls"]),
        ("xargs -I {} ls {}", ["ls {}"]),
        ("find . -name x -exec ls {} ';' -ok rm {} +", ["ls {}", "rm {}"]),
        ("find . -execdir ls {} \\; -print", ["ls {}"]),
        ("watch -n 2 ls -l", ["ls -l"]),
        ("watch 'ls | wc'", ["ls | wc"]),
        ("flock -w 3 l ls", ["ls"]),
        ("flock l -c 'ls x'", ["ls x"]),
        ("script -qc 'ls x' out", ["ls x"]),
        ("strace -f -e trace=open ls", ["ls"]),
        ("unshare -r ls", ["ls"]),
        ("busybox ls x", ["ls x"]),
        ("bash -c 'ls; pwd'", ["ls; pwd"]),
        ("bash -ec 'ls'", ["ls"]),
        ("bash -e -o pipefail -c 'ls'", ["ls"]),
        ("bash --norc -c 'ls' a", ["ls"]),
        ("sh <<< ls", ["ls"]),
        ("eval ls '-l'", ["ls -l"]),
        ("trap 'ls' EXIT", ["ls"]),
        ("git rebase --exec 'make test' main", ["make test"]),
        ("/usr/bin/time -o f ls", ["ls"]),
        ("-- ls", []),
    ],
)
def test_commands_in_commands(line: str, inner: list[str]) -> None:
    found = of(line).inner
    texts = [
        each if isinstance(each, str) else " ".join(filter(None, (word.text for word in each)))
        for each in found
    ]
    assert [text.strip() for text in texts] == inner


@pytest.mark.parametrize(
    "line",
    [
        "git reset --hard", "git -C x reset --hard HEAD~1", "git reset --har", "git checkout -- .",
        "git checkout .",
        "git checkout HEAD a.py", "git checkout -f", "git restore a", "git restore .", "git clean -fd",
        "git clean -xdf",
        "git push --force", "git push -f", "git push origin +main", "git push origin :main",
        "git push --delete origin x",
        "git push --force-with-lease", "git push --mirror", "git branch -D x", "git branch -d -f x",
        "git tag -d x",
        "git stash drop", "git stash clear", "git rebase main", "git filter-branch x",
        "git reflog expire --all",
        "git gc --prune=now", "git update-ref -d x", "git commit --amend", "git switch --discard-changes x",
        "git worktree remove x", "git rm -rf x",
        "rm -r x", "rm -rf x", "rm --recursive x", "rm -f x", "rm *", "rm a b c d e f", "dd if=a of=b",
        "mkfs.ext4 x",
        "shred x", "truncate -s 0 x", "chmod -R 777 .", "chown -R me .", "kill -9 1", "pkill x",
        "killall x", "shutdown",
        "reboot", "crontab -r", "docker system prune", "docker rm x", "npm publish", "twine upload x",
        "cargo publish",
        "gh release create x", "gh pr merge 1", "kubectl delete pod x", "terraform destroy", "find . -delete",
        "git reset --ha", "git commit --am", "git rm --f x", "rm --r x", "rm --re x",
        "rsync -a --delete-during a b", "rsync -a --delete-delay a b", "git --attr-source HEAD reset --hard",
        "rsync -a --delete a b", "sudo ls", "goalwright mode auto", "goalwright permission allow x",
        "./bin/goalwright x", "goalwright-daemon", "python -I -m daemon", "python3 -m lsp_bridge.cli x",
    ],
)  # fmt: skip
def test_what_cannot_be_taken_back_is_named(line: str) -> None:
    assert of(line).warning


@pytest.mark.parametrize(
    "line",
    [
        "git reset x", "git checkout main", "git checkout -b x", "git restore --staged x", "git clean -n",
        "git push --dry-run",
        "git branch -d x", "git branch x", "git tag x", "git stash",
        "git stash pop",
        "git log", "git commit -m x", "git gc", "git status", "rm x", "chmod 755 x",
        "kill 5", "docker ps", "npm test", "cargo build", "find . -name x", "ls", "git switch x",
        "git worktree add x",
    ],
)  # fmt: skip
def test_what_can_be_taken_back_is_not(line: str) -> None:
    assert of(line).warning == ""


@pytest.mark.parametrize(
    "line",
    [
        "echo x", "pwd", "ls -la", "cat a", "head -3 a", "tail a", "grep -r x .", "rg x", "wc -l a",
        "sort a", "uniq a",
        "find . -name x", "which ls", "type ls", "test -f a", "[ -f a ]", "[[ a = b ]]", "true", "date",
        "printf x", "tree",
        "git status", "git log -3", "git diff", "git show HEAD", "git branch", "git branch -a",
        "git tag -l", "git blame a",
        "git stash list", "git remote -v", "git config --get x", "git worktree list", "git -C x log",
        "cd x", "du -sh .",
        "sed -n 1p a", "jq .x a", "diff a b", "stat a", "file a", "md5sum a",
        "cut -f1 a",
        "command -v x", "xargs grep x", "time ls", "env CI=1 ls", "CI=1 ls", "x=5", "base64 a",
    ],
)  # fmt: skip
def test_commands_that_change_nothing(line: str) -> None:
    assert of(line).read_only


@pytest.mark.parametrize(
    "line",
    [
        "rm x", "cp a b", "sort -o a b", "sort $X", "find . -delete", "find . $X", "find . -fprint x",
        "touch x", "sed -i s/a/b/ x", "tree -o x", "uniq a b", "xxd a b", "yq -i .a f", "printf -v x y",
        "env",
        "date -s x", "git branch x", "git branch -D x", "git tag x", "git stash", "git config a b",
        "git commit",
        "git log --output=x", "git log $X", "git fetch", "git branch --list $X", "rg --pre x y", "unknown",
        "make", "pytest",
        "curl https://h", "tee x", "./ls", "FOO=1 ls", "python x.py", "tar xf a", "sudo ls",
        "git reflog expire", "awk -f x",
        "/usr/bin/time -o x ls", "kill 3", "npm test", "hostname x", "git grep -O x", "base64 -o x a",
    ],
)  # fmt: skip
def test_commands_that_may_change_something(line: str) -> None:
    assert not of(line).read_only


@pytest.mark.parametrize(
    ("line", "general"),
    [
        ("git log -3", "git log"), ("ls -la", "ls"), ("npm run build", "npm run build"),
        ("pytest -q", "pytest"),
        ("python -m pytest x", "python -m pytest"), ("make check -j4", "make check"),
        ("cargo test x", "cargo test"),
        ("grep x a", "grep"), ("ruff check .", "ruff check"),
        ("git push", ""), ("rm x", ""), ("find . -name x", ""), ("sed -n p x", ""), ("pytest -p x", ""),
        ("./pytest", ""),
        ("/bin/ls", ""), ("PATH=. ls", ""), ("FOO=1 ls", ""), ("git log --output=x", ""),
        ("git -C x log", ""), ("env ls", ""),
        ("make test X=1", ""), ("npm run x -- y", ""), ("python x.py", ""), ("git log $X", ""),
        ("pytest /tmp/x", ""),
    ],
)  # fmt: skip
def test_what_may_be_allowed_whatever_follows(line: str, general: str) -> None:
    assert of(line).general == general


@pytest.mark.parametrize(
    ("line", "also"),
    [
        ("/bin/rm x", "rm x"),
        ("FOO=1 rm x", "rm x"),
        ("git -C sub push --force", "git push --force"),
        ("git --no-pager push", "git push"),
        ("./rm x", "rm x"),
    ],
)
def test_rules_mean_a_command_by_its_other_names_too(line: str, also: str) -> None:
    assert also in of(line).also


def test_a_runner_of_an_environment_shows_what_it_runs() -> None:
    for runner in ("uv run", "poetry run", "uv run --with x", "bundle exec"):
        (inner,) = of(f"{runner} python -c x").through
        assert meaning(Simple(tuple(inner))).opaque


def test_what_is_piped_into_an_interpreter_is_opaque() -> None:
    for line in ("curl x | sh", "cat f | python", "echo x | base64 -d | bash", "x | sudo sh", "cat x | perl"):
        last = meaning(parse(line).commands[-1])
        inner = [meaning(Simple(tuple(words))) for words in last.inner if not isinstance(words, str)]
        assert last.opaque or any(each.opaque for each in inner)
    assert meaning(parse("cat x | python y.py").commands[-1]).opaque == ""


WORD = st.builds(
    Word,
    text=st.sampled_from(
        [
            "-c",
            "-e",
            "-i",
            "--",
            "-",
            "",
            "x",
            "git",
            "log",
            "-exec",
            "{}",
            ";",
            "s/a/b/",
            "a=b",
            "$X",
            "-o",
            "-C",
            "=",
            "@",
        ]
    )
    | st.text(max_size=6),
    known=st.booleans(),
    glob=st.booleans(),
    source=st.text(max_size=4),
    tilde=st.booleans(),
)
NAMES = st.sampled_from(
    [
        "git", "env", "find", "xargs", "tar", "sed", "awk", "bash", "python", "perl", "cp", "mv", "curl", "sudo",
        "timeout",
        "rg", "sort", "make", "docker", "eval", "trap", "export", "read", "dd", "zip", "uniq", "flock",
        "watch", "nice", "chmod", "goalwright", "sqlite3", "node", "openssl", "rsync", "unknown",
    ]
)  # fmt: skip


@given(NAMES.map(lambda name: Word(name, source=name)), st.lists(WORD, max_size=7))
def test_it_never_raises(name: Word, args: list[Word]) -> None:
    found = meaning(Simple((name, *args), text="x"))
    assert not (found.opaque and found.general)


@given(NAMES, st.text("abc./", min_size=1, max_size=8).filter(lambda text: text.strip("./")))
def test_a_wrapper_changes_nothing_about_what_it_runs(name: str, path: str) -> None:
    for wrapper in ("env ", "nohup ", "timeout 5 ", "nice -n 5 ", "command ", "sudo ", "busybox "):
        inner = of(f"{wrapper}cat {path}").inner
        assert [[word.text for word in words if isinstance(word, Word)] for words in inner] == [["cat", path]]
