"""Read every file of every skill a server lists, and check each against its entry (E, V1, V2, G1, I9)."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from skillquay.archives.budgets import Allowance
from skillquay.core.drafts import Assurance, Dialect
from skillquay.core.entries import DYNAMIC
from skillquay.core.hidden import shorten
from skillquay.core.uris import SKILL_MD, SkillUri
from skillquay.core.verification import (
    accept_dynamic,
    accept_dynamic_file,
    accept_instructions,
    open_archive,
    verify_file,
    verify_skill,
)
from skillquay.dialects.sep2076_entries import is_remote, why_not_given
from skillquay.errors import SkillquayError, UnavailableError
from skillquay.host.client import is_missing
from skillquay.host.fetching import fetch_archive, is_packed
from skillquay.host.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skillquay.core.entries import SkillEntry
    from skillquay.host.client import SkillsClient
    from skillquay.host.dialects import Dialects

__all__ = ["Failure", "Report", "Unread", "check_skills"]

_AT_ONCE: Final = 8
_UNPACKED: Final = 1024 * 1024 * 1024  # bytes of archives in all
_PATIENCE: Final = 8  # answers that fail in a row before nothing more is asked for


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Failure:
    """Something that is not as it was listed; `file` is empty where the whole skill is meant."""

    skill: str
    file: str = ""
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Unread:
    """Something that is not asked for here, though nothing is wrong with it; `file` as in a failure."""

    skill: str
    file: str = ""
    reason: str


@dataclass(slots=True, kw_only=True)
class Report:
    """What was looked at, and what was wrong. `unseen` counts what was not asked for any more.

    `assurances` says of how many skills how much can be verified (I9). `unproven` are those that a draft of the
    extension serves, and of which not every file has a digest; `unlisted` those of them whose files nobody lists.
    """

    skills: int = 0
    files: int = 0
    size: int = 0
    dialect: Dialect | None = None
    assurances: Counter[Assurance] = field(default_factory=Counter)
    dynamic: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unseen: int = 0


async def check_skills(
    client: SkillsClient, dialects: Dialects, report: Report, progress: Callable[[str], None]
) -> None:
    """List all skills, get each by its URI, read each file. What fails is reported, and the rest goes on.

    A `SkillquayError` is raised when there is no listing at all.
    """
    listing = Listing()
    try:
        await dialects.list_skills(listing)
    except SkillquayError as error:
        if not listing.pages and not listing.received:
            raise
        report.failures.append(Failure(skill="(the listing)", rule=error.rule, reason=error.message))
    if dialects.spoken.dialect is None:
        hint = " To search it, add --scan." if dialects.spoken.unsearched else ""
        raise UnavailableError(f"The server shows no skills. {' '.join(dialects.spoken.reasons)}{hint}", rule="C4")
    await to_thread.run_sync(listing.settle)
    report.dialect = dialects.spoken.dialect
    report.failures += [Failure(skill="(the listing)", rule="L4", reason=remark) for remark in listing.remarks]
    report.failures += [Failure(skill=each.uri, rule=each.rule, reason=each.reason) for each in listing.refused]
    report.skills = len(listing.entries) + len(listing.refused)
    for entry in listing.entries:
        report.assurances[entry.assurance] += 1
        if entry.assurance is not Assurance.WHOLE:
            (report.dynamic if entry.draft is None else report.unproven).append(str(entry.identity))
        if entry.draft is not None and entry.dialect is not Dialect.PRIMITIVE and entry.resources == DYNAMIC:
            report.unlisted += [] if is_packed(entry) else [str(entry.identity)]
    await _Reader(client, dialects, report, listing.entries, progress).run()
    if not report.skills and not report.failures:
        reason = "It lists no skills: there is nothing to verify."
        report.failures.append(Failure(skill="(the listing)", rule="L3", reason=reason))
    report.failures.sort()
    report.unread.sort()


class _Reader:
    """Several reads at a time, until all is read or the server is lost."""

    def __init__(
        self,
        client: SkillsClient,
        dialects: Dialects,
        report: Report,
        entries: tuple[SkillEntry, ...],
        progress: Callable[[str], None],
    ) -> None:
        self._client = client
        self._dialects = dialects
        self._unpacking = Allowance(_UNPACKED)
        self._report = report
        self._progress = progress
        self._work = _work(entries)
        self._more: deque[tuple[SkillEntry, SkillUri]] = deque()  # what an answer told of
        self._taken: Counter[tuple[str, ...]] = Counter()  # bytes of each skill that is not verified
        self._total = sum(1 for _ in _work(entries))
        self._done = 0
        self._failed_in_a_row = 0

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(_AT_ONCE):
                tasks.start_soon(self._take)
        self._report.unseen = len(self._more) + sum(1 for _ in self._work)

    def _next(self) -> tuple[SkillEntry, SkillUri | None] | None:
        return self._more.popleft() if self._more else next(self._work, None)

    async def _take(self) -> None:
        while self._failed_in_a_row < _PATIENCE and (each := self._next()) is not None:
            entry, uri = each
            try:
                await (self._get(entry) if uri is None else self._read(entry, uri))
            except SkillquayError as error:
                self._fail(entry, uri, error)
            else:
                self._failed_in_a_row = 0
            self._done += 1
            self._progress(f"{self._done:,} of {self._total:,} answers checked")

    async def _get(self, entry: SkillEntry) -> None:
        got = (await self._client.get_skill(entry.uri)).entry
        if got.says != entry.says or (got.resources == DYNAMIC) != (entry.resources == DYNAMIC):
            reason = "skills/get gives another entry than skills/list. If the skill changed just now, verify again."
            self._report.failures.append(Failure(skill=str(entry.uri), rule="E1", reason=reason))

    async def _read(self, entry: SkillEntry, uri: SkillUri) -> None:
        if is_packed(entry):
            await self._unpack(entry)
            return
        if entry.dialect is Dialect.PRIMITIVE:
            await (self._instruct(entry) if uri.key == entry.uri.key else self._read_named(entry, uri))
            return
        self._report.files += 1
        if entry.resources == DYNAMIC:
            data = await self._client.read_file(uri)
            self._report.size += len(data)
            accept_dynamic(entry, data)
            return
        record = entry.resources.find(uri)
        assert record is not None, "it comes from the manifest"
        data = await self._client.read_file(uri, size=record.size)
        self._report.size += len(data)
        if uri.key == entry.uri.key:
            verify_skill(entry, data)
        else:
            verify_file(entry, uri, data)

    async def _instruct(self, entry: SkillEntry) -> None:
        """The instructions of a skill of SEP-2076; they come with the places of its files (I14)."""
        if reason := why_not_given(entry):
            self._report.unread.append(Unread(skill=str(entry.uri), reason=reason))
            return
        self._report.files += 1
        got, instructions = await self._dialects.get_instructions(entry)
        self._count(entry, accept_instructions(got, instructions).size)
        assert got.draft is not None, "it is of a draft"
        for key, place in got.draft.places.items():
            uri = SkillUri.build(key[1:], scheme=key[0])
            if is_remote(place):
                reason = f"It lies elsewhere, at {shorten(place, 200)}. A host asks a person first."
                self._report.unread.append(Unread(skill=str(entry.uri), file=entry.root.relative(uri), reason=reason))
            else:
                self._more.append((got, uri))
                self._total += 1

    async def _read_named(self, entry: SkillEntry, uri: SkillUri) -> None:
        self._report.files += 1
        assert entry.draft is not None, "it is of a draft"
        data = await self._client.read_file(entry.draft.places[uri.key])
        accept_dynamic_file(entry, uri, data, before=self._taken[entry.uri.key])
        self._count(entry, len(data))

    def _count(self, entry: SkillEntry, size: int) -> None:
        self._report.size += size
        self._taken[entry.uri.key] += size

    async def _unpack(self, entry: SkillEntry) -> None:
        files = await fetch_archive(self._client, entry, self._unpacking)
        verify_skill(open_archive(entry, files), files[SKILL_MD])
        self._report.files += len(files)
        self._report.size += sum(map(len, files.values()))

    def _fail(self, entry: SkillEntry, uri: SkillUri | None, error: SkillquayError) -> None:
        rule = error.rule
        is_lost = False
        if isinstance(error, UnavailableError):
            rule = "G1" if uri is None else "R1"
            is_lost = not is_missing(error)
        self._failed_in_a_row = self._failed_in_a_row + 1 if is_lost else 0
        file = "" if uri is None else entry.root.relative(uri)
        self._report.failures.append(Failure(skill=str(entry.uri), file=file, rule=rule, reason=error.message))


def _work(entries: tuple[SkillEntry, ...]) -> Iterator[tuple[SkillEntry, SkillUri | None]]:
    """Each entry to be got again, and each file of it to be read; of a generated skill `SKILL.md` alone.

    Under the drafts there is nothing to get: the listing is all there is.
    """
    for entry in entries:
        if entry.draft is None:
            yield entry, None
        if entry.resources == DYNAMIC:
            yield entry, entry.uri
        else:
            yield from ((entry, file.uri) for file in entry.resources.files)
