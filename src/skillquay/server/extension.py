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
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from mcp.server.extension import Extension, MethodBinding
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SubscriptionsListenRequestParams,
)

from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import UriError
from skillquay.server.answers import PageSize
from skillquay.server.beside import ServerStamp, as_dict, both_pages, with_capabilities
from skillquay.server.nothing import add_missing_handlers
from skillquay.server.publisher import Publisher, SkillFunction
from skillquay.server.refusals import failures_as_errors, is_modern, unknown_resource
from skillquay.server.sep2076 import NamedSkills
from skillquay.server.sessions import Sessions, connection_of
from skillquay.server.templates import Templates, complete_otherwise
from skillquay.sources.schemes import check_scheme
from skillquay.sources.tree import DirectorySource
from skillquay.wire.params import GetSkillParams, ListSkillsParams, ReadDirectoryParams
from skillquay.wire.sep2076 import CAPABILITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel import Server

    from skillquay.server.templates import Complete
    from skillquay.server.visibility import Visible

__all__ = ["EXTENSION_ID", "Dialect", "Skills"]

EXTENSION_ID: Final = "io.modelcontextprotocol/skills"
_NOT_ATTACHED: Final = "This server publishes skills without their middleware. Pass middleware=[skills.middleware]."

Dialect = Literal["v1", "sep-2076"]
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


