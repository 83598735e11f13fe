"""Secrets whose shape alone says too little: what stands before them says the rest."""

from __future__ import annotations

import base64
import json
import random

import pytest

from tools.redaction.redactor import Redactor

DICE = random.Random(7)
DOCUMENTED = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    "form",
    [
        "aws_secret_access_key = {}",
        "export AWS_SECRET_ACCESS_KEY={}\nnext",
        '{{"SecretAccessKey": "{}"}}',
        "secretAccessKey: '{}',",
    ],
)
@pytest.mark.parametrize("value", [DOCUMENTED, "abcdefghij/KLMNOPQRST+abcdefghij/KLMNOP7"])
def test_the_secret_key_of_amazon_needs_no_dice(form: str, value: str) -> None:
    text = form.format(value)
    assert value not in Redactor().text(text)
    assert value not in Redactor().json(json.dumps({"input": json.dumps({"x": text})}).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "aws_secret_access_key = configuration/of/the/production/accounts",
        f"the words {DOCUMENTED} stand alone",
        "secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
        "SECRET_ACCESS_KEY_OF_THE_PRODUCTION_ACCOUNT_IN_EUROPE",
    ],
)
def test_other_words_stay(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("before", ["?sv=2022-11-02&", "?", "?sv=1&amp;", "?sv=1\\u0026"])
def test_the_signature_of_an_address_goes(before: str) -> None:
    for _ in range(50):
        plain = base64.b64encode(DICE.randbytes(32)).decode()
        for value in (plain, plain.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")):
            text = f"https://a.blob.core.windows.net/c/f.txt{before}sig={value}"
            clean = Redactor().text(text)
            assert value[:40] not in clean
            assert clean.startswith(f"https://a.blob.core.windows.net/c/f.txt{before}sig=[redacted")


@pytest.mark.parametrize("text", ["sig=abc", "?sig=SIGTERM&x=1", "def f(sig=None):", "x?sig=" + "a1" * 16])
def test_other_signatures_stay(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("password", ["p@ss", "p@s@s", "@@x"[2:] + "@secret1"])
def test_a_password_may_have_an_at_sign(password: str) -> None:
    clean = Redactor().text(f"postgres://u:{password}@db.example/x and me@example.org")
    assert clean == "postgres://u:[redacted]@db.example/x and me@example.org"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://u:pw12@h/x, to a@b", "http://u:[redacted]@h/x, to a@b"),
        ("mongodb://u:pw12@h1,me@h2/x", "mongodb://u:[redacted]@h1,me@h2/x"),
        ("(ssh://u:pw12@h)@you@there", "(ssh://u:[redacted]@h)@you@there"),
        ("http://u:pw12@h?mail=a@b", "http://u:[redacted]@h?mail=a@b"),
    ],
)
def test_what_follows_the_host_is_no_password(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean


@pytest.mark.parametrize(
    "pump",
    [" ", "\t", "\n ", "- ", "- \n", "+", "1", "1 ", "\\n", "\\", "\\t ", "→", "| ", ":", "a", "A+"],
)
@pytest.mark.parametrize("size", [40, 30_000])
def test_no_text_behind_the_beginning_of_a_key_takes_long(pump: str, size: int) -> None:
    # Where two ways lead through each sign, this does not end within the test's time limit.
    begun = "-----BEGIN RSA PRIVATE KEY-----" + pump * (size // len(pump))
    Redactor().text(begun + "!")
    Redactor().text((begun + "!") * (30_000 // size))
    Redactor().text(begun + "!\n-----END RSA PRIVATE KEY-----")
