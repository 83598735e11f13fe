from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.drivers.recording_shell import PROGRAMS, Call, RecordingShell
from tests.support.examples import examples
from tools.shell.bash_words import Word
from tools.shell.command_line import Simple
from tools.shell.syntax import parse


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> RecordingShell:
    return RecordingShell(tmp_path_factory.mktemp("shell"))


def _accounts_for(words: tuple[Word, ...], call: tuple[str, ...]) -> bool:
    """Whether these words may have made that call: what is not known stands for any number of arguments."""
    places = {0}
    for word in words:
        if word.tilde:
            places = {place + 1 for place in places if place < len(call)}
        elif word.known and not word.glob:
            places = {place + 1 for place in places if place < len(call) and call[place] == word.text}
        elif not places:
            return False
        else:
            places = set(range(min(places), len(call) + 1))
    return len(call) in places


def _ran(command: Simple, call: Call, home: str) -> bool:
    words = command.words
    while words and words[0].known and words[0].text in ("command", "exec", "builtin"):
        words = words[1:]
    if not words or not words[0].known or not _accounts_for(words, call.words):
        return False
    return command.folder is None or _place(command.folder, home) == posixpath.normpath(call.folder)


def _place(folder: str, home: str) -> str:
    return posixpath.normpath(folder.replace("~", home, 1) if folder.startswith("~") else folder)


def _written(commands: tuple[Simple, ...], file: str, home: str) -> bool:
    for command in commands:
        for redirection in command.redirections:
            if not redirection.writes:
                continue
            if command.folder is None or not redirection.target.known or redirection.target.glob:
                return True
            target = redirection.target.text
            if redirection.target.tilde:
                target = home + target[1:]
            else:
                target = posixpath.join(_place(command.folder, home), target)
            if posixpath.normpath(target) == file:
                return True
    return False


def check(shell: RecordingShell, line: str) -> bool:
    """Whether the line was clear. Then everything that bash runs and writes is among what was parsed."""
    parsed = parse(line)
    if parsed.unclear:
        return False
    run = shell.run(line)
    home = posixpath.relpath(str(shell.home), str(shell.workspace))
    for call in run.calls:
        assert any(_ran(command, call, home) for command in parsed.commands), (line, call, parsed.commands)
    for file in run.files:
        assert _written(parsed.commands, file, home), (line, file, parsed.commands)
    return True


