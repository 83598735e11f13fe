"""A text that goes through in pieces loses the secrets that it loses as a whole, and nothing else."""

from __future__ import annotations

import io
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.store import archive_import
from tests.support.examples import examples
from tools.redaction.redactor import SECRETS

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KEY_LINES = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINES}\n{KEY_LINES}\n-----END PRIVATE KEY-----"
PARTS = [
    "\n",
    " ",
    "words of a line\n",
    "ü",
    "x" * 700,
    TOKEN,
    PEM,
    "https://u:s3cretPassw0rd@host/x ",
    "\udcff",
]


@given(st.lists(st.sampled_from(PARTS), max_size=60), st.sampled_from([300, 1000, 3000]))
@settings(max_examples=examples(150), deadline=None)
def test_pieces_lose_every_secret_and_no_words(parts: list[str], piece: int) -> None:
    text = " ".join(parts)
    data = text.encode("utf-8", "surrogateescape")
    with mock.patch.multiple(archive_import, PIECE=piece, _BEHIND=600):
        made = b"".join(archive_import.text_without_secrets(io.BytesIO(data).read))
    for secret in (TOKEN, KEY_LINES, "s3cretPassw0rd", TOKEN[:30]):
        assert secret.encode() not in made
    # Where a run was cut, a little more may be taken for a key; words and lines are not.
    assert made.count(b"words of a line\n") == data.count(b"words of a line\n")
    if len(data) < piece:
        assert made == SECRETS.text(text).encode("utf-8", "surrogateescape")
