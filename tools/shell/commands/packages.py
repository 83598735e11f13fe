"""Package managers and build tools whose words can name programs that they run, beside what their files say."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.shell.commands import interpreters
from tools.shell.commands.words import Call, Meaning, PathUse, Reader, Use, implied_paths, parse, spec, words
from tools.shell.state import is_stdin
from tools.shell.syntax import Word

# Npm takes unambiguous beginnings of names.
_NPM_RUNS = re.compile(
    r"--(?:scri.*|git(?:=.*)?|edi.*|she.*|node-o.*|userc.*|globalc.*|init-m.*|vie.*|browser=.*|onl.*)"
)
_SETTINGS = words("edit set delete")


def _npm(call: Call) -> Meaning:
    """``npm exec`` fetches programs, ``npm config`` says which programs run later."""
    before: list[Word] = []
    after: tuple[Word, ...] = ()
    for at, word in enumerate(call.args):
        if word.text == "--":
            after = call.args[at + 1 :]
            break
        before.append(word)
    operands = [word for word in before if not word.text.startswith("-")]
    texts = [word.text for word in operands]
    paths = implied_paths(call.args, "read", "write")
    command = texts[0] if texts else ""
    if any(_NPM_RUNS.match(word.text) for word in before):
        return Meaning(paths=paths, opaque=f"an option of {call.name} names a program or settings")
    if command in ("exec", "x", "dlx", "explore", "execute", "create", "init"):
        run = (*operands[1:], *after) if command != "explore" else after
        why = f"{call.name} {command} fetches or runs a program"
        named = command not in ("create", "init") or len(operands) > 1
        return Meaning(
            paths=paths,
            through=(run,) if run and run[0].known and command not in ("create", "init") else (),
            opaque=why if named else "",
        )
    if (command in ("config", "c") and _SETTINGS & set(texts[1:2])) or command == "set":
        return Meaning(paths=paths, opaque=f"settings of {call.name} can name programs that it runs later")
    if command == "pkg" and texts[1:2] and texts[1] in ("set", "delete", "fix"):
        return Meaning(paths=(*paths, PathUse(Word("package.json"), "write")))
    return Meaning(paths=_read_only_unless_written(call))


_WRITES = re.compile(
    r"--?(?:fix|write|in-?place|i|out.*|o.*|unsafe-fixes|format|pack-.*)|format|fmt|init|new|add|pack"
)


def _read_only_unless_written(call: Call) -> tuple[PathUse, ...]:
    writes = any(_WRITES.fullmatch(word.text.partition("=")[0]) for word in call.args)
    uses: tuple[Use, ...] = ("read", "write") if writes else ("read",)
    return implied_paths(call.args, *uses)


_CMAKE_FILES = words(
    "rm remove remove_directory copy copy_directory copy_if_different copy_directory_if_different rename touch "
    "touch_nocreate create_symlink create_hardlink make_directory tar cat md5sum sha256sum compare_files echo"
)
_CMAKE_NAMES = {
    "rm": "rm",
    "remove": "rm",
    "remove_directory": "rm -r",
    "copy": "cp",
    "rename": "mv",
    "cat": "cat",
}


def _cmake(call: Call) -> Meaning:
    texts = [word.text for word in call.args]
    if "-E" in texts:
        return _cmake_tool(call, call.args[texts.index("-E") + 1 :])
    if any(re.match(r"-P|-C", text) for text in texts):
        return Meaning(opaque="cmake runs a script", paths=implied_paths(call.args, "read", "write"))
    return Meaning(paths=_read_only_unless_written(call))


def _cmake_tool(call: Call, args: tuple[Word, ...]) -> Meaning:
    whole = (replace(use, below=True, maybe=True) for use in implied_paths(args[1:], "read", "write"))
    paths = tuple(whole)
    tool = args[0].text if args and args[0].known else ""
    if tool in ("env", "time"):
        name = Word(tool)
        rest = tuple(word for word in args[1:] if not re.match(r"--(?:unset|modify)=|--$", word.text))
        return Meaning(inner=((name, *rest),))
    if tool in _CMAKE_FILES:
        name = _CMAKE_NAMES.get(tool)
        command = (*map(Word, name.split(" ")), *args[1:]) if name else ()
        return Meaning(paths=paths, through=(command,) if command else ())
    return Meaning(paths=paths, opaque=f"cmake -E {tool} runs a command elsewhere")


def _pip(call: Call) -> Meaning:
    return Meaning(paths=implied_paths(call.args, "read", "write"), opaque=interpreters.pip_runs(call.args))


_MAKE = spec(
    None,
    value="-I -j -l -o -W --eval --include-dir --old-file --assume-old --what-if --new-file --assume-new",
    reads="-f --file --makefile -C --directory",
)
_MAKE_SETS = re.compile(r"(?:\.?SHELL\w*|MAKE\w*|\.\w+)\s*[:+?!]*=")


def _make(call: Call) -> Meaning:
    parsed = parse(call.args, _MAKE)
    files = parsed.values(("-f", "--file", "--makefile"))
    evals = parsed.has(("--eval", "-E")) or any(
        not word.known or word.glob or is_stdin(word.text) for word in files
    )
    given = (*parsed.operands, *(value for _, value in call.simple.assignments))
    # What was exported without its value may be anything.
    hidden = any(value.source == f"{name}=${name}" for name, value in call.simple.assignments)
    code = hidden or any(_MAKE_SETS.match(word.text) or _is_code(word) for word in given)
    reason = "make gets rules from the command line" if evals or code else ""
    paths = [PathUse(word, "read") for word in files]
    paths += [PathUse(word, "list") for word in parsed.values(("-C", "--directory"))]
    return Meaning(paths=tuple(paths), opaque=reason)


def _is_code(word: Word) -> bool:
    """What make would expand in a variable or a target; of an expansion of the shell only its fixed parts are known."""
    if word.known:
        return re.search(r"\$|!\s*=", word.text) is not None
    return re.search(r"\\\$|'[^']*\$|!=", word.source) is not None


def _fetcher(call: Call) -> Meaning:
    """``npx PROGRAM``: what forbids the program by its name binds."""
    rest = call.args
    while rest and rest[0].known and rest[0].text.startswith("-"):
        rest = rest[
            2 if rest[0].text in ("-p", "--package", "--from", "--with", "--python", "-w", "--spec") else 1 :
        ]
    run = rest[1:] if call.name == "pipx" and rest[:1] and rest[0].text == "run" else rest
    return Meaning(
        opaque=f"{call.name} fetches a program and runs it",
        paths=implied_paths(call.args, "read", "write"),
        through=(run,) if run and run[0].known else (),
    )


READERS: dict[str, Reader] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "cnpm"), _npm),
    "cmake": _cmake,
    **dict.fromkeys(("pip", "pip3"), _pip),
    **dict.fromkeys(("make", "gmake"), _make),
}
"""Commands by name."""
FETCHERS: dict[str, Reader] = dict.fromkeys(words("npx bunx uvx pnpx pipx dlx"), _fetcher)
"""Commands that run a program of a registry by its name."""
