"""Listen in on a transport: what a server sends is looked at on its way to the SDK, and not changed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

__all__ = ["overheard"]


@asynccontextmanager
async def overheard(
    transport: AbstractAsyncContextManager[Any], listener: Callable[[object], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a transport; `listener` is told of each message first."""
    async with transport as (read, write):
        yield _Overheard(read, listener), write


class _Overheard:
    """The reading half of a transport."""

    def __init__(self, stream: Any, listener: Callable[[object], None]) -> None:
        self._stream = stream
        self._listener = listener

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        """The next message."""
        return self._told(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._told(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        handled: bool | None = await self._stream.__aexit__(kind, error, trace)
        return handled

    def _told(self, message: Any) -> Any:
        if isinstance(message, SessionMessage):
            self._listener(message.message)
        return message
