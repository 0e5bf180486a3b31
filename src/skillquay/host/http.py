"""Talk to a server over HTTP: bounded in all it may send, and one failed request fails alone (B1, B2).

The SDK's transport does the protocol. It reads answers of any length, lets one broken connection end all requests, and
leaves the answer to a cancelled request of the older revisions running; the HTTP client it is given here does not.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCError, jsonrpc_message_adapter

from skillquay.core.hidden import shorten
from skillquay.errors import BudgetError, ServerError, SkillquayError, UnavailableError
from skillquay.host.failures import describe
from skillquay.host.questions import bound_questions

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from mcp.client._transport import TransportStreams

    from skillquay.host.configuration import HttpServer
    from skillquay.host.failures import Ending

__all__ = ["http_transport"]

_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)  # those of the SDK; the deadlines of requests are the caller's
_NOTICE: Final = 5.0  # seconds for a server to take in what needs no answer
_FAREWELL: Final = 2.0
_STREAMS: Final = 20  # how many event streams may be opened anew within a minute
_BLOCK: Final = 64 * 1024
_EMPTY_LINE: Final = re.compile(rb"\n\r?\n|\r\r")  # ends an event
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_ABANDONED: Final = "was not waited for any longer"
_MEANING: Final = {
    202: "it does not answer the request",
    401: "it wants credentials",
    403: "it does not let you in",
    404: "there is no MCP server at this URL",
    405: "there is no MCP server at this URL",
    407: "the proxy wants credentials",
    429: "it was asked too often; try later",
}
_FAILURES = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OAuthFlowError, OSError, SkillquayError)

# The SDK logs what servers send. Without a handler, Python would print it raw on standard error.
logging.getLogger("mcp").addHandler(logging.NullHandler())


@asynccontextmanager
async def http_transport(
    server: HttpServer, *, cap: Callable[[], int], ending: Ending, auth: httpx2.Auth | None = None
) -> AsyncGenerator[TransportStreams]:
    """The streams of a session with the server at a URL.

    `cap` is asked while an answer arrives: how many bytes the longest one may have now. `ending` learns why requests
    failed. Proxies and certificates are those of the environment.
    """
    async with (
        _Client(cap=cap, ending=ending, headers=dict(server.headers), auth=auth) as client,
        # The size of events is bounded by the client, which knows the cap of the moment.
        streamable_http_client(server.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield bound_questions(streams, ending)


@lru_cache(maxsize=4)
def _certificates(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """Those of the environment, read once: reading them takes as long as many requests."""
    return httpx2.create_ssl_context()


class _Client(httpx2.AsyncClient):
    """An HTTP client that answers failures itself, so that the SDK fails the one request and no other."""

    def __init__(
        self, *, cap: Callable[[], int], ending: Ending, headers: dict[str, str], auth: httpx2.Auth | None
    ) -> None:
        super().__init__(
            headers=headers,
            auth=auth,
            timeout=_TIMEOUT,
            verify=_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            event_hooks={"request": [_ask_for_plain_bytes], "response": [self._bound]},
        )
        self._cap = cap
        self._ending = ending
        self._flights: dict[object, _Flight] = {}
        self._opened: deque[float] = deque(maxlen=_STREAMS)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send it; whatever goes wrong becomes an answer with a JSON-RPC error that says so."""
        message = await _message(request)
        try:
            if request.method == "GET":
                self._count_stream()
                return await super().send(request, **options)
            if "id" in message and "method" in message:
                return await self._send_request(request, message["id"], options)
            if message.get("method") == "notifications/cancelled":
                self._abandon(message)
            return await self._send_notice(request, options)
        except ServerError as error:
            return self._failed(request, error)
        except _FAILURES as error:
            return self._failed(request, UnavailableError(describe(error), code=CONNECTION_CLOSED))

    async def _send_request(self, request: httpx2.Request, key: object, options: dict[str, Any]) -> httpx2.Response:
        flight = self._flights[key] = _Flight()

        def land() -> None:
            if self._flights.get(key) is flight:
                del self._flights[key]

        is_stream = False
        try:
            with flight.wait():
                response = await super().send(request, **options)
                try:
                    is_stream = await _is_stream(response)
                finally:
                    if not is_stream:
                        await response.aclose()
                if is_stream:
                    assert isinstance(response.stream, _BoundedStream)
                    response.stream.follow(flight, land)
                return response
        finally:
            if not is_stream:
                land()
        raise UnavailableError(_ABANDONED)

    async def _send_notice(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """What has no answer. The SDK sends nothing else meanwhile, so the server has little time to take it in."""
        with anyio.fail_after(_FAREWELL if request.method == "DELETE" else _NOTICE):
            response = await super().send(request, **options)
            try:
                if request.method == "DELETE" or response.has_redirect_location:
                    await response.aread()
            finally:
                await response.aclose()
            return response

    def _abandon(self, message: dict[str, Any]) -> None:
        """Stop waiting for an answer that nobody wants any more; the SDK does so for the current revision alone."""
        params = message.get("params")
        flight = self._flights.get(params.get("requestId")) if isinstance(params, dict) else None
        if flight is not None:
            flight.abandon()

    def _count_stream(self) -> None:
        """The SDK opens a stream anew whenever the server ends it, as fast as the server likes."""
        now = time.monotonic()
        if len(self._opened) == _STREAMS and now - self._opened[0] < 60:
            raise BudgetError(f"ended {_STREAMS} streams of events within a minute")
        self._opened.append(now)

    async def _bound(self, response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity"}:
            raise UnavailableError(f'answers in the encoding "{shorten(encoding)}", which it was not asked for')
        # Events are UTF-8, whatever the server says: a charset may be the name of any codec of Python.
        response.encoding = "utf-8"
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(
            response.stream, self._cap, self._ending, has_events=_content_type(response) == _EVENTS
        )

    def _failed(self, request: httpx2.Request, error: ServerError) -> httpx2.Response:
        self._ending.tell(error)
        code = error.code if isinstance(error, UnavailableError) and error.code is not None else INTERNAL_ERROR
        answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": error.message}}
        return httpx2.Response(httpx2.codes.BAD_GATEWAY, json=answer, request=request)


class _Flight:
    """A request on its way, which can be abandoned wherever it waits."""

    def __init__(self) -> None:
        self.is_abandoned = False
        self._scope = anyio.CancelScope()

    def abandon(self) -> None:
        self.is_abandoned = True
        self._scope.cancel()

    def wait(self) -> anyio.CancelScope:
        """The scope of what is waited for next."""
        self._scope = anyio.CancelScope()
        if self.is_abandoned:
            self._scope.cancel()
        return self._scope


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer, which ends with an error when it, or one of its events, is longer than the cap.

    Bytes are given on in blocks, or in whole lines of events: a list of single bytes takes much more room than they do.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, cap: Callable[[], int], ending: Ending, *, has_events: bool
    ) -> None:
        self._inner = inner
        self._cap = cap
        self._ending = ending
        self._has_events = has_events
        self._flight = _Flight()
        self._land: Callable[[], None] = lambda: None

    def follow(self, flight: _Flight, land: Callable[[], None]) -> None:
        """It is read on behalf of this request; `land` is called when it is closed."""
        self._flight, self._land = flight, land

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, held, tail = 0, bytearray(), b""
        async for chunk in self._chunks():
            size += len(chunk)
            if self._has_events:
                recent = tail + chunk
                begins = len(recent) - size  # where the event that is not over began, maybe long before
                for empty_line in _EMPTY_LINE.finditer(recent):
                    self._check(empty_line.start() - begins)
                    begins = empty_line.end()
                size = len(recent) - begins
                tail = recent[max(begins, len(recent) - 2) :]
            self._check(size)
            held += chunk
            if len(held) >= _BLOCK or (self._has_events and (b"\n" in chunk or b"\r" in chunk)):
                yield bytes(held)
                held.clear()
        if held:
            yield bytes(held)

    async def _chunks(self) -> AsyncGenerator[bytes]:
        chunks = aiter(self._inner)
        try:
            while True:
                with self._flight.wait():
                    chunk = await anext(chunks, None)
                if self._flight.is_abandoned:
                    raise self._error(UnavailableError(_ABANDONED))
                if chunk is None:
                    return
                yield chunk
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()

    def _check(self, size: int) -> None:
        limit = self._cap()
        if size > limit:
            raise self._error(BudgetError(f"sent an answer of more than {limit:,} bytes"))

    def _error(self, error: ServerError) -> Exception:
        """The error itself, for this module to catch; events are read by the SDK, which knows errors of its own."""
        if not self._has_events:
            return error
        self._ending.tell(error)
        return httpx2.SSEError(error.message)

    async def aclose(self) -> None:
        """Close the connection, unless all of it has been read."""
        self._land()
        await self._inner.aclose()


async def _ask_for_plain_bytes(request: httpx2.Request) -> None:
    """What is not compressed cannot inflate: bytes are counted as they arrive."""
    request.headers["accept-encoding"] = "identity"


async def _message(request: httpx2.Request) -> dict[str, Any]:
    """The message of the SDK that this request carries; none for those without content."""
    content = await request.aread()
    message = json.loads(content) if content else None
    return message if isinstance(message, dict) else {}


async def _is_stream(response: httpx2.Response) -> bool:
    """True when the answer to a request is a stream of events; all else is read here, and may not be an answer."""
    kind = _content_type(response)
    if response.is_success and kind == _EVENTS:
        return True
    if kind == _JSON or response.has_redirect_location:
        await response.aread()
    if response.has_redirect_location or (response.is_success and kind == _JSON):
        return False
    status = response.status_code
    if response.is_success and status not in {httpx2.codes.ACCEPTED, httpx2.codes.NO_CONTENT}:
        shown = f'"{shorten(kind)}"' if kind else "something of no type"
        raise UnavailableError(f"answers with {shown} instead of JSON: there may be no MCP server at this URL")
    if kind == _JSON and _is_jsonrpc_error(response.content):
        return False
    if status == httpx2.codes.NOT_FOUND and "mcp-session-id" in response.request.headers:
        raise UnavailableError("has ended the session", code=CONNECTION_CLOSED)
    meaning = _MEANING.get(status)
    raise UnavailableError(f"answers with HTTP status {status}" + (f": {meaning}" if meaning else ""))


def _is_jsonrpc_error(content: bytes) -> bool:
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(content, by_name=False), JSONRPCError)
    except (ValueError, RecursionError):
        return False


def _content_type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
