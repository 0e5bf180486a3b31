"""What stands behind the methods: a live catalog, the functions that generate skills, and who may see what."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillquay.core.catalog import find_children
from skillquay.core.hidden import shorten
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.errors import CursorError, SkillquayError, UriError
from skillquay.server.answers import PageSize, View, read_result
from skillquay.server.watch import Watcher
from skillquay.sources.function import Content, Generation, check_generated
from skillquay.sources.live import LiveCatalog
from skillquay.sources.tree import DirectorySource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp.server.context import ServerRequestContext

    from skillquay.core.catalog import Listed, Where
    from skillquay.core.entries import FileRecord
    from skillquay.server.sessions import Sessions
    from skillquay.sources.live import Change

__all__ = ["Made", "Publisher", "SkillFunction", "Visible", "failures_as_errors", "is_modern", "unknown_resource"]

_log = logging.getLogger(__name__)

Made: TypeAlias = "Content | os.PathLike[str]"
SkillFunction: TypeAlias = "Callable[[], Made | Awaitable[Made]]"
Visible: TypeAlias = "Callable[[ServerRequestContext[Any, Any]], Where | Awaitable[Where]]"

_RESOURCE_NOT_FOUND = -32002  # what revisions before 2026-07-28 answer for an unknown resource
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
        self._page_size = page_size
        self._visible = visible
        self._hints = {"ttlMs": round(ttl * 1000), "cacheScope": "private" if visible or is_private else "public"}
        self._watch = watch
        self._index_directory = index_directory
        self._generated: dict[tuple[str, ...], SkillFunction] = {}
        self._live: LiveCatalog | None = None
        self._watcher: Watcher | None = None
        self._loop: anyio.lowlevel.EventLoopToken | None = None
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

    async def load(self) -> LiveCatalog:
        """Read the skills, the first time it is asked for, and begin to watch them."""
        if self._live is not None:
            return self._live
        async with self._lock:
            if self._live is None:
                generations = [await self._begin(root, function) for root, function in self._functions.items()]
                live = LiveCatalog(self._sources, index_directory=self._index_directory)
                await anyio.to_thread.run_sync(live.load)
                for generation in filter(None, generations):
                    live.generate(generation.listed)
                self._loop = anyio.lowlevel.current_token()
                self._watcher = Watcher(live, self._announce_from_thread, watch=self._watch)
                self._watcher.start()
                self._live = live
            return self._live

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
        listed = None
        with contextlib.suppress(UriError):
            listed = await self._skill(ctx, SkillUri(text))
        if listed is None:
            message = f"No skill is served at {shorten(text, 200)}. Give the URI of a SKILL.md that skills/list names."
            raise MCPError(code=INVALID_PARAMS, message=message)
        return self._finished(ctx, {"skill": listed.to_json()})

    async def read(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> dict[str, Any] | None:
        """`resources/read` of a file of a skill; None when there is none at this URI."""
        live = await self.load()
        view = await self._view(ctx)
        if (record := view.file(uri)) is not None:
            data = await self._bytes(live, record)
            if data is None and (data := await self._reread(live, ctx, uri)) is None:
                return None
            return self._finished(ctx, read_result(uri, uri.name, data))
        generation = await self._generate(view, uri)
        if generation is None or (record := generation.manifest.find(uri)) is None:
            return None
        return self._finished(ctx, read_result(uri, uri.name, generation.files[record.uri]), ttl=0)

    async def read_directory(
        self, ctx: ServerRequestContext[Any, Any], text: str, cursor: str | None
    ) -> dict[str, Any]:
        """`resources/directory/read` (D1)."""
        live = await self.load()
        view = await self._view(ctx)
        uri = SkillUri(text)
        result = view.list_directory(uri, cursor, lambda record: live.read(record) if live.is_at_hand(record) else None)
        if result is None and (generation := await self._generate(view, uri)):
            nodes = find_children([generation.as_files], uri)
            if nodes is not None:
                result = view.page_of(nodes, uri, cursor, lambda record: generation.files.get(record.uri))
        if result is None:
            raise MCPError(code=INVALID_PARAMS, message=f"{shorten(text, 200)} is not a directory of a served skill.")
        return self._finished(ctx, result, hints=False)

    async def sees(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> bool:
        """True when there is a file of a skill at this URI that this asker may see."""
        view = await self._view(ctx)
        return view.file(uri) is not None or view.generated(uri) is not None

    async def _view(self, ctx: ServerRequestContext[Any, Any]) -> View:
        live = await self.load()
        where = None
        if self._visible is not None:
            decided = self._visible(ctx)
            where = await decided if isinstance(decided, Awaitable) else decided
        return View(catalog=live.catalog, where=where, page_size=self._page_size)

    async def _skill(self, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> Listed | None:
        view = await self._view(ctx)
        if (listed := view.skill(uri)) is not None:
            return listed
        if uri.name == SKILL_MD and self._generated.get(uri.key[:-1]) and not view.catalog.skill(uri):
            await self._make(uri.root)  # it could not be made before, and is not listed
            return (await self._view(ctx)).skill(uri)
        return None

    async def _bytes(self, live: LiveCatalog, record: FileRecord) -> bytes | None:
        if record.size <= _INLINE and live.is_at_hand(record):
            return live.read(record)
        return await anyio.to_thread.run_sync(live.read, record)

    async def _reread(self, live: LiveCatalog, ctx: ServerRequestContext[Any, Any], uri: SkillUri) -> bytes | None:
        """A file changed that was never read before: have its skill read now, and answer from the new catalog."""
        change = await anyio.to_thread.run_sync(live.refresh_file, uri)
        if change is not None:
            await self._sessions.announce(change)
        record = (await self._view(ctx)).file(uri)
        return None if record is None else await self._bytes(live, record)

    async def _begin(self, root: SkillUri, function: SkillFunction) -> Generation | None:
        """Call a function for the first time: it names a directory, or makes the skill itself."""
        try:
            made = await _called(function)
            if isinstance(made, os.PathLike):
                self._sources.append(DirectorySource(os.fspath(made), prefix=root.segments, is_part=True))
                return None
            self._generated[root.key] = function
            return check_generated(root, made)
        except SkillquayError as error:
            _log.error("%s", error)
        except Exception:  # noqa: BLE001 - the author's function may raise anything
            self._generated[root.key] = function
            _log.exception("The function of %s failed; the skill is not listed.", shorten(root))
        return None

    async def _generate(self, view: View, uri: SkillUri) -> Generation | None:
        listed = view.generated(uri)
        return None if listed is None else await self._make(listed.uri.root)

    async def _make(self, root: SkillUri) -> Generation:
        """Call a function again. When its entry changed, that is published before the content is given out."""
        live = await self.load()
        generation = check_generated(root, await _called(self._generated[root.key]))
        if change := live.generate(generation.listed):
            await self._sessions.announce(change)
        return generation

    def _announce_from_thread(self, change: Change) -> None:
        assert self._loop is not None
        with contextlib.suppress(anyio.RunFinishedError):
            anyio.from_thread.run(self._sessions.announce, change, token=self._loop)

    def _finished(
        self, ctx: ServerRequestContext[Any, Any], result: dict[str, Any], *, hints: bool = True, ttl: int | None = None
    ) -> dict[str, Any]:
        """What only the current revision defines is not sent on older ones (L2, R4)."""
        if not is_modern(ctx):
            return result
        extra = dict(self._hints) if hints else {}
        if ttl is not None:
            extra["ttlMs"] = ttl
        return {"resultType": "complete", **result, **extra}


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """True on 2026-07-28 and later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def unknown_resource(ctx: ServerRequestContext[Any, Any], text: str) -> MCPError:
    """The answer for a URI nothing is served at, in the form of this revision (R1); it never echoes megabytes."""
    shown = shorten(text, 200)
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
    except (UriError, CursorError) as error:
        raise MCPError(code=INVALID_PARAMS, message=error.message) from None
    except SkillquayError as error:
        _log.error("%s", error)
        raise MCPError(code=INTERNAL_ERROR, message=error.message) from None
    except Exception:  # noqa: BLE001 - no failure may reach the client as it is
        _log.exception("A request about skills failed.")
        raise MCPError(code=INTERNAL_ERROR, message="The server could not answer. Its log says why.") from None


async def _called(function: SkillFunction) -> Made:
    """Run a function without blocking the event loop."""
    if inspect.iscoroutinefunction(function):
        made: Made = await function()
        return made
    result = await anyio.to_thread.run_sync(function)
    return await result if isinstance(result, Awaitable) else result
