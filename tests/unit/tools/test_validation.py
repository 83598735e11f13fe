"""Words about wrong values, whose shapes are classes that users do not know."""

from __future__ import annotations

import pytest
from acp.schema import PromptRequest
from pydantic import BaseModel, ValidationError

from tools.text.validation import wrong_value, wrong_values


def test_names_of_shapes_are_left_out() -> None:
    with pytest.raises(ValidationError) as raised:
        PromptRequest.model_validate({"sessionId": "s", "prompt": [{"type": "resource", "resource": {}}]})
    place = "prompt, entry 1, resource, resource"
    assert wrong_values(raised.value) == f"{place}, text must be given; {place}, uri must be given"


def test_names_that_users_chose_stay() -> None:
    class Named(BaseModel):
        servers: dict[str, int]

    with pytest.raises(ValidationError) as raised:
        Named.model_validate({"servers": {"GitHub": "x", "PostgresServer": "y"}})
    assert wrong_value(raised.value) == "servers, GitHub must be a whole number"
    assert "PostgresServer must be" in wrong_values(raised.value)
