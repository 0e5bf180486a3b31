"""Log in to servers that ask for OAuth: a person once, in their browser; the host from then on, with what is kept (P4).

The SDK does the protocol. It forgets, over a restart, when a token ends and where it is renewed, sends one request at a
time, and would ask a person in the middle of anything; what is here keeps all it needs, and asks only when a person
wants to log in. A token goes to the origin it was made for and to nobody else, and never over plain HTTP to another
machine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
import httpx2
from anyio import to_thread
from anyio.abc import SocketAttribute
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata
from mcp_types import CONNECTION_CLOSED
from platformdirs import user_state_path
from pydantic import AnyUrl

from skillquay.core.hidden import shorten
from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError, SkillquayError, StateError, UnavailableError
from skillquay.host.budgets import Budgets
from skillquay.host.callback import Callback
from skillquay.host.configuration import HttpServer, expand
from skillquay.host.connection import Connection
from skillquay.host.logins import KeptLogin, LoginFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

__all__ = ["Logins"]

PATIENCE: Final = 300.0  # seconds for a person to log in


class Logins:
    """The user's logins, one private file for each label and URL. Give it to a host: `SkillHost(auth=Logins())`.

    A host that uses it never asks anyone: a server that wants a login is a problem that says how to log in.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = os.fspath(user_state_path("skillquay") / "logins" if directory is None else directory)

    def __call__(self, label: str, url: str) -> httpx2.Auth | None:
        """What signs the requests to the server of this label and URL; None where no login could be used."""
        try:
            _, url = self._checked(label, HttpServer(url=url))
        except ConfigurationError:
            return None
        return _KeptAuth(label, url, LoginFile(self.directory, label, url))

    async def login(
        self,
        label: str,
        server: HttpServer,
        *,
        show: Callable[[str], Awaitable[None]],
        patience: float = PATIENCE,
    ) -> bool:
        """Have a person log in, and keep the login; False when the server lets everyone in and asks for none.

        `show` is given the URL to open in a browser on this machine. What was kept before stays until the new login is
        complete.
        """
        server, url = self._checked(label, server)
        file = LoginFile(self.directory, label, url)
        await to_thread.run_sync(file.make_room)
        name = ServerLabel(label=label, scope=f"login: {url}")
        failure: SkillquayError | None = None

        async def show_private(there: str) -> None:
            _check_private(httpx2.URL(there), httpx2.URL(url))
            await show(there)

        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener,
            anyio.create_task_group() as tasks,
        ):
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django here
            callback = Callback(port, show_private)
            tasks.start_soon(listener.serve, callback.answer)
            auth = _LoginAuth(label, url, file, callback)
            connection = Connection(name, server, tasks=tasks, budgets=Budgets(), auth=auth)
            with anyio.move_on_after(patience) as deadline:
                try:
                    await connection.connect()
                except SkillquayError as error:
                    failure = error
            await connection.closed()
            tasks.cancel_scope.cancel()
        if deadline.cancelled_caught:
            failure = UnavailableError(
                f'Nobody logged in to the server "{label}" within {patience:g} seconds. Try again.'
            )
        if failure is not None:
            raise failure
        return auth.is_done

    def logout(self, label: str, server: HttpServer) -> bool:
        """Forget the login; False when there was none. The server itself is not told."""
        return LoginFile(self.directory, label, self._checked(label, server)[1]).remove()

    @staticmethod
    def _checked(label: str, server: HttpServer) -> tuple[HttpServer, str]:
        expanded = expand(server, os.environ)
        assert isinstance(expanded, HttpServer), "it was one before"
        parts = urlsplit(expanded.url)
        if any(name.lower() == "authorization" for name in expanded.headers) or parts.username or parts.password:
            raise ConfigurationError(
                f'The server "{label}" is configured with credentials of its own: it needs no login.'
            )
        if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
            raise ConfigurationError(
                f'The server "{label}" is reached over plain http://, where others could read the login. Use https://.'
            )
        return expanded, expanded.url


