"""What builtins do to the shell that runs the rest of the line: folder, variables, or more than can be told. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tools.shell.numbers import is_number
from tools.shell.state import State, is_stdin
from tools.shell.syntax import Word
from tools.shell.words import INTEGER, NAME, Read

if TYPE_CHECKING:
    from tools.shell.walk import Walk

Assigned = Sequence[tuple[str, Word, str]]


def names(text: str) -> frozenset[str]:
    """A table of names."""
    return frozenset(text.split())


DECLARE = names("declare typeset local export readonly")
_CHANGES_PARSING = names("alias unalias shopt trap source . bind enable complete compgen compopt fc")
_NAMES = names("read unset printf mapfile readarray getopts wait test [ let") | DECLARE
"""Builtins that take names of variables; the index of an array in one is evaluated, commands in it are run."""
_SETTERS = names("read mapfile readarray getopts wait unset let")
SHADOWS = names(
    ". : [ alias awk bash bg bind break builtin bun caller cargo cat cd chmod chown command compgen "
    "complete compopt continue cp curl dash date dd declare diff dirs disown docker echo enable env eval expr nproc "
    "exec exit export false fc fg find getopts gh git go grep hash head help history install jobs "
    "kill less let ln local logout ls make mapfile mkdir mv node npm npx perl pip pnpm podman popd "
    "printf pushd pwd pytest python python3 read readarray readonly return rg rm rmdir rsync ruby "
    "scp sed set sh shift shopt sort source ssh sudo suspend tail tar tee test times touch trap true "
    "type typeset ulimit umask unalias unset uv wait wc wget xargs yarn zsh"
)
"""Commands that a function of the line may not hide: the line would read as if it ran them."""
_SPECIAL = (
    DECLARE | _CHANGES_PARSING | _NAMES | names("set hash jobs command builtin cd pushd popd exit exec eval")
)
"""Commands that may change the shell; all others are other programs, or change nothing that is followed here."""
_SET_OPTIONS = re.compile(r"[-+][eux]+\Z|[-+][eux]*o\Z|--\Z|-\Z")
_SET_NAMES = frozenset(("errexit", "nounset", "xtrace", "pipefail"))
_DECLARATION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?\Z", re.DOTALL)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?\Z")
_EXPRESSION = re.compile(r"[A-Za-z0-9_ +*/%<>=!&|^~?:,()-]+\Z")


def effect(
    walk: Walk, words: list[Read], assignments: Assigned, redirects_stdin: bool
) -> tuple[State | None, State | None]:
    """Where the shell is after a command, when it works and when it fails."""
    name = words[0].word
    if name.known and name.text not in _SPECIAL and name.text not in walk.functions:
        walk.called.add(name.text)
        return walk.state, walk.state
    _check(walk, words, assignments)
    return _after(walk, words, redirects_stdin)


def _check(walk: Walk, words: list[Read], assignments: Assigned) -> None:
    """Say why the line is unclear, when this command makes it so."""
    named, rest = _builtin([read.word for read in words])
    name = named.text if named else ""
    if named is None or not named.known:
        walk.doubt("the name of a command is not known")
        return
    walk.called.add(name)
    if name in ("source", ".") and _is_file(rest):
        # It is judged by its text; it could do anything by itself, so that the rest is as it is written.
        pass
    elif name in _CHANGES_PARSING:
        walk.doubt(f"{name} may change what the rest of the line means")
    elif name == "set":
        _set(walk, rest)
    elif (name == "hash" and rest) or (
        name == "jobs" and any(word.text.startswith("-") and "x" in word.text for word in rest)
    ):
        walk.doubt(f"{name} may change what a command means")
    elif name in _NAMES:
        _evaluated(walk, name, rest, words)
    if name in DECLARE or name in ("eval", "source", ".", "exec"):
        for assigned, _, _ in assignments:
            # Bash may keep what stands before these.
            walk.assigned(assigned)


def _is_file(rest: list[Word]) -> bool:
    """Whether ``source`` reads a file that is known."""
    operands = rest[1:] if rest[:1] and rest[0].text == "--" else rest
    return bool(operands) and operands[0].known and not operands[0].glob and not is_stdin(operands[0].text)


def _builtin(words: list[Word]) -> tuple[Word | None, list[Word]]:
    """The command and its arguments without ``command`` and ``builtin`` before them."""
    at = 0
    while at < len(words) and words[at].known and words[at].text in ("command", "builtin"):
        at += 1
        while at < len(words) and words[at].known and re.match(r"-(?:-|p)\Z", words[at].text):
            at += 1
        if at < len(words) and words[at].known and re.match(r"-[pvV]+\Z", words[at].text):
            # ``command -v x`` only looks it up.
            return Word("command"), []
    if at == len(words):
        return Word("command"), []
    return words[at], words[at + 1 :]


def _set(walk: Walk, rest: list[Word]) -> None:
    takes_name = False
    for word in rest:
        if not word.known or word.glob:
            walk.doubt("set may change what the rest of the line means")
            return
        if takes_name:
            if word.text not in _SET_NAMES:
                walk.doubt("set may change what the rest of the line means")
            takes_name = False
        elif word.text in ("--", "-") or not word.text.startswith(("-", "+")):
            return
        elif not _SET_OPTIONS.match(word.text):
            walk.doubt("set may change what the rest of the line means")
        else:
            takes_name = word.text.endswith("o")


def _evaluated(walk: Walk, name: str, rest: list[Word], words: list[Read]) -> None:
    """A command in the index of an array's name is run: ``test -v 'a[$(x)]'``."""
    indexed = any(word.known and "[" in word.text and re.search(r"[$`]", word.text) for word in rest)
    if indexed and (name != "printf" or any(word.text.startswith("-") for word in rest[:1])):
        walk.doubt(f"{name} may evaluate an array's index")
    if name in ("test", "["):
        for read in words:
            _tested(walk, read)
        for word, following in itertools.pairwise(rest):
            if word.text in ("-v", "-R") and not (following.known and NAME.fullmatch(following.text)):
                walk.doubt("a test evaluates a name that is not known")
    elif name == "let":
        for word in rest:
            if word.known and _EXPRESSION.match(word.text) and not word.glob:
                walk.numbers.update(NAME.findall(word.text))
            else:
                walk.doubt("let evaluates what is not known")
    elif name == "printf":
        if rest and (rest[0].text.startswith("-v") or not rest[0].known):
            target = rest[1] if rest[0].text == "-v" and len(rest) > 1 else Word("", known=False)
            _name(walk, "printf", target)
    elif name in DECLARE:
        _declared(walk, name, rest)
    else:
        if name in ("mapfile", "readarray") and any(
            word.text.startswith("-") and "C" in word.text for word in rest
        ):
            walk.doubt("mapfile may run a command")
        risky = rest if name != "wait" or any(word.text.startswith("-p") for word in rest) else []
        for word in risky:
            if not word.known or word.glob:
                _name(walk, name, word)


