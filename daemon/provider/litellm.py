"""All models except Anthropic's, through litellm: OpenAI and compatible servers, Ollama, and a hundred others.

litellm takes about three seconds and 170 MB to import, so this module does not; the first call does, in a thread.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import json
import logging
import re
import sys
import threading
import types
import warnings
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from daemon.provider import answer_guard, errors, openai_wire
from daemon.provider.answer_guard import AnswerRefusedError, provider_error
from daemon.provider.anthropic_wire import thinking_of
from daemon.provider.cloud_sign_in import in_environment, shorten_google_check
from daemon.provider.model_calls import ModelRequest, ProviderError, ProviderEvent, ProviderEvents
from daemon.provider.openai_stream import AnswerBuilder
from daemon.provider.pricing import OLLAMA_WINDOW
from tools.json_access import array, mapping
from tools.localization import noted, t

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

OPENAI_URL = "https://api.openai.com/v1"
OLLAMA_URL = "http://127.0.0.1:11434"
LM_STUDIO_URL = "http://127.0.0.1:1234/v1"
BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK"
CUSTOM_BASE = "CUSTOM_API_BASE"
"""The variable with the address of a server that speaks OpenAI's API, for models ``custom/NAME``."""

_KEYLESS = frozenset(
    ["bedrock", "vertex_ai", "sagemaker", "watsonx", "hosted_vllm", "vllm", "lm_studio", "llamafile", "xinference"]
)  # fmt: skip
"""Prefixes of models that run locally, or are reached with a cloud's own sign-in."""
_KEY_NAMES = {
    "together_ai": "TOGETHERAI_API_KEY",
    "huggingface": "HUGGINGFACE_API_KEY",
    "zai": "ZAI_API_KEY",
    "bedrock": BEDROCK_KEY,
}
_NAMES = {
    "azure": "Azure",
    "bedrock": "Amazon Bedrock",
    "deepseek": "DeepSeek",
    "gemini": "Google Gemini",
    "mistral": "Mistral",
    "openrouter": "OpenRouter",
    "vertex_ai": "Google Vertex AI",
}
"""Names of providers, for messages."""
_SIGN_INS = {
    "bedrock": f"{BEDROCK_KEY}, AWS_PROFILE, AWS_REGION",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS, VERTEXAI_PROJECT, VERTEXAI_LOCATION",
}
"""Variables with which users sign in to a cloud, for messages."""
_OUR_NAME = {
    "openrouter": {"X-Title": "Goalwright", "HTTP-Referer": ""},
    "vercel_ai_gateway": {"x-title": "Goalwright", "http-referer": ""},
}
"""Headers in place of those with litellm's name and address, spelled as it spells them."""
_WANT_REASONING_BACK = ("deepseek", "moonshot")
_CLAUDE = re.compile(r"(?:bedrock|vertex_ai|azure_ai)/.*?(claude-.*)")
"""A Claude of a cloud that has Anthropic's own rules, and its name there."""
_MAX_WORDS = 600
_EFFORTS = ((4_000, "low"), (10_000, "medium"))

_GATEWAY = "litellm.responses.mcp.litellm_proxy_mcp_handler"
_UNREACHED = re.compile(
    r"Connect(ion)?(Error|Refused|Reset)|ClientConnector|ClientOSError|Disconnected|ReadError"
)
_OWN_WORDS = re.compile(r"^(?:litellm\.(?:\w+Error: )*(?:\w*Exception(?: [\w ]+)? - )?|\w*Exception - )")
"""litellm's part of a text like ``litellm.RateLimitError: RateLimitError: OpenAIException - slow down``."""
_NOT_SIGNED_IN = re.compile(
    r"DefaultCredentialsError|RefreshError|MalformedError|NoCredentials|PartialCredentials|CredentialRetrieval"
    r"|ProfileNotFound|SSO\w*Error|TokenRetrievalError"
)
"""Errors of the clouds' SDKs."""
_loading = threading.Lock()
_loaded: list[Any] = []
_loops: list[asyncio.AbstractEventLoop] = []


def warm() -> None:
    """Import litellm and quieten it. Takes seconds: call it from a thread."""
    with _loading:
        if _loaded:
            return
        # Without the first it would load the ".env" of the working directory, which is the (untrusted) workspace
        # (https://github.com/BerriAI/litellm/issues/39109); without the second it would download a price list.
        wanted = {
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            # It takes a hundred equal chunks for a hanging model, and discards the answer. A table's ruler or a file of
            # zeros is no fault, and a model that really hangs is ended by its length limit
            # (https://github.com/BerriAI/litellm/issues/6549).
            "REPEATED_STREAMING_CHUNK_LIMIT": "1000000000",
        }
        with in_environment(wanted):
            answer_guard.guard_all(importlib.import_module("httpx"))
            library: Any = importlib.import_module("litellm")
        _go_without_mcp()
        # The warnings are about its own models; on stderr they would look like ours.
        warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
        library.telemetry = False
        library.suppress_debug_info = True  # it prints to stdout otherwise
        library.turn_off_message_logging = True
        library.drop_params = True  # omit parameters that a model does not support, instead of failing
        library.disable_hf_tokenizer_download = True
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.CRITICAL if name.startswith("Lite") else logging.WARNING)
        _loaded.append(library)


