"""Lists the model providers: which can be used, and which models they offer. Imports no SDK."""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from typing import TYPE_CHECKING, Any, cast

from daemon.model.stored_model import Model
from daemon.provider import pricing
from daemon.provider.anthropic_sign_in import DEFAULT_BASE_URL
from daemon.provider.choose import (
    ANTHROPIC_DEFAULT,
    OPENAI_DEFAULT,
    access_problem,
    best_local_model,
    parse_model,
    provider_for,
)
from daemon.provider.cloud_sign_in import signed_in_to_aws, signed_in_to_google
from daemon.provider.context_windows import base_url_of, headers_of, window_in
from daemon.provider.editor_models import EDITORS
from daemon.provider.errors import checked_url, host_of
from daemon.provider.litellm import BEDROCK_KEY, CUSTOM_BASE, LM_STUDIO_URL, OPENAI_URL, LiteLLMProvider
from daemon.provider.model_calls import ErrorKind, ProviderError, answered, beside
from daemon.provider.retry import with_retry
from daemon.provider.side_questions import NotAnsweredError, json_from
from daemon.provider.vscode import FAMILY as VSCODE
from tools.json_access import mapping
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIST_TIMEOUT_S = 8.0
_LOCAL_TIMEOUT_S = 1.0
_TEST_TIMEOUT_S = 60.0
_TEST_TOKENS = 256
"""Enough for models that think first."""
_NO_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|moderation|audio|realtime|transcribe|image|rerank|babbage|davinci|sora|veo|imagen|aqa"
)


class OfferedModel(Model):
    """A model that can be chosen. Prices: US dollars for a million tokens; null: not known."""

    model: str
    """``provider/model``."""
    window: int
    """Tokens that it takes."""
    window_assumed: bool = False
    """``window`` is only a guess."""
    input_price: float | None = None
    output_price: float | None = None
    label: str = ""
    """Its name for people, where it differs much from ``model``."""


class ModelProvider(Model):
    """A provider, and its models."""

    id: str
    name: str
    key_variable: str = ""
    """The environment variable that holds its key; empty: it needs none."""
    url_variable: str = ""
    """The environment variable that holds its address, for servers that have none of their own."""
    key_page: str = ""
    """Where keys are made."""
    how: str = ""
    """How it is set up, as text for the user, where the two variables do not say it."""
    connected: bool = False
    """It is usable: with a key or an address, or because it answers on this machine."""
    models: tuple[OfferedModel, ...] = ()
    """Best first where an order is known."""
    default: str = ""
    """The model to begin with; empty: none is offered."""
    error: str = ""
    """Why its models are unknown, as text for the user."""
    error_kind: ErrorKind | None = None


