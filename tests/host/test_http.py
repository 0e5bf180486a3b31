"""Servers over HTTP: what they may send, where requests go, and what a person is told when it does not work."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import sys
import threading
import time
import tracemalloc
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp_types import Request
from pydantic import RootModel, ValidationError

from skillquay.host import http
from skillquay.host.configuration import HttpServer
from skillquay.host.failures import Ending, describe
from skillquay.host.http import http_transport
from tests.host.servers.raw_http import Asked, head, json_answer, raw_server
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
MODERN = "2026-07-28"
ERAS = ["legacy", MODERN]
MIB = 1024 * 1024
PATIENCE = 60.0


class Anything(RootModel[dict[str, Any]]):
    pass


async def ask(client: Client, method: str = "odd/ask") -> dict[str, Any]:
    with anyio.fail_after(PATIENCE):
        return (await client.session.send_request(Request(method=method, params={}), Anything)).root


@asynccontextmanager
async def connected(
    url: str, ending: Ending, *, cap: int = MIB, mode: str = MODERN, **headers: str
) -> AsyncIterator[Client]:
    server = HttpServer(url=url, headers=headers)
    async with Client(http_transport(server, cap=lambda: cap, ending=ending), mode=mode) as client:
        yield client


async def failure(answer: Callable[[Asked], None], *, cap: int = MIB, mode: str = MODERN) -> str:
    """What a person is told of this answer. The next request to the same server must be as if nothing had been."""
    ending = Ending()
    with raw_server(answer) as server:
        async with connected(server.url, ending, cap=cap, mode=mode) as client:
            with pytest.raises(MCPError) as caught:
                await ask(client)
            assert await ask(client, "tests/fine") == {"text": "fine"}
    assert ending.error is None
    return describe(caught.value, ending)


def events(*each: str) -> bytes:
    return head(content_type="text/event-stream") + "".join(each).encode()


def result(asked: Asked, **content: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": content})


def self_signed(path: Path) -> Path:
    """A new key and a certificate for it, for 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem + certificate.public_bytes(Encoding.PEM))
    return path


async def until(holds: threading.Event) -> None:
    assert await anyio.to_thread.run_sync(holds.wait, PATIENCE)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_server_is_asked_in_both_eras(mode: str) -> None:
    with serve(ROOT / "examples" / "skills") as serving:
        ending = Ending()
        async with connected(serving.url, ending, mode=mode) as client:
            listing = await ask(client, "skills/list")
            uri = listing["skills"][0]["uri"]
            assert (await client.read_resource(uri)).contents
            with pytest.raises(MCPError) as caught:
                await ask(client, "no/such/method")
            assert describe(caught.value, ending).startswith("answers with error -32601: ")
    assert ending.reason is None


