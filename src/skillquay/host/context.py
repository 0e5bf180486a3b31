"""What is in the model's context, and what may enter it: skills, their files, other resources (P3, P5, O, R2, W, X)."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from anyio import to_thread

from skillquay.core.approvals import Grant, requested_tools
from skillquay.core.context import render_file, render_files, render_local_file, render_resource, render_skill
from skillquay.core.decisions import granted_tools, writes_instructions
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import SkillId
from skillquay.core.uris import MAX_URI_LENGTH, SKILL_MD, SkillUri
from skillquay.core.verification import VerifiedSkill
from skillquay.errors import RefusedError, UnavailableError, UnlistedFileError, UriError
from skillquay.host import local
from skillquay.host.client import is_missing
from skillquay.host.directory import State
from skillquay.host.listing import Received

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillquay.core.acting import ActingSkill
    from skillquay.core.entries import SkillEntry
    from skillquay.core.identity import ServerLabel
    from skillquay.core.registry import Local
    from skillquay.host.approver import Inspect
    from skillquay.host.directory import KnownSkill
    from skillquay.host.host import SkillHost
    from skillquay.host.local import LocalEntry
    from skillquay.host.servers import SkillServer

__all__ = ["Execution", "LoadedSkill", "ModelContext"]

_BETWEEN_WORDS = re.compile(r"[\s'\"`=<>|;&(){}\[\],]+")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SERVED = "what is not local is served"
_ALREADY = 'The skill "{name}" is already loaded, and has not changed. Its instructions are above.'
_CHANGED = (
    'The skill "{name}" has changed and was approved anew. Load it again with read_skill for its new instructions.\n'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill in the model's context, to be kept from compaction, and released when it leaves (P5)."""

    name: str
    origin: str
    identity: Local | SkillId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """May a code-execution tool run now? `skills` are the served skills in use, each with whether it was approved."""

    allowed: bool
    reason: str
    skills: tuple[tuple[SkillId, bool], ...]
    writes_instructions: bool