def _go_without_mcp() -> None:
    """Stand in for litellm's MCP gateway.

    For calls with tools litellm (1.106) imports its gateway before it looks at ``_skip_mcp_handler``, and the gateway
    loads the package ``mcp``, which takes half a second and 30 MB: https://github.com/BerriAI/litellm/pull/38399
    We call MCP servers ourselves (``daemon.mcp``), so the answer is no.
    """

    def should_use_litellm_mcp_gateway(tools: object = None) -> bool:
        return False

    stand_in: Any = types.ModuleType(_GATEWAY)
    stand_in.LiteLLM_Proxy_MCP_Handler = types.SimpleNamespace(
        should_use_litellm_mcp_gateway=should_use_litellm_mcp_gateway
    )
    sys.modules.setdefault(_GATEWAY, stand_in)


def _other_loop() -> asyncio.AbstractEventLoop:
    """Return a loop in a thread of its own, where litellm runs.

    litellm sometimes blocks its loop: it counts tokens, writes its logs and even makes synchronous requests. The
    daemon's loop must stay responsive for editors.
    """
    with _loading:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="litellm", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


async def _library() -> Any:
    # Any: litellm's types do not match its behaviour.
    if not _loaded:
        await asyncio.to_thread(warm)
    return _loaded[0]


class _ModelTarget(Struct, frozen=True):
    """Where a call goes and how errors about it are worded."""

    model: str
    base_url: str | None
    key: str | None
    key_name: str = ""
    hint: str = noted("check the network.")
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        return f"_ModelTarget({self.model!r}, {self.base_url!r})"  # without the key

    @property
    def host(self) -> str:
        """For messages."""
        if self.base_url:
            return errors.host_of(self.base_url)
        prefix = self.model.partition("/")[0]
        return _NAMES.get(prefix, prefix)