class Skills(Extension):
    """The Skills extension, publishing what lies in directories and what functions make.

    `visible` is called once a request, and gives back what says of each entry whether this asker may see it; it governs
    listing, getting, reading and directories alike. Skills are read with the first request, or by `load`. With `index`,
    hosts that know only the drafts before v1 find `skill://index.json`, and archives (I1-I3). An endpoint speaks one
    `dialect`: v1 and SEP-2076 give the same names to different methods (I7).
    """

    identifier = EXTENSION_ID

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        prefix: str = "",
        scheme: str = "skill",
        page_size: int = PageSize().entries,
        ttl: float = 60,
        visible: Visible | None = None,
        private: bool = False,
        watch: bool = True,
        strict: bool = False,
        index: bool = True,
        dialect: Dialect = "v1",
        index_directory: str | None = None,
        subscriptions: SubscriptionBus | None = None,
    ) -> None:
        if page_size < 1 or not 0 <= ttl < math.inf:
            raise ValueError("page_size is at least 1, and ttl a number of seconds, 0 or more.")
        if dialect not in get_args(Dialect):
            raise ValueError(f"dialect is one of {', '.join(get_args(Dialect))}.")
        self.subscriptions: SubscriptionBus = subscriptions or InMemorySubscriptionBus()
        self.sessions = Sessions(self.subscriptions, has_skill_list=dialect == "sep-2076")
        self.templates = Templates()
        self._sources: list[DirectorySource] = []
        self._functions: dict[SkillUri, SkillFunction] = {}
        self._strict = strict
        self._watch = watch
        self._is_attached = False
        self._stamp = ServerStamp()
        self.publisher = Publisher(
            self._sources,
            self._functions,
            self.sessions,
            page_size=PageSize(entries=page_size),
            ttl=ttl,
            visible=visible,
            is_private=private,
            watch=watch,
            index=index and dialect == "v1",
            index_directory=index_directory,
            others=self.templates.index_entries,
        )
        self.sep2076: NamedSkills | None = None
        if dialect == "sep-2076":
            self.sep2076 = NamedSkills(self.publisher, self._functions, self.templates, check=self._check_attached)
        for path in paths:
            self.add(path, prefix=prefix, scheme=scheme)

    def add(self, path: str | os.PathLike[str], *, prefix: str = "", scheme: str = "skill") -> None:
        """Publish the skills below a directory, or one skill's directory, under a prefix such as `acme/billing`.

        A `scheme` of their own is for skills that have an address already, such as `github://owner/repo` (I6).
        """
        self._check_not_loaded()
        location = os.fsdecode(path)
        is_skill_md = os.path.basename(location) == SKILL_MD and os.path.isfile(location)
        if not os.path.isdir(location) and not is_skill_md:
            raise FileNotFoundError(f'"{location}" is not a directory. Give a directory of skills, or a skill\'s own.')
        segments = SkillUri.build(prefix.strip("/").split("/")).segments if prefix else ()
        self._sources.append(
            DirectorySource(location, prefix=segments, scheme=check_scheme(scheme), strict=self._strict)
        )

    def include(self, other: Skills) -> None:
        """Publish what another `Skills` would: its directories and its functions.

        Whom the other would not show an entry to does not see it here either, wherever the entry comes from.
        """
        self._check_not_loaded()
        self._sources += other._sources
        self.publisher.restrict(other.publisher)
        for root, function in other._functions.items():
            self.skill("/".join(root.segments), scheme=root.scheme)(function)
        self.templates.include(other.templates)

    def skill(
        self, path: str, *, scheme: str = "skill", complete: Complete | None = None, description: str | None = None
    ) -> Callable[[_FunctionT], _FunctionT]:
        """Publish what a function makes at this skill path, whose last segment is the skill's name.

        A function that returns a `pathlib.Path` names a directory. One that returns the text of a `SKILL.md`, or a
        mapping of paths to contents, generates the skill anew for each reading; hosts cannot verify such a skill.
        A path such as `docs/{product}` is a template: its function takes the values and makes a skill for them, and
        `complete` says for a variable which there are. Only templates have `complete` and `description` (I5).
        """
        if "{" in path or "}" in path:
            return self._template(path, check_scheme(scheme), complete, description)
        if complete is not None or description is not None:
            raise ValueError(f'"{path}" has no variables; only a template has complete and description.')
        root = SkillUri.build(path.strip("/").split("/"), scheme=check_scheme(scheme))

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
        if self.sep2076 is not None:
            self.sep2076.tell(log=log)

    def close(self) -> None:
        """Stop watching the directories."""
        self.publisher.close()

    def settings(self) -> dict[str, Any]:
        """What is declared under `capabilities.extensions` (C1, C3)."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """The extension's own methods, or those of the dialect that is spoken instead."""
        if self.sep2076 is not None:
            return self.sep2076.methods()
        return (
            MethodBinding("skills/list", ListSkillsParams, self._list),
            MethodBinding("skills/get", GetSkillParams, self._get),
            MethodBinding("resources/directory/read", ReadDirectoryParams, self._read_directory),
        )

    def install(self, server: Server[Any]) -> None:
        """Attach everything to a low-level server, which has no extensions of its own."""
        if self.sep2076 is None:
            server.extensions[self.identifier] = self.settings()
        for method in self.methods():
            server.add_request_handler(method.method, method.params_type, method.handler)
        add_missing_handlers(server, self.publisher)
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
                ctx = await self._listening(ctx)
                return await call_next(ctx if self.sep2076 is None else self.sep2076.listening(ctx))
            case "resources/templates/list" if self.templates:
                return await self._list_templates(ctx, call_next)
            case "completion/complete" if self.templates and connection_of(ctx).initialize_accepted:
                with failures_as_errors():
                    completed = await self.templates.complete(self.publisher, ctx)
                if completed is None:
                    return await complete_otherwise(ctx, call_next)
                return await self._stamp.put_on(ctx, completed, call_next)
            case "skills/list" | "skills/get" if self.sep2076 is not None:
                return await self.sep2076.answer(ctx, call_next)
            case "initialize" | "server/discover":
                return self._declare(as_dict(await call_next(ctx)), is_older=ctx.method == "initialize")
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
            made = await self.templates.get_skill(self.publisher, ctx, params.uri)
            return made or await self.publisher.get_skill(ctx, params.uri)

    async def _read_directory(self, ctx: ServerRequestContext[Any, Any], params: ReadDirectoryParams) -> dict[str, Any]:
        self._check_attached()
        with failures_as_errors():
            made = await self.templates.read_directory(self.publisher, ctx, params.uri, params.cursor)
            return made or await self.publisher.read_directory(ctx, params.uri, params.cursor)

    async def _read(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        text = (ctx.params or {}).get("uri")
        if not isinstance(text, str) or not connection_of(ctx).initialize_accepted:
            return await call_next(ctx)
        if (uri := _skill_uri(text)) is not None:
            with failures_as_errors():
                result = await self.templates.read(self.publisher, ctx, uri) or await self.publisher.read(ctx, uri)
                if result is not None:
                    return await self._stamp.put_on(ctx, result, call_next)
        is_ours = text[:6].lower() == "skill:" or (uri is not None and self.publisher.claims(uri))
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
                return await self._stamp.put_on(ctx, ours, call_next)
            except MCPError as error:
                if error.error.code != INVALID_PARAMS:
                    raise
        result = as_dict(await call_next(ctx))
        if result.get("nextCursor") is not None:
            return result
        with failures_as_errors():
            ours = await self.publisher.list_resources(ctx, None)
        return both_pages(ctx, result, ours, "resources")

    async def _list_templates(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The server's own templates first, page by page, then ours; they are few, and come on its last page (I5)."""
        result = as_dict(await call_next(ctx))
        if result.get("nextCursor") is not None:
            return result
        ours = self.publisher.finished(ctx, self.templates.resource_templates())
        return both_pages(ctx, result, ours, "resourceTemplates")

    def _template(
        self, path: str, scheme: str, complete: Complete | None, description: str | None
    ) -> Callable[[_FunctionT], _FunctionT]:
        def register(function: _FunctionT) -> _FunctionT:
            self._check_not_loaded()
            self.templates.add(path, function, complete=complete, description=description, scheme=scheme)
            return function

        return register

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
        hidden = {text for text, uri in ours.items() if self.publisher.claims(uri) and uri not in seen}
        kept = [text for text in texts if not isinstance(text, str) or text not in hidden]
        return replace(ctx, params={**params, "notifications": {**wanted, "resourceSubscriptions": kept}})

    def _declare(self, result: dict[str, Any], *, is_older: bool) -> HandlerResult:
        """Put back what the SDK leaves out of its answer: to older clients, and wherever it does not know it (C1, I7).

        Where SEP-2076 is spoken, v1 is not declared.
        """
        is_changing = self._watch or bool(self._functions)
        more: dict[str, dict[str, Any]] = {"completions": {}} if self.templates else {}
        if is_older:
            more["resources"] = {"listChanged": True, "subscribe": True} if is_changing else {}
        if self.sep2076 is None:
            return with_capabilities(result, {**more, "extensions": {self.identifier: self.settings()}})
        return with_capabilities(
            result, {**more, CAPABILITY: {"listChanged": is_changing}}, without_extension=self.identifier
        )

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
