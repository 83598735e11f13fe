"""Commands whose arguments are another command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tools.shell.commands import environment, programs
from tools.shell.commands.words import (
    UNKNOWN,
    Call,
    Meaning,
    Parsed,
    PathUse,
    Reader,
    Spec,
    implied_paths,
    may_be_option,
    parse,
    part,
    spec,
    words,
)
from tools.shell.syntax import Word

_HIDDEN = "an expansion decides which command it runs"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def _leading(args: Sequence[Word], row: Spec) -> tuple[Parsed, tuple[Word, ...]]:
    """The options before the first operand, and the rest."""
    at = 0
    while at < len(args):
        text = args[at].text
        if text == "--":
            return parse(args[:at], row), tuple(args[at + 1 :])
        if not text.startswith("-") or text == "-":
            break
        long = text.startswith("--")
        takes = _is_valued(text, row) if long or row.single_dash else _takes_next(text, row)
        at += 2 if takes else 1
    return parse(args[:at], row), tuple(args[at:])


def _is_valued(text: str, row: Spec) -> bool:
    """Whether a long option takes the next word; getopt takes unambiguous beginnings, ``timeout --sig KILL``."""
    if text in row.valued or not text.startswith("--"):
        return text in row.valued
    return any(name.startswith(text) for name in row.valued if name.startswith("--"))


def _takes_next(text: str, row: Spec) -> bool:
    for index in range(1, len(text)):
        if "-" + text[index] in row.valued:
            return index == len(text) - 1
    return False


def _plain(row: Spec, skip: int = 0, warning: str = "") -> Reader:
    """``nice -n 5 command``: options, then ``skip`` words of its own, then the command."""

    def read(call: Call) -> Meaning:
        parsed, rest = _leading(call.args, row)
        paths = [PathUse(word, "read") for word in parsed.values(row.reads)]
        paths += [PathUse(word, "write") for word in parsed.values(row.writes)]
        unsure = parsed.unsure or any(may_be_option(word) for word in rest[:skip])
        rest = rest[skip:]
        return Meaning(
            paths=tuple(paths),
            inner=(rest,) if rest else (),
            read_only=not warning and not parsed.has(row.writes),
            warning=warning,
            opaque=_HIDDEN if unsure else "",
        )

    return read


def _unseen(parsed: Parsed) -> str:
    return _HIDDEN if parsed.unsure else ""


_ENV = spec(None, value="-u --unset -C --chdir -S --split-string --argv0 -a")


def _env(call: Call) -> Meaning:
    parsed, rest = _leading(call.args, _ENV)
    cleared = parsed.has(("-i", "--ignore-environment")) or bool(rest and rest[0].text == "-")
    unset = parsed.values(("-u", "--unset"))
    rest = rest[1:] if rest and rest[0].text == "-" else rest
    variables: list[tuple[str, Word]] = []
    while rest and (found := _ASSIGNMENT.fullmatch(rest[0].text)):
        variables.append((found[1], part(rest[0], found[2])))
        rest = rest[1:]
    reason = environment.opaque(variables) or _unseen(parsed)
    split = parsed.values(("-S", "--split-string"))
    inner: list[Sequence[Word] | str] = []
    if split and split[0].known and not re.search(r"[\\$]", split[0].text):
        inner.append(split[0].text + " " + " ".join(word.source or word.text for word in rest))
    elif split:
        reason = reason or "env -S makes a command of a string"
    elif rest:
        inner.append(rest)
    if (
        rest
        and rest[0].text.endswith("git")
        and (cleared or any(not word.known or word.text.startswith("GIT_") for word in unset))
    ):
        # They keep a repository that came with the folder from naming programs (tools.environment).
        reason = reason or "git without the settings that keep a foreign repository from running programs"
    if parsed.has(("-C", "--chdir")):
        reason = reason or "env -C changes the folder that paths mean"
    if not inner and not reason:
        # It would show every variable, keys among them.
        return Meaning(read_only=False)
    return Meaning(inner=tuple(inner), opaque=reason, read_only=environment.harmless(variables))


_COMMAND = spec(None, value="")


def _command(call: Call) -> Meaning:
    parsed, rest = _leading(call.args, _COMMAND)
    if parsed.has(("-v", "-V")):
        return Meaning(read_only=True)
    return Meaning(inner=(rest,) if rest else (), read_only=True, opaque=_unseen(parsed))


_SUDO = spec(None, value="-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir --chroot")


def _sudo(call: Call) -> Meaning:
    parsed, rest = _leading(call.args, _SUDO)
    while rest and _ASSIGNMENT.fullmatch(rest[0].text):
        rest = rest[1:]
    shell = parsed.has(("-s", "-i", "--shell", "--login", "-e", "--edit"))
    return Meaning(
        inner=(rest,) if rest else (),
        opaque="it begins a shell of another user" if shell else _unseen(parsed),
        warning=f"{call.name} runs a command with the rights of another user",
    )


_SU = spec(None, value="-c --command -s --shell -g -G -w")


def _su(call: Call) -> Meaning:
    lines = parse(call.args, _SU).values(("-c", "--command"))
    known = tuple(word.text for word in lines if word.known)
    return Meaning(
        inner=known,
        opaque="" if lines and len(known) == len(lines) else "it begins a shell of another user",
        warning=f"{call.name} runs commands with the rights of another user",
    )


_XARGS = spec(
    None,
    value="-I -i -n -P -L -s -d -E -e -l --replace --max-args --max-procs --max-lines --max-chars --delimiter --eof",
    reads="-a --arg-file",
)


def _xargs(call: Call) -> Meaning:
    # These letters take a value only when it is glued to them.
    row = spec(
        None,
        value=" ".join(_XARGS.value - words("-i -e -l --replace --eof --max-lines")),
        reads="-a --arg-file",
    )
    parsed, rest = _leading(call.args, row)
    paths = tuple(PathUse(word, "read") for word in parsed.values(row.reads))
    if not rest:
        return Meaning(paths=paths, read_only=True)
    marks = [word.text for word in parsed.values(("-I", "--replace"))]
    marks += ["{}"] if parsed.has(("-i", "--replace")) else []
    inner = tuple(
        Word(word.text, known=False, source=word.source or word.text)
        if any(mark and mark in word.text for mark in marks)
        else word
        for word in rest
    )
    if not marks:
        inner = (*inner, UNKNOWN)
    return Meaning(paths=paths, inner=(inner,), read_only=True, opaque=_unseen(parsed))


_PARALLEL = spec(None, value="-j -P -I -n -N -L -d -S --jobs --colsep --delimiter", reads="-a --arg-file")


def _parallel(call: Call) -> Meaning:
    # It hands its words to a shell, with what it reads put in.
    return Meaning(opaque="parallel makes commands of what it reads", paths=implied_paths(call.args, "read"))


def _watch(call: Call) -> Meaning:
    parsed, rest = _leading(call.args, spec(None, value="-n --interval -q --equexit"))
    if not rest:
        return Meaning(opaque=_unseen(parsed))
    if parsed.has(("-x", "--exec")):
        return Meaning(inner=(rest,), read_only=True)
    return _shell_line(rest, "watch gives its words to a shell")


_RUN = spec(
    None,
    value="-p --python --with --with-requirements --with-editable --extra --group --env-file --package --directory "
    "--project -n --name -e --env",
)


def _in_environment(call: Call) -> Meaning:
    """``uv run pytest``: the command itself, with the project's own programs first."""
    paths = programs.of_unknown(call)
    if not call.args or call.args[0].text not in ("run", "exec", "x"):
        return Meaning(paths=paths)
    parsed, rest = _leading(call.args[1:], _RUN)
    inline = parsed.has(("-c", "--command", "--call"))
    return Meaning(
        paths=paths,
        through=(rest,) if rest else (),
        opaque=f"{call.name} runs a line" if inline else _unseen(parsed),
    )


