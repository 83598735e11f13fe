"""Classify failed model calls as ``ProviderError``; shared by the real providers.

Sources: the error pages of the Anthropic and OpenAI APIs (types, statuses, ``retry-after``), and the messages that
their servers, and compatible servers, send in practice.
"""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from daemon.provider.model_calls import ErrorKind, ProviderError
from tools.localization import noted, t
from tools.text.truncate import head

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OVERFLOW = re.compile(
    r"prompt( is)? too long|input is too long|too many (input )?tokens|context[ _]length|context window"
    r"|maximum context|exceeds? (the )?(model's )?(maximum|max|available) (context|input)|reduce the length"
    r"|context (size|limit)|maximum (model|prompt) length|must be <= \d+.{0,40}inputs"
    r"|maximum number of tokens allowed|exceeds the maximum number of tokens|longer than the (maximum )?model",
    re.IGNORECASE,
)
_TOKENS = r"(\d[\d,_]*)"
_WINDOWS = tuple(
    re.compile(pattern.replace("N", _TOKENS), re.IGNORECASE)
    for pattern in (
        # OpenAI, vLLM, SGLang, DeepSeek, Mistral, xAI, LM Studio
        r"(?:context|model|prompt) length (?:is|of)(?: only)? N",
        r"(?:context|model) length \(N",
        r"model with N maximum",
        # llama.cpp: the message, and the field beside it
        r"context size \(N",
        r"n_ctx\W{1,4}N",
        # Google, GitHub
        r"tokens allowed \(N",
        r"max size:? N tokens",
        # Anthropic, and Hugging Face's server
        r"tokens > N maximum",
        r"context limit:.{0,60}> N",
        r"must be <= N",
    )
)
_LEAST_WINDOW, _MOST_WINDOW = 256, 100_000_000
_SPENT = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance|spend(ing)? limit|usage limit|billing",
    re.IGNORECASE,
)
_MAX_WORDS = 600
_ENDLESS_S = 1e10
"""No server means a wait of so many seconds: the calendar may end before."""


class Failure(Struct, frozen=True):
    """The facts about a failed call, whichever library reported it."""

    status: int | None = None
    """HTTP status; None when there was no answer, 200 for an error inside a stream."""
    error_type: str = ""
    """The API's own name for it, e.g. ``overloaded_error`` or ``insufficient_quota``."""
    message: str = ""
    retry_after_s: float | None = None
    body: str = ""
    """The whole answer, for details beside the message."""


def window_in(text: str) -> int | None:
    """Return the context window that an error about a too long prompt mentions, in tokens."""
    for pattern in _WINDOWS:
        for found in pattern.finditer(text):
            window = int(re.sub(r"\D", "", found[1]))
            if _LEAST_WINDOW <= window <= _MOST_WINDOW:
                return window
    return None


def classify(failure: Failure) -> tuple[ErrorKind, bool]:
    """Return the kind of an error answer, and whether the same call may succeed later."""
    status, name, text = failure.status or 0, failure.error_type, failure.message
    refused = status in (400, 413, 422) or name in ("invalid_request_error", "request_too_large")
    if status == 413 or name == "request_too_large" or "context_length" in name or "exceed_context" in name:
        return "overflow", False
    # llama.cpp used to answer 500 for it.
    if (refused or status == 500) and _OVERFLOW.search(text):
        return "overflow", False
    if status in (401, 403) or name in ("authentication_error", "permission_error"):
        return "auth", False
    if status in (503, 529) or name == "overloaded_error":
        return "overloaded", True
    if status == 429 or name == "rate_limit_error":
        # A spent budget also answers 429; waiting does not help there.
        spent = failure.retry_after_s is None and bool(_SPENT.search(f"{name} {text}"))
        return "rate_limit", not spent
    if status == 408 or status >= 500 or name in ("api_error", "timeout_error", "server_error"):
        return "server", True
    if not refused and _OVERFLOW.search(text):
        return "overflow", False
    return "bad_request", False


_WHAT: Mapping[ErrorKind, str] = {
    "auth": noted("{host} rejected the API key. Check {key_name}. It said: {words}"),
    "rate_limit": noted(
        "The quota of this key is used up at {host}. Check its plan, credit and limits. It said: {words}"
    ),
    "overloaded": noted("{host} is overloaded at the moment. It said: {words}"),
    "server": noted("{host} failed (status {status}). It said: {words}"),
    "overflow": noted("The conversation is too long for the model. {host} said: {words}"),
}
_LIMITED = noted("Rate limited by {host}. It said: {words}")
_NO_MODEL = noted(
    "{host} does not know this model. Choose another one, or check the base URL. It said: {words}"
)
_NO_CREDIT = noted(
    "The account at {host} is out of credit. Check plan and billing of {key_name}. It said: {words}"
)
_REJECTED = noted("{host} rejected the request: {words}")


