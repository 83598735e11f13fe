"""Derive the effects of a simple command from its words and the rows of ``programs``: files, code, other commands.

Pure. Commands that are not known for certain are opaque, or at least not among those that can only read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tools.localization import noted, t
from tools.shell import environment, files, git, harm
from tools.shell.bash_words import Word, names
from tools.shell.command_line import Simple
from tools.shell.files import ProgramCall
from tools.shell.options import (
    UNKNOWN,
    Meaning,
    Parsed,
    PathUse,
    ProgramRow,
    Use,
    implied_paths,
    join,
    may_be_option,
    part,
    read,
    rows,
    uses,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SYSTEM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/[^/]+")
_COMPILER = re.compile(
    r"(?:[\w.]+-)*(?:gcc|gfortran|g\+\+|cc|c\+\+|cpp|clang|clang\+\+|c[89]9|tcc)(?:-[\d.]+)?"
)
_ALIASES = {"pypy": "python", "nodejs": "node", "luajit": "lua", "powershell": "pwsh"}
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_HIDDEN = noted("an expansion or an unknown option decides what it runs")


def meaning(command: Simple) -> Meaning:
    """Return the meaning of a command. Never raises."""
    if not command.words:
        reason = environment.opaque(command.assignments, alone=True)
        return Meaning(tuple(git.repositories(command.assignments)), opaque=reason, read_only=not reason)
    first = command.words[0]
    if not first.known or first.glob or not first.text:
        return Meaning(
            opaque=t("the program is only known at run time"),
            paths=implied_paths(command.words[1:], "read", "write"),
        )
    path = first.text
    elsewhere = "/" in path and not _SYSTEM.fullmatch(path)
    call = _call(path.rpartition("/")[2], command)
    found = git.read(call.args, command) if "git" in call.row.marks else _of_row(call)
    if elsewhere:
        # A path may but need not be the program of that name, as in ``.venv/bin/python -c``.
        paths = (PathUse(first, "read"), *implied_paths(command.words[1:], "read", "write"), *found.paths)
        found = replace(found, paths=paths, read_only=False)
    return _completed(call, found, elsewhere=elsewhere)


def _call(name: str, command: Simple) -> ProgramCall:
    args = command.words[1:]
    row = rows().get(name)
    if row is None:
        base = re.sub(r"(?<=[a-z])-?\d[\d.]*t?$", "", name)
        row = rows().get(_ALIASES.get(base, base)) or (
            rows()["gcc"] if _COMPILER.fullmatch(name) else ProgramRow(opaque="")
        )
    parsed = read(args, row, leading="ordered" in row.marks)
    tool = rows().get(f"{row.names} {args[0].text}") if args and args[0].text.startswith("-") else None
    if tool is not None:
        return ProgramCall(name, tool, args[1:], read(args[1:], tool), command)
    if "sub" in row.marks and not parsed.has(row.runs):
        leading = read(args, row, leading=True)
        begin = len(args) - len(leading.operands) + 1
        for at, word in enumerate(leading.operands[:2], begin):
            sub = rows().get(f"{row.names} {word.text}") if word.known else None
            if sub is not None and (at == begin or "byname" in row.marks):
                return ProgramCall(name, sub, args[at:], read(args[at:], sub), command)
    return ProgramCall(name, row, args, parsed, command)


def _of_row(call: ProgramCall) -> Meaning:
    row, parsed = call.row, call.parsed
    for mark, reader in _KINDS.items():
        if mark in row.marks:
            return reader(call)
    if not row.names:
        # Of an unknown program, the words after ``--`` may be a command that it runs.
        return Meaning(implied_paths(call.args, "read", "write"), through=_after_dashes(call.args))
    paths = (*uses(row, parsed), *_implied(call))
    opaque = row.reason(call.name) or files.runs(call)
    if "strict" in row.marks and (parsed.unknown(row) or parsed.unsure):
        opaque = opaque or t("what these options of {name} do is not known", name=call.name)
    through = _after_dashes(call.args) if opaque else ()
    return Meaning(paths, _commands_after(call), through, opaque, _only_reads(row, parsed))


def _only_reads(row: ProgramRow, parsed: Parsed) -> bool:
    """Return whether it is in the table of commands that can only read, with these words."""
    writes = row.writes | row.changes | row.runs | row.words
    hidden = parsed.unsure and (bool(writes) or "second" in row.marks)
    second = "second" in row.marks and len(parsed.operands) > 1
    # ``date 0101`` sets the clock, ``date +%s`` does not.
    second = second or ("sets" in row.marks and any(word.text[:1] != "+" for word in parsed.operands))
    return "table" in row.marks and not (parsed.has(writes) or parsed.unknown(row) or hidden or second)


def _implied(call: ProgramCall) -> tuple[PathUse, ...]:
    """Return words that may be files beside those of the row: all, if it has no rule, else those in unknown options."""
    row = call.row
    reads = "reading" in row.marks and not _fixes(call) and not call.parsed.has(row.runs)
    kinds: tuple[Use, ...] = ("read",) if reads else ("read", "write")
    if not row.marks & {"none", "read", "write", "list", "both"}:
        return implied_paths(call.simple.words[1:] if row.opaque else call.args, *kinds)
    unknown = [
        word
        for word in (call.args if "*" not in row.flags else ())
        if re.match(r"-\w\S*[/.@=]|--[\w-]+=", word.text) and _option(word) not in row.known
    ]
    return implied_paths([word for word in unknown if not _clustered(word, row)], *kinds)


def _option(word: Word) -> str:
    return word.text.partition("=")[0] if word.text.startswith("--") else word.text[:2]


def _clustered(word: Word, row: ProgramRow) -> bool:
    return "dash" not in row.marks and any("-" + letter in row.valued for letter in word.text[1:4])


_FIXING = re.compile(
    r"--?(?:fix|write|in-?place|i|out.*|o.*|unsafe-fixes|format|pack-.*)|format|fmt|init|new|add|pack"
)


def _fixes(call: ProgramCall) -> bool:
    return any(_FIXING.fullmatch(word.text.partition("=")[0]) for word in call.simple.words[1:])


def _commands_after(call: ProgramCall) -> tuple[Sequence[Word] | str, ...]:
    """Yield the command after an option such as ``fd -x``."""
    at = next((n for n, word in enumerate(call.args) if word.text in call.row.words), None)
    return () if at is None else ((*call.args[at + 1 :], UNKNOWN),)


def _after_dashes(args: Sequence[Word]) -> tuple[Sequence[Word], ...]:
    texts = [word.text for word in args]
    rest = args[texts.index("--") + 1 :] if "--" in texts else ()
    return (rest,) if rest and rest[0].known and not rest[0].text.startswith("-") else ()


# Wrappers


def _wrap(call: ProgramCall) -> Meaning:
    """Return the meaning of ``nice -n 5 command``: options, words of its own, then the command."""
    row = call.row
    parsed = read(call.args, row, leading=True)
    if parsed.has(row.alone):
        return Meaning(read_only="table" in row.marks)
    rest = parsed.operands
    pairs: list[tuple[str, Word]] = []
    cleared = "assigns" in row.marks and bool(rest) and rest[0].text == "-"
    rest = rest[cleared:]
    while "assigns" in row.marks and rest and (found := _ASSIGNMENT.fullmatch(rest[0].text)):
        pairs.append((found[1], part(rest[0], found[2])))
        rest = rest[1:]
    skip = 1 if "machine" in row.marks and rest and re.fullmatch(r"\w*\d\w*|arm", rest[0].text) else row.skip
    unsure = parsed.unsure or parsed.unknown(row) or any(may_be_option(word) for word in rest[:skip])
    written = tuple(
        PathUse(word, "write") for word in rest[:1] if "lock" in row.marks and not word.text.isdigit()
    )
    rest = rest[skip + ("lock" in row.marks) :]
    opaque = environment.opaque(pairs) or (t(_HIDDEN) if unsure or parsed.has(row.runs) else "")
    opaque = opaque or row.reason(call.name)
    if (
        call.name == "env"
        and (cleared or parsed.has(("-i", "--ignore-environment", "-u", "--unset")))
        and "git" in {word.text.rpartition("/")[2] for word in rest}
    ):
        # These settings keep a cloned repository from naming programs (tools.process.environment).
        opaque = t("git without the settings that stop a repository from running programs")
    inner: list[Sequence[Word] | str] = [rest] if rest else []
    for line in parsed.values(("-S", "--split-string")):
        opaque = t("env -S runs a string as a command")
        inner = [" ".join((line.text, *(word.source for word in rest)))]
    if rest and ("joined" in row.marks or ("lock" in row.marks and rest[0].text in ("-c", "--command"))):
        words = rest[1:] if "lock" in row.marks else rest
        inner = [" ".join(word.text for word in words)]
        opaque = opaque or ("" if all(word.known for word in words) else t(_HIDDEN))
    if "pipes" in row.marks:
        # ``strace -o '|command'``
        inner += [word.text[1:] for word in parsed.values(row.writes) if word.text[:1] in ("|", "!")]
    if "adds" in row.marks:
        inner = [_with_input(parsed, rest)] if rest else []
    if not rest and "adds" not in row.marks:
        return Meaning(paths=(*uses(row, parsed), *written), inner=tuple(inner), opaque=opaque)
    table = "table" in row.marks and environment.harmless(pairs) and not parsed.has(row.writes)
    return Meaning(paths=(*uses(row, parsed), *written), inner=tuple(inner), read_only=table, opaque=opaque)


def _with_input(parsed: Parsed, rest: Sequence[Word]) -> Sequence[Word]:
    """Return the command of ``xargs`` with its input inserted."""
    marks = [
        "{}" if value is None else value.text
        for name, value in parsed.options
        if name in ("-I", "-i", "--replace")
    ]
    marked = tuple(
        Word(word.text, known=False, source=word.source or word.text)
        if any(m and m in word.text for m in marks)
        else word
        for word in rest
    )
    return marked if marks else (*marked, UNKNOWN)


def _through(call: ProgramCall) -> Meaning:
    """Return the meaning of ``npx PROGRAM``, ``uv run PROGRAM``: a rule that forbids the program by its name
    applies."""
    parsed = read(call.args, call.row, leading=True)
    rest = parsed.operands
    if call.name == "pipx" and rest[:1] and rest[0].text == "run":
        rest = rest[1:]
    opaque = call.row.reason(call.name)
    if not opaque and (parsed.has(call.row.runs) or parsed.unsure):
        opaque = t(_HIDDEN)
    through = (rest,) if rest and rest[0].known else ()
    kinds: tuple[Use, ...] = ("read", "write") if call.row.opaque else ("read",)
    return Meaning(paths=implied_paths(call.simple.words[1:], *kinds), through=through, opaque=opaque)


def _line_of(call: ProgramCall) -> Meaning:
    """Return the meaning of ``su -c LINE``, ``script -c LINE``."""
    lines = [
        value for name, value in call.parsed.options if name in ("-c", "--command") and value is not None
    ]
    known = tuple(word.text for word in lines if word.known)
    return Meaning(paths=tuple(uses(call.row, call.parsed)), inner=known, opaque=call.row.reason(call.name))


_TOOLS = {
    "rm": "rm", "remove": "rm", "remove_directory": "rm -r", "copy": "cp", "rename": "mv", "cat": "cat",
    "env": "env", "time": "time",
}  # fmt: skip


def _tool_of(call: ProgramCall) -> Meaning:
    """Return the meaning of ``cmake -E TOOL``: files, or another command."""
    rest = [word for word in call.args[1:] if not re.match(r"--(?:unset|modify)=|--$", word.text)]
    paths = [replace(use, below=True, maybe=True) for use in implied_paths(rest, "read", "write")]
    called = _TOOLS.get(call.args[0].text, "") if call.args else ""
    inner = (*map(Word, called.split()), *rest)
    return Meaning(tuple(paths), through=(inner,) if called else (), opaque=t("cmake -E runs a command"))


# Shells and interpreters

_SHELL_OPTION = re.compile(
    r"[-+][abefhiklmnpruvxBCDEHPTcso]+|--(?:norc|noprofile|posix|login|verbose|noediting|version|help)"
)


_LIKE_BASH = names("bash rbash sh dash ash")
"""For others, words have more meanings: in zsh ``**/x`` is found at any depth, and ``$A:r`` is $A without its end."""


def _shell(call: ProgramCall) -> Meaning:
    """Return the meaning of ``bash -c LINE``, ``bash SCRIPT``, or a shell that reads its commands from elsewhere."""
    at, args = 0, call.args
    letters = ""
    opaque = ""
    while at < len(args) and args[at].text[:1] in ("-", "+") and len(args[at].text) > 1 and args[at].known:
        text = args[at].text
        at += 1
        if text == "--":
            break
        if not _SHELL_OPTION.fullmatch(text.replace("O", "o")) or "O" in text:
            opaque = t("{name} {text} may run code that rules cannot check", name=call.name, text=text)
        letters += "" if text.startswith("--") else text[1:]
        at += len(re.findall("[oO]", text)) if not text.startswith("--") else 0
    rest = args[at:]
    paths = implied_paths(rest[1:], "read", "write")
    if "c" in letters or opaque:
        known = rest[:1] and rest[0].known and not rest[0].glob
        opaque = opaque or (
            "" if known else t("{name} -c runs a command line that is only known at run time", name=call.name)
        )
        lines = tuple(word.text for word in rest[:1] if word.known)
        paths = implied_paths(args, "read", "write") if "c" not in letters else paths
        return Meaning(inner=lines, paths=paths, read_only=call.name in _LIKE_BASH, opaque=opaque)
    if "s" in letters or not rest:
        stdin = call.simple.stdin
        lines = (stdin.text,) if stdin is not None and stdin.known else ()
        return Meaning(inner=lines, opaque=t("{name} runs what it reads from its input", name=call.name))
    return _script(call, rest[0], rest[1:])


def _script(call: ProgramCall, file: Word, rest: tuple[Word, ...]) -> Meaning:
    """Return the meaning of a program in a file: the file is read, and may receive other files."""
    if not file.known or file.glob or files.STDIN.fullmatch(re.sub(r"(?:[^/]+/\.\./|\./)+", "", file.text)):
        return Meaning(opaque=t("{name} runs a script that is only known at run time", name=call.name))
    return Meaning(paths=(PathUse(file, "read"), *implied_paths(rest, "read", "write")))


_RUNS_CODE = names(
    "timeit pdb cProfile profile trace code codeop runpy IPython ipython idlelib asyncio bdb this antigravity "
    "turtledemo sqlite3 rlcompleter ptpython bpython jupyter_console ipykernel daemon lsp_bridge goalwright"
)
_BEFORE_MODULE = re.compile(r"-(?![WXc]$|[bBdEIOPqRsSuvx]*m)(?!-).+", re.DOTALL)
_CODE_OPTION = re.compile(r"-\w*[cepEr]|--(?:eval|print)")


def _interpreter(call: ProgramCall) -> Meaning:
    """Return the meaning of ``python x.py``; with any option that is not known to be harmless it runs unreadable
    code."""
    args = call.args
    row = call.row
    if row.names == "python" and (found := _module(call)) is not None:
        return found
    if row.names == "node":
        args = tuple(part(w, _dashes(w.text)) if w.known and w.text.startswith("--") else w for w in args)
    parsed = read(args, row, leading=True)
    named = next((name for name, value in parsed.options if not _harmless(name, value, row)), "")
    implied = implied_paths([word for word in args if "\n" not in word.text], "read", "write")
    if named:
        if _CODE_OPTION.fullmatch(named):
            opaque = t("{name} {text} runs code that rules cannot check", name=call.name, text=named)
        else:
            opaque = t("{name} {text} may run code that rules cannot check", name=call.name, text=named)
        return Meaning(opaque=opaque, paths=implied)
    rest = parsed.operands
    alone = parsed.has(row.alone)
    if not rest:
        return Meaning(opaque="" if alone else t("{name} runs what it reads from its input", name=call.name))
    first = rest[0]
    if not first.known and not re.match(r'"[^-"]', first.source):
        return Meaning(
            opaque=t("{name} runs a command that is only known at run time", name=call.name), paths=implied
        )
    if first.text in ("eval", "repl", "exec", "x", "inspect", "debug"):
        return Meaning(
            opaque=t("{name} {text} runs code that rules cannot check", name=call.name, text=first.text),
            paths=implied,
        )
    written = tuple(uses(row, parsed))
    if alone or (call.name in ("deno", "bun") and re.fullmatch("[a-z]+", first.text)):
        return Meaning(paths=(*implied, *written))
    found = _script(call, first, rest[1:])
    return replace(found, paths=(*found.paths, *written))


def _harmless(name: str, value: Word | None, row: ProgramRow) -> bool:
    if name in row.subs and value is not None:
        return True
    return name in row.known and name not in row.runs and (value is None or value.known or name in row.writes)


def _dashes(option: str) -> str:
    """Node reads ``_`` as ``-`` in the names of options."""
    name, equals, value = option.partition("=")
    return name.replace("_", "-") + equals + value


def _module(call: ProgramCall) -> Meaning | None:
    """Return the meaning of ``python -m MODULE``; None without it."""
    at = next(
        (n for n, word in enumerate(call.args) if not _BEFORE_MODULE.fullmatch(word.text)), len(call.args)
    )
    found = re.fullmatch(r"-[bBdEIOPqRsSuvx]*m(.*)", call.args[at].text) if call.args[at:] else None
    if found is None or not call.args[at].known:
        return None
    rest = (part(call.args[at], found[1]), *call.args[at + 1 :]) if found[1] else call.args[at + 1 :]
    module, rest = rest[0] if rest else Word(""), rest[1:]
    implied = implied_paths(rest, "read", "write")
    package = module.text.split(".")[0]
    if not module.known or not re.fullmatch(r"[\w.]+", module.text) or package in _RUNS_CODE:
        said = harm.warning("goalwright", ()) if package in ("daemon", "lsp_bridge", "goalwright") else ""
        opaque = t("{name} -m {text} runs code that rules cannot check", name=call.name, text=module.text)
        return Meaning(opaque=opaque, paths=implied, warning=said)
    if module.text in rows() and not rows()[module.text].marks & {"wrap", "script", "line", "find"}:
        return Meaning(through=((module, *rest),))
    whole = module.text in ("tarfile", "zipfile", "zipapp")
    return Meaning(paths=tuple(replace(use, below=whole, maybe=whole) for use in implied))


def _eval(call: ProgramCall) -> Meaning:
    """Return the meaning of ``eval``, ``trap``: their words are a line."""
    words = [word for word in call.args if word.text != "--"]
    if call.name == "trap":
        if len(words) < 2 or words[0].text == "-":
            return Meaning()
        words = words[:1]
    known = all(word.known and not word.glob for word in words)
    line = " ".join(word.text for word in words)
    return Meaning(
        inner=(line,) if known and line else (),
        opaque=t("{name} runs its arguments as a command line", name=call.name),
    )


def _declares(call: ProgramCall) -> Meaning:
    """Return the meaning of ``export NAME=value``, which applies to all later commands; ``read NAME`` sets it from
    elsewhere."""
    pairs = _pairs(call.args)
    opaque = environment.opaque(pairs, alone=True) or files.runs(call)
    # Which variables the programs of the table obey is not known, only that these change nothing.
    harmless = call.name == "export" and len(pairs) == len(call.args) and environment.harmless(pairs)
    return Meaning(tuple(git.repositories(pairs)), opaque=opaque, read_only=harmless and not opaque)


def _pairs(args: Sequence[Word]) -> list[tuple[str, Word]]:
    found: list[tuple[str, Word]] = []
    for word in args:
        name, equals, value = word.text.partition("=")
        if re.fullmatch(r"\w+", name):
            found.append((name, part(word, value) if equals else replace(word, known=False)))
    return found


_KINDS: dict[str, Callable[[ProgramCall], Meaning]] = {
    "wrap": _wrap, "through": _through, "line_of": _line_of, "tool_of": _tool_of, "line": _shell,
    "script": _interpreter, "eval": _eval, "declares": _declares, "copy": files.copy, "tar": files.tar,
    "archive": files.zip_, "pairs": files.dd, "pieces": files.split_pieces, "patch": files.patch,
    "web": files.web, "ps": files.ps, "make": files.make, "compile": files.compile, "sed": files.sed,
    "find": files.find, "jq": files.jq,
}  # fmt: skip
"""Readers of rows whose words have an order of their own, by the mark."""


# Common to all commands


def _completed(call: ProgramCall, found: Meaning, *, elsewhere: bool) -> Meaning:
    """Return the meaning completed by environment, harm, other names, and how far it may be generalized."""
    command = call.simple
    reason = environment.opaque(command.assignments)
    opaque = found.opaque or reason
    bare = "/" not in command.words[0].text and environment.harmless(command.assignments)
    prefix, more = ("", "") if elsewhere else _general(call, found)
    unnamed = environment.changes_nothing(command.assignments)
    return replace(
        found,
        opaque=opaque,
        read_only=found.read_only and bare and not opaque,
        warning=found.warning or harm.warning(call.name, command.words[1:]),
        general=prefix if bare and not more and not opaque else "",
        more=more or found.more,
        plain=join(command.words) if command.assignments and unnamed else "",
        glue=not (opaque or more or elsewhere) and _glue(call, unnamed=unnamed),
        also=_other_texts(call, found.also),
    )


_TARGET = re.compile(r"[A-Za-z0-9_][\w.:-]*", re.ASCII)


def _general(call: ProgramCall, found: Meaning) -> tuple[str, str]:
    """Return the beginning that may be allowed whatever follows (empty if none), and why these words may do more than
    it."""
    texts = [word.text for word in call.simple.words]
    row, parsed = call.row, call.parsed
    if "git" in row.marks:
        return found.general, found.more
    for words in found.through:
        inner = meaning(Simple(tuple(words), text=join(words)))
        size = len(texts) - len(words)
        prefix = " ".join(texts[:size])
        if prefix in ("python -m", "python3 -m", "uv run") and (inner.general or inner.more):
            return (f"{prefix} {inner.general}" if inner.general else ""), inner.more
    for one in row.general:
        beginning, _, more = one.replace("_", " ").partition("+")
        size = beginning.count(" ") + 1
        operands = parsed.operands
        if " ".join(texts[:size]) != beginning:
            continue
        if more:
            if not operands or texts[size] != operands[0].text or not _TARGET.fullmatch(texts[size]):
                continue
            beginning, operands = f"{beginning} {texts[size]}", operands[1:]
        return beginning, t(
            "a rule for {beginning} does not cover these extra arguments", beginning=beginning
        ) if _strays(row, parsed, operands) else ""
    if "table" in row.marks and not found.read_only and not row.marks & {"wrap", "find", "sed"}:
        return "", t("these extra arguments may do more than {name} alone", name=call.name)
    return "", ""


def _strays(row: ProgramRow, parsed: Parsed, operands: Sequence[Word]) -> bool:
    """Return whether these words may do more than the general beginning of the command."""
    local, single = "local" in row.marks, "single" in row.marks
    far = any(w.text.startswith(("/", "~", "@", "+")) or ".." in w.text.split("/") for w in operands)
    if (local and (far or parsed.after)) or (single and operands):
        return True
    named = row.runs | row.writes | (row.reads | row.walk if single else row.words)
    return (
        parsed.unknown(row)
        or parsed.has(named)
        or (parsed.unsure and (local or single or bool(row.writes | row.runs)))
    )


_GLUE = names("[ [[ test true false : exit return break continue shift wait cd pushd popd read set")


def _glue(call: ProgramCall, *, unnamed: bool) -> bool:
    """Return whether it changes and shows nothing outside the line. Commands in its words (``$(…)``) and the target of
    its output are checked separately."""
    if call.simple.assignments and not unnamed:
        # ``IFS= read`` applies to this one command.
        return call.name == "read" and all(name == "IFS" for name, _ in call.simple.assignments)
    if call.name == "cat":
        return not call.args and not any(each.reads for each in call.simple.redirections)
    if call.name == "export":
        pairs = _pairs(call.args)
        return len(pairs) == len(call.args) > 0 and environment.changes_nothing(pairs)
    return call.name in _GLUE


def _other_texts(call: ProgramCall, more: tuple[str, ...]) -> tuple[str, ...]:
    command = call.simple
    args = join(command.words[1:])
    # A rule for ``rm`` also applies when it is called by its path, in quotes, or after an assignment.
    texts = [f"{name} {args}".strip() for name in (command.words[0].text, call.name)]
    return tuple(dict.fromkeys(text for text in (*texts, *more) if text != command.text))
