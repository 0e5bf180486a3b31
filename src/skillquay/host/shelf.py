"""The verified bytes of served skills: from the cache, hashed again, or from their own server (V1, V2, K1, R3, D4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from skillquay.core.entries import LIMITS, Manifest
from skillquay.core.hidden import shorten
from skillquay.core.verification import accept_dynamic, verify_file, verify_skill
from skillquay.errors import BudgetError, UnlistedFileError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from skillquay.core.acting import ActingSkill
    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import SkillId
    from skillquay.core.uris import SkillUri
    from skillquay.core.verification import UnverifiedSkill, VerifiedFile, VerifiedSkill
    from skillquay.host.cache import ContentCache
    from skillquay.host.client import SkillsClient

__all__ = ["Shelf"]

_SMALL = 256 * 1024  # so much is read and hashed in less time than it takes to ask a thread to
_WRITERS = 4
_MOST_DIRECTORIES = 128


class Shelf:
    """Gives out content that was checked against the entry it is asked for with, and nothing else."""

    def __init__(self, cache: ContentCache, *, tasks: TaskGroup) -> None:
        self.cache = cache
        self._tasks = tasks
        self._writers = anyio.CapacityLimiter(_WRITERS)

    async def skill(self, client: SkillsClient, skill: SkillId, entry: SkillEntry) -> VerifiedSkill | UnverifiedSkill:
        """A skill's `SKILL.md`, its frontmatter compared with the entry's, which takes seconds where it is long."""
        if not isinstance(entry.resources, Manifest):
            data = await client.read_file(entry.uri)
            return await to_thread.run_sync(accept_dynamic, entry, data, abandon_on_cancel=True)
        data = (await self.file(client, skill, entry, entry.uri)).data
        return await to_thread.run_sync(verify_skill, entry, data, abandon_on_cancel=True)

    async def file(self, client: SkillsClient, skill: SkillId, entry: SkillEntry, uri: SkillUri) -> VerifiedFile:
        """A listed file. Only what is listed is ever asked for (W2)."""
        record = entry.resources.find(uri) if isinstance(entry.resources, Manifest) else None
        if record is None:
            raise UnlistedFileError(f"{shorten(uri)} is not a file of {skill}.", uri=uri)
        if record.size <= _SMALL:
            cached = self.cache.read(skill, entry, record.uri)
        else:
            cached = await to_thread.run_sync(self.cache.read, skill, entry, record.uri)
        if cached is not None:
            return cached
        data = await client.read_file(record.uri, size=record.size)
        if record.size <= _SMALL:
            file = verify_file(entry, record.uri, data)
        else:
            file = await to_thread.run_sync(verify_file, entry, record.uri, data, abandon_on_cancel=True)
        self._tasks.start_soon(self._keep, skill, file)
        return file

    async def find_dynamic_files(self, client: SkillsClient, acting: ActingSkill) -> tuple[SkillUri, ...]:
        """The files of a generated skill, found by directory reads that stay inside it and are bounded (D4)."""
        pending = [acting.entry.root]
        files: list[SkillUri] = []
        asked: set[tuple[str, ...]] = set()
        while pending:
            directory = pending.pop()
            if directory.key in asked:
                continue
            asked.add(directory.key)
            children = {child.uri: child for child in await client.read_directory(directory)}
            for uri in acting.own_children(directory, children):
                (pending if children[uri].is_directory else files).append(uri)
            if len(asked) + len(pending) > _MOST_DIRECTORIES or len(files) > LIMITS.files:
                raise BudgetError(f"{acting.skill} has more files or directories than a skill may have.", rule="D4")
        return tuple(sorted({uri.key: uri for uri in files}.values()))

    async def _keep(self, skill: SkillId, file: VerifiedFile) -> None:
        """Write to the cache while others go on; a cache that cannot be written is told of, and missed by nobody."""
        await to_thread.run_sync(self.cache.write, skill, file, limiter=self._writers)
