"""The meaning of failures."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from daemon.provider.errors import (
    Failure,
    classify,
    error_for,
    host_of,
    redact,
    retry_after,
    shown_url,
    window_in,
)
from daemon.provider.litellm import target_for
from daemon.provider.model_calls import ModelRequest
from daemon.provider.models import ProviderModels
from tests.support.scenarios.model_requests import request


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(401, "authentication_error"), ("auth", False)),
        (Failure(403, "permission_error"), ("auth", False)),
        (Failure(429, "rate_limit_error", "slow down"), ("rate_limit", True)),
        (Failure(429, "insufficient_quota", "You exceeded your current quota"), ("rate_limit", False)),
        (Failure(429, "rate_limit_error", "spend limit", retry_after_s=3), ("rate_limit", True)),
        (Failure(529, "overloaded_error"), ("overloaded", True)),
        (Failure(200, "overloaded_error"), ("overloaded", True)),
        (Failure(200, "api_error"), ("server", True)),
        (Failure(500, "api_error"), ("server", True)),
        (Failure(503), ("overloaded", True)),
        (Failure(408), ("server", True)),
        (Failure(413, "request_too_large"), ("overflow", False)),
        (
            Failure(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            ("overflow", False),
        ),
        (Failure(400, "context_length_exceeded", "whatever"), ("overflow", False)),
        (Failure(400, "", "This model's maximum context length is 8192 tokens"), ("overflow", False)),
        (Failure(400, "invalid_request_error", "max_tokens: too large"), ("bad_request", False)),
        (Failure(404, "not_found_error"), ("bad_request", False)),
    ],
)
def test_kinds(failure: Failure, expected: tuple[str, bool]) -> None:
    assert classify(failure) == expected


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("prompt is too long: 215000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease", 200_000),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000",
            8_192,
        ),
        ("This model's maximum context length is 128,000 tokens. However, you requested 130000", 128_000),
        (
            "request (13214 tokens) exceeds the available context size (12288 tokens), try increasing it",
            12_288,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is "
            "12288 tokens and your request has 4000 input tokens (16000 > 12288 - 4000).",
            12_288,
        ),
        ("The decoder prompt (length 13000) is longer than the maximum model length of 12288.", 12_288),
        ("The input (13000 tokens) is longer than the model's context length (12288 tokens).", 12_288),
        (
            "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with "
            "context length of only 4096 tokens, which is not enough.",
            4_096,
        ),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 4_096),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072),
        ("the request exceeds the available context size. try increasing the context size", None),
        ("prompt too long; exceeded max context length by 123 tokens", None),
        ("Your input exceeds the context window of this model.", None),
        ("maximum context length is 0 tokens", None),
    ],
)
def test_the_window_that_an_overflow_tells(message: str, window: int | None) -> None:
    assert window_in(message) == window
    error = error_for(Failure(400, "", message), host="h", key_name="K", env={})
    assert (error.kind, error.window) == ("overflow", window)


def test_the_window_may_stand_beside_the_message() -> None:
    body = "{'error': {'type': 'exceed_context_size_error', 'n_prompt_tokens': 13214, 'n_ctx': 12288}}"
    error = error_for(Failure(500, "", "context size exceeded", body=body), host="h", key_name="K", env={})
    assert (error.kind, error.window, error.retryable) == ("overflow", 12_288, False)


def test_messages_say_what_to_do_and_never_show_a_key() -> None:
    env = {"ANTHROPIC_API_KEY": "sk-ant-secret", "ANTHROPIC_BASE_URL": "http://x"}
    failure = Failure(401, "authentication_error", "bad key sk-ant-secret given")
    error = error_for(failure, host="api.x", key_name="ANTHROPIC_API_KEY", env=env)
    assert str(error) == "api.x rejected the API key. Check ANTHROPIC_API_KEY. It said: bad key *** given"


def test_short_values_and_addresses_are_not_redacted() -> None:
    assert (
        redact("a none b http://x", {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "http://x"})
        == "a none b http://x"
    )


def test_addresses_are_shown_without_what_is_private_in_them() -> None:
    assert shown_url("https://me:pw@host:8443/v1/?key=1") == "https://host:8443/v1"
    assert host_of("https://api.example") == "api.example"
    assert host_of("https://api.anthropic.com/v1") == "Anthropic"
    assert shown_url("https://api.anthropic.com/v1") == "https://api.anthropic.com/v1"
    for unusable in ("http://me:p/w@host:80a/v1", "http://me:p?w@[::1/v1", "me:pw@host:80a"):
        assert "w@" not in shown_url(unusable) + host_of(unusable)


@pytest.mark.parametrize(
    ("url", "shown", "host"),
    [
        ("https://gw.example/v1?user=me@corp.example&key=SECRET", "https://gw.example/v1", "gw.example"),
        ("https://gw.example/v1#me@x?k=SECRET", "https://gw.example/v1", "gw.example"),
        ("https://gw.example/acct@team/v1", "https://gw.example/acct@team/v1", "gw.example"),
        ("https://me:pw@api.openai.com:443/v1", "https://api.openai.com:443/v1", "OpenAI"),
        ("http://me:pw@[::1]:8080/", "http://[::1]:8080", "[::1]:8080"),
        ("me:pw@host:80", "host:80", "host:80"),
        ("http:///v1", "http:///v1", "http:///v1"),
        # no address: the port is no number
        ("https://me:pw@gw.example:80a/v1?key=SECRET", "https://gw.example:80a/v1", "gw.example:80a"),
        ("https://gw.example:80a/v1?user=me@corp.example&key=SECRET", "https://…", "…"),
        ("https://me:SEC?RET@gw.example/v1", "https://…", "…"),
        ("https://me:SEC/RET@gw.example/v1", "https://gw.example/v1", "gw.example"),
    ],
)
def test_the_part_of_an_address_that_may_be_shown(url: str, shown: str, host: str) -> None:
    assert (shown_url(url), host_of(url)) == (shown, host)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": formatdate(1_000_090, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "300000000000"}, None),  # a date that nobody can write
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, None),  # nor this one in the east
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=lambda: 1_000_000.0) == seconds


def test_keys_do_not_show_in_what_is_printed_for_debugging() -> None:
    env = {"OPENAI_API_KEY": "sk-secret-value", "ANTHROPIC_API_KEY": "sk-secret-value"}
    wanted: ModelRequest = request(env=env)
    assert "sk-secret-value" not in repr(wanted)
    assert "sk-secret-value" not in repr(target_for("openai", wanted))


async def test_keys_do_not_show_in_the_models_that_chose_by_them() -> None:
    models = ProviderModels()
    await models.choose({"ANTHROPIC_API_KEY": "sk-secret-value"}, None)
    assert "sk-secret-value" not in repr(models)
