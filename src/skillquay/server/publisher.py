"""What stands behind the methods: a live catalog, the functions that generate skills, and who may see what."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from skillquay.core.catalog import find_children, nesting_note
from skillquay.core.findings import Level
from skillquay.core.hidden import shorten, visible
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.errors import ArchiveError, GenerationError, UriError
from skillquay.server.answers import INDEX_RESOURCE, PageSize, View, archive_result, read_result
from skillquay.server.archive_shelf import ArchiveShelf, MissingFileError
from skillquay.server.index_document import IndexDocument
from skillquay.server.refusals import is_modern, shown_uri
from skillquay.server.sessions import Announcer
from skillquay.server.visibility import Visible, ask_visible, visible_to_both
from skillquay.server.watch import Watcher
from skillquay.sources.function import Content, Generation, check_generated
from skillquay.sources.live import Change, LiveCatalog
from skillquay.sources.tree import DirectorySource
from skillquay.wire.index_json import INDEX_URI

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp.server.context import ServerRequestContext

    from skillquay.core.catalog import Catalog, Listed
    from skillquay.core.entries import FileRecord
    from skillquay.server.sessions import Sessions
    from skillquay.sources.headstart import HeadStart

__all__ = ["Made", "Publisher", "SkillFunction", "called"]

_log = logging.getLogger(__name__)

Made: TypeAlias = "Content | os.PathLike[str]"
SkillFunction: TypeAlias = "Callable[[], Made | Awaitable[Made]]"

_MOST_REFUSALS = 20
_FUNCTIONS_AT_ONCE = 16
_ARCHIVES_AT_ONCE = 2  # each may need some ten megabytes
_INLINE = 1 << 16  # bytes that are read without leaving the event loop: they come from memory


class Publisher:
    """Answers the extension's methods for one server."""

    def __init__(
        self,
        sources: list[DirectorySource],
        functions: Mapping[SkillUri, SkillFunction],
        sessions: Sessions,
        *,
        page_size: PageSize,
        ttl: float,
        visible: Visible | None,
        is_private: bool,
        watch: bool,
        index: bool,
        index_directory: str | None,
        others: Callable[[], Sequence[dict[str, Any]]] = tuple,
    ) -> None:
        self._sources = sources
        self._functions = functions
        self._sessions = sessions
        self.page_size = page_size
        self._visible = visible
        self.is_for_everybody = visible is None
        self.hints = {"ttlMs": round(ttl * 1000), "cacheScope": "private" if visible or is_private else "public"}
        self._watch = watch
        self.has_index = index
        self._shelf = ArchiveShelf(self._published_bytes)
        self._index = IndexDocument(self._shelf, others=others, on_whole=self._tell_of_index)
        self._archive_threads = anyio.CapacityLimiter(_ARCHIVES_AT_ONCE)
        self._index_directory = index_directory
        self._generated: dict[tuple[str, ...], SkillUri] = {}
        self._live: LiveCatalog | None = None
        self.function_threads = anyio.CapacityLimiter(_FUNCTIONS_AT_ONCE)
        self._ahead: HeadStart | None = None
        self._watcher: Watcher | None = None
        self._announcer: Announcer | None = None
        self._lock = anyio.Lock()

    @property
    def is_ready(self) -> bool:
        """True once the skills have been read."""
        return self._live is not None

    @property
    def live(self) -> LiveCatalog:
        """What is published, once the skills have been read."""
        assert self._live is not None, "load() comes first"
        return self._live

    async def load(self, *, log: bool = True) -> LiveCatalog:
        """Read the skills, the first time it is asked for, and begin to watch them."""
        if self._live is not None:
            return self._live
        async with self._lock:
            if self._live is None:
                begun = [await self._begin(root) for root in list(self._functions)]
                named = [each for each in begun if isinstance(each, DirectorySource)]
                live = await anyio.to_thread.run_sync(self._read, [*self._sources, *named])
                if log:
                    _log_refusals(live)
                for generation in begun:
                    if isinstance(generation, Generation):
                        live.generate(generation.listed)
                if log and self.has_index and (note := nesting_note(live.catalog)):
                    _log.warning("%s", note)
                self._announcer = Announcer(self._sessions)
                self._watcher = Watcher(live, self._tell, watch=self._watch)
                self._watcher.start()
                self._live = live
            return self._live

    def begin_with(self, ahead: HeadStart) -> None:
        """Serve what another process is reading: the same directories, and nothing besides."""
        self._ahead = ahead

    def restrict(self, other: Publisher) -> None:
        """Let nobody see what another publisher would not show, and nobody keep an answer longer than it allows."""
        if other._visible is not None:
            self._visible = visible_to_both(self._visible, other._visible)
            self.is_for_everybody = False
        is_private = "private" in {self.hints["cacheScope"], other.hints["cacheScope"]}
        ttl = min(self.hints["ttlMs"], other.hints["ttlMs"])
        self.hints = {"ttlMs": ttl, "cacheScope": "private" if is_private else "public"}

    def close(self) -> None:
        """Stop watching, and packing."""
        self._index.close()
        if self._watcher is not None:
            self._watcher.stop()

    async def list_skills(self, ctx: ServerRequestContext[Any, Any], cursor: str | None) -> dict[str, Any]:
        """`skills/list`."""
        return self.finished(ctx, (await self.view(ctx)).list_skills(cursor))

    async def list_resources(self, ctx: ServerRequestContext[Any, Any], cursor: str | None) -> dict[str, Any]:
        """Our part of `resources/list`."""
        page = (await self.view(ctx)).list_resources(cursor)
        if self.has_index and cursor is None:
            page["resources"].insert(0, dict(INDEX_RESOURCE))
        return self.finished(ctx, page)

    async def get_skill(self, ctx: ServerRequestContext[Any, Any], text: str) -> dict[str, Any]:
        """`skills/get` (G1)."""
        uri = None
        with contextlib.suppress(UriError):
            uri = SkillUri(text)
        listed = None if uri is None else await self._skill(ctx, uri)
        if listed is None:
            message = f"No skill is served at {shown_uri(text)}. Give the URI of a SKILL.md that skills/list names."
            raise MCPError(code=INVALID_PARAMS, message=message)
        return self.finished(ctx, {"skill": listed.to_json()})

    async def read(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> dict[str, Any] | None:
        """`resources/read` of a file of a skill, its archive, or the index; None when there is none at this URI."""
        live = await self.load()
        view = await self.view(ctx)
        if self.has_index and uri.key == INDEX_URI.key:
            text, is_whole = await self._index.read(view.catalog, view.where)
            return self.finished(ctx, read_result(uri, uri.name, text.encode()), ttl=None if is_whole else 0)
        if (record := view.file(uri)) is not None:
            data = await self.bytes_of(live, record)
            if data is None and (data := await self.reread(live, view, uri)) is None:
                return None
            return self.finished(ctx, read_result(uri, uri.name, data))
        if self.has_index and (archive := await self._archive(live, view, uri)) is not None:
            return self.finished(ctx, archive)
        generation, _ = await self._generate(view, uri)
        if generation is None or (record := generation.manifest.find(uri)) is None:
            return None
        return self.finished(ctx, read_result(uri, uri.name, generation.files[record.uri]), ttl=0)

    async def read_directory(
        self, ctx: ServerRequestContext[Any, Any], text: str, cursor: str | None
    ) -> dict[str, Any]:
        """`resources/directory/read` (D1)."""
        try:
            uri = SkillUri(text)
        except UriError as error:
            raise MCPError(code=INVALID_PARAMS, message=error.message) from None
        live = await self.load()
        view = await self.view(ctx)
        result = view.list_directory(uri, cursor, lambda record: live.read(record) if live.is_at_hand(record) else None)
        if result is None:
            generation, view = await self._generate(view, uri)
            nodes = None if generation is None else find_children([generation.as_files], uri)
            if generation is not None and nodes is not None:
                files = generation.files
                result = view.page_of(nodes, uri, cursor, lambda record: files.get(record.uri))
        if result is None:
            raise MCPError(code=INVALID_PARAMS, message=f"{shown_uri(text)} is not a directory of a served skill.")
        return self.finished(ctx, result, hints=False)

    async def seen(self, ctx: ServerRequestContext[Any, Any], uris: Iterable[SkillUri]) -> set[SkillUri]:
        """Those of these URIs at which there is a file of a skill that this asker may see."""
        view = await self.view(ctx)
        return {uri for uri in uris if self._is_there(view, uri)}

    def claims(self, uri: SkillUri) -> bool:
        """True for a place where nothing is served but skills: the whole scheme `skill`, or below a native prefix."""
        key = uri.key
        native = [(source.scheme, *source.prefix) for source in self._sources] + [root.key for root in self._functions]
        return key[0] == "skill" or any(key[: len(place)] == place for place in native)

    def index_at_hand(self, catalog: Catalog) -> list[bytes] | None:
        """The index for those who see everything, in pieces to stand in a JSON string, if nothing in it is missing."""
        return self._index.at_hand(catalog) if self.has_index else None

    def _is_there(self, view: View, uri: SkillUri) -> bool:
        if self.has_index and uri.key == INDEX_URI.key:
            return True
        return view.file(uri) is not None or view.generated(uri) is not None

    async def _archive(self, live: LiveCatalog, view: View, uri: SkillUri) -> dict[str, Any] | None:
        """An archive of a skill, from the bytes its files were published with."""
        for _ in range(2):
            if (found := view.archive(uri)) is None:
                return None
            listed, archive_format = found
            pack = partial(self._shelf.archive, listed, archive_format)
            try:
                data = await anyio.to_thread.run_sync(pack, limiter=self._archive_threads)
            except ArchiveError:
                return None  # it is not in the index either
            except MissingFileError:  # as in `reread`
                self._tell(await anyio.to_thread.run_sync(live.refresh_file, listed.uri))
                view = replace(view, catalog=live.catalog)
            else:
                return archive_result(uri, archive_format, data)
        return None

    def _read(self, sources: Sequence[DirectorySource]) -> LiveCatalog:
        if self._ahead is not None:
            return self._ahead.finish()
        live = LiveCatalog(sources, index_directory=self._index_directory)
        live.load()
        return live

    async def view(self, ctx: ServerRequestContext[Any, Any]) -> View:
        """The catalog of this moment, as this asker may see it."""
        live = await self.load()
        where = None
        if self._visible is not None:
            where = await ask_visible(self._visible, ctx)
        return View(catalog=live.catalog, where=where, page_size=self.page_size)

    async def _skill(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> Listed | None:
        view = await self.view(ctx)
        if (listed := view.skill(uri)) is not None:
            return listed
        root = self._generated.get(uri.key[:-1]) if uri.name == SKILL_MD else None
        if root is not None and not view.catalog.skill(uri):
            await self.make(root)  # it could not be made before, and is not listed
            return replace(view, catalog=self.live.catalog).skill(uri)
        return None

    def read_at_hand(self, record: FileRecord) -> bytes | None:
        """The bytes of a file that can be had without waiting."""
        live = self.live
        return live.read(record) if record.size <= _INLINE and live.is_at_hand(record) else None

    def _published_bytes(self, record: FileRecord) -> bytes | None:
        return self.live.read(record)

    async def bytes_of(self, live: LiveCatalog, record: FileRecord) -> bytes | None:
        """The bytes of a file, without blocking the event loop; None when it changed and was never read before."""
        if (data := self.read_at_hand(record)) is not None:
            return data
        return await anyio.to_thread.run_sync(live.read, record)

    async def reread(self, live: LiveCatalog, view: View, uri: SkillUri) -> bytes | None:
        """A file changed that was never read before: have its skill read now, and answer from the new catalog."""
        self._tell(await anyio.to_thread.run_sync(live.refresh_file, uri))
        record = replace(view, catalog=live.catalog).file(uri)
        return None if record is None else await self.bytes_of(live, record)

    async def _begin(self, root: SkillUri) -> Generation | DirectorySource | None:
        """Call a function for the first time: it names a directory, or makes the skill itself."""
        self._generated[root.key] = root
        try:
            made = await called(self._functions[root], self.function_threads)
            if isinstance(made, os.PathLike):
                del self._generated[root.key]
                return DirectorySource(os.fsdecode(made), prefix=root.segments, scheme=root.scheme, is_part=True)
            return check_generated(root, made)
        except GenerationError as error:
            _log.error("%s The skill is not listed.", error)
        except Exception:  # noqa: BLE001 - the author's function may raise anything
            _log.exception("The function of %s failed; the skill is not listed.", shorten(root))
        return None

    async def _generate(self, view: View, uri: SkillUri) -> tuple[Generation | None, View]:
        """Make the generated skill around a URI anew; it may now say of itself that this asker may not see it."""
        if (listed := view.generated(uri)) is None:
            return None, view
        generation = await self.make(listed.uri.root)
        view = replace(view, catalog=self.live.catalog)
        return (generation if view.skill(generation.listed.uri) else None), view

    async def make(self, root: SkillUri) -> Generation:
        """Call a function again. When its entry changed, that is published before the content is given out."""
        generation = check_generated(root, await called(self._functions[root], self.function_threads))
        listed = generation.listed
        if self.live.catalog.skill(listed.uri) != listed:
            self._tell(await anyio.to_thread.run_sync(self.live.generate, listed))  # a long look may be under way
        return generation

    def not_made(self, name: str) -> list[SkillUri]:
        """The skills of this name whose functions failed so far, so that they are not listed."""
        roots = [root for root in self._generated.values() if root.name == name]
        return [root for root in roots if not self.live.catalog.skill(root.child(SKILL_MD))]

    def _tell(self, change: Change | None) -> None:
        """Announce a change, from any thread; every change of the catalog is one of the index."""
        if change is not None and self._announcer is not None:
            files = change.files | {INDEX_URI} if self.has_index else change.files
            self._announcer.tell(replace(change, files=files))

    def _tell_of_index(self) -> None:
        self._tell(Change(skills=frozenset(), files=frozenset()))

    def finished(
        self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any], *, hints: bool = True, ttl: int | None = None
    ) -> dict[str, Any]:
        """What only the current revision defines is not sent on older ones (L2, R4)."""
        if not is_modern(ctx):
            return result
        extra = dict(self.hints) if hints else {}
        if ttl is not None:
            extra["ttlMs"] = ttl
        return {"resultType": "complete", **result, **extra}


def _log_refusals(live: LiveCatalog) -> None:
    refused = [remark for remark in live.remarks if remark.finding.level is Level.ERROR]
    for remark in refused[:_MOST_REFUSALS]:
        _log.warning("Not published: %s: %s", visible(remark.location), remark.finding.message)
    if len(refused) > _MOST_REFUSALS:
        _log.warning('… and %d more reasons. "skillquay lint" tells them all.', len(refused) - _MOST_REFUSALS)


async def called(function: SkillFunction, limiter: anyio.CapacityLimiter) -> Made:
    """Run a function without blocking the event loop, nor the threads that read files."""
    if inspect.iscoroutinefunction(function):
        made: Made = await function()
        return made
    result = await anyio.to_thread.run_sync(function, limiter=limiter)
    return await result if isinstance(result, Awaitable) else result
