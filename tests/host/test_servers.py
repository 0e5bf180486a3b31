"""What the host knows of a server: its listing, how long that counts, and what is the matter with it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError
from skillquay.host.budgets import Budgets
from skillquay.host.configuration import HttpServer, StdioServer
from skillquay.host.listing import Received
from skillquay.host.servers import SkillServer, given_server
from tests.core.builders import publish
from tests.host.scripted import PATIENT, Scripted, failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio

SKILL = publish({"a.md": b"alpha"})


@asynccontextmanager
async def known(scripted: Scripted, budgets: Budgets = PATIENT) -> AsyncIterator[SkillServer]:
    async with anyio.create_task_group() as tasks:
        label = ServerLabel(label="acme", scope="tests")
        server = SkillServer(label, scripted.server, tasks=tasks, budgets=budgets)
        yield server
        await server.connection.closed()


def is_stale(server: SkillServer) -> bool:
    return server.is_stale


def told(server: SkillServer) -> list[str]:
    return [problem.rule for problem in server.problems]


@pytest.mark.rule("L6")
async def test_a_listing_counts_as_long_as_its_shortest_page() -> None:
    scripted = Scripted(SKILL)
    async with known(scripted) as server:
        assert is_stale(server)
        await server.discover()
        assert not is_stale(server)
        server.connection.changed = True
        assert is_stale(server)
        first = {"skills": scripted.entries, "ttlMs": 60_000, "nextCursor": "2"}
        pages: Iterator[dict[str, Any]] = iter([first, {"skills": []}])
        scripted.on["skills/list"] = lambda _: next(pages)
        await server.discover()
        assert not is_stale(server), "the second page has no entries, so none of them ends with it"
        other = publish(at="skill://other").entry.to_json()
        pages = iter([first, {"skills": [other]}])
        await server.discover()
        assert is_stale(server)
        assert len(server.skills) == 2


@pytest.mark.rule("L4")
@pytest.mark.rule("L6")
async def test_a_listing_that_hit_a_bound_is_told_of_and_never_counts_as_current() -> None:
    scripted = Scripted(SKILL, publish(at="skill://other"))
    async with known(scripted, Budgets(discovery=30, call=30, entries=1)) as server:
        await server.discover()
        assert [entry.entry.name for entry in server.skills.values()] == ["refunds"]
        assert told(server) == ["L4"]
        assert "more than 1 skills" in server.problems[0].message
        assert is_stale(server)


@pytest.mark.rule("B2")
@pytest.mark.rule("L3")
async def test_pages_that_came_before_the_deadline_are_used() -> None:
    scripted = Scripted(SKILL)

    async def slowly(params: Any) -> dict[str, Any]:
        if "cursor" in params:
            await anyio.sleep_forever()
        return {"skills": scripted.entries, "ttlMs": 60_000, "nextCursor": "2"}

    scripted.on["skills/list"] = slowly
    async with known(scripted, Budgets(discovery=1, call=30)) as server:
        await server.discover()
        assert len(server.skills) == 1
        assert told(server) == ["B2", "L3"]
        assert is_stale(server)


@pytest.mark.rule("B2")
async def test_a_server_that_recovers_is_listed_and_its_problems_are_gone() -> None:
    scripted = Scripted(SKILL)
    scripted.on["skills/list"] = lambda _: (_ for _ in ()).throw(failure(-32603, "busy"))
    async with known(scripted) as server:
        await server.discover()
        assert (len(server.skills), told(server)) == (0, ["B2"])
        assert server.declares_skills
        scripted.on.clear()
        await server.discover()
        assert (len(server.skills), told(server)) == (1, [])


@pytest.mark.rule("N1")
def test_a_server_given_in_code_is_known_by_what_it_was_given_as_without_its_secrets() -> None:
    targets: list[Any] = [
        "https://example.com/mcp?token=SECRET",
        "HTTP://example.com/mcp",
        ["program", "--token", "SECRET"],
        ("program",),
        StdioServer(command="program", args=("other",)),
        StdioServer(command="program", args=("other",), cwd="/somewhere"),
        HttpServer(url="https://example.com/other"),
        MCPServer("anything"),
        Scripted().server,
    ]
    labels = [given_server("acme", target)[0] for target in targets]
    assert len(set(labels)) == len(targets) - 1, "servers in this process share a scope"
    assert all(label.label == "acme" for label in labels)
    assert "SECRET" not in str([label.scope for label in labels])
    assert labels == [given_server("acme", target)[0] for target in targets]


@pytest.mark.parametrize("target", ["http://[x]/", "https://[::1/mcp", HttpServer(url="http://[x]/")], ids=str)
def test_a_server_given_with_a_url_that_is_none_is_a_mistake_of_the_configuration(target: object) -> None:
    with pytest.raises(ConfigurationError, match='The URL of the server "acme"'):
        given_server("acme", target)


@pytest.mark.rule("L4")
@pytest.mark.rule("L3")
async def test_skills_that_are_not_listed_are_kept_within_the_bound_and_the_oldest_leave() -> None:
    def hold(*names: str) -> list[str]:
        for name in names:
            server.hold(Received(entry=publish(at=f"skill://{name}").entry, expires=0.0))
        return [received.entry.name for received in server.skills.values()]

    async with known(Scripted(SKILL, publish(at="skill://b")), Budgets(discovery=30, call=30, entries=4)) as server:
        await server.discover()
        assert hold("one", "two") == ["refunds", "b", "one", "two"]
        assert hold("one", "refunds", "three") == ["refunds", "b", "one", "three"], "two was asked for longest ago"
        await server.discover()
        assert hold() == ["refunds", "b"]
        assert hold("four", "five", "six") == ["refunds", "b", "five", "six"]
    async with known(Scripted(SKILL), Budgets(discovery=30, call=30, entries=1)) as server:
        await server.discover()
        assert hold("one", "two") == ["refunds", "two"], "the one that was asked for last can be loaded in any case"


async def test_a_server_knows_what_it_was_configured_as() -> None:
    scripted = Scripted(SKILL)
    async with known(scripted) as server:
        assert server.target is scripted.server
