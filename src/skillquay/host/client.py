"""What a server publishes, asked for within bounds and taken in one entry at a time (C4, L, G, R, D, B1, P8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio import to_thread
from mcp import Client

from skillquay.core.entries import DYNAMIC, LIMITS, parse_entry
from skillquay.core.hidden import shorten
from skillquay.core.uris import SkillUri
from skillquay.core.verification import accept_dynamic, verify_skill
from skillquay.errors import BudgetError, EntryError, SkillquayError, UnavailableError, UriError
from skillquay.host.asking import SdkRequester
from skillquay.host.budgets import Budgets, answer_cap
from skillquay.host.listing import Listing, Received, expires_of
from skillquay.wire.contents import DIRECTORY, received_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skillquay.core.verification import UnverifiedSkill, VerifiedSkill
    from skillquay.host.listing import Page

__all__ = ["EXTENSION", "Child", "Requester", "SkillsClient", "is_missing", "weigh"]

EXTENSION: Final = "io.modelcontextprotocol/skills"
_QUOTES: Final = 2  # bytes around each text
_POINTER: Final = 8  # bytes for each value
_CONTAINER: Final = 16  # bytes for each list and mapping
_MISSING: Final = frozenset({-32602, -32002})


class Requester(Protocol):
    """Whatever can ask a server."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The extensions it declares."""
        ...

    async def declared(self) -> dict[str, Any]:
        """The same, of a server that is connected now: one that was lost is connected again."""
        ...

    async def request(self, method: str, params: Mapping[str, Any], *, cap: int) -> dict[str, Any]:
        """One request; the result as it came."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Child:
    """What a live listing of a directory names. It may lie anywhere: who asked decides what is theirs (D4)."""

    uri: SkillUri
    is_directory: bool


class SkillsClient:
    """The extension's methods. Nothing is asked of a server that does not declare them (C4)."""

    def __init__(
        self,
        requester: Requester | Client,
        *,
        budgets: Budgets | None = None,
        parsing: anyio.CapacityLimiter | None = None,
    ) -> None:
        self._asked: Requester = SdkRequester(requester) if isinstance(requester, Client) else requester
        self._budgets = budgets or Budgets()
        self._parsing = parsing
        self._bytes = 0

    @property
    def declares_skills(self) -> bool:
        """True when the server declares the extension, as an object (C1)."""
        return isinstance(self._asked.capabilities.get(EXTENSION), Mapping)

    @property
    def reads_directories(self) -> bool:
        """True when the server declares `directoryRead: true`."""
        return _reads_directories(self._asked.capabilities)

    async def list_skills(self, into: Listing | None = None) -> Listing:
        """All pages of `skills/list`, within bounds of pages, entries and bytes (L4). Nothing is fetched (R3).

        Pages are parsed while the next one is awaited. With `into` they arrive there, also before a failure, and the
        caller settles it.
        """
        await self._check_declared()
        listing = into or Listing()
        failure: SkillquayError | None = None
        async with anyio.create_task_group() as parsing:
            try:
                async for page in self._pages(listing):
                    parsing.start_soon(partial(to_thread.run_sync, page.parse, limiter=self._parsing))
            except SkillquayError as error:  # what crosses the group would be wrapped by it
                failure = error
        if failure is not None:
            raise failure
        if into is None:
            listing.settle()
        return listing

    async def _pages(self, listing: Listing) -> AsyncIterator[Page]:
        budgets = self._budgets
        params: dict[str, Any] = {}
        entries = size = 0
        while True:
            answer = await self._asked.request("skills/list", params, cap=budgets.page_bytes)
            expires = expires_of(answer)
            items = answer.get("skills")
            if not isinstance(items, list):
                raise UnavailableError('The answer to skills/list has no array "skills".', rule="L1")
            room = budgets.entries - entries
            entries += len(items)
            size += await weigh(items[:room], budgets.listing_bytes - size)
            if size > budgets.listing_bytes:
                listing.remarks += (f"It lists more than {budgets.listing_bytes:,} bytes; what came before is used.",)
                return
            yield listing.add(items[:room], expires)
            if len(items) > room:
                listing.remarks += (f"It lists more than {budgets.entries:,} skills; the first ones are used.",)
                return
            cursor = answer.get("nextCursor")
            if cursor is None:
                return
            if not isinstance(cursor, str) or len(cursor) > budgets.page_bytes // 16:
                listing.remarks += ("A cursor of its listing is not a usable string; what came before it is used.",)
                return
            if len(listing.pages) >= budgets.pages:
                listing.remarks += (f"Its listing has more than {budgets.pages:,} pages; the first ones are used.",)
                return
            params = {"cursor": cursor}

    async def get_skill(self, uri: str) -> Received:
        """The entry of one skill, listed or not: only this makes a URI a skill (U4, L3, L7)."""
        await self._check_declared()
        wanted = SkillUri(uri)
        answer = await self._asked.request("skills/get", {"uri": str(wanted)}, cap=self._budgets.page_bytes)
        if "skill" not in answer:
            raise UnavailableError('The answer to skills/get has no "skill".', rule="G1")
        entry = await to_thread.run_sync(parse_entry, answer["skill"], abandon_on_cancel=True)
        if entry.uri.key != wanted.key:
            message = f"the server was asked for {shorten(wanted)} and answers about {shorten(entry.uri)}."
            raise EntryError(message, field="uri", rule="G1")
        return Received(entry=entry, expires=expires_of(answer))

    async def read_file(self, uri: SkillUri | str, *, size: int | None = None, most: int = LIMITS.size) -> bytes:
        """The bytes at a URI, not verified yet, and no more than `most` of them.

        Where `size` says how many to expect, far more are not taken (B1).
        """
        cap = answer_cap(most if size is None else size)
        answer = await self._asked.request("resources/read", {"uri": str(uri)}, cap=cap)
        data = received_bytes(answer, uri, limit=most if size is None else cap)
        self._count(len(data))
        return data

    async def read_skill_uri(self, uri: str) -> VerifiedSkill | UnverifiedSkill:
        """A skill from its URI alone: its entry, then its `SKILL.md`, verified. This activates nothing (R2)."""
        entry = (await self.get_skill(uri)).entry
        if entry.resources == DYNAMIC:
            data = await self.read_file(entry.uri)
            return await to_thread.run_sync(accept_dynamic, entry, data, abandon_on_cancel=True)
        record = entry.resources.find(entry.uri)
        assert record is not None, "parse_entry saw to it"
        data = await self.read_file(entry.uri, size=record.size)
        return await to_thread.run_sync(verify_skill, entry, data, abandon_on_cancel=True)

    async def read_directory(self, uri: str) -> tuple[Child, ...]:
        """The direct children of a directory, as the server lists them now, within bounds (L4, D1)."""
        if not _reads_directories(await self._asked.declared()):
            raise UnavailableError("The server does not declare directoryRead, so it is not asked.", rule="C4")
        directory = SkillUri(uri)
        budgets = self._budgets
        found: list[Child] = []
        entries = size = 0
        params: dict[str, Any] = {"uri": str(directory)}
        for _ in range(budgets.pages):
            page = await self._asked.request("resources/directory/read", params, cap=budgets.page_bytes)
            items = page.get("resources")
            if not isinstance(items, list):
                raise UnavailableError('The answer to resources/directory/read has no array "resources".', rule="D1")
            entries += len(items)
            if entries > budgets.entries:
                break
            weight = await weigh(items, budgets.listing_bytes - size)
            self._count(weight)
            size += weight
            if size > budgets.listing_bytes:
                break
            found.extend(child for item in items if (child := _child(item)) is not None)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return tuple(sorted(found))
            params = {"uri": str(directory), "cursor": cursor}
        raise BudgetError(f"The listing of {shorten(directory)} does not end within its bounds.", rule="L4")

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._budgets.server_bytes:
            raise BudgetError(f"The server has sent more than {self._budgets.server_bytes:,} bytes of files.")

    async def _check_declared(self) -> None:
        if not isinstance((await self._asked.declared()).get(EXTENSION), Mapping):
            raise UnavailableError(f"The server does not declare {EXTENSION}; it is not asked for skills.", rule="C4")


