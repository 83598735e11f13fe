"""Shells and interpreters: when they run code that rules cannot read, and which script they run.

What decides that is a list of options known to be harmless: any other option may be code, name a module that is loaded,
or take the next word as its value, so that a script is not one. Then the command is opaque.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tools.shell.commands.words import Call, Meaning, PathUse, Reader, Use, implied_paths, words
from tools.shell.state import is_stdin
from tools.shell.syntax import Word

_SHELLS = words("sh bash zsh dash ksh mksh ash rbash fish")
_SHELL_LETTERS = re.compile(r"[abefhiklmnpruvxBCDEHPTcsoO]+")
_SHELL_LONG = words("norc noprofile posix login verbose noediting version help restricted")


def _shell(call: Call) -> Meaning:
    """``bash -c LINE``, ``bash SCRIPT``, or a shell that reads its commands from elsewhere."""
    at, valued = 0, 0
    args = call.args
    runs_line = from_stdin = other_rules = False
    while at < len(args) and args[at].text[:1] in ("-", "+") and len(args[at].text) > 1 and args[at].known:
        text = args[at].text
        at += 1
        if text == "--":
            break
        if text.lstrip("-") in _SHELL_LONG:
            continue
        if not _SHELL_LETTERS.fullmatch(text[1:]):
            return _opaque_option(call, text)
        runs_line = runs_line or "c" in text
        from_stdin = from_stdin or (text[0] == "-" and "s" in text)
        # Each takes one of the words that follow: ``-oc pipefail LINE``.
        valued = len(re.findall("[oO]", text))
        other_rules = other_rules or "O" in text
        at += valued
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
            opaque=f"{call.name} -O changes what wildcards mean" if other_rules else "",
        )
    if from_stdin or not rest:
        return _from_stdin(call)
    return script(call, rest[0], rest[1:])


def _from_stdin(call: Call) -> Meaning:
    stdin = call.simple.stdin
    if stdin is not None and stdin.known:
        return Meaning(inner=(stdin.text,), read_only=True)
    if not call.simple.piped and stdin is None and not any(r.reads for r in call.simple.redirections):
        return Meaning(opaque=f"{call.name} reads its commands from elsewhere")
    return Meaning(opaque=f"{call.name} runs what is piped into it")


def _opaque_option(call: Call, option: str) -> Meaning:
    name = option.partition("=")[0]
    runs = "runs" if re.fullmatch(r"-\w*[cepEr]|--(?:eval|print)|eval", name) else "may run"
    return Meaning(
        opaque=f"{call.name} {name} {runs} code that rules cannot read",
        paths=implied_paths([word for word in call.args if "\n" not in word.text], "read", "write"),
    )


def script(call: Call, file: Word, rest: tuple[Word, ...]) -> Meaning:
    """A program in a file: the file is read, and may be given other files."""
    if not file.known or file.glob or is_stdin(file.text):
        return Meaning(opaque=f"{call.name} runs a script that shows only at run time")
    return Meaning(paths=(PathUse(file, "read"), *implied_paths(rest, "read", "write")))


def source(call: Call) -> Meaning:
    """``source FILE``."""
    args = call.args[1:] if call.args[:1] and call.args[0].text == "--" else call.args
    return script(call, args[0], args[1:]) if args else Meaning()


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of an interpreter's options. ``valued``: they take the next word."""

    plain: re.Pattern[str]
    valued: re.Pattern[str] = re.compile(r"(?!)")
    commands: frozenset[str] = frozenset()
    """First operands that are code, or begin a shell."""
    alone: re.Pattern[str] = re.compile(r"(?!)")
    """Options with which it reads nothing from its input, though there is no script."""


