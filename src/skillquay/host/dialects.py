"""Find out what a server speaks, list its skills in that, and get one of them anew (I9, I11)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
from anyio import to_thread
from mcp_types import METHOD_NOT_FOUND

from skillquay.core.drafts import Dialect, Draft
from skillquay.core.entries import DYNAMIC, parse_entry
from skillquay.core.frontmatter import parse_frontmatter
from skillquay.core.hidden import shorten
from skillquay.core.listings import reconcile, refusal
from skillquay.dialects.index_json import read_index
from skillquay.dialects.resources import find_candidates, read_bare, read_manifest
from skillquay.dialects.sep2076_entries import read_got, read_page
from skillquay.dialects.templates import read_template
from skillquay.errors import BudgetError, EntryError, FrontmatterError, SkillquayError, UnavailableError
from skillquay.host.client import EXTENSION, Requester, is_missing, weigh
from skillquay.host.listing import Received, expires_of
from skillquay.sources.collector import collector_paused
from skillquay.wire.contents import received_bytes
from skillquay.wire.index_json import INDEX_URI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from skillquay.core.entries import SkillEntry
    from skillquay.core.listings import Refused
    from skillquay.core.uris import SkillUri
    from skillquay.dialects.index_json import Index
    from skillquay.dialects.resources import Candidate
    from skillquay.dialects.templates import Template
    from skillquay.host.budgets import Budgets
    from skillquay.host.client import SkillsClient
    from skillquay.host.listing import Listing

__all__ = ["Dialects", "Spoken"]

Value = TypeVar("Value")
_MISSING: Final = -32602
_NO_INDEX: Final = frozenset({0, METHOD_NOT_FOUND})  # 0 is what the SDK's first version says of any failure
_MANIFEST_BYTES: Final = 1024 * 1024  # several times what 512 files need
_MOST_TEMPLATES: Final = 20
_FEW_PAGES: Final = 4  # of a server that says nothing of skills
_AT_ONCE: Final = 8
_NOTHING_DECLARED: Final = "It declares neither the extension nor a draft of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a server speaks, as far as it is known, and how that was found out.

    `unsearched` is how many bare `SKILL.md` files it lists that the user did not allow to be taken for skills.
    `lacks_index` when it speaks a draft, and has no index.
    """

    dialect: Dialect | None = None
    reasons: tuple[str, ...] = ()
    templates: tuple[Template, ...] = ()
    unsearched: int = 0
    lacks_index: bool = False


class Announcing(Requester, Protocol):
    """Whatever can ask a server, and knows all that it announced."""

    @property
    def announced(self) -> dict[str, Any]:
        """All capabilities the server announces, also those the SDK does not know."""
        ...