NAMES = (*PROGRAMS, "'rm'", "r\\m", '"g"it', "b\\\nb", "./x", "$'c\\x63'", "time aa", "! no", "command rm")
WORDS: tuple[str, ...] = (
    "a", "-x", "a=b", "'b c'", '"d e"', "f\\ g", "\\;", "'#'", "a#b", "*", "f?", "{a,b}", "{1..3}", "$x",
    '"$x"', "${x}", "${y:-c}", '"${y:-d e}"', "${#x}", "${x%a}", "$y", "''", '""', "$#", "~", "~/d1", "a~",
    "$((1+2))", "a\\\nb", "é", "[a]", "d1/*", "$'a\\tb'", "!", "a\\\\", '"a\\"b"', "'\\'", "{}", "%", "if",
    "then", "}", "]]", '"a\nb"', "'a\nb'", '"$(aa a)$(bb b)"', "$", '"$"', "a$", "\\$x", '"`aa`"', "x:~", "x=~",
    '"*"', "\\*", "=~", "$z", '"$z$x"', "$((z+1))", "${x/a/b}", "${x:1}", "$HOME", "$PWD", "a{b,c}d", "\\\na",
    "$x$y", "'a'\"b\"c", "-", "--", "2", "1", "$i", "$1", '"$@"',
)  # fmt: skip
BEFORE: tuple[str, ...] = (
    "",
    "",
    "",
    "",
    "",
    "x=1 ",
    "A=b B='c d' ",
    ">o1 ",
    "2>&1 ",
    "x=$x ",
    "x=$(aa) ",
    "z[1]=2 ",
)
AFTER: tuple[str, ...] = (
    "", "", "", "", "", "", "", "", ">o2", ">> o3", "2>/dev/null", "&>o4", "<f1", ">'o 5'", "2>o6", "<<<a",
    ">~/o7", ">|o8", "<>o9", "# rm x\n", ">&o10", ">&2", "> $x", ">d1/o11", "3>o12", ">\\\n o13", '<<<"$x"',
    ">o$x", "&>>o18", ">$(echo o19)", ">&'o21'", ">& $x", ">&'o$(rm)'",
)  # fmt: skip
STATES: tuple[str, ...] = (
    "cd d1", "cd d9", "cd", "cd ..", "cd ~/d1", "cd -", "pushd d1", "popd", "cd d1/d2", "x=a", "x='b c'",
    "x=$x-c", "y=", "x=rm", "export x=1", "exit", "exit 3", "[ -f f1 ]", "[[ -f f1 && a == a* ]]", "((z++))",
    "x=(a 'b c')", "read x", "unset x", "local x", "set -e", "f() { aa $1; cd d1; x=q; }; f a", "z=5",
    "let z=1", "y=$(bb)", "true", "x=a y=$x", "[[ a =~ ^(a|b)$ ]]", "cd d1 d2", 'cd "$x"', "command cd d1",
    "exec 3>o15", "declare x=e", ": ${x:=d}", "x=~", "x+=1", "printf -v x b", "cd ./d1", "cd d1 && x=d2",
    "cd d1 || exit", "cd d9 || exit 1", "x=b; cd d1", "false", "readonly x=1", "h() { exit; }; h", "wait",
    "x=d1", "cd $x", "x=$((1+2))", "cd d1 >o17", "x=$(cd d1; bb)", ": $((z=7))", "exec 2>o20", "export y",
    "x=1 y='2 3'", "pushd d1 && popd", "pushd", "unset x y z", "cd ''", "cd d1 & wait", "return", "break",
    "exit >d9/o", "exit --help", "true >d9/o", "command -p cd d1", "command -- cd d1", "pushd ../d1 && pushd +1",
    "{ cd d1 || exit; bb; } > o21", "UID=1",
)  # fmt: skip
LISTS: tuple[str, ...] = (
    "; ",
    "; ",
    " && ",
    " || ",
    " | ",
    " & ",
    "\n",
    ";",
    "&&\n",
    " |& ",
    " # c\n",
    "; \\\n",
    "\n\n# rm\n",
    "|\n",
)
SHAPES: tuple[str, ...] = (
    "(%)", "{ %; }", "if %; then %; else %; fi", "if %; then %; elif %; then %; fi", "for i in a b; do %; done",
    "while no; do %; done", "case $x in a|b) %;; *) %;; esac", "g() { %\n}", "aa <<E\n@\nE\n%",
    "aa <<E; %\n@\nE\n%", "aa <<'E' | bb\n$(rm)\nE\n%", "aa <<-E > o14\n\tt\n\tE\n%", "until aa; do %; done",
    "if ! %\nthen\n%\nfi", "(%) >o16", "{ %\n} 2>&1 | %", "for ((i=0; i<2; i++)); do %; done",
    "case a in (a) % ;& b) %; esac", "for i; do %; done", "! %", "time %", "bb \"$(cat <<'E'\nx\nE\n)\"; %",
    "(%); %", "x=$(%); %", "h() { %; }; h; %", "% | (%)", "while %; do exit; done", "{ %; } && %",
    "{ %; } || %", "if %; then exit; fi; %", "for x in d1 'b c'; do %; done; %", "(%) && %", "% & %",
    "coproc %", "case x in y) ;; x) % ;; esac; %", "g() (%); g; %", "function g { %; }; g; %", "{ %; } <f1",
    "while read x; do %; done <f1; %", "% && bb 2>&1 | %; %", "% || cc >o22 | % && %", "% && (%) > o16",
    "% && { %; } 2>&1 | %", "% || aa <<E && %\n@\nE\n%", "% || aa <<E | bb\n@\nE\n%", "[[ a =~ ^<(%) ]]",
)  # fmt: skip
SUBSTITUTIONS: tuple[str, ...] = (
    "$(%)", '"$(%)"', "`%`", '"a$(%) b"', "${y:-$(%)}", '"${y:-$(%)}"', "<(%)", "a$( % )b", '"${x:+$(%)}"',
    ">(%)", "$(%\n)",
)  # fmt: skip
BODIES: tuple[str, ...] = (
    "t",
    "$x",
    "$(bb)",
    "`cc`",
    "a\\\nE",
    "'",
    '"',
    "\\$(rm)",
    "  E",
    "E ",
    "$((1+1))",
    "$((x))",
    "$((_))",
    "${y:-$(rm)}",
    "#",
)


