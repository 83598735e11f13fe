"""Other providers against servers that speak their wire: address, key, tools, reasoning, and words for errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from daemon.model.messages import ReasoningPart, TextPart, ToolCallPart
from daemon.provider.choose import provider_for
from daemon.provider.model_calls import Complete, PromptMessage, TextDelta
from tests.support.fakes.model_replies import Call, Reply
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import (
    KEY,
    assistant,
    call,
    collect,
    failure,
    request,
    result,
    user,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]


@dataclass(frozen=True)
class Place:
    """A provider: how users name it, and how its server is asked."""

    model: str
    env: Mapping[str, str]
    """``{url}`` is the server's."""
    path: str
    named: str = ""
    """The model's name in the request; empty: the address has it."""
    header: str = "authorization"
    """Where the key is; empty: none is sent."""
    query: str = ""
    reasoning: str = "reasoning_content"
    """The field of the wire that has the reasoning."""
    counts: bool = True
    """It is asked for the tokens; others send them always."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the process, which the SDK of a cloud reads."""


AZURE = {"AZURE_API_KEY": KEY, "AZURE_API_BASE": "{url}"}
PLACES = {
    "OpenRouter": Place(
        "openrouter/anthropic/claude-sonnet-5-5",
        {"OPENROUTER_API_KEY": KEY, "OPENROUTER_API_BASE": "{url}/api/v1"},
        "/api/v1/chat/completions",
        "anthropic/claude-sonnet-5-5",
        reasoning="reasoning",
    ),
    "Azure OpenAI": Place(
        "azure/my-deployment",
        AZURE,
        "/openai/deployments/my-deployment/chat/completions",
        "my-deployment",
        "api-key",
        "api-version=2026-01-01",
        settings={"AZURE_API_VERSION": "2026-01-01"},
    ),
    "Mistral": Place(
        "mistral/devstral-latest",
        {"MISTRAL_API_KEY": KEY, "MISTRAL_API_BASE": "{url}/v1"},
        "/v1/chat/completions",
        "devstral-latest",
        counts=False,
    ),
    "DeepSeek": Place(
        "deepseek/deepseek-reasoner",
        {"DEEPSEEK_API_KEY": KEY, "DEEPSEEK_API_BASE": "{url}"},
        "/chat/completions",
        "deepseek-reasoner",
    ),
    "Gemini": Place(
        "gemini/gemini-3-pro",
        {"GEMINI_API_KEY": KEY, "GEMINI_API_BASE": "{url}/v1beta"},
        "/v1beta/models/gemini-3-pro:streamGenerateContent",
        header="x-goog-api-key",
    ),
    "Amazon Bedrock": Place(
        "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
        {"AWS_BEARER_TOKEN_BEDROCK": KEY, "BEDROCK_API_BASE": "{url}"},
        "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream",
        settings={"AWS_REGION": "us-east-1"},
    ),
    "LM Studio": Place(
        "lm_studio/qwen3", {"LM_STUDIO_API_BASE": "{url}/v1"}, "/v1/chat/completions", "qwen3", ""
    ),
    "vLLM": Place(
        "custom/qwen3",
        {"CUSTOM_API_BASE": "{url}/v1"},
        "/v1/chat/completions",
        "qwen3",
        "",
        reasoning="reasoning",
    ),
    "vLLM by its name": Place(
        "hosted_vllm/qwen3", {"HOSTED_VLLM_API_BASE": "{url}/v1"}, "/v1/chat/completions", "qwen3", ""
    ),
    "llama.cpp with a key": Place(
        "custom/any",
        {"CUSTOM_API_BASE": "{url}/v1", "CUSTOM_API_KEY": KEY},
        "/v1/chat/completions",
        "any",
    ),
}
CALL = Call("read", {"file_path": "a.py"}, id="call_1")
TALK = (
    user("look"),
    assistant("I look.", call("call_0", '{"file_path": "b.py"}')),
    result("call_0", "b = 1"),
)


def environment(place: Place, server: ModelServer) -> dict[str, str]:
    """Return the variables that lead to the fake server."""
    return {name: value.format(url=server.url) for name, value in place.env.items()}


