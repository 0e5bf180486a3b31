"""An endpoint of SEP-2076: skills by name, with what they depend on checked against the server itself (I7, I14)."""

from __future__ import annotations

import inspect
import logging
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.server.extension import MethodBinding
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    NotificationParams,
    ResourceUpdatedNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
)

from skillquay.core.entries import DYNAMIC, Manifest
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.dialects.sep2076 import SkillFile, argument_problem, declared_arguments, definition, summary
from skillquay.server.beside import list_all
from skillquay.server.named import NOTHING, Lists, Named, may_depend
from skillquay.server.publisher import Publisher, called
from skillquay.server.refusals import failures_as_errors
from skillquay.server.sessions import SKILLS_CHANGED, connection_of
from skillquay.sources.function import check_generated
from skillquay.wire.contents import media_type
from skillquay.wire.sep2076 import LIST_CHANGED_FILTER, GetNamedSkillParams, ListNamedSkillsParams, SkillListChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp_types import RequestId, ServerNotification

    from skillquay.core.catalog import Catalog, Listed
    from skillquay.core.entries import FileRecord
    from skillquay.server.answers import View
    from skillquay.server.publisher import SkillFunction
    from skillquay.server.templates import Templates

__all__ = ["NamedSkills"]

_log = logging.getLogger(__name__)

_MOST_REMARKS: Final = 20
_MOST_TOLD: Final = 1000  # reasons that are remembered
_MOST_KEPT: Final = 8  # different offers that the skills are kept ready for

# What the server offers whoever made the request that is being answered.
_OFFERED: Final[ContextVar[Lists | None]] = ContextVar("offered", default=None)