class ModelContext:
    """The skills one model has in its context. Everything that enters it is tagged with where it came from (O1)."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._loaded: dict[Local | SkillId, LoadedSkill] = {}
        self._digests: dict[Local | SkillId, str] = {}  # of the instructions as they were given to the model

    @property
    def loaded(self) -> tuple[LoadedSkill, ...]:
        """The skills in the context."""
        return tuple(self._loaded.values())

    async def load(self, skill: KnownSkill, *, by_person: bool) -> str:
        """A skill's instructions for the model, and the list of its files. Content that is there is not repeated."""
        if skill.state is State.DISABLED:
            self._check_usable(skill)
        if not by_person:
            self._check_for_model(skill)
        if skill.local is not None:
            return await self._load_local(skill, skill.local)
        assert isinstance(skill.identity, SkillId), _SERVED
        if not by_person:
            await self._check_origin(skill.identity)
        try:
            return await self._load_served(skill, skill.identity)
        except RefusedError:
            await self._host.survey()  # it may have been denied just now
            raise

    async def read_file(self, skill: KnownSkill, path: str) -> str:
        """A supporting file of a skill. That of a served one is read only while the skill is in use (W1)."""
        limit = self._host.budgets.shown_characters
        self._check_usable(skill)
        if skill.local is not None:
            self._check_for_model(skill)
            file = await to_thread.run_sync(local.read_file, skill.local, path)
            text = file.text[:limit]
            part = f"the first {len(text):,} characters of {file.size:,} bytes"
            shortened = part if file.shortened or len(text) < len(file.text) else None
            return render_local_file(skill.local.location, file.path, text, shortened=shortened)
        server, acting = self._acting(skill)
        read = await self._host.loading.read(server, acting, path)
        note = _CHANGED.format(name=skill.name) if read.is_reloaded else ""
        return note + render_file(read.file, acting.skill, limit=limit)

    async def read_bytes(self, skill: KnownSkill, path: str) -> bytes:
        """A supporting file as it is, whole; that of a served skill verified, and only while the skill is in use."""
        self._check_usable(skill)
        if skill.local is not None:
            return await to_thread.run_sync(local.read_bytes, skill.local, path)
        server, acting = self._acting(skill)
        return (await self._host.loading.read(server, acting, path)).file.data

    async def list_files(self, skill: KnownSkill) -> str:
        """A skill's files for the model."""
        self._check_usable(skill)
        self._check_for_model(skill)
        origin = skill.identity if isinstance(skill.identity, SkillId) else None
        return render_files(origin, await self.files(skill), limit=self._host.budgets.shown_characters)

    async def files(self, skill: KnownSkill) -> list[tuple[str, int | None]]:
        """The paths of a skill's files: of a served one from its entry, without fetching anything (R3, D2)."""
        if skill.local is not None:
            return [(path, None) for path in await to_thread.run_sync(local.list_files, skill.local)]
        assert isinstance(skill.identity, SkillId), _SERVED
        assert skill.entry is not None, _SERVED
        held = self._host.loading.windows.open_windows.get(skill.identity)
        entry = skill.entry if held is None else held.entry
        if isinstance(entry.resources, Manifest):
            return list(_sizes(entry))
        server, acting = self._acting(skill)
        return [(entry.root.relative(uri), None) for uri in await self._host.loading.files(server, acting)]

    async def read_resource(self, server: SkillServer, uri: str) -> str:
        """Another resource of a server; a directory is listed. It activates nothing, whatever it holds (R2).

        While a served skill is in use, a read on another server is asked about each time (O2), and a read inside the
        skill's directory is a read of its files (W2). Files of skills that are not in use are for `read_skill`.
        """
        place = self._checked(server.label, uri)
        loading = self._host.loading
        await self._may_read(server.label, uri)
        limit = self._host.budgets.shown_characters
        if place is not None:
            for window in loading.windows.governing(server.label, place):
                if (known := self._host.get(window.skill)) is not None:
                    self._check_usable(known)
                if (listed := _listed(window.entry, place)) is not None:
                    read = await loading.read(server, window, listed)
                    return render_file(read.file, window.skill, limit=limit)
                if isinstance(window.entry.resources, Manifest) and (files := _below(window.entry, place)):
                    return render_files(window.skill, files, limit=limit)
            loading.windows.check_read(server.label, place)
        try:
            data = await server.client.read_file(uri)
        except UnavailableError as error:
            if place is None or not is_missing(error) or not server.client.reads_directories:
                raise
            children = [child for child in await server.client.read_directory(place) if place.contains(child.uri)]
            names = "\n".join(f"{child.uri}{'/' if child.is_directory else ''}" for child in children)
            return render_resource(server.label, uri, names.encode(), limit=limit)
        return render_resource(server.label, uri, data, limit=limit)

    def release(self, identity: Local | SkillId) -> None:
        """The skill left the context: by compaction, or because the conversation ended."""
        self._loaded.pop(identity, None)
        self._digests.pop(identity, None)
        if isinstance(identity, SkillId):
            self._host.loading.release(identity)

    async def may_execute(self, tool: str, arguments: Mapping[str, object]) -> Execution:
        """Ask before running a code-execution tool: each served skill in use needs its own approval of it (X1, X4)."""
        writes = any(writes_instructions(text) for text in _texts(arguments))
        shown = f"{tool} {shorten(repr(dict(arguments)), 400)}"
        found: list[tuple[SkillId, bool]] = []
        reason = "No served skill is in use."
        windows = self._host.loading.windows.open_windows if self._host.has_state else {}
        for skill, window in windows.items():
            try:
                await self._host.consent.may_execute(skill, window.entry, shown, self._inspector(skill, window.entry))
            except RefusedError as refusal:
                found.append((skill, False))
                reason = refusal.message
            else:
                found.append((skill, True))
        allowed = all(approved for _, approved in found)
        if found and allowed:
            reason = "Running code was approved for each served skill in use."
        return Execution(allowed=allowed, reason=reason, skills=tuple(found), writes_instructions=writes)

    async def granted_tools(self, skill: KnownSkill) -> str:
        """The `allowed-tools` that take effect: a local skill's own, a served one's only once granted to it (X2)."""
        if skill.state in {State.DISABLED, State.DENIED}:
            return ""
        if skill.local is not None:
            tools = skill.local.frontmatter.get("allowed-tools")
            return tools if isinstance(tools, str) else ""
        assert isinstance(skill.identity, SkillId), _SERVED
        assert skill.entry is not None, _SERVED
        held = self._host.loading.windows.open_windows.get(skill.identity)
        entry = skill.entry if held is None else held.entry
        return granted_tools(skill.identity, entry, await self._host.consent.approval(skill.identity, Grant.TOOLS))

    async def _check_origin(self, skill: SkillId) -> None:
        """A skill of one server does not have the model load one of another unless a person agrees, each time (O2)."""
        if skill not in self._host.loading.windows.open_windows:
            await self._may_read(skill.server, str(skill.uri))

    async def _may_read(self, server: ServerLabel, uri: str) -> None:
        acting = [(skill, window.entry) for skill, window in self._host.loading.windows.open_windows.items()]
        if acting:
            await self._host.consent.may_read(acting, server, uri, self._inspector(*acting[0]))

    async def grant_tools(self, skill: KnownSkill) -> str:
        """Have the approver answer whether a served skill gets the tools it asks for; then what was granted (X2)."""
        self._check_usable(skill)
        if isinstance(skill.identity, SkillId) and skill.entry is not None and requested_tools(skill.entry):
            inspect = self._inspector(skill.identity, skill.entry)
            await self._host.consent.may_grant_tools(skill.identity, skill.entry, inspect)
        return await self.granted_tools(skill)

    async def _load_local(self, skill: KnownSkill, entry: LocalEntry) -> str:
        body = await to_thread.run_sync(local.read_body, entry)
        digest = sha256(body.body.encode("utf-8", "surrogatepass")).hexdigest()
        if self._digests.get(entry.identity) == digest:
            return _ALREADY.format(name=skill.name)
        paths = await to_thread.run_sync(local.list_files, entry)
        text = f"{render_skill(body)}\n{render_files(None, ((path, None) for path in paths))}"
        self._digests[entry.identity] = digest
        self._loaded[entry.identity] = LoadedSkill(
            name=skill.name, origin=skill.origin, identity=entry.identity, text=text
        )
        return text

    async def _load_served(self, skill: KnownSkill, identity: SkillId) -> str:
        server = self._host.server_of(identity.server)
        assert skill.entry is not None, _SERVED
        # A listing that was made meanwhile may lack it; the server is then asked for it.
        received = server.skills.get(identity.key, Received(entry=skill.entry, expires=0.0))
        acting = await self._host.loading.load(server, identity, received)
        identity, limit = acting.skill, self._host.budgets.shown_characters
        if isinstance(acting.loaded, VerifiedSkill):
            if self._digests.get(identity) == acting.loaded.digest:
                return _ALREADY.format(name=skill.name)
            self._digests[identity] = acting.loaded.digest
            files = render_files(identity, _sizes(acting.entry), limit=limit)
        else:
            self._digests.pop(identity, None)
            files = _GENERATED
        text = f"{render_skill(acting.loaded, identity, limit=limit)}\n{files}"
        self._loaded[identity] = LoadedSkill(name=skill.name, origin=skill.origin, identity=identity, text=text)
        return text

    @staticmethod
    def _check_usable(skill: KnownSkill) -> None:
        """What a person disabled or denied is out of use at once, in a window or not (A5)."""
        if skill.state is State.DISABLED:
            raise RefusedError(f'The skill "{skill.name}" is disabled. Enable it with "skillquay enable".', rule="A5")
        if skill.state is State.DENIED:
            raise RefusedError(f'The skill "{skill.name}" was denied.', rule="A1")

    def _check_for_model(self, skill: KnownSkill) -> None:
        """A skill that is for people to load is not read file by file instead (P2)."""
        if not skill.model_may_load and skill.identity not in self._loaded:
            raise RefusedError(f'The skill "{skill.name}" is for people to load, by "/{skill.name}".', rule="P2")

    def _inspector(self, skill: SkillId, entry: SkillEntry) -> Inspect:
        """For a person who is asked about a skill in use; its server may be gone by then."""

        async def inspect(path: str) -> str:
            server = self._host.server_of(skill.server)
            return await self._host.loading.inspector(server, skill, entry)(path)

        return inspect

    def _acting(self, skill: KnownSkill) -> tuple[SkillServer, ActingSkill]:
        assert isinstance(skill.identity, SkillId), "local skills have no window"
        acting = self._host.loading.windows.open_windows.get(skill.identity)
        if acting is None:
            raise RefusedError(f'Load the skill "{skill.name}" with read_skill before reading its files.', rule="W1")
        return self._host.server_of(skill.identity.server), acting

    def _check_lookalikes(self, label: ServerLabel, place: SkillUri) -> None:
        """Refuse what only a careful server would take for a place outside a skill in use (W2)."""
        looks = _folded(place)
        for skill in self._host.loading.windows.open_windows:
            root = _folded(skill.uri.root)
            if skill.server == label and looks[: len(root)] == root:
                message = f"{shorten(place)} is no URI of {skill}, which is in use, and looks like one."
                raise UnlistedFileError(message, uri=place, rule="W2")

    def _checked(self, label: ServerLabel, uri: str) -> SkillUri | None:
        """Refuse URIs by which a skill's files could be reached past its window, in whatever spelling (W2, X3)."""
        scheme = _SCHEME.match(uri)
        if len(uri) > MAX_URI_LENGTH or scheme is None:
            raise UriError(f'"{shorten(uri)}" is not a URI. Give one such as the server names itself.')
        in_use = {skill.uri.scheme for skill in self._host.loading.windows.open_windows if skill.server == label}
        try:
            place = SkillUri(uri)
        except UriError:
            if scheme[1].lower() in in_use | {"skill"}:
                raise
            return None
        if not self._host.loading.windows.governing(label, place):
            self._check_lookalikes(label, place)
            listed = self._host.server_of(label).skills
            for depth in range(2, len(place.key)):
                if (around := listed.get((*place.key[:depth], SKILL_MD))) is not None:
                    name = shorten(around.entry.name)
                    message = f'{shorten(uri)} belongs to the skill "{name}". Load it with read_skill.'
                    raise RefusedError(message, rule="R2")
        return place