def _word(random: Random, depth: int) -> str:
    if depth > 0 and random.random() < 0.12:
        return random.choice(SUBSTITUTIONS).replace("%", _line(random, depth - 1))
    return random.choice(WORDS)


def _line(random: Random, depth: int) -> str:
    """A line made of harmless pieces that bash mostly understands."""
    kind = random.random()
    if depth <= 0 or kind < 0.25:
        arguments = [_word(random, depth) for _ in range(random.randrange(4))]
        return random.choice(BEFORE) + " ".join(
            [random.choice(NAMES), *arguments, random.choice(AFTER)]
        ).rstrip(" ")
    if kind < 0.5:
        return random.choice(STATES)
    if kind < 0.8:
        return _line(random, depth - 1) + random.choice(LISTS) + _line(random, depth - 1)
    return _filled(
        random.choice(SHAPES),
        {"%": lambda: _line(random, depth - 1), "@": lambda: random.choice(BODIES)},
    )


def _filled(form: str, fill: Mapping[str, Callable[[], str]]) -> str:
    """The form with each mark replaced by what ``fill`` makes for it."""
    return re.sub("|".join(fill), lambda found: fill[found[0]](), form)


def _damaged(random: Random, line: str) -> str:
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(line) + 1)
        line = (
            line[:at]
            + (random.choice(TOKENS) if random.random() < 0.8 else "")
            + line[at + (random.random() < 0.3) :]
        )
    return line