class NamedSkills:
    """Answers `skills/list` and `skills/get` as SEP-2076 has them.

    A skill that depends on something is for those whom the server offers it. Its own lists may differ from asker to
    asker, so that they are asked for with each request they matter to, and never shared.
    """

    def __init__(
        self,
        publisher: Publisher,
        functions: Mapping[SkillUri, SkillFunction],
        templates: Templates,
        *,
        check: Callable[[], None],
    ) -> None:
        self._check = check
        self._publisher = publisher
        self._functions = functions
        self._templates = templates
        self._is_alone = False
        self._depending: tuple[Catalog, frozenset[str]] | None = None
        self._kept: list[Named] = []
        self._told: set[str] = set()

    def methods(self) -> Sequence[MethodBinding]:
        """The methods of the proposal."""
        return (
            MethodBinding("skills/list", ListNamedSkillsParams, self._list),
            MethodBinding("skills/get", GetNamedSkillParams, self._get),
        )

    def stand_alone(self) -> None:
        """The server has nothing but skills, so that nobody needs to be asked."""
        self._is_alone = True

    def remarks(self) -> list[str]:
        """Which skills are not served by name, and why; as to dependencies, only where they are the same for all."""
        return self._at_start().remarks

    def __len__(self) -> int:
        """How many skills are served, to those who see everything and on a server with nothing else."""
        return len(self._at_start())

    def tell(self, *, log: bool) -> None:
        """Log which skills are not served, unless somebody else tells it."""
        self._tell(self._at_start(), log=log)

    async def answer(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Have a request answered, knowing what the server offers this asker wherever that matters."""
        if self._is_alone or not connection_of(ctx).initialize_accepted or not await self._depends(ctx):
            return await call_next(ctx)

        async def names(method: str, member: str, field: str) -> frozenset[str]:
            return frozenset(str(each[field]) for each in await list_all(ctx, call_next, method, member))

        lists = Lists(
            tools=await names("tools/list", "tools", "name"),
            prompts=await names("prompts/list", "prompts", "name"),
            resources=await names("resources/list", "resources", "uri"),
            templates=await names("resources/templates/list", "resourceTemplates", "uriTemplate"),
        )
        before = _OFFERED.set(lists)
        try:
            return await call_next(ctx)
        finally:
            _OFFERED.reset(before)

    def listening(self, ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
        """Have a stream of the current revision tell of the list of skills, where its client asks for that."""
        params = ctx.params or {}
        wanted = params.get("notifications")
        if not isinstance(wanted, dict) or wanted.get(LIST_CHANGED_FILTER) is not True:
            return ctx
        texts = wanted.get("resourceSubscriptions") or []
        if not isinstance(texts, list):
            return ctx
        asked = {**wanted, "resourceSubscriptions": [*texts, SKILLS_CHANGED]}
        return replace(ctx, session=_Listener(ctx.session), params={**params, "notifications": asked})

    async def _list(self, ctx: ServerRequestContext[Any, Any], params: ListNamedSkillsParams) -> dict[str, Any]:
        self._check()
        with failures_as_errors():
            view = await self._publisher.view(ctx)
            items, cursor = self._serving(view).page(params.cursor, view)
            result: dict[str, Any] = {"skills": [summary(listed.entry) for listed in items]}
            if cursor is not None:
                result["nextCursor"] = cursor
            return self._finished(ctx, result)

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: GetNamedSkillParams) -> dict[str, Any]:
        self._check()
        with failures_as_errors():
            view = await self._publisher.view(ctx)
            listed = self._serving(view).find(params.name, view.where)
            if listed is None and (roots := self._publisher.not_made(params.name)):
                for root in roots:
                    await self._publisher.make(root)
                view = replace(view, catalog=self._publisher.live.catalog)
                listed = self._serving(view).find(params.name, view.where)
            if listed is None:
                raise _unknown(params.name)
            if problem := argument_problem(listed.entry.frontmatter, params.arguments or {}):
                raise MCPError(code=INVALID_PARAMS, message=problem)
            if listed.entry.resources == DYNAMIC:
                return self._finished(ctx, await self._made(view, listed, params), ttl=0)
            return self._finished(ctx, await self._read(view, listed, params.name))

    async def _read(self, view: View, listed: Listed, name: str) -> dict[str, Any]:
        """A skill on disk. If it changed and was never read before, it is read now, and is another skill by then."""
        live = await self._publisher.load()
        record = view.file(listed.uri)
        data = None if record is None else await self._publisher.bytes_of(live, record)
        if data is None:
            data = await self._publisher.reread(live, view, listed.uri)
            view = replace(view, catalog=live.catalog)
            again = self._serving(view).find(name, view.where)
            if data is None or again is None or again.uri != listed.uri:
                raise _unknown(name)
            listed = again

        def sniff(record: FileRecord) -> bytes | None:
            return live.read(record) if live.is_at_hand(record) else None

        entry = listed.entry
        return definition(entry, data, _files(entry.root, entry.resources, sniff))

    async def _made(self, view: View, listed: Listed, params: GetNamedSkillParams) -> dict[str, Any]:
        """A generated skill. Reading a file gives no arguments, so that the files are those made without any."""
        root = listed.uri.root
        generation = await self._publisher.make(root)
        view = replace(view, catalog=self._publisher.live.catalog)
        again = self._serving(view).find(params.name, view.where)
        if again is None or again.uri != listed.uri:
            raise _unknown(params.name)
        files = list(_files(root, generation.manifest, lambda record: generation.files.get(record.uri)))
        function = self._functions[root]
        if given := _wanted(function, again.entry.frontmatter, params.arguments or {}):
            made = await called(partial(function, **given), self._publisher.function_threads)
            generation = check_generated(root, made)
            if view.where is not None and not view.where(generation.listed.entry):
                raise _unknown(params.name)
        return definition(generation.listed.entry, generation.files[root.child(SKILL_MD)], files)

    async def _depends(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        """True when the answer to this request depends on what else the server offers."""
        catalog = (await self._publisher.load()).catalog
        if self._depending is None or self._depending[0] is not catalog:
            self._depending = catalog, frozenset(each.uri.segments[-2] for each in catalog.listed if may_depend(each))
        names = self._depending[1]
        if ctx.method != "skills/get":
            return bool(names)
        name = (ctx.params or {}).get("name")
        return isinstance(name, str) and (name in names or bool(self._publisher.not_made(name)))

    def _serving(self, view: View) -> Named:
        named = self._named(view.catalog, NOTHING if self._is_alone else _OFFERED.get())
        self._tell(named, log=True)
        return named

    def _named(self, catalog: Catalog, lists: Lists | None) -> Named:
        """The skills for those who are offered this; what was worked out for some others is kept."""
        for named in self._kept:
            if named.catalog is catalog and named.lists == lists:
                return named
        named = Named(catalog, lists, self._templates)
        self._kept = [named, *self._kept[: _MOST_KEPT - 1]]
        return named

    def _at_start(self) -> Named:
        return self._named(self._publisher.live.catalog, NOTHING if self._is_alone else None)

    def _finished(
        self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any], ttl: int | None = None
    ) -> dict[str, Any]:
        """What depends on who asks is nobody else's."""
        finished = self._publisher.finished(ctx, result, ttl=ttl)
        is_own = _OFFERED.get() is not None and "cacheScope" in finished
        return {**finished, "cacheScope": "private"} if is_own else finished

    def _tell(self, named: Named, *, log: bool) -> None:
        """Each reason is told once, also where many askers take turns."""
        new = [remark for remark in named.remarks if remark not in self._told]
        if new and len(self._told) + len(new) > _MOST_TOLD:
            self._told.clear()
        self._told.update(new)
        for remark in new[:_MOST_REMARKS] if log else ():
            _log.warning("%s", remark)


class _Listener(ServerSession):
    """The session of a stream, which says in the proposal's words what the bus says of a resource nobody has."""

    def __init__(self, session: ServerSession) -> None:
        super().__init__(session._request_outbound, session._connection)  # noqa: SLF001 - the SDK has no public way

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        """Send it, in the proposal's words where it has some."""
        match notification:
            case SubscriptionsAcknowledgedNotification():
                honored = notification.params.notifications.model_dump(by_alias=True, exclude_none=True)
                uris = [uri for uri in honored.pop("resourceSubscriptions", ()) if uri != SKILLS_CHANGED]
                honored |= {"resourceSubscriptions": uris} if uris else {}
                told = SubscriptionFilter.model_validate({**honored, LIST_CHANGED_FILTER: True})
                params = notification.params.model_copy(update={"notifications": told})
                notification = notification.model_copy(update={"params": params})
            case ResourceUpdatedNotification() if notification.params.uri == SKILLS_CHANGED:
                changed = SkillListChanged(params=NotificationParams(_meta=notification.params.meta))
                await self._notify(changed, request_scoped=related_request_id is not None)  # type: ignore[arg-type]
                return
        await super().send_notification(notification, related_request_id)


def _unknown(name: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=f'No skill is named "{shorten(name)}". skills/list names them all.')


def _files(
    root: SkillUri, manifest: Manifest | str, sniff: Callable[[FileRecord], bytes | None]
) -> Iterable[SkillFile]:
    own = root.child(SKILL_MD).key
    for record in manifest.files if isinstance(manifest, Manifest) else ():
        if record.uri.key != own:
            kind = media_type(record.uri.name) or media_type(record.uri.name, sniff(record))
            yield SkillFile(path=root.relative(record.uri), uri=str(record.uri), mime_type=kind)


def _wanted(function: SkillFunction, frontmatter: Mapping[str, object], given: Mapping[str, str]) -> dict[str, str]:
    """Those of the given arguments that the skill declares and its function takes by name."""
    try:
        takes = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    names = (each["name"] for each in declared_arguments(frontmatter))
    return {name: given[name] for name in names if name in given and name in takes and takes[name].kind in by_name}
