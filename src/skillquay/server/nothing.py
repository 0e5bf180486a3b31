"""What a server without resources of its own answers about them; skills come on top of it (R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from skillquay.errors import CursorError
from skillquay.server.refusals import unknown_resource

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from skillquay.server.publisher import Publisher

__all__ = ["add_missing_handlers"]


def add_missing_handlers(server: Server[Any], publisher: Publisher) -> None:
    """Have a low-level server answer for resources, as far as it does not yet."""

    async def no_resources(_ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> ListResourcesResult:
        _check_cursor(params)
        return ListResourcesResult.model_validate({"resources": [], **publisher.hints}, by_name=False)

    async def no_templates(
        _ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> ListResourceTemplatesResult:
        _check_cursor(params)
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": [], **publisher.hints}, by_name=False)

    if server.get_request_handler("resources/list") is None:
        server.add_request_handler("resources/list", PaginatedRequestParams, no_resources)
    if server.get_request_handler("resources/templates/list") is None:
        server.add_request_handler("resources/templates/list", PaginatedRequestParams, no_templates)
    if server.get_request_handler("resources/read") is None:
        server.add_request_handler("resources/read", ReadResourceRequestParams, _no_resource)


def _check_cursor(params: PaginatedRequestParams) -> None:
    if params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message=CursorError.MESSAGE)


async def _no_resource(ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> dict[str, Any]:
    raise unknown_resource(ctx, str(params.uri))
