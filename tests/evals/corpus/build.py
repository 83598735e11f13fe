"""Cases from changes: every kind in turn, in files of many encodings and line ends."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.evals.corpus import clean, dialects, mixed, recoverable, refuse
from tests.evals.corpus.case import FORMS, LEGACY, PLAIN, Call, Case, Draft, Form, Group, calls, joined
from tests.evals.corpus.clean import Maker
from tests.evals.corpus.sources import Change

GROUPS: tuple[tuple[Group, dict[str, Maker]], ...] = (
    ("clean", clean.MAKERS),
    ("recoverable", recoverable.MAKERS | mixed.MAKERS),
    ("refuse", refuse.MAKERS),
    ("either", dialects.MAKERS),
)
_LOOK_ALIKES = str.maketrans("“”’–\u00a0", '""\'- ')


def build(changes: Sequence[Change], rng: random.Random, size: int) -> Iterator[Case]:
    """About ``size`` cases: each kind gets the same share of its group, a clean call every third."""
    share = {"clean": 0.35, "recoverable": 0.3, "refuse": 0.27, "either": 0.08}
    order = list(changes)
    for group, makers in GROUPS:
        for kind, maker in makers.items():
            wanted = max(4, round(size * share[group] / len(makers)))
            yield from _of_kind(group, kind, maker, order, random.Random(f"{rng.random()}{kind}"), wanted)
    yield from _unencodable(order, rng, max(4, size // 200))
    yield from _legacy_words(order, rng, max(8, size // 60))


def _of_kind(
    group: Group, kind: str, maker: Maker, changes: Sequence[Change], rng: random.Random, wanted: int
) -> Iterator[Case]:
    made = 0
    for change in rng.sample(changes, len(changes)):
        call = calls(rng, change)
        draft = maker(rng, call) if call is not None else None
        if call is None or draft is None or (draft.old == draft.new and group != "refuse"):
            continue
        actual: Group = group
        if group == "recoverable" and not _one_place(call, draft):
            if draft.old in draft.text or kind == "look-alikes in file":
                continue  # It says exactly what stands elsewhere.
            actual = "either"
        case = _encoded(draft, actual, kind, change, rng)
        if case is None:
            continue
        yield case
        made += 1
        if made >= wanted:
            return


def _one_place(call: Call, draft: Draft) -> bool:
    """Whether no other place of the file reads like the one meant, blanks and typography aside."""

    def keys(text: str) -> list[str]:
        return [line.translate(_LOOK_ALIKES).strip() for line in text.split("\n")]

    there, wanted = keys(draft.text), keys("\n".join(call.old))
    hits = sum(there[i : i + len(wanted)] == wanted for i in range(len(there)))
    flat = "\n".join(wanted)
    return hits == 1 and "\n".join(there).count(flat) == 1


def _encoded(draft: Draft, group: Group, kind: str, change: Change, rng: random.Random) -> Case | None:
    form, text_before = PLAIN, ""
    chance = rng.random()
    if "\r" in draft.text:
        form = PLAIN
    elif chance < 0.22:
        form = rng.choice(FORMS)
    elif chance < 0.28 and (draft.text + draft.new).isascii():
        codec, text_before = rng.choice(LEGACY)
        form = Form(codec, codec, end=rng.choice(["\n", "\r\n"]))
        text_before += "\n" + text_before[::-1] + "\n"
        if draft.old == draft.text:
            text_before = ""
    made = _bytes(draft, form, text_before)
    if made is None:
        form = PLAIN
        made = _bytes(draft, form, "")
    if made is None:
        return None
    data, expected = made
    args: dict[str, object] = {
        "file_path": Path(change.name).name, "old_string": draft.old, "new_string": draft.new,
    }  # fmt: skip
    if draft.replace_all:
        args["replace_all"] = True
    return Case(kind, group, Path(change.name).name, data, args, expected, form.name)


def _bytes(draft: Draft, form: Form, above: str) -> tuple[bytes, tuple[bytes, ...]] | None:
    if form.name == "utf-16-le without bom" and not draft.text.isascii():
        return None
    shift = above if not draft.old[:1].isdigit() and "→" not in draft.old else ""
    try:
        if draft.replace_all and form.codec != "utf-8":
            shift = shift and above
        return form.encode(shift + draft.text), tuple(form.encode(shift + text) for text in draft.expected)
    except UnicodeEncodeError:
        return None


def _unencodable(changes: Sequence[Change], rng: random.Random, wanted: int) -> Iterator[Case]:
    """new_string has a character that the file's encoding lacks."""
    for change in changes:
        call = calls(rng, change)
        draft = clean.whole_lines(rng, call) if call is not None else None
        if draft is None or not draft.text.isascii() or not draft.new:
            continue
        codec, above = rng.choice(LEGACY[:6])
        draft = replace(draft, new=draft.new.rstrip("\n") + " # \N{GRINNING FACE}\n", expected=())
        made = _bytes(draft, Form(codec, codec), above + "\n")
        if made is None:
            continue
        args: dict[str, object] = {"file_path": "a.txt", "old_string": draft.old, "new_string": draft.new}
        yield Case("unencodable", "refuse", "a.txt", made[0], args, (), codec)
        wanted -= 1
        if not wanted:
            return


def _legacy_words(changes: Sequence[Change], rng: random.Random, wanted: int) -> Iterator[Case]:
    """Edits of words that only the file's code page has."""
    for change in rng.sample(changes, len(changes)):
        text = joined(change.lines, change.final_end)
        codec, words = rng.choice(LEGACY)
        if not text.isascii() or len(text) > 20_000:
            continue
        above = f"# {words}\n# {words[::-1]}\n"
        half = len(words) // 2
        new = f"# {words[half:]}{words[:half]}\n"
        form = Form(codec, codec, end=rng.choice(["\n", "\r\n"]))
        args: dict[str, object] = {"file_path": "a.txt", "old_string": f"# {words}\n", "new_string": new}
        expected = form.encode(new + f"# {words[::-1]}\n" + text)
        yield Case("legacy words", "clean", "a.txt", form.encode(above + text), args, (expected,), codec)
        wanted -= 1
        if not wanted:
            return
