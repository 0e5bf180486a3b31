"""A server of nothing but skills, over HTTP or standard input and output."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import ListenHandler
from opentelemetry import trace
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from skillquay import __version__
from skillquay.server.access import HostGuard
from skillquay.server.express import Express

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Generator, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from skillquay.server.access import Tokens
    from skillquay.server.extension import Skills

__all__ = ["GRACE", "HttpServer", "http_app", "make_server", "serve_stdio"]

GRACE = 10  # seconds for running requests to finish


def make_server(name: str, skills: Skills) -> Server[Any]:
    """A server that declares resources and skills, and nothing else."""
    server: Server[Any] = Server(name, version=__version__)
    skills.install(server)
    if skills.sep2076 is not None:
        skills.sep2076.stand_alone()
    return server


def http_app(
    server: Server[Any],
    skills: Skills,
    *,
    tokens: Tokens | None = None,
    allowed_hosts: Sequence[str] = (),
    on_ready: Callable[[], None] = lambda: None,
    wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> Starlette:
    """The application: `/mcp`, and `/healthz` and `/readyz` for whoever runs it.

    `wrap` puts something around the endpoint, behind the checks of who may ask.
    """
    manager = StreamableHTTPSessionManager(app=server, json_response=True)
    endpoint: ASGIApp = StreamableHTTPASGIApp(manager)
    if skills.publisher.is_for_everybody and skills.sep2076 is None and not _is_traced():
        endpoint = Express(endpoint, skills.publisher, server)
    endpoint = wrap(endpoint)
    if tokens is not None:
        endpoint = RequireAuthMiddleware(endpoint, [], None)
        endpoint = AuthContextMiddleware(endpoint)
        endpoint = AuthenticationMiddleware(endpoint, backend=BearerAuthBackend(tokens))
    endpoint = HostGuard(endpoint, allowed_hosts)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with manager.run():
                await skills.load(log=False)
                on_ready()
                yield
        finally:
            skills.close()

    async def healthy(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def ready(_: Request) -> PlainTextResponse:
        is_ready = skills.publisher.is_ready
        return PlainTextResponse("ready\n" if is_ready else "loading\n", 200 if is_ready else 503)

    routes = [Route("/mcp", endpoint), Route("/healthz", healthy), Route("/readyz", ready)]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False  # a redirect would name any Host it was asked for
    return app


def _is_traced() -> bool:
    """True when spans are recorded, which only the SDK makes."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class HttpServer(uvicorn.Server):
    """Uvicorn, which on a signal first ends the streams that would keep it waiting, then lets requests finish."""

    def __init__(self, app: ASGIApp, server: Server[Any]) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE,
            server_header=False,
        )
        super().__init__(config)
        self._mcp = server

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take signals as the wish to end. Uvicorn would raise them again afterwards, and spoil the exit status."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say goodbye to listening clients, and go."""
        listen = self._mcp.get_request_handler("subscriptions/listen")
        if listen is not None and isinstance(listen.handler, ListenHandler):
            listen.handler.close()
        await super().shutdown(sockets)


async def serve_stdio(server: Server[Any], skills: Skills, on_ready: Callable[[], None]) -> None:
    """Serve one client over standard input and output, until it closes them."""
    await skills.load(log=False)
    on_ready()
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        skills.close()
