"""What stands behind the methods: a live catalog, the functions that generate skills, and who may see what."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillquay.core.catalog import find_children
from skillquay.core.findings import Level
from skillquay.core.hidden import shorten, visible
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import CursorError, GenerationError, UriError
from skillquay.server.answers import PageSize, View, read_result
from skillquay.server.sessions import Announcer
from skillquay.server.watch import Watcher
from skillquay.sources.function import Content, Generation, check_generated
from skillquay.sources.live import LiveCatalog
from skillquay.sources.tree import DirectorySource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mcp.server.context import ServerRequestContext

    from skillquay.core.catalog import Listed, Where
    from skillquay.core.entries import FileRecord, SkillEntry
    from skillquay.server.sessions import Sessions
    from skillquay.sources.headstart import HeadStart
    from skillquay.sources.live import Change

__all__ = ["Made", "Publisher", "SkillFunction", "Visible", "failures_as_errors", "is_modern", "unknown_resource"]

_log = logging.getLogger(__name__)

Made: TypeAlias = "Content | os.PathLike[str]"
SkillFunction: TypeAlias = "Callable[[], Made | Awaitable[Made]]"
Visible: TypeAlias = "Callable[[ServerRequestContext[Any, Any]], Where | Awaitable[Where]]"

_RESOURCE_NOT_FOUND = -32002  # what revisions before 2026-07-28 answer for an unknown resource
_MOST_REFUSALS = 20
_FUNCTIONS_AT_ONCE = 16
_FAILED = "The server could not answer. Its log says why."
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
        index_directory: str | None,
    ) -> None:
        self._sources = sources
        self._functions = functions
        self._sessions = sessions
        self.page_size = page_size
        self._visible = visible
        self.is_for_everybody = visible is None
        self.hints = {"ttlMs": round(ttl * 1000), "cacheScope": "private" if visible or is_private else "public"}
        self._watch = watch
        self._index_directory = index_directory
        self._generated: dict[tuple[str, ...], SkillUri] = {}
        self._live: LiveCatalog | None = None
        self._function_threads = anyio.CapacityLimiter(_FUNCTIONS_AT_ONCE)
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
                self._announcer = Announcer(self._sessions)
                self._watcher = Watcher(live, self._announcer.tell, watch=self._watch)
                self._watcher.start()
                self._live = live
            return self._live

    def begin_with(self, ahead: HeadStart) -> None:
        """Serve what another process is reading: the same directories, and nothing besides."""
        self._ahead = ahead

    def restrict(self, other: Publisher) -> None:
        """Let nobody see what another publisher would not show, and nobody keep an answer longer than it allows."""
        if other._visible is not None:
            self._visible = _both(self._visible, other._visible)
            self.is_for_everybody = False
        is_private = "private" in {self.hints["cacheScope"], other.hints["cacheScope"]}
        ttl = min(self.hints["ttlMs"], other.hints["ttlMs"])
        self.hints = {"ttlMs": ttl, "cacheScope": "private" if is_private else "public"}

    def close(self) -> None:
        """Stop watching."""
        if self._watcher is not None:
            self._watcher.stop()

    async def list_skills(self, ctx: ServerRequestContext[Any, Any], cursor: str | None) -> dict[str, Any]:
        """`skills/list`."""
        return self._finished(ctx, (await self._view(ctx)).list_skills(cursor))

    async def list_resources(self, ctx: ServerRequestContext[Any, Any], cursor: str | None) -> dict[str, Any]:
        """Our part of `resources/list`."""
        return self._finished(ctx, (await self._view(ctx)).list_resources(cursor))

    async def get_skill(self, ctx: ServerRequestContext[Any, Any], text: str) -> dict[str, Any]:
        """`skills/get` (G1)."""
        uri = None
        with contextlib.suppress(UriError):
            uri = SkillUri(text)
        listed = None if uri is None else await self._skill(ctx, uri)
        if listed is None:
            message = f"No skill is served at {_shown(text)}. Give the URI of a SKILL.md that skills/list names."
            raise MCPError(code=INVALID_PARAMS, message=message)
        return self._finished(ctx, {"skill": listed.to_json()})

    async def read(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> dict[str, Any] | None:
        """`resources/read` of a file of a skill; None when there is none at this URI."""
        live = await self.load()
        view = await self._view(ctx)
        if (record := view.file(uri)) is not None:
            data = await self._bytes(live, record)
            if data is None and (data := await self._reread(live, view, uri)) is None:
                return None
            return self._finished(ctx, read_result(uri, uri.name, data))
        generation, _ = await self._generate(view, uri)
        if generation is None or (record := generation.manifest.find(uri)) is None:
            return None
        return self._finished(ctx, read_result(uri, uri.name, generation.files[record.uri]), ttl=0)

    async def read_directory(
        self, ctx: ServerRequestContext[Any, Any], text: str, cursor: str | None
    ) -> dict[str, Any]:
        """`resources/directory/read` (D1)."""
        try:
            uri = SkillUri(text)
        except UriError as error:
            raise MCPError(code=INVALID_PARAMS, message=error.message) from None
        live = await self.load()
        view = await self._view(ctx)
        result = view.list_directory(uri, cursor, lambda record: live.read(record) if live.is_at_hand(record) else None)
        if result is None:
            generation, view = await self._generate(view, uri)
            nodes = None if generation is None else find_children([generation.as_files], uri)
            if generation is not None and nodes is not None:
                files = generation.files
                result = view.page_of(nodes, uri, cursor, lambda record: files.get(record.uri))
        if result is None:
            raise MCPError(code=INVALID_PARAMS, message=f"{_shown(text)} is not a directory of a served skill.")
        return self._finished(ctx, result, hints=False)

    async def seen(self, ctx: ServerRequestContext[Any, Any], uris: Iterable[SkillUri]) -> set[SkillUri]:
        """Those of these URIs at which there is a file of a skill that this asker may see."""
        view = await self._view(ctx)
        return {uri for uri in uris if view.file(uri) is not None or view.generated(uri) is not None}

    def _read(self, sources: Sequence[DirectorySource]) -> LiveCatalog:
        if self._ahead is not None:
            return self._ahead.finish()
        live = LiveCatalog(sources, index_directory=self._index_directory)
        live.load()
        return live

    async def _view(self, ctx: ServerRequestContext[Any, Any]) -> View:
        live = await self.load()
        where = None
        if self._visible is not None:
            where = await _asked(self._visible, ctx)
        return View(catalog=live.catalog, where=where, page_size=self.page_size)

    async def _skill(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> Listed | None:
        view = await self._view(ctx)
        if (listed := view.skill(uri)) is not None:
            return listed
        root = self._generated.get(uri.key[:-1]) if uri.name == SKILL_MD else None
        if root is not None and not view.catalog.skill(uri):
            await self._make(root)  # it could not be made before, and is not listed
            return replace(view, catalog=self.live.catalog).skill(uri)
        return None

    def read_at_hand(self, record: FileRecord) -> bytes | None:
        """The bytes of a file that can be had without waiting."""
        live = self.live
        return live.read(record) if record.size <= _INLINE and live.is_at_hand(record) else None

    async def _bytes(self, live: LiveCatalog, record: FileRecord) -> bytes | None:
        if (data := self.read_at_hand(record)) is not None:
            return data
        return await anyio.to_thread.run_sync(live.read, record)

    async def _reread(self, live: LiveCatalog, view: View, uri: SkillUri) -> bytes | None:
        """A file changed that was never read before: have its skill read now, and answer from the new catalog."""
        self._tell(await anyio.to_thread.run_sync(live.refresh_file, uri))
        record = replace(view, catalog=live.catalog).file(uri)
        return None if record is None else await self._bytes(live, record)

    async def _begin(self, root: SkillUri) -> Generation | DirectorySource | None:
        """Call a function for the first time: it names a directory, or makes the skill itself."""
        self._generated[root.key] = root
        try:
            made = await _called(self._functions[root], self._function_threads)
            if isinstance(made, os.PathLike):
                del self._generated[root.key]
                return DirectorySource(os.fsdecode(made), prefix=root.segments, is_part=True)
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
        generation = await self._make(listed.uri.root)
        view = replace(view, catalog=self.live.catalog)
        return (generation if view.skill(generation.listed.uri) else None), view

    async def _make(self, root: SkillUri) -> Generation:
        """Call a function again. When its entry changed, that is published before the content is given out."""
        generation = check_generated(root, await _called(self._functions[root], self._function_threads))
        listed = generation.listed
        if self.live.catalog.skill(listed.uri) != listed:
            self._tell(await anyio.to_thread.run_sync(self.live.generate, listed))  # a long look may be under way
        return generation

    def _tell(self, change: Change | None) -> None:
        if change is not None and self._announcer is not None:
            self._announcer.tell(change)

    def _finished(
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


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """True on 2026-07-28 and later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def unknown_resource(ctx: ServerRequestContext[Any, Any], text: str) -> MCPError:
    """The answer for a URI nothing is served at, in the form of this revision (R1); it never echoes megabytes."""
    shown = _shown(text)
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


