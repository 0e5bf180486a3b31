"""The publisher speaks MCP in both eras, notes what it is asked, and ends when it is told, whatever it was doing."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import mcp_types as types
import pytest
from mcp import Client, MCPError
from pydantic import TypeAdapter

from skillquay.testing import Publisher
from skillquay.testing.publisher import CEILING, MODERN, OLDER, Failure, Raw
from skillquay.testing.skills import make_skill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.testing.publisher import Reply, Request

pytestmark = pytest.mark.anyio

ANY = TypeAdapter(dict[str, Any])
SKILL = make_skill(files={"templates/invoice.md": b"invoice\n", "flag.bin": b"\xff\x00"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def ask(client: Client, method: str, **params: object) -> dict[str, Any]:
    request = types.Request[dict[str, Any], str](method=method, params=params)
    answer: dict[str, Any] = await client.session.send_request(request, ANY)  # type: ignore[type-var]
    return answer


@pytest.mark.parametrize(
    ("mode", "versions", "spoken"),
    [
        ("auto", (MODERN, OLDER), MODERN),
        ("legacy", (MODERN, OLDER), OLDER),
        ("auto", (OLDER,), OLDER),
        ("auto", (MODERN,), MODERN),
    ],
)
async def test_the_client_of_the_sdk_finds_an_honest_server(mode: str, versions: tuple[str, ...], spoken: str) -> None:
    publisher = Publisher(SKILL, versions=versions, extension={"directoryRead": True}, instructions="Be kind.")
    with publisher.serving() as url:
        async with Client(url, mode=mode) as client:
            assert client.protocol_version == spoken
            assert client.instructions == "Be kind."
            listed = await ask(client, "skills/list")
            assert listed["skills"] == [SKILL.entry()]
            assert ("ttlMs" in listed) == ("resultType" in listed) == (spoken == MODERN)
            assert (await ask(client, "skills/get", uri=SKILL.uri))["skill"] == SKILL.entry()
            (text,) = (await client.read_resource(SKILL.uri)).contents
            assert isinstance(text, types.TextResourceContents)
            assert text.text.encode() == SKILL.files["SKILL.md"]
            (blob,) = (await client.read_resource(SKILL.uri_of("flag.bin"))).contents
            assert isinstance(blob, types.BlobResourceContents)
            children = (await ask(client, "resources/directory/read", uri=SKILL.root))["resources"]
            kinds = {child["uri"]: child["mimeType"] for child in children}
            assert kinds[SKILL.uri_of("templates")] == "inode/directory"
            for method in ("skills/get", "resources/read", "resources/directory/read"):
                with pytest.raises(MCPError) as failure:
                    await ask(client, method, uri="skill://nowhere/SKILL.md")
                assert failure.value.code == -32602
            with pytest.raises(MCPError) as failure:
                await ask(client, "skills/unheard-of")
            assert failure.value.code == -32601
    assert publisher.count("skills/list") == 1
    assert publisher.reads == [SKILL.uri, SKILL.uri_of("flag.bin"), "skill://nowhere/SKILL.md"]
    assert publisher.faults == []


async def test_directories_cannot_be_read_where_that_is_not_declared() -> None:
    with Publisher(SKILL).serving() as url:
        async with Client(url) as client:
            with pytest.raises(MCPError) as failure:
                await ask(client, "resources/directory/read", uri=SKILL.root)
    assert failure.value.code == -32601


def post(url: str, body: Any, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("POST", "/mcp", body, headers, encode_chunked=headers.get("Transfer-Encoding") == "chunked")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_request_in_chunks_is_read_and_nonsense_is_turned_away() -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": "a", "method": "skills/list"}).encode()
    with Publisher(SKILL).serving() as url:
        status, answer = post(url, iter([message[:10], message[10:]]), **{"Transfer-Encoding": "chunked"})
        assert status == 200
        assert json.loads(answer) == {"jsonrpc": "2.0", "id": "a", "result": {"skills": [SKILL.entry()]}}
        assert post(url, b"]")[0] == 400
        assert post(url, b"[]")[0] == 400
        assert post(url, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')[0] == 202


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("DELETE", 200)])
def test_there_is_no_stream_to_get_and_no_session_to_end(method: str, status: int) -> None:
    with Publisher().serving() as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request(method, "/mcp")
        assert connection.getresponse().status == status
        connection.close()


def test_a_server_of_one_era_does_not_know_how_the_other_begins() -> None:
    for version, method in ((MODERN, "initialize"), (OLDER, "server/discover")):
        with Publisher(versions=(version,)).serving() as url:
            _, answer = post(url, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}))
        assert json.loads(answer)["error"]["code"] == -32601


def test_closing_releases_a_handler_that_hangs() -> None:
    hanging = threading.Event()

    def hang(request: Request) -> Reply:
        hanging.set()
        request.closing.wait()
        return Failure()

    publisher = Publisher(on={"skills/list": hang})

    def wait_for_an_answer(url: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            post(url, b'{"jsonrpc": "2.0", "id": 1, "method": "skills/list"}')

    with publisher.serving() as url:
        thread = threading.Thread(target=wait_for_an_answer, args=[url])
        thread.start()
        assert hanging.wait(20)
        assert thread.is_alive()
    thread.join(20)
    assert not thread.is_alive()


def test_an_endless_body_ends_when_the_host_hangs_up() -> None:
    ended = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"A" * 65536
        finally:
            ended.set()

    publisher = Publisher(on={"skills/list": lambda _: Raw(body=endless())})
    with publisher.serving() as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request("POST", "/mcp", b'{"jsonrpc": "2.0", "id": 1, "method": "skills/list"}')
        assert connection.getresponse().read(100_000) == b"A" * 100_000
        connection.close()
        deadline = time.monotonic() + 20
        while not ended.is_set():
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert 0 < publisher.sent < CEILING
    assert publisher.faults == []


def test_a_handler_that_fails_is_the_publishers_own_fault() -> None:
    def fail(_: Request) -> Reply:
        raise ZeroDivisionError

    publisher = Publisher(on={"skills/list": fail})
    with publisher.serving() as url, pytest.raises((OSError, http.client.HTTPException)):
        post(url, b'{"jsonrpc": "2.0", "id": 1, "method": "skills/list"}')
    (fault,) = publisher.faults
    assert "ZeroDivisionError" in fault


def test_the_program_in_the_document_lies(capsys: pytest.CaptureFixture[str]) -> None:
    document = Path(__file__).parent.parent.parent / "docs" / "testing.md"
    program = re.findall(r"^```py\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[-1]
    exec(compile(program.replace("    print(url)", "    lies(url)"), str(document), "exec"), {"lies": lies})
    assert capsys.readouterr().out == f"Something else.\n['{SKILL.uri}']\n"


def lies(url: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": SKILL.uri}}
    print(json.loads(post(url, json.dumps(message))[1])["result"]["contents"][0]["text"])
