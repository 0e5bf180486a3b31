"""A server of nothing but resources, made with the SDK alone: `skills/list` is a method it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import INVALID_PARAMS, ListResourcesResult, ReadResourceResult, Resource

from skillquay.wire.contents import contents

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp_types import PaginatedRequestParams, ReadResourceRequestParams

__all__ = ["EXTENSION", "PlainServer"]

EXTENSION = "io.modelcontextprotocol/skills"


class PlainServer:
    """Serves `files`, and lists those it is told to. What was asked of it is in `asked`, what was read in `reads`.

    `declares` is what its capabilities have beside resources. The files may be changed while it runs.
    """

    def __init__(
        self, files: Mapping[str, bytes], listed: Mapping[str, str], *, declares: Mapping[str, Any] | None = None
    ) -> None:
        self.files = dict(files)
        self.asked: list[str] = []
        self.reads: list[str] = []
        self._listed = listed
        self._declares = dict(declares or {})
        self.server: Server[Any] = Server("plain", on_list_resources=self._list, on_read_resource=self._read)
        self.server.middleware.append(self._watch)

    async def _list(self, _: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(
            resources=[Resource(uri=uri, name=uri, mime_type=media_type) for uri, media_type in self._listed.items()]
        )

    async def _read(self, _: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        self.reads.append(uri)
        if uri not in self.files:
            raise MCPError(code=INVALID_PARAMS, message="There is no such resource.", data={"uri": uri})
        return ReadResourceResult.model_validate({"contents": [contents(uri, self.files[uri], None)]})

    async def _watch(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        self.asked.append(ctx.method)
        result = await call_next(ctx)
        if ctx.method in {"initialize", "server/discover"}:
            answer = dict(result) if isinstance(result, Mapping) else result.model_dump(by_alias=True, mode="json")  # type: ignore[union-attr]
            answer["capabilities"] = {**answer["capabilities"], **self._declares}
            return answer
        return result