@pytest.mark.parametrize("name", PLACES)
async def test_provider_streams_tools_and_explains_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = PLACES[name]
    for variable, value in place.settings.items():
        monkeypatch.setenv(variable, value)
    replies = [
        Reply(
            reasoning="Hm, let me see.",
            reasoning_name=place.reasoning,
            text="I look at it.",
            tool_calls=(CALL,),
            chunk=5,
        ),
        Reply(status=401, error_message="wrong"),
        Reply(status=429, error_message="slow down", headers={"retry-after": "7"}),
        Reply(status=503, error_message="too busy"),
    ]
    async with ModelServer(replies, api_key=KEY if place.header else None) as server:
        provider, model = provider_for(place.model)
        wanted = request(*TALK, model=model, env=environment(place, server))
        events = await collect(provider.stream(wanted))
        denied, limited, busy = [await failure(provider, wanted) for _ in range(3)]
    asked = server.requests[0]
    assert asked.path == place.path
    assert asked.query == (place.query or asked.query)
    assert asked.json.get("model", "") == place.named
    if place.header:
        assert asked.headers[place.header].removeprefix("Bearer ") == KEY
    else:
        assert KEY not in json.dumps(asked.headers)
    assert "b = 1" in json.dumps(asked.json)
    for name in ("x-title", "http-referer"):  # OpenRouter lists its users by them
        assert asked.headers.get(name, "") in ("", "Goalwright")
    end = events[-1]
    assert isinstance(end, Complete)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I look at it."
    assert sum(isinstance(event, TextDelta) for event in events) > 1
    assert TextPart(text="I look at it.") in end.parts
    assert any(isinstance(part, ReasoningPart) and part.text == "Hm, let me see." for part in end.parts)
    (found,) = [part for part in end.parts if isinstance(part, ToolCallPart)]
    assert (found.name, json.loads(found.input)) == ("read", {"file_path": "a.py"})
    assert end.stop_reason == "tool_use"
    assert end.usage.input == 10 or not place.counts
    assert (denied.kind, denied.retryable) == ("auth", False)
    key = next((variable for variable in place.env if "KEY" in variable or "TOKEN" in variable), "_API_KEY")
    assert key in str(denied)
    assert str(denied).endswith("wrong")
    assert (limited.kind, limited.retryable) == ("rate_limit", True)
    assert (busy.kind, busy.retryable) == ("overloaded", True)
    assert "too busy" in str(busy)


async def test_vertex_signs_in_with_a_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [Reply(text="Here I am.", tool_calls=(CALL,)), Reply(status=429, error_message="exhausted")]
    async with ModelServer(answers, listed={"/token": {"access_token": "t-1", "expires_in": 3600}}) as server:
        account = tmp_path / "account.json"
        account.write_text(json.dumps(service_account(f"{server.url}/token")))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        monkeypatch.setenv("VERTEXAI_PROJECT", "my-project")
        monkeypatch.setenv("VERTEXAI_LOCATION", "europe-west1")
        provider, model = provider_for("vertex_ai/gemini-3-pro")
        wanted = request(*TALK, model=model, env={"VERTEX_AI_API_BASE": server.url})
        end = (await collect(provider.stream(wanted)))[-1]
        limited = await failure(provider, wanted)
    assert isinstance(end, Complete)
    assert (end.stop_reason, end.parts[0]) == ("tool_use", TextPart(text="Here I am."))
    asked = server.requests[0]
    assert asked.headers["authorization"] == "Bearer t-1"
    assert asked.path.endswith(":streamGenerateContent")
    assert (limited.kind, limited.retryable) == ("rate_limit", True)


ASKED = """
import os, socket, sys
from pathlib import Path
from daemon.provider import cloud_sign_in
here = socket.create_server(("127.0.0.1", 0))
here.setblocking(False)
cloud_sign_in._GOOGLE_MACHINE = Path(sys.argv[1])
os.environ.update(GCE_METADATA_IP=f"127.0.0.1:{here.getsockname()[1]}", HOME="/nonexistent")
before = dict(os.environ)
cloud_sign_in.shorten_google_check()
assert dict(os.environ) == before
from google.auth import default, exceptions
from google.auth.compute_engine import _metadata
print(_metadata._METADATA_DETECT_RETRIES, _metadata._METADATA_DEFAULT_TIMEOUT)
if not Path(sys.argv[1]).exists():
    try:
        default()
    except exceptions.DefaultCredentialsError:
        here.accept()
        try:
            here.accept()
        except BlockingIOError:
            print("once")
"""


def test_google_is_asked_once_whether_this_is_its_machine(tmp_path: Path) -> None:
    machine = tmp_path / "product_name"
    machine.write_text("Google Compute Engine\n")
    for name, said in ((tmp_path / "none", "1 1\nonce\n"), (machine, "3 3\n")):
        ran = subprocess.run(
            [sys.executable, "-c", ASKED, str(name)], capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.stdout == said, ran.stderr


async def test_missing_sign_in_to_a_cloud_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    for model, name, variable in (
        ("bedrock/anthropic.claude-x", "Amazon Bedrock", "AWS_PROFILE"),
        ("vertex_ai/gemini-3-pro", "Google Vertex AI", "GOOGLE_APPLICATION_CREDENTIALS"),
    ):
        provider, rest = provider_for(model)
        error = await failure(provider, request(model=rest))
        assert (error.kind, error.retryable) == ("auth", False)
        assert f"Cannot sign in to {name}. Check " in str(error)
        assert variable in str(error)
        assert "Traceback" not in str(error)


def service_account(token_url: str) -> dict[str, str]:
    """Return the file of a service account with a key of its own."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "agent@my-project.iam.example",
        "token_uri": token_url,
    }


@pytest.mark.parametrize(
    ("talk", "thinks"), [(TALK[:1], True), (TALK, False), ((*TALK, assistant("b")), True)]
)
async def test_claude_in_a_cloud_thinks_only_where_it_may(
    talk: tuple[PromptMessage, ...], thinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of it must begin with its thinking, which the other wire does not keep."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    place = PLACES["Amazon Bedrock"]
    provider, named = provider_for(place.model)
    async with ModelServer(["yes"], api_key=KEY) as server:
        env = environment(place, server)
        await collect(provider.stream(request(*talk, model=named, env=env, thinking_tokens=8_000)))
    assert ("thinking" in server.requests[0].json.get("additionalModelRequestFields", {})) is thinks