# Code that is text as long as nothing expands it once more, and builtins and places that might.
QUOTED: tuple[str, ...] = (
    "'$(rm)'", "'`rm`'", "'a[$(rm)]'", "'x[$(rm)]'", "\\$\\(rm\\)", '"\\$(rm)"', "$'\\x24(rm)'",
    "'_[$(rm)]'", "'$(rm)' 0", "-v 'a[$(rm)]'", "'a[`rm`]'", "'$((a[$(rm)]))'", "'${x[$(rm)]}'", "'x=$(rm)'",
    "'a[$(rm)]=1'", "'(\"$(rm)\")'", "\"'\\$(rm)'\"", "a\\[\\$\\(rm\\)\\]", "'x+=$(rm)'", "'rm'", "'rm;'",
    "';rm'", "'|rm'", "'\nrm'", "'$(rm'", "'<(rm)'", "'>(rm)'", "'{rm,rm}'", "'~$(rm)'", "'%(rm)T'", "'!rm'",
    "'$x'", "'${!x}'", "'@(rm)'", "'$[$(rm)]'", "'a[$(rm)]:1'", "-o 'a[$(rm)]'", "-C rm", "-c rm", "-x rm",
    "-- 'a[$(rm)]'", "-n 'a[$(rm)]'", "-t 'a[$(rm)]'", "-u 'a[$(rm)]'", "-p 'a[$(rm)]'", "-a 'a[$(rm)]'",
    "-d 'a[$(rm)]'", "-i 'a[$(rm)]'", "-e 'a[$(rm)]'", "-f 'a[$(rm)]'", "-s 'a[$(rm)]'", "-W '$(rm)'",
    "-F rm", "-P '$(rm)'",
)  # fmt: skip
PLACES: tuple[str, ...] = (
    "aa @", "aa @ @", "x=@", "x=@; aa $x", "x=@ aa", "export x=@", "declare x=@", "local x=@",
    "readonly y=@", "x=(@)", "x+=@", "x[0]=@", "[[ @ ]]", "[[ @ == @ ]]", "[[ @ =~ @ ]]", "[[ a =~ @ ]]",
    "[[ -f @ ]]", "[[ @ -nt @ ]]", "[[ @ -eq 1 ]]", "[[ -n @ ]]", "[[ -t @ ]]", "[[ -o @ ]]", "[ @ ]",
    "[ -f @ ]", "[ @ = @ ]", "[ @ -eq 0 ]", "test @", "test @ = @", "test -n @ -a @",
    "case @ in @) aa;; esac", "case a in @) aa;; esac", "for x in @; do aa; done",
    "for x in @; do aa $x; done", "for x in @; do echo $((x)); done", "cd @", "cd d1 @", "pushd @", "popd @",
    "echo @ > o1", "aa > @", "aa >> @", "aa >& @", "aa >&@", "aa &> @", "aa &>> @", "aa < @", "aa <& @",
    "aa <&@", "aa <> @", "aa 2> @", "aa 2>& @", "aa >| @", "aa <<< @", "aa 3<&@", "aa {fd}> @",
    "aa <<E\n@\nE", "aa <<'E'\n@\nE", "read @", "read x <<< @", "read <<< @", "read -r x @", "printf @",
    "printf @ @", "printf '%s' @", "printf -v x @", "printf -- @", "echo -e @", "let @", "(( @ ))",
    "$(( @ ))", "echo $(( @ ))", "echo $((x)) @", "echo @; echo $((_))", "echo ${x:@}", "echo ${x:-@}",
    "echo ${x:=@}", "echo ${x:+@}", "echo ${x:?@}", "echo ${x/@/b}", "echo ${x/a/@}", "echo ${x#@}",
    "echo ${x%%@}", "echo ${x^@}", "echo ${x@@}", "echo ${!@}", "echo ${#@}", "echo ${x[@]}", "unset @",
    "unset -v @", "exit @", "return @", "break @", "continue @", "shift @", "wait @", "kill @", "kill -0 @",
    "jobs @", "fg @", "bg @", "disown @", "umask @", "ulimit @", "ulimit -n @", "set @", "set -- @",
    "set -- @; echo $1", "set -- @; echo $((1+$#))", "set -o @", "shopt @", "trap @", "trap @ EXIT",
    "type @", "hash @", "command @", "command -v @", "command -V @", "builtin @", "exec @", "exec > @",
    "alias @", "unalias @", "bind @", "complete @", "compgen @", "compopt @", "enable @", "history @",
    "fc @", "getopts @ x", "getopts x @", "getopts x: y @", "mapfile @", "mapfile x < f1 @",
    "readarray -t @", "caller @", "dirs @", "dirs +0 @", "pwd @", "times @", "true @", "false @", ": @",
    ": @; echo $_", "time @", "time -p @", "coproc @", "! @", 'f() { aa "$@"; }; f @',
    "f() { echo $1; }; f @", "f() { echo $(($#)); }; f @", "select x in @; do aa; break; done",
    "while read x; do aa; done <<< @", "until [ @ ]; do break; done", "if [ @ ]; then aa; fi", "aa | read @",
    "aa @ | bb", "aa $(echo @)", 'aa "$(echo @)"', "aa `echo @`", "aa <(echo @)", "aa {a,@}", "aa a@b",
    'aa "a"@', "aa ~@", "aa *@", "aa ?(@)", "aa $@ @", 'aa "$*" @', "IFS=, aa @", "x=1 y=@ aa",
    "aa & wait @", "echo @ 1>&2", "echo @ >&2", "(aa @)", "{ aa @; }", "aa @ ||\n bb", "aa @ # @", "# @",
    "aa \\\n@", "PS4=@; set -x; aa", "IFS=@; aa $x", "test -v x @", "[ -v x ] @", "[[ -v x ]] && aa @",
    "printf '%d' @", "printf '%*s' @ a", "printf '%q' @", "printf '%b' @", "printf '%(%s)T' @",
    "echo $[ @ ]", "suspend @", "logout @", "help @", "x=@ y=$x aa", "declare -p @", "declare -f @",
    "export -p @", "export -n @", "readonly -p @", "local -p @", "typeset @", "z=5; z=@; ((z))",
    "z=@; [[ z -eq 0 ]]", "y=@; x=y; echo $((x))",
)  # fmt: skip


def _quoted(random: Random) -> str:
    """A line with quoted code in one of its places."""

    def word() -> str:
        return random.choice(QUOTED if random.random() < 0.8 else WORDS)

    def place() -> str:
        return _filled(random.choice(PLACES), {"@": word})

    kind = random.random()
    if kind < 0.6:
        return place()
    if kind < 0.8:
        return place() + random.choice(LISTS) + place()
    return _filled(random.choice(SHAPES), {"%": place, "@": lambda: random.choice(BODIES + QUOTED)})


