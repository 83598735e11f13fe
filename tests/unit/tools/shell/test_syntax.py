from __future__ import annotations

import pytest

from tools.shell.command_line import ParsedLine, Simple
from tools.shell.syntax import MAX_LENGTH, parse

KNOWN = {"HOME": "/home/u", "PWD": "/w"}


def texts(line: str) -> list[str]:
    parsed = parse(line, KNOWN)
    assert not parsed.unclear, parsed
    return [command.text for command in parsed.commands]


def only(line: str) -> Simple:
    parsed = parse(line, KNOWN)
    assert not parsed.unclear, parsed
    assert len(parsed.commands) == 1, parsed
    return parsed.commands[0]


def last(line: str) -> Simple:
    parsed = parse(line, KNOWN)
    assert not parsed.unclear, parsed
    return parsed.commands[-1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git log", ["git log"]),
        ("git  log \t -3 ", ["git log -3"]),
        ("a $((RANDOM % 9)) $((SECONDS - 5))", ["a $((RANDOM % 9)) $((SECONDS - 5))"]),
        ("a <<E\n$((1 + 2))\nE", ["a"]),
        ("a | b || c & d\ne", ["a", "b", "c", "d", "e"]),
        ("make 2>&1 | tail -5", ["make", "tail -5"]),
        ("ls # rm x\npwd", ["ls", "pwd"]),
        ("git lo\\\ng", ["git log"]),
        ("git log -1 # \\\ntouch x", ["git log -1", "touch x"]),
        ("git log $(rm -rf x)", ["git log $(rm -rf x)", "rm -rf x"]),
        ('echo "a $(b "$(c)") d"', ['echo "a $(b "$(c)") d"', 'b "$(c)"', "c"]),
        ('echo "$(a) $(b)"', ['echo "$(a) $(b)"', "a", "b"]),
        ("echo `a b`", ["echo `a b`", "a b"]),
        ("(a; b)", ["a", "b"]),
        ("{ a; b; }", ["a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("for x in a $(b); do c; done", ["b", "c"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("case $x in a|b) c;; (d) e ;; *) f; esac", ["c", "e", "f"]),
        ("case $(a) in $(b)) c;; esac", ["a", "b", "c"]),
        ("echo ${x:-$(rm y)}", ["echo ${x:-$(rm y)}", "rm y"]),
        ("diff <(a) <(b)", ["diff <(a) <(b)", "a", "b"]),
        ("a > >(b)", ["a", "b"]),
        ("x=$(a)", ["x=$(a)", "a"]),
        ("x=(a $(b))", ["x=(a $(b))", "b"]),
        ("a > $(b)", ["a", "b"]),
        ("[[ $(a) == b && -f c ]]", ["[[ $(a) == b && -f c ]]", "a"]),
        ("[ -f x ] && a", ["[ -f x ]", "a"]),
        ("cat <<E\n$(a)\nE\nc", ["cat", "a", "c"]),
        ("cat <<'E'\n$(a)\nE\nc", ["cat", "c"]),
        ("time -p rm x", ["rm x"]),
        ("! a | b", ["a", "b"]),
        ("a\n\n# c\nb", ["a", "b"]),
        ("a &\nb & wait", ["a", "b", "wait"]),
        ("", []),
        (" \n # nothing", []),
    ],
)
def test_every_command_is_found(line: str, expected: list[str]) -> None:
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("'rm' \"-rf\" x", "rm -rf x"),
        ("r\\m -r''f x", "rm -rf x"),
        ("$'\\x72m' x", "rm x"),
        ("git 'push' origin", "git push origin"),
        ('echo "a b" c\\ d', 'echo "a b" c\\ d'),
        ("echo 'a; b' \"c && d\" e\\;f", "echo 'a; b' \"c && d\" e\\;f"),
        ("'git log' x", "'git log' x"),
        ("git\\ log x", "git\\ log x"),
        ("'FOO=1' git", "'FOO=1' git"),
        ("FOO=1  git  log", "FOO=1 git log"),
        ("FOO='a b' git log", "FOO='a b' git log"),
        ("git log >x 2>&1 <y", "git log"),
        (">x git log", "git log"),
        ("echo '*' '~' '$x'", "echo '*' '~' '$x'"),
        ('echo "a\\\nb"', "echo ab"),
        ("echo 'a\\\nb'", "echo 'a\\\nb'"),
        ("rm \"$HOME\"/x", "rm /home/u/x"),
        ("echo \"$HOME x\"", "echo '/home/u x'"),
        ("echo ''", "echo ''"),
        ("echo $x \"$y\"", 'echo $x "$y"'),
        ("echo ü 'é'", "echo ü é"),
        ("git log\u00a0-p", "git log\u00a0-p"),
    ],
)  # fmt: skip
def test_the_text_shows_what_is_run_and_nothing_else(line: str, text: str) -> None:
    assert only(line).text == text