def _shell_line(rest: Sequence[Word], why: str) -> Meaning:
    if all(word.known for word in rest):
        return Meaning(inner=(" ".join(word.text for word in rest),), read_only=True)
    return Meaning(opaque=why + ", and they show only at run time")


def _eval(call: Call) -> Meaning:
    rest = call.args[1:] if call.args and call.args[0].text == "--" else call.args
    if any(word.glob for word in rest):
        return Meaning(opaque="eval runs what a wildcard makes")
    return _shell_line(rest, "eval runs its words")


def _flock(call: Call) -> Meaning:
    parsed, rest = _leading(call.args, spec(None, value="-w -E --timeout --wait --conflict-exit-code"))
    paths = tuple(PathUse(word, "write") for word in rest[:1] if not word.text.isdigit())
    rest = rest[1:]
    if rest and rest[0].text in ("-c", "--command"):
        found = _shell_line(rest[1:2], "flock -c runs a line")
        return Meaning(paths=paths, inner=found.inner, opaque=found.opaque)
    return Meaning(paths=paths, inner=(rest,) if rest else (), opaque=_unseen(parsed))


def _script(call: Call) -> Meaning:
    parsed = parse(call.args, spec("write", value="-c --command -E -o -T -B -I -O"))
    paths = tuple(PathUse(word, "write") for word in parsed.operands)
    lines = parsed.values(("-c", "--command"))
    if lines and lines[0].known:
        return Meaning(paths=paths, inner=(lines[0].text,))
    return Meaning(paths=paths, opaque="script begins a shell")


