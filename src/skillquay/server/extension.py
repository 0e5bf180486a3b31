"""`Skills`: publish directories of skills, and generated ones, from any server built on the official SDK.

    skills = Skills("./skills")
    mcp = MCPServer("acme", extensions=[skills], middleware=[skills.middleware], subscriptions=skills.subscriptions)

The SDK lets an extension bind new methods only, so that files (`resources/read`) and the capabilities of older
revisions go through the middleware, and change notices of the current revision through the subscriptions.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcp.server.extension import Extension, MethodBinding
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_INFO_META_KEY,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    SubscriptionsListenRequestParams,
)
from pydantic import BaseModel, ValidationError

from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import CursorError, UriError
from skillquay.server.answers import PageSize
from skillquay.server.publisher import (
    Publisher,
    SkillFunction,
    Visible,
    failures_as_errors,
    is_modern,
    unknown_resource,
)
from skillquay.server.sessions import Sessions, connection_of
from skillquay.sources.tree import DirectorySource
from skillquay.wire.params import GetSkillParams, ListSkillsParams, ReadDirectoryParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel import Server

__all__ = ["EXTENSION_ID", "Skills"]

EXTENSION_ID: Final = "io.modelcontextprotocol/skills"
_NOT_ATTACHED: Final = "This server publishes skills without their middleware. Pass middleware=[skills.middleware]."

_FunctionT = TypeVar("_FunctionT", bound=SkillFunction)


class Skills(Extension):
    """The Skills extension, publishing what lies in directories and what functions make.

    `visible` is called once a request, and gives back what says of each entry whether this asker may see it; it governs
    listing, getting, reading and directories alike. Skills are read with the first request, or by `load`.
    """

    identifier = EXTENSION_ID

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        prefix: str = "",
        page_size: int = PageSize().entries,
        ttl: float = 60,
        visible: Visible | None = None,
        private: bool = False,
        watch: bool = True,
        strict: bool = False,
        index_directory: str | None = None,
        subscriptions: SubscriptionBus | None = None,
    ) -> None:
        if page_size < 1 or not 0 <= ttl < math.inf:
            raise ValueError("page_size is at least 1, and ttl a number of seconds, 0 or more.")
        self.subscriptions: SubscriptionBus = subscriptions or InMemorySubscriptionBus()
        self.sessions = Sessions(self.subscriptions)
        self._sources: list[DirectorySource] = []
        self._functions: dict[SkillUri, SkillFunction] = {}
        self._strict = strict
        self._watch = watch
        self._is_attached = False
        self._stamp: tuple[object, dict[str, Any]] | None = None
        self.publisher = Publisher(
            self._sources,
            self._functions,
            self.sessions,
            page_size=PageSize(entries=page_size),
            ttl=ttl,
            visible=visible,
            is_private=private,
            watch=watch,
            index_directory=index_directory,
        )
        for path in paths:
            self.add(path, prefix=prefix)

    def add(self, path: str | os.PathLike[str], *, prefix: str = "") -> None:
        """Publish the skills below a directory, or one skill's directory, under a prefix such as `acme/billing`."""
        self._check_not_loaded()
        location = os.fsdecode(path)
        is_skill_md = os.path.basename(location) == SKILL_MD and os.path.isfile(location)
        if not os.path.isdir(location) and not is_skill_md:
            raise FileNotFoundError(f'"{location}" is not a directory. Give a directory of skills, or a skill\'s own.')
        segments = SkillUri.build(prefix.strip("/").split("/")).segments if prefix else ()
        self._sources.append(DirectorySource(location, prefix=segments, strict=self._strict))

    def include(self, other: Skills) -> None:
        """Publish what another `Skills` would: its directories and its functions.

        Whom the other would not show an entry to does not see it here either, wherever the entry comes from.
        """
        self._check_not_loaded()
        self._sources += other._sources
        self.publisher.restrict(other.publisher)
        for root, function in other._functions.items():
            self.skill("/".join(root.segments))(function)

    def skill(self, path: str) -> Callable[[_FunctionT], _FunctionT]:
        """Publish what a function makes at this skill path, whose last segment is the skill's name.

        A function that returns a `pathlib.Path` names a directory. One that returns the text of a `SKILL.md`, or a
        mapping of paths to contents, generates the skill anew for each reading; hosts cannot verify such a skill.
        """
        root = SkillUri.build(path.strip("/").split("/"))

        def register(function: _FunctionT) -> _FunctionT:
            self._check_not_loaded()
            if root in self._functions:
                raise ValueError(f"{root} has a function already.")
            self._functions[root] = function
            return function

        return register

    async def load(self, *, log: bool = True) -> None:
        """Read the skills now rather than with the first request, and log which of them are not published, and why."""
        await self.publisher.load(log=log)

    def close(self) -> None:
        """Stop watching the directories."""
        self.publisher.close()

    def settings(self) -> dict[str, Any]:
        """What is declared under `capabilities.extensions` (C1, C3)."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """The extension's own methods."""
        return (
            MethodBinding("skills/list", ListSkillsParams, self._list),
            MethodBinding("skills/get", GetSkillParams, self._get),
            MethodBinding("resources/directory/read", ReadDirectoryParams, self._read_directory),
        )

    def install(self, server: Server[Any]) -> None:
        """Attach everything to a low-level server, which has no extensions of its own."""
        server.extensions[self.identifier] = self.settings()
        for method in self.methods():
            server.add_request_handler(method.method, method.params_type, method.handler)
        if server.get_request_handler("resources/list") is None:
            server.add_request_handler("resources/list", PaginatedRequestParams, self._no_resources)
        if server.get_request_handler("resources/templates/list") is None:
            server.add_request_handler("resources/templates/list", PaginatedRequestParams, _no_templates)
        if server.get_request_handler("resources/read") is None:
            server.add_request_handler("resources/read", ReadResourceRequestParams, _no_resource)
        if server.get_request_handler("subscriptions/listen") is None:
            listen = ListenHandler(self.subscriptions)
            server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
        server.middleware.append(self.middleware)

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Serve the files of skills, declare the extension to older clients, and know who to tell of changes."""
        self._is_attached = True
        match ctx.method:
            case "resources/read":
                return await self._read(ctx, call_next)
            case "resources/list":
                return await self._list_resources(ctx, call_next)
            case "resources/subscribe" | "resources/unsubscribe":
                return await self._subscribe(ctx, call_next)
            case "subscriptions/listen":
                return await call_next(await self._listening(ctx))
            case "initialize":
                return self._declare(_as_dict(await call_next(ctx)))
            case "notifications/initialized":
                result = await call_next(ctx)
                self.sessions.add(connection_of(ctx))
                return result
            case _:
                return await call_next(ctx)

    async def _list(self, ctx: ServerRequestContext[Any, Any], params: ListSkillsParams) -> dict[str, Any]:
        self._check_attached()
        with failures_as_errors():
            return await self.publisher.list_skills(ctx, params.cursor)

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: GetSkillParams) -> dict[str, Any]:
        self._check_attached()
        with failures_as_errors():
            return await self.publisher.get_skill(ctx, params.uri)

    async def _read_directory(self, ctx: ServerRequestContext[Any, Any], params: ReadDirectoryParams) -> dict[str, Any]:
        self._check_attached()
        with failures_as_errors():
            return await self.publisher.read_directory(ctx, params.uri, params.cursor)

    async def _read(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        text = (ctx.params or {}).get("uri")
        if not isinstance(text, str) or not connection_of(ctx).initialize_accepted:
            return await call_next(ctx)
        if uri := _skill_uri(text):
            with failures_as_errors():
                if (result := await self.publisher.read(ctx, uri)) is not None:
                    return await self._stamped(ctx, result, call_next)
        is_ours = text[:6].lower() == "skill:"
        if is_ours and len(text) > MAX_URI_LENGTH:
            raise unknown_resource(ctx, text)
        try:
            return await call_next(ctx)
        except MCPError as error:
            is_unknown = error.error.code in {INVALID_PARAMS, METHOD_NOT_FOUND}
            if is_unknown and (is_ours or len(text) > MAX_URI_LENGTH):
                raise unknown_resource(ctx, text) from None
            raise

    async def _list_resources(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The server's own resources first, page by page, then the skills."""
        cursor = (ctx.params or {}).get("cursor")
        if isinstance(cursor, str) and connection_of(ctx).initialize_accepted:
            try:
                with failures_as_errors():
                    ours = await self.publisher.list_resources(ctx, cursor)
                return await self._stamped(ctx, ours, call_next)
            except MCPError as error:
                if error.error.code != INVALID_PARAMS:
                    raise
        result = _as_dict(await call_next(ctx))
        if result.get("nextCursor") is not None:
            return result
        with failures_as_errors():
            ours = await self.publisher.list_resources(ctx, None)
        both = {**result, **ours, "resources": [*result.get("resources", ()), *ours["resources"]]}
        if is_modern(ctx):  # neither may be kept longer, or shown to more people, than the other
            is_public = result.get("cacheScope") == ours["cacheScope"] == "public"
            both["cacheScope"] = "public" if is_public else "private"
            both["ttlMs"] = min(result.get("ttlMs", 0), ours["ttlMs"])
        return both

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Subscriptions of older revisions; the current one has streams of its own."""
        text = (ctx.params or {}).get("uri")
        connection = connection_of(ctx)
        if is_modern(ctx) or not isinstance(text, str) or not connection.initialize_accepted:
            return await call_next(ctx)
        is_leaving = ctx.method == "resources/unsubscribe"
        if uri := _skill_uri(text):
            with failures_as_errors():
                if is_leaving and self.sessions.unsubscribe(connection, uri):
                    return {}
                if not is_leaving and await self.publisher.seen(ctx, [uri]):
                    self.sessions.subscribe(connection, uri)
                    return {}
        try:
            return await call_next(ctx)
        except MCPError as error:
            if error.error.code != METHOD_NOT_FOUND:
                raise
            if is_leaving:
                return {}
            raise unknown_resource(ctx, text) from None

    async def _listening(self, ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
        """Leave out the files of skills that this asker may not see; the SDK would tell of changes to any URI."""
        params = ctx.params or {}
        wanted = params.get("notifications")
        if self.publisher.is_for_everybody or not isinstance(wanted, Mapping):
            return ctx
        texts = wanted.get("resourceSubscriptions")
        if not isinstance(texts, list):
            return ctx
        ours = {text: uri for text in texts if isinstance(text, str) and (uri := _skill_uri(text))}
        with failures_as_errors():
            seen = await self.publisher.seen(ctx, ours.values())
        hidden = {text for text, uri in ours.items() if uri.scheme == "skill" and uri not in seen}
        kept = [text for text in texts if not isinstance(text, str) or text not in hidden]
        return replace(ctx, params={**params, "notifications": {**wanted, "resourceSubscriptions": kept}})

    def _declare(self, result: dict[str, Any]) -> HandlerResult:
        """Put back what the SDK leaves out of its answer to older clients (C1, C2, I10)."""
        capabilities = dict(result.get("capabilities") or {})
        capabilities["extensions"] = {**(capabilities.get("extensions") or {}), self.identifier: self.settings()}
        changes = {"listChanged": True, "subscribe": True} if self._watch or self._functions else {}
        capabilities["resources"] = {**(capabilities.get("resources") or {}), **changes}
        return {**result, "capabilities": capabilities}

    async def _stamped(
        self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any], call_next: CallNext
    ) -> dict[str, Any]:
        """Say which server answers, as the SDK does for answers that do not come from a middleware."""
        if not is_modern(ctx):
            return result
        if self._stamp is None or self._stamp[0] is not ctx.lifespan_context:  # each server has one of its own
            meta = (ctx.params or {}).get("_meta")
            try:
                discovered = _as_dict(await call_next(replace(ctx, method="server/discover", params={"_meta": meta})))
            except (MCPError, ValidationError):
                return result  # the stamp is a courtesy
            told = discovered.get("_meta") or {}
            stamp = {key: value for key, value in told.items() if key == SERVER_INFO_META_KEY}
            self._stamp = ctx.lifespan_context, stamp
        return {**result, "_meta": self._stamp[1]} if self._stamp[1] else result

    async def _no_resources(
        self, _ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
    ) -> ListResourcesResult:
        if params.cursor is not None:
            raise MCPError(code=INVALID_PARAMS, message=CursorError.MESSAGE)
        return ListResourcesResult.model_validate({"resources": [], **self.publisher.hints}, by_name=False)

    def _check_attached(self) -> None:
        if not self._is_attached:
            raise MCPError(code=INTERNAL_ERROR, message=_NOT_ATTACHED)

    def _check_not_loaded(self) -> None:
        if self.publisher.is_ready:
            raise RuntimeError("The skills are being served already. Add all of them before the first request.")


def _skill_uri(text: str) -> SkillUri | None:
    try:
        return SkillUri(text)
    except UriError:
        return None


def _as_dict(result: HandlerResult) -> dict[str, Any]:
    """What another middleware may also give back as a model."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return result or {}


async def _no_templates(
    _ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams
) -> ListResourceTemplatesResult:
    if params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message=CursorError.MESSAGE)
    return ListResourceTemplatesResult(resource_templates=[])


async def _no_resource(ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> dict[str, Any]:
    raise unknown_resource(ctx, str(params.uri))
