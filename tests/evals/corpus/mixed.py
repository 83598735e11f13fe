"""Calls that differ from the file in several meaningless ways at once, or in ways of their own."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.evals.corpus.case import Call, Draft, joined
from tests.evals.corpus.clean import Maker
from tests.evals.corpus.recoverable import look_alikes_in_file

_CURLY = str.maketrans({'"': "“", "'": "’"})
_DASH = str.maketrans({"-": "–"})
_NO_BREAK = str.maketrans({" ": "\u00a0"})
_STYLES = ("{n}→{s}", "{n:>6}→{s}", "{n:>6}\t{s}", "{n:>4} | {s}", "{n}: {s}", "{n:>5}:{s}")


@dataclass(frozen=True, slots=True)
class _Strings:
    """The lines of both strings, and how they become text."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    final_end: bool = True

    def by_line(self, change: Callable[[str], str]) -> _Strings:
        """Return the strings with the same change to every line that is not blank."""
        old, new = (tuple(change(s) if s.strip() else s for s in part) for part in (self.old, self.new))
        return replace(self, old=old, new=new)

    def texts(self) -> tuple[str, str]:
        """old_string and new_string."""
        return joined(self.old, self.final_end), joined(self.new, self.final_end)


_Step = Callable[[random.Random, Call, _Strings], "_Strings | None"]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _least(strings: _Strings) -> int:
    return min((_depth(line) for line in (*strings.old, *strings.new) if line.strip()), default=0)


