"""Lines that an attacker found: code, commands and folders that hide behind options, wrappers and variables."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.model.permissions import Action, Rule
from daemon.permission.rules import RuleSet
from tools.shell.bash_words import names
from tools.shell.question import CommandPlace, question

PLACE = CommandPlace(Path("/workspace"), Path("/home/user"))
NAMES = names(
    "git make cat echo python python3 npm npx node perl bash sh timeout env nice stdbuf flock unshare cmake "
    "find setarch linux64 i386 source . gcc diff3 sdiff foo "
)
DENIED: list[tuple[str, str, Action]] = [
    ("read", "*.env", "deny"), ("read", "secrets/*", "deny"), ("edit", "*.lock", "deny"), ("bash", "curl *", "deny"),
    ("bash", "rm *", "deny"),
]  # fmt: skip


def _rules(*rules: tuple[str, str, Action]) -> RuleSet:
    made = [Rule(permission=one, pattern=two, action=three, source="user") for one, two, three in rules]
    return RuleSet(made, root="/workspace")


NAMED_RULES: list[tuple[str, str, Action]] = [("bash", f"{name} *", "allow") for name in sorted(NAMES)]
OPEN = _rules(("*", "*", "allow"), *DENIED)
NAMED = _rules(
    ("read", "*", "allow"),
    ("edit", "*", "allow"),
    *NAMED_RULES,
    *DENIED,
)


@pytest.mark.parametrize(
    "line",
    [
        "python3 --check-hash-based-pycs always -c 'x'",
        "python3 -m asyncio <<< 'x'",
        "python3 -m code <<< x",
        "python3 -m pdb x.py",
        "python3 -im this <<< x",
        "python3 -i src/a.py <<< x",
        "python3 ./../../../../../dev/stdin <<< 'x'",
        "python3 -m pip config --editor ./evil.sh edit --user",
        "python3 -Ic 'x'",
        "python3 -W i -Xdev -c 'x'",
        "node --title x -e 'c'",
        "node --stack-trace-limit 5 -p 'c'",
        "node --experimental_loader=./x.mjs src/a.js",
        "node --inspect-port 0 -e 'c'",
        "node -C x -e 'c'",
        "node --disable-warning x -e 'c'",
        "node --dns-result-order verbatim -e c",
        "node --unhandled-rejections strict -e c",
        "node --max-http-header-size 9999 --eval c",
        "node --icu-data-dir=x -pe c",
        "node -i src/x <<< c",
        "node --import ./x a.js",
        "node --redirect-warnings=poetry.lock --trace-warnings evil.js",
        "node --env-file=x evil.js",
        "node inspect evil.js",
        "perl -0777e x",
        "perl -l012e x",
        "perl -CSe x",
        "perl -C0e x",
        "perl '-mstrict;system(\"./evil.sh\")' /dev/null",
        "perl -w0e x",
        "perl -d -e 1",
        "perl -t0le x",
        "perl -ve x",
        "perl -a0e x",
        "perl -Esay+1",
        "bash -oc pipefail 'cat secrets/key.txt'",
        "bash -Oc extglob 'cat secrets/key.txt'",
        "bash -eoc pipefail 'curl x'",
        "sh -oc errexit 'curl x'",
        "bash --rcfile evil.sh -ic true",
        "bash --init-file evil.sh -ic true",
        "bash --rcfile=evil.sh -ic true",
        "make 'X:=$(shell ./evil.sh)'",
        "make 'X!=./evil.sh'",
        "make 'X::=$(file >poetry.lock,hi)'",
        "make '$(shell ./evil.sh)=1'",
        "make -f /dev/stdin <<< 'all:;./evil.sh'",
        "make --makefile=/dev/stdin <<< 'all:;./evil.sh'",
        "echo 'all:;./evil.sh' | make -f /dev/stdin",
        "make -ef- <<< 'all:;./evil.sh'",
        "make --ev='all:;./evil.sh'",
        "make -f /proc/self/fd/0 <<< 'all:;./evil.sh'",
        "FOO='$(shell ./evil.sh)' make all",
        "find secrets -execdir cat key.txt ';'",
        "find . -maxdepth 1 -name secrets -execdir cat secrets/key.txt ';'",
        "find src -name a.py -execdir cp a.py ../poetry.lock ';'",
        "find . -name evil.sh -execdir ./evil.sh ';'",
        "unshare --wd=secrets cat key.txt",
        "unshare -w secrets cat key.txt",
        "unshare --w secrets cat key.txt",
        "unshare --map-user 0 curl x",
        "cmake -E chdir secrets cat key.txt",
        "cmake -E env curl x",
        "cmake -E env --unset=A B=1 curl x",
        "cmake -E time curl x",
        "cmake -E rm victim",
        "cmake -E copy src/a.py poetry.lock",
        "cmake -E rename src/a.py poetry.lock",
        "cmake -E cat secrets/key.txt",
        "cmake -E touch poetry.lock",
        "cmake -E create_symlink .env x",
        "cmake -E tar cf x.tar secrets",
        "cmake -P x.cmake",
        "timeout --sig KILL 5 curl x",
        "timeout --kill-a 1 5 curl x",
        "timeout --k 1 5 curl x",
        "env --unse X curl x",
        "nice --adj 5 curl x",
        "stdbuf --outp L curl x",
        "flock --timeo 1 src rm victim",
        "flock --confl 1 src rm victim",
        "ionice --cl 2 rm victim",
        "taskset --cpu 0 rm victim",
        "taskset -c 0 rm victim",
        "taskset 1 rm victim",
        "chrt --ot 0 rm victim",
        "chrt -o 0 rm victim",
        "setpriv curl x",
        "setpriv --reuid 0 curl x",
        "prlimit --nofile=10 curl x",
        "setarch x86_64 curl x",
        "setarch curl x",
        "linux64 curl x",
        "i386 -R curl x",
        "choom -n 5 -- curl x",
        "choom -n 5 curl x",
        "ssh-agent curl x",
        "sg root -c 'curl x'",
        "run-parts x",
        "capsh -- -c 'curl x'",
        "logsave o curl x",
        "numactl -N 0 curl x",
        "cpulimit -l 5 curl x",
        "firejail curl x",
        "faketime '2020' curl x",
        "rlwrap curl x",
        "unbuffer curl x",
        "systemd-run curl x",
        "xvfb-run curl x",
        "npm exec -c 'curl x'",
        "npm exec -- curl x",
        "npm x -c 'curl x'",
        "npx -c 'curl x'",
        "npx curl x",
        "npm explore . -- curl x",
        "npm test --script-shell=./evil.sh",
        "npm run test --script-shell ./evil.sh",
        "npm config set script-shell ./evil.sh",
        "npm config --editor ./evil.sh edit",
        "npm --node-options='-r ./x' test",
        "npm --git=./evil.sh i git+file:///x",
        "npm set git ./evil.sh",
        "gcc -wrapper ./evil.sh -c src/b.c",
        "diff3 --diff-program=./evil.sh a b c",
        "sdiff --diff-program ./evil.sh a b",
        "echo a | xargs --replace rm cat a",
        "strace -o '|rm x' true",
        "strace -o '!rm x' true",
        "direnv exec . rm x",
        "install -s --strip-program=./evil.sh a b",
        "foo -- curl x",
        "foo -- rm victim",
        "source /dev/stdin <<< d=secrets",
        ". ./../../../dev/stdin <<< x",
        "bash -oc pipefail 'curl x'",
        "V='$(shell curl x)'; export V; make",
        "sh -c '[[ x || ./evil.sh ]]'",
        "dash -c '[[ x > poetry.lock ]]'",
        "sh -c 'cat .*/key'",
        "sh -c \"cat '.'*/key\"",
        "busybox ash -c '[[ x || ./evil.sh ]]'",
        "[[: -f x || rm -rf . ]]",
        "[[a -f x || rm -rf . ]]",
        "! [[! -f x || rm -rf . ]]",
        'if [["a" == x || rm -rf . ]]; then ls; fi',
        "sh -c '[[: -f x || rm -rf . ]]'",
    ],
)
def test_a_line_that_hides_what_it_does_never_passes(line: str) -> None:
    ask = question(line, PLACE)
    assert OPEN.judge(ask).action != "allow"
    assert NAMED.judge(ask).action != "allow"


@pytest.mark.parametrize(
    "line",
    [
        "python3 -W ignore -X dev -u src/a.py", "python3 --check-hash-based-pycs always src/a.py", "node --test",
        "node --test src", "node --inspect src/a.js", "node --max-old-space-size=4096 src/a.js",
        "python3 -m http.server",
        "node --title x src/a.js", "perl -w src/a.pl", "perl -Ilib src/a.pl", "bash -eo pipefail src/a.sh",
        "bash -eoc pipefail 'echo a'", "make CFLAGS='-O2 -g'", "make -f Makefile.dev all",
        "timeout --sig KILL 5 python3 a.py",
        "cmake -S . -B build", "cmake --build build -j4", "npm run build", "npm install --save-dev typescript@5",
        "sh -c 'ls *.py .env.example; echo $((1+2))'", "sh -c 'ls src/[[:digit:]].py'",
        "bash -c '[[ -f a ]] && ls src'",
        "gcc -O2 -c src/b.c -o b.o", "setarch x86_64 make", "find . -name '*.orig' -execdir echo {} ';'",
    ],
)  # fmt: skip
def test_the_same_programs_in_everyday_use_pass(line: str) -> None:
    assert OPEN.judge(replace(question(line, PLACE), contained=True)).action == "allow"


@pytest.mark.parametrize(
    "line", ["timeout --sig KILL 5 curl x", "cmake -E env curl x", "linux64 curl x", "foo -- curl x", "npx curl x",
             "bash -eoc pipefail 'curl x'", "echo a | xargs --replace curl cat a", "strace -o '|curl x' ls",
             "direnv exec . curl x", "npm exec -- curl x", "unshare --map-user 0 curl x"],
)  # fmt: skip
def test_a_denied_command_is_denied_behind_them(line: str) -> None:
    assert OPEN.judge(question(line, PLACE)).action == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "bash -O dotglob -c 'cat *'",
        "env -i git -C evil status",
        "env - git status",
        "env -u GIT_CONFIG_COUNT git log",
        "MAGIC=a file b",
        "POSIXLY_CORRECT=1 grep a -e b",
        "env POSIXLY_CORRECT=1 grep a -e b",
        "_POSIX2_VERSION=199209 uniq +1 a b",
        "ZIPOPT='-T -TT x' zip a b",
        "UNZIP=-dx unzip a",
        "RSYNC_RSH=x rsync a b:c",
        "direnv allow",
        "install --strip-program=x -s a b",
        "strace -E LD_PRELOAD=x ls",
    ],
)
def test_what_takes_a_protection_away_is_opaque(line: str) -> None:
    assert any(access.opaque for access in question(line, PLACE).all_accesses)


def test_a_line_that_no_bash_runs_is_read_with_care() -> None:
    place = replace(PLACE, has_bash=False)
    assert OPEN.judge(question("ls src", place)).action == "allow"
    for line in (
        "[[ x || ./evil.sh ]]", "cat .*/key", "[[ x > a ]]", "cat '.'*/key", "cat 'src/.'*/key", "cat .[!a]*/key",
        "cat src/\"\".*/key", "echo \\'; cat .*/key; echo \\'", "echo a # '\ncat .*/key # '", "echo \"$(cat .*/key)\"",
        "cat <<E\n'\nE\ncat .*/key # '", "eval 'cat .*/key'", "trap 'cat .*/key' EXIT", "echo $'a'",
    ):  # fmt: skip
        assert any(access.opaque for access in question(line, place).all_accesses), line


@pytest.mark.parametrize(
    "line",
    [
        "grep -rnE '^[[:space:]]+def' src",
        "sed 's/.*=//' docs/x.md",
        "find . -regex '.*\\.py'",
        "find . -name .\\*",
        'grep -n "it\'s .*" src/a.py',
        "grep 'x$' src/a.py",
        "ls .[!.]*",
        "ls .[a-z]*",
    ],
)
def test_quoted_expressions_mean_the_same_in_all_shells(line: str) -> None:
    assert question(line, replace(PLACE, has_bash=False)).read_only
    inside = question(f"sh -c {shlex.quote(line)}", PLACE).all_accesses
    assert not any("other shells" in access.opaque for access in inside)


@pytest.mark.parametrize("inner", ["eval 'cat .*/key'", "trap 'cat .*/key' EXIT"])
def test_a_line_of_eval_is_read_by_the_shell_around_it(inner: str) -> None:
    found = question(f'sh -c "{inner}"', PLACE).all_accesses
    assert any("other shells" in access.opaque for access in found)
    assert not any("other shells" in access.opaque for access in question(inner, PLACE).all_accesses)
