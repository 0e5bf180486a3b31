"""Say in one sentence why a server cannot be used, whatever went wrong on the way to it (B1, B2)."""

from __future__ import annotations

import os
import signal
import ssl
from collections import deque
from typing import Final

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import ValidationError

from skillquay.core.hidden import shorten, visible
from skillquay.errors import ServerError, SkillquayError, UnavailableError

__all__ = ["Ending", "describe"]

_STDERR_KEPT: Final = 8 * 1024
_TOLD_KEPT: Final = 16
_SHOWN: Final = 200
_SDK_SSE: Final = "SSE stream failed: "  # what the SDK puts before the text of an error of ours
_SDK_PARSE: Final = "Failed to parse "
_SDK_REDIRECT: Final = "Redirect to "


class Ending:
    """What a transport knows about the end of its connection, or of single requests; the host asks afterwards.

    Messages are the rest of a sentence that begins with the server: `sent a message of more than 10 bytes`.
    """

    def __init__(self) -> None:
        self.error: ServerError | None = None
        self.exit_status: int | None = None
        self.dropped_lines = 0
        self._first_dropped = b""
        self._told: deque[ServerError] = deque(maxlen=_TOLD_KEPT)
        self._stderr = bytearray()

    @property
    def reason(self) -> str | None:
        """Why the connection is over, when the transport knows."""
        return None if self.error is None else self.error.message

    @property
    def dropped(self) -> str:
        """What of its output was dropped, as the rest of a sentence; only the beginning of the first line is shown."""
        shown = shorten(self._first_dropped.decode(errors="replace"))
        return f'wrote {self.dropped_lines:,} lines that are not MCP messages; the first begins with "{shown}"'

    def stderr_tail(self) -> str:
        """The last of what the server wrote on standard error, with hidden characters made visible; lines stay."""
        return "\n".join(map(visible, bytes(self._stderr).decode(errors="replace").splitlines()))

    def end(self, error: ServerError) -> None:
        """The connection is over for this reason; the first one given stays."""
        self.error = self.error or error

    def exited(self, status: int | None) -> None:
        """The server ended by itself; without a status, it only closed its pipes."""
        self.exit_status = status
        how = "closed its standard input or output" if status is None else _exited(status, self.stderr_tail())
        self.end(UnavailableError(how))

    def tell(self, error: ServerError) -> None:
        """One request failed for this reason, in words that `find` knows again."""
        self._told.append(error)

    def drop(self, beginning: bytes) -> None:
        """A line that is no message begins like this."""
        self._first_dropped = self._first_dropped or bytes(beginning)
        self.dropped_lines += 1

    def hear(self, data: bytes) -> None:
        """The server wrote this on standard error."""
        self._stderr += data[-_STDERR_KEPT:]
        del self._stderr[:-_STDERR_KEPT]

    def find(self, error: MCPError) -> ServerError | None:
        """What the transport itself said, if this error of a request is its own and not the server's answer."""
        said = error.message.removeprefix(_SDK_SSE)
        return next((told for told in reversed(self._told) if told.message == said), None)


def describe(error: BaseException, ending: Ending | None = None) -> str:
    """The rest of a sentence that begins with the server, such as `answers with HTTP status 401: it wants …`.

    Whatever the server had to say about it is shortened, and its hidden characters are made visible. What may be ours,
    such as a header with a secret, is not told.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, SkillquayError):
        return f"cannot be used: {error.message.rstrip('.')}"
    if isinstance(error, MCPError):
        return _answered(error, ending)
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError | httpx2.InvalidURL):
        return _http(error)
    if isinstance(error, OAuthFlowError):
        return f"does not let you log in: {_cause(error)}"
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, ValidationError):
        return "gives an answer that is not valid MCP"
    if isinstance(error, OSError):
        return f"cannot be reached: {_cause(error)}"
    if isinstance(error, UnicodeError):  # its text may be one of our own headers
        return "cannot be used: what would be sent to it, or what it sends, is not text of the right kind"
    return f"cannot be used ({type(error).__name__}: {_cause(error)})"


def _answered(error: MCPError, ending: Ending | None) -> str:
    if ending is not None:
        told = ending.find(error)
        if told is not None:
            return told.message
        if error.code == CONNECTION_CLOSED and ending.reason is not None:
            return ending.reason
    if error.code == CONNECTION_CLOSED:
        return "closed the connection"
    if error.code == REQUEST_TIMEOUT:
        return "did not answer in time"
    if error.code == PARSE_ERROR and error.message.startswith(_SDK_PARSE):
        return "answers with something that is not a JSON-RPC message"
    if error.code == INVALID_REQUEST and error.message.startswith(_SDK_REDIRECT):
        return "redirects to another place, which is not followed; if it has moved, configure its new URL"
    return f'answers with error {error.code}: "{shorten(error.message, _SHOWN)}"'


def _http(error: httpx2.HTTPError | httpx2.StreamError | httpx2.InvalidURL) -> str:
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return "cannot be reached in time"
        case httpx2.TimeoutException():
            return "did not answer in time"
        case httpx2.ConnectError() | httpx2.ProxyError():
            return f"cannot be reached: {_cause(error)}"
        case httpx2.RemoteProtocolError() | httpx2.ReadError():
            return f"broke off in the middle of its answer: {_cause(error)}"
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return "cannot be reached: its URL is not usable"
        case httpx2.LocalProtocolError():  # its text may be one of our own headers
            return "cannot be used over HTTP: a header of the request cannot be sent; look at those configured for it"
        case httpx2.HTTPStatusError():
            return f"answers with HTTP status {error.response.status_code}"
        case _:
            return f"cannot be used over HTTP: {_cause(error)}"


def _cause(error: BaseException) -> str:
    """The system's own word for it where there is one, deep down; else the text of the error."""
    deeper: BaseException | None = error
    for _ in range(10):
        if isinstance(deeper, ssl.SSLCertVerificationError):
            return f"its certificate is not valid ({shorten(deeper.verify_message, _SHOWN)})"
        if isinstance(deeper, ssl.SSLError):
            return f"it does not speak TLS as it should ({shorten(str(deeper.reason), _SHOWN)})"
        if isinstance(deeper, BaseExceptionGroup):
            deeper = deeper.exceptions[0]
        elif isinstance(deeper, OSError) and deeper.strerror:
            # The number of an error of names is negative, and its text the resolver's own.
            number = deeper.errno or 0
            return os.strerror(number) if number > 0 else shorten(deeper.strerror, _SHOWN)
        elif deeper is not None:
            deeper = deeper.__cause__ or deeper.__context__
    return shorten(str(error) or type(error).__name__, _SHOWN)


def _exited(status: int, stderr: str) -> str:
    if status < 0:
        try:
            how = f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            how = f"was ended by signal {-status}"
    else:
        how = f"ended with exit status {status}"
    lines = [line for line in stderr.splitlines() if line.strip()]
    return f'{how}; its last words were "{shorten(lines[-1].strip(), _SHOWN)}"' if lines else how
