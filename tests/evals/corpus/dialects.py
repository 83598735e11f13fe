"""Unusual edits that models send: to refuse is right, and so is the intended edit; anything else is not."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.evals.corpus.case import Call, Draft, joined
from tests.evals.corpus.clean import Maker


def fenced(rng: random.Random, call: Call) -> Draft | None:
    """A Markdown fence around both."""
    mark = rng.choice(["```python", "```", "~~~"])
    return Draft(
        call.text, f"{mark}\n{joined(call.old)}```\n", f"{mark}\n{joined(call.new)}```\n", (call.after,)
    )


def blank_line_before(rng: random.Random, call: Call) -> Draft | None:
    """One more empty line at the beginning of both."""
    old, new = "\n" + joined(call.old), "\n" + joined(call.new)
    return Draft(call.text, old, new, (call.after,))


def blank_line_after(rng: random.Random, call: Call) -> Draft | None:
    """One more empty line at the end of both."""
    return Draft(call.text, joined(call.old) + "\n", joined(call.new) + "\n", (call.after,))


def blank_line_lost(rng: random.Random, call: Call) -> Draft | None:
    """An empty line at the beginning or the end left out of old_string only."""
    if call.old[:1] == ("",) and len(call.old) > 1:
        old = joined(call.old[1:])
    elif call.old[-1:] == ("",):
        old = joined(call.old[:-1])
    else:
        return None
    if not old.strip() or call.text.count(old) != 1:
        return None
    literal = call.text.replace(old, joined(call.new), 1)
    return Draft(call.text, old, joined(call.new), (call.after, literal))


def new_lost_its_end(rng: random.Random, call: Call) -> Draft | None:
    """old_string ends with a line end, new_string does not."""
    if (
        not call.new
        or not call.new[-1].strip()
        or not call.old[-1].strip()
        or call.high >= len(call.change.lines)
    ):
        return None
    # Before a blank line the words of the call say that its line end goes away; else two lines would be joined.
    literal = call.text.replace(joined(call.old), "\n".join(call.new), 1)
    blank = not call.change.lines[call.high].strip()
    return Draft(call.text, joined(call.old), "\n".join(call.new), (literal if blank else call.after,))


def old_got_an_end(rng: random.Random, call: Call) -> Draft | None:
    """Draft the edit with a superfluous line end, at the end of the file too."""
    call = replace(call, high=len(call.change.lines))
    if call.high - call.low > 60 or not "".join(call.new).strip() or not "".join(call.old).strip():
        return None
    return Draft(call.text, joined(call.old) + "\n", joined(call.new) + "\n", (call.after,))


def trimmed(rng: random.Random, call: Call) -> Draft | None:
    """Both trimmed as a whole."""
    old, new = joined(call.old).strip(), joined(call.new).strip()
    if not old or not new:
        return None
    lead = joined(call.old)[: len(joined(call.old)) - len(joined(call.old).lstrip())]
    if joined(call.new)[: len(joined(call.new)) - len(joined(call.new).lstrip())] != lead:
        return None
    literal = (call.text.replace(old, new, 1),) if call.text.count(old) == 1 else ()
    return Draft(call.text, old, new, (call.after, *literal))


def only_old_dedented(rng: random.Random, call: Call) -> Draft | None:
    """old_string lost its indentation, new_string has the file's."""
    solid = [line for line in call.old if line.strip()]
    cut = min((len(line) - len(line.lstrip(" ")) for line in solid), default=0)
    if not cut or not call.new or any(line[:cut].strip() for line in call.new):
        return None
    old, new = joined([line[cut:] for line in call.old]), joined(call.new)
    literal = (call.text.replace(old, new, 1),) if call.text.count(old) == 1 else ()
    return Draft(call.text, old, new, (call.after, *literal))


def only_new_dedented(rng: random.Random, call: Call) -> Draft | None:
    """old_string is exact, but for that new_string lost its indentation: what is written literally is accepted."""
    cut = min(
        (len(line) - len(line.lstrip(" ")) for line in (*call.old, *call.new) if line.strip()), default=0
    )
    if not cut or not call.new:
        return None
    old, new = joined(call.old), joined([line[cut:] for line in call.new])
    return Draft(call.text, old, new, (call.after, call.text.replace(old, new, 1)))


def old_escaped_only(rng: random.Random, call: Call) -> Draft | None:
    r"""``\n`` in old_string, real line ends in new_string."""
    if len(call.old) < 2 or len(call.new) < 2:
        return None
    return Draft(call.text, joined(call.old).replace("\n", "\\n"), joined(call.new), (call.after,))


def new_escaped_only(rng: random.Random, call: Call) -> Draft | None:
    r"""Real line ends in old_string, ``\n`` in new_string."""
    if len(call.new) < 2 or len(call.old) < 2:
        return None
    return Draft(call.text, joined(call.old), joined(call.new).replace("\n", "\\n"), (call.after,))


MAKERS: dict[str, Maker] = {
    "fenced": fenced,
    "blank line before": blank_line_before,
    "blank line after": blank_line_after,
    "blank line lost": blank_line_lost,
    "new lost its end": new_lost_its_end,
    "one line end too many": old_got_an_end,
    "trimmed": trimmed,
    "only old dedented": only_old_dedented,
    "only new dedented": only_new_dedented,
    "only old escaped": old_escaped_only,
    "only new escaped": new_escaped_only,
}
