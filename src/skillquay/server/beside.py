"""Put what skills add beside what the server itself answers: pages, capabilities, its stamp (C1, C2, L2, I10)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND, SERVER_INFO_META_KEY
from pydantic import BaseModel, ValidationError

from skillquay.server.refusals import is_modern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

__all__ = ["ServerStamp", "as_dict", "both_pages", "list_all", "with_capabilities"]


def as_dict(result: HandlerResult) -> dict[str, Any]:
    """What another middleware may also give back as a model."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return result or {}


class ServerStamp:
    """Says which server answers, as the SDK does for answers that do not come from a middleware."""

    def __init__(self) -> None:
        self._known: tuple[object, dict[str, Any]] | None = None

    async def put_on(
        self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any], call_next: CallNext
    ) -> dict[str, Any]:
        """The answer with the stamp, which only the current revision has."""
        if not is_modern(ctx):
            return result
        if self._known is None or self._known[0] is not ctx.lifespan_context:  # each server has one of its own
            meta = (ctx.params or {}).get("_meta")
            try:
                discovered = as_dict(await call_next(replace(ctx, method="server/discover", params={"_meta": meta})))
            except (MCPError, ValidationError):
                return result  # the stamp is a courtesy
            told = discovered.get("_meta") or {}
            self._known = ctx.lifespan_context, {key: told[key] for key in told if key == SERVER_INFO_META_KEY}
        return {**result, "_meta": self._known[1]} if self._known[1] else result


def both_pages(
    ctx: ServerRequestContext[Any, Any], theirs: Mapping[str, Any], ours: Mapping[str, Any], member: str
) -> dict[str, Any]:
    """The server's last page, followed by our first."""
    both = {**theirs, **ours, member: [*theirs.get(member, ()), *ours[member]]}
    if is_modern(ctx):  # neither may be kept longer, or shown to more people, than the other
        is_public = theirs.get("cacheScope") == ours["cacheScope"] == "public"
        both["cacheScope"] = "public" if is_public else "private"
        both["ttlMs"] = min(theirs.get("ttlMs", 0), ours["ttlMs"])
    return both


async def list_all(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext, method: str, member: str
) -> list[dict[str, Any]]:
    """All pages of a listing of the server itself; nothing when it has no such listing."""
    found: list[dict[str, Any]] = []
    meta = (ctx.params or {}).get("_meta")
    params: dict[str, Any] = {} if meta is None else {"_meta": meta}
    cursors: set[str] = set()
    while True:
        try:
            page = as_dict(await call_next(replace(ctx, method=method, params=params)))
        except MCPError as error:
            if error.error.code == METHOD_NOT_FOUND:
                return found
            raise
        found += page.get(member, ())
        cursor = page.get("nextCursor")
        if cursor is None or cursor in cursors:
            return found
        cursors.add(cursor)
        params = {**params, "cursor": cursor}


def with_capabilities(
    result: Mapping[str, Any], more: Mapping[str, Mapping[str, Any]], *, without_extension: str | None = None
) -> dict[str, Any]:
    """An answer of `initialize` or `server/discover` that declares more than the SDK knows of, or an extension less."""
    capabilities = dict(result.get("capabilities") or {})
    if without_extension is not None:
        declared = capabilities.pop("extensions", None) or {}
        if kept := {name: each for name, each in declared.items() if name != without_extension}:
            capabilities["extensions"] = kept
    for name, settings in more.items():
        capabilities[name] = {**(capabilities.get(name) or {}), **settings}
    return {**result, "capabilities": capabilities}
