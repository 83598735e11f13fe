"""No secret is cut in two: whatever the length a text is cut to, what is left of it shows none."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.context.compaction import cut_middle
from daemon.loop.session_titles import SUMMARY_LENGTH, TITLE_LENGTH
from daemon.steps.inference import action_label, brief_output
from daemon.steps.shortened import first_sentence
from lsp_bridge.cli.text import one_line as terminal_line
from lsp_bridge.server.editor.prompts import visible_line as editor_line
from tests.support.examples import in_full
from tools.process.output import HeadTail
from tools.redaction.redactor import SECRETS, Redactor
from tools.text.truncate import abridged, cut_text, head, one_line, short, tail

DICE = random.Random(11)


def dice(
    length: int, alphabet: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
) -> str:
    return "".join(DICE.choice(alphabet) for _ in range(length))


UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PEM_LINES = "\n".join(dice(64) for _ in range(20))
SECRET_TEXTS = {
    # What stands before, the secret, what stands behind.
    "password in an address": ("psql postgres://admin:", "Tr0ub4dor3xyzQ9", "@db.example.com:5432/prod"),
    "long password": ("amqp://q:", dice(120), "@host/"),
    "token in an address": ("https://", dice(40), "@github.com/a/b"),
    "anthropic": ("", "sk-ant-api03-" + dice(90) + "AA", ""),
    "openai": ("key ", "sk-proj-" + dice(70) + "-_" + dice(40), " "),
    "github": ("git ", "ghp_" + dice(36), " x"),
    "github fine": ("", "github_pat_" + dice(22) + "_" + dice(59), "."),
    "gitlab": ("", "glpat-" + dice(20), "'"),
    "slack": ("k ", "xoxb-123456789012-1234567890123-" + dice(24), '"'),
    "aws": ("AWS ", "AKIA" + dice(16, UPPER), " "),
    "google": ("k ", "AIza" + dice(35), " "),
    "google oauth": ("k ", "ya29." + dice(60), " "),
    "hugging face": ("x ", "hf_" + dice(34), " "),
    "npm": ("npm ", "npm_" + dice(36), " "),
    "pypi": ("p ", "pypi-AgEIcHlwaS5vcmc" + dice(60), " "),
    "sendgrid": ("p ", f"SG.{dice(22)}.{dice(43)}", " "),
    "stripe": ("p ", "sk_live_" + dice(24), " "),
    "jwt": ("p ", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + dice(43), " "),
    "bearer": ("curl -H 'Authorization: Bearer ", dice(30), "' x"),
    "bearer alone": ("sends bearer ", dice(40), " along"),
    "assigned": ("export DB_PASSWORD='", dice(24), "'"),
    "in JSON": ('{"access_token": "', dice(40), '","x":1}'),
    "in JSON in JSON": ('{\\"access_token\\": \\"', dice(40), '\\",\\"x\\":1}'),
    "private key": ("-----BEGIN RSA PRIVATE KEY-----\n", PEM_LINES, "\n-----END RSA PRIVATE KEY-----"),
    "known": ("it is ", "Correct-horse-battery-staple-9", " so"),
    "known, of words": ("it is ", "correct horse battery staple nine", " so"),
}
_HARMLESS = 12
"""Signs of a secret that may be seen together: what its kind is called, or its last four with what stands by chance."""


@pytest.fixture(autouse=True)
def known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Redactor([SECRET_TEXTS["known"][1], SECRET_TEXTS["known, of words"][1]])
    for name in ("_known", "spaced"):
        monkeypatch.setattr(SECRETS, name, getattr(known, name))


def pieces(secret: str) -> set[str]:
    body = secret.replace("\n", " ")
    return {body[at : at + _HARMLESS] for at in range(4, len(body) - _HARMLESS + 1)}


def leaked(kept: str, secret: str) -> list[str]:
    seen = SECRETS.text(kept).replace("\n", " ")
    return [piece for piece in pieces(secret) if piece in seen]


def head_tail(text: str, length: int) -> str:
    shown = HeadTail(length)
    for at in range(0, len(text), 97):
        shown.add(text[at : at + 97])
    return shown.text("elsewhere")


CUTS: dict[str, Callable[[str, int], str]] = {
    "head": head,
    "tail": tail,
    "short": short,
    "one_line": one_line,
    "cut_middle": cut_middle,
    "cut_text": cut_text,
    "abridged": abridged,
    "first_sentence": first_sentence,
    "editor_line": editor_line,
    "terminal_line": terminal_line,
    "head_tail": head_tail,
}


@pytest.mark.parametrize("kind", SECRET_TEXTS)
@pytest.mark.parametrize("cut", CUTS)
def test_no_border_splits_a_secret(cut: str, kind: str) -> None:
    before, secret, behind = SECRET_TEXTS[kind]
    # What is said before it and after it has long words and short ones, and letters of several bytes.
    said = f"Please, überprüfe the connection 请 now: {before}"
    text = f"{said}{secret}{behind} and-then-tell-me what you have found there."
    whole = SECRETS.text(text)
    assert not leaked(whole, secret)
    first, last = len(said) - 3, len(said) + len(secret) + len(behind) + 3
    for border in range(first, last, max(1, (last - first) // in_full(40, 12))):
        for length in (border, 2 * border, len(text) - border, 2 * (len(text) - border), border // 8 + 1):
            if length > 8:
                kept = CUTS[cut](text, length)
                assert not leaked(kept, secret), (length, kept)


MADE: tuple[tuple[int, Callable[[str], str]], ...] = (
    (80, lambda text: action_label("bash", {"command": text})),
    (200, brief_output),
    (TITLE_LENGTH, lambda text: one_line(text, TITLE_LENGTH)),
    (SUMMARY_LENGTH, lambda text: one_line(text, SUMMARY_LENGTH)),
)


@pytest.mark.parametrize("kind", SECRET_TEXTS)
def test_what_the_product_makes_of_a_text_shows_no_secret(kind: str) -> None:
    before, secret, behind = SECRET_TEXTS[kind]
    for limit, made in MADE:
        for shift in range(-2, min(len(secret), 60) + 6, 3):
            pad = max(0, limit - shift - len(before) - 1)
            assert not leaked(made(f"{'e' * pad} {before}{secret}{behind} x"), secret), (limit, shift)


words = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)


@given(words, st.sampled_from(list(SECRET_TEXTS)), words, st.integers(0, 400), st.sampled_from(list(CUTS)))
@example("", "password in an address", "", 37, "short")
def test_any_text_may_stand_around_a_secret_that_is_cut(
    said: str, kind: str, more: str, length: int, cut: str
) -> None:
    before, secret, behind = SECRET_TEXTS[kind]
    kept = CUTS[cut](f"{said} {before}{secret}{behind} {more}", length + 9)
    assert not leaked(kept, secret)


@given(st.text(max_size=300), st.integers(0, 320))
def test_nothing_is_longer_than_it_may_be_and_nothing_is_made_up(text: str, length: int) -> None:
    assert text.startswith(head(text, length))
    assert text.endswith(tail(text, length))
    assert len(head(text, length)) <= length
    assert len(tail(text, length)) <= length
    assert len(short(text, length + 1)) <= length + 1


@pytest.mark.parametrize(
    "text",
    [
        "a quite ordinary sentence with several considerably long words, and nothing in it that is secret "
        * 5,
        "http://localhost:8080/a http://localhost:8080 ws://127.0.0.1:48003/api/traces?limit=50 " * 5,
        "/home/me/project/src/components/token-list/token_list_item_v2_test.py:120: error: no such name " * 5,
        "9fceb02d0ae598e95dc970b74767f19372d61af8 550e8400-e29b-41d4-a716-446655440000 " * 5,
        "请检查连接，然后告诉我你发现了什么。" * 30,
    ],
)
def test_other_texts_are_cut_where_they_were_to_be(text: str) -> None:
    for length in range(0, min(400, len(text))):
        assert head(text, length) == text[:length]
        assert tail(text, length) == text[len(text) - length :]


_SHORT = st.text(alphabet="ab;&|()<>`'\"$ \n", max_size=20)


@given(st.lists(_SHORT, min_size=2, max_size=7), st.integers(100, 400))
def test_long_words_fall_away_before_anything_else_of_a_command(short_ones: list[str], length: int) -> None:
    command = f" {'x' * 900} ".join(short_ones)
    shortened = abridged(command, 899)
    assert re.sub(r"x+…\(\d+ more characters\)…x+", "X", shortened) == " X ".join(short_ones)
    assert len(abridged(command, length)) < length + 40


def test_a_text_made_to_be_slow_is_not() -> None:
    # Each secret falls only when the one behind it has: without a bound this would look at the text again and again.
    text = "a://b:c@" * 4_000 + "-----BEGIN PRIVATE KEY-----" * 500 + "eyJ" * 4_000
    for length in range(100, len(text), 9_001):
        head(text, length)
        tail(text, length)
