"""Learning a model's window: by asking its server, and from its refusals."""

from __future__ import annotations

import asyncio

import pytest

from daemon.provider.context_windows import Windows, base_url_of, listed_window, shown_window
from daemon.provider.pricing import OLLAMA_WINDOW, UNKNOWN
from tests.support.drivers.waiting import until
from tests.support.fakes.local_servers import Kind, LocalServer
from tests.support.fakes.model_server import ModelServer

OWN = {"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"meta": {"n_ctx": 12_288, "n_ctx_train": 131_072}}, 12_288),
        ({"meta": {"n_ctx_train": 32_768}}, 32_768),
        ({"max_model_len": 8_192}, 8_192),
        ({"context_length": 200_000, "top_provider": {"context_length": 65_536}}, 65_536),
        ({"context_window": 131_072}, 131_072),
        ({"loaded_context_length": 4_096, "max_context_length": 32_768}, 4_096),
        ({"context_length": "8192"}, None),
        ({"context_length": True}, None),
        ({"context_length": 0}, None),
        ({}, None),
    ],
)
def test_the_window_in_a_list_of_models(entry: dict[str, object], window: int | None) -> None:
    assert listed_window({"data": [{"id": "m", **entry}]}, "m") == window


def test_window_of_the_named_model_is_used() -> None:
    listed = {"data": [{"id": "a", "context_length": 1_000}, {"id": "b", "context_length": 2_000}]}
    assert listed_window(listed, "b") == 2_000
    assert listed_window(listed, "c") is None


@pytest.mark.parametrize("answer", [None, [], "x", {"data": {}}, {"data": [1, None]}, {"model_info": []}])
def test_invalid_answers_yield_no_window(answer: object) -> None:
    assert listed_window(answer, "m") is None
    assert shown_window(answer) is None


@pytest.mark.parametrize(("length", "window"), [(8_192, 8_192), (262_144, OLLAMA_WINDOW), ("x", None)])
def test_the_window_that_ollama_shows(length: object, window: int | None) -> None:
    info = {"general.architecture": "qwen3", "qwen3.context_length": length}
    assert shown_window({"model_info": info}) == window


@pytest.mark.parametrize(
    ("model", "env", "url"),
    [
        ("openai/x", OWN, "http://127.0.0.1:8080/v1"),
        ("openai/x", {"OPENAI_API_BASE": "http://h/v1/"}, "http://h/v1"),
        ("openai/x", {}, ""),
        ("anthropic/x", {"ANTHROPIC_BASE_URL": "http://h"}, "http://h"),
        ("ollama/x", {}, "http://127.0.0.1:11434"),
        ("hosted_vllm/x", {"HOSTED_VLLM_API_BASE": "http://h"}, "http://h"),
        ("demo/demo", {"OPENAI_BASE_URL": "http://h"}, ""),
        ("openai/x", {"OPENAI_BASE_URL": "file:///etc/passwd"}, ""),
    ],
)
def test_the_server_of_a_model(model: str, env: dict[str, str], url: str) -> None:
    assert base_url_of(model, env) == url


def test_learned_window_beats_the_setting_and_the_default() -> None:
    windows = Windows()
    assert windows.window("openai/x", OWN) == UNKNOWN.context_window
    assert windows.window_is_assumed("openai/x", OWN)
    assert not windows.window_is_assumed("openai/x", OWN, 64_000)
    assert not windows.window_is_assumed("anthropic/claude-sonnet-5-5", {})
    assert windows.window("openai/x", OWN, 30_000) == 30_000
    windows.learn("openai/x", OWN, 12_288)
    assert windows.window("openai/x", OWN) == 12_288
    assert windows.window("openai/x", OWN, 30_000) == 12_288
    assert windows.window("openai/x", OWN, 8_000) == 8_000
    assert windows.window("openai/x", {"OPENAI_BASE_URL": "http://other/v1"}) == UNKNOWN.context_window
    assert windows.window("openai/y", OWN) == UNKNOWN.context_window


@pytest.mark.parametrize(
    ("kind", "model", "question"),
    [
        ("llama.cpp", "openai/untold", "GET /v1/models"),
        ("vllm", "openai/untold", "GET /v1/models"),
        ("llama.cpp", "anthropic/any", "GET /v1/models"),
        ("ollama", "ollama/any", "POST /api/show"),
    ],
)
async def test_a_server_is_asked_once_in_the_background(kind: Kind, model: str, question: str) -> None:
    windows = Windows()
    async with ModelServer(local=LocalServer(kind, 12_288)) as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1", "OLLAMA_HOST": server.url}
        env |= {"ANTHROPIC_BASE_URL": server.url, "OPENAI_API_KEY": "key", "ANTHROPIC_API_KEY": "key"}
        windows.ask_window(model, env)
        windows.ask_window(model, env)
        await until(lambda: windows.window(model, env) == 12_288)
        assert server.other == [question]
        keys = [server.other_headers[0].get(name) for name in ("authorization", "x-api-key")]
        family = model.partition("/")[0]
        assert keys == {"openai": ["Bearer key", None], "anthropic": [None, "key"]}.get(family, [None, None])
    await windows.aclose()


async def test_server_that_is_not_up_yet_is_asked_again() -> None:
    windows, asked = Windows(), 0

    async def loading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.write(b"HTTP/1.0 503 Loading\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    def known() -> bool:
        windows.ask_window("ollama/any", env)
        return windows.window("ollama/any", env) == 12_288

    async with await asyncio.start_server(loading, "127.0.0.1", 0) as starting:
        port = starting.sockets[0].getsockname()[1]
        env = {"OLLAMA_HOST": f"http://127.0.0.1:{port}"}
        windows.ask_window("ollama/any", env)
        await until(lambda: asked)
    async with ModelServer(local=LocalServer("ollama", 12_288), port=port):
        await until(known)
    await windows.aclose()


async def test_server_that_hides_its_window_is_harmless() -> None:
    windows = Windows()
    async with ModelServer(local=LocalServer("llama.cpp", 12_288, tells=False)) as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        windows.ask_window("openai/untold", env)
        await until(lambda: server.other == ["GET /v1/models"])
        assert windows.window("openai/untold", env) == UNKNOWN.context_window
    windows.ask_window("ollama/any", {"OLLAMA_HOST": "http://127.0.0.1:9"})
    windows.ask_window("anthropic/claude-sonnet-5-5", {"ANTHROPIC_API_KEY": "key"})
    await windows.aclose()
