"""A man in the middle, for negative controls: passes requests on, and replaces bytes in the answers."""

from __future__ import annotations

import contextlib
import http.client
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Middle", "tampering"]

_PASSED_ON = {"accept", "content-type", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
_GIVEN_BACK = {"content-type", "mcp-session-id"}


@dataclass(frozen=True, kw_only=True)
class Middle:
    """Where it listens, and which protocol versions it saw in requests."""

    url: str
    versions: set[str] = field(default_factory=set)


@contextlib.contextmanager
def tampering(url: str, old: bytes, new: bytes) -> Iterator[Middle]:
    """Stand between a client and the server at this URL, and replace every `old` in its answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.headers.get("mcp-method") == "subscriptions/listen":
                self.do_GET()
                return
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name: value for name, value in self.headers.items() if name.lower() in _PASSED_ON}
            if version := self.headers.get("mcp-protocol-version"):
                middle.versions.add(version)
            upstream = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            with contextlib.closing(upstream):
                upstream.request(self.command, urlsplit(url).path, body, headers)
                response = upstream.getresponse()
                data = response.read()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() in _GIVEN_BACK:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data.replace(old, new))

        do_DELETE = do_POST  # noqa: N815 - the name is the standard library's

        def do_GET(self) -> None:
            self.send_error(405)  # a server need not offer streams, and those that never end are not for this one

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        middle = Middle(url=f"http://127.0.0.1:{server.server_port}/mcp")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield middle
        finally:
            server.shutdown()
            thread.join()
