"""Tell connected clients of changes, in the form of the protocol revision each of them speaks (I10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import SubscriptionBus

    from skillquay.sources.live import Change

__all__ = ["Sessions", "connection_of"]

_MOST_SUBSCRIPTIONS: Final = 10_000
_PATIENCE: Final = 5.0  # seconds a client may take to accept a notice


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """The connection behind a request. The SDK has no public way to it, and no other to reach older clients."""
    connection: Connection = ctx.session._connection  # noqa: SLF001
    return connection


class Sessions:
    """The connections of older revisions, each with the URIs it subscribed to, for as long as they are open.

    Newer clients listen on a stream of their own, which the SDK serves from the bus.
    """

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._open: dict[Connection, set[str]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Remember a connection until it closes."""
        if connection not in self._open:
            self._open[connection] = set()
            connection.exit_stack.callback(self._open.pop, connection, None)

    def subscribe(self, connection: Connection, uri: str) -> None:
        """Tell this connection when the file at this URI changes."""
        self.add(connection)
        if len(self._open[connection]) >= _MOST_SUBSCRIPTIONS:
            message = f"One session subscribes to at most {_MOST_SUBSCRIPTIONS} resources."
            raise MCPError(code=INVALID_PARAMS, message=message)
        self._open[connection].add(uri)

    def unsubscribe(self, connection: Connection, uri: str) -> None:
        """Tell it no longer."""
        self._open.get(connection, set()).discard(uri)

    async def announce(self, change: Change) -> None:
        """Tell everyone; a client that does not take the notice is not waited for."""
        uris = sorted(map(str, change.files))
        await self._bus.publish(ResourcesListChanged())
        for uri in uris:
            await self._bus.publish(ResourceUpdated(uri=uri))
        async with anyio.create_task_group() as group:
            for connection, subscribed in list(self._open.items()):
                group.start_soon(_tell, connection, [uri for uri in uris if uri in subscribed])


async def _tell(connection: Connection, uris: list[str]) -> None:
    with anyio.move_on_after(_PATIENCE):
        await connection.send_resource_list_changed()
        for uri in uris:
            await connection.send_resource_updated(uri)
