"""Shells, interpreters and editors: when they run code that rules cannot read, and which script they run."""

from __future__ import annotations

import re

from tools.shell.commands.words import (
    Call,
    Meaning,
    PathUse,
    Reader,
    Use,
    implied_paths,
    parse,
    spec,
    words,
)
from tools.shell.syntax import Word

_SHELLS = words("sh bash zsh dash ksh mksh ash rbash fish")
_STDIN = re.compile(r"-|/dev/(?:stdin|fd/.*)|/proc/.*/fd/.*")
_SHELL = spec(None, value="-o -O +o +O --rcfile --init-file", reads="--rcfile --init-file")


def _shell(call: Call) -> Meaning:
    """``bash -c LINE``, ``bash SCRIPT``, or a shell that reads its commands from elsewhere."""
    at = 0
    args = call.args
    runs_line = False
    while at < len(args) and args[at].text[:1] in ("-", "+") and len(args[at].text) > 1 and args[at].known:
        text = args[at].text
        at += 1
        if text == "--":
            break
        if text.startswith("--"):
            at += text in ("--rcfile", "--init-file")
            continue
        runs_line = runs_line or (text[0] == "-" and "c" in text)
        at += text[-1] in "oO"
        if text[0] == "-" and "s" in text:
            return _from_stdin(call)
    rest = args[at:]
    if runs_line:
        if not rest:
            return Meaning(opaque=f"{call.name} -c without a line")
        if not rest[0].known or rest[0].glob:
            return Meaning(opaque=f"{call.name} -c runs a line that shows only at run time")
        return Meaning(
            inner=(rest[0].text,),
            paths=implied_paths(rest[1:], "read", "write"),
            read_only=call.name != "fish",
        )
    if not rest:
        return _from_stdin(call)
    return _script(call, rest[0], rest[1:])


def _from_stdin(call: Call) -> Meaning:
    stdin = call.simple.stdin
    if stdin is not None and stdin.known:
        return Meaning(inner=(stdin.text,), read_only=True)
    if not call.simple.piped and stdin is None and not any(r.reads for r in call.simple.redirections):
        return Meaning(opaque=f"{call.name} reads its commands from elsewhere")
    return Meaning(opaque=f"{call.name} runs what is piped into it")


def _script(call: Call, script: Word, rest: tuple[Word, ...]) -> Meaning:
    if not script.known or script.glob or _STDIN.fullmatch(script.text):
        return Meaning(opaque=f"{call.name} runs a script that shows only at run time")
    return Meaning(paths=(PathUse(script, "read"), *implied_paths(rest, "read", "write")))


def _source(call: Call) -> Meaning:
    if not call.args:
        return Meaning()
    return _script(call, call.args[0], call.args[1:])


# Options that take code, as a first letter in a cluster (``perl -lane``), and whole ones.
_INTERPRETERS: dict[str, tuple[str, str]] = {
    "python": ("c", ""),
    "node": ("ep", "--eval --print --input-type -r --require --import --loader --experimental-loader"),
    "deno": ("", "eval repl"),
    "bun": ("e", "--eval --print -p"),
    "perl": ("eE", ""),
    "ruby": ("e", "-r"),
    "php": ("rBRE", "--run --process-code"),
    "lua": ("e", ""),
    "Rscript": ("e", ""),
    "julia": ("eE", "--eval --print"),
    "osascript": ("e", ""),
    "tclsh": ("", ""),
    "ghci": ("e", ""),
    "scala": ("e", ""),
    "groovy": ("e", ""),
    "elixir": ("e", "--eval"),
    "erl": ("", "-eval"),
    "ipython": ("c", ""),
    "R": ("e", ""),
    "tsx": ("ep", "--eval --print"),
    "ts-node": ("ep", "--eval --print"),
    "pwsh": ("c", "-Command -EncodedCommand"),
}
_VALUED = {"python": "WXm", "node": "rC", "perl": "IMm", "ruby": "IrEC", "lua": "l", "php": "dcftz"}
# Modules and sub-commands that only read their files.
_MODULES = words(
    "pytest unittest mypy ruff black isort pylint flake8 compileall coverage doctest tokenize ast tox"
)


def _interpreter(call: Call) -> Meaning:
    kind = _kind(call.name)
    letters, longs = _INTERPRETERS[kind]
    inline = words(longs)
    args = call.args
    at = 0
    while at < len(args):
        word = args[at]
        text = word.text
        if not word.known and not (word.source.startswith('"') and not text.startswith('"-')):
            return Meaning(opaque=f"{call.name} runs what shows only at run time")
        if text in inline or text.partition("=")[0] in inline:
            return _code(call, text)
        if not text.startswith("-") or text == "-":
            break
        at += 1
        if text == "--":
            break
        if text.startswith("--"):
            continue
        if kind == "python" and (text.startswith("-m") or re.fullmatch(r"-[bBdEhiIOqsSuv]+m", text)):
            module = text[2:] if text.startswith("-m") else ""
            rest = args[at:]
            if not module and rest:
                module, rest = rest[0].text, rest[1:]
            return _module(call, module, rest)
        valued = _VALUED.get(kind, "")
        for index, letter in enumerate(text[1:], start=1):
            if letter in letters:
                return _code(call, "-" + letter)
            if letter in valued:
                if kind in ("perl", "ruby") and letter in "Mr":
                    return _code(call, "-" + letter)
                at += index == len(text) - 1
                break
            if kind in ("perl", "ruby") and letter in "i0CF":
                break
    rest = args[at:]
    if not rest:
        if any(arg.text in ("-V", "--version", "-v", "-h", "--help", "-version") for arg in args):
            return Meaning(read_only=True)
        return Meaning(opaque=f"{call.name} runs what it reads from its input")
    return _script(call, rest[0], rest[1:])


