"""`skill://index.json`, the discovery document of the drafts before v1, made of entries that are written once (I1, I2).

One document satisfies the readers of both drafts: each skill is one `skill-md` entry, with the frontmatter, digest and
archives of the June draft beside the name and description of the one before. A skill that lies in another one is left
out, since the drafts forbid nesting (I12). A generated skill has neither digest nor archives: they would be those of a
content that nobody reads again.

The digests of archives are only known once a skill has been packed. Packing begins in a thread of its own when the
document is first read; a reader waits for it a moment, and gets the document without what is not known yet.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from skillquay.archives.formats import ArchiveFormat
from skillquay.core.digests import Digest
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten
from skillquay.errors import ArchiveError
from skillquay.server.archive_shelf import MissingFileError
from skillquay.wire.index_json import SCHEMA, SKILL_MD_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skillquay.core.catalog import Catalog, Listed, Where
    from skillquay.core.uris import SkillUri
    from skillquay.server.archive_shelf import ArchiveShelf

__all__ = ["IndexDocument"]

_log = logging.getLogger(__name__)

_PIECE: Final = 250  # entries that are sent together
_PATIENCE: Final = 2.0  # seconds a reader waits for archives to be packed
_SLICE: Final = 1 << 17  # bytes of entries that are looked at before others have their turn: some milliseconds


@dataclass(slots=True, eq=False)
class _Entry:
    """What the document says of a skill, escaped to stand in a JSON string; whole once its archives are known."""

    listed: Listed
    text: bytes
    is_whole: bool
    is_queued: bool = False


@dataclass(slots=True, eq=False)
class _Prepared:
    """The entries for one catalog."""

    catalog: Catalog
    entries: Sequence[_Entry]
    is_known_whole: bool = False

    @property
    def is_whole(self) -> bool:
        self.is_known_whole = self.is_known_whole or all(entry.is_whole for entry in self.entries)
        return self.is_known_whole


class IndexDocument:
    """The document of each catalog. What it says of a skill is kept for as long as the skill stays the same.

    `others` gives entries that are no skills of a catalog, for the end of the document. `on_whole` is called, from
    another thread, when somebody was given a document in which something was missing that is there now.
    """

    def __init__(
        self, shelf: ArchiveShelf, *, others: Callable[[], Sequence[dict[str, Any]]], on_whole: Callable[[], None]
    ) -> None:
        self._shelf = shelf
        self._others = others
        self._on_whole = on_whole
        self._entries: dict[SkillUri, _Entry] = {}
        self._prepared: _Prepared | None = None
        self._preparing = anyio.Lock()
        self._lock = threading.Lock()
        self._queue: deque[_Entry] = deque()
        self._packing: Future[None] | None = None
        self._thread: threading.Thread | None = None
        self._is_owed = False
        self._is_closed = False

    async def read(self, catalog: Catalog, where: Where | None) -> tuple[str, bool]:
        """The document for one asker, and whether nothing is missing in it."""
        prepared = await self._prepare(catalog)
        if not prepared.is_whole and (packing := self._pack(prepared)) is not None:
            with anyio.move_on_after(_PATIENCE):
                await asyncio.wrap_future(packing)
        with self._lock:
            is_whole = prepared.is_whole
            self._is_owed = self._is_owed or not is_whole
        texts = await _texts(prepared.entries, where)
        text: str = json.loads(b'"%b"' % b"".join(self._pieces(texts)))
        return text, is_whole

    def at_hand(self, catalog: Catalog) -> list[bytes] | None:
        """The whole document for those who see everything, escaped and in pieces, if nobody has to wait for it."""
        prepared = self._prepared
        if prepared is None or prepared.catalog is not catalog or not prepared.is_whole:
            return None
        return self._pieces([entry.text for entry in prepared.entries])

    def close(self) -> None:
        """Stop packing."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join()

    def _pieces(self, texts: Iterable[bytes]) -> list[bytes]:
        """The document as text for a JSON string, in pieces of which none is very large."""
        entries = [*texts, *(_escaped(_json(each)) for each in self._others())]
        pieces = [b",".join(entries[start : start + _PIECE]) for start in range(0, len(entries), _PIECE)]
        return [_BEGINNING, *(piece if place == 0 else b"," + piece for place, piece in enumerate(pieces)), b"]}"]

    async def _prepare(self, catalog: Catalog) -> _Prepared:
        async with self._preparing:
            prepared = self._prepared
            if prepared is None or prepared.catalog is not catalog:
                prepared = self._prepared = await anyio.to_thread.run_sync(self._write, catalog)
        return prepared

    def _write(self, catalog: Catalog) -> _Prepared:
        before, now = self._entries, {}
        for listed in catalog.outermost():
            entry = before.get(listed.uri)
            now[listed.uri] = entry if entry is not None and entry.listed == listed else _entry(listed)
        self._entries = now
        return _Prepared(catalog, list(now.values()))

    def _pack(self, prepared: _Prepared) -> Future[None] | None:
        """Have the archives packed that are not known yet; what is given back is done when all of them are."""
        with self._lock:
            for entry in prepared.entries:
                if not entry.is_whole and not entry.is_queued:
                    entry.is_queued = True
                    self._queue.append(entry)
            if self._packing is None and self._queue and not self._is_closed:
                self._packing = Future()
                self._packing.set_running_or_notify_cancel()  # nobody who stops waiting ends it
                self._thread = threading.Thread(
                    target=self._run, args=(self._packing,), name="skillquay-pack", daemon=True
                )
                self._thread.start()
            return self._packing

    def _run(self, packing: Future[None]) -> None:
        is_news = False
        while True:
            with self._lock:
                if self._is_closed or not self._queue:
                    self._packing = None
                    is_told = is_news and self._is_owed and not self._is_closed
                    self._is_owed = self._is_owed and not is_told
                    break
                entry = self._queue.popleft()
            if self._entries.get(entry.listed.uri) is entry:  # otherwise the skill became another one
                self._complete(entry)
                is_news = is_news or entry.is_whole
        packing.set_result(None)
        if is_told:
            self._on_whole()

    def _complete(self, entry: _Entry) -> None:
        """Add the archives of a skill. Where a file is missing, the next reader of the document has it tried again."""
        try:
            archives = _archives(entry.listed, self._shelf)
            entry.text = entry.text[:-1] + b',\\"archives\\":%b}' % _escaped(_json(archives))
        except MissingFileError:  # the skill is about to be another one, or the file comes back
            with self._lock:
                entry.is_queued = False
            return
        except ArchiveError as error:
            _log.warning("%s is served, but not as an archive: %s", shorten(entry.listed.uri), error.message)
        except Exception:  # noqa: BLE001 - one skill never keeps the others out
            _log.exception("%s could not be packed.", shorten(entry.listed.uri))
        entry.is_whole = True


