"""A real `skillquay serve` in a process of its own: started on a free port, asked at its URL, stopped by a signal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["PATIENCE", "Serving", "serve"]

PATIENCE = 60.0  # seconds for a start, a line or an end, on a machine with much else to do


class Serving:
    """A running server: where it is, and what it has said on standard error."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        self._lines: list[str] = []
        self._is_over = False
        self._news = threading.Condition()
        self._listener = threading.Thread(target=self._listen, args=(process.stderr,), daemon=True)
        self._listener.start()

    @property
    def client(self) -> dict[str, object]:
        """What the server says a client's .mcp.json should hold for it."""
        line = self.wait_for_line(lambda line: line.strip().startswith('{"mcpServers": '))
        (client,) = json.loads(line)["mcpServers"].values()
        assert isinstance(client, dict)
        return client

    @property
    def url(self) -> str:
        """The endpoint."""
        url = self.client["url"]
        assert isinstance(url, str)
        return url

    @property
    def base(self) -> str:
        """The URL without `/mcp`."""
        return self.url.removesuffix("/mcp")

    @property
    def said(self) -> str:
        """Everything on standard error so far."""
        with self._news:
            return "\n".join(self._lines)

    def wait_for_line(self, fits: Callable[[str], bool], *, seconds: float = PATIENCE) -> str:
        """The first line on standard error that fits, said already or to come."""

        def found() -> str | None:
            return next(filter(fits, self._lines), None)

        with self._news:
            self._news.wait_for(lambda: self._is_over or found() is not None, seconds)
            line = found()
        if line is None:
            pytest.fail(f"The server did not say what it should have. It said:\n{self.said}")
        return line

    def stop(self, with_signal: signal.Signals = signal.SIGTERM, *, seconds: float = PATIENCE) -> int:
        """End it, and give its exit status. One that does not end fails the test."""
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"The server did not end within {seconds:g} seconds. It said:\n{self.said}")
        self._listener.join(seconds)
        return status

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        self._listener.join(PATIENCE)

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            with self._news:
                self._lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()


@contextlib.contextmanager
def serve(
    *arguments: str | Path, cache: Path | None = None, http: str = "127.0.0.1:0", **environment: str
) -> Iterator[Serving]:
    """Serve these paths with these options; afterwards the server must end on SIGTERM with status 0.

    Without `cache` nothing remains of it; a server that a test stopped itself is not looked at again.
    """
    with contextlib.ExitStack() as stack:
        kept = cache or stack.enter_context(tempfile.TemporaryDirectory(prefix="skillquay-cache-"))
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "skillquay", "serve", *map(str, arguments), "--http", http],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env={**os.environ, "XDG_CACHE_HOME": str(kept), **environment},
            )
        )
        serving = Serving(process)
        stack.callback(serving.kill)
        assert serving.url
        yield serving
        if process.returncode is None:
            status = serving.stop()
            assert status == 0, f"The server ended with {status}. It said:\n{serving.said}"
