from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from daemon.api.address import OpenApi
from tests.support.drivers.trace_api import story
from tests.support.examples import in_full

TRACE = {"id": ""}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenApi]:
    """A daemon in a thread of its own: schemathesis asks from this one, and waits."""
    ready, done = threading.Event(), asyncio.Event()
    found: list[OpenApi] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve(folder: Path) -> None:
        loops.append(asyncio.get_running_loop())
        async with story(folder) as (bench, session):
            TRACE["id"] = session.session_id
            found.append(await bench.api.open(0))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(tmp_path_factory.mktemp("api")),), daemon=True)
    thread.start()
    assert ready.wait(60), "the API was not served"
    yield found[0]
    loops[0].call_soon_threadsafe(done.set)
    thread.join(60)


OPERATIONS = (
    "/api/traces",
    "/api/traces/{trace_id}",
    "/api/traces/{trace_id}/messages",
    "/api/traces/{trace_id}/branches/{branch_id}",
    "/api/traces/{trace_id}/tree",
    "/api/traces/{trace_id}/node/{step_id}",
    "/api/search",
    "/api/stats",
)
KNOWN = {"branch_id": ("A", "B", "s1"), "step_id": ("root", "goal_1", "goal_2")}


@pytest.fixture(scope="module")
def schema(api: OpenApi) -> schemathesis.BaseSchema:
    loaded = schemathesis.openapi.from_url(
        f"{api.url}/openapi.json", headers={"Authorization": f"Bearer {api.token}"}
    )
    # Requests that are too long, which it does not count as refused: URI Too Long, Header Fields Too Large.
    refused = loaded.config.checks.negative_data_rejection
    refused.expected_statuses = [*refused.expected_statuses, "414", "431"]
    return loaded


def test_the_description_names_all_endpoints(schema: schemathesis.BaseSchema) -> None:
    assert set(schema.raw_schema["paths"]) == set(OPERATIONS)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", OPERATIONS)
def test_every_answer_is_as_described_whatever_is_asked(
    schema: schemathesis.BaseSchema, api: OpenApi, path: str, mode: GenerationMode
) -> None:
    @settings(
        max_examples=in_full(30, 10),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType] - its metaclass iterates
    )
    @given(case=schema[path]["GET"].as_strategy(generation_mode=mode), known=st.data())
    def asks(case: schemathesis.Case[Any], known: st.DataObject) -> None:
        # Half of them about what is there.
        if (
            mode is GenerationMode.POSITIVE
            and "trace_id" in case.path_parameters
            and known.draw(st.booleans())
        ):
            case.path_parameters["trace_id"] = TRACE["id"]
            for name in KNOWN.keys() & case.path_parameters.keys():
                case.path_parameters[name] = known.draw(st.sampled_from(KNOWN[name]))
        # A rule between two parameters, which a description cannot express: only one of these is given.
        assume(not {"goal_id", "number"} <= (case.query or {}).keys())
        # Of a list in a query the last item counts, and an empty one is not sent: what is wrong in it may not arrive.
        assume(not any(isinstance(value, list | dict) for value in (case.query or {}).values()))
        case.call_and_validate(headers={"Authorization": f"Bearer {api.token}"})

    asks()
