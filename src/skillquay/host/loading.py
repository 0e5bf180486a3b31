"""Served skills in use: approved, verified, held in their windows until they leave the model's context (V, W, D)."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from skillquay.core.acting import ActingSkill, Windows
from skillquay.core.drafts import Assurance
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten
from skillquay.core.identity import SkillId
from skillquay.core.lookalikes import looks_like
from skillquay.core.uris import SkillUri
from skillquay.core.verification import UnverifiedSkill, VerifiedSkill
from skillquay.dialects.sep2076_entries import is_remote, why_not_given
from skillquay.errors import (
    EntryError,
    RefusedError,
    UnavailableError,
    UnlistedFileError,
    UriError,
    VerificationError,
)
from skillquay.host.client import is_missing

if TYPE_CHECKING:
    from skillquay.core.entries import SkillEntry
    from skillquay.core.verification import UnverifiedFile, VerifiedFile
    from skillquay.host.approver import Inspect
    from skillquay.host.consent import Consent
    from skillquay.host.fetching import Fetching
    from skillquay.host.listing import Received
    from skillquay.host.servers import SkillServer

__all__ = ["FileOfSkill", "Loading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOfSkill:
    """A file of a skill in use; `is_reloaded` when the skill changed on the way and was approved anew."""

    file: VerifiedFile | UnverifiedFile
    is_reloaded: bool = False


@dataclass(slots=True)
class _Seen:
    """What a person looked at before they answered: that is what is loaded, verifiable or not."""

    loaded: VerifiedSkill | UnverifiedSkill | None = None


class Loading:
    """The one path by which a served skill enters a model's context. Each step is taken here, in order, every time."""

    def __init__(self, consent: Consent, fetching: Fetching) -> None:
        self.windows = Windows()
        self._consent = consent
        self._fetching = fetching
        self._locks: defaultdict[SkillId, anyio.Lock] = defaultdict(lambda: anyio.Lock(fast_acquire=True))

    @property
    def fetching(self) -> Fetching:
        """Content for people, who may look at it before it is in use: no window opens by it (R3)."""
        return self._fetching

    async def load(self, server: SkillServer, skill: SkillId, received: Received) -> ActingSkill:
        """Approve, fetch, verify, open the window. A skill that is in use and has not changed is taken as it is."""
        async with self._locks[skill]:
            entry = await self._current(server, skill, received)
            held = self.windows.open_windows.get(skill)
            if held is not None and held.entry.assurance is Assurance.WHOLE and held.entry.says == entry.says:
                return held
            acting = await self._loaded(server, entry)
            self.windows = self.windows.open(acting)
            await self._consent.note("loaded", acting.skill, _digest(acting) or "generated")
            return acting

    async def read(self, server: SkillServer, acting: ActingSkill, reference: str | SkillUri) -> FileOfSkill:
        """A file of a skill in use, by its path or its URI: listed in the held entry, verified against it (W2, V1)."""
        async with self._locks[acting.skill]:
            read = await self._read(server, self._held(acting), reference)
            self._held(acting)  # content does not arrive after its window was closed
            return read

    async def _read(self, server: SkillServer, acting: ActingSkill, reference: str | SkillUri) -> FileOfSkill:
        await self._consent.check_held(acting.skill, acting.entry)
        uri = reference if isinstance(reference, SkillUri) else acting.locate(reference)
        if not isinstance(acting.entry.resources, Manifest):
            return await self._read_dynamic(server, acting, uri)
        try:
            return FileOfSkill(file=await self._fetching.file(server, acting.skill, acting.entry, uri))
        except (VerificationError, UnavailableError) as failure:
            if isinstance(failure, UnavailableError) and not is_missing(failure):
                raise
            fresh, seen = await self._recovered(server, acting.entry, failure)
        before = acting
        acting = await self._verified(server, fresh, seen)
        self._held(before)
        self.windows = self.windows.open(acting)
        await self._consent.note("loaded", acting.skill, _digest(acting) or "generated")
        if not isinstance(acting.entry.resources, Manifest):
            return await self._read_dynamic(server, acting, uri)
        file = await self._fetching.file(server, acting.skill, acting.entry, uri)
        return FileOfSkill(file=file, is_reloaded=_digest(before) != _digest(acting))

    def _held(self, acting: ActingSkill) -> ActingSkill:
        """The window as it is now; content is read only while it is open (W1)."""
        held = self.windows.open_windows.get(acting.skill)
        if held is None:
            raise RefusedError(f"{acting.skill} is not in use any more. Load it again to read its files.", rule="W1")
        return held

    async def files(self, server: SkillServer, acting: ActingSkill) -> tuple[SkillUri, ...]:
        """The files of a skill in use: from the held entry, for a generated one by bounded directory reads (D2, D4)."""
        manifest = acting.entry.resources
        if isinstance(manifest, Manifest):
            return tuple(file.uri for file in manifest.files)
        return await self._fetching.unlisted_files(server, acting)

    def release(self, skill: SkillId) -> None:
        """The skill left the model's context (W1)."""
        self.windows = self.windows.close(skill)

    def inspector(self, server: SkillServer, skill: SkillId, entry: SkillEntry, seen: _Seen | None = None) -> Inspect:
        """For a person who wants to see a file before they answer: fetched and verified, and no window opens (R3)."""
        shown = seen or _Seen()

        async def inspect(path: str) -> str:
            return (await self.inspected(server, skill, entry, path, shown)).decode("utf-8", "backslashreplace")

        return inspect

    async def inspected(
        self, server: SkillServer, skill: SkillId, entry: SkillEntry, path: str, seen: _Seen | None = None
    ) -> bytes:
        """The bytes of one file, verified where there is something to verify it by."""
        shown = seen or _Seen()
        if shown.loaded is None:
            shown.loaded = await self._fetching.skill(server, skill, entry)
        acting = ActingSkill(skill=skill, loaded=shown.loaded)
        uri = acting.locate(path)
        if isinstance(acting.entry.resources, Manifest):
            return (await self._fetching.file(server, skill, acting.entry, uri)).data
        if isinstance(acting.loaded, UnverifiedSkill) and uri.key == entry.uri.key:
            return acting.loaded.data
        return acting.accept_unverified(uri, await self._fetching.read_unlisted(server, acting.entry, uri))[1].data

    async def listed(self, server: SkillServer, skill: SkillId, entry: SkillEntry) -> list[tuple[str, int | None]]:
        """The files of a skill for a person, in use or not."""
        if isinstance(entry.resources, Manifest):
            return [(entry.root.relative(file.uri), file.size) for file in entry.resources.files]
        acting = ActingSkill(skill=skill, loaded=await self._fetching.skill(server, skill, entry))
        manifest = acting.entry.resources
        if isinstance(manifest, Manifest):
            return [(entry.root.relative(file.uri), file.size) for file in manifest.files]
        uris = await self._fetching.unlisted_files(server, acting)
        return [(entry.root.relative(uri), None) for uri in uris]

    async def fresh(self, server: SkillServer, uri: SkillUri) -> Received:
        """The entry as the server has it now. What was answered about another one ends here, for good (A2)."""
        try:
            received = await server.dialects.get_skill(uri)
        except EntryError:
            await self._consent.observe(server.label, (), [uri])
            raise
        await self._consent.observe(server.label, [received.entry], received.entry.other_identities)
        server.hold(received)
        return received

    async def _current(self, server: SkillServer, skill: SkillId, received: Received) -> SkillEntry:
        """The entry as the server has it now: the one that was listed, as long as that counts as current (L6)."""
        if received.expires <= time.monotonic() or server.connection.changed:
            try:
                entry = (await self.fresh(server, skill.uri)).entry
            except UnavailableError as error:
                if is_missing(error):
                    raise
                # The server lists it and does not answer for it. What it listed is what will be verified.
            else:
                if entry.identity.key == skill.key:
                    return entry
                message = f"{skill} is gone; its server has another skill at that place now. Look around again."
                raise UnavailableError(message, rule="N1")
        await self._consent.observe(skill.server, [received.entry])
        return received.entry

    async def _loaded(self, server: SkillServer, entry: SkillEntry) -> ActingSkill:
        skill = _identity(server, entry)
        _check_given(entry)
        in_use = [each for each in self.windows.open_windows if each.server != skill.server]
        seen = _Seen()
        await self._consent.may_load(skill, entry, self.inspector(server, skill, entry, seen), in_use=in_use)
        try:
            loaded = seen.loaded or await self._fetching.skill(server, skill, entry)
        except (VerificationError, UnavailableError) as failure:
            if isinstance(failure, UnavailableError) and not is_missing(failure):
                raise
            return await self._verified(server, *await self._recovered(server, entry, failure))
        return ActingSkill(skill=skill, loaded=loaded)

    async def _verified(self, server: SkillServer, entry: SkillEntry, seen: _Seen) -> ActingSkill:
        """What was recovered once is not tried a second time: whatever fails now is final (V3)."""
        skill = _identity(server, entry)
        try:
            loaded = seen.loaded or await self._fetching.skill(server, skill, entry)
            return ActingSkill(skill=skill, loaded=loaded)
        except VerificationError as failure:
            await self._consent.note("refused", skill, failure.message)
            raise

    async def _recovered(
        self, server: SkillServer, held: SkillEntry, failure: VerificationError | UnavailableError
    ) -> tuple[SkillEntry, _Seen]:
        """One `skills/get`: an entry that says the same again is refused, another one is asked about (V3, D3)."""
        await self._consent.note("refused", _identity(server, held), failure.message)
        try:
            fresh = (await self.fresh(server, held.identity)).entry
        except (UnavailableError, EntryError):
            raise failure from None
        if fresh.says == held.says or fresh.identity.key != held.identity.key:
            raise failure
        skill = _identity(server, fresh)
        _check_given(fresh)
        try:
            seen = _Seen()
            await self._consent.may_recover(skill, held, fresh, self.inspector(server, skill, fresh, seen))
        except RefusedError as refusal:
            message = f"{skill} has changed on its server and needs approval again. {refusal.message}"
            raise RefusedError(message, rule=refusal.rule) from failure
        return fresh, seen

    async def _read_dynamic(self, server: SkillServer, acting: ActingSkill, uri: SkillUri) -> FileOfSkill:
        around = self.windows.governing(acting.skill.server, uri)
        inner = [each.skill for each in around if isinstance(each.entry.resources, Manifest)]
        if inner or not acting.entry.root.contains(uri):
            belongs = f" It belongs to {inner[0]}, which is in use." if inner else ""
            message = f"{shorten(uri)} is not a file of {acting.skill}.{belongs}"
            raise UnlistedFileError(message, uri=uri, rule="W2" if inner else "D4")
        place = self._fetching.place(acting.entry, uri)
        if place != uri:
            await self._check_place(server, acting, place)
        if is_remote(place) and place != uri:
            inspect = self.inspector(server, acting.skill, acting.entry)
            await self._consent.may_fetch(acting.skill, acting.entry, place, inspect)
        data = await self._fetching.read_unlisted(server, acting.entry, uri)
        acting, file = acting.accept_unverified(uri, data)
        if acting.skill in self.windows.open_windows:
            self.windows = self.windows.open(acting)
        return FileOfSkill(file=file)

    async def _check_place(self, server: SkillServer, acting: ActingSkill, place: str) -> None:
        """A file that lies in another skill's directory is not read where that skill is disabled or denied (A5)."""
        try:
            root = server.places.root_of(SkillUri(place))
        except UriError as error:
            if place.partition(":")[0].lower() in {"skill", *server.places.schemes}:
                raise UnlistedFileError(error.message, uri=acting.entry.uri, rule="U3") from None
            return
        for received in server.skills.values() if root is not None else ():
            other = received.entry
            if other.identity.key != acting.entry.identity.key and looks_like(other.root) == root:
                await self._consent.check_held(_identity(server, other), other)


def _identity(server: SkillServer, entry: SkillEntry) -> SkillId:
    """Who the skill is, in the spelling its server uses now: another spelling of a URI is the same skill (N1)."""
    return SkillId(server=server.label, uri=entry.identity)


def _check_given(entry: SkillEntry) -> None:
    """Nobody is asked about a skill that its server would not give (I7)."""
    if reason := why_not_given(entry):
        raise UnavailableError(reason, rule="I7")


def _digest(acting: ActingSkill) -> str | None:
    return acting.loaded.digest if isinstance(acting.loaded, VerifiedSkill) else None
