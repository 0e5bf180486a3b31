"""Skills beside what the author of a server serves: neither stands in the other's way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    EmptyResult,
    ListResourcesResult,
    PaginatedRequestParams,
    Resource,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from skillquay.server.app import make_server
from tests.server.asking import MODERN, OLDER, asking, write_skill

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from skillquay.server.extension import Skills
    from tests.server.conftest import Publish

pytestmark = pytest.mark.anyio


@pytest.fixture
def skills(tmp_path: Path, publish: Publish) -> Skills:
    write_skill(tmp_path, "refunds", {"a.md": b"a"})
    return publish(tmp_path)


def server_of(skills: Skills, **options: Any) -> MCPServer:
    mcp = MCPServer(
        "acme",
        extensions=[skills],
        middleware=[skills.middleware],
        subscriptions=skills.subscriptions,
        **options,
    )

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}."

    @mcp.resource("config://settings")
    def settings() -> str:
        return "theme: dark"

    @mcp.resource("skill://author/own.md")
    def own() -> str:
        return "the author's"

    @mcp.resource("config://broken")
    def broken() -> str:
        raise RuntimeError("a secret of the author's")

    @mcp.resource("config://refused")
    def refused() -> str:
        raise MCPError(code=-32042, message="the author's own words", data={"x": 1})

    @mcp.resource("echo://{text}")
    def echo(text: str) -> str:
        return text

    return mcp


@pytest.mark.rule("C2")
async def test_tools_prompts_and_resources_of_the_author_work_as_before(skills: Skills, version: str) -> None:
    async with asking(server_of(skills), version) as asker:
        sum_of = await asker.ask("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
        assert sum_of["content"][0]["text"] == "5"
        prompt = await asker.ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        assert prompt["messages"][0]["content"]["text"] == "Greet Ada."
        assert await asker.text("config://settings") == "theme: dark"
        assert await asker.text("skill://author/own.md") == "the author's"
        assert await asker.text("echo://hello") == "hello"
        assert (await asker.text("skill://refunds/SKILL.md")).endswith("Do refunds.\n")
        assert [tool["name"] for tool in await asker.listing("tools/list", "tools")] == ["add"]


async def test_the_authors_resources_are_listed_first(skills: Skills, version: str) -> None:
    async with asking(server_of(skills), version) as asker:
        uris = [each["uri"] for each in await asker.listing("resources/list", "resources")]
    assert uris[-2:] == ["skill://index.json", "skill://refunds/SKILL.md"]
    assert set(uris[:-2]) == {"config://settings", "config://broken", "config://refused", "skill://author/own.md"}


@pytest.mark.rule("R1", "B3")
async def test_the_authors_errors_are_the_same_with_and_without_skills(skills: Skills, version: str) -> None:
    plain = MCPServer("acme")
    for uri in ("config://broken", "config://refused"):
        resource = server_of(skills)._resource_manager._resources[uri]
        plain.add_resource(resource)
    for uri in ("config://broken", "config://refused", "config://unknown", "nonsense", ""):
        async with asking(plain, version) as asker:
            without = await asker.refusal("resources/read", {"uri": uri})
        async with asking(server_of(skills), version) as asker:
            beside = await asker.refusal("resources/read", {"uri": uri})
        assert (beside.code, beside.message, beside.data) == (without.code, without.message, without.data)


@pytest.mark.rule("R1")
async def test_an_unknown_uri_of_a_skill_is_refused_as_on_a_server_of_nothing_else(
    skills: Skills, version: str
) -> None:
    async with asking(server_of(skills), version) as asker:
        for uri in ("skill://refunds/gone.md", "skill://refunds/../secret", "Skill:x", "skill://" + "x" * 1_000_000):
            refusal = await asker.refusal("resources/read", {"uri": uri})
            assert refusal.code == (-32602 if version == MODERN else -32002)
            assert refusal.message.startswith("No resource is served at ")


@pytest.mark.rule("B3")
async def test_a_long_uri_of_the_authors_is_the_authors_and_an_unknown_one_is_not_echoed(
    skills: Skills, version: str
) -> None:
    text = "x" * 10_000
    async with asking(server_of(skills), version) as asker:
        assert await asker.text(f"echo://{text}") == text
        refusal = await asker.refusal("resources/read", {"uri": f"other://{text * 100}"})
        assert refusal.code == (-32602 if version == MODERN else -32002)


@pytest.mark.rule("L2")
@pytest.mark.parametrize(
    ("hint", "ours", "expected"),
    [
        (None, {}, (0, "private")),
        (CacheHint(ttl_ms=90_000, scope="public"), {}, (60_000, "public")),
        (CacheHint(ttl_ms=5_000, scope="public"), {}, (5_000, "public")),
        (CacheHint(ttl_ms=90_000, scope="private"), {}, (60_000, "private")),
        (CacheHint(ttl_ms=90_000, scope="public"), {"private": True}, (60_000, "private")),
        (CacheHint(ttl_ms=90_000, scope="public"), {"ttl": 0}, (0, "public")),
    ],
)
async def test_a_page_of_both_is_kept_no_longer_and_shown_to_no_more_people_than_either_allows(
    tmp_path: Path, publish: Publish, hint: CacheHint | None, ours: dict[str, Any], expected: tuple[int, str]
) -> None:
    write_skill(tmp_path, "refunds")
    hints = {} if hint is None else {"resources/list": hint}
    async with asking(server_of(publish(tmp_path, **ours), cache_hints=hints), MODERN) as asker:
        page = await asker.ask("resources/list")
        assert (page["ttlMs"], page["cacheScope"]) == expected


class Paged:
    """A low-level server with pages and subscriptions of its own."""

    def __init__(self, skills: Skills) -> None:
        self.server: Server[Any] = Server("acme", on_list_resources=self.list)
        self.server.add_request_handler("resources/subscribe", SubscribeRequestParams, self.subscribe)
        self.server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribe)
        self.subscribed: list[str] = []
        skills.install(self.server)

    async def list(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        number = int(params.cursor) if params and params.cursor else 0
        resource = Resource(uri=f"config://{number}", name=str(number))
        return ListResourcesResult(resources=[resource], next_cursor=str(number + 1) if number < 2 else None)

    async def subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        if str(params.uri) == "config://closed":
            raise MCPError(code=-32042, message="the author's own words")
        self.subscribed.append(str(params.uri))
        return EmptyResult()

    async def unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        self.subscribed.remove(str(params.uri))
        return EmptyResult()


@pytest.mark.rule("L1")
async def test_the_authors_pages_come_first_then_those_of_the_skills(
    tmp_path: Path, publish: Publish, version: str
) -> None:
    for number in range(3):
        write_skill(tmp_path, f"s{number}")
    server = Paged(publish(tmp_path, page_size=1)).server
    async with asking(server, version) as asker:
        uris = [each["uri"] for each in await asker.listing("resources/list", "resources")]
    assert uris == [
        *(f"config://{number}" for number in range(3)),
        "skill://index.json",
        *(f"skill://s{number}/SKILL.md" for number in range(3)),
    ]


@pytest.mark.rule("I10")
@pytest.mark.parametrize("version", OLDER)
async def test_subscriptions_to_the_authors_resources_are_the_authors(skills: Skills, version: str) -> None:
    beside = Paged(skills)
    async with asking(beside.server, version) as asker:
        for uri in ("config://1", "skill://refunds/SKILL.md", "skill://nobody/SKILL.md"):
            await asker.ask("resources/subscribe", {"uri": uri})
        assert beside.subscribed == ["config://1", "skill://nobody/SKILL.md"]
        refusal = await asker.refusal("resources/subscribe", {"uri": "config://closed"})
        assert (refusal.code, refusal.message) == (-32042, "the author's own words")
        for uri in ("config://1", "skill://refunds/SKILL.md", "skill://nobody/SKILL.md"):
            await asker.ask("resources/unsubscribe", {"uri": uri})
        assert beside.subscribed == []


async def test_an_author_may_bring_a_listen_handler_and_a_bus_of_their_own(tmp_path: Path, publish: Publish) -> None:
    from mcp.client.subscriptions import ResourcesListChanged
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

    write_skill(tmp_path, "refunds")
    bus = InMemorySubscriptionBus()
    skills = publish(tmp_path, watch=True, subscriptions=bus)
    server: Server[Any] = Server("acme", on_subscriptions_listen=ListenHandler(bus))
    skills.install(server)
    async with asking(server, MODERN) as asker:
        assert await asker.skills() == ["skill://refunds/SKILL.md"]
        assert asker.client is not None
        async with asker.client.listen(resources_list_changed=True) as listening:
            write_skill(tmp_path, "more")
            with anyio.fail_after(20):
                assert await anext(listening) == ResourcesListChanged()


async def test_a_file_is_read_even_where_a_middleware_keeps_the_server_from_being_discovered(
    tmp_path: Path, publish: Publish
) -> None:
    """Which server answers is asked of the server itself, and is only a courtesy."""

    async def secretive(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "server/discover" and is_secret:
            raise MCPError(code=-32042, message="Not today.")
        return await call_next(ctx)

    is_secret = False
    write_skill(tmp_path, "refunds", {"a.md": b"a"})
    skills = publish(tmp_path)
    server = MCPServer(
        "acme", extensions=[skills], middleware=[skills.middleware, secretive], subscriptions=skills.subscriptions
    )
    async with asking(server, MODERN) as asker:
        is_secret = True
        result = await asker.ask("resources/read", {"uri": "skill://refunds/a.md"})
        assert result["contents"][0]["text"] == "a"
        assert "_meta" not in result
        is_secret = False
        result = await asker.ask("resources/read", {"uri": "skill://refunds/a.md"})
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "acme"


async def test_one_set_of_skills_may_be_served_by_two_servers_under_their_own_names(
    skills: Skills, version: str
) -> None:
    async with asking(make_server("one", skills), version) as one, asking(make_server("two", skills), version) as two:
        for _ in range(2):
            for asker, name in ((one, "one"), (two, "two")):
                assert len(await asker.skills()) == 1
                result = await asker.ask("resources/read", {"uri": "skill://refunds/a.md"})
                if version == MODERN:
                    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == name


async def test_two_extensions_of_one_kind_are_refused_by_the_sdk(skills: Skills, publish: Publish) -> None:
    with pytest.raises(ValueError, match="already registered"):
        MCPServer("acme", extensions=[skills, publish()])