def _shown(text: str) -> str:
    """A URI as a message shows it: a hidden character takes nine visible ones, and there may be many."""
    shown = shorten(text, 200)
    return shown if len(shown) <= 400 else f"{shown[:399]}…"


async def _asked(visible: Visible, ctx: ServerRequestContext[Any, Any]) -> Where:
    """What says of each entry whether this asker may see it. An author's slip shows nothing, rather than everything."""
    decided = visible(ctx)
    where = await decided if isinstance(decided, Awaitable) else decided
    if not callable(where):
        raise TypeError(f"visible gave back {type(where).__name__}, not a function of an entry.")

    def sees(entry: SkillEntry) -> bool:
        answer: object = where(entry)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("The function that visible gave back is async. Decide in visible, which may be.")
        return bool(answer)

    return sees


def _both(one: Visible | None, other: Visible) -> Visible:
    if one is None:
        return other

    async def visible(ctx: ServerRequestContext[Any, Any]) -> Where:
        first, second = await _asked(one, ctx), await _asked(other, ctx)
        return lambda entry: first(entry) and second(entry)

    return visible


async def _called(function: SkillFunction, limiter: anyio.CapacityLimiter) -> Made:
    """Run a function without blocking the event loop, nor the threads that read files."""
    if inspect.iscoroutinefunction(function):
        made: Made = await function()
        return made
    result = await anyio.to_thread.run_sync(function, limiter=limiter)
    return await result if isinstance(result, Awaitable) else result
