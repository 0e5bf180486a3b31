"""What the SDK leaves out is heard over every transport: capabilities and notices that it does not know (I7)."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import uvicorn
from mcp.client._memory import InMemoryTransport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from skillquay.core.drafts import Dialect
from skillquay.host.configuration import StdioServer
from skillquay.host.overhearing import overheard
from skillquay.wire.index_json import INDEX_URI
from tests.core.builders import publish
from tests.host.scripted import EXTENSION, PATIENT, Person, Scripted, hosting, of_draft
from tests.server.asking import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from skillquay.host.host import SkillHost

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
SKILL = publish({"a.md": b"the word is heron"})
FILES = {str(SKILL.uri(path)): data for path, data in SKILL.files.items()}
FRONT = dict(SKILL.entry.frontmatter)
MAY = {"skills": [{"type": "skill-md", **FRONT, "url": str(SKILL.entry.uri)}]}
LISTED = [*FILES, str(INDEX_URI)]
CHANGED = "notifications/skills/list_changed"

CAPABILITIES: dict[str, tuple[dict[str, Any], Dialect | None]] = {
    "extension": ({"resources": {}, "extensions": {EXTENSION: {}}}, Dialect.MAY),
    "experimental": ({"resources": {}, "experimental": {EXTENSION: {}}}, Dialect.MAY),
    "skills": ({"resources": {}, "skills": {"listChanged": True}}, Dialect.PRIMITIVE),
    "skills and another extension": ({"skills": {}, "extensions": {"com.example/x": {}}}, Dialect.PRIMITIVE),
    "resources": ({"resources": {}}, Dialect.MAY),
    "nothing": ({}, None),
}


@pytest.fixture(params=["auto", "legacy"])
def handshake(request: pytest.FixtureRequest) -> str:
    """Each era in turn."""
    chosen: str = request.param
    return chosen


def speaking(announces: dict[str, Any]) -> Scripted:
    """A server that knows SEP-2076 where it declares that, and else the index."""
    server = of_draft(FILES, index=MAY, announces=announces, listed=LISTED)
    if "skills" in announces:
        server.on["skills/list"] = lambda _: {"skills": [FRONT]}
        server.on["skills/get"] = lambda _: {**FRONT, "instructions": "Refund politely.", "files": []}
    return server


async def check(host: SkillHost, dialect: Dialect | None) -> None:
    """The host found out what the server speaks, and can use it."""
    assert host.problems == ()
    assert host.server_named("acme").dialects.spoken.dialect is dialect
    if dialect is not None:
        assert "Refund politely." in await host.read_skill("refunds")


# Each transport, both eras


@contextmanager
def over_http(server: Scripted) -> Iterator[str]:
    """Serve on a real socket, from a thread."""
    config = uvicorn.Config(server.server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        deadline = time.monotonic() + PATIENCE
        while not running.started:
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "it does not end"


@pytest.mark.rule("I7", "I11")
@pytest.mark.parametrize(("announces", "dialect"), CAPABILITIES.values(), ids=CAPABILITIES)
async def test_what_a_server_announces_is_heard_over_http(
    tmp_path: Path, handshake: str, announces: dict[str, Any], dialect: Dialect | None
) -> None:
    with over_http(speaking(announces)) as url:
        async with hosting(tmp_path, {"acme": url}, Person(), handshake=handshake) as host:
            await check(host, dialect)


# It answers from a table in a file, by the method and the URI it is asked about.
STDIO = """
import json, sys
told = json.load(open(sys.argv[1]))
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    request = json.loads(line)
    method, params = request.get("method"), request.get("params", {})
    key = method + " " + params["uri"] if "uri" in params else method
    if "id" not in request:
        continue
    if key not in told:
        send(id=request["id"], error={"code": -32602 if "uri" in params else -32601, "message": "There is none"})
    elif told[key] == "100 MB":
        sys.stdout.write('{"jsonrpc": "2.0", "id": %s, "result": {"contents": [{"uri": "x", "text": "' % request["id"])
        for _ in range(1600):
            sys.stdout.write("x" * 65536)
        sys.stdout.write('"}]}}\\n')
        sys.stdout.flush()
    else:
        send(id=request["id"], result=told[key])
    if key in told.get("notices", {}):
        send(method=told["notices"][key])