@pytest.mark.parametrize(
    ("word", "value", "known", "glob", "tilde"),
    [
        ('"\\$x \\a \\""', '$x \\a "', True, False, False),
        ("~/x", "~/x", True, False, True),
        ("'~/x'", "~/x", True, False, False),
        ("~root/x", "~root/x", False, False, False),
        ("of=~/x", "of=~/x", False, False, False),
        ("--of=~/x", "--of=~/x", True, False, False),
        ("*.py", "*.py", True, True, False),
        ("'*.py'", "*.py", True, False, False),
        ("a{b,c}", "a{b,c}", True, True, False),
        ("a{1..3}", "a{1..3}", True, True, False),
        ("{}", "{}", True, False, False),
        ("HEAD@{1}", "HEAD@{1}", True, False, False),
        ("[ab]", "[ab]", True, True, False),
        ("$x", "$x", False, False, False),
        ('"$HOME"', "/home/u", True, False, False),
        ("${HOME}/a", "/home/u/a", True, False, False),
        ("$((1+2))", "$((1+2))", False, False, False),
        ("${x%.py}", "${x%.py}", False, False, False),
        ("$'a\\tb\\'c'", "a\tb'c", True, False, False),
        ("a#b", "a#b", True, False, False),
        ("$", "$", True, False, False),
        ("x\\\ny", "xy", True, False, False),
    ],
)
def test_words_have_their_values(word: str, value: str, known: bool, glob: bool, tilde: bool) -> None:
    found = only(f"echo {word}").words[1]
    assert (found.text, found.known, found.glob, found.tilde) == (value, known, glob, tilde)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("x=push; git $x", "push"),
        ("x='a b'; git $x", None),
        ("x='*'; git $x", None),
        ("x=; git $x", None),
        ("x=a && git $x", "a"),
        ("x=a; true && x=b; git $x", None),
        ("x=a; if b; then x=c; fi; git $x", None),
        ("for x in a; do git $x; done", None),
        ("x=a; while b; do git $x; done", "a"),
        ("x=a; read x; git $x", None),
        ("x=a; printf -v x b; git $x", None),
        ("x=a; f() { x=b; }; f; git $x", None),
        ("x=a; eval y; git $x", None),
        ("x=a; ((x=1)); git $x", None),
        ("x=a; x+=b; git $x", None),
        ("x=a; x[0]=b; git $x", None),
        ("x=a; unset x; git $x", None),
        ("git $PWD/a", "/w/a"),
        ("unset PWD; git $PWD/a", None),
        ("unset x; git $PWD/a", "/w/a"),
        ("DIRSTACK=a; git $DIRSTACK", None),
        ("FUNCNAME=a; git $FUNCNAME/b", None),
        ("REPLY=a; read <<< b; git $REPLY", None),
        ("OPTARG=a; getopts b: c -b d; git $OPTARG", None),
        ("PIPESTATUS=a; x | y; git $PIPESTATUS", None),
        ("readonly x=a; x=b; git $x", None),
        ("x=a; x=b git $x", None),
    ],
)
def test_variables_are_known_while_nothing_may_have_changed_them(line: str, word: str | None) -> None:
    found = next(
        c.words[1] for c in reversed(parse(line, KNOWN).commands) if c.words and c.words[0].text == "git"
    )
    assert (found.text if found.known else None) == word


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        ("ls", ["."]),
        ("cd a && ls", ["a"]),
        ("cd a; ls", ["a", "."]),
        ("cd a || exit 1; ls", ["a"]),
        ("cd a && cd ../b && ls", ["b"]),
        ("cd a && cd .. && ls", ["."]),
        ("cd .. && ls", [".."]),
        ("cd /x/../y && ls", ["/y"]),
        ("cd && ls", ["~"]),
        ("cd ~/a && ls", ["~/a"]),
        ("cd '~' && ls", ["./~"]),
        ("cd '~' && cd a && ls", ["./~/a"]),
        ("(cd a && x); ls", ["."]),
        ("x=$(cd a); ls", ["."]),
        ("cd a | b; ls", ["."]),
        ("cd a & ls", ["."]),
        ("{ cd a && x; } && ls", ["a"]),
        ("cd $x && ls", [None]),
        ("cd - && ls", [None]),
        ("cd a* && ls", [None]),
        ("cd -P a && ls", [None]),
        ("cd a b && ls", [None]),
        ("if x; then cd a; fi; ls", [".", "a"]),
        ("for x in 1 2; do cd a; done; ls", [None]),
        ("for x in 1 2; do (cd a && x); done; ls", ["."]),
        ("pushd a && ls", ["a"]),
        ("popd && ls", [None]),
        ("eval x; ls", [None]),
        ("command cd a && ls", ["a"]),
        ("d=a; cd $d && ls", ["a"]),
    ],
)
def test_the_folder_follows_cd(line: str, folders: list[str | None]) -> None:
    parsed = parse(line, KNOWN)
    assert not parsed.unclear
    found = [command.folder for command in parsed.commands if command.text == "ls"]
    assert found == folders


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a > f", [(">", "f")]),
        ("a >> f", [(">>", "f")]),
        ("a >| f", [(">|", "f")]),
        ("a &> f", [("&>", "f")]),
        ("a &>> f", [("&>>", "f")]),
        ("a >& f", [(">&", "f")]),
        ("a >&'d/f'", [(">&", "d/f")]),
        ("a < f", [("<", "f")]),
        ("a 2> f", [(">", "f")]),
        ("a >f >'g h' 3<i", [(">", "f"), (">", "g h"), ("<", "i")]),
        ("a > ~/x", [(">", "~/x")]),
        ("a > $x", [(">", "$x")]),
        ("a > *.py", [(">", "*.py")]),
        ("(a) > f", [(">", "f")]),
        ("for x in a; do b; done >> f", [(">>", "f")]),
        ("a > /dev/tcp/h/1", [(">", "/dev/tcp/h/1")]),
        ("a < /dev/udp/h/1", [("<", "/dev/udp/h/1")]),
        ("a >/dev/null 2>&1 </dev/null 2>/dev/stderr 3>&1 <&0", []),
        ("a < <(b)", []),
        ("> f", [(">", "f")]),
        ("[[ -f x ]] > f", [(">", "f")]),
    ],
)
def test_redirections_to_files_are_listed(line: str, found: list[tuple[str, str]]) -> None:
    parsed = parse(line)
    assert not parsed.unclear
    assert [(r.operator, r.target.text) for c in parsed.commands for r in c.redirections] == found


