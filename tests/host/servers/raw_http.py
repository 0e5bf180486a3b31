"""A small MCP server over HTTP that answers one method with whatever bytes a test wants, on a real socket."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from ssl import SSLContext

    Answer = Callable[["Asked"], None]

__all__ = ["Asked", "RawServer", "head", "json_answer", "raw_server"]


@dataclass(kw_only=True)
class Asked:
    """One request, and the connection it came on."""

    connection: socket.socket
    method: str
    target: str
    headers: dict[str, str]
    message: dict[str, Any]

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def forever(self, data: bytes, *, pause: float = 0) -> None:
        """Send it again and again until the other side hangs up."""
        waiting = threading.Event()
        with contextlib.suppress(OSError):
            while True:
                self.send(data)
                waiting.wait(pause)

    def leave(self) -> None:
        """Say nothing until the other side hangs up."""
        with contextlib.suppress(OSError):
            self.connection.recv(1)

    def chunk(self, data: bytes) -> bytes:
        """Data as it looks in the chunked encoding."""
        return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def head(status: str = "200 OK", **headers: str) -> bytes:
    """The head of an answer. It is the last on its connection: no client may try to use that again."""
    headers = {"connection": "close", **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{key.replace('_', '-')}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def json_answer(message: dict[str, Any], status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer."""
    body = json.dumps(message).encode()
    return head(status, content_type="application/json", content_length=str(len(body)), **headers) + body


class RawServer:
    """Shakes hands with clients of all revisions; the rest is up to `answer`. Each connection has a thread."""

    def __init__(self, listening: socket.socket, answer: Answer, session: str | None, tls: SSLContext | None) -> None:
        self.asked: list[Asked] = []
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.getsockname()[1]}/mcp"
        self._listening = listening
        self._answer = answer
        self._session = session
        self._tls = tls
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def wanted(self, method: str) -> list[Asked]:
        """What came with this method of HTTP or JSON-RPC."""
        return [each for each in self.asked if method in {each.method, each.message.get("method")}]

    def stop(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(60)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "it does not end"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if self._tls is None:
                self._talk(connection)
            else:
                with self._tls.wrap_socket(connection, server_side=True) as secured:
                    self._talk(secured)

    def _talk(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            if stream.peek(1)[:1] == b"\x16":  # the beginning of TLS, which this server does not speak
                connection.sendall(head("400 Bad Request"))
                return
            while line := stream.readline():
                method, _, rest = line.decode("latin-1").partition(" ")
                target = rest.partition(" ")[0]
                headers = {}
                while (line := stream.readline()).strip():
                    key, _, value = line.decode("latin-1").partition(":")
                    headers[key.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", 0)))
                message = json.loads(body) if body else {}
                asked = Asked(connection=connection, method=method, target=target, headers=headers, message=message)
                self.asked.append(asked)
                if not self._shake_hands(asked):
                    self._answer(asked)
                    return

    def _shake_hands(self, asked: Asked) -> bool:
        message = asked.message
        match message.get("method"):
            case "server/discover":
                error = {"code": -32601, "message": "Method not found"}
                asked.send(json_answer({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            case "initialize":
                result = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
                more = {"mcp_session_id": self._session} if self._session else {}
                asked.send(json_answer({"jsonrpc": "2.0", "id": message["id"], "result": result}, **more))
            case "notifications/initialized":
                asked.send(head("202 Accepted", content_length="0"))
            case "tests/fine":
                asked.send(json_answer({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "fine"}}))
            case _:
                return False
        return True


@contextlib.contextmanager
def raw_server(answer: Answer, *, session: str | None = None, tls: SSLContext | None = None) -> Iterator[RawServer]:
    """Serve, and end all connections in the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = RawServer(listening, answer, session, tls)
        try:
            yield server
        finally:
            server.stop()