_UNSHARE = spec(
    None,
    value="-S -G -R -w --root --wd --setuid --setgid --map-user --map-group --map-users --map-groups --propagation "
    "--setgroups --monotonic --boottime --load-interp -l",
)


def _unshare(call: Call) -> Meaning:
    found = _plain(_UNSHARE)(call)
    parsed, _ = _leading(call.args, _UNSHARE)
    moves = parsed.has(("-R", "-w", "--root", "--wd")) or any(
        name.startswith(("--w", "--roo")) for name, _ in parsed.options
    )
    return replace(found, opaque="unshare changes the folder that paths mean") if moves else found


def _setarch(call: Call) -> Meaning:
    """``setarch x86_64 command``, or by the name of the machine itself."""
    parsed, rest = _leading(call.args, spec(None))
    if (
        call.name == "setarch"
        and rest
        and re.fullmatch(r"linux\d+|i\d86|x86_64|uname26|\w+64\w*|arm\w*", rest[0].text)
    ):
        _, rest = _leading(rest[1:], spec(None))
    return Meaning(
        inner=(rest,) if rest else (), opaque=_unseen(parsed) or ("" if rest else "it begins a shell")
    )


def _logsave(call: Call) -> Meaning:
    parsed, rest = _leading(call.args, spec(None))
    paths = tuple(PathUse(word, "write") for word in rest[:1])
    return Meaning(paths=paths, inner=(rest[1:],) if rest[1:] else (), opaque=_unseen(parsed))


def _busybox(call: Call) -> Meaning:
    return Meaning(inner=(call.args,) if call.args else (), read_only=True)


def _time(call: Call) -> Meaning:
    return _plain(spec(None, value="-f --format", writes="-o --output"))(call)


def _trap(call: Call) -> Meaning:
    words_ = [word for word in call.args if word.text not in ("--", "-")]
    if not words_ or words_[0].text in ("-p", "-l"):
        return Meaning(read_only=True)
    if len(words_) == 1:
        return Meaning(read_only=True)
    return _shell_line(words_[:1], "trap runs a line later")


def _alias(call: Call) -> Meaning:
    defines = any("=" in word.text or not word.known for word in call.args)
    return (
        Meaning(opaque=f"{call.name} makes other commands of names", read_only=False)
        if defines
        else Meaning()
    )


_DECLARES = "export declare typeset local readonly read getopts mapfile readarray"


def _declare(call: Call) -> Meaning:
    """``export NAME=value`` holds for all commands after it; ``read NAME`` sets it from elsewhere."""
    pairs: list[tuple[str, Word]] = []
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if equals:
            pairs.append((name, part(word, value)))
        elif not word.known:
            return Meaning(opaque=f"{call.name} sets a variable whose name shows only at run time")
    # Without a value: what was assigned before is handed on from now on.
    names = [
        (word.text, Word(word.text, known=False)) for word in call.args if re.fullmatch(r"\w+", word.text)
    ]
    reason = environment.opaque([*pairs, *names], alone=True)
    if call.name in ("mapfile", "readarray") and any(word.text.startswith("-C") for word in call.args):
        reason = f"{call.name} -C runs a command"
    return Meaning(opaque=reason, read_only=bool(call.args))