async def abandon(client: Client, reached: threading.Event) -> None:
    """Ask, and give up once the server has been reached."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, client)
        await until(reached)
        tasks.cancel_scope.cancel()


# B1: what it may send


@pytest.mark.rule("B1")
async def test_a_json_body_without_end_is_cut_at_the_cap_and_takes_no_more_memory() -> None:
    def answer(asked: Asked) -> None:
        asked.send(head(content_type="application/json", transfer_encoding="chunked"))
        asked.forever(asked.chunk(b'["' + b"a" * 50_000))

    tracemalloc.start()
    try:
        said = await failure(answer, cap=2 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said == "sent an answer of more than 2,097,152 bytes"
    assert peak < 12 * MIB


class SingleBytes(httpx2.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for byte in self._content:
            yield bytes([byte])


@pytest.mark.rule("B1")
@pytest.mark.parametrize(
    ("has_events", "content", "given_on"),
    [
        (False, b"\n" * 70_000, [65_536, 4_464]),
        (True, b"a" * 70_000, [65_536, 4_464]),
        (True, b"data: a\n\r\nid", [8, 1, 1, 2]),
    ],
)
async def test_single_bytes_are_not_given_on_one_by_one(
    content: bytes, given_on: list[int], *, has_events: bool
) -> None:
    stream = http._BoundedStream(SingleBytes(content), lambda: MIB, Ending(), has_events=has_events)
    parts = [part async for part in stream]
    assert b"".join(parts) == content
    assert [len(part) for part in parts] == given_on


@pytest.mark.rule("B1")
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_the_longest_event_counts_however_it_is_cut_into_pieces(step: int, end: str) -> None:
    content = "".join(f"data: {'a' * length}{end}{end}" for length in (3, 90, 5, 100, 0, 7)).encode()

    class Pieces(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(content), step):
                yield content[start : start + step]

    async def read(cap: int) -> bytes:
        stream = http._BoundedStream(Pieces(), lambda: cap, Ending(), has_events=True)
        return b"".join([part async for part in stream])

    assert await read(106 + 2 * len(end)) == content
    with pytest.raises(httpx2.SSEError, match="sent an answer of more than 105 bytes"):
        await read(105)


@pytest.mark.rule("B1")
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("endless", ["data: aaaaaaa", "data: aaaaaaa\n", ": comment\r\n", "id: 1\nretry: 0\ndata: a\r"])
async def test_an_event_without_end_is_cut_at_the_cap(endless: str, mode: str) -> None:
    def answer(asked: Asked) -> None:
        asked.send(events("event: message\nid: 7\n\n"))
        asked.forever(endless.encode() * 5_000)

    assert await failure(answer, mode=mode) == "sent an answer of more than 1,048,576 bytes"


@pytest.mark.rule("B1")
async def test_one_event_beyond_the_cap_is_refused_also_when_it_comes_at_once() -> None:
    def answer(asked: Asked) -> None:
        asked.send(events(": hello\n\n"))
        asked.send(f"data: {result(asked, text='a' * 2_000)}\n\n".encode())

    assert await failure(answer, cap=1_000) == "sent an answer of more than 1,000 bytes"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_a_stream_may_be_longer_than_the_cap_when_its_events_are_not(end: str) -> None:
    def answer(asked: Asked) -> None:
        asked.send(events(*(f": {number}{end}{end}" for number in range(1_000))))
        for byte in f"event: message{end}data: {result(asked, text='ok')}{end}{end}".encode():
            asked.send(bytes([byte]))

    with raw_server(answer) as server:
        async with connected(server.url, Ending(), cap=200) as client:
            assert await ask(client) == {"text": "ok"}


@pytest.mark.rule("B1")
async def test_nothing_is_inflated() -> None:
    bomb = gzip.compress(b"[" * 50 * MIB)

    def answer(asked: Asked) -> None:
        assert asked.headers["accept-encoding"] == "identity"
        length = str(len(bomb))
        asked.send(head(content_type="application/json", content_encoding="GZIP", content_length=length) + bomb)

    said = await failure(answer, cap=100 * MIB)
    assert said == 'answers in the encoding "gzip", which it was not asked for'


@pytest.mark.parametrize("charset", ["utf-16", "bz2", "zlib", "idna", "unicode_escape"])
async def test_no_codec_is_used_because_the_server_names_it(charset: str) -> None:
    def answer(asked: Asked) -> None:
        asked.send(head(content_type=f"text/event-stream; charset={charset}"))
        asked.send(f"data: {result(asked, text='é')}\n\n".encode())

    with raw_server(answer) as server:
        async with connected(server.url, Ending()) as client:
            assert await ask(client) == {"text": "é"}


@pytest.mark.rule("B1")
async def test_a_server_that_ends_its_streams_at_once_is_not_asked_for_ever() -> None:
    def answer(asked: Asked) -> None:
        asked.send(events(f"id: {len(server.asked)}\nretry: 0\ndata:\n\n"))

    ending = Ending()
    with raw_server(answer) as server:
        async with connected(server.url, ending) as client:
            with pytest.raises(MCPError) as caught:
                await ask(client)
        assert len(server.wanted("GET")) == 20
    assert describe(caught.value, ending) == "closed the connection"


@pytest.mark.rule("B1")
async def test_a_server_that_asks_without_taking_in_the_answers_is_left() -> None:
    def answer(asked: Asked) -> None:
        if "method" not in asked.message:
            asked.leave()
            return
        asked.send(head(content_type="text/event-stream"))
        for number in range(10_000):
            ping = {"jsonrpc": "2.0", "id": f"q{number}", "method": "ping"}
            asked.send(f"data: {json.dumps(ping)}\n\n".encode())
        asked.forever(b": still here\n\n", pause=0.01)

    ending = Ending()
    with raw_server(answer) as server:
        async with connected(server.url, ending, mode="legacy") as client:
            with pytest.raises(MCPError) as caught:
                await ask(client)
    assert describe(caught.value, ending) == "asks more than 100 questions without taking in the answers"


ASKING = """
import anyio, sys
from mcp import Client, MCPError
from tests.host.test_http import ask, connected, describe, Ending
async def main():
    ending = Ending()
    async with connected(sys.argv[1], ending) as client:
        try:
            await ask(client)
        except MCPError as error:
            print(describe(error, ending))