_GENERATED = "The files of this skill are generated; ask for them with list_skill_files."


def _folded(uri: SkillUri) -> list[str]:
    """The segments as the most forgiving server would compare them: cleaned up, folded, and then resolved."""
    seen = (character for character in "/".join(uri.key) if visible(character) == character)
    folded = unicodedata.normalize("NFKC", "".join(seen)).casefold().replace("\\", "/")
    return [segment.rstrip(" .") for segment in posixpath.normpath(folded).split("/")]


def _sizes(entry: SkillEntry) -> Iterator[tuple[str, int | None]]:
    assert isinstance(entry.resources, Manifest)
    return ((entry.root.relative(file.uri), file.size) for file in entry.resources.files)


def _listed(entry: SkillEntry, place: SkillUri) -> SkillUri | None:
    """The URI of a file of the skill, as its entry spells it."""
    if not isinstance(entry.resources, Manifest):
        return place if entry.root.contains(place) else None
    record = entry.resources.find(place)
    return None if record is None else record.uri


def _below(entry: SkillEntry, directory: SkillUri) -> list[tuple[str, int | None]]:
    """The files below a directory of the skill, from its entry alone (D2)."""
    assert isinstance(entry.resources, Manifest)
    return [(directory.relative(file.uri), file.size) for file in entry.resources.files if directory.contains(file.uri)]


def _texts(value: object) -> Iterator[str]:
    """Every text in the arguments of a tool, names included, and every word of it that could be meant as a path."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
            yield from _BETWEEN_WORDS.split(value)
        elif isinstance(value, Mapping):
            pending += (*value, *value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            pending += value