def error_for(failure: Failure, *, host: str, key_name: str, env: Mapping[str, str]) -> ProviderError:
    """Return the ProviderError for an error answer; its text says what to do and contains no secrets."""
    kind, retryable = classify(failure)
    words = redact(head(" ".join(failure.message.split()), _MAX_WORDS), env) or t(
        "status {status}", status=failure.status
    )
    if kind == "rate_limit" and retryable:
        text = _LIMITED
    elif kind in _WHAT:
        text = _WHAT[kind]
    elif failure.status == 404 or failure.error_type == "not_found_error":
        text = _NO_MODEL
    elif failure.status == 402 or _SPENT.search(failure.message):
        text = _NO_CREDIT
    else:
        text = _REJECTED
    what = t(text, host=host, key_name=key_name, status=failure.status, words=words)
    window = (window_in(failure.message) or window_in(failure.body)) if kind == "overflow" else None
    return ProviderError(kind, what, retryable=retryable, retry_after_s=failure.retry_after_s, window=window)


def no_answer(base_url: str, hint: str, *, timed_out: bool = False) -> ProviderError:
    """Return the ProviderError for a connection that was refused, broke or fell silent. ``base_url``: or a provider's
    name."""
    where = shown_url(base_url) if "://" in base_url else base_url
    what = (
        t("{base_url} stopped answering", base_url=where)
        if timed_out
        else t("No answer from {base_url}", base_url=where)
    )
    return ProviderError("network", f"{what}: {hint}", retryable=True)


def no_key(provider: str, variable: str) -> ProviderError:
    """Return the ProviderError for a call to a provider of which the client has no key."""
    return ProviderError(
        "no_key",
        t(
            "No key for {provider}. Connect it in VS Code, set {variable}, or choose another model.",
            provider=provider,
            variable=variable,
        ),
    )


def checked_url(url: str, variable: str) -> str:
    """Return ``url`` without a slash at its end. Raises ProviderError when no call can be made to it.

    ``variable`` is where it comes from. The value itself, which may hold a password, is not repeated.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or an IPv6 address is incomplete
        usable = False
    if not usable:
        raise ProviderError(
            "bad_request",
            t(
                "{variable} is not a web address: it must look like https://api.example.com.",
                variable=variable,
            ),
        )
    return url.rstrip("/")


def malformed(host: str, detail: str) -> ProviderError:
    """Return the ProviderError for an answer that breaks the protocol, e.g. a stream that ends in the middle."""
    return ProviderError(
        "malformed",
        t("The response of {host} is not valid: {detail}", host=host, detail=detail),
        retryable=True,
    )


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds the server asks to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(found.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    value = found.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    if not value:
        return None
    try:
        seconds = parsedate_to_datetime(value).timestamp() - now()
    except (ValueError, TypeError):
        return None
    return max(0.0, seconds) if seconds < _ENDLESS_S else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    # float() accepts "nan" and "inf", but no server means them.
    return value if value is not None and abs(value) < _ENDLESS_S else None


def redact(text: str, env: Mapping[str, str]) -> str:
    """Return ``text`` without the values of keys and tokens: servers like to repeat a wrong key in their message."""
    for name, value in env.items():
        if len(value) >= 6 and re.search(r"KEY|TOKEN|SECRET|PASSWORD", name, re.IGNORECASE):
            text = text.replace(value, "***")
    return text


_KNOWN_HOSTS = {
    "api.anthropic.com": "Anthropic",
    "api.openai.com": "OpenAI",
    "generativelanguage.googleapis.com": "Google Gemini",
    "openrouter.ai": "OpenRouter",
    "api.mistral.ai": "Mistral",
    "api.deepseek.com": "DeepSeek",
}


def host_of(url: str) -> str:
    """Return the name of the server at a base URL, for messages: a provider, else host and port, else the URL."""
    _, host, _ = _shown_parts(url)
    return _KNOWN_HOSTS.get(re.sub(r":\d*$", "", host).lower(), host) or shown_url(url)


def shown_url(url: str) -> str:
    """Return a base URL for messages, without the user name, password and query it may carry."""
    return "".join(_shown_parts(url)).rstrip("/")


def _shown_parts(url: str) -> tuple[str, str, str]:
    """Return scheme, host with its port, and path; also of an address to complain about.

    In such a one, what is before an ``@`` may be a part of a password, and what is after a ``?`` or ``#`` of a query:
    nothing is shown of one that has both in this order.
    """
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    try:
        parts = urlsplit(f"//{rest}")
        _ = parts.port  # raises for what is no number
        host, path = parts.netloc.rpartition("@")[2], parts.path
    except ValueError:
        before, _, after = rest.rpartition("@")
        host, slash, path = re.split("[?#]", after)[0].partition("/")
        host, path = ("…", "") if re.search("[?#]", before) else (host, slash + path)
    return scheme + mark, host, path
