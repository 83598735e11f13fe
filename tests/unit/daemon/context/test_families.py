"""Each family of models receives its own instructions."""

from __future__ import annotations

import pytest

from daemon.context.families.loader import FAMILIES, family_of, is_small, provider_prompt


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("anthropic/claude-sonnet-5-5", "claude"),
        ("openrouter/anthropic/claude-opus-4.5:beta", "claude"),
        ("bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0", "claude"),
        ("bedrock/converse/anthropic.claude-3-haiku", "claude"),
        ("vertex_ai/claude-sonnet-4@20250514", "claude"),
        ("anthropic/my-alias", "claude"),
        ("openai/gpt-6.1-sol", "gpt"),
        ("openai/o3", "gpt"),
        ("openai/o4-mini-2025-04-16", "gpt"),
        ("openai/codex-mini-latest", "gpt"),
        ("openai/ft:gpt-4o-mini:acme::abc", "gpt"),
        ("openai/chatgpt-4o-latest", "gpt"),
        ("azure/gpt-5", "gpt"),
        ("azure/our-deployment", "gpt"),
        ("github_copilot/gpt-4.1", "gpt"),
        ("ollama/gpt-oss:20b", "gpt"),
        ("GPT-5", "gpt"),
        ("vertex_ai/gemini-2.5-pro", "gemini"),
        ("gemini/gemini-3-flash", "gemini"),
        ("openrouter/google/gemini-2.5-pro:free", "gemini"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("bedrock/us.deepseek.r1-v1:0", "deepseek"),
        ("groq/deepseek-r1-distill-llama-70b", "deepseek"),
        ("huggingface/deepseek-ai/DeepSeek-V3.1", "deepseek"),
        ("ollama/qwen3:8b", "qwen"),
        ("openai/Qwen3-Coder", "qwen"),
        ("dashscope/tongyi-max", "qwen"),
        ("openrouter/qwen/qwq-32b", "qwen"),
        ("gemini/gemma-3-27b-it", "other"),
        ("anthropic/glm-5", "other"),
        ("azure/mistral-large", "other"),
        ("azure/devstral-2", "other"),
        ("ollama/llama3.1:8b", "other"),
        ("openai/our-own-model", "other"),
        ("openrouter/auto", "other"),
        ("demo/demo", "other"),
        ("scripted//tmp/gpt/claude.json", "other"),
        ("", "other"),
        ("/", "other"),
    ],
)
def test_family_is_detected_from_the_model_name_behind_routers(model: str, family: str) -> None:
    assert family_of(model) == family


@pytest.mark.parametrize(
    ("model", "small"),
    [
        ("ollama/qwen3:8b", True),
        ("ollama/qwen3", True),
        ("ollama/qwen3-coder:480b-cloud", False),
        ("ollama/glm-5:cloud", False),
        ("ollama/llama3.3:70b", False),
        ("openrouter/qwen/qwen3-coder-30b-a3b", True),
        ("openrouter/qwen/qwen3-235b-a22b", False),
        ("mistral/open-mixtral-8x22b", False),
        ("openrouter/google/gemma-3-27b-it:free", True),
        ("lm_studio/phi-4", True),
        ("openai/gpt-6.1-sol", False),
        ("anthropic/claude-sonnet-5-5", False),
    ],
)
def test_small_model_is_detected_by_size_or_local_provider(model: str, small: bool) -> None:
    assert is_small(model) is small


def test_each_family_has_its_own_short_prompt() -> None:
    texts = {family: provider_prompt(f"{family}/{family}") for family in FAMILIES}
    assert len(set(texts.values())) == len(FAMILIES)
    assert all(0 < len(text.encode()) <= 1024 for text in texts.values())


def test_small_model_prompt_extends_the_family_prompt() -> None:
    large, small = provider_prompt("dashscope/qwen-max"), provider_prompt("ollama/qwen3:8b")
    assert small.startswith(large)
    assert "One tool call" in small
    assert len(small.encode()) <= 1024
