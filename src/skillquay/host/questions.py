"""Bound how many questions of its own a server may have open at the host (B1).

The SDK starts a task for each. A server that asks on and on without taking in the answers would fill the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import anyio
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from skillquay.errors import BudgetError

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage, RequestId

    from skillquay.host.failures import Ending

__all__ = ["bound_questions"]

_MOST_OPEN: Final = 100


def bound_questions(streams: TransportStreams, ending: Ending) -> TransportStreams:
    """The same streams; what is read ends when the server has more than 100 questions open."""
    read_stream, write_stream = streams
    questions: set[RequestId] = set()
    return _Incoming(read_stream, questions, ending), _Outgoing(write_stream, questions)


class _Incoming:
    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], questions: set[RequestId], ending: Ending
    ) -> None:
        self._inner = inner
        self._questions = questions
        self._ending = ending

    @property
    def last_context(self) -> Any:
        """What the SDK's stream knows of whoever sent the last message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message; a question that repeats an open one is left out."""
        while True:
            item = await self._inner.receive()
            if isinstance(item, Exception) or self._accepts(item.message):
                return item

    def _accepts(self, message: JSONRPCMessage) -> bool:
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, int | str):
                self._questions.discard(cancelled)
        if not isinstance(message, JSONRPCRequest):
            return True
        if message.id in self._questions:
            return False
        self._questions.add(message.id)
        if len(self._questions) > _MOST_OPEN:
            self._ending.end(BudgetError(f"asks more than {_MOST_OPEN} questions without taking in the answers"))
            raise anyio.EndOfStream
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Outgoing:
    def __init__(self, inner: WriteStream[SessionMessage], questions: set[RequestId]) -> None:
        self._inner = inner
        self._questions = questions

    async def send(self, item: SessionMessage, /) -> None:
        """Send it on; an answer closes its question."""
        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._questions.discard(item.message.id)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
