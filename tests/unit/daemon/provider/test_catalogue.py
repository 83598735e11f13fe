"""Usable providers, their models, and whether a model answers: against servers on the wire."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon.provider import catalogue, choose
from daemon.provider.catalogue import ModelProvider, OfferedModel
from daemon.provider.cloud_sign_in import signed_in_to_aws, signed_in_to_google
from daemon.provider.model_calls import ProviderError
from tests.support.drivers.bridge import Raw, served
from tests.support.fakes.model_replies import Reply
from tests.support.fakes.model_server import ModelServer

CLOSED = "http://127.0.0.1:9"
NOBODY = {"OLLAMA_HOST": CLOSED, "LM_STUDIO_API_BASE": f"{CLOSED}/v1"}
ANTHROPIC: dict[str, Any] = {
    "data": [
        {
            "type": "model",
            "id": "claude-opus-5-5",
            "max_input_tokens": 1_000_000,
            "created_at": "2026-10-01T00:00:00Z",
        },
        {"type": "model", "id": "claude-sonnet-5-5", "created_at": "2026-09-01T00:00:00Z"},
        {"type": "model", "id": "claude-unheard-of-9", "max_input_tokens": 300_000},
    ]
}
OPENAI: dict[str, Any] = {
    "object": "list",
    "data": [
        {"id": "gpt-5-mini", "created": 10, "object": "model"},
        {"id": "gpt-6.1-sol", "created": 30, "object": "model"},
        {"id": "text-embedding-3-large", "created": 40, "object": "model"},
        {"id": "whisper-1", "created": 5, "object": "model"},
    ],
}
GEMINI: dict[str, Any] = {
    "models": [
        {"name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"]},
        {
            "name": "models/gemini-2.5-pro",
            "inputTokenLimit": 1_048_576,
            "supportedGenerationMethods": ["generateContent"],
        },
        {
            "name": "models/gemini-3.5-pro",
            "inputTokenLimit": 2_000_000,
            "supportedGenerationMethods": ["generateContent"],
        },
        {
            "name": "models/gemini-3.5-flash",
            "inputTokenLimit": 1_048_576,
            "supportedGenerationMethods": ["generateContent"],
        },
    ]
}
OPENROUTER: dict[str, Any] = {
    "data": [
        {
            "id": "anthropic/claude-sonnet-5.5",
            "created": 2,
            "context_length": 900_000,
            "pricing": {"prompt": "0.000002", "completion": "0.00001"},
            "supported_parameters": ["tools", "temperature"],
        },
        {
            "id": "openrouter/auto",
            "created": 1,
            "context_length": 2_000_000,
            "pricing": {"prompt": "-1", "completion": "-1"},
            "supported_parameters": ["tools"],
        },
        {"id": "some/model-without-tools", "created": 3, "supported_parameters": ["temperature"]},
    ]
}


@pytest.fixture(autouse=True)
async def connections_end() -> AsyncIterator[None]:
    yield
    await choose.aclose()


async def one(provider: str, **env: str) -> ModelProvider:
    [found] = await catalogue.providers({**NOBODY, **env}, provider)
    return found


def offered(
    model: str, window: int, input_price: float | None = None, output_price: float | None = None
) -> OfferedModel:
    return OfferedModel(model=model, window=window, input_price=input_price, output_price=output_price)


def windows(found: ModelProvider) -> dict[str, int]:
    return {model.model: model.window for model in found.models}


async def test_without_keys_and_servers_nothing_is_connected() -> None:
    found = await catalogue.providers(NOBODY)
    assert [provider.id for provider in found] == list(catalogue.PROVIDER_IDS)
    assert {(provider.connected, provider.error, provider.models) for provider in found} == {(False, "", ())}
    assert {provider.key_variable for provider in found} >= {
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
    }


async def test_anthropic_lists_its_models_with_windows_and_prices() -> None:
    async with ModelServer(api_key="key", listed={"/v1/models": ANTHROPIC}) as server:
        found = await one("anthropic", ANTHROPIC_API_KEY="key", ANTHROPIC_BASE_URL=server.url)
    assert found.connected
    assert found.error == ""
    assert found.default == "anthropic/claude-sonnet-5-5"
    assert found.models == (
        offered("anthropic/claude-opus-5-5", 1_000_000, 4, 20),
        offered("anthropic/claude-sonnet-5-5", 1_000_000, 2, 10),
        offered("anthropic/claude-unheard-of-9", 300_000),
    )


async def test_openai_lists_chat_models_newest_first() -> None:
    async with ModelServer(api_key="key", listed={"/v1/models": OPENAI}) as server:
        found = await one("openai", OPENAI_API_KEY="key", OPENAI_BASE_URL=f"{server.url}/v1")
    assert list(windows(found)) == ["openai/gpt-6.1-sol", "openai/gpt-5-mini"]
    assert found.default == "openai/gpt-6.1-sol"


async def test_gemini_offers_the_newest_of_its_large_models() -> None:
    async with ModelServer(api_key="key", listed={"/models": GEMINI}) as server:
        found = await one("gemini", GEMINI_API_KEY="key", GEMINI_API_BASE=server.url)
    assert windows(found)["gemini/gemini-3.5-pro"] == 2_000_000
    assert "gemini/embedding-001" not in windows(found)
    assert found.default == "gemini/gemini-3.5-pro"


async def test_openrouter_lists_its_prices_and_only_tool_models() -> None:
    async with ModelServer(api_key="key", listed={"/models/user": OPENROUTER}) as server:
        found = await one("openrouter", OPENROUTER_API_KEY="key", OPENROUTER_API_BASE=server.url)
    assert found.models == (
        offered("openrouter/anthropic/claude-sonnet-5.5", 900_000, 2, 10),
        offered("openrouter/openrouter/auto", 2_000_000),  # its price varies
    )
    assert found.default == "openrouter/anthropic/claude-sonnet-5.5"


async def test_local_servers_are_detected_and_free() -> None:
    listed = {"/v1/models": {"data": [{"id": "qwen3-coder-30b", "loaded_context_length": 40_000}]}}
    async with ModelServer(models=["nomic-embed-text", "qwen3:8b"], listed=listed) as server:
        env = {"OLLAMA_HOST": server.url, "LM_STUDIO_API_BASE": f"{server.url}/v1"}
        found = {each.id: each for each in await catalogue.providers(env)}
    assert found["ollama"].connected
    assert found["ollama"].default == "ollama/qwen3:8b"
    assert found["lm_studio"].models == (offered("lm_studio/qwen3-coder-30b", 40_000, 0, 0),)
    assert not found["anthropic"].connected


async def test_custom_server_needs_an_address_but_no_key() -> None:
    listed = {"/v1/models": {"data": [{"id": "my-model", "max_model_len": 65_536}]}}
    async with ModelServer([{"text": "ready"}], listed=listed) as server:
        env = {"CUSTOM_API_BASE": f"{server.url}/v1"}
        found = await one("custom", **env)
        assert windows(found) == {"custom/my-model": 65_536}
        assert found.default == "custom/my-model"
        assert await catalogue.tested("custom/my-model", env) > 0
    assert server.requests[0].json["model"] == "my-model"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "custom"])
async def test_wrong_key_and_unreachable_server_are_distinct_errors(provider: str) -> None:
    stem = provider.upper()
    base = "ANTHROPIC_BASE_URL" if provider == "anthropic" else f"{stem}_API_BASE"
    async with ModelServer(api_key="right", listed={"/v1/models": {"data": []}}) as server:
        url = server.url if provider == "anthropic" else f"{server.url}/v1"
        wrong = await one(provider, **{f"{stem}_API_KEY": "wrong-key-of-mine", base: url})
        right = await one(provider, **{f"{stem}_API_KEY": "right", base: url})
    gone = await one(provider, **{f"{stem}_API_KEY": "right", base: url})
    odd = await one(provider, **{f"{stem}_API_KEY": "right", base: "localhost:nowhere"})
    assert (wrong.error_kind, wrong.models) == ("auth", ())
    assert wrong.error.endswith("rejected the API key.")
    assert "wrong-key" not in wrong.error
    assert (right.error, right.default) == ("", "")
    assert gone.error_kind == "network"
    assert provider != "custom" or odd.error_kind == "bad_request"


@pytest.mark.parametrize("url", ["http://localhost:80a", "http://[::1"])
async def test_an_address_with_a_typing_error_is_told(url: str) -> None:
    [found] = await catalogue.providers({"OPENAI_BASE_URL": url}, "openai")
    assert found.error == f"{url.removeprefix('http://')} does not answer. Check the address and the network."


async def test_a_server_without_a_list_of_models_is_still_connected() -> None:
    async with ModelServer() as server:
        found = await one("custom", CUSTOM_API_BASE=f"{server.url}/v1")
    assert found.connected
    assert found.error.endswith("does not list its models (HTTP 404).")
    assert found.error_kind is None


@pytest.mark.parametrize(
    "answer",
    [[], {"data": "nothing"}, {"data": [1, None, {}]}, {"models": [{"name": 5}]}, "text", {"data": {"a": 1}}],
)
async def test_malformed_model_lists_are_harmless(answer: Any) -> None:
    async with ModelServer(listed={"/v1/models": answer}) as server:
        found = await one("custom", CUSTOM_API_BASE=f"{server.url}/v1")
    assert found.connected
    assert [model.model for model in found.models] in ([], ["custom/5"])


async def test_model_check_reports_why_a_model_does_not_answer() -> None:
    gone = Reply(status=404, error_type="not_found_error", error_message="model: claude-nowhere")
    async with ModelServer([gone, {"text": "ready"}], api_key="right") as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "right"}
        with pytest.raises(ProviderError, match="claude-nowhere"):
            await catalogue.tested("anthropic/claude-nowhere", env)
        assert await catalogue.tested("anthropic/claude-sonnet-5-5", env) > 0
        with pytest.raises(ProviderError) as refused:
            await catalogue.tested(
                "anthropic/claude-sonnet-5-5", {**env, "ANTHROPIC_API_KEY": "wrong-key-of-mine"}
            )
    assert refused.value.kind == "auth"
    assert "wrong-key" not in str(refused.value)


async def test_unknown_model_name_suggests_similar_ones() -> None:
    async with ModelServer(api_key="key", listed={"/v1/models": ANTHROPIC}) as server:
        env = {**NOBODY, "ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.url}
        problem = await catalogue.check("anthropic/claude-sonet-5-5", env)
        assert problem.startswith(
            "Anthropic has no model anthropic/claude-sonet-5-5. Similar: anthropic/claude-sonnet-5-5"
        )
        assert await catalogue.check("anthropic/claude-sonnet-5-5", env) == ""
    # Where no list can be had, nobody can tell.
    assert await catalogue.check("anthropic/claude-sonet-5-5", env) == ""
    assert await catalogue.check("openai/anything", NOBODY) == ""
    assert "provider/model" in await catalogue.check("claude", NOBODY)


async def models_of(client: Raw, **params: Any) -> dict[str, Any]:
    found = await client.request("goalwright/model/list", params)
    return {provider["id"]: provider for provider in found["providers"]}


async def test_entered_key_is_tried_and_stored_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "sk-ant-a-key-that-was-just-entered"
    async with (
        ModelServer([{"text": "ready"}], api_key=secret, listed={"/v1/models": ANTHROPIC}) as server,
        served() as door,
    ):
        client = await door.connect()
        await client.initialize(env={**NOBODY, "ANTHROPIC_BASE_URL": server.url})
        entered = {"env": {"ANTHROPIC_API_KEY": secret, "PATH": "/evil"}}
        assert (await models_of(client))["anthropic"]["connected"] is False
        found = (await models_of(client, provider="anthropic", **entered))["anthropic"]
        assert found["default"] == "anthropic/claude-sonnet-5-5"
        assert found["models"][0] == {
            "model": "anthropic/claude-opus-5-5",
            "window": 1_000_000,
            "windowAssumed": False,
            "inputPrice": 4,
            "outputPrice": 20,
            "label": "",
        }
        tested = await client.request("goalwright/model/test", {"model": found["default"], **entered})
        assert (tested["error"], tested["window"], tested["inputPrice"]) == ("", 1_000_000, 2)
        without = await client.request("goalwright/model/test", {"model": found["default"]})
        assert without["errorKind"] == "no_key"
        assert (await models_of(client))["anthropic"]["connected"] is False
        checked = await client.request("goalwright/model/check", {"model": "claude"})
        assert "provider/model" in checked["problem"]
        unknown = await client.refused("goalwright/model/list", {"provider": "nobody"})
        assert "Choose one of: anthropic, openai" in str(unknown)
        written = [
            path.read_bytes() for path in door.bench.core.workspace.parent.rglob("*") if path.is_file()
        ]
    assert all(secret.encode() not in data for data in written)
    assert secret not in caplog.text


async def test_mistral_offers_what_chats_and_calls_tools() -> None:
    able = {"completion_chat": True, "function_calling": True}
    listed = {
        "data": [
            {"id": "devstral-latest", "capabilities": able, "max_context_length": 262_144},
            {"id": "codestral-fim", "capabilities": {**able, "function_calling": False}},
        ]
    }
    async with ModelServer([], api_key="k" * 32, listed={"/v1/models": listed}) as server:
        env = {"MISTRAL_API_KEY": "k" * 32, "MISTRAL_API_BASE": f"{server.url}/v1"}
        [found] = await catalogue.providers(env, "mistral")
        [refused] = await catalogue.providers({**env, "MISTRAL_API_KEY": "wrong"}, "mistral")
    assert [(one.model, one.window) for one in found.models] == [("mistral/devstral-latest", 262_144)]
    assert found.default == "mistral/devstral-latest"
    assert (refused.error_kind, refused.models) == ("auth", ())


@pytest.mark.parametrize(
    ("provider", "env"),
    [
        ("azure", {"AZURE_API_BASE": "https://x.example", "AZURE_API_KEY": "k"}),
        ("bedrock", {"AWS_BEARER_TOKEN_BEDROCK": "k"}),
        ("bedrock", {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "k"}),
        ("bedrock", {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "r"}),
        ("vertex_ai", {"VERTEXAI_CREDENTIALS": "{}"}),
        ("vertex_ai", {"GOOGLE_APPLICATION_CREDENTIALS": __file__}),
    ],
)
async def test_providers_without_a_list_are_connected(
    provider: str, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    [found] = await catalogue.providers(env, provider)
    assert (found.connected, found.models, found.error) == (True, (), "")
    [found] = await catalogue.providers({}, provider)
    assert not found.connected


def test_the_document_names_what_the_list_asks_for() -> None:
    document = (Path(__file__).parents[4] / "docs" / "models.md").read_text("utf-8")
    for provider in catalogue.PROVIDERS:
        assert provider.name in document or provider.id == "custom", provider
        for name in (
            provider.key_variable,
            provider.url_variable,
            *re.findall(r"[A-Z]{3,}_[A-Z_]+", provider.how),
        ):
            assert name in document, name


def test_sign_ins_of_clouds_are_found_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[default]\nregion = us-east-1\n[profile dev]\nsso_session = mine\n[profile ops]\nrole_arn = r\n"
    )
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = k\naws_secret_access_key = k\n")
    for env, there in (
        ({}, False),
        ({"AWS_PROFILE": "dev"}, True),
        ({"AWS_DEFAULT_PROFILE": "ops"}, True),
        ({"AWS_PROFILE": "nobody"}, False),
        ({"AWS_SHARED_CREDENTIALS_FILE": str(keys)}, True),
        ({"AWS_SHARED_CREDENTIALS_FILE": str(keys), "AWS_PROFILE": "nobody"}, False),
        ({"AWS_CONFIG_FILE": __file__}, False),
        ({"AWS_ACCESS_KEY_ID": "k"}, False),
    ):
        assert signed_in_to_aws(env) == there, env
    assert not signed_in_to_google({"GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent"})
    assert not signed_in_to_google({"CLOUDSDK_CONFIG": str(tmp_path)})
    (tmp_path / "application_default_credentials.json").write_text("{}")
    assert signed_in_to_google({"CLOUDSDK_CONFIG": str(tmp_path)})