class Dialects:
    """The skills of one server, in whatever dialect it speaks. v1 comes first, and rules out all others."""

    def __init__(self, asked: Announcing, client: SkillsClient, *, budgets: Budgets, may_scan: bool = False) -> None:
        self._asked = asked
        self._client = client
        self._budgets = budgets
        self._may_scan = may_scan
        self._candidates: dict[tuple[str, ...], Candidate] = {}
        self._last = Spoken()  # what the last listing found, also while another one is made
        self.spoken = Spoken()

    async def list_skills(self, listing: Listing) -> None:
        """All that the server lists, in the dialect that it turns out to speak."""
        try:
            await self._listed(listing)
        finally:
            self._last = self.spoken

    async def _listed(self, listing: Listing) -> None:
        announced = self._asked.announced
        extensions, experimental = announced.get("extensions"), announced.get("experimental")
        self.spoken = Spoken()
        if _declares(extensions):
            self._found(Dialect.CURRENT, "It declares the extension.")
            try:
                await self._client.list_skills(into=listing)
            except UnavailableError as error:
                if error.code != METHOD_NOT_FOUND or listing.pages:
                    raise
                self._found(None, "It answers skills/list with -32601: it speaks a draft.")
                await self._draft(listing)
            else:
                self._found(Dialect.CURRENT, "It answers skills/list.")
        elif _declares(experimental):
            self._found(None, "It declares the extension as experimental: it speaks a draft.")
            await self._draft(listing)
        elif isinstance(announced.get("skills"), Mapping):
            self._found(Dialect.PRIMITIVE, "It declares the capability skills, and not the extension.")
            await self._list_primitives(listing)
        elif isinstance(announced.get("resources"), Mapping):
            self._found(None, _NOTHING_DECLARED)
            await self._undeclared(listing)
        else:
            self._found(None, _NOTHING_DECLARED)
            self._found(None, "It has no resources either.")

    async def get_skill(self, uri: SkillUri) -> Received:
        """The entry of one skill as the server has it now, in the dialect it speaks, within the deadline of calls."""
        with anyio.move_on_after(self._budgets.call):
            return await self._got(uri)
        raise UnavailableError(f"The server did not say what it has at {shorten(uri)} in time.", rule="B2")

    async def _got(self, uri: SkillUri) -> Received:
        match self._last.dialect:
            case Dialect.JUNE | Dialect.MAY:
                index, expires = await self._index()
                if (entry := _found_in(index.entries, uri)) is not None:
                    return Received(entry=entry, expires=expires)
                _check_refused(index.refused, uri)
                if not any(each.root.contains(uri) for each in index.entries):  # the drafts have no nested skills (I12)
                    return await self._direct(uri)
            case None if self._last.lacks_index:
                return await self._direct(uri)
            case Dialect.PRIMITIVE:
                entries, _, expires = await self._primitives()
                if (entry := _found_in(entries, uri)) is not None:
                    return Received(entry=entry, expires=expires)
            case Dialect.FASTMCP | Dialect.BARE:
                if (candidate := self._candidates.get(uri.key)) is not None:
                    return await self._of_candidate(candidate)
            case _:
                return await self._client.get_skill(uri)
        raise UnavailableError(f"The server has no skill at {shorten(uri)}.", code=_MISSING, rule="I6")

    async def get_instructions(self, entry: SkillEntry) -> tuple[SkillEntry, str]:
        """The instructions of a skill that SEP-2076 describes, and its entry with the places of its files."""
        answer = await self._asked.request("skills/get", {"name": entry.name}, cap=self._budgets.page_bytes)
        return await to_thread.run_sync(read_got, entry, answer)

    async def templates(self) -> tuple[Template, ...]:
        """The ways a server has for people to browse skills it does not list; no model is told of them (I5)."""
        found = {template.url: template for template in self.spoken.templates}
        if isinstance(self._asked.announced.get("resources"), Mapping):
            with contextlib.suppress(UnavailableError):  # many servers do not know the method
                async for items, _ in self._paged("resources/templates/list", "resourceTemplates", _FEW_PAGES):
                    for template in filter(None, map(read_template, items)):
                        found.setdefault(template.url, template)
        return tuple(islice(found.values(), _MOST_TEMPLATES))

    async def complete(self, template: Template, variable: str, beginning: str = "") -> tuple[str, ...]:
        """The values that the server proposes for a variable of a template; none where it proposes nothing."""
        if not isinstance(self._asked.announced.get("completions"), Mapping):
            return ()
        params = {
            "ref": {"type": "ref/resource", "uri": template.url},
            "argument": {"name": variable, "value": beginning},
        }
        answer = await self._asked.request("completion/complete", params, cap=self._budgets.page_bytes)
        completion = answer.get("completion")
        values = completion.get("values") if isinstance(completion, Mapping) else None
        return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()

    def _found(self, dialect: Dialect | None, reason: str) -> None:
        self.spoken = replace(self.spoken, dialect=dialect, reasons=(*self.spoken.reasons, reason))

    async def _draft(self, listing: Listing) -> None:
        try:
            index, expires = await self._index()
        except UnavailableError as error:
            if not is_missing(error) and error.code not in _NO_INDEX:
                raise
            self._found(None, "It has no skill://index.json.")
            self.spoken = replace(self.spoken, lacks_index=True)
            await self._look(listing, [item async for item in self._resources(self._budgets.pages)])
        else:
            self._take(index, listing, expires)

    async def _undeclared(self, listing: Listing) -> None:
        """A server that says nothing of skills may still show them. One that cannot list its resources shows none."""
        try:
            resources = [item async for item in self._resources(_FEW_PAGES)]
        except (BudgetError, UnavailableError) as error:
            self._found(None, f"Its resources could not be listed: {error.message}")
            return
        uris = {item.get("uri") for item in resources if isinstance(item, Mapping) and isinstance(item.get("uri"), str)}
        if INDEX_URI in uris:
            self._found(None, "It lists skill://index.json among its resources.")
            index, expires = await self._index()
            self._take(index, listing, expires)
        else:
            await self._look(listing, resources)

    def _take(self, index: Index, listing: Listing, expires: float) -> None:
        draft = "June" if index.dialect is Dialect.JUNE else "April-May"
        self._found(index.dialect, f"It has a skill://index.json of the {draft} draft.")
        self.spoken = replace(self.spoken, templates=index.templates)
        if index.is_shortened:
            listing.remarks += (f"It lists more than {self._budgets.entries:,} skills; the first ones are used.",)
        listing.take(index.entries, index.refused, expires)

    async def _index(self) -> tuple[Index, float]:
        cap = min(2 * self._budgets.page_bytes, self._budgets.listing_bytes)
        answer = await self._asked.request("resources/read", {"uri": str(INDEX_URI)}, cap=cap)
        expires = expires_of(answer)

        def read(is_unwanted: Callable[[], bool]) -> Index:
            data = received_bytes(answer, INDEX_URI, limit=cap)
            return read_index(data, most=self._budgets.entries, is_unwanted=is_unwanted)

        return await _in_thread(read), expires

    async def _look(self, listing: Listing, resources: list[object]) -> None:
        """Skills that are only shown as resources: with FastMCP's manifests, else where the user allowed it (I11)."""
        candidates = await to_thread.run_sync(find_candidates, resources)
        with_manifest = [each for each in candidates if each.manifest is not None]
        if with_manifest:
            self._found(Dialect.FASTMCP, "It lists a _manifest beside the SKILL.md of each skill, as FastMCP does.")
            candidates = with_manifest
        elif candidates and self._may_scan:
            self._found(Dialect.BARE, "It lists SKILL.md files among its resources, and may be searched for them.")
        else:
            if candidates:
                self.spoken = replace(self.spoken, unsearched=len(candidates))
                count, them = f"{len(candidates):,} SKILL.md files", "them"
                if len(candidates) == 1:
                    count, them = "1 SKILL.md file", "it"
                self._found(None, f"It lists {count} among its resources, and may not be searched for {them}.")
            return
        self._candidates = {each.uri.key: each for each in candidates[: self._budgets.entries]}
        found: dict[int, SkillEntry | Refused] = {}
        limiter = anyio.Semaphore(_AT_ONCE)

        async def read(place: int, candidate: Candidate) -> None:
            async with limiter:
                try:
                    found[place] = (await self._of_candidate(candidate)).entry
                except EntryError as error:
                    found[place] = refusal(place, candidate.uri, error, (candidate.uri,))
                except SkillquayError as error:  # it may be read another time: what was answered does not end (A2)
                    unread = EntryError(error.message, field="_manifest", rule="I8")
                    found[place] = refusal(place, candidate.uri, unread)

        try:
            async with anyio.create_task_group() as reading:
                for place, candidate in enumerate(self._candidates.values()):
                    reading.start_soon(read, place, candidate)
        finally:  # what was read before the time was up is used
            entries, refused = reconcile([found[place] for place in sorted(found)])
            listing.take(entries, refused, 0.0)

    async def _of_candidate(self, candidate: Candidate) -> Received:
        if candidate.manifest is None:
            return Received(entry=read_bare(candidate), expires=0.0)
        answer = await self._asked.request("resources/read", {"uri": str(candidate.manifest)}, cap=_MANIFEST_BYTES)
        data = received_bytes(answer, candidate.manifest, limit=_MANIFEST_BYTES)
        entry = await to_thread.run_sync(read_manifest, candidate, data, abandon_on_cancel=True)
        return Received(entry=entry, expires=expires_of(answer))

    async def _direct(self, uri: SkillUri) -> Received:
        """A skill that is not in the index: under these drafts its `SKILL.md` is readable all the same (I6)."""
        if uri.scheme != "skill" or not uri.is_skill:
            raise UnavailableError(f"The server has no skill at {shorten(uri)}.", code=_MISSING, rule="I6")
        data = await self._client.read_file(uri)
        try:
            frontmatter = (await to_thread.run_sync(parse_frontmatter, data)).fields
        except FrontmatterError as error:
            raise EntryError(error.message, field="frontmatter", rule=error.rule) from None
        entry = parse_entry({"uri": uri, "frontmatter": dict(frontmatter), "resources": DYNAMIC})
        return Received(entry=replace(entry, draft=Draft(dialect=self._last.dialect or Dialect.BARE)), expires=0.0)

    async def _list_primitives(self, listing: Listing) -> None:
        entries, refused, expires = await self._primitives(listing)
        listing.take(entries, refused, expires)

    async def _primitives(self, listing: Listing | None = None) -> tuple[list[SkillEntry], list[Refused], float]:
        parsed: list[SkillEntry | Refused] = []
        expires = 0.0
        async for items, answer in self._paged("skills/list", "skills", self._budgets.pages, listing):
            expires = expires_of(answer)
            parsed += await _in_thread(partial(read_page, items, len(parsed)))
        return *await to_thread.run_sync(reconcile, parsed, abandon_on_cancel=True), expires

    async def _resources(self, pages: int) -> AsyncIterator[object]:
        async for items, _ in self._paged("resources/list", "resources", pages):
            for item in items:
                yield item

    async def _paged(
        self, method: str, key: str, pages: int, listing: Listing | None = None
    ) -> AsyncIterator[tuple[list[Any], Mapping[str, Any]]]:
        """The pages of a listing, within bounds (L4)."""
        params: dict[str, Any] = {}
        room, size = self._budgets.entries, self._budgets.listing_bytes
        for _ in range(pages):
            answer = await self._asked.request(method, params, cap=self._budgets.page_bytes)
            items = answer.get(key)
            if not isinstance(items, list):
                raise UnavailableError(f'The answer to {method} has no array "{key}".', rule="L1")
            size -= await weigh(items[:room], size)
            if size < 0:
                break
            yield items[:room], answer
            room -= len(items)
            cursor = answer.get("nextCursor")
            if room >= 0 and not isinstance(cursor, str):
                return
            if room <= 0:
                break
            params = {"cursor": cursor}
        if listing is not None:
            listing.remarks += ("Its listing is longer than this host takes; the first skills are used.",)


async def _in_thread(read: Callable[[Callable[[], bool]], Value]) -> Value:
    """Read something long. Nobody waits for it longer than they have time, and it does not go on unwanted (B1, B2)."""
    unwanted = threading.Event()

    def reading() -> Value:
        with collector_paused():
            return read(unwanted.is_set)

    try:
        return await to_thread.run_sync(reading, abandon_on_cancel=True)
    finally:
        unwanted.set()


def _declares(declarations: object) -> bool:
    return isinstance(declarations, Mapping) and isinstance(declarations.get(EXTENSION), Mapping)


def _found_in(entries: Iterable[SkillEntry], uri: SkillUri) -> SkillEntry | None:
    """The skill of this identity; else the one whose files are there, which may have another: that of its archive."""
    by_place = None
    for entry in entries:
        if entry.identity.key == uri.key:
            return entry
        if entry.uri.key == uri.key:
            by_place = entry
    return by_place


def _check_refused(refused: Iterable[Refused], uri: SkillUri) -> None:
    for each in refused:
        if uri.key in {identity.key for identity in each.identities}:
            raise EntryError(each.reason.removeprefix(f"{each.field}: "), field=each.field, rule=each.rule)
