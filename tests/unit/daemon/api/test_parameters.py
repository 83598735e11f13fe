"""How the endpoints are asked: parameters without a value, values that are not possible, whole addresses."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from daemon.api.address import OpenApi
from daemon.api.routes import without_empty
from tests.support.drivers.core import daemon
from tests.support.drivers.trace_api import client_of, get

Api = tuple[httpx.AsyncClient, OpenApi, str]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with daemon(tmp_path, "ok") as bench:
        session = bench.session()
        await session.prompt("go")
        found = await bench.api.open(0)
        async with client_of(found) as client:
            yield client, found, session.session_id


@pytest.mark.parametrize(
    "query", ["goal_id=1&number=2", "goal_id=1&without_goal=true", "number=1&internal_goal_id=1"]
)
async def test_messages_of_two_goals_at_once_are_refused(api: Api, query: str) -> None:
    client, _, trace_id = api
    answer = await client.get(f"/api/traces/{trace_id}/messages?{query}")
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("name different messages: give one of them.")


async def test_parameter_without_a_value_counts_as_missing(api: Api) -> None:
    client, _, trace_id = api
    paths = (await client.get("/openapi.json")).json()["paths"]
    checked = 0
    for path, operations in paths.items():
        place = path.format(trace_id=trace_id, step_id="root", branch_id="A")
        plain = await client.get(place)
        for parameter in operations["get"].get("parameters", ()):
            if parameter["in"] == "query":
                for spelling in (f"{parameter['name']}=", parameter["name"]):
                    asked = await client.get(f"{place}?{spelling}")
                    assert (asked.status_code, asked.json()) == (plain.status_code, plain.json()), spelling
                checked += 1
    assert checked > 20


def test_parameters_without_a_value_are_removed_from_the_query() -> None:
    assert without_empty(b"role=&limit=5&q&a=b==&&since=") == b"limit=5&a=b=="


@pytest.mark.parametrize("status", ["done", "idle,done", "idle,", ",", "^"])
async def test_invalid_status_error_lists_the_valid_ones(api: Api, status: str) -> None:
    client, _, _ = api
    answer = await client.get("/api/traces", params={"status": status})
    detail = answer.json()["detail"]
    assert answer.status_code == 422
    assert "idle, running, waiting, completed, failed, canceled" in detail
    assert "(" not in detail and "^(" not in detail


async def test_several_statuses_can_be_requested(api: Api) -> None:
    client, _, trace_id = api
    answer = await client.get("/api/traces?status=failed,completed")
    assert [trace["trace_id"] for trace in answer.json()["traces"]] == [trace_id]
    assert (await client.get("/api/traces?status=failed")).json()["traces"] == []


async def test_absolute_request_target_is_served_only_for_our_host(api: Api) -> None:
    _, found, trace_id = api
    port = int(found.url.rpartition(":")[2])
    bearer = f"Authorization: Bearer {found.token}"
    for own in (found.url, f"HTTP://localhost:{port}"):
        answer = await get(port, f"{own}/api/traces?limit=1", bearer)
        assert answer.status == 200
        assert json.loads(answer.body)["traces"][0]["trace_id"] == trace_id
        assert (await get(port, f"{own}?token={found.token}")).status == 200
        assert (await get(port, f"{own}/api/traces")).status == 401
        assert (await get(port, f"{own}/api/traces", bearer, host="evil.example")).status == 403
    for foreign in (
        "http://evil.example",
        f"http://evil.example:{port}",
        f"http://127.0.0.1:{port}@evil.example",
        "http://",
    ):
        assert (await get(port, f"{foreign}/api/traces", bearer)).status in (400, 403), foreign
