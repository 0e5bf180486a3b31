"""Read skills in a process of its own while this one is still importing what it needs to serve them."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillquay.sources.live import LiveCatalog

__all__ = ["HeadStart"]


class HeadStart:
    """A live catalog that another process is reading. Where there can be none, it is read when it is wanted."""

    def __init__(self, live: LiveCatalog) -> None:
        self._live = live
        self._process: tuple[int, int] | None = None  # its id, and where it writes what it has read
        if sys.platform == "linux" and live.prepare():  # elsewhere, a process that was forked may not do much
            self._process = _forked(live)

    def finish(self) -> LiveCatalog:
        """The catalog, read. What the other process could not do is done here."""
        state = None
        if self._process is not None:
            (pid, pipe), self._process = self._process, None
            with os.fdopen(pipe, "rb") as stream, contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
                state = pickle.load(stream)  # noqa: S301 - our own process wrote it
            _wait_for(pid)
        if state is None:
            self._live.load()
        else:
            self._live.restore(state)
        return self._live

    def abandon(self) -> None:
        """End the other process if it is not needed after all."""
        if self._process is not None:
            (pid, pipe), self._process = self._process, None
            os.close(pipe)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _wait_for(pid)


def _wait_for(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # whoever started us may have us ignore our children
        os.waitpid(pid, 0)


def _forked(live: LiveCatalog) -> tuple[int, int]:
    """Begin another process, while this one still has no threads."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        live.load()
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(live.state(), stream, protocol=pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)  # whatever happened, this copy of the program goes no further
