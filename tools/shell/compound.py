"""Compound commands: groups, branches, loops, functions, ``[[ ]]``, ``(( ))``. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tools.shell.numbers import is_number
from tools.shell.state import State, join
from tools.shell.syntax import Word
from tools.shell.words import INTEGER, NAME, UnclearError

if TYPE_CHECKING:
    from tools.shell.walk import Walk

Ways = tuple[State | None, State | None]
"""Where a command leads when it works, and when it fails."""

_COMPARES = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_TEST_OPERATOR = re.compile(r"&&|\|\||[()<>](?!\()|[()]|!(?=[ \t\n])")
_VARIABLE = re.compile(r'"?\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?"?\Z')
_RANGE = re.compile(r"\{-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?\}\Z")


def compound(walk: Walk) -> Ways | None:
    """The compound command that begins here; None when it is a simple one."""
    char = walk.char()
    if char == "(":
        if walk.text.startswith("((", walk.at):
            return _arithmetic(walk)
        return _subshell(walk)
    if char not in "{[ifwucsft":
        return None
    for word, read in _KINDS.items():
        if walk.keyword(word):
            return read(walk)
    return None


def body(walk: Walk, name: str) -> Ways:
    """The body of a function. It may run anywhere in the line, so nothing is known in it."""
    before, piped, moves = walk.state, walk.piped, walk.moves
    if name in walk.called:
        # In a loop, the call comes after it.
        walk.doubt("a function is defined after its name was used")
    walk.functions.add(name)
    walk.state, walk.piped = before.forgetful().lost(), True
    first = len(walk.drafts)
    made = compound(walk)
    if made is None:
        raise UnclearError("a function that is not understood")
    walk.around(first)
    walk.state, walk.piped, walk.moves = before, piped, moves
    return before, None


def _both(state: State) -> Ways:
    return state, state


def _subshell(walk: Walk) -> Ways:
    before, moves = walk.state, walk.moves
    walk.at += 1
    walk.commands_until(")")
    _close(walk, ")")
    walk.state, walk.moves = before, moves
    return _both(before)


def _group(walk: Walk) -> Ways:
    ways = walk.commands_until("}")
    _close(walk, "}")
    return ways


def _arithmetic(walk: Walk) -> Ways:
    start = walk.at
    walk.arithmetic(2)
    walk.literal(start, (), walk.shown(start, walk.at))
    return _both(walk.state)


def _close(walk: Walk, word: str) -> None:
    if not walk.keyword(word):
        raise UnclearError(f"{word!r} is missing")


def _if(walk: Walk) -> Ways:
    done: State | None = None
    while True:
        yes, no = walk.commands_until("then")
        _close(walk, "then")
        walk.state = walk.either(yes, None)
        done = join(done, join(*walk.commands_until("elif", "else", "fi")))
        walk.state = walk.either(no, None)
        if walk.keyword("elif"):
            continue
        done = join(done, join(*walk.commands_until("fi")) if walk.keyword("else") else no)
        _close(walk, "fi")
        walk.state = walk.either(done, None)
        return done, done


def _while(walk: Walk) -> Ways:
    finish = _loop(walk)
    walk.commands_until("do")
    _do(walk)
    return finish()


def _do(walk: Walk) -> None:
    walk.lines()
    if walk.keyword("do"):
        walk.commands_until("done")
        _close(walk, "done")
    else:
        raise UnclearError("'do' is missing")


def _loop(walk: Walk) -> Callable[[], Ways]:
    """Begin what runs any number of times: what it changes is not known in it."""
    first, moves = len(walk.drafts), walk.moves
    walk.state = walk.state.forgetful()
    exported = walk.state.exported

    def finish() -> Ways:
        state = walk.state.forgetful()
        if walk.moves != moves:
            state = state.lost()
            for draft in walk.drafts[first:]:
                draft.folders = None
        if state.exported != exported:
            walk.doubt("a loop exports variables")
        walk.state = state
        return _both(state)

    return finish


def _for(walk: Walk) -> Ways:
    walk.blanks()
    if walk.text.startswith("((", walk.at):
        finish = _loop(walk)
        walk.arithmetic(2, extra=";")
        walk.blanks()
        if walk.char() == ";":
            walk.at += 1
        _do(walk)
        return finish()
    match = NAME.match(walk.text, walk.at, walk.end)
    if match is None:
        raise UnclearError("a loop that is not understood")
    walk.at = match.end()
    numbers = True
    walk.lines()
    if walk.keyword("in"):
        while True:
            walk.blanks()
            if walk.char() in ("", ";", "\n", "#"):
                break
            read = walk.word()
            if read.start == read.end:
                raise UnclearError("a loop that is not understood")
            word = read.word
            numbers = numbers and bool(
                _RANGE.match(word.source) or (word.known and not word.glob and INTEGER.match(word.text))
            )
    else:
        numbers = False
    walk.blanks()
    if walk.char() == ";":
        walk.at += 1
    finish = _loop(walk)
    walk.assigned(match.group(), Word("0") if numbers else None)
    walk.state = walk.state.without((match.group(),))
    _do(walk)
    return finish()


def _case(walk: Walk) -> Ways:
    walk.blanks()
    read = walk.word()
    if read.start == read.end:
        raise UnclearError("a case that is not understood")
    walk.lines()
    _close(walk, "in")
    before = walk.state
    done: State | None = before
    through: State | None = None
    while True:
        walk.lines()
        if walk.keyword("esac"):
            walk.state = walk.either(done, through)
            return _both(walk.state)
        if walk.char() == "(":
            walk.at += 1
        while True:
            walk.blanks()
            pattern = walk.word()
            if pattern.start == pattern.end:
                raise UnclearError("a case that is not understood")
            walk.blanks()
            if walk.char() != "|":
                break
            walk.at += 1
        walk.expect(")")
        walk.state = join(before, through) or before
        end = join(*walk.commands_until(";;", ";&", "esac", empty=True))
        done, through = join(done, end), None
        if walk.text.startswith(";;&", walk.at):
            walk.at += 3
            through = end
        elif walk.text.startswith(";&", walk.at):
            walk.at += 2
            through = end
        elif walk.text.startswith(";;", walk.at):
            walk.at += 2


def _function(walk: Walk) -> Ways:
    walk.blanks()
    read = walk.word()
    if read.start == read.end or not read.plain or not re.fullmatch(r"[\w.:+-]+", read.word.text):
        raise UnclearError("a function that is not understood")
    walk.blanks()
    if walk.char() == "(" and not walk.text.startswith("((", walk.at):
        walk.at += 1
        walk.blanks()
        walk.expect(")")
    walk.lines()
    return body(walk, read.word.text)


def _test(walk: Walk) -> Ways:
    """``[[ … ]]``: a command of its own, of which rules see the text."""
    start = walk.at - 2
    walk.starts.add(start)
    words = [Word("[[", source="[[")]
    matched = False
    while True:
        walk.lines()
        if walk.at >= walk.end:
            raise UnclearError("']]' is missing")
        if not matched and (operator := _TEST_OPERATOR.match(walk.text, walk.at, walk.end)):
            walk.at = operator.end()
            words.append(Word(operator.group(), source=operator.group()))
            continue
        read = walk.word(pattern=True)
        if read.start == read.end:
            raise UnclearError("a test that is not understood")
        words.append(read.word)
        if read.plain and read.word.text == "]]":
            break
        matched = read.plain and read.word.text in ("=~", "==", "=", "!=")
    for index, word in enumerate(words):
        if word.text in _COMPARES:
            _operand(walk, words[index - 1])
            _operand(walk, words[min(index + 1, len(words) - 1)])
        elif word.text in ("-v", "-R"):
            _operand(walk, words[index + 1], name=True)
    walk.literal(
        start, tuple(replace(word, glob=False) for word in words), " ".join(word.source for word in words)
    )
    return _both(walk.state)


def _operand(walk: Walk, word: Word, *, name: bool = False) -> None:
    """``-eq`` evaluates its operands as arithmetic, ``-v`` the index of an array."""
    if word.known and (INTEGER.match(word.text) or (name and NAME.fullmatch(word.text))):
        return
    if match := _VARIABLE.match(word.source):
        walk.numbers.add(match[1])
    elif word.known and NAME.fullmatch(word.text):
        walk.numbers.add(word.text)
    elif not is_number(word.source):
        walk.doubt("a comparison evaluates a text")


_KINDS = {
    "{": _group,
    "if": _if,
    "while": _while,
    "until": _while,
    "for": _for,
    "select": _for,
    "case": _case,
    "function": _function,
    "[[": _test,
}
