"""Talk to a server in a child process: bounded in all it may send, and gone with its children afterwards (B1, B2).

The SDK's own transport keeps a line of any length, reads it in quadratic time and logs every line it cannot read.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32.utilities import (
    close_process_job,
    create_windows_process,
    get_windows_executable_command,
    terminate_windows_process_tree,
)
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from skillquay.core.hidden import shorten
from skillquay.errors import BudgetError, ConfigurationError, UnavailableError
from skillquay.host.questions import bound_questions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from anyio.abc import AsyncResource, ByteReceiveStream
    from mcp.client._transport import TransportStreams
    from mcp.os.win32.utilities import ServerProcess

    from skillquay.host.configuration import StdioServer
    from skillquay.host.failures import Ending

__all__ = ["stdio_transport"]

_DROPPED_LINES: Final = 1_000
_DROPPED_BYTES: Final = 1024 * 1024
_SHOWN_BYTES: Final = 40
_LAST_WORDS: Final = 0.5  # seconds after its output ended for a server to be gone, and its standard error read
_FLUSH: Final = 0.2
_TERMINATION: Final = 1.0
_REAPING: Final = 2.0
_POLL: Final = 0.01
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


@asynccontextmanager
async def stdio_transport(
    server: StdioServer,
    *,
    cap: Callable[[], int],
    ending: Ending,
    grace: float = 0.5,
    written: StdioServer | None = None,
) -> AsyncGenerator[TransportStreams]:
    """Start the server, and end it with everything it started in its process group.

    `cap` is asked while a message arrives: how many bytes the longest one may have now. `ending` learns why the
    connection is over. The server has `grace` seconds to end once its standard input is closed. `written` is the server
    before its variables were replaced: what they hold is not shown.
    """
    process = await _start(server, written or server)
    # From here until the task group is entered nothing may wait: a cancellation would leave the process behind.
    child = _Child(process, cap, ending)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.read)
        tasks.start_soon(child.write)
        tasks.start_soon(child.read_stderr)
        try:
            yield bound_questions((child.read_stream, child.write_stream), ending)
        finally:
            with anyio.CancelScope(shield=True):
                await child.stop(grace)
            # A process that left the group may hold a pipe open; nobody waits for it.
            tasks.cancel_scope.cancel()


class _Child:
    """A running server, its three pipes and the two streams of the session."""

    def __init__(self, process: ServerProcess, cap: Callable[[], int], ending: Ending) -> None:
        self._process = process
        self._cap = cap
        self._ending = ending
        self._incoming, self.read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.write_stream, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._written = anyio.Event()
        self._stderr_read = anyio.Event()
        self._is_stopping = False
        self._group_is_gone = False

    async def read(self) -> None:
        """Hand each message to the session, until there are no more or the server may send no more."""
        stdout = self._process.stdout
        assert stdout is not None
        with self._incoming:
            try:
                async for message in _messages(stdout, self._cap, self._ending):
                    await self._incoming.send(SessionMessage(message))
            except BudgetError as error:
                self._ending.end(error)
            except _GONE:
                await self._note_exit()
        if self._ending.error is not None:
            await self._end_group()
        with suppress(*_GONE):  # let a server that still writes come to its end; nothing of it is kept
            while True:
                await stdout.receive()

    async def write(self) -> None:
        """Write each message of the session on a line."""
        assert self._process.stdin is not None
        try:
            async with self._outgoing:
                async for message in self._outgoing:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._process.stdin.send(line.encode() + b"\n")
        except _GONE:
            await self._note_exit()
            self._incoming.close()
        finally:
            self._written.set()

    async def read_stderr(self) -> None:
        """Read what it writes on standard error, so that it is never blocked; only the last of it is kept."""
        try:
            with suppress(*_GONE):
                while isinstance(self._process, Process) and self._process.stderr is not None:
                    self._ending.hear(await self._process.stderr.receive())
        finally:
            self._stderr_read.set()

    async def stop(self, grace: float) -> None:
        """End the process and its group. Every wait is bounded."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._is_stopping = True
        self.read_stream.close()
        self.write_stream.close()
        with anyio.move_on_after(_FLUSH):
            await self._written.wait()
        await _close(process.stdin)
        await self._exits(grace)
        await self._end_group()
        await self._exits(_REAPING)
        close_process_job(process)
        self._ending.exit_status = process.returncode
        await _close(process.stdout)
        if isinstance(process, Process) and process.stderr is not None:
            await _close(process.stderr)
        _close_subprocess_transport(process)

    async def _note_exit(self) -> None:
        """Learn how a server ended by itself, before those who wait for its answers are told that it is gone."""
        if self._is_stopping or not await self._exits(_LAST_WORDS):
            status = None
        else:
            status = self._process.returncode
            with anyio.move_on_after(_LAST_WORDS):
                await self._stderr_read.wait()
        if not self._is_stopping:
            self._ending.exited(status)

    async def _exits(self, seconds: float) -> bool:
        """True when it is gone within this time. `wait()` would also wait for whoever inherited the pipes."""
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110
                await anyio.sleep(_POLL)
        return self._process.returncode is not None

    async def _end_group(self) -> None:
        """End what is left, also when the server ended by itself: its children may not have.

        This comes once, and soon: when all of a group is gone, its number may come to mean other processes.
        """
        if self._group_is_gone:
            return
        if sys.platform == "win32":
            await terminate_windows_process_tree(self._process)
        else:
            assert isinstance(self._process, Process)
            await terminate_posix_process_tree(self._process, _TERMINATION)
        self._group_is_gone = True


