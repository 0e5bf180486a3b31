"""The content of a served skill, fetched and verified in the way its dialect has for it (V1, I9, I13, I14)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from skillquay.archives.budgets import BUDGET
from skillquay.archives.formats import find_format
from skillquay.archives.unpacking import unpack
from skillquay.core.drafts import Dialect
from skillquay.core.entries import FileRecord, Manifest
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.core.verification import accept_instructions, open_archive, verify_archive, verify_file, verify_skill
from skillquay.dialects.sep2076_entries import why_not_given
from skillquay.errors import ArchiveError, EntryError, UnavailableError, UnlistedFileError, VerificationError

if TYPE_CHECKING:
    from skillquay.archives.budgets import Allowance
    from skillquay.core.acting import ActingSkill
    from skillquay.core.drafts import Archive
    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import SkillId
    from skillquay.core.verification import UnverifiedSkill, VerifiedFile, VerifiedSkill
    from skillquay.host.cache import ContentCache
    from skillquay.host.client import SkillsClient
    from skillquay.host.servers import SkillServer
    from skillquay.host.shelf import Shelf

__all__ = ["Fetching", "fetch_archive", "is_packed"]

_MOST_HELD: Final = 64 * 1024 * 1024  # bytes that came out of archives


class Fetching:
    """Gives out content that was checked as far as the entry it is asked for with allows, and nothing else.

    What came out of an archive is held in memory for as long as there is room. An archive that has a digest is kept in
    the cache too, packed as it is, and hashed again when it is read (K1). A file of such a skill comes from what came
    out, or from the archive, kept or fetched and verified again: never from a live read of its own URI (I13).
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._opened: OrderedDict[tuple[SkillId, str], dict[str, bytes]] = OrderedDict()
        self._held = 0

    async def skill(self, server: SkillServer, skill: SkillId, entry: SkillEntry) -> VerifiedSkill | UnverifiedSkill:
        """A skill's instructions; its entry then lists the files of an archive, or has their places."""
        if entry.dialect is Dialect.PRIMITIVE:
            return await self._primitive(server, entry)
        if is_packed(entry):
            files = await self._files(server, skill, entry)
            return await to_thread.run_sync(_verified, entry, files)
        return await self._shelf.skill(server.client, skill, entry)

    async def file(self, server: SkillServer, skill: SkillId, entry: SkillEntry, uri: SkillUri) -> VerifiedFile:
        """A listed file. Only what is listed is ever asked for (W2)."""
        if not is_packed(entry):
            return await self._shelf.file(server.client, skill, entry, uri)
        record = entry.resources.find(uri) if isinstance(entry.resources, Manifest) else None
        path = "" if record is None else entry.root.relative(record.uri)
        files = {} if record is None else await self._files(server, skill, entry)
        if path not in files:
            raise UnlistedFileError(f"{shorten(uri)} is not a file of {skill}.", uri=uri)
        return await to_thread.run_sync(verify_file, entry, uri, files[path])

    async def opened(self, server: SkillServer, skill: SkillId, entry: SkillEntry) -> SkillEntry:
        """The entry with the list of what is in its archive, where it has one."""
        return (await self.skill(server, skill, entry)).entry if is_packed(entry) else entry

    async def kept(self, server: SkillServer, skill: SkillId, entry: SkillEntry) -> SkillEntry | None:
        """The same of an entry that its server may not have any more: from what is kept; None where nothing is."""
        if not is_packed(entry):
            return entry
        files = await self._kept_files(server, skill, entry)
        return None if files is None else await to_thread.run_sync(open_archive, entry, files)

    async def kept_file(self, server: SkillServer, skill: SkillId, entry: SkillEntry, uri: SkillUri) -> bytes | None:
        """The bytes of a file that such an entry lists, verified; None where they are not kept."""
        if is_packed(entry):
            files = await self._kept_files(server, skill, entry) or {}
            return files.get(entry.root.relative(uri))
        file = await to_thread.run_sync(self._shelf.cache.read, skill, entry, uri)
        return None if file is None else file.data

    async def unlisted_files(self, server: SkillServer, acting: ActingSkill) -> tuple[SkillUri, ...]:
        """The files of a skill whose entry does not list them: by their places, or by bounded directory reads (D4)."""
        draft = acting.entry.draft
        if draft is not None and draft.dialect is Dialect.PRIMITIVE:
            return tuple(sorted(SkillUri.build(key[1:], scheme=key[0]) for key in draft.places))
        return await self._shelf.find_dynamic_files(server.client, acting)

    async def read_unlisted(self, server: SkillServer, entry: SkillEntry, uri: SkillUri) -> bytes:
        """The bytes of such a file, as its own server has them now; nothing can verify them."""
        return await server.client.read_file(self.place(entry, uri))

    @staticmethod
    def place(entry: SkillEntry, uri: SkillUri) -> str:
        """The URI at which the server reads a file. It may be a local one: it goes nowhere but to that server (I14)."""
        if entry.draft is None or entry.draft.dialect is not Dialect.PRIMITIVE:
            return uri
        if (place := entry.draft.places.get(uri.key)) is None:
            raise UnlistedFileError(f"{shorten(uri)} is not a file of {shorten(entry.uri)}.", uri=uri, rule="I14")
        return place

    async def _primitive(self, server: SkillServer, entry: SkillEntry) -> UnverifiedSkill:
        if reason := why_not_given(entry):
            raise UnavailableError(reason, rule="I7")
        try:
            got, instructions = await server.dialects.get_instructions(entry)
        except EntryError as error:
            message = f'The answer about the skill "{entry.name}" cannot be used: {error.message}'
            raise UnavailableError(message, rule=error.rule) from None
        return accept_instructions(got, instructions)

    async def _files(self, server: SkillServer, skill: SkillId, entry: SkillEntry) -> dict[str, bytes]:
        """All that is in a skill's archive, verified before it is unpacked, by paths."""
        if (files := await self._kept_files(server, skill, entry)) is None:
            data = await _fetched(server.client, entry)
            files = await _unpacked(entry, data, server.unpacking)
            self._hold(_key(skill, entry), files)
            if _archive(entry).digest is not None:
                await to_thread.run_sync(_keep, self._shelf.cache, skill, entry, data)
        return files

    async def _kept_files(self, server: SkillServer, skill: SkillId, entry: SkillEntry) -> dict[str, bytes] | None:
        """The same without asking the server: from memory, or from the archive in the cache."""
        is_bound = _archive(entry).digest is not None or isinstance(entry.resources, Manifest)
        if is_bound and (held := self._opened.get(_key(skill, entry))) is not None:
            self._opened.move_to_end(_key(skill, entry))
            return held
        data = await to_thread.run_sync(_cached, self._shelf.cache, skill, entry)
        if data is None:
            return None
        files = await _unpacked(entry, data, server.unpacking)
        self._hold(_key(skill, entry), files)
        return files

    def _hold(self, key: tuple[SkillId, str], files: dict[str, bytes]) -> None:
        self._held -= _size(self._opened.pop(key, {}))
        self._opened[key] = files
        self._held += _size(files)
        while self._held > _MOST_HELD and len(self._opened) > 1:
            self._held -= _size(self._opened.popitem(last=False)[1])