class _Storage:
    """What the SDK reads a login from. Nothing is kept before there are tokens, and then all of it at once."""

    def __init__(self, kept: KeptLogin | None, keep: Callable[[OAuthToken], None]) -> None:
        self._kept = kept
        self._keep = keep

    async def get_tokens(self) -> OAuthToken | None:
        return None if self._kept is None else self._kept.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await to_thread.run_sync(self._keep, tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None if self._kept is None else self._kept.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """It stays in the SDK's context until there are tokens."""


class _KeptAuth(httpx2.Auth):
    """Signs the requests to one server with the kept login, and renews it. Nobody is asked for anything."""

    def __init__(self, label: str, url: str, file: LoginFile) -> None:
        self._label = label
        self._url = httpx2.URL(url)
        self._file = file
        self._renewing = anyio.Lock()  # two requests must not renew one token

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Renew the login if it is over, then send the request; once more where another login was kept meanwhile."""
        if not self._is_for(request):
            yield request
            return
        refused: KeptLogin | None = None
        problem: SkillquayError = UnavailableError(
            f'wants you to log in; run "skillquay login {shlex.quote(self._label)}"', code=CONNECTION_CLOSED
        )
        for _ in range(2):
            async with self._renewing:
                kept: KeptLogin | None = None
                try:
                    kept = await to_thread.run_sync(self._file.read)
                except StateError as error:  # of no matter to a server that asks for no login
                    problem = error
                if kept is not None and kept == refused:
                    if kept.is_over or kept.tokens.refresh_token is None:
                        break
                    kept = replace(kept, expires=1.0)  # whatever was said of its end: the server has refused it
                async with contextlib.aclosing(self._provider(kept).async_auth_flow(request)) as flow:
                    sent = await self._next(flow)
                    while sent is not request:
                        sent = await self._next(flow, (yield sent))
            response = yield request
            if response.status_code != httpx2.codes.UNAUTHORIZED:
                return
            _check_ends(response)
            request.headers.pop("authorization", None)
            if kept is None:
                break
            refused = kept
        raise problem

    def _is_for(self, request: httpx2.Request) -> bool:
        """True for requests to this very server that carry no credentials of the user's own configuration."""
        url, own = request.url, self._url
        is_ours = (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)
        return is_ours and "authorization" not in request.headers

    def _provider(self, kept: KeptLogin | None, callback: Callback | None = None) -> OAuthClientProvider:
        """The SDK's part, new for each request: all that lasts is in the file, which other processes write too."""

        def keep(tokens: OAuthToken) -> None:
            self._file.write(
                KeptLogin(
                    tokens=tokens,
                    expires=context.token_expiry_time,
                    client=context.client_info,
                    metadata=context.oauth_metadata,
                    resource=context.protected_resource_metadata,
                )
            )

        provider = OAuthClientProvider(
            server_url=str(self._url),
            client_metadata=OAuthClientMetadata(
                client_name="skillquay",
                redirect_uris=None if callback is None else [AnyUrl(callback.uri)],
            ),
            storage=_Storage(kept, keep),
            redirect_handler=None if callback is None else callback.show,
            callback_handler=None if callback is None else callback.wait,
        )
        context = provider.context
        if kept is not None:
            context.token_expiry_time = kept.expires
            context.oauth_metadata = kept.metadata
            context.protected_resource_metadata = kept.resource
        return provider

    async def _next(
        self, flow: AsyncGenerator[httpx2.Request, httpx2.Response], response: httpx2.Response | None = None
    ) -> httpx2.Request:
        """What the SDK wants sent next, the request itself at last. Nothing goes where others could read it."""
        try:
            if response is None:
                sent = await anext(flow)
            else:
                _check_ends(response)
                sent = await flow.asend(response)
        except ValueError as error:
            raise UnavailableError(f"does not let you log in: {shorten(str(error), 200)}") from None
        _check_private(sent.url, self._url)
        return sent


class _LoginAuth(_KeptAuth):
    """Has a person log in when the server asks for it, once; from then on, goes by what was kept."""

    def __init__(self, label: str, url: str, file: LoginFile, callback: Callback) -> None:
        super().__init__(label, url, file)
        self.is_done = False
        self._callback = callback
        self._failure: Exception | None = None

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """As the kept login, once there is a new one."""
        is_kept = self.is_done or not self._is_for(request)
        return super().async_auth_flow(request) if is_kept else self._login_flow(request)

    async def _login_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._failure is not None:
            raise self._failure  # the SDK tries other ways to begin; nobody wants to log in twice
        try:
            async with contextlib.aclosing(self._provider(None, self._callback).async_auth_flow(request)) as flow:
                sent = await self._next(flow)
                while True:
                    response = yield sent
                    if sent is request and (self.is_done or response.status_code != httpx2.codes.UNAUTHORIZED):
                        return
                    sent = await self._next(flow, response)
                    self.is_done = sent is request
        except Exception as error:
            self._failure = error
            raise


def _check_ends(response: httpx2.Response) -> None:
    """The SDK reads these answers whole; only a stream of events may go on without end."""
    if response.headers.get("content-type", "").strip().lower().startswith("text/event-stream"):
        raise UnavailableError("answers a login with a stream of events")


def _check_private(url: httpx2.URL, server: httpx2.URL) -> None:
    """Plain HTTP only within this machine, and only for a server that is on it too."""
    if url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.host) and _is_loopback(server.host)):
        return
    raise UnavailableError(f"wants you to log in at {shorten(url.host)} over plain http://, where others could read it")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
