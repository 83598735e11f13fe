"""Calls whose place is not certain, or whose words are not the file's: nothing may be written."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from tests.evals.corpus.case import Call, Draft, joined
from tests.evals.corpus.clean import Maker
from tests.evals.corpus.recoverable import dedented


def _changed(call: Call, line: int, body: str | None) -> Draft | None:
    """The call with one line of old_string replaced (or left out); new_string keeps what it can."""
    was = call.old[line]
    old = [*call.old[:line], *([body] if body is not None else []), *call.old[line + 1 :]]
    new = list(call.new)
    if was in new:
        at = new.index(was)
        new[at : at + 1] = [body] if body is not None else []
    if joined(old) in call.text or "\n".join(old) in call.text or not "".join(old).strip():
        return None
    return Draft(call.text, joined(old), joined(new), ())


def _by_pattern(pattern: str, change: Callable[[random.Random, re.Match[str]], str]) -> Maker:
    def make(rng: random.Random, call: Call) -> Draft | None:
        places = [(i, m) for i, line in enumerate(call.old) for m in re.finditer(pattern, line)]
        if not places:
            return None
        index, found = rng.choice(places)
        body = call.old[index]
        return _changed(call, index, body[: found.start()] + change(rng, found) + body[found.end() :])

    return make


def _other_word(rng: random.Random, found: re.Match[str]) -> str:
    word = found.group()
    return rng.choice([word + "s", word[:-1], "other", word + "_id", word[0] + word])


def _other_operator(rng: random.Random, found: re.Match[str]) -> str:
    return rng.choice(
        [o for o in ("==", "!=", "<", "<=", "+", "-", "*", "=", "and", "->") if o != found.group()]
    )


def line_missing(rng: random.Random, call: Call) -> Draft | None:
    """A line of the middle left out."""
    inner = [i for i in range(1, len(call.old) - 1) if call.old[i].strip()]
    return _changed(call, rng.choice(inner), None) if inner else None


def line_added(rng: random.Random, call: Call) -> Draft | None:
    """A line in the middle that the file does not have."""
    if len(call.old) < 2:
        return None
    at = rng.randrange(1, len(call.old))
    extra = rng.choice(["    pass", "# a comment", "    return None", "", "    ..."])
    old = [*call.old[:at], extra, *call.old[at:]]
    if "\n".join(old) in call.text or (not extra and not (call.old[at].strip() and call.old[at - 1].strip())):
        return None
    return Draft(call.text, joined(old), joined(call.new), ())


def lines_swapped(rng: random.Random, call: Call) -> Draft | None:
    """Two lines in the other order."""
    # A blank line at another place changes nothing of what the text says.
    said = [line.strip() for line in call.old]
    pairs = [i for i, (one, other) in enumerate(pairwise(said)) if one and other and one != other]
    if not pairs:
        return None
    at, old = rng.choice(pairs), list(call.old)
    old[at], old[at + 1] = old[at + 1], old[at]
    if "\n".join(old) in call.text:
        return None
    return Draft(call.text, joined(old), joined(call.new), ())


def same(rng: random.Random, call: Call) -> Draft | None:
    """old_string and new_string are the same."""
    return Draft(call.text, joined(call.old), joined(call.old), ())


def applied(rng: random.Random, call: Call) -> Draft | None:
    """The file reads already as it would after the edit."""
    if joined(call.old) in call.after or not joined(call.new).strip():
        return None
    return Draft(call.after, joined(call.old), joined(call.new), ())


def inserted(rng: random.Random, call: Call) -> Draft | None:
    """An insertion that is made already: old_string still stands there."""
    change = call.change
    if change.first != change.last or not "".join(change.made).strip() or change.first == call.low:
        return None
    old = joined(change.lines[call.low : change.first])
    if not re.search(r"\w", old) or call.after.count(old) != 1:
        return None
    return Draft(call.after, old, old + joined(change.made), ())


def bait(rng: random.Random, call: Call) -> Draft | None:
    """First and last line are those of the file, what is between is another."""
    if len(call.old) < 4:
        return None
    middle = [re.sub(r"[A-Za-z_]{3,}", lambda m: m.group()[::-1], line) for line in call.old[1:-1]]
    old = [call.old[0], *middle, call.old[-1]]
    if tuple(old) == call.old or "\n".join(old) in call.text:
        return None
    return Draft(call.text, joined(old), joined([*old[:1], *call.new[1:]]), ())


def elided(rng: random.Random, call: Call) -> Draft | None:
    """The middle left out with an ellipsis."""
    if len(call.old) < 4:
        return None
    dots = rng.choice(["...", "# ...", "    ...", "…", "// ... existing code ..."])
    new = [call.new[0], dots, call.new[-1]] if len(call.new) > 1 else list(call.new)
    return Draft(call.text, joined([call.old[0], dots, call.old[-1]]), joined(new) + "x\n", ())


def twice(rng: random.Random, call: Call) -> Draft | None:
    """Draft an edit whose lines occur in the file twice."""
    text = call.text + ("" if call.change.final_end else "\n") + rng.choice(["", "\n"]) + joined(call.old)
    if not call.new:
        return None
    return Draft(text, joined(call.old), joined(call.new), ())


def twice_at_other_depths(rng: random.Random, call: Call) -> Draft | None:
    """The lines stand in the file twice, at two depths, and the call has a third."""
    made = dedented(rng, call)
    if made is None or not call.old[0].strip() or not "".join(call.new).strip():
        return None
    other = joined(["      " + line if line.strip() else line for line in made.old.split("\n")], False)
    text = call.text + ("" if call.change.final_end else "\n") + other.removesuffix("\n") + "\n"
    if made.old in text and made.old.startswith((" ", "\t")):
        return None
    if "\n" not in made.old.removesuffix("\n"):
        return None
    return Draft(text, made.old, made.new, ())


def _respaced(rng: random.Random, found: re.Match[str]) -> str:
    return rng.choice(["", "  "]) if found.group() == " " else " " + found.group() + " "


def uneven(rng: random.Random, call: Call) -> Draft | None:
    """One line of several at another depth."""
    solid = [i for i, line in enumerate(call.old) if line.strip()]
    if len(solid) < 2:
        return None
    at = rng.choice(solid)
    body = call.old[at]
    depth = body[: len(body) - len(body.lstrip())]
    # Blanks in front of a tab would change nothing: the tab takes them up.
    deeper = [depth + blanks + body.lstrip() for blanks in ("   ", "  ")]
    return _changed(call, at, rng.choice([deeper[0], body[1:] if body[0] == " " else deeper[1]]))


def html_escaped(rng: random.Random, call: Call) -> Draft | None:
    """``&lt;`` for ``<`` and so on."""
    old, new = html.escape(joined(call.old)), html.escape(joined(call.new))
    return None if old == joined(call.old) or old in call.text else Draft(call.text, old, new, ())


def loose_replace_all(rng: random.Random, call: Call) -> Draft | None:
    """``replace_all`` with a text that is not in the file as it is."""
    made = dedented(rng, call)
    if made is None or made.old in made.text:
        return None
    return replace(made, expected=(), replace_all=True)


def stale(rng: random.Random, call: Call) -> Draft | None:
    """The file has moved on: a word in the lines of old_string is another."""
    solid = [i for i, line in enumerate(call.old) if re.search(r"[A-Za-z]{3}", line)]
    if not solid:
        return None
    at = rng.choice(solid)
    lines = list(call.old)
    lines[at] = re.sub(r"[A-Za-z_]{3,}", lambda m: m.group() + "2", lines[at], count=1)
    moved = call.with_old(lines)
    if joined(call.old) in moved.text or "\n".join(call.old) in moved.text:
        return None
    old, new = ("\n".join(part) for part in (call.old, call.new))
    return Draft(moved.text, old, new, ())


def cut_word(rng: random.Random, call: Call) -> Draft | None:
    """Loosely found only if a word of the file may be cut."""
    body = call.old[0].strip()
    if len(call.old) != 1 or not re.search(r"\w{4}$", body) or len(body) < 10:
        return None
    if call.text.count(body[:-1]) != 1:
        return None
    return Draft(call.text, "\t   " + body[:-1] + "  ", "\t   " + body[:-1] + "q  ", ())


def loosely_changed(rng: random.Random, call: Call) -> Draft | None:
    """Another word, number or operator, and also another depth, other blanks or copied line numbers."""
    changed = rng.choice([MAKERS["word"], MAKERS["number"], MAKERS["operator"], MAKERS["line missing"]])(
        rng, call
    )
    if changed is None or not changed.old.strip():
        return None
    lines = changed.old.split("\n")
    if not any(line.strip() and line.strip() not in changed.text for line in lines) and len(lines) < 4:
        return None
    match rng.choice(["deeper", "blanks", "tabs", "numbers", "curly"]):
        case "deeper":
            lines = ["    " + line if line.strip() else line for line in lines]
        case "blanks":
            lines = [line + "  " if line.strip() else line for line in lines]
        case "tabs":
            lines = [line.replace("    ", "\t") for line in lines]
        case "curly":
            lines = [line.replace('"', "“").replace("'", "’") for line in lines]
        case _:
            lines = [f"{n}→{line}" for n, line in enumerate(lines, call.low + 1)]
    old = "\n".join(lines)
    return None if old in changed.text else replace(changed, old=old)


MAKERS: dict[str, Maker] = {
    "loosely changed": loosely_changed,
    "word": _by_pattern(r"[A-Za-z_]{3,}", _other_word),
    "number": _by_pattern(r"\d+", lambda rng, m: str(int(m.group()[:12]) + rng.randint(1, 9))),
    "operator": _by_pattern(r"(?<=\s)(==|!=|<=|>=|[-+*/%<>=]|and|or|->)(?=\s)", _other_operator),
    "case": _by_pattern(r"[A-Za-z_]{3,}", lambda rng, m: m.group().swapcase()),
    "blanks between": _by_pattern(r"(?<=[\w)\"'=,]) (?=\S)|(?<=\w)[=(+,)](?=\w)", _respaced),
    "blanks in a string": _by_pattern(r"(?<=[\"'])(?=\w[^\"']*[\"'])", lambda rng, m: " "),
    "punctuation": _by_pattern(r"[,;:.()\[\]{}]", lambda rng, m: rng.choice("!?@$")),
    "digit glued": _by_pattern(r"\b\d+\b", lambda rng, m: m.group() + "0"),
    "quote kind": _by_pattern(r"[\"']", lambda rng, m: "'" if m.group() == '"' else '"'),
    "line missing": line_missing,
    "line added": line_added,
    "lines swapped": lines_swapped,
    "identical": same,
    "already applied": applied,
    "already inserted": inserted,
    "block bait": bait,
    "elided": elided,
    "twice": twice,
    "twice at other depths": twice_at_other_depths,
    "uneven depth": uneven,
    "HTML escaped": html_escaped,
    "replace_all, loose": loose_replace_all,
    "stale": stale,
    "cut word": cut_word,
}