def is_missing(error: UnavailableError) -> bool:
    """True when the server says that there is nothing at the URI, in the words of any revision (R1)."""
    return error.code in _MISSING


def _reads_directories(capabilities: Mapping[str, Any]) -> bool:
    declared = capabilities.get(EXTENSION)
    return isinstance(declared, Mapping) and declared.get("directoryRead") is True


async def weigh(items: list[object], limit: int) -> int:
    """About how many bytes these items are, counted in a thread."""
    return await to_thread.run_sync(_weight, items, limit, abandon_on_cancel=True)


def _weight(items: list[Any], limit: int) -> int:
    """About how many bytes these items are, or more than `limit`: what is too much is not counted to its end.

    Values that are written with one or two characters weigh more than these: millions of them take long to parse.
    """
    size = 0
    pending: list[list[Any] | dict[Any, Any]] = [items]
    while pending:
        value = pending.pop()
        size += _CONTAINER + len(value) * _POINTER
        if size > limit:
            break
        for inner in chain(value, value.values()) if isinstance(value, dict) else value:
            kind = type(inner)
            if kind is str:
                size += len(inner) + _QUOTES
            elif kind is list or kind is dict:
                pending.append(inner)
            elif kind is int:
                size += inner.bit_length() // 4
    return size


def _child(item: object) -> Child | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("uri"), str):
        return None
    try:
        return Child(uri=SkillUri(item["uri"]), is_directory=item.get("mimeType") == DIRECTORY)
    except UriError:
        return None
