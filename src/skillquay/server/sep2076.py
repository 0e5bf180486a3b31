"""An endpoint of SEP-2076: skills by name, with what they depend on checked against the server itself (I7, I14)."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.server.extension import MethodBinding
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import (
    INVALID_PARAMS,
    NotificationParams,
    ResourceUpdatedNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
)

from skillquay.core.catalog import Catalog, find_file
from skillquay.core.entries import DYNAMIC, Manifest
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.dialects.sep2076 import (
    Offered,
    SkillFile,
    argument_problem,
    declared_arguments,
    definition,
    missing,
    summary,
)
from skillquay.errors import UriError
from skillquay.server.beside import list_all
from skillquay.server.publisher import Publisher, called
from skillquay.server.refusals import failures_as_errors
from skillquay.server.sessions import SKILLS_CHANGED, connection_of
from skillquay.sources.function import check_generated
from skillquay.wire.contents import media_type
from skillquay.wire.sep2076 import LIST_CHANGED_FILTER, GetNamedSkillParams, ListNamedSkillsParams, SkillListChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcp.server.context import CallNext, ServerRequestContext
    from mcp_types import RequestId, ServerNotification

    from skillquay.core.catalog import Listed, Where
    from skillquay.core.entries import FileRecord
    from skillquay.server.answers import View
    from skillquay.server.publisher import SkillFunction
    from skillquay.server.templates import Templates

__all__ = ["NamedSkills"]

_log = logging.getLogger(__name__)

_LISTING: Final = "sep-2076 skills/list"
_MOST_REMARKS: Final = 20
_MOST_SERVERS: Final = 8  # that one set of skills is served by at once, and remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    """What the server itself lists."""

    tools: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    templates: tuple[UriTemplate, ...] = ()


_NOTHING: Final = _Lists()


class _Served:
    """Those skills of one catalog that can be served by name, and why the others cannot."""

    def __init__(self, catalog: Catalog, lists: _Lists | None, templates: Templates) -> None:
        known = lists or _NOTHING

        def reads(uri: str) -> bool:
            own = uri in known.resources or any(uri == str(each) or each.match(uri) for each in known.templates)
            return own or templates.reads(uri) or _is_file(catalog, uri)

        offered = Offered(tools=known.tools, prompts=known.prompts, reads=reads)
        self.of = catalog, lists
        self.remarks: list[str] = []
        self._by_name: dict[str, list[Listed]] = {}
        for listed in catalog.listed:
            absent = missing(listed.entry.frontmatter, offered) if _may_depend(listed) else []
            if not absent:
                self._by_name.setdefault(listed.uri.segments[-2], []).append(listed)
            elif lists is not None:
                self.remarks.append(
                    f"{shorten(listed.uri)} is not listed: this server does not offer {', '.join(absent[:5])}."
                )
        for name, listed_so in self._by_name.items():
            if len(listed_so) > 1:
                others = ", ".join(shorten(each.uri) for each in listed_so[1:6])
                self.remarks.append(
                    f'{len(listed_so)} skills are named "{name}", and a name is all that SEP-2076 asks for: '
                    f"{shorten(listed_so[0].uri)} is served, {others} not."
                )
        self._candidates = Catalog(listed for listed_so in self._by_name.values() for listed in listed_so)

    def find(self, name: str, where: Where | None) -> Listed | None:
        """The first skill of this name that this asker may see."""
        return next((each for each in self._by_name.get(name, ()) if where is None or where(each.entry)), None)

    def page(self, cursor: str | None, view: View) -> tuple[Sequence[Listed], str | None]:
        """A page of the skills that this asker may see, each name once."""

        def is_first(entry: Any) -> bool:
            found = self.find(entry.name, view.where)
            return found is not None and found.uri == entry.uri

        is_plain = view.where is None and len(self._candidates) == len(self._by_name)
        page = self._candidates.page(
            cursor,
            size=view.page_size.entries,
            max_bytes=view.page_size.bytes,
            where=None if is_plain else is_first,
            listing=_LISTING,
        )
        return page.items, page.next_cursor


class NamedSkills:
    """Answers `skills/list` and `skills/get` as SEP-2076 has them.

    What the server lists of its own is asked for once, when a skill that depends on something is first looked for.
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
        self._lists: list[tuple[object, _Lists]] = []
        self._served: _Served | None = None
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
        """Which skills are not served by name, and why; as to dependencies, only once those are known."""
        return self._latest().remarks

    def tell(self, *, log: bool) -> None:
        """Log which skills are not served, unless somebody else tells it."""
        self._tell(self._latest(), log=log)

    async def learn(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> None:
        """Ask the server for its own lists, if a skill depends on something and they are not known yet."""
        if self._is_alone or self._known(ctx) is not None or not connection_of(ctx).initialize_accepted:
            return
        live = await self._publisher.load()
        if not any(map(_may_depend, live.catalog.listed)):
            return

        async def names(method: str, member: str, field: str) -> list[str]:
            listed = await list_all(ctx, call_next, method, member)
            return [str(each[field]) for each in listed]

        lists = _Lists(
            tools=frozenset(await names("tools/list", "tools", "name")),
            prompts=frozenset(await names("prompts/list", "prompts", "name")),
            resources=frozenset(await names("resources/list", "resources", "uri")),
            templates=tuple(
                _parsed(await names("resources/templates/list", "resourceTemplates", "uriTemplate")),
            ),
        )
        self._lists = [*self._lists[-_MOST_SERVERS + 1 :], (ctx.lifespan_context, lists)]

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
            items, cursor = self._serving(ctx, view).page(params.cursor, view)
            result: dict[str, Any] = {"skills": [summary(listed.entry) for listed in items]}
            if cursor is not None:
                result["nextCursor"] = cursor
            return self._publisher.finished(ctx, result)

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: GetNamedSkillParams) -> dict[str, Any]:
        self._check()
        with failures_as_errors():
            view = await self._publisher.view(ctx)
            listed = self._serving(ctx, view).find(params.name, view.where)
            if listed is None:
                raise _unknown(params.name)
            if problem := argument_problem(listed.entry.frontmatter, params.arguments or {}):
                raise MCPError(code=INVALID_PARAMS, message=problem)
            if listed.entry.resources == DYNAMIC:
                result = await self._made(ctx, view, listed, params)
                return self._publisher.finished(ctx, result, ttl=0)
            return self._publisher.finished(ctx, await self._read(ctx, view, listed, params.name))

    async def _read(self, ctx: ServerRequestContext[Any, Any], view: View, listed: Listed, name: str) -> dict[str, Any]:
        """A skill on disk. If it changed and was never read before, it is read now, and is another skill by then."""
        live = await self._publisher.load()
        record = view.file(listed.uri)
        data = None if record is None else await self._publisher.bytes_of(live, record)
        if data is None:
            data = await self._publisher.reread(live, view, listed.uri)
            view = replace(view, catalog=live.catalog)
            again = self._serving(ctx, view).find(name, view.where)
            if data is None or again is None or again.uri != listed.uri:
                raise _unknown(name)
            listed = again

        def sniff(record: FileRecord) -> bytes | None:
            return live.read(record) if live.is_at_hand(record) else None

        entry = listed.entry
        return definition(entry, data, _files(entry.root, entry.resources, sniff))

    async def _made(
        self, ctx: ServerRequestContext[Any, Any], view: View, listed: Listed, params: GetNamedSkillParams
    ) -> dict[str, Any]:
        """A generated skill. Reading a file gives no arguments, so that the files are those made without any."""
        root = listed.uri.root
        generation = await self._publisher.make(root)
        view = replace(view, catalog=self._publisher.live.catalog)
        again = self._serving(ctx, view).find(params.name, view.where)
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

    def _known(self, ctx: ServerRequestContext[Any, Any]) -> _Lists | None:
        """What is known of the server that this request came to; each has a lifespan of its own."""
        if self._is_alone:
            return _NOTHING
        return next((lists for lifespan, lists in self._lists if lifespan is ctx.lifespan_context), None)

    def _serving(self, ctx: ServerRequestContext[Any, Any], view: View) -> _Served:
        served = self._serve(view.catalog, self._known(ctx))
        self._tell(served, log=True)
        return served

    def _serve(self, catalog: Catalog, lists: _Lists | None) -> _Served:
        if self._served is None or self._served.of[0] is not catalog or self._served.of[1] is not lists:
            self._served = _Served(catalog, lists, self._templates)
        return self._served

    def _latest(self) -> _Served:
        known = self._lists[-1][1] if self._lists else None
        return self._serve(self._publisher.live.catalog, _NOTHING if self._is_alone else known)

    def _tell(self, served: _Served, *, log: bool) -> None:
        """Each reason is told once, as long as it stands."""
        new = [remark for remark in served.remarks if remark not in self._told]
        self._told = set(served.remarks)
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


def _may_depend(listed: Listed) -> bool:
    return b'"dependencies":' in listed.text


def _is_file(catalog: Catalog, text: str) -> bool:
    """True when this is a file of a skill, or lies in one that is generated."""
    try:
        uri = SkillUri(text)
    except UriError:
        return False
    around = list(catalog.around(uri))
    return find_file(around, uri) is not None or any(each.entry.resources == DYNAMIC for each in around)


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


def _parsed(texts: Iterable[str]) -> Iterable[UriTemplate]:
    for text in texts:
        try:
            yield UriTemplate.parse(text)
        except InvalidUriTemplate:
            continue