class LiteLLMProvider:
    """Implements ``Provider`` over ``litellm.acompletion``."""

    def __init__(self, family: str = "", *, timeout_s: float = 600.0) -> None:
        """``family``: ``openai``, ``custom``, ``ollama``, or empty when the model's name has it. ``timeout_s``: silence
        until a call counts as dead."""
        self._family = family
        self._timeout_s = timeout_s

    def check(self, model: str, env: Mapping[str, str]) -> None:
        """Raise ProviderError when no call of ``model`` can be made, because its key or address is missing."""
        target_for(self._family, ModelRequest(model, (), (), env=env))

    async def load(self) -> None:
        """Import litellm, which the first call would do otherwise."""
        await _library()

    async def stream(self, request: ModelRequest) -> ProviderEvents:
        """Play one call; see ``Provider.stream``."""
        try:
            target = target_for(self._family, request)
        except ProviderError as error:
            if error.kind == "no_key" and not self._family:
                await _check_known(request.model)  # the model may not exist; then the key does not matter
            raise
        library = await _library()
        if request.model.startswith("vertex_ai/"):
            await asyncio.to_thread(shorten_google_check)
        answer = AnswerBuilder(request.model, target.host)
        arguments = _arguments(target, request, self._timeout_s)
        here = asyncio.get_running_loop()
        arrived: asyncio.Queue[list[ProviderEvent] | Exception | None] = asyncio.Queue()

        def put(item: list[ProviderEvent] | Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # nothing waits any more, because the loop is closed
                here.call_soon_threadsafe(arrived.put_nowait, item)

        async def play() -> None:
            try:
                _make_known(library, target.model)
                chunks: Any = await library.acompletion(**arguments)
                async with aclosing(cast("AsyncGenerator[Any, None]", chunks)):
                    async for chunk in chunks:
                        put(answer.feed(chunk))
                put(answer.end(_is_finished(chunks)))
            except Exception as error:
                put(_error(error, target, request))
            finally:
                put(None)  # whatever happens, nobody waits forever

        playing = asyncio.run_coroutine_threadsafe(play(), _other_loop())
        try:
            while (item := await arrived.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                for event in item:
                    yield event
        finally:
            playing.cancel()


def _make_known(library: Any, model: str) -> None:
    """Enter a local model into litellm's list: it would ask Ollama about it, synchronously and without a limit."""
    if model.startswith("ollama_chat/") and model not in library.model_cost:
        entry = {"litellm_provider": "ollama_chat", "mode": "chat", "supports_function_calling": True}
        limits = {
            "max_input_tokens": OLLAMA_WINDOW,
            "input_cost_per_token": 0.0,
            "output_cost_per_token": 0.0,
        }
        library.register_model({model: entry | limits})


def _is_finished(chunks: Any) -> bool:
    # litellm ends a stream that was cut off with its own "stop"; this is the reason that it really received. See
    # https://github.com/BerriAI/litellm/issues/40260
    seen = getattr(chunks, "received_finish_reason", "unknown")
    return bool(seen or getattr(chunks, "intermittent_finish_reason", ""))


async def _check_known(model: str) -> None:
    """Raises ProviderError when litellm knows no provider of that name."""
    prefix = model.partition("/")[0]
    known = {str(getattr(name, "value", name)) for name in (await _library()).provider_list}
    if prefix not in known:
        raise ProviderError(
            "bad_request",
            t(
                "There is no model provider {prefix!r}. Write provider/model, for example "
                "anthropic/claude-sonnet-5-5, openai/gpt-6.1-sol or ollama/qwen3-coder.",
                prefix=prefix,
            ),
        )


def target_for(family: str, request: ModelRequest) -> _ModelTarget:
    """Return where a request goes, from its environment. Raises ProviderError when the key is missing."""
    env = request.env
    if family == "openai":
        return _openai(request.model, env, request.thinking_tokens)
    if family == "custom":
        return _custom(request.model, env)
    if family == "ollama":
        hint = t("start it with `ollama serve`, or set OLLAMA_HOST.")
        options = {"num_ctx": request.window or OLLAMA_WINDOW}
        return _ModelTarget(
            f"ollama_chat/{request.model}", ollama_url(env), None, "OLLAMA_HOST", hint, options
        )
    prefix = request.model.partition("/")[0]
    stem = prefix.upper().replace("-", "_")
    key_name = _KEY_NAMES.get(prefix, f"{stem}_API_KEY")
    key, base_url = env.get(key_name, "").strip() or None, env.get(f"{stem}_API_BASE", "").strip() or None
    if base_url is None and prefix == "lm_studio":
        base_url = LM_STUDIO_URL
    if base_url is not None:
        base_url = errors.checked_url(base_url, f"{stem}_API_BASE")
    if key is None and base_url is None and prefix not in _KEYLESS:
        raise errors.no_key(prefix, key_name)
    options = _effort(request.thinking_tokens)
    if prefix in _OUR_NAME:
        options["extra_headers"] = _OUR_NAME[prefix]
    return _ModelTarget(request.model, base_url, key, _SIGN_INS.get(prefix, key_name), options=options)


def _openai(model: str, env: Mapping[str, str], thinking_tokens: int) -> _ModelTarget:
    variable = "OPENAI_BASE_URL" if env.get("OPENAI_BASE_URL", "").strip() else "OPENAI_API_BASE"
    own = env.get(variable, "").strip()
    key = env.get("OPENAI_API_KEY", "").strip() or None
    if own:
        # A private server often needs no key, but the SDK does. No effort is requested, because for new models that
        # would send litellm to an address that compatible servers lack.
        return _own_server(model, own, variable, key, "OPENAI_API_KEY")
    if key is None:
        raise errors.no_key("OpenAI", "OPENAI_API_KEY")
    return _ModelTarget(
        f"openai/{model}", OPENAI_URL, key, "OPENAI_API_KEY", options=_effort(thinking_tokens)
    )


def _custom(model: str, env: Mapping[str, str]) -> _ModelTarget:
    url = env.get(CUSTOM_BASE, "").strip()
    if not url:
        raise ProviderError(
            "no_key",
            t(
                "No address for models of custom/…: set {variable} or choose another model.",
                variable=CUSTOM_BASE,
            ),
        )
    key = env.get("CUSTOM_API_KEY", "").strip() or None
    return _own_server(model, url, CUSTOM_BASE, key, "CUSTOM_API_KEY")


def _own_server(model: str, url: str, variable: str, key: str | None, key_name: str) -> _ModelTarget:
    """Return a server that speaks OpenAI's API, at the address in ``variable``. Raises ProviderError for none."""
    hint = t("is it running? Check {variable}.", variable=variable)
    return _ModelTarget(f"openai/{model}", errors.checked_url(url, variable), key or "none", key_name, hint)


def ollama_url(env: Mapping[str, str]) -> str:
    """Return the address in ``OLLAMA_HOST``, which may lack scheme and port, or be the one a server listens on."""
    host = env.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not host:
        return OLLAMA_URL
    scheme, mark, rest = host.rpartition("://")
    name, slash, path = rest.partition("/")
    if ":" not in name.rpartition("]")[2]:
        name += ":443" if scheme == "https" else ":80" if mark else ":11434"
    for everywhere in ("0.0.0.0:", "[::]:"):
        if name.startswith(everywhere):
            name = "127.0.0.1:" + name.removeprefix(everywhere)
    return f"{scheme or 'http'}://{name}{slash}{path}"


def _effort(thinking_tokens: int) -> dict[str, Any]:
    if thinking_tokens <= 0:
        return {}
    return {"reasoning_effort": next((word for limit, word in _EFFORTS if thinking_tokens < limit), "high")}


def _arguments(target: _ModelTarget, request: ModelRequest, timeout_s: float) -> dict[str, Any]:
    replay = target.model.startswith(_WANT_REASONING_BACK)
    args: dict[str, Any] = {
        "model": target.model,
        "messages": openai_wire.to_messages(request, replay_reasoning=replay),
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "num_retries": 0,  # daemon.provider.retry does it, and notifies the user
        "max_retries": 0,
        "timeout": timeout_s,
        # See _go_without_mcp.
        "_skip_mcp_handler": True,
        **target.options,
    }
    if not _may_think(target.model, args["messages"]):
        args.pop("reasoning_effort", None)
    if request.tools:
        args["tools"] = openai_wire.tools(request.tools)
    if request.temperature is not None:
        args["temperature"] = request.temperature
    if target.base_url:
        args["api_base"] = target.base_url
    if target.key:
        args["api_key"] = target.key
    return args


def _may_think(model: str, messages: list[dict[str, Any]]) -> bool:
    """Return whether thinking may be enabled: older Claudes want that before their last calls back. We keep none."""
    claude = _CLAUDE.match(model)
    if claude is None or thinking_of(claude[1]) != "budget":
        return True
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    return last is None or "tool_calls" not in last


def _error(error: Exception, target: _ModelTarget, request: ModelRequest) -> Exception:
    """Return the ProviderError for what litellm raised; an error in Goalwright itself passes unchanged."""
    if refusal := next((e for e in answer_guard.causes(error) if isinstance(e, AnswerRefusedError)), None):
        return provider_error(refusal)
    name, text = type(error).__name__, _words(error)
    causes = " ".join(type(cause).__name__ for cause in answer_guard.causes(error))
    status = getattr(error, "status_code", None)
    where = target.base_url or target.host
    if _NOT_SIGNED_IN.search(causes) or "Unable to locate credentials" in text:
        # The text may have a traceback before it.
        words = errors.redact(text.rstrip().rpartition("\n")[2].strip()[:_MAX_WORDS], request.env)
        return ProviderError(
            "auth",
            t(
                "Cannot sign in to {host}. Check {key_name}. It said: {words}",
                host=target.host,
                key_name=target.key_name,
                words=words,
            ),
        )
    if "Timeout" in causes:
        return errors.no_answer(where, t(target.hint), timed_out=True)
    if "JSONDecodeError" in causes or "RemoteProtocolError" in causes or "ClientPayloadError" in causes:
        return errors.malformed(target.host, t("the stream ended early or was not the expected JSON"))
    if _UNREACHED.search(causes):
        return errors.no_answer(where, t(target.hint))
    if status is None:
        return error
    if name == "APIConnectionError":
        # litellm uses this error for everything unexpected, with an invented status.
        words = errors.redact(text, request.env)
        return ProviderError(
            "bad_request",
            t("litellm could not make the call to {host}: {words}", host=target.host, words=words),
        )
    failure = errors.Failure(
        status=int(status),
        error_type="context_length"
        if name == "ContextWindowExceededError"
        else str(getattr(error, "code", "") or ""),
        message=text,
        retry_after_s=errors.retry_after(_headers(error)),
        body=f"{error} {getattr(error, 'body', '')}",
    )
    return errors.error_for(failure, host=target.host, key_name=target.key_name, env=request.env)


def _headers(error: Exception) -> Mapping[str, str]:
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None)
    return dict(headers or {})


def _words(error: Exception) -> str:
    text = str(getattr(error, "message", "") or error)
    words = _OWN_WORDS.sub("", text, count=1)
    with contextlib.suppress(ValueError, SyntaxError, UnicodeDecodeError):
        if words.startswith(("b'", 'b"')):
            words = cast("bytes", ast.literal_eval(words)).decode()
    try:
        whole: object = json.loads(words)
    except (ValueError, RecursionError):
        return words
    listed = array(whole)  # Google's errors may come in a list
    answer = mapping(listed[0] if listed else whole)
    said = answer.get("error") or answer
    return said if isinstance(said, str) else str(mapping(said).get("message") or words)
