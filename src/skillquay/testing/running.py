"""A host under test, in a task of its own: it may open and close what it likes there, and no step waits forever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import anyio

from skillquay.testing.driver import HostUnderTest

__all__ = ["Breach", "Running", "running"]

T = TypeVar("T")
Step: TypeAlias = Callable[[HostUnderTest], Awaitable[T]]


class Breach(AssertionError):  # noqa: N818 - not an error of this program
    """The host under test did what the rule of a case forbids."""


@dataclass(slots=True)
class _Pending:
    step: Step[Any]
    done: anyio.Event = field(default_factory=anyio.Event)
    value: Any = None
    error: Exception | None = None


class Running:
    """Takes one step after the other in the task where the host was started."""

    def __init__(self, context: AbstractAsyncContextManager[HostUnderTest], patience: float) -> None:
        self.patience = patience
        self.started = anyio.Event()
        self.ended = anyio.Event()
        self.failure: Exception | None = None
        self._context = context
        self._pending: _Pending | None = None
        self._steps, self._taken = anyio.create_memory_object_stream[_Pending]()

    async def run(self) -> None:
        """The task."""
        __tracebackhide__ = True
        try:
            async with self._context as host:
                self.started.set()
                async for pending in self._taken:
                    try:
                        pending.value = await pending.step(host)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the author is told
                        pending.error = error
                    pending.done.set()
        except Exception as error:  # noqa: BLE001 - whatever it is, the author is told
            self.failure = error
        finally:
            self._taken.close()
            self.started.set()
            self.ended.set()
            if self._pending is not None:
                self._pending.error = self._pending.error or self.failure
                self._pending.done.set()

    async def take(self, step: Step[T], what: str) -> T:
        """Have the host do something. What it raises, and taking too long, are breaches."""
        self._pending = pending = _Pending(step)
        try:
            with anyio.fail_after(self.patience):
                await self._steps.send(pending)
                await pending.done.wait()
        except TimeoutError:
            raise Breach(f"Your host did not {what} within {self.patience:g} seconds.") from None
        except anyio.BrokenResourceError:
            raise Breach(f"Your host ended before it was to {what}: {_shown(self.failure)}.") from self.failure
        if pending.error is not None:
            raise Breach(f"Your host raised {_shown(pending.error)} when it was to {what}.") from pending.error
        value: T = pending.value
        return value

    async def wait(self, event: anyio.Event, what: str) -> None:
        """Wait for the start or the end."""
        with anyio.move_on_after(self.patience):
            await event.wait()
        if not event.is_set():
            raise Breach(f"Your host did not {what} within {self.patience:g} seconds.")
        if self.failure is not None:
            raise Breach(f"Your host raised {_shown(self.failure)} when it was to {what}.") from self.failure

    def close(self) -> None:
        """No more steps: the host ends."""
        self._steps.close()


@asynccontextmanager
async def running(context: AbstractAsyncContextManager[HostUnderTest], patience: float) -> AsyncIterator[Running]:
    """Start a host, and end it in good order or by force."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        host = Running(context, patience)
        tasks.start_soon(host.run)
        try:
            await host.wait(host.started, "start")
            yield host
            host.close()
            await host.wait(host.ended, "end")
        except Exception as error:  # noqa: BLE001 - raised again below, where the task group does not wrap it
            failure = error
        host.close()
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _shown(error: BaseException | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:300]}…"
