"""Several processes that serve side by side on one socket, each with a catalog and a watcher of its own.

Requests of the current revision are complete in themselves, so that any worker answers. A session of an older revision
lives in the worker that opened it: its id says which, and a worker passes on the requests of another's sessions.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from multiprocessing import connection
from typing import TYPE_CHECKING, Final

import anyio
import httpx2 as httpx
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE

from skillquay.server.app import GRACE
from skillquay.server.run import run_http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillquay.server.extension import Skills
    from skillquay.server.run import Settings

__all__ = ["SessionRouter", "run_workers", "socket_path"]

_log = logging.getLogger(__name__)

_SESSION: Final = b"mcp-session-id"
_PER_HOP: Final = frozenset(
    {b"connection", b"content-length", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer"}
)
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=20)
_TIMEOUT: Final = httpx.Timeout(10.0, read=None)  # a stream of notices may be silent for long
_LONGEST_DIRECTORY: Final = 70  # bytes; the path of a socket has at most about a hundred
_PAUSE: Final = 1.0  # seconds before a worker that died is started again


class SessionRouter:
    """Write the worker's number into the ids of its sessions, and pass on requests for another worker's."""

    def __init__(self, app: ASGIApp, number: int, count: int, directory: str) -> None:
        self._app = app
        self._number = number
        self._others = {str(each).encode() for each in range(count) if each != number}
        self._directory = directory
        self._siblings: dict[int, httpx.AsyncClient] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve here, or have it served."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = scope["headers"]
        session = next((value for name, value in headers if name == _SESSION), None)
        owner, _, local_id = (session or b"").partition(b".")
        if local_id and owner in self._others:
            await self._pass_on(int(owner), scope, receive, send)
            return
        if local_id:
            headers = [(name, local_id if name == _SESSION else value) for name, value in headers]
            scope = {**scope, "headers": headers}

        async def mark(message: Message) -> None:
            if message["type"] == "http.response.start":
                mine = f"{self._number}.".encode()
                marked = [(name, mine + value if name == _SESSION else value) for name, value in message["headers"]]
                message = {**message, "headers": marked}
            await send(message)

        await self._app(scope, receive, mark)

    async def _pass_on(self, owner: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a sibling answer, which checks everything once more. A client that leaves ends that, too."""
        if (body := await _body(receive)) is None:
            await _answer(send, 413, b"Request body too large")
            return
        async with anyio.create_task_group() as group:

            async def until_the_client_leaves() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(until_the_client_leaves)
            await self._relay(owner, scope, body, send)
            group.cancel_scope.cancel()

    async def _relay(self, owner: int, scope: Scope, body: bytes, send: Send) -> None:
        client = self._siblings.get(owner)
        if client is None:
            transport = httpx.AsyncHTTPTransport(uds=socket_path(self._directory, owner), limits=_LIMITS)
            client = self._siblings[owner] = httpx.AsyncClient(transport=transport, timeout=_TIMEOUT)
        headers = [(name, value) for name, value in scope["headers"] if name not in _PER_HOP]
        request = client.build_request(scope["method"], "http://sibling/mcp", headers=headers, content=body)
        try:
            response = await client.send(request, stream=True)
        except httpx.HTTPError:
            await _answer(send, 404, b"Session not found")
            return
        try:
            kept = [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in _PER_HOP]
            await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            with contextlib.suppress(httpx.HTTPError):  # the sibling ended, and so does what it said
                async for chunk in response.aiter_raw():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()


async def _body(receive: Receive) -> bytes | None:
    """The whole body of a request; None when it is larger than the SDK takes."""
    body = bytearray()
    while len(body) <= DEFAULT_MAX_REQUEST_BODY_SIZE:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)
    return None


async def _answer(send: Send, status: int, text: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})


def socket_path(directory: str, number: int) -> str:
    """Where a worker listens for its siblings; the directory is private to the user."""
    return os.path.join(directory, f"{number}.sock")


def run_workers(
    settings: Settings,
    listening: socket.socket,
    count: int,
    *,
    begin: Callable[[], None],
    on_ready: Callable[[Skills], None],
) -> int:
    """Start the workers, start again those that die, and end them all with a signal.

    `begin` is called in each of them, `on_ready` in the first alone; both must be functions that can be sent there.
    """
    context = multiprocessing.get_context("spawn")
    stopping: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda received, _: stopping.append(received))
    place = None if len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_DIRECTORY else "/tmp"  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="skillquay-", dir=place) as directory:
        # Not an event, whose lock a worker that is killed would keep for ever.
        news, tell = context.Pipe(duplex=False)

        def start(number: int, tell: Connection | None = None) -> SpawnProcess:
            arguments = (settings, listening, number, count, directory, begin, on_ready, tell)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            return process

        workers = {0: start(0, tell)}
        tell.close()
        while not stopping and not news.poll(0.2):
            pass  # the others find what the first one has read in the index
        if not stopping and not _is_told(news):
            workers[0].join()
            return workers[0].exitcode or 1
        if not stopping:
            workers |= {number: start(number) for number in range(1, count)}
        while not stopping:
            connection.wait([each.sentinel for each in workers.values()], timeout=0.2)
            for number, process in workers.items():
                if not stopping and not process.is_alive():
                    _log.warning("Worker %d ended with status %s and is started again.", number, process.exitcode)
                    time.sleep(_PAUSE)
                    workers[number] = start(number)
        _end(workers.values())
    return 0


def _is_told(news: Connection) -> bool:
    """True when the first worker said that it is ready, and did not end before."""
    try:
        return bool(news.recv())
    except (EOFError, OSError):
        return False


def _end(workers: Iterable[SpawnProcess]) -> None:
    for process in workers:
        process.terminate()
    deadline = time.monotonic() + GRACE + 5
    for process in workers:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()


def _work(
    settings: Settings,
    listening: socket.socket,
    number: int,
    count: int,
    directory: str,
    begin: Callable[[], None],
    on_ready: Callable[[Skills], None],
    tell: Connection | None,
) -> None:
    """One worker, which also listens for its siblings, and ends with its parent."""
    begin()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    path = socket_path(directory, number)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    siblings = socket.socket(socket.AF_UNIX)
    siblings.bind(path)
    siblings.listen(2048)

    def ready(skills: Skills) -> None:
        if tell is not None:
            tell.send("ready")
            tell.close()
            on_ready(skills)

    run_http(settings, [listening, siblings], ready, wrap=lambda app: SessionRouter(app, number, count, directory))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
