"""Tell connected clients of changes, in the form of the protocol revision each of them speaks (I10)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from skillquay.wire.sep2076 import LIST_CHANGED

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import SubscriptionBus

    from skillquay.core.uris import SkillUri
    from skillquay.sources.live import Change

__all__ = ["SKILLS_CHANGED", "Announcer", "Sessions", "connection_of"]

_log = logging.getLogger(__name__)

# On the bus, which carries only what the SDK knows of, the list of skills of SEP-2076 is a resource nobody has.
SKILLS_CHANGED: Final = "skillquay:skills/list_changed"
_MOST_SUBSCRIPTIONS: Final = 10_000
_PATIENCE: Final = 5.0  # seconds a client may take to accept a notice


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """The connection behind a request. The SDK has no public way to it, and no other to reach older clients."""
    connection: Connection = ctx.session._connection  # noqa: SLF001
    return connection


class Sessions:
    """The connections of older revisions, each with the URIs it subscribed to, for as long as they are open.

    Newer clients listen on a stream of their own, which the SDK serves from the bus. A client subscribes to a place,
    and is told of it in its own spelling.
    """

    def __init__(self, bus: SubscriptionBus, *, has_skill_list: bool = False) -> None:
        self._bus = bus
        self._has_skill_list = has_skill_list
        self._open: dict[Connection, dict[tuple[str, ...], str]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Remember a connection until it closes."""
        if connection not in self._open:
            self._open[connection] = {}
            connection.exit_stack.callback(self._open.pop, connection, None)

    def subscribe(self, connection: Connection, uri: SkillUri) -> None:
        """Tell this connection when the file at this URI changes."""
        self.add(connection)
        subscribed = self._open[connection]
        if uri.key not in subscribed and len(subscribed) >= _MOST_SUBSCRIPTIONS:
            message = f"One session subscribes to at most {_MOST_SUBSCRIPTIONS} resources."
            raise MCPError(code=INVALID_PARAMS, message=message)
        subscribed[uri.key] = str(uri)

    def unsubscribe(self, connection: Connection, uri: SkillUri) -> bool:
        """Tell it no longer; false when it was not told before."""
        return self._open.get(connection, {}).pop(uri.key, None) is not None

    async def announce(self, change: Change) -> None:
        """Tell everyone; a client that does not take the notice is not waited for.

        Where no skill changed, no list did: then only the files are told of, to those who want to know.
        """
        files = sorted(change.files)
        keys = [uri.key for uri in files]
        is_list = bool(change.skills)
        async with anyio.create_task_group() as group:
            for connection, subscribed in list(self._open.items()):
                if is_list and self._has_skill_list:
                    group.start_soon(_tell_of_skills, connection)
                group.start_soon(_tell, connection, is_list, [subscribed[key] for key in keys if key in subscribed])
            group.start_soon(self._publish, is_list, files)

    async def _publish(self, is_list: bool, files: list[SkillUri]) -> None:
        try:
            if is_list:
                await self._bus.publish(ResourcesListChanged())
                if self._has_skill_list:
                    await self._bus.publish(ResourceUpdated(uri=SKILLS_CHANGED))
            for uri in files:
                await self._bus.publish(ResourceUpdated(uri=str(uri)))
        except Exception:  # noqa: BLE001 - a bus may be somebody else's, and the other clients are told all the same
            _log.exception("A change could not be announced on the subscription bus.")


async def _tell(connection: Connection, is_list: bool, uris: list[str]) -> None:
    with anyio.move_on_after(_PATIENCE):
        if is_list:
            await connection.send_resource_list_changed()
        for uri in uris:
            await connection.send_resource_updated(uri)


async def _tell_of_skills(connection: Connection) -> None:
    with anyio.move_on_after(_PATIENCE):
        await connection.notify(LIST_CHANGED, None)


class Announcer:
    """Has changes announced in the event loop it was made in, so that whoever makes one never waits for a client."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._loop = asyncio.get_running_loop()
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self, change: Change) -> None:
        """Announce a change, from any thread. When the event loop has ended, so has every client."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._start, change)

    def _start(self, change: Change) -> None:
        task = self._loop.create_task(self._sessions.announce(change))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