async def _texts(entries: Sequence[_Entry], where: Where | None) -> list[bytes]:
    """What one asker may see. To ask of each takes a while where there are many, and others are answered meanwhile."""
    if where is None:
        return [entry.text for entry in entries]
    texts: list[bytes] = []
    size = 0
    for entry in entries:
        if where(entry.listed.entry):
            texts.append(entry.text)
        size += len(entry.listed.text)
        if size >= _SLICE:
            size = 0
            await anyio.lowlevel.checkpoint()
    return texts


def _entry(listed: Listed) -> _Entry:
    entry = listed.entry
    fields: dict[str, object] = {
        "type": SKILL_MD_TYPE,
        "name": entry.name,
        "description": entry.description,
        "url": str(entry.uri),
    }
    files = entry.resources.files if isinstance(entry.resources, Manifest) else ()
    if digest := next((file.digest for file in files if file.uri == entry.uri), None):
        fields["digest"] = str(digest)
    fields["frontmatter"] = dict(entry.frontmatter)
    return _Entry(listed, _escaped(_json(fields)), is_whole=not files)


def _archives(listed: Listed, shelf: ArchiveShelf) -> list[dict[str, str]]:
    """What the June draft says of archives."""
    return [
        {
            "url": f"{listed.uri.root}{archive_format.suffix}",
            "mimeType": archive_format.media_type,
            "digest": str(Digest.of(shelf.archive(listed, archive_format))),
        }
        for archive_format in ArchiveFormat
    ]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _escaped(text: str) -> bytes:
    """Text as it stands inside a JSON string; two such pieces side by side are the text of both."""
    return _json(text)[1:-1].encode()


_BEGINNING: Final = _escaped(_json({"$schema": SCHEMA, "skills": []})[:-2])
