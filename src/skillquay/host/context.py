"""What is in the model's context, and what may enter it: skills and their files (P3, P5, O1, O2, W, X2)."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from anyio import to_thread

from skillquay.core.approvals import Grant, requested_tools
from skillquay.core.context import render_error, render_file, render_files, render_local_file, render_skill
from skillquay.core.decisions import granted_tools
from skillquay.core.drafts import Dialect
from skillquay.core.entries import Manifest
from skillquay.core.identity import SkillId
from skillquay.core.verification import VerifiedSkill
from skillquay.errors import RefusedError
from skillquay.host import local
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

__all__ = ["LoadedSkill", "ModelContext"]

_SERVED = "what is not local is served"
_ALREADY = 'The skill "{name}" is already loaded, and has not changed. Its instructions are above.'
_CHANGED = (
    'The skill "{name}" has changed and was approved anew. Load it again with read_skill for its new instructions.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill in the model's context, to be kept from compaction, and released when it leaves (P5)."""

    name: str
    origin: str
    identity: Local | SkillId
    text: str


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
            self.check_usable(skill)
        if not by_person:
            self._check_for_model(skill)
        if skill.local is not None:
            return await self._load_local(skill, skill.local)
        assert isinstance(skill.identity, SkillId), _SERVED
        try:
            return await self._load_served(skill, skill.identity)
        except RefusedError:
            await self._host.survey()  # it may have been denied just now
            raise

    async def read_file(self, skill: KnownSkill, path: str) -> str:
        """A supporting file of a skill. That of a served one is read only while the skill is in use (W1)."""
        limit = self._host.budgets.shown_characters
        self.check_usable(skill)
        if skill.local is not None:
            self._check_for_model(skill)
            file = await to_thread.run_sync(local.read_file, skill.local, path)
            text = file.text[:limit]
            part = f"the first {len(text):,} characters of {file.size:,} bytes"
            shortened = part if file.shortened or len(text) < len(file.text) else None
            return render_local_file(skill.local.location, file.path, text, shortened=shortened)
        server, acting = self._acting(skill)
        read = await self._host.loading.read(server, acting, path)
        note = render_error(_CHANGED.format(name=skill.name), quotes_server=True) + "\n" if read.is_reloaded else ""
        return note + render_file(read.file, acting.skill, limit=limit)

    async def read_bytes(self, skill: KnownSkill, path: str) -> bytes:
        """A supporting file as it is, whole; that of a served skill verified, and only while the skill is in use."""
        self.check_usable(skill)
        if skill.local is not None:
            return await to_thread.run_sync(local.read_bytes, skill.local, path)
        server, acting = self._acting(skill)
        return (await self._host.loading.read(server, acting, path)).file.data

    async def list_files(self, skill: KnownSkill) -> str:
        """A skill's files for the model."""
        self.check_usable(skill)
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
        if held is None and skill.state is not State.APPROVED:
            raise RefusedError(f'Load the skill "{skill.name}" with read_skill to see its files.', rule="A5")
        entry = skill.entry if held is None else held.entry
        if isinstance(entry.resources, Manifest):
            return list(_sizes(entry))
        server, acting = self._acting(skill)
        return [(entry.root.relative(uri), None) for uri in await self._host.loading.files(server, acting)]

    def release(self, identity: Local | SkillId) -> None:
        """The skill left the context: by compaction, or because the conversation ended."""
        self._loaded.pop(identity, None)
        self._digests.pop(identity, None)
        if isinstance(identity, SkillId):
            self._host.loading.release(identity)

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

    async def may_read(self, server: ServerLabel, uri: str) -> None:
        """Raise `RefusedError` unless the skills in use are of this server, or a person agrees this once (O2)."""
        acting = [(skill, window.entry) for skill, window in self._host.loading.windows.open_windows.items()]
        if acting:
            await self._host.consent.may_read(acting, server, uri, self.inspector(*acting[0]))

    async def grant_tools(self, skill: KnownSkill) -> str:
        """Have the approver answer whether a served skill gets the tools it asks for; then what was granted (X2)."""
        self.check_usable(skill)
        if isinstance(skill.identity, SkillId) and skill.entry is not None and requested_tools(skill.entry):
            inspect = self.inspector(skill.identity, skill.entry)
            await self._host.consent.may_grant_tools(skill.identity, skill.entry, inspect)
        return await self.granted_tools(skill)

    async def _load_local(self, skill: KnownSkill, entry: LocalEntry) -> str:
        body = await to_thread.run_sync(local.read_body, entry)
        digest = sha256(body.body.encode("utf-8", "surrogatepass")).hexdigest()
        if self._digests.get(entry.identity) == digest:
            return render_error(_ALREADY.format(name=skill.name), quotes_server=False)
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
                return render_error(_ALREADY.format(name=skill.name), quotes_server=True)
            self._digests[identity] = acting.loaded.digest
            files = render_files(identity, _sizes(acting.entry), limit=limit)
        else:
            self._digests.pop(identity, None)
            files = await self._told_files(server, acting)
        text = f"{render_skill(acting.loaded, identity, limit=limit)}\n{files}"
        self._loaded[identity] = LoadedSkill(name=skill.name, origin=skill.origin, identity=identity, text=text)
        return text

    async def _told_files(self, server: SkillServer, acting: ActingSkill) -> str:
        """What the model is told of files that no manifest lists: SEP-2076 names them with the instructions (I14)."""
        entry = acting.entry
        if entry.draft is None:
            return _GENERATED
        if entry.dialect is not Dialect.PRIMITIVE:
            return _UNLISTED
        uris = await self._host.loading.files(server, acting)
        paths = ((entry.root.relative(uri), None) for uri in uris)
        return render_files(acting.skill, paths, limit=self._host.budgets.shown_characters) if uris else _NONE

    @staticmethod
    def check_usable(skill: KnownSkill) -> None:
        """What a person disabled or denied is out of use at once, in a window or not (A5)."""
        if skill.state is State.DISABLED:
            raise RefusedError(f'The skill "{skill.name}" is disabled. Enable it with "skillquay enable".', rule="A5")
        if skill.state is State.DENIED:
            raise RefusedError(f'The skill "{skill.name}" was denied.', rule="A1")

    def _check_for_model(self, skill: KnownSkill) -> None:
        """A skill that is for people to load is not read file by file instead (P2)."""
        if not skill.model_may_load and skill.identity not in self._loaded:
            raise RefusedError(f'The skill "{skill.name}" is for people to load, by "/{skill.name}".', rule="P2")

    def inspector(self, skill: SkillId, entry: SkillEntry) -> Inspect:
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


_GENERATED = "The files of this skill are generated; ask for them with list_skill_files."
_UNLISTED = "Its server does not list its files; read those that the instructions name with read_skill_file."
_NONE = "This skill has no other files."


def _sizes(entry: SkillEntry) -> Iterator[tuple[str, int | None]]:
    assert isinstance(entry.resources, Manifest)
    return ((entry.root.relative(file.uri), file.size) for file in entry.resources.files)