def _code(call: Call, option: str) -> Meaning:
    return Meaning(
        opaque=f"{call.name} {option} runs code that rules cannot read",
        paths=implied_paths([word for word in call.args if "\n" not in word.text], "read", "write"),
    )


def _module(call: Call, module: str, rest: tuple[Word, ...]) -> Meaning:
    if module in ("timeit", "pdb", "cProfile", "profile", "trace", "code", "runpy", "IPython", "idlelib"):
        return _code(call, f"-m {module}")
    if module.partition(".")[0] in ("daemon", "lsp_bridge", "goalwright"):
        return _itself(call)
    uses: tuple[Use, ...] = ("read",) if module in _MODULES else ("read", "write")
    return Meaning(paths=implied_paths(rest, *uses))


def _itself(call: Call) -> Meaning:
    """It could answer the questions that are asked about it."""
    return Meaning(
        opaque=f"{call.name} talks to Goalwright itself",
        warning="it talks to Goalwright itself, which asks for permissions",
    )


def _kind(name: str) -> str:
    base = re.sub(r"(?<=[a-z])-?\d[\d.]*t?$", "", name)
    return {"pypy": "python", "nodejs": "node", "luajit": "lua", "powershell": "pwsh"}.get(base, base)


def reader(name: str) -> Reader | None:
    """The reader of a shell or interpreter, whatever its version (``python3.11``)."""
    if name in _SHELLS:
        return _shell
    return _interpreter if _kind(name) in _INTERPRETERS else None


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
_RANGE = rf"(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?\s*!?\s*)?"
_SUBSTITUTE = "|".join(
    f"s{d}{_BODY.format(d)}{d}(?:\\\\[^\\n]|(?!{d})[^\\\\\\n])*{d}[gpiI\\d]*"
    for d in ("/", r"\|", "#", ",", ":", "@", "!", "%", "~")
)
_STEP = rf"\s*{_RANGE}(?:{_SUBSTITUTE}|[pdqQDPgGhHxnNlz=]|q\s*\d+|)\s*"
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
    if parsed.unsure or any(not word.known or word.glob for word in scripts):
        opaque = "the sed script shows only at run time"
    elif any(len(word.text) > 4000 or not _SED_HARMLESS.fullmatch(word.text) for word in scripts):
        opaque = "the sed script may run commands or use other files"
    scripted = parsed.has(("-f", "--file"))
    more = "sed -i changes its files" if changes else ""
    return Meaning(
        paths=tuple(paths), opaque=opaque, read_only=not (opaque or changes or scripted), more=more
    )


_EDITORS = words("vim vi nvim view ex emacs nano ed red pico gvim vimdiff code")


def _editor(call: Call) -> Meaning:
    return Meaning(
        opaque=f"{call.name} is an editor that can run commands",
        paths=implied_paths(call.args, "read", "write"),
    )


def _debugger(call: Call) -> Meaning:
    return Meaning(opaque=f"{call.name} can run any code", paths=implied_paths(call.args, "read", "write"))


_SQL = re.compile(
    r"^\s*\.|\n\s*\.|writefile|readfile|load_extension|edit\s*\(|attach|vacuum\s+into", re.IGNORECASE
)


def _sqlite(call: Call) -> Meaning:
    parsed = parse(
        call.args, spec(None, value="-cmd -separator -nullvalue -newline", reads="-init", single_dash=True)
    )
    statements = parsed.operands[1:]
    known = statements and all(word.known and not _SQL.search(word.text) for word in statements)
    hidden = not known or parsed.unsure or parsed.has(("-cmd", "-init"))
    paths = [PathUse(word, use) for word in parsed.operands[:1] for use in ("read", "write")]
    paths += [PathUse(word, "read") for word in parsed.values(("-init",))]
    return Meaning(
        paths=tuple(paths), opaque=f"{call.name} may run commands or use other files" if hidden else ""
    )


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


def _make(call: Call) -> Meaning:
    parsed = parse(
        call.args, spec(None, value="-I -j -l -o -W --eval", reads="-f --file --makefile -C --directory")
    )
    evals = parsed.has(("--eval", "-E")) or any(word.text == "-" for word in parsed.values(("-f", "--file")))
    shell = any(re.match(r"(?:\.?SHELL\w*|MAKE\w*|\.\w+)\s*[:+?!]*=", word.text) for word in parsed.operands)
    reason = "make gets rules from the command line" if evals or shell else ""
    paths = [PathUse(word, "read") for word in parsed.values(("-f", "--file", "--makefile"))]
    paths += [PathUse(word, "list") for word in parsed.values(("-C", "--directory"))]
    return Meaning(paths=tuple(paths), opaque=reason)


def _tester(call: Call) -> Meaning:
    return Meaning(paths=of_unknown(call))


def _go(call: Call) -> Meaning:
    runs = any(re.match(r"--?(?:exec|toolexec|vettool)(?:=|$)", word.text) for word in call.args)
    return Meaning(
        paths=of_unknown(call), opaque="an option of go names a program that it runs" if runs else ""
    )


READERS: dict[str, Reader] = {
    **dict.fromkeys(_TESTERS, _tester),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(_EDITORS, _editor),
    **dict.fromkeys(
        words("gdb lldb expect socat nc ncat netcat telnet m4 psql mysql tclsh wish jshell irb"), _debugger
    ),
    **dict.fromkeys(("make", "gmake"), _make),
    "go": _go,
    **dict.fromkeys(("goalwright", "goalwright-daemon"), _itself),
    **dict.fromkeys(("sqlite3", "sqlite"), _sqlite),
}
"""Commands by name."""
