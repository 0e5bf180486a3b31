"""What a client is told when there is no answer: in the form of its revision, and without our insides (R1, B3)."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillquay.core.hidden import shorten
from skillquay.core.uris import MAX_URI_LENGTH
from skillquay.errors import CursorError, GenerationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.context import ServerRequestContext

__all__ = ["failures_as_errors", "is_modern", "shown_uri", "unknown_resource"]

_log = logging.getLogger(__name__)

_RESOURCE_NOT_FOUND: Final = -32002  # what revisions before 2026-07-28 answer for an unknown resource
_FAILED: Final = "The server could not answer. Its log says why."


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """True on 2026-07-28 and later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def unknown_resource(ctx: ServerRequestContext[Any, Any], text: str) -> MCPError:
    """The answer for a URI nothing is served at, in the form of this revision (R1); it never echoes megabytes."""
    shown = shown_uri(text)
    code = INVALID_PARAMS if is_modern(ctx) else _RESOURCE_NOT_FOUND
    why = f" It is longer than {MAX_URI_LENGTH} characters." if len(text) > MAX_URI_LENGTH else ""
    return MCPError(code=code, message=f"No resource is served at {shown}.{why}", data={"uri": shown})


@contextlib.contextmanager
def failures_as_errors() -> Iterator[None]:
    """Turn what went wrong into the protocol's errors: the client's fault, or ours, without our insides (R4, B3)."""
    try:
        yield
    except MCPError:
        raise
    except CursorError as error:
        raise MCPError(code=INVALID_PARAMS, message=error.message) from None
    except GenerationError as error:
        _log.error("%s", error)
        raise MCPError(code=INTERNAL_ERROR, message=_FAILED) from None
    except Exception:  # noqa: BLE001 - no failure may reach the client as it is
        _log.exception("A request about skills failed.")
        raise MCPError(code=INTERNAL_ERROR, message=_FAILED) from None


def shown_uri(text: str) -> str:
    """A URI as a message shows it: a hidden character takes nine visible ones, and there may be many."""
    shown = shorten(text, 200)
    return shown if len(shown) <= 400 else f"{shown[:399]}…"
