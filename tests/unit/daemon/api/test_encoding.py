from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from daemon.model.encoding import answer_bytes, json_bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=60) | st.dictionaries(st.text(max_size=4), below, max_size=4),
    max_leaves=80,
)


@given(JSON)
def test_in_pieces_it_is_the_same(value: object) -> None:
    assert json.loads(answer_bytes(value)) == json.loads(json_bytes(value))
    assert answer_bytes(value) == json_bytes(value)


def test_secrets_are_taken_out_of_every_piece() -> None:
    key = "sk-ant-api03-" + "Zq7" * 30
    value = {"a": {"b": [{"text": key}] * 50, "api_key": key}, "c": key, key: [key]}
    assert key.encode() not in answer_bytes(value)