def _name(walk: Walk, name: str, word: Word) -> None:
    if not word.known or word.glob:
        walk.doubt(f"{name} changes a variable that is not known")
    elif NAME.fullmatch(word.text):
        walk.assigned(word.text)
    else:
        walk.doubt(f"{name} changes a variable that is not known")


def _tested(walk: Walk, read: Read) -> None:
    """An expansion without quotes may make several words, ``-v`` and a name among them."""
    if read.word.known or is_number(read.word.source) or read.quoted:
        return
    if match := _VARIABLE.match(read.word.source):
        walk.numbers.add(match[1])
    else:
        walk.doubt("an expansion without quotes in a test")


def _declared(walk: Walk, name: str, rest: list[Word]) -> None:
    options = "".join(word.text[1:] for word in rest if word.known and word.text.startswith(("-", "+")))
    if re.search(r"[^-xrgapfFtAul]", options):
        walk.doubt(f"{name} with options that change what an assignment does")
    for word in rest:
        if word.known and re.search(r"\(.*[$`]", word.text, re.DOTALL):
            # declare -a 'x=($(y))' runs y.
            walk.doubt(f"{name} may evaluate a text")
        if word.known and word.text.startswith(("-", "+")):
            continue
        match = re.match(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=(.?)|\Z)", word.source, re.DOTALL)
        if match is None:
            if not word.known:
                walk.doubt(f"{name} changes a variable that is not known")
            continue
        if "a" in options or "A" in options:
            walk.arrays.add(match[1])
        if not word.known and match[2] != "(":
            walk.declared.add(match[1])