anyio.run(main)
"""


@pytest.mark.rule("B1")
async def test_what_a_server_sends_is_not_printed() -> None:
    def answer(asked: Asked) -> None:
        asked.send(events("event: \x1b[2J\ndata: x\n\n" * 10, "data: \x1b[2J{\n\n"))

    with raw_server(answer) as server:
        # In a process of its own, as pytest takes in whatever is logged.
        ran = await anyio.run_process([sys.executable, "-c", ASKING, server.url], cwd=ROOT, check=False)
    assert ran.stdout.decode() == "answers with something that is not a JSON-RPC message\n"
    assert b"\x1b" not in ran.stderr
    assert b"SSE" not in ran.stderr


# B2: deadlines


@pytest.mark.rule("B2")
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("begins", [True, False])
async def test_the_deadline_of_a_request_ends_a_slow_drip(kind: str, mode: str, *, begins: bool) -> None:
    def answer(asked: Asked) -> None:
        if asked.message.get("method") != "odd/ask":
            asked.send(head("202 Accepted", content_length="0"))
            return
        reached.set()
        if begins:
            asked.send(head(content_type=kind))
        asked.forever(b" " if begins else b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.02)
        hung_up.set()

    reached, hung_up = threading.Event(), threading.Event()
    with raw_server(answer) as server:
        async with connected(server.url, Ending(), mode=mode) as client:
            await abandon(client, reached)
            await until(hung_up)
            assert await ask(client, "tests/fine") == {"text": "fine"}


@pytest.mark.rule("B2")
async def test_a_server_that_does_not_take_in_a_notice_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_NOTICE", 0.2)
    monkeypatch.setattr(http, "_FAREWELL", 0.2)
    reached = threading.Event()

    def answer(asked: Asked) -> None:
        if asked.method == "DELETE":
            asked.send(head(content_type="application/json"))
        reached.set()
        asked.leave()

    with raw_server(answer, session="one") as server:
        async with connected(server.url, Ending(), mode="legacy") as client:
            await abandon(client, reached)
            assert await ask(client, "tests/fine") == {"text": "fine"}
            before = time.monotonic()
        assert time.monotonic() - before < PATIENCE
        assert len(server.wanted("notifications/cancelled")) == 1
        assert len(server.wanted("DELETE")) == 1


# Where requests go


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
async def test_a_redirect_to_another_origin_is_not_followed_and_takes_no_headers_there(status: str) -> None:
    def answer(asked: Asked) -> None:
        asked.send(head(status, location=elsewhere.url, content_length="0"))

    ending = Ending()
    with raw_server(lambda asked: None) as elsewhere, raw_server(answer) as server:
        async with connected(server.url, ending, authorization="Bearer a-secret") as client:
            with pytest.raises(MCPError) as caught:
                await ask(client)
        assert elsewhere.asked == []
        assert server.asked[-1].headers["authorization"] == "Bearer a-secret"
    assert describe(caught.value, ending) == (
        "redirects to another place, which is not followed; if it has moved, configure its new URL"
    )


async def test_a_redirect_within_the_origin_is_followed() -> None:
    def answer(asked: Asked) -> None:
        if asked.target == "/mcp":
            asked.send(head("307 Temporary", location="/mcp/", content_length="4") + b"there")
        else:
            asked.send(json_answer({"jsonrpc": "2.0", "id": asked.message["id"], "result": {"at": asked.target}}))

    with raw_server(answer) as server:
        async with connected(server.url, Ending(), x_team="red") as client:
            assert await ask(client) == {"at": "/mcp/"}
        assert [each.headers["x_team"] for each in server.asked] == ["red", "red"]


async def test_a_redirect_with_a_body_without_end_is_cut() -> None:
    def answer(asked: Asked) -> None:
        asked.send(head("307 Temporary", location="/mcp/", transfer_encoding="chunked"))
        asked.forever(asked.chunk(b"a" * 50_000))

    assert await failure(answer) == "sent an answer of more than 1,048,576 bytes"


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(lambda asked: None) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/mcp"))
        monkeypatch.setenv("no_proxy", "")
        async with connected("http://skills.example/mcp", Ending()) as client:
            assert await ask(client, "tests/fine") == {"text": "fine"}
        assert [each.target for each in proxy.asked] == ["http://skills.example/mcp"]


# What a person is told


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("401 Unauthorized", "answers with HTTP status 401: it wants credentials"),
        ("403 Forbidden", "answers with HTTP status 403: it does not let you in"),
        ("404 Not Found", "answers with HTTP status 404: there is no MCP server at this URL"),
        ("500 Oops", "answers with HTTP status 500"),
        ("304 Not Modified", "answers with HTTP status 304"),
        ("202 Accepted", "answers with HTTP status 202: it does not answer the request"),
        ("200 OK", 'answers with "text/html" instead of JSON: there may be no MCP server at this URL'),
    ],
)
@pytest.mark.parametrize("mode", ERAS)
async def test_an_answer_that_is_none_is_told_by_its_status(status: str, said: str, mode: str) -> None:
    def answer(asked: Asked) -> None:
        asked.send(head(status, content_type="text/html") + (b"" if "304" in status else b"<html>" * 1_000))

    assert await failure(answer, mode=mode) == said


@pytest.mark.parametrize("body", [b'{"detail": "no"}', b"[" * 100_000, b"\xff", b""])
@pytest.mark.parametrize("status", ["500 Oops", "200 OK"])
async def test_json_that_is_no_message_is_told(status: str, body: bytes) -> None:
    def answer(asked: Asked) -> None:
        asked.send(head(status, content_type="application/json", content_length=str(len(body))) + body)

    expected = (
        "answers with something that is not a JSON-RPC message" if "200" in status else "answers with HTTP status 500"
    )
    assert await failure(answer) == expected


async def test_an_error_of_the_server_is_told_in_short_whatever_its_status() -> None:
    def answer(asked: Asked) -> None:
        error = {"code": -32602, "message": "no \x1b[2J such " + "skill " * 100_000}
        asked.send(json_answer({"jsonrpc": "2.0", "id": None, "error": error}, "400 Bad Request"))

    said = await failure(answer)
    assert said.startswith('answers with error -32602: "no ⟨U+001B⟩[2J such skill skill')
    assert len(said) < 300


async def test_an_answer_that_breaks_off_is_told() -> None:
    def answer(asked: Asked) -> None:
        asked.send(head(content_type="application/json", content_length="1000") + b'{"jsonrpc": ')

    assert (await failure(answer)).startswith("broke off in the middle of its answer: ")


async def test_a_connection_that_is_closed_without_an_answer_is_told() -> None:
    assert (await failure(lambda asked: None)).startswith("broke off in the middle of its answer: ")


async def test_an_answer_that_is_not_http_is_told() -> None:
    said = await failure(lambda asked: asked.send(b"SSH-2.0-OpenSSH_9\r\n\r\n"))
    assert said.startswith("broke off in the middle of its answer: ")


async def test_a_stream_that_ends_without_an_answer_is_told() -> None:
    assert await failure(lambda asked: asked.send(events("data:\n\n"))) == "closed the connection"


async def test_a_session_that_the_server_ended_is_a_lost_connection() -> None:
    def answer(asked: Asked) -> None:
        asked.send(head("404 Not Found", content_length="0"))

    ending = Ending()
    with raw_server(answer, session="one") as server:
        async with connected(server.url, ending, mode="legacy") as client:
            with pytest.raises(MCPError) as caught:
                await ask(client)
    assert describe(caught.value, ending) == "has ended the session"
    assert caught.value.code == -32000


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_that_is_not_there_is_told(mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/a-secret"
    ending = Ending()
    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with connected(url, ending, mode=mode):
            pass
    assert describe(caught.value, ending) == "cannot be reached: Connection refused"


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid/mcp", "https://127.0.0.1:1/mcp", "ftp://host/x", "http://[/"]
)
async def test_a_url_that_leads_nowhere_is_told(url: str) -> None:
    ending = Ending()
    with pytest.raises((MCPError, ExceptionGroup, httpx2.InvalidURL)) as caught:
        async with connected(url, ending, mode="legacy"):
            pass
    assert describe(caught.value, ending).startswith("cannot be reached: ")


async def test_a_server_without_tls_is_told() -> None:
    ending = Ending()
    with raw_server(lambda asked: None) as server, pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with connected(server.url.replace("http:", "https:"), ending, mode="legacy"):
            pass
    assert describe(caught.value, ending).startswith("cannot be reached: it does not speak TLS as it should (")


async def test_a_certificate_that_nobody_vouches_for_is_not_taken(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path / "certificate.pem"))
    ending = Ending()
    with raw_server(lambda asked: None, tls=context) as server:
        with pytest.raises((MCPError, ExceptionGroup)) as caught:
            async with connected(server.url, ending, mode="legacy", authorization="Bearer a-secret"):
                pass
        assert server.asked == []
    said = describe(caught.value, ending)
    assert said.startswith("cannot be reached: its certificate is not valid (self")


SENT = httpx2.Request("POST", "http://127.0.0.1/a-secret")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "did not answer in time"),
        (MCPError(code=-32001, message="Request timed out"), "did not answer in time"),
        (MCPError(code=-32000, message="Connection closed"), "closed the connection"),
        (httpx2.ReadTimeout(""), "did not answer in time"),
        (httpx2.ConnectTimeout(""), "cannot be reached in time"),
        (httpx2.TooManyRedirects("x" * 1_000), "cannot be used over HTTP: " + "x" * 199 + "…"),
        (ConnectionResetError(104, "Connection reset by peer"), "cannot be reached: Connection reset by peer"),
        (httpx2.UnsupportedProtocol("x"), "cannot be reached: its URL is not usable"),
        (
            httpx2.LocalProtocolError("Illegal header value b'Bearer hunter2 '"),
            "cannot be used over HTTP: a header of the request cannot be sent; look at those configured for it",
        ),
        (
            UnicodeEncodeError("ascii", "hunter2\u00e9", 7, 8, "hunter2"),
            "cannot be used: what would be sent to it, or what it sends, is not text of the right kind",
        ),
        (httpx2.HTTPStatusError("x", request=SENT, response=httpx2.Response(418)), "answers with HTTP status 418"),
        (OAuthFlowError("no \x1b client"), "does not let you log in: no ⟨U+001B⟩ client"),
        (RuntimeError("odd\x1b"), "cannot be used (RuntimeError: odd⟨U+001B⟩)"),
        (BaseExceptionGroup("", [ExceptionGroup("", [TimeoutError()]), ValueError()]), "did not answer in time"),
    ],
)
def test_other_failures_are_told_in_a_sentence(error: BaseException, said: str) -> None:
    assert describe(error) == said


def test_an_answer_of_another_shape_is_told_without_its_content() -> None:
    with pytest.raises(ValidationError) as caught:
        Anything.model_validate("a" * MIB)
    assert describe(caught.value) == "gives an answer that is not valid MCP"


def test_a_server_cannot_speak_in_the_words_of_the_transport() -> None:
    forged = MCPError(code=-32603, message="answers with HTTP status 401: it wants credentials")
    assert describe(forged, Ending()) == (
        'answers with error -32603: "answers with HTTP status 401: it wants credentials"'
    )