def _dedent(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    least = _least(strings)
    if not least:
        return None
    cut = rng.choice([least, min(4, least)])
    return strings.by_line(lambda line: line[cut:])


def _indent(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    more = rng.choice(["  ", "    "])
    solid = [line for line in strings.old if line.strip()]
    return strings.by_line(lambda line: more + line) if len(solid) > 1 else None


def _tabs(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    depths = {_depth(line) for line in call.change.lines if line.strip()} - {0}
    width = next((w for w in (4, 2, 8) if depths and all(d % w == 0 for d in depths)), 0)
    if not width or any("\t" in line for line in (*strings.old, *strings.new)):
        return None
    if any(_depth(line) % width for line in (*strings.old, *strings.new)):
        return None
    made = strings.by_line(lambda line: "\t" * (_depth(line) // width) + line.lstrip(" "))
    # Tabs that only new_string has are its own.
    return made if any("\t" in line for line in made.old) else None


def _trailing(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    blank = rng.choice([" ", "  "])
    if rng.random() < 0.5:
        return strings.by_line(lambda line: line + blank)
    return replace(strings, old=tuple(line + blank for line in strings.old))


def _typography(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    if not call.text.isascii():
        return None
    table = rng.choice([_CURLY, _CURLY | _DASH, _NO_BREAK])

    def change(line: str) -> str:
        body = line.lstrip()
        return line[: len(line) - len(body)] + body.translate(table)

    made = strings.by_line(change)
    fancy = [{c for line in part for c in line if not c.isascii()} for part in (made.old, made.new)]
    return made if fancy[1] <= fancy[0] else None  # What only new_string has is content.


def _filled(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    """Indentation on the empty lines of old_string and on those that new_string repeats."""
    made = call.change.made
    if "" not in strings.old or "" in made or "" in call.change.lines[call.change.first : call.change.last]:
        return None
    old, new = (tuple(line or "    " for line in part) for part in (strings.old, strings.new))
    return replace(strings, old=old, new=new)


def _no_last_end(rng: random.Random, call: Call, strings: _Strings) -> _Strings | None:
    if not strings.new or not strings.new[-1].strip() or not strings.old[-1].strip():
        return None
    return replace(strings, final_end=False)


_STEPS: tuple[_Step, ...] = (_dedent, _indent, _tabs, _trailing, _typography, _filled, _no_last_end)


def _numbers(rng: random.Random, call: Call, old: str, new: str) -> tuple[str, str] | None:
    style = rng.choice(_STYLES)
    if len(call.old) < 2 or not new or not call.old[-1].strip() or not call.new[-1].strip():
        return None

    def numbered(text: str) -> str:
        end = "\n" if text.endswith("\n") else ""
        lines = text.removesuffix("\n").split("\n")
        return "\n".join(style.format(n=n, s=s) for n, s in enumerate(lines, call.low + 1)) + end

    return numbered(old), numbered(new)


def _escaped(rng: random.Random, call: Call, old: str, new: str) -> tuple[str, str] | None:
    if "\n" not in old or "\\" in old + new:
        return None
    return tuple(text.replace("\n", "\\n").replace("\t", "\\t") for text in (old, new))  # pyright: ignore[reportReturnType]


def _crlf(rng: random.Random, call: Call, old: str, new: str) -> tuple[str, str] | None:
    return old.replace("\n", "\r\n"), new.replace("\n", "\r\n")


def _blank_lines(rng: random.Random, call: Call, old: str, new: str) -> tuple[str, str] | None:
    if not new or not old.endswith("\n"):
        return None
    before, after = rng.choice([("\n", ""), ("", "\n"), ("\n", "\n")])
    return before + old + after, before + new + after


def _mixed(
    count: int, wraps: Sequence[Callable[[random.Random, Call, str, str], tuple[str, str] | None] | None]
) -> Maker:
    def make(rng: random.Random, call: Call) -> Draft | None:
        strings, done = _Strings(call.old, call.new), 0
        for step in sorted(rng.sample(_STEPS, len(_STEPS) - 1), key=_STEPS.index):
            if (
                done < count
                and (rng.random() < 0.5)
                and (made := step(rng, call, strings)) not in (None, strings)
            ):
                assert made is not None
                strings, done = made, done + 1
        if done < count:
            return None
        old, new = strings.texts()
        wrap = rng.choice(wraps)
        if wrap is not None:
            wrapped = wrap(rng, call, old, new)
            if wrapped is None:
                return None
            old, new = wrapped
        if old in call.text:
            return None
        expected = [call.after]
        if not strings.final_end and call.new == ():
            expected.append(joined((*call.change.lines[: call.low], "", *call.change.lines[call.high :])))
        return Draft(call.text, old, new, tuple(expected))

    return make


def blank_lines_around(rng: random.Random, call: Call) -> Draft | None:
    """Empty lines around both strings that the file does not have there."""
    before, after = rng.choice([("\n", ""), ("", "\n"), ("\n", "\n"), ("", "\n\n")])
    old, new = before + joined(call.old) + after, before + joined(call.new) + after
    if (
        not call.new
        or not all((call.old[0], call.old[-1], call.new[0], call.new[-1]))
        or old.rstrip("\n") in call.text
    ):
        return None
    return Draft(call.text, old, new, (call.after,))


def blank_line_around_old(rng: random.Random, call: Call) -> Draft | None:
    """An empty line before or behind old_string only, which the file does not have there."""
    before, after = rng.choice([("\n", ""), ("", "\n")])
    old, new = before + joined(call.old) + after, joined(call.new)
    if (
        not call.new
        or not all((call.old[0], call.old[-1], call.new[0], call.new[-1]))
        or old.rstrip("\n") in call.text
    ):
        return None
    return Draft(call.text, old, new, (call.after,))


def escaped_old(rng: random.Random, call: Call) -> Draft | None:
    r"""``\n`` in old_string, real line ends in new_string, or quotes escaped in both."""
    old, new = joined(call.old), joined(call.new)
    if "\\" in old + new:
        return None
    if rng.random() < 0.5:
        if len(call.old) < 2 or len(call.new) < 2:
            return None
        return Draft(call.text, old.replace("\n", "\\n"), new, (call.after,))
    if '"' not in old:
        return None
    old, new = (text.replace('"', '\\"') for text in (old, new))
    return Draft(call.text, old, new, (call.after,))


def escaped_new(rng: random.Random, call: Call) -> Draft | None:
    r"""Real line ends in old_string, ``\n`` in new_string, which repeats an indented line."""
    repeated = set(call.old) & set(call.new[1:])
    if not any(line.startswith("  ") and line.strip() for line in repeated) or len(call.old) < 2:
        return None
    if any("\\" in line for line in (*call.old, *call.new)):
        return None
    return Draft(call.text, joined(call.old), joined(call.new).replace("\n", "\\n"), (call.after,))


def escaped_to_ascii(rng: random.Random, call: Call) -> Draft | None:
    """Escaped twice, with every character that is not ASCII as a number."""
    if joined(call.old).isascii():
        return None
    old, new = (json.dumps(joined(lines))[1:-1] for lines in (call.old, call.new))
    return Draft(call.text, old, new, (call.after,))


def tabs_in_part(rng: random.Random, call: Call) -> Draft | None:
    """Some lines of the call are indented with tabs, others with spaces."""
    depths = {_depth(line) for line in call.change.lines if line.strip()} - {0}
    width = next((w for w in (4, 2, 8) if depths and all(d % w == 0 for d in depths)), 0)
    if not width or "\t" in call.text:
        return None
    chosen = {line for line in call.old if rng.random() < 0.5 and line.startswith(" " * width)}

    def change(line: str) -> str:
        return "\t" * (_depth(line) // width) + line.lstrip(" ") if line in chosen and line.strip() else line

    old, new = (joined([change(line) for line in lines]) for lines in (call.old, call.new))
    return (
        None
        if "\t" not in old or old in call.text or not call.new
        else Draft(call.text, old, new, (call.after,))
    )


def fence(rng: random.Random, call: Call) -> Draft | None:
    """A Markdown fence around both strings."""
    mark = rng.choice(["```", "```python", "~~~"])
    old, new = (f"{mark}\n{joined(lines)}{mark[:3]}" for lines in (call.old, call.new))
    end = rng.choice(["", "\n"])
    if not call.new or "```" in call.text or "~~~" in call.text:
        return None
    return Draft(call.text, old + end, new + end, (call.after,))


def first_line_stripped_and_more(rng: random.Random, call: Call) -> Draft | None:
    """A call that was trimmed as a whole, with blanks at line ends or typographic quotes besides."""
    if len(call.old) < 2 or len(call.new) < 2 or not call.text.isascii():
        return None
    if not call.old[0].strip() or _depth(call.old[0]) == 0 or call.old[0] != call.new[0]:
        return None
    if not call.old[-1].strip() or not call.new[-1].strip() or call.old[0] in call.new[1:]:
        return None
    strings = _Strings(call.old, call.new)
    step = rng.choice([_trailing, _typography])
    made = step(rng, call, strings)
    if made is None or made.old == strings.old:
        return None
    old, new = ("\n".join(lines).strip() for lines in (made.old, made.new))
    if old in call.text or old.split("\n") == list(call.old):
        return None
    return Draft(call.text, old, new, (call.after,))


def dedented_old(rng: random.Random, call: Call) -> Draft | None:
    """old_string lost its indentation, new_string has the file's, and repeats lines of it."""
    solid = [line for line in call.old if line.strip()]
    cut = min((_depth(line) for line in solid), default=0)
    if not cut or len(solid) < 2 or not set(solid) & set(call.new):
        return None
    if not any(line.strip() and line not in call.old for line in call.new):
        return None
    old = joined([line[cut:] for line in call.old])
    if old in call.text or min(_depth(line) for line in call.new if line.strip()) < cut:
        return None
    return Draft(call.text, old, joined(call.new), (call.after,))


def typography_in_file_and_depth(rng: random.Random, call: Call) -> Draft | None:
    """The file has typographic characters where the call has plain ones, and the call another depth."""
    made = look_alikes_in_file(rng, call)
    if made is None:
        return None
    lines = [line for text in (made.old, made.new) for line in text.split("\n") if line.strip()]
    cut = min((_depth(line) for line in lines), default=0)
    if not cut:
        return None
    old, new = (
        "\n".join(line[cut:] if line.strip() else line for line in text.split("\n"))
        for text in (made.old, made.new)
    )
    return replace(made, old=old, new=new)


def new_typography(rng: random.Random, call: Call) -> Draft | None:
    """old_string has look-alikes for the file's plain characters; new_string brings others, as content."""
    if not call.text.isascii() or not call.new or not re.search("[\"']", joined(call.old)):
        return None
    brought = rng.choice(["—", "–", "\u00a0", "−"])
    word = "# costs 5" + brought + "10"
    old, new = joined(call.old).translate(_CURLY), joined(call.new).translate(_CURLY)
    after = [*call.change.lines[: call.low], *call.new, word, *call.change.lines[call.high :]]
    if set(re.findall("[“’]", new)) - set(re.findall("[“’]", old)) or not call.new[-1].strip():
        return None
    # A file without a last line end stays without one, as everywhere else.
    return Draft(call.text, old, new + word + "\n", (joined(after, call.change.final_end),))


MAKERS: dict[str, Maker] = {
    "one kind, wrapped": _mixed(1, [_numbers, _escaped, _crlf, _blank_lines]),
    "two kinds": _mixed(2, [None, None, _crlf]),
    "two kinds, wrapped": _mixed(2, [_numbers, _escaped, _blank_lines]),
    "three kinds": _mixed(3, [None, None, _crlf]),
    "blank lines around": blank_lines_around,
    "blank line around old": blank_line_around_old,
    "escaped in part": escaped_old,
    "escaped new": escaped_new,
    "escaped to ASCII": escaped_to_ascii,
    "tabs in part": tabs_in_part,
    "fence": fence,
    "trimmed and more": first_line_stripped_and_more,
    "dedented old": dedented_old,
    "look-alikes in file and depth": typography_in_file_and_depth,
    "new typography": new_typography,
}