async def fetch_archive(client: SkillsClient, entry: SkillEntry, allowance: Allowance) -> dict[str, bytes]:
    """All that is in a skill's archive, by paths; verified before it is unpacked (I13), and all or nothing (I4)."""
    return await _unpacked(entry, await _fetched(client, entry), allowance)


def is_packed(entry: SkillEntry) -> bool:
    """True for a skill that comes in an archive."""
    return entry.draft is not None and entry.draft.archive is not None


def _archive(entry: SkillEntry) -> Archive:
    archive = entry.draft.archive if entry.draft is not None else None
    assert archive is not None, "it is packed"
    return archive


def _key(skill: SkillId, entry: SkillEntry) -> tuple[SkillId, str]:
    return (skill, str(_archive(entry).digest))


def _as_file(entry: SkillEntry, size: int) -> SkillEntry:
    """An entry whose one file is the archive, which so goes into the cache and comes out like any verified file."""
    archive = _archive(entry)
    assert archive.digest is not None, "nothing else is kept"
    return replace(entry, resources=Manifest([FileRecord(archive.url, archive.digest, size)]))


def _cached(cache: ContentCache, skill: SkillId, entry: SkillEntry) -> bytes | None:
    """The archive as it is in the cache, hashed again (K1)."""
    archive = _archive(entry)
    size = None if archive.digest is None else cache.size_of(skill, archive.digest)
    if size is None or size > BUDGET.packed_bytes:
        return None
    file = cache.read(skill, _as_file(entry, size), archive.url)
    return None if file is None else file.data


def _keep(cache: ContentCache, skill: SkillId, entry: SkillEntry, data: bytes) -> None:
    cache.write(skill, verify_file(_as_file(entry, len(data)), _archive(entry).url, data))


async def _fetched(client: SkillsClient, entry: SkillEntry) -> bytes:
    return await client.read_file(_archive(entry).url, most=BUDGET.packed_bytes)


async def _unpacked(entry: SkillEntry, data: bytes, allowance: Allowance) -> dict[str, bytes]:
    archive = _archive(entry)

    def opened() -> dict[str, bytes]:
        verify_archive(entry, data)
        found = find_format(archive.media_type, archive.url)
        assert found is not None, "the entry was refused otherwise"
        return {path: file.data for path, file in unpack(data, found, allowance=allowance).items()}

    try:
        return await to_thread.run_sync(opened, abandon_on_cancel=True)
    except ArchiveError as error:
        message = f"The archive of {shorten(entry.uri)} cannot be used: {error.message}"
        raise VerificationError(message, uri=archive.url, rule=error.rule) from None


def _verified(entry: SkillEntry, files: dict[str, bytes]) -> VerifiedSkill:
    opened = open_archive(entry, files)
    return verify_skill(opened, files[SKILL_MD])


def _size(files: dict[str, bytes]) -> int:
    return sum(map(len, files.values()))
