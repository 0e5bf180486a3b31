"""A load generator that costs little: prepared bytes out, whole responses in, over connections that stay open."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any, cast

import uvloop

VERSION = "2026-07-28"
NAMED = {"resources/read": "uri"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What came of it: answers, and how many of them were not what was asked for."""

    answers: int
    errors: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


def request(method: str, params: dict[str, Any]) -> bytes:
    """One request of the current revision, as bytes on the wire."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}).encode()
    headers = {
        "Host": "127.0.0.1:80",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        "Content-Length": str(len(body)),
    }
    if method in NAMED:
        headers["Mcp-Name"] = params[NAMED[method]]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, requests: list[bytes], until: float, done: asyncio.Future[None]) -> None:
        self.requests, self.until, self.done = requests, until, done
        self.sent = self.answers = self.errors = 0
        self.buffer = bytearray()
        self.expected = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self.transport.write(self.requests[self.sent % len(self.requests)])
        self.sent += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.expected < 0:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[:end]).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self.errors += not head.startswith(b"http/1.1 200") or not length
            self.expected = end + 4 + int(length or 0)
        if len(self.buffer) >= self.expected:
            self.errors += b'"error":' in self.buffer[:400]
            self.answers += 1
            self.buffer.clear()
            self.expected = -1
            if time.perf_counter() < self.until:
                self._send()
            else:
                self.transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def generate(port: int, requests: list[bytes], *, connections: int = 32, seconds: float = 10) -> Load:
    """Keep all connections busy for so long."""

    async def run() -> Load:
        loop = asyncio.get_running_loop()
        start = time.perf_counter()
        made: list[_Connection] = []
        waiting: list[asyncio.Future[None]] = []
        for index in range(connections):
            done: asyncio.Future[None] = loop.create_future()
            rotated = requests[index % len(requests) :] + requests[: index % len(requests)]
            connection = _Connection(rotated, start + seconds, done)
            await loop.create_connection(lambda connection=connection: connection, "127.0.0.1", port)  # type: ignore[misc]
            made.append(connection)
            waiting.append(done)
        await asyncio.gather(*waiting)
        spent = time.perf_counter() - start
        return Load(answers=sum(each.answers for each in made), errors=sum(each.errors for each in made), seconds=spent)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def call(port: int, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """One request on a connection of its own, its answer, and how long it took."""
    import http.client

    raw = request(method, params)
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")[1:]
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/mcp", body, dict(line.split(": ", 1) for line in lines))
    data = connection.getresponse().read()
    connection.close()
    spent = time.perf_counter() - start
    answer: dict[str, Any] = json.loads(data)
    return answer, spent


def list_all(port: int) -> tuple[int, float]:
    """A full listing, page by page: how many skills, and how long it took."""
    count, cursor, spent = 0, None, 0.0
    while True:
        answer, took = call(port, "skills/list", {"cursor": cursor} if cursor else {})
        result = answer["result"]
        count += len(result["skills"])
        spent += took
        cursor = result.get("nextCursor")
        if cursor is None:
            return count, spent
