"""The HTTP application on a real socket, in a thread of this process, where a test can look into it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import httpx2 as httpx

from skillquay.server.access import Tokens
from skillquay.server.app import HttpServer, http_app, make_server
from tests.server.asking import MODERN, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillquay.server.extension import Skills

__all__ = ["META", "Running", "message", "running"]

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


class Running:
    """A server that can be asked with any bytes and headers."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.url = f"{base}/mcp"
        self.http = httpx.Client(timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, content: bytes | dict[str, Any], **headers: str) -> httpx.Response:
        """A request of the current revision, unless the headers say something else; one that is empty is left out."""
        method, name = "", ""
        if isinstance(content, dict):
            method = content.get("method", "")
            name = content["params"]["uri"] if method == "resources/read" else ""
        all_headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "mcp-name": name,
        } | {key.replace("_", "-"): value for key, value in headers.items()}
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.http.post(self.url, content=body, headers={key: each for key, each in all_headers.items() if each})


def message(method: str, **params: Any) -> dict[str, Any]:
    """A request of the current revision."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


@contextlib.contextmanager
def running(skills: Skills, *, tokens: Sequence[str] = (), allowed_hosts: Sequence[str] = ()) -> Iterator[Running]:
    """Serve, and end in good order."""
    mcp = make_server("acme", skills)
    app = http_app(mcp, skills, tokens=Tokens(tokens) if tokens else None, allowed_hosts=allowed_hosts)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = HttpServer(app, mcp)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        deadline = time.monotonic() + PATIENCE
        while not server.started:
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.005)
        try:
            with Running(f"http://127.0.0.1:{listening.getsockname()[1]}") as served:
                yield served
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "it does not end"
