"""A scripted MCP server that can lie in every way: raw JSON-RPC over real HTTP, in both eras; it notes what is asked.

It answers honestly until a case gives it a handler of its own. Handlers run in a thread for each connection, so that
one may hang, drip, or stream without end and nothing else is held up.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

if TYPE_CHECKING:
    import socket

    from skillquay.testing.skills import Skill

__all__ = ["CEILING", "EXTENSION", "MODERN", "OLDER", "Failure", "Handler", "Publisher", "Raw", "Request", "contents"]

MODERN: Final = "2026-07-28"
OLDER: Final = "2025-11-25"
EXTENSION: Final = "io.modelcontextprotocol/skills"
CEILING: Final = 128 * 1024 * 1024
"""What a host can need for the largest file the specification has it accept, each byte written as a JSON escape."""

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_HTTP_STATUS: Final = {-32601: 404, -32602: 400}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a host asked; `number` counts the requests of this method from 1, `closing` is set when all ends."""

    method: str
    params: Mapping[str, Any]
    id: object
    version: str
    number: int
    closing: threading.Event = field(repr=False)

    @property
    def uri(self) -> str:
        """The URI it is about, or nothing."""
        return str(self.params.get("uri", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A JSON-RPC error."""

    code: int = -32602
    message: str = "There is no such thing here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """An HTTP answer of any bytes. `length` is what is claimed; without it the body is sent in chunks.

    `counts` says how much one chunk counts as, where it is compressed. A body shorter than its claim is cut off.
    """

    body: Iterator[bytes]
    status: int = 200
    content_type: str = "application/json"
    length: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    counts: int | None = None


Reply: TypeAlias = Mapping[str, Any] | Failure | Raw
Handler: TypeAlias = Callable[[Request], Reply]


def contents(uri: str, data: bytes) -> dict[str, Any]:
    """The result of `resources/read`: text where the bytes are UTF-8, a blob elsewhere."""
    try:
        item = {"uri": uri, "text": data.decode("utf-8")}
    except UnicodeDecodeError:
        item = {"uri": uri, "blob": base64.b64encode(data).decode("ascii")}
    return {"contents": [item]}


class Publisher:
    """A server of skills, honest by default. Everything may be changed while it runs.

    `entries` are listed and `unlisted` only given by `skills/get`; `files` are what `resources/read` gives; `on` has
    the handlers that lie; `extension` is what is declared, if `declares`; `received` is what was asked, in order.
    """

    def __init__(
        self,
        *skills: Skill,
        on: Mapping[str, Handler] | None = None,
        extension: object = None,
        declares: bool = True,
        name: str = "publisher",
        instructions: str | None = None,
        versions: tuple[str, ...] = (MODERN, OLDER),
    ) -> None:
        self.entries: list[Any] = []
        self.unlisted: list[Any] = []
        self.files: dict[str, bytes] = {}
        self.on: dict[str, Handler] = dict(on or {})
        self.extension = {} if extension is None else extension
        self.declares = declares
        self.name = name
        self.instructions = instructions
        self.versions = versions
        self.received: list[Request] = []
        self.sent = 0
        self.faults: list[str] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._honest: dict[str, Handler] = {
            "server/discover": self._discover,
            "initialize": self._initialize,
            "ping": lambda _: {},
            "skills/list": lambda _: {"skills": self.entries},
            "skills/get": self.get,
            "resources/read": self.read,
            "resources/list": lambda _: {"resources": [{"uri": uri, "name": uri} for uri in self.files]},
            "resources/templates/list": lambda _: {"resourceTemplates": []},
            "tools/list": lambda _: {"tools": []},
            "prompts/list": lambda _: {"prompts": []},
        }
        if isinstance(self.extension, dict) and self.extension.get("directoryRead"):
            self._honest["resources/directory/read"] = self.directory
        self.publish(*skills)

    def publish(self, *skills: Skill) -> None:
        """List these skills and no others, and serve their files."""
        self.entries = [skill.entry() for skill in skills]
        self.files = {uri: data for skill in skills for uri, data in skill.served().items()}

    @property
    def is_closing(self) -> bool:
        """True when it no longer serves."""
        return self._closing.is_set()

    @property
    def reads(self) -> list[str]:
        """The URIs that were read, in order."""
        return [request.uri for request in self.received if request.method == "resources/read"]

    def count(self, method: str) -> int:
        """How often a method was called."""
        return sum(request.method == method for request in self.received)

    # The honest answers, which a handler that lies only now and then falls back to.

    def get(self, request: Request) -> Reply:
        """`skills/get`."""
        for entry in (*self.entries, *self.unlisted):
            if isinstance(entry, dict) and entry.get("uri") == request.uri:
                return {"skill": entry}
        return Failure(message=f"No skill is served at {request.uri}")

    def read(self, request: Request) -> Reply:
        """`resources/read`."""
        data = self.files.get(request.uri)
        return Failure(message=f"Unknown resource: {request.uri}") if data is None else contents(request.uri, data)

    def directory(self, request: Request) -> Reply:
        """`resources/directory/read`, from the files that are served."""
        inside = f"{request.uri}/"
        children: dict[str, dict[str, str]] = {}
        for uri in self.files:
            if uri.startswith(inside):
                name, slash, _ = uri.removeprefix(inside).partition("/")
                kind = "inode/directory" if slash else "text/markdown"
                children[name] = {"uri": inside + name, "name": unquote(name), "mimeType": kind}
        return {"resources": list(children.values())} if children else Failure(message="That is not a directory.")

    def _capabilities(self) -> dict[str, Any]:
        extensions = {"extensions": {EXTENSION: self.extension}} if self.declares else {}
        return {"resources": {}, **extensions}

    def _discover(self, _: Request) -> Reply:
        if MODERN not in self.versions:
            return Failure(code=-32601, message="Method not found")
        result = {"supportedVersions": list(self.versions), "capabilities": self._capabilities()}
        return result | ({"instructions": self.instructions} if self.instructions else {})

    def _initialize(self, _: Request) -> Reply:
        if OLDER not in self.versions:
            return Failure(code=-32601, message="Method not found")
        result = {
            "protocolVersion": OLDER,
            "capabilities": self._capabilities(),
            "serverInfo": {"name": self.name, "version": "1"},
        }
        return result | ({"instructions": self.instructions} if self.instructions else {})

    # The way of a message.

    def answer(self, message: Mapping[str, Any], version: str) -> tuple[int, bytes] | Raw:
        """Record what was asked, and give the HTTP status and the body of the answer."""
        params = message.get("params") or {}
        version = (params.get("_meta") or {}).get(_VERSION_KEY, version)
        method = str(message.get("method"))
        with self._lock:
            number = self.count(method) + 1
            request = Request(
                method=method,
                params=params,
                id=message.get("id"),
                version=version,
                number=number,
                closing=self._closing,
            )
            self.received.append(request)
        handler = self.on.get(method) or self._honest.get(method)
        reply = handler(request) if handler else Failure(code=-32601, message="Method not found")
        if isinstance(reply, Raw):
            return reply
        status = 200
        envelope: dict[str, Any] = {"jsonrpc": "2.0", "id": request.id}
        if isinstance(reply, Failure):
            envelope["error"] = {"code": reply.code, "message": reply.message}
            status = _HTTP_STATUS.get(reply.code, 200) if version == MODERN else 200
        elif version == MODERN:
            info = {_SERVER_KEY: {"name": self.name, "version": "1"}}
            envelope["result"] = {
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": info, **reply
            }  # fmt: skip
        else:
            envelope["result"] = dict(reply)
        return status, json.dumps(envelope).encode()

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Listen on a free port of this machine; gives the URL."""
        self._closing.clear()
        with _Server(self) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
            finally:
                self._closing.set()
                server.shutdown()
                server.hang_up()
                thread.join()


class _Server(socketserver.ThreadingTCPServer):
    """Listens; closing it ends every connection, and waits for the threads behind them."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Connection)

    def hang_up(self) -> None:
        """End every connection; whoever waits on one is told."""
        for connection in tuple(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(2)

    def handle_error(self, *_: object) -> None:
        self.publisher.faults.append(traceback.format_exc())


class _Connection(BaseHTTPRequestHandler):
    """One connection of a host."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.server.connections.add(self.connection)
        if not self.server.publisher.is_closing:
            with contextlib.suppress(OSError):  # the host hung up
                super().handle()

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def do_POST(self) -> None:
        try:
            message = json.loads(self._body())
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self._send(400, b"")
        elif "id" not in message or "method" not in message:
            self._send(202, b"")
        else:
            answer = self.server.publisher.answer(message, self.headers.get("mcp-protocol-version", OLDER))
            if isinstance(answer, Raw):
                self._stream(answer)
            else:
                self._send(*answer)

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, raw: Raw) -> None:
        """Send a body piece by piece. It always ends the connection, so that a short body is seen to be cut."""
        self.close_connection = True
        self.send_response(raw.status)
        self.send_header("Content-Type", raw.content_type)
        for name, value in raw.headers.items():
            self.send_header(name, value)
        if raw.length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(raw.length))
        self.end_headers()
        for piece in raw.body:
            self.wfile.write(piece if raw.length is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
            self.server.publisher.sent += len(piece) if raw.counts is None else raw.counts
        if raw.length is None:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        pass
