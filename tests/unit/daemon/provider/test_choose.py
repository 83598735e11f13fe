"""The choice of the model that answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from daemon.provider.anthropic import AnthropicProvider
from daemon.provider.choose import (
    ANTHROPIC_DEFAULT,
    DEMO,
    OPENAI_DEFAULT,
    best_local_model,
    default_model,
    is_provider_variable,
    ollama_models,
    parse_model,
    provider_for,
)
from daemon.provider.litellm import LiteLLMProvider, ollama_url, target_for
from daemon.provider.model_calls import ProviderError
from daemon.provider.scripted import ScriptedProvider
from tests.support.fakes.model_server import ModelServer
from tests.support.scenarios.model_requests import request


async def no_ollama(env: Mapping[str, str]) -> list[str] | None:
    return None


@pytest.mark.parametrize(
    ("env", "configured", "model"),
    [
        ({}, "groq/llama", "groq/llama"),
        ({"ANTHROPIC_API_KEY": "k"}, "openai/x", "openai/x"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, None, ANTHROPIC_DEFAULT),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, None, ANTHROPIC_DEFAULT),
        ({"OPENAI_API_KEY": "k"}, "", OPENAI_DEFAULT),
        ({"ANTHROPIC_API_KEY": ""}, None, DEMO),
    ],
)
async def test_the_configured_model_wins_then_keys_in_order(
    env: dict[str, str], configured: str | None, model: str
) -> None:
    choice = await default_model(env, configured, no_ollama)
    assert choice.model == model
    assert choice.demo == (model == DEMO)


async def test_server_without_a_model_explains_how_to_name_one() -> None:
    choice = await default_model({"OPENAI_BASE_URL": "http://me:pw@127.0.0.1:8080/v1"}, None, no_ollama)
    assert choice.demo
    assert "`--model openai/NAME`" in choice.notice
    assert "http://127.0.0.1:8080/v1" in choice.notice
    assert "pw" not in choice.notice


@pytest.mark.parametrize("url", ["http://localhost:80a", "http://[::1"])
async def test_an_address_with_a_typing_error_still_gives_a_model(url: str) -> None:
    choice = await default_model({"OPENAI_BASE_URL": url, "OLLAMA_HOST": url}, None)
    assert choice.model == DEMO
    assert url in choice.notice


async def test_local_model_notice_does_not_ask_for_a_real_model() -> None:
    async def has_one(env: Mapping[str, str]) -> list[str] | None:
        return ["qwen3:8b"]

    choice = await default_model({}, None, has_one)
    assert choice.notice.startswith("Using the local model qwen3:8b of Ollama. To use another one,")
    assert "real model" not in choice.notice
    assert "start Ollama" not in choice.notice


async def test_without_any_provider_the_demo_is_chosen_with_a_hint() -> None:
    choice = await default_model({}, None, no_ollama)
    assert choice.demo
    for word in ("demo", "Goalwright: Connect a Model…", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama"):
        assert word in choice.notice


async def test_a_local_model_is_better_than_the_demo() -> None:
    async with ModelServer(models=("nomic-embed-text", "gemma3", "qwen3-coder:30b")) as server:
        choice = await default_model({"OLLAMA_HOST": server.url}, None)
    assert (choice.model, choice.demo) == ("ollama/qwen3-coder:30b", False)
    assert "qwen3-coder:30b" in choice.notice


async def test_an_ollama_without_models_is_mentioned() -> None:
    async with ModelServer(models=()) as server:
        choice = await default_model({"OLLAMA_HOST": server.url}, None)
    assert choice.demo
    assert "ollama pull" in choice.notice


async def test_unreachable_address_is_no_ollama() -> None:
    assert await ollama_models({"OLLAMA_HOST": "127.0.0.1:9"}) is None


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.0 200 OK\r\n\r\n<html>", b"nonsense", b"HTTP/1.0 200 OK\r\n\r\n[]", b""]
)
async def test_other_server_at_the_address_is_no_ollama(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await ollama_models({"OLLAMA_HOST": f"127.0.0.1:{port}"}) is None


async def test_unresponsive_address_is_no_ollama() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await ollama_models({"OLLAMA_HOST": f"127.0.0.1:{port}"}) is None


def test_the_best_local_model_can_chat_and_preferably_code() -> None:
    assert best_local_model(["all-minilm", "phi4", "devstral"]) == "devstral"
    assert best_local_model(["all-minilm", "phi4"]) == "phi4"
    assert best_local_model(["all-minilm"]) is None


def test_models_have_two_parts() -> None:
    assert parse_model(" openai/gpt-6-sol ") == ("openai", "gpt-6-sol")
    assert parse_model("openrouter/meta/llama") == ("openrouter", "meta/llama")
    for wrong in ("gpt-6", "/x", "openai/", ""):
        with pytest.raises(ValueError, match="provider/model"):
            parse_model(wrong)


def test_provider_is_chosen_by_prefix_and_created_once(tmp_path: Path) -> None:
    provider, name = provider_for("anthropic/claude-opus-5-5")
    assert isinstance(provider, AnthropicProvider)
    assert name == "claude-opus-5-5"
    assert provider_for("anthropic/claude-haiku-5-5")[0] is provider
    assert isinstance(provider_for("openai/gpt-6-sol")[0], LiteLLMProvider)
    assert provider_for("openai/gpt-6-sol")[0] is not provider_for("ollama/gpt-oss")[0]
    assert provider_for("groq/llama/x")[1] == "groq/llama/x"
    assert isinstance(provider_for("demo/demo")[0], ScriptedProvider)
    assert isinstance(provider_for(f"scripted/{tmp_path}/x.json")[0], ScriptedProvider)
    with pytest.raises(ProviderError, match="provider/model"):
        provider_for("nonsense")


def test_only_provider_variables_are_handed_over() -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "OPENAI_BASE_URL",
        "OLLAMA_HOST",
        "GROQ_API_KEY",
        "TOGETHER_AI_API_BASE",
        "AWS_SECRET_ACCESS_KEY",
    ):
        assert is_provider_variable(name)
    for name in ("PATH", "HOME", "GITHUB_TOKEN", "_API_KEY", "X_API_KEY_FILE"):
        assert not is_provider_variable(name)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:99", "http://box:99"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("http://box", "http://box:80"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ("[::1]:99", "http://[::1]:99"),
        ("http://0.0.0.0:99", "http://127.0.0.1:99"),
    ],
)
def test_addresses_of_ollama(host: str, url: str) -> None:
    assert ollama_url({"OLLAMA_HOST": host}) == url


def test_other_providers_need_the_key_of_their_name() -> None:
    with pytest.raises(ProviderError, match="GROQ_API_KEY") as caught:
        target_for("", request(model="groq/llama"))
    assert caught.value.kind == "no_key"
    target = target_for("", request(model="groq/llama", env={"GROQ_API_KEY": "k"}))
    assert (target.model, target.key) == ("groq/llama", "k")
    assert target_for("", request(model="bedrock/claude")).key is None
    own = target_for("", request(model="my-server/x", env={"MY_SERVER_API_BASE": "http://box"}))
    assert own.base_url == "http://box"


def test_openai_compatible_server_needs_no_key() -> None:
    target = target_for("openai", request(model="x", env={"OPENAI_BASE_URL": "http://box/v1/"}))
    assert (target.base_url, target.key) == ("http://box/v1", "none")
    with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
        target_for("openai", request(model="x"))


def test_choosing_imports_no_sdk() -> None:
    code = (
        "import asyncio, sys; from daemon.provider import choose;"
        "asyncio.run(choose.default_model({'OLLAMA_HOST': '127.0.0.1:9'}));"
        "choose.provider_for('anthropic/x'); choose.provider_for('openai/x');"
        "print([name for name in ('anthropic', 'litellm', 'httpx', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
