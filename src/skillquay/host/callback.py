"""Wait for a person's browser to come back from a login: on this machine alone, and one answer counts (P4)."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.shared.auth import AuthorizationCodeResult

from skillquay.core.hidden import shorten
from skillquay.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import SocketStream

__all__ = ["Callback"]

_PATH: Final = "/callback"
_LONGEST_REQUEST: Final = 16 * 1024
_REQUEST_TIME: Final = 10.0
_CONNECTIONS: Final = 16  # browsers open some ahead of need
_PAGE: Final = (
    "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{text}\n"
)


class Callback:
    """Where the browser comes back to: on this machine alone, with small requests, and one answer that counts."""

    def __init__(self, port: int, show: Callable[[str], Awaitable[None]]) -> None:
        self.uri = f"http://127.0.0.1:{port}{_PATH}"
        self._show = show
        self._state = ""
        self._came = anyio.Event()
        self._query: dict[str, str] = {}
        self._room = anyio.Semaphore(_CONNECTIONS)

    async def show(self, url: str) -> None:
        """Give the person the URL to open."""
        self._state = parse_qs(urlsplit(url).query)["state"][0]
        await self._show(url)

    async def wait(self) -> AuthorizationCodeResult:
        """What the browser brought. The SDK checks the state of a code; that of a refusal is checked here."""
        await self._came.wait()
        query = self._query
        if "error" in query and secrets.compare_digest(query.get("state", "").encode(), self._state.encode()):
            said = ": ".join(query[key] for key in ("error", "error_description") if key in query)
            raise UnavailableError(f'did not let you log in: "{shorten(said, 200)}"')
        return AuthorizationCodeResult(code=query.get("code", ""), state=query.get("state"), iss=query.get("iss"))

    async def answer(self, stream: SocketStream) -> None:
        """One connection: it may come from any program on this machine, and from any page in the browser."""
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            async with stream:
                with anyio.move_on_after(_REQUEST_TIME):
                    async with self._room:
                        head = b""
                        while b"\r\n\r\n" not in head and len(head) <= _LONGEST_REQUEST:
                            head += await stream.receive(_LONGEST_REQUEST)
                        status, text = self._take(head)
                        await stream.send(_PAGE.format(status=status, text=text).encode())

    def _take(self, head: bytes) -> tuple[str, str]:
        method, _, rest = head.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")
        try:
            target = urlsplit(rest.partition(" ")[0])
            found = parse_qs(target.query, max_num_fields=20)
        except ValueError:
            return "400 Bad Request", "This is not what was expected."
        if method != "GET" or target.path != _PATH or not {"code", "error"} & set(found):
            return "404 Not Found", "There is nothing here."
        if not self._came.is_set() and self._state:
            self._query = {key: values[0] for key, values in found.items()}
            self._came.set()
        return "200 OK", "You can close this page, and go back to where you wanted to log in."