@pytest.mark.parametrize(
    ("line", "stdin", "known"),
    [
        ("sh <<'E'\nrm $x\nE", "rm $x\n", True),
        ("sh <<E\nrm x\nE", "rm x\n", True),
        ("sh <<E\nrm $x\nE", "rm $x\n", False),
        ("sh <<E\nrm \\$x\nE", "rm $x\n", True),
        ("sh <<-E\n\trm x\n\tE", "rm x\n", True),
        ("sh <<< 'rm x'", "rm x", True),
        ('sh <<< "rm $x"', '"rm $x"', False),
        ("sh <<E\nE", "", True),
    ],
)
def test_here_documents_are_stdin(line: str, stdin: str, known: bool) -> None:
    found = only(line).stdin
    assert found is not None
    assert (found.text, found.known) == (stdin, known)


@pytest.mark.parametrize(
    "line",
    [
        "$x a", "$(a) b", "`a`", '"$x"', "${x:-rm} a", "r{m,}", "/bin/r? x", "~/x a", "alias a=b",
        "unalias a", "shopt -s x", "trap a EXIT", "source $a", ". <(a)",
            "enable -n x", "hash -p a b", "bind x",
        "set -a", "set -o posix", "set $x", "PATH=.; ls", "export PATH=.", "IFS=x; a", "LD_PRELOAD=x; a",
        "export BASH_ENV=x", "ENV=x; a", "CDPATH=x; cd a", "PROMPT_COMMAND=x; a", "GLOBIGNORE=x; a",
        "HOME=x; a", "read PATH", "for PATH in a; do b; done", "printf -v PATH a", "git() { x; }; git log",
        "cd() { x; }; cd a", "echo ${!x}", "echo ${x@P}", "echo $[1+1]", 'echo $"a"', "echo $'\\u0041'",
        "echo $((a[$(x)]))", "x='a[$(b)]'; echo $((x))", "[[ 'a[$(b)]' -eq 1 ]]", "a[$(b)]=1",
        "test -v 'a[$(b)]'", "unset 'a[$(b)]'", "declare -n a=b", "declare -i a=b", "let $x", "export $x",
        "echo 'open", 'echo "open', "echo $(open", "echo `open", "a (", "a )", "if a; then b", "for x in",
        "case a in", "a; ;", "&& a", "a ||", "cat <<E\nx", "{ a;", "a \\", "git log \\ #;touch x", "ls\x0b-l",
        "ls\r-l", "a\x00b", "a\x7fb", "a \u202e b", "\ufeffls", "a \ud800", "a &\\\n& b",
        "a >\\\n> f", "f() { rm x; }", "function f { rm x; }; f", "time { a; b; }",
        "coproc a b",
        "select x in a; do b; done", "cat <<E x\nE", "a <> f", "a {fd}> f", "cat <<E | b && c\nx\nE\nd", "$\"a\" b",
        "--output=f", "a && --file=x",
        "echo ${x:-'a'b\"}", "time", "!", "; a", "a | | b", "a 2>", "fc -s", "jobs -x a", "complete -C a b",
        "for i in 1; do f; f() { cd a; }; done",
        "mapfile -C a b", "SECONDS=x", "echo $(a <<E; b\nE\n)",
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_unclear(line: str) -> None:
    assert parse(line).unclear


def test_an_unclear_line_lists_what_was_found() -> None:
    parsed = parse("rm -rf x; alias a=b; git push; $x")
    assert parsed.unclear
    assert {"rm -rf x", "git push"} <= {command.text for command in parsed.commands}


@pytest.mark.parametrize(
    "line",
    [
        "(" * 10_000,
        "( " * 10_000 + "a" + " )" * 10_000, "$(" * 10_000, "{ " * 10_000, '"$(' * 10_000, "${a:-" * 10_000,
        "if " * 10_000, "<<E " * 10_000, "`" * 30_001, "[[" * 10_000, "((" * 10_000, "$((1+" * 9_000, "! " * 20_000,
        "a" * (MAX_LENGTH + 1), "a;" * 20_000, "é" * MAX_LENGTH,
    ],
)  # fmt: skip
def test_a_monstrous_line_is_unclear(line: str) -> None:
    assert parse(line).unclear


def test_a_long_line_is_parsed() -> None:
    parsed = parse("echo " + "'a b' " * 8_000)
    assert not parsed.unclear
    assert len(parsed.commands[0].words) == 8_001


def test_the_same_line_gives_the_same_result() -> None:
    assert parse("cd a && b | c > d") == parse("cd a && b | c > d")
    assert parse("ls") == ParsedLine((only("ls"),))