_NAMED = r"--(?:version|help)|-[vVh]"
_NODE = _Kind(
    re.compile(
        _NAMED
        + r"|-c|--(?:check|test|test-only|watch|watch-preserve-output|inspect|inspect-brk|inspect-wait|"
        r"no-warnings|"
        r"trace-\w[\w-]*|enable-source-maps|expose-gc|harmony[\w-]*|preserve-symlinks|preserve-symlinks-main|no-deprecation|"
        r"throw-deprecation|pending-deprecation|abort-on-uncaught-exception|verify-base-objects|use-strict|"
        r"experimental-(?:strip-types|transform-types|vm-modules|json-modules|sqlite|fetch|test-coverage|test-module-mocks|"
        r"websocket|wasm-modules|require-module|detect-module|specifier-resolution=\w+)|no-experimental-[\w-]+|"
        r"(?:max-old-space-size|max-semi-space-size|stack-size|stack-trace-limit|max-http-header-size|test-timeout|"
        r"test-concurrency|inspect-port|inspect|inspect-brk)=[\w.:]+|"
        r"(?:title|conditions|unhandled-rejections|dns-result-order|disable-warning|test-name-pattern|"
        r"test-skip-pattern|test-shard)=.*|test-reporter=(?:spec|tap|dot|junit|lcov)|run=.*)"
    ),
    re.compile(
        r"-C|--(?:title|conditions|inspect-port|disable-warning|dns-result-order|unhandled-rejections|"
        r"max-http-header-size|stack-trace-limit|test-name-pattern|test-skip-pattern|test-timeout|test-concurrency|"
        r"test-shard|max-old-space-size|stack-size|run)"
    ),
    words("inspect debug"),
    re.compile(r"--(?:test|run)(?:=.*)?"),
)
_PYTHON_PLAIN = re.compile(
    r"-[bBdEIOPqRsStuvVx?h]+|-W(?!.*\.)\S+|-X(?!presite|pycache)[\w=]+|--(?:version|help|help-env|help-all|help-xoptions)|"
    r"--check-hash-based-pycs=\w+"
)
_PYTHON = _Kind(_PYTHON_PLAIN, re.compile(r"-[bBdEIOPqRsStuvx]*[WX]|--check-hash-based-pycs"))
_PERL = _Kind(re.compile(r"--(?:version|help)|-[acfnpsStTuUvVwWXhl]+|-I.+|-i(?:\.\w+)?"), re.compile("-I"))
_RUBY = _Kind(
    re.compile(_NAMED + r"|-[wcvnpalsSTUy]+|-W\d?|-I.+|--(?:disable|enable|verbose|jit|yjit)(?:[=-][\w-]+)?"),
    re.compile("-I"),
)
_OTHER = _Kind(
    re.compile(
        _NAMED
        + r"|--?(?:vanilla|no-save|no-restore|slave|quiet|silent|no-init-file|no-echo|watch|hot|smol)|-[qws]"
    ),
    commands=words("eval repl exec x"),
)
_KINDS: dict[str, _Kind] = {
    "python": _PYTHON,
    "node": _NODE,
    "perl": _PERL,
    "ruby": _RUBY,
    **dict.fromkeys(
        words(
            "deno bun php lua Rscript julia osascript tclsh ghci scala groovy elixir erl ipython R tsx ts-node pwsh "
            "runghc runhaskell guile sbcl clojure swipl octave gjs qjs escript"
        ),
        _OTHER,
    ),
}
# Modules and sub-commands that only read their files.
_MODULES = words(
    "pytest unittest mypy ruff black isort pylint flake8 compileall coverage doctest tokenize ast tox"
)
_RUNS_CODE = words(
    "timeit pdb cProfile profile trace code codeop runpy IPython ipython idlelib asyncio bdb this antigravity "
    "turtledemo "
    "sqlite3 rlcompleter ptpython bpython jupyter_console ipykernel"
)


def _interpreter(call: Call) -> Meaning:
    name = _kind(call.name)
    kind = _KINDS[name]
    args = call.args
    at, alone = 0, False
    while at < len(args):
        word = args[at]
        text = _dashes(word.text) if name == "node" else word.text
        if not word.known and not (word.source.startswith('"') and not text.startswith('"-')):
            return Meaning(opaque=f"{call.name} runs what shows only at run time")
        if not text.startswith("-") or text == "-":
            break
        at += 1
        if text == "--":
            break
        if name == "python" and (found := re.fullmatch(r"-[bBdEIOPqRsStuvx]*m(.*)", text)):
            module, rest = found[1], args[at:]
            if not module and rest:
                module, rest = rest[0].text, rest[1:]
            return _module(call, module, rest)
        alone = alone or kind.alone.fullmatch(text) is not None
        if kind.valued.fullmatch(text):
            at += 1
        elif not kind.plain.fullmatch(text):
            return _opaque_option(call, text)
    rest = args[at:]
    if not rest:
        if alone:
            return Meaning()
        if any(re.fullmatch(r"-V+|--version|-v|-h|-\?|--help|-version", arg.text) for arg in args):
            return Meaning(read_only=True)
        return Meaning(opaque=f"{call.name} runs what it reads from its input")
    if rest[0].text in kind.commands:
        return _opaque_option(call, rest[0].text)
    if alone:
        return Meaning(paths=implied_paths(rest, "read"))
    if name in ("deno", "bun") and rest[0].known and re.fullmatch(r"[a-z]+", rest[0].text):
        return Meaning(paths=implied_paths(rest[1:], "read", "write"))
    return script(call, rest[0], rest[1:])


def _dashes(option: str) -> str:
    """Node reads ``_`` as ``-`` in the names of options."""
    name, equals, value = option.partition("=")
    return name.replace("_", "-") + equals + value if option.startswith("--") else option


def _module(call: Call, module: str, rest: tuple[Word, ...]) -> Meaning:
    base = module.partition(".")[0]
    if base in _RUNS_CODE or not re.fullmatch(r"[\w.]+", module):
        return _opaque_option(call, f"-m {module}")
    if base in ("daemon", "lsp_bridge", "goalwright"):
        return itself(call)
    if base == "pip" and (why := pip_runs(rest)):
        return Meaning(opaque=why, paths=implied_paths(rest, "read", "write"))
    uses: tuple[Use, ...] = ("read",) if module in _MODULES else ("read", "write")
    paths = implied_paths(rest, *uses)
    if base in ("tarfile", "zipfile", "zipapp"):
        paths = tuple(replace(use, below=True, maybe=True) for use in paths)
    return Meaning(paths=paths)


def pip_runs(args: tuple[Word, ...]) -> str:
    """Why pip runs a program that its words name."""
    operands = [word.text for word in args if not word.text.startswith("-")]
    edits = operands[:1] == ["config"] and "edit" in operands
    if edits or any(re.match(r"--e(?:di|$)", word.text) for word in args):
        return "pip config edit runs an editor"
    return "pip settings decide what is installed later" if operands[:2] == ["config", "set"] else ""


def itself(call: Call) -> Meaning:
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
    return _interpreter if _kind(name) in _KINDS else None
