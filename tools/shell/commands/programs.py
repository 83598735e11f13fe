"""Filters with programs of their own, editors, debuggers, testers: when they run code that rules cannot read."""

from __future__ import annotations

import re

from tools.shell.commands import interpreters, packages
from tools.shell.commands.words import (
    Call,
    Meaning,
    PathUse,
    Reader,
    implied_paths,
    parse,
    spec,
    words,
)
from tools.shell.syntax import Word

_AWK_DANGER = re.compile(r"system|getline|ARGV|@|>|(?<!\|)\|(?!\|)|ENVIRON")
_AWK_COMPARISON = re.compile(
    r"(?:\$\w+|\bN[RF]|\blength(?:\(\w*\))?|\b[a-z]\w*)\s*>=?\s*-?\d+(?:\.\d+)?(?=[\s;)&|{}]|$)"
)
_AWK = spec(
    value="-v -F --assign --field-separator",
    reads="-f --file -E --exec",
    skip=1,
    instead="-f --file -E --exec",
)


def _awk(call: Call) -> Meaning:
    parsed = parse(call.args, _AWK)
    scripted = parsed.has(_AWK.instead)
    paths = [PathUse(word, "read") for word in parsed.values(_AWK.reads)]
    operands = parsed.operands if scripted else parsed.operands[1:]
    paths += [
        PathUse(w, "read") for w in operands if w.text != "-" and not re.match(r"[A-Za-z_]\w*=", w.text)
    ]
    if parsed.unsure or parsed.has(("-i", "--include", "-l", "--load", "-e", "--source", "-D", "--debug")):
        return Meaning(paths=tuple(paths), opaque="the awk program shows only at run time")
    if not scripted:
        program = parsed.operands[0] if parsed.operands else Word("", known=False)
        if not program.known:
            return Meaning(paths=tuple(paths), opaque="the awk program shows only at run time")
        if _awk_does_more(program.text):
            return Meaning(paths=tuple(paths), opaque="the awk program may run commands or use other files")
    writes = parsed.has(("-o", "-p", "-d", "--profile", "--pretty-print", "--dump-variables"))
    return Meaning(paths=tuple(paths), read_only=not scripted and not writes)


def _awk_does_more(program: str) -> bool:
    # ``print`` makes a redirection of ``>``; elsewhere it compares.
    text = program if re.search(r"print", program) is None else re.sub(r"print[^;}]*", _kept_print, program)
    text = _AWK_COMPARISON.sub("", text)
    return _AWK_DANGER.search(text) is not None


def _kept_print(found: re.Match[str]) -> str:
    return "@" if ">" in found[0] or re.search(r"(?<!\|)\|(?!\|)", found[0]) else found[0]


# What stands between the delimiters, without the cases in which sed and this pattern might see other ends.
_BODY = r"(?:\\[^\n]|(?!{0})[^\\\[\n]|\[\^?(?:(?!{0})[^\]\[\\\n]|\[:\w+:\])+\])*"
_SLASHED = "/" + _BODY.format("/") + "/"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|{_SLASHED}I?)"
# Possessive: blanks that could be cut in several ways would be tried in all of them.
_RANGE = rf"(?:{_ADDRESS}(?:[^\S\n]*+,[^\S\n]*+(?:[+~]?\d+|{_ADDRESS}))?[^\S\n]*+!?[^\S\n]*+)?"
_SUBSTITUTE = "|".join(
    f"s{d}{_BODY.format(d)}{d}(?:\\\\[^\\n]|(?!{d})[^\\\\\\n])*{d}[gpiI\\d]*"
    for d in ("/", r"\|", "#", ",", ":", "@", "!", "%", "~")
)
_STEP = rf"[^\S\n]*+{_RANGE}(?:{_SUBSTITUTE}|[pdqQDPgGhHxnNlz=]|q[^\S\n]*+\d+|)[^\S\n]*+"
_SED_HARMLESS = re.compile(rf"{_STEP}(?:[;\n{{}}]{_STEP})*")
_SED = spec(
    value="-e -l --expression --line-length",
    reads="-f --file",
    skip=1,
    instead="-e -f --expression --file",
    changes="-i --in-place",
    reader=True,
)


