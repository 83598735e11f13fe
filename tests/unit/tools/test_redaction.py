"""Texts that are redacted in the record and the log, and texts that must stay."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.redaction.redactor import Redactor, is_redacted

DICE = random.Random(5)


def dice(
    length: int, alphabet: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
) -> str:
    return "".join(DICE.choice(alphabet) for _ in range(length))


UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
HEX = "0123456789abcdef"
LINES = "\n".join(dice(64) for _ in range(12))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}\n-----END RSA PRIVATE KEY-----"
TOKENS = {
    "openai": "sk-" + dice(48),
    "openai project": "sk-proj-" + dice(70) + "-_" + dice(40),
    "anthropic": "sk-ant-api03-" + dice(90) + "AA",
    "deepseek": "sk-" + dice(32, HEX),
    "github classic": "ghp_" + dice(36),
    "github letters only": "ghp_" + "a" * 36,
    "github oauth": "gho_" + dice(36),
    "github server": "ghs_" + dice(36),
    "github fine": "github_pat_" + dice(22) + "_" + dice(59),
    "gitlab": "glpat-" + dice(20),
    "slack bot": "xoxb-123456789012-1234567890123-" + dice(24),
    "slack user": "xoxp-123456789012-" + dice(24),
    "aws": "AKIA" + dice(16, UPPER),
    "aws session": "ASIA" + dice(16, UPPER),
    "google": "AIza" + dice(35),
    "google oauth": "ya29." + dice(60),
    "hugging face": "hf_" + dice(34),
    "npm": "npm_" + dice(36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + dice(60),
    "sendgrid": f"SG.{dice(22)}.{dice(43)}",
    "stripe": "sk_live_" + dice(24),
    "stripe restricted": "rk_live_" + dice(24),
    "google client": "GOCSPX-" + dice(28),
    "docker": "dckr_pat_" + dice(27),
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + dice(43),
}
AROUND = (
    "{}",
    "key: {}.",
    "export KEY={}\nnext",
    "'{}'",
    '"{}"',
    "a\n{}\nb",
    "\x1b[31m{}\x1b[0m",
    "q=%20{}&x=1",
    "({})",
)


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("around", AROUND)
def test_tokens_of_services_go_wherever_they_stand(kind: str, around: str) -> None:
    token = TOKENS[kind]
    text = around.format(token)
    clean = Redactor().text(text)
    assert token not in clean
    assert token[8:-4] not in clean
    assert is_redacted(clean)
    for level in (text, json.dumps({"content": text}), json.dumps({"input": json.dumps({"content": text})})):
        stored = Redactor().json(json.dumps({"part": level}, ensure_ascii=False).encode())
        assert token[8:-4].encode() not in stored
        json.loads(json.loads(stored)["part"]) if level is not text else json.loads(stored)


ASSIGNMENTS = (
    "API_KEY={}",
    "api-key: {}",
    'OPENAI_API_KEY="{}"',
    "export DB_PASSWORD='{}'",
    '{{"token": "{}"}}',
    '{{"access_token":"{}","x":1}}',
    "password = {}",
    "client_secret => {}",
    "SECRET_KEY_BASE: {}",
    "aws_secret_access_key = {}",
    "x-api-key: {}",
    "config['auth_token'] = '{}'",
    "Authorization: Bearer {}",
    '{{"Authorization": "Bearer {}"}}',
    "-H 'authorization: token {}'",
    "sends Bearer {} along",
    "postgres://me:{}@db.example:5432/x",
    "https://{}@github.com/a/b",
)


@pytest.mark.parametrize("form", ASSIGNMENTS)
@pytest.mark.parametrize("value", [dice(40), dice(32, HEX), "abcd1234efgh5678ijkl", dice(24)])
def test_what_is_assigned_to_a_secrets_name_goes(form: str, value: str) -> None:
    text = f"first line\n{form.format(value)}\nlast line"
    clean = Redactor().text(text)
    assert value not in clean
    assert clean.startswith("first line\n")
    assert clean.endswith("\nlast line")
    nested = json.dumps({"input": json.dumps({"content": text})})
    stored = Redactor().json(nested.encode())
    assert value.encode() not in stored
    assert json.loads(json.loads(stored)["input"])["content"] == clean


NAMES = (
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "credential",
    "api_key",
    "authority-key",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", (str.lower, str.upper, str.title))
def test_a_secrets_name_may_stand_in_any_case_far_down_the_text(
    name: str, form: Callable[[str], str]
) -> None:
    secret = dice(40)
    ids = " ".join(f"20261122-1205{n:02}-abcdef0123" for n in range(40))
    assert secret not in Redactor().text(f"{ids}\n{form(name)}: {secret}\n{ids}")
    assert secret not in Redactor().text(f"{ids}\n{form('bearer')} {secret}\n{ids}")


@pytest.mark.parametrize("password", ["pw", "hunter2", "p%40ss!word", dice(30)])
def test_passwords_in_addresses_go(password: str) -> None:
    text = f"git clone https://me:{password}@example.org/x.git"
    clean = Redactor().text(text)
    assert f":{password}@" not in clean
    assert clean.startswith("git clone https://me:[redacted")
    assert clean.endswith("@example.org/x.git")


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("RSA ", ""),
        PEM.replace("RSA ", "OPENSSH "),
        "\n".join(f"{n:>5}→{line}" for n, line in enumerate(PEM.split("\n"), 1)),
        "\n".join("+" + line for line in PEM.split("\n")),
        "\n".join(PEM.split("\n")[:6]),
        "\n".join(PEM.split("\n")[5:]),
        'KEY = "' + PEM.replace("\n", '\\n" +\n "') + '"',
    ],
)
def test_private_keys_go_whole_or_cut(text: str) -> None:
    clean = Redactor().text(text)
    assert not any(line in clean for line in LINES.split("\n"))
    assert "[redacted: private key]" in clean
    for value in ({"content": text}, {"input": json.dumps({"content": text})}):
        stored = json.loads(Redactor().json(json.dumps(value).encode()))
        assert not any(line in str(stored) for line in LINES.split("\n"))


def test_a_key_that_ends_in_another_string_takes_nothing_with_it() -> None:
    stored = json.dumps({"a": "-----BEGIN PRIVATE KEY-----", "b": "kept", "c": "-----END PRIVATE KEY-----"})
    assert json.loads(Redactor().json(stored.encode())) == json.loads(stored)


KEPT = (
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    '"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
    '"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="',
    "id: 550e8400-e29b-41d4-a716-446655440000, token: 550e8400-e29b-41d4-a716-446655440000",
    "token = secrets.token_hex(16)",
    "password = self.config.database_password",
    "api_key = os.environ['OPENAI_API_KEY']",
    "apiKey: process.env.OPENAI_API_KEY,",
    "accessToken: base64UrlEncodedTokenValue",
    "self._token = unique_call_ids(stream, self._state.call_ids.__contains__)",
    "max_tokens=16000 tokens: 1234567890123456789",
    "token_expires_at: 2025-01-01T00:00:00Z",
    "password_hash: 5f4dcc3b5aa765d61d8327deb882cf99",
    "cache_key: 5f4dcc3b5aa765d61d8327deb882cf99",
    "public_key_id = ab12cd34ef56ab78cd90",
    "the class sk-loading-indicator-wrapper and sk-cube-grid",
    "task-abcdefghij1234567890 risk-1234567890abcdefghij",
    "npm_config_registry npm_package_devdependencies_typescript hf_hub_download",
    "pypi-some-package-with-a-rather-long-name",
    "https://user:${PASSWORD}@host/ https://user:<password>@host https://example.org:8080/@scope/x",
    "Authorization: Bearer $TOKEN, Authorization: Bearer <token>, Authorization: Bearer YOUR_TOKEN_HERE",
    "the Authorization header: basic authentication is used",
    "!function(e,t){var n=e.token,r=t.secretKey2;return n.password1=r.key2}(this,0)",
    "token_url = https://example.org/oauth2/token/v2/abc123def456",
    "password: /run/secrets/db_password_1",
    "if text.startswith('-----BEGIN PRIVATE KEY-----'):",
    "src/components/token-list/token_list_item_v2_test.py:120: token",
    "a secret: it is what nobody knows",
)


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text
    for value in (text, json.dumps({"x": text})):
        stored = json.dumps({"content": value}, ensure_ascii=False).encode()
        assert Redactor().json(stored) == stored


def test_base64_of_images_stays() -> None:
    for seed in range(5):
        data = base64.b64encode(random.Random(seed).randbytes(400_000)).decode()
        text = json.dumps(
            {"images": [{"name": "token", "data": data}], "url": f"data:image/png;base64,{data}"}
        )
        assert Redactor().json(text.encode()) == text.encode()


def test_known_keys_go_in_every_form_and_also_when_cut() -> None:
    key = 'prov"ider\\key-' + dice(20)
    redactor = Redactor([key, "short", "anything"])
    text = f"it is {key}, anything else is short"
    assert redactor.text(text) == f"it is [redacted: …{key[-4:]}], anything else is short"
    nested = json.dumps({"input": json.dumps({"content": text})})
    assert key[-16:].encode() not in redactor.json(nested.encode())
    assert redactor.text(f"begins {key[:25]}") == f"begins [redacted: …{key[-4:]}]"
    assert redactor.text(f"… {key[12:]} ends") == f"… [redacted: …{key[-4:]}] ends"
    assert redactor.text("my key is abcdefgh") == "my key is abcdefgh"
    redactor.register(["abcdefgh"])
    assert redactor.text("my key is abcdefgh") == "my key is [redacted]"


def test_of_too_many_keys_the_oldest_is_forgotten() -> None:
    old, *others, long, new = (dice(12), *(dice(12) for _ in range(399)), dice(90), dice(12))
    redactor = Redactor([old, *others])
    redactor.register([long])
    redactor.register([new])
    assert redactor.text(long) != long and redactor.text(new) != new
    assert redactor.text(f"It is {old}.") == f"It is {old}."


def test_twice_changes_nothing_more() -> None:
    redactor = Redactor(["abcdefghijklmnop"])
    texts = [
        *TOKENS.values(),
        PEM,
        *(form.format(dice(40)) for form in ASSIGNMENTS),
        "abcdefghijklmnop" + TOKENS["openai"],
    ]
    for one in texts:
        for other in texts[::5]:
            clean = redactor.text(f"{one} {other}{one}")
            assert redactor.text(clean) == clean


@given(
    st.recursive(
        st.text()
        | st.integers()
        | st.sampled_from([*TOKENS.values(), PEM, 'a"b\\c', "password=", "\\", "é…"]),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=12,
    ),
    st.booleans(),
)
def test_json_stays_json_of_the_same_form(value: object, nest: bool) -> None:
    text = json.dumps(json.dumps(value) if nest else value, ensure_ascii=False)
    data = text.encode(errors="replace")
    redactor = Redactor(["x1y2z3a4b5c6d7e8"])
    clean = redactor.json(data)
    assert shape(json.loads(clean)) == shape(json.loads(data))
    assert redactor.json(clean) == clean


def shape(value: Any) -> object:
    if isinstance(value, dict):
        return [shape(inner) for inner in cast("dict[str, Any]", value).values()]
    if isinstance(value, list):
        return [shape(inner) for inner in cast("list[Any]", value)]
    return type(value).__name__


@given(st.text(alphabet=st.characters(codec="utf-8")), st.sampled_from(list(TOKENS.values())))
def test_any_text_may_stand_around_a_token(text: str, token: str) -> None:
    assert token not in Redactor().text(f"{text} {token} {text}")


@pytest.mark.parametrize(
    "evil",
    [
        "sk-" * 30_000,
        "eyJ" * 30_000,
        "api_key=" * 12_000,
        "-----BEGIN PRIVATE KEY-----" * 3_000,
        ("A" * 20 + "\n") * 4_000 + "-----END PRIVATE KEY-----" * 400,
        "://a:" * 20_000 + "@",
        "token" + "\\" * 100_000,
    ],
)
def test_texts_made_to_be_slow_are_not(evil: str) -> None:
    # Without a bound these take minutes: the time limit of a test would end it.
    Redactor(["a1b2c3d4e5f6"]).json(json.dumps(evil).encode())


BROKEN_OFF = (
    ("psql postgres://admin:", "Tr0ub4dor3xyzQ9"),
    ("mysql://k.ing:", "p%40ss!w0rd"),
    ("git push with ", "ghp_" + dice(16)),
    ("", "hf_" + dice(25)),
    ("npm_token: ", "npm_" + dice(20)),
    ("AKIA… ", "AKIA" + "7Q2XF4KD9Z3M8"),
    ("AIza is ", "AIza" + dice(24)),
)


@pytest.mark.parametrize(("before", "piece"), BROKEN_OFF)
def test_a_secret_that_is_broken_off_by_the_end_of_its_text_goes(before: str, piece: str) -> None:
    clean = Redactor().text(before + piece)
    assert clean.startswith(f"{before}[redacted")
    assert Redactor().text(clean) == clean
    stored = json.loads(Redactor().json(json.dumps({"text": before + piece, "more": 1}).encode()))
    assert stored == {"text": clean, "more": 1}


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8080",
        "ws://127.0.0.1:48003",
        "see https://example.org:8443",
        "redis://cache:6379",
        "http://host:port",
        "https://HOST:PORT_NUMBER",
        "docker://node:18-alpine3",
        "oci://registry.example.org:2024-11-22",
        "http://[::1]:8080",
        "npm_config_registry_url1",
        "hf_hub_download_folder",
        "AIzanami_and_amaterasu",
    ],
)
def test_an_address_with_a_port_at_the_end_of_a_text_stays(text: str) -> None:
    assert Redactor().text(text) == text
    stored = json.dumps({"text": text, "list": [text]}).encode()
    assert Redactor().json(stored) == stored