async def _start(server: StdioServer, written: StdioServer) -> ServerProcess:
    environment = get_default_environment() | dict(server.env)
    try:
        if sys.platform == "win32":
            executable = await anyio.to_thread.run_sync(get_windows_executable_command, server.command)
            # The SDK's fallback process cannot read standard error, and a full pipe would block the server.
            return await create_windows_process(
                executable, list(server.args), environment, subprocess.DEVNULL, server.cwd
            )
        return await anyio.open_process(
            [server.command, *server.args],
            env=environment,
            cwd=server.cwd,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _not_started(server, written, error) from None


def _not_started(
    server: StdioServer, written: StdioServer, error: OSError | ValueError
) -> ConfigurationError | UnavailableError:
    """Why there is no process, without its arguments, its environment and any variable, which may be secret."""
    command = f'The command "{shorten(written.command)}"'
    if isinstance(error, OSError) and server.cwd is not None and error.filename == server.cwd:
        reason = shorten(error.strerror or "unusable").lower()
        return ConfigurationError(f"{command} cannot run in the directory {shorten(written.cwd or '')}: {reason}.")
    if isinstance(error, FileNotFoundError):
        return ConfigurationError(f"{command} was not found. Install it, or configure its full path.")
    if isinstance(error, PermissionError):
        return ConfigurationError(f"{command} may not be executed. Look at its permissions.")
    if isinstance(error, ValueError):
        return ConfigurationError(f"{command}, its arguments or its environment hold a NUL character. Take it out.")
    return UnavailableError(f"{command} cannot be started: {shorten(error.strerror or type(error).__name__)}.")


async def _messages(stdout: ByteReceiveStream, cap: Callable[[], int], ending: Ending) -> AsyncIterator[JSONRPCMessage]:
    """The messages on the lines of the output; what is none is dropped, for a while. Each byte is looked at once."""
    line = bytearray()
    dropped_bytes = 0
    while True:
        pieces = (await stdout.receive()).split(b"\n")
        for number, piece in enumerate(pieces, 1):
            limit = cap()
            if len(line) + len(piece) > limit:
                raise BudgetError(f"sent a message of more than {limit:,} bytes")
            line += piece
            if number == len(pieces):
                break  # the rest of this line is yet to come
            message = _parse(line)
            if message is not None:
                yield message
            else:
                dropped_bytes += len(line) + 1
                ending.drop(bytes(line[:_SHOWN_BYTES]))
                if ending.dropped_lines >= _DROPPED_LINES or dropped_bytes >= _DROPPED_BYTES:
                    raise BudgetError(f"babbles: it {ending.dropped}")
            line = bytearray()


def _parse(line: bytearray) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        return None


async def _close(stream: AsyncResource) -> None:
    with suppress(*_GONE):
        await stream.aclose()


def _close_subprocess_transport(process: ServerProcess) -> None:
    """Close what asyncio keeps, with a warning, while a process outside the group holds the other end of a pipe."""
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    close = getattr(transport, "close", None)
    if callable(close):
        with suppress(PermissionError):
            close()