def _sed(call: Call) -> Meaning:
    # ``-i`` takes a suffix only when it is glued to it, and then no letter after it is an option.
    args = tuple(Word("-i") if re.fullmatch(r"-[nErsuz]*i.*", w.text) and w.known else w for w in call.args)
    quiet = tuple(Word("-n") for w in call.args if re.fullmatch(r"-[Ersuz]*n[nErsuz]*i.*", w.text))
    parsed = parse((*quiet, *args), _SED)
    scripts = parsed.values(("-e", "--expression"))
    operands = parsed.operands
    if not parsed.has(_SED.instead):
        scripts, operands = operands[:1], operands[1:]
    changes = parsed.has(_SED.changes)
    paths = [PathUse(word, "read") for word in (*parsed.values(_SED.reads), *operands) if word.text != "-"]
    if changes:
        paths += [PathUse(word, "write") for word in operands]
    opaque = ""
    certain = scripts and (all(map(_stays_operand, operands)) or parsed.ended)
    if (parsed.unsure and not certain) or any(not word.known or word.glob for word in scripts) or not scripts:
        opaque = "the sed script shows only at run time"
    elif any(len(word.text) > 4000 or not _SED_HARMLESS.fullmatch(word.text) for word in scripts):
        opaque = "the sed script may run commands or use other files"
    scripted = parsed.has(("-f", "--file"))
    more = "sed -i changes its files" if changes else ""
    return Meaning(
        paths=tuple(paths), opaque=opaque, read_only=not (opaque or changes or scripted), more=more
    )


def _stays_operand(word: Word) -> bool:
    """A file, as the person who wrote the line means it: a name, a wildcard, or one variable."""
    return word.known or re.fullmatch(r'"?\$\{?\w+\}?"?', word.source) is not None


_EDITORS = words("vim vi nvim view ex emacs nano ed red pico gvim vimdiff code")


def _editor(call: Call) -> Meaning:
    return Meaning(
        opaque=f"{call.name} is an editor that can run commands",
        paths=implied_paths(call.args, "read", "write"),
    )


def _debugger(call: Call) -> Meaning:
    return Meaning(opaque=f"{call.name} can run any code", paths=implied_paths(call.args, "read", "write"))


_TESTERS = words(
    "pytest py.test ruff mypy pyright basedpyright pylint flake8 eslint tsc jest vitest mocha cargo go make gmake "
    "cmake ninja npm pnpm yarn tox nox gradle mvn dotnet gcc g++ clang cc rustc javac shellcheck uv poetry hatch "
    "pre-commit bazel"
)
_FIXING = re.compile(r"--?(?:fix|write|in-?place|i|out.*|o.*|unsafe-fixes|format)|format|fmt|init|new|add")


def of_unknown(call: Call) -> tuple[PathUse, ...]:
    """The files of a command of which nothing is known but its words; what checks and builds only reads them."""
    texts = [word.text.partition("=")[0] for word in call.args]
    reads_only = call.name in _TESTERS and not any(_FIXING.fullmatch(text) for text in texts)
    return implied_paths(call.args, *(("read",) if reads_only else ("read", "write")))


def _tester(call: Call) -> Meaning:
    return Meaning(paths=of_unknown(call))


def _go(call: Call) -> Meaning:
    runs = any(re.match(r"--?(?:exec|toolexec|vettool)(?:=|$)", word.text) for word in call.args)
    return Meaning(
        paths=of_unknown(call), opaque="an option of go names a program that it runs" if runs else ""
    )


READERS: dict[str, Reader] = {
    **dict.fromkeys(_TESTERS, _tester),
    **dict.fromkeys(("source", "."), interpreters.source),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(_EDITORS, _editor),
    **dict.fromkeys(
        words("gdb lldb expect socat nc ncat netcat telnet m4 psql mysql tclsh wish jshell irb"), _debugger
    ),
    **packages.READERS,
    **dict.fromkeys(words("tr seq expr sleep tput"), lambda _: Meaning(read_only=True)),
    "go": _go,
    **dict.fromkeys(("goalwright", "goalwright-daemon"), interpreters.itself),
}
"""Commands by name."""