"""


def stdio_server(place: Path, announces: dict[str, Any], era: str, **more: Any) -> StdioServer:
    """A process that says what `speaking` says."""
    said = {"capabilities": announces, "serverInfo": {"name": "odd", "version": "1"}}
    told: dict[str, Any] = {"initialize": {"protocolVersion": "2025-11-25", **said}}
    if era == "auto":
        told = {"server/discover": {"supportedVersions": [MODERN], **said}}
    files = {**{uri: data.decode() for uri, data in FILES.items()}, str(INDEX_URI): json.dumps(MAY)}
    told |= {f"resources/read {uri}": {"contents": [{"uri": uri, "text": text}]} for uri, text in files.items()}
    told["resources/list"] = {"resources": [{"uri": uri, "name": "x"} for uri in LISTED]}
    if "skills" in announces:
        told["skills/list"] = {"skills": [FRONT]}
        told["skills/get"] = {**FRONT, "instructions": "Refund politely.", "files": []}
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    told = {key: {**complete, **answer} for key, answer in told.items()} | more
    script, answers = place / "server.py", place / "told.json"
    script.write_text(STDIO, encoding="utf-8")
    answers.write_text(json.dumps(told), encoding="utf-8")
    return StdioServer(command=sys.executable, args=(str(script), str(answers)))


@pytest.mark.rule("I7", "I11")
@pytest.mark.parametrize("name", ["experimental", "skills", "nothing"])
async def test_what_a_server_announces_is_heard_over_pipes(tmp_path: Path, handshake: str, name: str) -> None:
    announces, dialect = CAPABILITIES[name]
    server = stdio_server(tmp_path, announces, handshake)
    async with hosting(tmp_path, {"acme": server}, Person(), handshake=handshake) as host:
        await check(host, dialect)


@pytest.mark.rule("I7", "I11")
@pytest.mark.parametrize(("announces", "dialect"), CAPABILITIES.values(), ids=CAPABILITIES)
async def test_what_a_server_in_this_process_announces_is_known(
    tmp_path: Path, handshake: str, announces: dict[str, Any], dialect: Dialect | None
) -> None:
    async with hosting(tmp_path, {"acme": speaking(announces)}, Person(), handshake=handshake) as host:
        await check(host, dialect)


# B1: an index without end


@pytest.mark.rule("B1", "I1")
async def test_an_index_of_100_megabytes_is_cut_off_and_the_other_servers_work(tmp_path: Path) -> None:
    announces, _ = CAPABILITIES["extension"]
    server = stdio_server(tmp_path, announces, "legacy", **{f"resources/read {INDEX_URI}": "100 MB"})
    other = of_draft(FILES, index=MAY)
    async with hosting(tmp_path, {"acme": server, "other": other}, Person(), handshake="legacy") as host:
        (problem,) = host.problems
        assert problem.subject == 'server "acme"'
        assert f"{2 * PATIENT.page_bytes:,}" in problem.message
        assert [skill.origin for skill in host.skills] == ["MCP server other"]
        assert "Refund politely." in await host.read_skill("refunds")


# Notices


@pytest.mark.rule("I7", "L6")
async def test_a_notice_that_the_sdk_does_not_know_ends_what_was_listed(tmp_path: Path) -> None:
    announces, _ = CAPABILITIES["skills"]
    lasting = {"skills": [FRONT], "ttlMs": 3_600_000}
    told = {"skills/list": lasting, "notices": {"skills/get": CHANGED}}
    async with hosting(
        tmp_path, {"acme": stdio_server(tmp_path, announces, "legacy", **told)}, Person(), handshake="legacy"
    ) as host:
        server = host.server_named("acme")
        assert not server.is_stale
        await host.read_skill("refunds")
        await until(lambda: server.is_stale, "the notice arrives")
        await host.refresh()
        assert not server.is_stale


async def test_messages_are_told_and_passed_on_unchanged() -> None:
    heard: list[object] = []
    transport = overheard(InMemoryTransport(Scripted(SKILL).server), heard.append)
    request = JSONRPCRequest(jsonrpc="2.0", id=1, method="ping", params={})
    async with transport as (read, write):
        for each in (1, 2):
            await write.send(SessionMessage(request.model_copy(update={"id": each})))
        with anyio.fail_after(PATIENCE):
            first = await read.receive()
            second = await anext(aiter(read))
        assert [first.message, second.message] == heard
        assert [message.id for message in heard] == [1, 2]  # type: ignore[attr-defined]


@pytest.mark.rule("I11")
async def test_only_the_handshake_announces_anything(tmp_path: Path) -> None:
    server = of_draft({"acme://x": b"x"}, announces={})
    server.on["resources/read"] = lambda params: {**server._resources_read(params), "capabilities": {"skills": {}}}
    async with hosting(tmp_path, {"acme": server}, handshake="legacy") as host:
        await host.read_resource("acme", "acme://x")
        await host.refresh(anew=True)
        assert host.server_named("acme").connection.announced == {}
        assert server.count("skills/list") == 0
