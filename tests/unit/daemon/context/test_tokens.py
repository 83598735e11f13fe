"""Estimated tokens, and how the provider's counts correct them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.context.tokens import IMAGE_TOKENS, calibrated, estimate_tokens, part_tokens, request_tokens
from daemon.model.messages import FilePart, FinishPart, TextPart, ToolCallPart, ToolResultPart
from daemon.provider.model_calls import ModelRequest, PromptMessage, SystemBlock, ToolSpec
from tests.support.scenarios.sessions import NOW

CODE = '''def total(items: list[Item], *, tax: float = 0.2) -> float:
    """Sum of all prices, tax included."""
    return sum(item.price * item.count for item in items) * (1 + tax)
'''


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("日本", 2), ("é", 1)]
)
def test_short_texts(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "counted"),
    # Counted by Anthropic's tokenizer as litellm brings it.
    [
        (CODE, 47),
        ("The quick brown fox jumps over the lazy dog, and nobody minds at all.\n" * 10, 181),
        ("本文档描述 Agent 的 Context 管理、执行计划和探索机制。", 28),
        ('{"file_path": "/work/shop/cart.py", "old_string": "a = 1", "new_string": "a = 2"}', 29),
    ],
)
def test_token_estimate_is_close_to_a_tokenizer(text: str, counted: int) -> None:
    assert 0.75 * counted <= estimate_tokens(text) <= 1.35 * counted


@given(st.text(), st.text())
def test_token_estimate_grows_with_length_and_takes_any_text(text: str, more: str) -> None:
    assert (
        estimate_tokens(text) <= estimate_tokens(text + more) <= estimate_tokens(text) + estimate_tokens(more)
    )
    assert (estimate_tokens(text) > 0) == bool(text)
    assert estimate_tokens("\ud83d" + text) > 0


def test_parts_are_estimated_by_what_is_sent() -> None:
    image = FilePart(name="a.png", media_type="image/png", data="A" * 1_000_000)
    assert part_tokens(image) == IMAGE_TOKENS
    assert part_tokens(FilePart(name="a.png", media_type="image/png")) < 20
    assert 230 < part_tokens(FilePart(name="a.txt", media_type="text/plain", data="A" * 1_068)) < 260
    result = ToolResultPart(tool_call_id="1", name="read", content="x" * 340, metadata={"diff": "y" * 9_999})
    assert 100 <= part_tokens(result) < 120
    assert part_tokens(result.model_copy(update={"images": (image,)})) == part_tokens(result) + IMAGE_TOKENS
    assert 100 <= part_tokens(ToolCallPart(id="1", name="read", input="x" * 340)) < 120
    assert part_tokens(FinishPart(reason="end_turn", time=NOW)) == 0


def test_a_request_is_counted_by_layer() -> None:
    request = ModelRequest(
        model="m",
        system=(SystemBlock("x" * 340), SystemBlock("y" * 340)),
        messages=(PromptMessage("user", (TextPart(text="z" * 3_400),)),),
        tools=(
            ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),
        ),
        tail="p" * 34,
    )
    tokens = request_tokens(request)
    assert (tokens.system, tokens.tail) == (200, 10)
    assert 1_000 <= tokens.messages <= 1_010
    assert 20 < tokens.tools < 60
    assert tokens.total == tokens.system + tokens.tools + tokens.messages + tokens.tail
    assert request_tokens(request) == tokens


def test_calibration_moves_halfway_to_the_newest_count() -> None:
    assert calibrated(1.0, 1_500, 1_000) == 1.25
    ratio = 1.0
    for _ in range(20):
        ratio = calibrated(ratio, 1_300, 1_000)
    assert ratio == pytest.approx(1.3, abs=0.001)


@given(st.floats(0.5, 3), st.integers(-5, 10**9), st.integers(-5, 10**9))
def test_calibration_stays_within_bounds(ratio: float, counted: int, estimated: int) -> None:
    found = calibrated(ratio, counted, estimated)
    assert 0.5 <= found <= 3
    if counted <= 0 or estimated <= 0:
        assert found == ratio