_HOW = {
    "bedrock": noted(
        "set AWS_BEARER_TOKEN_BEDROCK, or sign in to AWS: with a profile (AWS_PROFILE, or the default one), "
        "`aws sso login`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. The role of an EC2 machine works, too"
    ),
    "vertex_ai": noted(
        "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the file of a "
        "service account; VERTEXAI_PROJECT and VERTEXAI_LOCATION name project and region"
    ),
    "custom": noted("set CUSTOM_API_BASE, and CUSTOM_API_KEY if the server wants a key"),
}
PROVIDERS = tuple(
    ModelProvider(
        id=name,
        name=shown,
        key_variable=key_variable,
        url_variable=url_variable,
        key_page=key_page,
        how=_HOW.get(name, ""),
    )
    for name, shown, key_variable, url_variable, key_page in (
        ("anthropic", "Anthropic", "ANTHROPIC_API_KEY", "", "https://console.anthropic.com/settings/keys"),
        ("openai", "OpenAI", "OPENAI_API_KEY", "", "https://platform.openai.com/api-keys"),
        ("gemini", "Google Gemini", "GEMINI_API_KEY", "", "https://aistudio.google.com/apikey"),
        ("openrouter", "OpenRouter", "OPENROUTER_API_KEY", "", "https://openrouter.ai/settings/keys"),
        ("mistral", "Mistral", "MISTRAL_API_KEY", "", "https://console.mistral.ai/api-keys"),
        ("deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "", "https://platform.deepseek.com/api_keys"),
        ("azure", "Azure OpenAI", "AZURE_API_KEY", "AZURE_API_BASE", "https://ai.azure.com"),
        (
            "bedrock",
            "Amazon Bedrock",
            BEDROCK_KEY,
            "",
            "https://console.aws.amazon.com/bedrock/home#/api-keys",
        ),
        ("vertex_ai", "Google Vertex AI", "", "", ""),
        (VSCODE, "VS Code", "", "", ""),
        ("ollama", "Ollama", "", "", ""),
        ("lm_studio", "LM Studio", "", "", ""),
        ("custom", "OpenAI-compatible server", "CUSTOM_API_KEY", CUSTOM_BASE, ""),
    )
)
PROVIDER_IDS = tuple(provider.id for provider in PROVIDERS)
_SIGNED_IN = {
    "anthropic": ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
}
"""Variables that give access without a key."""
_CLOUDS = {"bedrock": signed_in_to_aws, "vertex_ai": signed_in_to_google}
"""Providers with a sign-in of their own."""
_UNLISTED = frozenset({"azure", "bedrock", "vertex_ai"})
"""Providers that have no list of what a key may use: their models are deployments, or granted one by one."""
_LOCAL = frozenset({"ollama", "lm_studio"})
_URLS = {
    "anthropic": DEFAULT_BASE_URL,
    "openai": OPENAI_URL,
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "openrouter": "https://openrouter.ai/api/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com",
    "lm_studio": LM_STUDIO_URL,
}


async def providers(env: Mapping[str, str], only: str | None = None) -> list[ModelProvider]:
    """Return all providers, or one, with their models, each asked at the same time. ``only``: a provider's id."""
    wanted = [provider for provider in PROVIDERS if only in (None, provider.id)]
    return list(await asyncio.gather(*(_asked(provider, env) for provider in wanted)))


async def is_set_up(env: Mapping[str, str]) -> bool:
    """Return whether some provider can be used: it has a key or a sign-in, or it answers on this machine."""
    if any(name.endswith("_API_KEY") and value.strip() for name, value in env.items()):
        return True  # of any provider, also one that is not listed
    here = [one for one in PROVIDERS if one.id not in _LOCAL and one.id != VSCODE]
    if True in await asyncio.gather(*(_has_access(one, env) for one in here)):
        return True
    return any([one.connected for name in _LOCAL for one in await providers(env, name)])


async def _asked(provider: ModelProvider, env: Mapping[str, str]) -> ModelProvider:
    """Return the provider with its models, or with why they are not known."""
    if provider.id == VSCODE:
        return await _of_editor(provider, env)
    provider = provider.model_copy(update={"how": t(provider.how)})
    if not await _has_access(provider, env):
        return provider
    local = provider.id in _LOCAL
    found = provider.model_copy(update={"connected": not local})
    if provider.id in _UNLISTED:
        return found
    try:
        url, headers = _list_of(provider, env)
        async with asyncio.timeout(_LOCAL_TIMEOUT_S if local else _LIST_TIMEOUT_S):
            answer = await json_from(url, headers=headers)
    except ProviderError as error:
        return found.model_copy(update={"error": str(error), "error_kind": error.kind})
    except (NotAnsweredError, TimeoutError) as error:
        return found if local else _unanswered(found, error, _base_url(provider, env))
    models = _models(provider.id, answer)
    default = _default(provider.id, models)
    return found.model_copy(update={"connected": True, "models": models, "default": default})


async def _of_editor(provider: ModelProvider, env: Mapping[str, str]) -> ModelProvider:
    """Return the provider of an attached editor's models, with those that can call tools."""
    editor = EDITORS.editor(env)
    if editor is None:
        return provider
    try:
        offered = await editor.models()
    except NotAnsweredError:
        return provider
    models = tuple(
        OfferedModel(
            model=f"{VSCODE}/{one.name}",
            window=one.window or pricing.UNKNOWN.context_window,
            window_assumed=not one.window,
            label=one.label,
        )
        for one in offered
        if one.tools
    )
    return provider.model_copy(update={"connected": bool(models), "models": models})


async def _has_access(provider: ModelProvider, env: Mapping[str, str]) -> bool:
    if cloud := _CLOUDS.get(provider.id):
        return await asyncio.to_thread(cloud, env)
    if provider.id in _LOCAL:
        return True
    if provider.url_variable:
        return bool(env.get(provider.url_variable, "").strip())
    names = (provider.key_variable, *_SIGNED_IN.get(provider.id, ()))
    return any(env.get(name, "").strip() for name in names)


def _unanswered(provider: ModelProvider, error: Exception, url: str) -> ModelProvider:
    status = getattr(error, "status", None)
    host = host_of(url)
    if status in (401, 403) or (status == 400 and provider.id == "gemini"):
        words, kind = t("{host} rejected the API key.", host=host), cast("ErrorKind", "auth")
    elif status is not None:
        words, kind = t("{host} does not list its models (HTTP {status}).", host=host, status=status), None
    else:
        words, kind = t("{host} does not answer. Check the address and the network.", host=host), "network"
    return provider.model_copy(update={"error": words, "error_kind": kind})


def _base_url(provider: ModelProvider, env: Mapping[str, str]) -> str:
    """Return the provider's address. Raises ProviderError when the one that is set cannot be used."""
    if provider.url_variable:
        return checked_url(env[provider.url_variable].strip(), provider.url_variable)
    return base_url_of(f"{provider.id}/", env) or _URLS[provider.id]


def _list_of(provider: ModelProvider, env: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Return the address of the list of a provider's models, and the headers that open it."""
    base, headers = _base_url(provider, env), headers_of(provider.id, env)
    match provider.id:
        case "anthropic":
            return f"{base}/v1/models?limit=1000", headers
        case "gemini":
            return f"{base}/models?pageSize=1000", {"x-goog-api-key": env["GEMINI_API_KEY"].strip()}
        case "openrouter":
            # The list is public, so only this address shows whether the key is valid.
            return f"{base}/models/user", headers
        case "ollama":
            return f"{base}/api/tags", {}
        case _:
            return f"{base}/models", headers


def _models(provider: str, answer: object) -> tuple[OfferedModel, ...]:
    whole = mapping(answer)
    listed = whole.get("data") or whole.get("models") or ()
    entries = [cast("dict[str, Any]", one) for one in cast("list[object]", listed) if isinstance(one, dict)]
    found = [model for entry in entries if (model := _offered(provider, entry)) is not None]
    # Newest first if the server sends dates, otherwise by name.
    made = {
        f"{provider}/{_name(entry)}": entry.get("created") or entry.get("created_at") or ""
        for entry in entries
    }
    if all(isinstance(made.get(model.model), int) for model in found):
        found.sort(key=lambda model: -int(made[model.model]))
    elif provider != "anthropic":  # Anthropic lists the newest first
        found.sort(key=lambda model: model.model)
    return tuple(found)


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("id") or entry.get("name") or "").removeprefix("models/")


def _offered(provider: str, entry: dict[str, Any]) -> OfferedModel | None:
    """Return the model of an entry; None for those that cannot chat or cannot call tools."""
    name = _name(entry)
    methods, parameters = entry.get("supportedGenerationMethods"), entry.get("supported_parameters")
    if not name or _NO_CHAT.search(name.lower()):
        return None
    if isinstance(methods, list) and "generateContent" not in methods:
        return None
    if isinstance(parameters, list) and "tools" not in parameters:
        return None
    able = mapping(entry.get("capabilities"))  # Mistral
    if able.get("completion_chat") is False or able.get("function_calling") is False:
        return None
    model = f"{provider}/{name}"
    info = pricing.model_info(model)
    price = info.price
    paid, received = (price.input, price.output) if price else _prices(entry)
    if provider == "lm_studio":
        paid = received = 0.0
    told = window_in(entry)
    return OfferedModel(
        model=model,
        window=told or info.context_window,
        window_assumed=told is None and info.window_assumed,
        input_price=paid,
        output_price=received,
    )


def _prices(entry: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the prices that OpenRouter and its like give, in dollars for one token."""
    given = mapping(entry.get("pricing"))
    try:
        paid, received = float(given["prompt"]), float(given["completion"])
    except (KeyError, TypeError, ValueError):
        return None, None
    if paid < 0 or received < 0:  # it varies: OpenRouter's own routers say -1
        return None, None
    return round(paid * pricing.MILLION, 4), round(received * pricing.MILLION, 4)


def _default(provider: str, models: tuple[OfferedModel, ...]) -> str:
    names = [model.model for model in models]
    usual = {"anthropic": ANTHROPIC_DEFAULT, "openai": OPENAI_DEFAULT}.get(provider)
    if usual in names:
        return usual
    patterns = {
        "anthropic": r"anthropic/claude-sonnet",
        "openai": r"openai/gpt-[\d.]+(-sol)?$",
        "gemini": r"gemini/gemini-[\d.]+-pro$",
        "openrouter": r"openrouter/anthropic/claude-sonnet",
        "mistral": r"mistral/devstral-(medium-)?latest$",
        "deepseek": r"deepseek/deepseek-chat$",
    }
    if pattern := patterns.get(provider):
        fitting = [name for name in names if re.match(pattern, name)]
        if fitting:
            return max(fitting, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    best = best_local_model([name.partition("/")[2] for name in names])
    return f"{provider}/{best}" if best else ""


async def check(model: str, env: Mapping[str, str]) -> str:
    """Return the problem with a model's name according to its provider's list; empty: none."""
    try:
        provider, _ = parse_model(model)
    except ValueError as error:
        return str(error)
    if provider not in PROVIDER_IDS or provider in _LOCAL:
        return ""
    [found] = await providers(env, provider)
    names = [one.model for one in found.models]
    if not names or model in names or provider == "custom":
        return ""
    close = difflib.get_close_matches(model, names, n=3)
    if not close:
        return t("{provider} has no model {model}.", provider=found.name, model=model)
    similar = ", ".join(close)
    return t(
        "{provider} has no model {model}. Similar: {names}.", provider=found.name, model=model, names=similar
    )


async def tested(model: str, env: Mapping[str, str]) -> float:
    """Have a model answer one word, and return the seconds that took. Raises ProviderError with a message for the
    user."""
    await _load(model, env)
    began = time.monotonic()
    await answer_of(model, env, "Answer with one word.", "Say: ready", max_tokens=_TEST_TOKENS)
    return time.monotonic() - began


async def _load(model: str, env: Mapping[str, str]) -> None:
    """Import what calls of ``model`` need, so that their time limit need not cover that. Raises ProviderError."""
    provider, _ = provider_for(model)
    if isinstance(provider, LiteLLMProvider) and not access_problem(model, env):
        await provider.load()


async def answer_of(
    model: str,
    env: Mapping[str, str],
    task: str,
    text: str,
    *,
    max_tokens: int,
    timeout_s: float = _TEST_TIMEOUT_S,
) -> str:
    """Ask a model once, outside any session. Raises ProviderError with a message for the user."""
    await _load(model, env)
    provider, name = provider_for(model)
    request = beside(name, task, [("user", text)], max_tokens=max_tokens, env=env)
    try:
        async with asyncio.timeout(timeout_s):
            complete = await answered(with_retry(provider, request, max_attempts=1))
    except TimeoutError:
        raise ProviderError(
            "network", t("{model} did not answer within {seconds:g} s.", model=model, seconds=timeout_s)
        ) from None
    return complete.text.strip()