def _after(walk: Walk, words: list[Read], redirects_stdin: bool) -> tuple[State | None, State | None]:
    named, rest = _builtin([read.word for read in words])
    state = walk.state
    if named is None or not named.known:
        walk.state = state = state.forgetful().lost()
        walk.moves += 1
        return state, state
    name = named.text
    if name in ("source", ".") and name not in walk.functions:
        state = state.forgetful()
    elif name in walk.functions or name == "eval":
        walk.moves += 1
        walk.wild = walk.wild or name == "eval"
        state = state.forgetful().lost()
    elif name in ("cd", "pushd", "popd"):
        walk.moves += 1
        return _moved(name, rest, state), state
    elif name == "exit":
        if not rest or (len(rest) == 1 and rest[0].known and INTEGER.match(rest[0].text)):
            return None, None
    elif name == "exec":
        # What it redirects stays so.
        walk.redirected = walk.redirected or redirects_stdin
    elif name in DECLARE:
        _declare(walk, name, rest)
        state = walk.state
    elif name in _SETTERS:
        for word in rest:
            if word.known and NAME.fullmatch(word.text):
                walk.assigned(word.text)
                if name != "getopts":
                    walk.arrays.add(word.text)
        state = walk.state
    elif name == "printf" and rest and rest[0].text.startswith("-"):
        state = walk.state.forgetful()
    walk.state = state
    return state, state


def _declare(walk: Walk, name: str, rest: list[Word]) -> None:
    options = "".join(word.text for word in rest if word.known and word.text.startswith("-"))
    exports = name == "export" or "x" in options
    for word in rest:
        match = _DECLARATION.match(word.text if word.known else word.source)
        if match is None:
            if not (word.known and word.text.startswith(("-", "+"))):
                walk.state = walk.state.forgetful()
            continue
        target, value = match[1], match[2]
        if "f" in options:
            continue
        if name != "export":
            walk.fixed.add(target)
        made: Word | None = None
        if value is not None:
            if word.known and not word.glob and "[" not in word.source.partition("=")[0]:
                made = Word(value)
            walk.assigned(target, made if made is not None else Word(value, known=False, source=value))
        elif name != "export":
            walk.assigned(target)
        else:
            walk.assigned(target, _now(walk.state, target))
        if exports:
            text = (
                f"{target}={value}" if value is None or re.match(r"[\w./:@%+,-]*\Z", value) else word.source
            )
            walk.export(target, text if value is not None else f"{target}=${target}")


def _now(state: State, name: str) -> Word | None:
    value = state.variables.get(name)
    return None if value is None else Word(value)


def _moved(name: str, rest: list[Word], state: State) -> State:
    """After a ``cd``, ``pushd`` or ``popd`` that worked."""
    options = [word for word in rest if word.known and re.match(r"-[LPe@]+\Z|--\Z", word.text)]
    operands = [word for word in rest if word not in options]
    if name == "popd":
        if rest or not state.stack:
            return state.lost()
        return replace(state.without(("PWD",)), folders=state.stack[-1], stack=state.stack[:-1])
    if any("P" in word.text for word in options) or len(operands) > 1:
        return state.lost()
    if not operands:
        if name == "pushd":
            return state.lost()
        return state.moved(state.variables.get("HOME", "~"))
    target = operands[0]
    if (
        not target.known
        or target.glob
        or target.text.startswith("-")
        or (name == "pushd" and target.text[:1] == "+")
    ):
        return state.lost()
    text = target.text
    if target.tilde:
        text = state.variables.get("HOME", "~") + text[1:]
    elif text.startswith("~"):
        text = f"./{text}"
    moved = state.moved(text) if text else state
    if name == "pushd" and state.stack is not None:
        return replace(moved, stack=(*state.stack, state.folders))
    return moved
