"""Any request over the SDK's session: what cannot be sent fails alone, over every transport."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client

from skillquay.core.identity import ServerLabel
from skillquay.errors import UnavailableError
from skillquay.host.asking import SdkRequester
from skillquay.host.configuration import HttpServer, StdioServer
from skillquay.host.connection import Connection
from tests.host.scripted import PATIENT, Scripted
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

SKILLS = Path(__file__).parent.parent.parent / "examples" / "skills"


@asynccontextmanager
async def connected(transport: str) -> AsyncIterator[Connection]:
    async with anyio.create_task_group() as tasks:
        label = ServerLabel(label="acme", scope="tests")
        if transport == "stdio":
            command = StdioServer(command=sys.executable, args=("-m", "skillquay", "serve", str(SKILLS), "--stdio"))
            connection = Connection(label, command, tasks=tasks, budgets=PATIENT)
            yield connection
            await connection.closed()
        else:
            with serve(SKILLS) as serving:
                connection = Connection(label, HttpServer(url=serving.url), tasks=tasks, budgets=PATIENT)
                yield connection
                await connection.closed()


@pytest.mark.rule("B2")
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_half_of_a_character_fails_its_request_and_not_the_connection(transport: str) -> None:
    bad: list[dict[str, Any]] = [{"name": "t", "arguments": {"a": "\ud800"}}, {"name": "t", "a": [{"\udfff": 1}]}]
    async with connected(transport) as connection:
        client = await connection.connect()
        for params in bad:
            with pytest.raises(UnavailableError, match="tools/call was not asked: half of a character"):
                await connection.request("tools/call", params, cap=1000)
        assert (await connection.request("skills/list", {}, cap=1_000_000))["skills"]
        assert await connection.connect() is client, "it was never lost"


@pytest.mark.rule("B2")
async def test_the_client_of_the_sdk_is_not_asked_either() -> None:
    async with Client(Scripted().server) as client:
        with pytest.raises(UnavailableError, match="Ask without it"):
            await SdkRequester(client).request("odd/ask", {"x": "\ud800"}, cap=1000)