QUOTED_LINES = st.randoms(use_true_random=False).map(_quoted)
LINES = st.randoms(use_true_random=False).map(lambda random: _line(random, 4))
DAMAGED = st.randoms(use_true_random=False).map(lambda random: _damaged(random, _line(random, 3)))
TOKENS: tuple[str, ...] = (
    "'", '"', "\\", "`", "$", "$(", ")", "(", ";", "&", "|", "<", ">", "#", "!", "{", "}", "~", "*", "=", "\n",
    "\t", "\\\n", "$'", '$"', "${", "$((", "))", "[[", "]]", "((", "<<", "<<E", "\nE\n", "&&", "||", ";;", ">(",
    "<(", ">&", "rm", "a", "éa", "\xa0", "\x0b", "\r", "\x00", "\u2028", "x=", "x+=(", "[", "]", "if", "fi",
    "do", "done", "esac", "in", "case", "function", "f()", "time", "coproc", "eval", "exec", "cd", "..", "&>",
    ">|", "2>", "{x}>", "<<-", "<<<", ":-", "@", "//", "%",
)  # fmt: skip
KEEP = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@KEEP
@given(LINES)
def test_every_command_that_bash_runs_is_listed(shell: RecordingShell, line: str) -> None:
    check(shell, line)


@example(">&'c\\x63'")
@example("git log \\ #;rm x")
@example("aa a\\\n#;rm x")
@KEEP
@given(DAMAGED)
def test_damaged_line_lists_every_command_that_bash_runs(shell: RecordingShell, line: str) -> None:
    check(shell, line)


@example("! ((x)) && aa 'a[$(rm)]'")
@example("aa >& -f x")
@example("aa <&--")
@example("aa {x,{}}")
@example("x='a[$(rm)]'; ! ((x))")
@KEEP
@given(QUOTED_LINES)
def test_quoted_code_that_bash_runs_is_listed(shell: RecordingShell, line: str) -> None:
    check(shell, line)


@pytest.mark.parametrize(
    "line",
    [
        # The grammar hangs the redirections of a last command, and what it pipes to, below the whole list.
        "aa && (bb) > o1",
        "aa && { bb; } > o1",
        "aa && for i in 1; do bb; done > o1",
        "no || if aa; then bb; fi > o1",
        "aa | { bb; } > o1",
        "cd d1 && aa 2>&1 | bb && cc",
        "cd d1 && aa 2> o1 | bb > o2; cc",
        "cd d1 || aa > o1 | bb && cc",
        "cd d1 && (aa) 2>&1 | bb; cc",
        "cd d1 && aa 2>&1 | bb > o1 | cc && aa",
        "cd d1 || aa <<E && bb\nx\nE",
        "cd d1 && aa <<E | bb\nx\nE\ncc",
        "cd d1 || { aa; } <<E && bb\nx\nE",
        "aa <<E || cd d1 && bb\nx\nE",
        "no <<E && cd d1 || cd d1/d2 && bb\nx\nE\ncc",
        "aa <<E || cd d1 && bb 2>&1 | cc\nx\nE",
        "no <<E && cd d1 || aa > o1\nx\nE",
        # It is opened before the shell goes anywhere.
        "{ cd d1 || exit 1; aa; } > o1",
        "aa && { cd d1 || exit 1; aa; } > o1",
        # These do not leave the shell, and those fail.
        "no || { return; cd d1; }; aa",
        "no || { exit --help; cd d1; }; aa",
        "no || { exit 1 > d9/o; cd d1; }; aa",
        "true > d9/o || cd d1; aa",
        "> d9/o || cd d1; aa",
        "cd d1; aa $((1/0)); cd .. || exit 1\nbb",
        "cd d1; UID=1; cd .. || exit 1\nbb",
        "command -p cd d1 && aa",
        "command -- cd d1 && aa",
        "pushd d1 && pushd d2 && pushd +1 && aa",
        "[[ a =~ ^<(aa) ]]",
        "[[ a =~ ^<({aa,b}>o1) ]]",
    ],
)
def test_constructs_the_grammar_misreads_are_found_as_bash_runs(shell: RecordingShell, line: str) -> None:
    check(shell, line)


@pytest.mark.parametrize(
    "line",
    [
        "cd d1 && aa 2>&1 | bb 2>&1 | cc",
        "aa && (bb) > o1",
        "cd d1 || aa <<E && bb\nx\nE",
        "{ cd d1; aa; } > o1",
    ],
)
def test_everyday_lines_with_redirections_below_lists_stay_clear(shell: RecordingShell, line: str) -> None:
    assert check(shell, line)


@settings(max_examples=examples(150), deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(TOKENS), max_size=25).map(" ".join)))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    parsed = parse(text)
    assert parsed.unclear or all("\0" not in command.text for command in parsed.commands)
