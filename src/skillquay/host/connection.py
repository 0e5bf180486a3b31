"""One server: connected when needed, in a task of its own, again after it was lost, and not once closed (B1, B2)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import anyio
from mcp import Client, MCPError
from mcp.client._memory import InMemoryTransport
from mcp.client.subscriptions import ListenNotSupportedError, ResourcesListChanged, SubscriptionLost
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    Implementation,
    JSONRPCNotification,
    JSONRPCResponse,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from skillquay import __version__
from skillquay.errors import BudgetError, SkillquayError, UnavailableError
from skillquay.host.asking import ask
from skillquay.host.client import EXTENSION
from skillquay.host.configuration import HttpServer, StdioServer, expand
from skillquay.host.failures import Ending, describe
from skillquay.host.http import http_transport
from skillquay.host.overhearing import overheard
from skillquay.host.stdio import stdio_transport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    import httpx2
    from anyio.abc import TaskGroup
    from mcp.client.session import IncomingMessage

    from skillquay.core.identity import ServerLabel
    from skillquay.host.budgets import Budgets

__all__ = ["Connection", "Handshake", "Target"]

Value = TypeVar("Value")
Handshake: TypeAlias = Literal["auto", "legacy"]
Target: TypeAlias = StdioServer | HttpServer | Server[Any] | MCPServer
_SMALLEST_CAP = 1024 * 1024  # whatever is asked for, an answer may always be this long
_SKILLS_CHANGED = "notifications/skills/list_changed"
_FAREWELL = 3.0  # seconds for servers to end when the host does


class _Attempt:
    """One try to be connected, until it is over."""

    def __init__(self) -> None:
        self.settled = anyio.Event()
        self.closing = anyio.Event()
        self.over = anyio.Event()
        self.scope = anyio.CancelScope()
        self.ending = Ending()
        self.client: Client | None = None
        self.announced: dict[str, Any] = {}
        self.error: str | None = None

    def abandon(self) -> None:
        """End it; what the transport does to end its server goes on in the background."""
        self.closing.set()
        self.scope.cancel()


class Connection:
    """What the host asks one server through. Every answer has a largest size, and every question a deadline."""

    def __init__(
        self,
        server: ServerLabel,
        target: Target,
        *,
        tasks: TaskGroup,
        budgets: Budgets,
        auth: httpx2.Auth | None = None,
        handshake: Handshake = "auto",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server
        self.changed = False
        self._target = target
        self._tasks = tasks
        self._budgets = budgets
        self._auth = auth
        self._handshake = handshake
        self._environment = os.environ if environment is None else environment
        self._attempt: _Attempt | None = None
        self._connecting = anyio.Lock()
        self._caps: list[int] = []
        self._over: list[anyio.Event] = []
        self._is_closed = False

    @property
    def capabilities(self) -> dict[str, Any]:
        """The extensions the server declares, as it declares them; none before it is connected."""
        client = self._attempt.client if self._attempt is not None else None
        return {} if client is None else dict(client.server_capabilities.extensions or {})

    @property
    def announced(self) -> dict[str, Any]:
        """All capabilities the server announces, also those the SDK does not know; none before it is connected."""
        return {} if self._attempt is None else self._attempt.announced

    @property
    def is_connected(self) -> bool:
        """True after a handshake, until the connection is known to be lost."""
        attempt = self._attempt
        return attempt is not None and attempt.client is not None and not attempt.closing.is_set()

    async def connect(self) -> Client:
        """The connected client. A server that was lost is tried once more; one that fails says why."""
        async with self._connecting:
            self._check_open()
            attempt = self._attempt
            if attempt is None or attempt.closing.is_set() or attempt.client is None:
                attempt = self._attempt = _Attempt()
                self._over = [over for over in self._over if not over.is_set()] + [attempt.over]
                self._tasks.start_soon(self._live, attempt)
                try:
                    await attempt.settled.wait()
                except BaseException:
                    attempt.abandon()
                    raise
            self._check_open()
            if attempt.client is None:
                raise UnavailableError(f"{self._name} {attempt.error or 'cannot be reached'}.")
            return attempt.client

    async def declared(self) -> dict[str, Any]:
        """The extensions the server declares, once it is connected, within the deadline of calls."""
        deadline = self._budgets.call
        with anyio.move_on_after(deadline):
            await self.connect()
            return self.capabilities
        raise UnavailableError(f"{self._name} did not connect within {deadline:g} seconds.")

    async def request(self, method: str, params: Mapping[str, Any], *, cap: int) -> dict[str, Any]:
        """Ask, within the deadline of calls; an answer longer than `cap` is not taken."""
        deadline = self._budgets.call
        with anyio.move_on_after(deadline), self._expecting(cap):
            client = await self.connect()
            return await self._answered(lambda: ask(client.session, method, params))
        raise UnavailableError(f"{self._name} did not answer {method} within {deadline:g} seconds.")

    async def call(self, use: Callable[[Client], Awaitable[Value]]) -> Value:
        """Use the SDK's client, within the deadline of calls."""
        deadline = self._budgets.call
        with anyio.move_on_after(deadline), self._expecting(_SMALLEST_CAP):
            client = await self.connect()
            return await self._answered(lambda: use(client))
        raise UnavailableError(f"{self._name} did not answer within {deadline:g} seconds.")

    def rest(self) -> None:
        """Let it go for now: the next question connects anew."""
        attempt = self._attempt
        if attempt is not None:
            attempt.closing.set()
            if attempt.client is None:  # nobody waits for the end of a handshake
                attempt.abandon()

    def close(self) -> None:
        """Let it go for good: whoever still holds it cannot start the server again (A5, P6)."""
        self._is_closed = True
        self.rest()

    async def closed(self) -> None:
        """Wait until nothing of it is left, for a while; then cut it off."""
        self.close()
        with anyio.move_on_after(_FAREWELL):
            for over in self._over:
                await over.wait()
            return
        if self._attempt is not None:
            self._attempt.abandon()

    def _check_open(self) -> None:
        if self._is_closed:
            raise UnavailableError(f"{self._name} is not used any more.")

    @property
    def _name(self) -> str:
        return f'The server "{self.server}"'

    async def _answered(self, question: Callable[[], Awaitable[Value]]) -> Value:
        attempt = self._attempt
        try:
            return await question()
        except MCPError as error:
            assert attempt is not None, "a question is asked through an attempt"
            if error.code in {CONNECTION_CLOSED, REQUEST_TIMEOUT}:
                attempt.closing.set()
            told = attempt.ending.find(error) or (attempt.ending.error if error.code == CONNECTION_CLOSED else None)
            message = f"{self._name} {describe(error, attempt.ending)}."
            if isinstance(told, BudgetError):
                raise BudgetError(message) from None
            raise UnavailableError(message, code=None if told else error.code) from None
        except ValidationError:
            raise UnavailableError(f"{self._name} gives an answer that is not valid MCP.") from None
        except SkillquayError:
            raise
        except Exception as error:  # noqa: BLE001 - a transport may fail in any way; it is told in a sentence
            ending = attempt.ending if attempt is not None else None
            raise UnavailableError(f"{self._name} {describe(error, ending)}.") from None

    @contextmanager
    def _expecting(self, cap: int) -> Iterator[None]:
        self._caps.append(cap)
        try:
            yield
        finally:
            self._caps.remove(cap)

    def _cap(self) -> int:
        return max(self._caps, default=_SMALLEST_CAP)

    async def _live(self, attempt: _Attempt) -> None:
        """Hold the connection until it is closed. What goes wrong is told to those who wait, and no further."""
        try:
            with attempt.scope:
                await self._hold(attempt)
        except Exception as error:  # noqa: BLE001 - one server's failure never reaches the others
            attempt.error = _said(error, attempt.ending)
        finally:
            attempt.closing.set()
            attempt.settled.set()
            attempt.over.set()

    async def _hold(self, attempt: _Attempt) -> None:
        info = Implementation(name="skillquay", version=__version__)
        async with (
            Client(
                self._transport(attempt), mode=self._handshake, client_info=info, message_handler=self._hear
            ) as client,
            anyio.create_task_group() as listening,
        ):
            attempt.announced = await _announced(client, attempt.announced)
            attempt.client = client
            attempt.settled.set()
            listening.start_soon(self._listen, client)
            await attempt.closing.wait()
            listening.cancel_scope.cancel()

    def _transport(self, attempt: _Attempt) -> AbstractAsyncContextManager[Any] | Server[Any] | MCPServer:
        transport = self._streams(attempt)
        if isinstance(transport, Server | MCPServer):
            return transport
        return overheard(transport, partial(self._overhear, attempt))

    def _streams(self, attempt: _Attempt) -> AbstractAsyncContextManager[Any] | Server[Any] | MCPServer:
        if isinstance(self._target, Server | MCPServer):
            return InMemoryTransport(self._target) if self._handshake == "legacy" else self._target
        target = expand(self._target, self._environment)
        if isinstance(target, StdioServer):
            assert isinstance(self._target, StdioServer), "what is expanded stays what it is"
            return stdio_transport(target, cap=self._cap, ending=attempt.ending, written=self._target)
        return http_transport(target, cap=self._cap, auth=self._auth, ending=attempt.ending)

    async def _listen(self, client: Client) -> None:
        """On 2026-07-28, notices of changes come on a stream that must be asked for. A server may not offer it."""
        resources = client.server_capabilities.resources
        if resources is None or not resources.list_changed:
            return
        try:
            async with client.listen(resources_list_changed=True) as subscription:
                async for event in subscription:
                    self.changed = self.changed or isinstance(event, ResourcesListChanged)
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            return

    def _overhear(self, attempt: _Attempt, message: object) -> None:
        """What the SDK leaves out: capabilities, and notices, that it does not know (I7)."""
        if isinstance(message, JSONRPCResponse) and attempt.client is None:
            capabilities = message.result.get("capabilities")
            if isinstance(capabilities, dict):
                attempt.announced = capabilities
        elif isinstance(message, JSONRPCNotification) and message.method == _SKILLS_CHANGED:
            self.changed = True

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ResourceListChangedNotification | ResourceUpdatedNotification):
            self.changed = True


async def _announced(client: Client, overheard: dict[str, Any]) -> dict[str, Any]:
    """The capabilities as they were sent.

    A server in this process sends nothing that could be overheard; without the extension it is asked again.
    """
    declares = EXTENSION in (client.server_capabilities.extensions or {})
    if overheard or declares or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return overheard or client.server_capabilities.model_dump(by_alias=True, exclude_none=True)
    capabilities = (await ask(client.session, "server/discover", {})).get("capabilities")
    return capabilities if isinstance(capabilities, dict) else {}


def _said(error: Exception, ending: Ending) -> str:
    """Why a connection could not be made, as the rest of a sentence that begins with the server."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, SkillquayError):
        return f"cannot be used: {error.message.rstrip('.')}"
    return describe(error, ending)
