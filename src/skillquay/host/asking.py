"""Ask a server anything over the SDK's session, and take the result as it came."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp_types import Request
from pydantic import RootModel, ValidationError

from skillquay.core.hidden import shorten
from skillquay.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp import Client
    from mcp.client.session import ClientSession

__all__ = ["SdkRequester", "ask"]


class _Answer(RootModel[dict[str, Any]]):
    """A result as it came: what it holds is checked by those who use it."""


async def ask(session: ClientSession, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """One request of any method; the result as it came.

    What cannot be written as UTF-8 is not handed to a transport, which would end with all other requests (B2).
    """
    try:
        json.dumps(dict(params), ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise UnavailableError(
            f"{method} was not asked: half of a character (a lone surrogate) is in the request. Ask without it."
        ) from None
    answer = await session.send_request(Request[dict[str, Any], str](method=method, params=dict(params)), _Answer)
    return answer.root


class SdkRequester:
    """The SDK's own client, connected by whoever made it. How long its answers may be is up to its transport."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def capabilities(self) -> dict[str, Any]:
        """The extensions the server declares."""
        return dict(self._client.server_capabilities.extensions or {})

    async def declared(self) -> dict[str, Any]:
        """The same."""
        return self.capabilities

    async def request(self, method: str, params: Mapping[str, Any], *, cap: int) -> dict[str, Any]:  # noqa: ARG002
        """One request; the result as it came."""
        try:
            return await ask(self._client.session, method, params)
        except MCPError as error:
            shown = shorten(error.message, 200)
            raise UnavailableError(f'The server answers with error {error.code}: "{shown}".', code=error.code) from None
        except ValidationError:
            raise UnavailableError(f"The server's answer to {method} is not valid MCP.") from None