def _opaque(why: str) -> Reader:
    return lambda call: Meaning(opaque=f"{call.name} {why}", paths=implied_paths(call.args, "read", "write"))


READERS: dict[str, Reader] = {
    **dict.fromkeys(("nohup", "builtin", "setsid", "unbuffer", "catchsegv", "fakeroot"), _plain(spec(None))),
    "nice": _plain(spec(None, value="-n --adjustment")),
    "ionice": _plain(spec(None, value="-c -n -t --class --classdata")),
    "chrt": _plain(spec(None, value="-T -P -D"), skip=1),
    "taskset": _plain(spec(None), skip=1),
    "timeout": _plain(spec(None, value="-s -k --signal --kill-after"), skip=1),
    "gtimeout": _plain(spec(None, value="-s -k --signal --kill-after"), skip=1),
    "stdbuf": _plain(spec(None, value="-i -o -e --input --output --error")),
    "time": _time,
    "command": _command,
    "exec": _plain(spec(None, value="-a")),
    "coproc": _plain(spec(None)),
    "strace": _plain(spec(None, value="-e -p -s -u -E -a -I -O -S -P", writes="-o --output")),
    "ltrace": _plain(spec(None, value="-e -p -s -u -n", writes="-o --output")),
    "valgrind": _plain(spec(None, writes="--log-file")),
    "chroot": _plain(spec(None), skip=1, warning="chroot runs a command in another root folder"),
    "unshare": _unshare,
    **dict.fromkeys(words("setarch linux32 linux64 i386 i486 i586 i686 x86_64 uname26"), _setarch),
    "choom": _plain(spec(None, value="-n --adjust -p --pid")),
    "ssh-agent": _plain(spec(None, value="-a -E -O -P -t")),
    "logsave": _logsave,
    **dict.fromkeys(("faketime", "datefudge"), _plain(spec(None, value="-f --exclude-monotonic"), skip=1)),
    "prlimit": _plain(spec(None, value="-p --pid -o --output")),
    "numactl": _plain(
        spec(
            None,
            value="-N -C -m -i -p -P --cpunodebind --physcpubind --membind --interleave --preferred --localalloc "
            "--preferred-many",
        )
    ),
    "nsenter": _plain(spec(None, value="-t -S -G --target"), warning="nsenter runs a command elsewhere"),
    "caffeinate": _plain(spec(None, value="-t -w")),
    "env": _env,
    "sudo": _sudo,
    "doas": _sudo,
    "pkexec": _sudo,
    **dict.fromkeys(("su", "runuser"), _su),
    "xargs": _xargs,
    "parallel": _parallel,
    "watch": _watch,
    "eval": _eval,
    "flock": _flock,
    "script": _script,
    **dict.fromkeys(("busybox", "toybox"), _busybox),
    "trap": _trap,
    **dict.fromkeys(("alias", "unalias"), _alias),
    **dict.fromkeys(_DECLARES.split(), _declare),
    **dict.fromkeys(
        ("enable", "shopt", "bind", "complete", "compgen"), _opaque("changes what commands mean")
    ),
    **dict.fromkeys(
        words("uv poetry pdm rye hatch pipenv conda mamba micromamba mise bundle rbenv pyenv"),
        _in_environment,
    ),
    **dict.fromkeys(
        words(
            "tmux screen hyperfine entr nix-shell dbus-run-session bwrap proot firejail xvfb-run perf rlwrap setpriv "
            "sg newgrp run-parts capsh cpulimit dtach abduco daemonize start-stop-daemon systemd-nspawn runcon "
            "chpst softlimit envdir setuidgid eatmydata torsocks proxychains proxychains4 tsocks doctl nsjail"
        ),
        _opaque("runs other commands"),
    ),
    **dict.fromkeys(("printenv", "direnv"), lambda _: Meaning()),
    **dict.fromkeys(("at", "batch", "systemd-run", "crontab"), _opaque("runs commands later, or elsewhere")),
}
"""Commands by name."""
