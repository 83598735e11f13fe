from __future__ import annotations

import pytest

from tests.support.drivers.recording_shell import RecordingShell
from tools.shell.syntax import parse

# Each makes a real bash run rm, or looks as if it did.
ATTACKS: tuple[str, ...] = (
    "x='a[$(rm)]'; echo $((x))", "x='a[$(rm)]'; [[ x -eq 1 ]]", "test -v 'a[$(rm)]'", "printf -v 'a[$(rm)]' x",
    "read 'a[$(rm)]' <<< x", "a=1; unset 'a[$(rm)]'", "declare -i y='a[$(rm)]'", "let 'a[$(rm)]=1'",
    "declare 'a[$(rm)]=1'", "declare -n r='a[$(rm)]'; r=1", "for ((i=a[$(rm)];0;)); do :; done",
    "z=abc; echo ${z:$(rm)}", "z=abc; x='a[$(rm)]'; echo ${z:x}", "a[$(rm)]=1", "x='$(rm)'; echo ${x@P}",
    "PS4='$(rm)'; set -x; aa", "shopt -s expand_aliases\nalias aa=rm\naa", "trap rm EXIT", "eval rm",
    "x=rm; eval $x", "echo rm > f2; . ./f2", "aa() { rm; }; aa", "command_not_found_handle() { rm; }; nope",
    "exec rm", "command rm", "builtin eval rm", "\\rm", "mapfile -C rm -c 1 x <<< a", "compgen -C rm x",
    "time rm", "coproc rm", "! rm", "((a[$(rm)]))", "echo $[a[$(rm)]]", "echo <<E\n$(rm)\nE",
    'echo "${x:-"$(rm)"}"', "echo \"${x:-'$(rm)'}\"", "case $(rm) in esac", "for i in $(rm); do :; done",
    "[[ $(rm) ]]", "echo > $(rm)", "x[$(rm)]=", "a=([$(rm)]=1)", "a=(['x[$(rm)]']=1)", "echo ${a[$(rm)]}",
    "i='a[$(rm)]'; echo ${a[i]}", "i='a[$(rm)]'; echo ${a[$i]}", "export 'a[$(rm)]=1'",
    "true & wait -p 'a[$(rm)]'", "set -- -x; getopts x 'a[$(rm)]'", "jobs -x rm",
    "if [ -v 'a[$(rm)]' ]; then :; fi", "x='-v a[$(rm)]'; [ $x ]", ": ${x:=$(rm)}", "echo {a,$(rm)}",
    "$(echo rm)", "`echo rm`", '"$(echo rm)"', "${x:-rm}", "r{m,}", 'eval "r""m"', "SECONDS='a[$(rm)]'",
    "RANDOM='a[$(rm)]'", "OPTIND='a[$(rm)]'", "LINENO='a[$(rm)]'", "HISTCMD='a[$(rm)]'", "MAILCHECK='a[$(rm)]'",
    "TMOUT='a[$(rm)]'", "export SECONDS='a[$(rm)]'", "read SECONDS <<< 'a[$(rm)]'",
    "for SECONDS in 'a[$(rm)]'; do :; done", "BASH_ALIASES[aa]=rm; aa", "declare -a 'x=($(rm))'",
    'declare -a "x=(\\$(rm))"', "x='($(rm))'; declare -a a=$x",
    "a=(1); for y in '($(rm))'; do declare a=$y; done", "readonly -a 'x=($(rm))'",
    "f() { local -a 'x=($(rm))'; }; f", "f() { local x=(1); local 'x=($(rm))'; }; f", "echo $'\\'$(rm)'; rm '",
    "echo $'\\'; rm #'", "f() [[ $(rm) ]]; f", "f() if rm; then :; fi; f", "case x in x) rm; esac",
    "case x in (x|y) rm;; esac", "case x in x) aa;& y) rm; esac", "case rm in *) rm\nesac", "((rm);(rm))",
    "( (rm) )", "echo $( (rm) )", "echo $((rm) )", "x=<(rm); wait", "echo <(rm)", "aa > >(rm)", "aa < <(rm)",
    "echo ${x?$(rm)}", "export x=$(rm)", "f() { local x=$(rm); }; f", 'set -- rm; "$@"', "set rm; $1",
    "x=aa; { x=rm; }; $x", "x=aa; f() { x=rm; }; f; $x", "x=aa; for x in rm; do :; done; $x",
    "x=aa; read x <<< rm; $x", "x=aa; printf -v x rm; $x", "x=aa; printf -vx rm; $x", "x=aa; declare x=rm; $x",
    "x=aa; x[0]=rm; $x", "x=aa; true && x=rm; $x", "x=aa; time x=rm; $x", "x=aa; ! x=rm; $x",
    "x=aa; eval x=rm; $x", "x=aa; case a in a) x=rm;; esac; $x", "x=aa; mapfile -t x <<< rm; $x",
    "x=aa; declare -n r=x; r=rm; $x", "x=aa; getopts rm x; $x", "x=aa; set -- rm; : ${x:=y}; $1",
    "a=(rm); ${a[0]}", "a=(rm); $a", "a=(aa); a=rm; $a", "x=aa; x=rm y=$x; $y", "x=rm; aa ${x:+$($x)}",
    "x=aa; unset x; ${x:-rm}", "x=m; r$x", "echo a\\\n#; rm", "echo \\ #; rm", "echo a #\\\nrm",
    'echo "a\n#"; rm', "echo ${#x}; rm", "echo ${x#a}; rm", "echo $#; rm", "echo 'a'#; rm",
    "echo <<'E'\n'\nE\nrm", "echo <<E\\\nF\nx\nEF\nrm", "echo <<E\nx\\\nE\nE\nrm", 'echo <<"E F"\nx\nE F\nrm',
    "echo <<-E\n\tE\nrm", "echo <<E\n E\nE\nrm", "echo <<E;rm\nE", "echo <<E && rm\nx\nE",
    'echo "$(echo <<E\n)\nE\nrm)"', "echo $(echo <<E\nE\nrm)", "echo $(case x in x) rm;; esac)", "echo `rm`",
    'echo "`rm`"', 'echo "\\`rm\\`"; rm', "echo `echo \\`rm\\``", "{ rm\n}", "if true\nthen rm\nfi",
    "while rm; do break; done", "a=b>o rm", ">o rm", "2>o rm", "<f1 rm", "rm&", "rm|aa", "aa|rm", "aa|&rm",
    "aa||rm;no||rm", "time -p rm", "time -- rm", "coproc X { rm; }", "coproc { rm; }", "coproc X (rm)",
    "function f { rm; }; f", "function f() (rm); f", "select i in a; do rm; break; done <<< 1",
    "for i in 1; { rm; }", "for ((;;)) { rm; break; }", "until rm; do break; done", "echo ${x/a/$(rm)}",
    "x=a; echo ${x/a/$(rm)}", "x=a; echo ${x//[$(rm)]/}", "x=a; echo ${x%%$(rm)}", "x=a; echo ${x^^$(rm)}",
    'x=a; echo "${x%"$(rm)"}"', "echo ${x:-`rm`}", "echo ${x:-<(rm)}", "echo ${x:-a} }; rm",
    "echo ${x:-'}'}; rm", "echo \"${x:-'}\"; rm #'}\"", "echo ${x:-\\}}; rm", "echo $((1+1)); rm",
    "echo $((1 ? (2) : 3)); rm", 'echo "$((1))"`rm`', "exec 3>&1; rm", "exec {fd}>o; rm", "unalias -a; rm",
    "hash -p ./x aa; rm", "echo a;;rm", "IFS=x; y=axrm; set -- $y; $2", "x='aa;rm'; eval \"$x\"", "x=$'rm'; $x",
    "$'r\\x6d'", "$'r\\155'", "$'\\u0072m'", '$"rm"', "'r'm", 'r"m"', "r''m", "r$@m", "r${z}m", "r$(:)m",
    "~/../x; rm", "x=~; rm", "declare -f; rm", "readonly PATH; rm", "let 'x=a[$(rm)]'", "(( x = a[$(rm)] ))",
    "echo $(( a[$(rm)] ))", "x=1; echo $(( x[$(rm)] ))", "[[ -v a[$(rm)] ]]", "[[ -v 'a[$(rm)]' ]]",
    "x='a[$(rm)]'; [[ -v $x ]]", "x='a[$(rm)]'; [[ -v \"$x\" ]]", "[[ 'a[$(rm)]' -gt 0 ]]",
    "[[ 0 -lt a[$(rm)] ]]", "n=$(echo 'a[$(rm)]'); echo $((n))", "echo $(($(echo 'a[$(rm)]')))",
    "f() { echo $(($1)); }; f 'a[$(rm)]'", "set -- 'a[$(rm)]'; echo $(($1))", "x=y; y='a[$(rm)]'; echo $((x))",
    "read x <<< 'a[$(rm)]'; echo $((x))", "for x in 'a[$(rm)]'; do echo $((x)); done",
    "export x='a[$(rm)]'; echo $((x))", "declare x='a[$(rm)]'; echo $((x))",
    "printf -v x %s 'a[$(rm)]'; echo $((x))", "mapfile -t x <<< 'a[$(rm)]'; echo $((x))",
    ": ${x:='a[$(rm)]'}; echo $((x))", "x='a[$(rm)]' true; x=1; eval 'y=$x'; rm",
    "x=(  'a[$(rm)]' ); echo $((x))", "x='a[$(rm)]'; ((x++))", "x='a[$(rm)]'; let x++",
    "x='a[$(rm)]'; for ((i=x;0;)); do :; done", "x='a[$(rm)]'; z=abc; echo ${z:0:x}", "x='a[$(rm)]'; b[x]=1",
    "x='a[$(rm)]'; echo ${#b[x]}", "x='a[$(rm)]'; [ -v \"$x\" ]", "x='a[$(rm)]'; unset \"$x\"",
    "for x in 'a[$(rm)]'; do a=1; unset $x; done", "x='a[$(rm)]'; read $x <<< 1", "x='a[$(rm)]'; (( $x ))",
    "x='a[$(rm)]'; echo $(( ${x} ))", "x='a[$(rm)]'; echo $(( ${x:-1} ))", "declare -A m; m[$(rm)]=1",
    "declare -A m=([$(rm)]=1)", "declare -A m; x='$(rm)'; [[ -v m[$x] ]]",
    "declare -A m; x='$(rm)'; ((m[$x]++))", "declare -A m; x='$(rm)'; unset m[$x]",
    "declare -A m; x='$(rm)'; test -v m[$x]", "declare -A m; x='$(rm)'; let m[$x]++",
    "x='$(rm)'; declare -A m; printf -v m[$x] a", "command -p rm", "command -- rm", "command command rm",
    "builtin command rm", "exec -a x rm", "env rm", "echo rm | while read x; do $x; done",
    "while read x; do $x; done <<< rm", "set -o posix; alias aa=rm\naa", "POSIXLY_CORRECT=1\nalias aa=rm\naa",
    "set -k; aa PATH=x; rm", "BASH_ENV=x; rm", "enable -n echo; rm", "bind -x '\"a\":rm'",
    "complete -C rm aa; rm", "fc -s rm", "history -s rm; rm", "a=rm\\\n\n$a", "x='r''m'; $x", 'x="rm"; "$x" -a',
    "if :; then x=rm; fi; $x", "f() { $1; }; f rm", 'f() { "$@"; }; f rm', "function rm { bb; }; rm",
    "true && rm || aa", "{ aa; } ; rm", "(aa) ; rm", 'aa <<<"$(rm)"', "aa <<<'x' ; rm", "aa 2>&1>o;rm",
    "aa &>o&rm", "aa>o;rm", "aa>&2;rm", "aa<&0;rm", "aa <>o;rm", "aa <<E>o;rm\nE", "aa 3<<E 4<<F;rm\nE\nF",
    "echo \\\nrm; rm", "\\\nrm", "r\\\nm", "if\\\n true; then rm; fi", "i\\\nf true; then rm; fi",
    "aa &\\\n& rm", "aa |\\\n| rm; no |\\\n| rm", "aa ;\\\n rm", "echo $\\\n(rm)", 'echo "$\\\n(rm)"',
    "echo $(\\\n(1)); rm", "echo `\\\nrm`", "aa <\\\n<E\nE\nrm", "aa >\\\n>o; rm", "echo ${\\\nx:-$(rm)}",
    "x=\\\nrm; $x", "x\\\n=rm; $x", "#\\\nrm", "# a\nrm", ":;#\nrm", "aa;\nrm", "\n\nrm", "\trm", "rm\t",
    "aa\t;\trm", "a=1;rm", "[ a ];rm", "[[ a ]];rm", "[[ a\n&& b ]]; rm", "[[ ! a ]] || rm",
    "[[ ( a ) ]] && rm", "[[ a < b ]] && rm", "[[ a =~ b\\ c|d ]] || rm", "[[ a =~ (b c) ]] || rm",
    "[[ a =~ [[:alpha:]] ]] && rm", "[[ a == [a-z]* ]] && rm", "[[ 'a]]' ]] && rm",
    # Bash expands the word behind >& twice.
    "aa >&'$(rm)'", "aa 1>&'`rm`o'", "aa >&\"\\$(rm)\"", "aa >&o\\$\\(rm\\)", "x='$(rm)'; aa >&$x", "(aa) >&'$(rm)'",
    "x='$(rm)'; aa >&\"$x\"", ">&'$(rm)' aa", "aa >&$'\\x24(rm)'", "{ aa; } >& '$(rm)'", "[[ a ]] >&'$(rm)'",
    # What the shell itself assigns may be evaluated.
    "aa 'a[$(rm)]'; echo $((_))", "aa 'a[$(rm)]'; ((1 + _))", "aa 'a[$(rm)]'; [[ _ -eq 0 ]]",
    "[[ 'a[$(rm)]' =~ .* ]]; echo $((BASH_REMATCH))", "read <<< 'a[$(rm)]'; echo $((REPLY))",
    "getopts x: o -x 'a[$(rm)]'; echo $((OPTARG))", "mapfile <<< 'a[$(rm)]'; echo $((MAPFILE))",
    # In a here-document the grammar takes arithmetic for a subshell.
    "x='a[$(rm)]'; aa <<E\n$((x))\nE", "aa 'a[$(rm)]'; bb <<E\n$((_))\nE", "aa='a[$(rm)]'; bb <<E\n$(( aa ))\nE",
    "aa <<E\n$((1 + $(rm)))\nE", "aa <<E\n$((rm) | (bb))\nE",
)  # fmt: skip


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> RecordingShell:
    return RecordingShell(tmp_path_factory.mktemp("shell"))


@pytest.mark.parametrize("line", ATTACKS)
def test_executed_attack_command_is_listed_or_line_is_unclear(shell: RecordingShell, line: str) -> None:
    parsed = parse(line, {"HOME": "/home/x"})
    if not any(call.words[0] == "rm" for call in shell.run(line).calls):
        return
    # eval and exec are judged by their words.
    names = [word.text for command in parsed.commands for word in command.words if word.known]
    assert parsed.unclear or "rm" in names or ("eval" in names and "aa;rm" in names), parsed


def test_most_attacks_do_run_the_command(shell: RecordingShell) -> None:
    ran = [line for line in ATTACKS[::8] if any(call.words[0] == "rm" for call in shell.run(line).calls)]
    assert len(ran) > len(ATTACKS[::8]) * 0.8
