"""What people do of their own accord: look, approve, deny, take back, compare, switch on and off, trust (A5, P6)."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from skillquay.core.approvals import Answer, Grant
from skillquay.core.changes import compare
from skillquay.core.entries import Manifest
from skillquay.core.hidden import shorten
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.questions import About, Question
from skillquay.core.registry import Ambiguous, Local, LocalScope, Registered, Registry
from skillquay.core.uris import SkillUri
from skillquay.errors import LabelError, RefusedError, SkillquayError, StateError, UnknownSkillError, UriError
from skillquay.host import local
from skillquay.host.consent import key_of, keys_of
from skillquay.host.fetching import is_packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillquay.core.changes import ManifestChange
    from skillquay.core.entries import SkillEntry
    from skillquay.core.questions import Reply
    from skillquay.host.directory import KnownSkill
    from skillquay.host.host import SkillHost
    from skillquay.host.servers import SkillServer
    from skillquay.host.store import Event, Kept

__all__ = ["Difference", "People"]

_MOST_EVENTS = 10_000  # of the audit, looked through for a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a skill was when it was last answered, what it is now, and what moved between the two.

    `before` is the entry that was answered, None where it cannot be read any more. `change` is between its files and
    those of `now`, also where they come in archives. Where such a one cannot be opened, `not_compared` says why, and
    `change` names the archives. Nothing may have moved although the archive is another one: `is_changed` says so too.
    """

    then: Kept
    before: SkillEntry | None
    now: SkillEntry
    change: ManifestChange
    is_changed: bool
    not_compared: str = ""


class People:
    """For command lines and consoles: none of this is for the model, and none of it opens a window."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host

    async def question(self, name: str, about: About = About.LOAD) -> Question:
        """All that a person may want to know of a served skill before they answer, as a question that shows itself."""
        skill, entry, _ = await self._served(name)
        change = await self._host.consent.change(skill, entry)
        text = f"{skill} is a skill of an MCP server."
        return Question(about=about, text=text, skill=skill, entry=entry, change=change)

    async def content(self, name: str, path: str = "SKILL.md") -> bytes:
        """One file of a skill for a person to look at: verified where it is served, and nothing is activated (R3)."""
        known = self._host.find(name)
        if known.local is not None:
            file = await to_thread.run_sync(local.read_file, known.local, path)
            return file.text.encode("utf-8", "surrogatepass")
        skill, entry, server = await self._served(name)
        return await self._host.loading.inspected(server, skill, entry, path)

    async def files(self, name: str) -> list[tuple[str, int | None]]:
        """The paths of a skill's files and their sizes, where they are known without fetching."""
        known = self._host.find(name)
        if known.local is not None:
            return [(path, None) for path in await to_thread.run_sync(local.list_files, known.local)]
        skill, entry, server = await self._served(name)
        return await self._host.loading.listed(server, skill, entry)

    async def answer(self, name: str, about: About, answer: Answer) -> Question:
        """Approve or deny, bound to what the skill is now. Of a generated skill nothing can be kept (A3)."""
        question = await self.question(name, about)
        await self.keep(question, answer)
        return question

    async def keep(self, question: Question, answer: Answer) -> None:
        """Keep the answer to a question that was shown, bound to exactly what it showed (A1)."""
        await self._host.consent.answer(question.about, question.skill, question.entry, answer)
        await self._host.survey()

    async def ask_about_server(self, label: str) -> dict[str, Reply]:
        """Have the approver answer for a server's whole list at once; by the names of the skills."""
        server = self._host.server_named(label)
        skills = [
            (SkillId(server=server.label, uri=received.entry.identity), received.entry)
            for received in server.skills.values()
        ]
        loading = self._host.loading
        replies = await self._host.consent.answer_all(
            skills, lambda question: loading.inspector(server, question.skill, question.entry)
        )
        await self._host.survey()
        return {known.name: replies[known.identity] for known in self._host.skills if known.identity in replies}

    async def revoke(self, name: str) -> int:
        """Take back every answer about a skill; also about one whose server is gone, or does not answer."""
        skill = await self.find_answered(name)
        ended = await to_thread.run_sync(partial(self._host.consent.store.revoke, skill, at=time.time()))
        await self._host.survey()
        return ended

    async def switch(self, name: str, *, on: bool) -> str:
        """Enable or disable a skill by its name, or a server with all its skills by its label; says which it was."""
        return (await self.switch_all([name], on=on))[0]

    async def switch_all(self, names: Sequence[str], servers: Sequence[str] = (), *, on: bool) -> list[str]:
        """The same for several; `servers` are labels for sure. Where one name is wrong, nothing is switched at all."""
        labels = [self._host.server_named(label).label for label in servers]
        wanted = (*labels, *await self._switchable(names, labels, on=on))
        store = self._host.consent.store
        for what in wanted:
            identity = what if isinstance(what, ServerLabel) else what.identity
            about = identity.directory if isinstance(identity, Local) else identity
            keys = frozenset({key_of(identity)})
            if not isinstance(what, ServerLabel) and isinstance(identity, SkillId) and what.entry is not None:
                keys = keys_of(identity, what.entry)
            do = store.enable if on else store.disable
            for key in keys:
                await to_thread.run_sync(partial(do, key, at=time.time(), about=about))
        await (self._host.refresh() if on else self._host.survey())
        return [f'server "{what}"' if isinstance(what, ServerLabel) else f'skill "{what.name}"' for what in wanted]

    async def difference(self, name: str) -> Difference | None:
        """What changed since the skill was last answered; None when it never was.

        Archives are opened: the one that was answered as it was kept when the skill was loaded, the one that its server
        has now from there, if need be.
        """
        skill, entry, server = await self._served(name)
        then = await to_thread.run_sync(self._host.consent.store.last_answered, skill, Grant.LOAD)
        if then is None:
            return None
        change = then.approval.change_to(entry)
        found = Difference(then=then, before=then.entry, now=entry, change=change, is_changed=bool(change))
        packed = is_packed(entry) or (then.entry is not None and is_packed(then.entry))
        return await self._opened(found, server) if packed and then.approval.pairs != entry.pairs else found

    async def _opened(self, found: Difference, server: SkillServer) -> Difference:
        """The same of what is in the archives."""
        skill, fetching = found.then.approval.skill, self._host.loading.fetching
        if found.before is None:
            return replace(found, not_compared="What it was cannot be read any more.")
        try:
            before = await fetching.kept(server, skill, found.before)
        except SkillquayError as error:
            return replace(found, not_compared=f"What it was cannot be opened: {error.message}")
        if before is None:
            message = "What was in its archive is not in the cache: it was never loaded, or was removed since."
            return replace(found, not_compared=message)
        try:
            now = await fetching.opened(server, SkillId(server=server.label, uri=found.now.identity), found.now)
        except SkillquayError as error:
            return replace(found, before=before, not_compared=f"What it is now cannot be opened: {error.message}")
        if (files := _pairs(now)) is None:
            return replace(found, before=before, not_compared="Its server does not list its files any more.")
        change = replace(
            compare(_pairs(before) or (), files),
            became_dynamic=found.change.became_dynamic,
            frontmatter_changed=found.change.frontmatter_changed,
        )
        return replace(found, before=before, now=now, change=change)

    async def compared(self, difference: Difference, uri: SkillUri) -> tuple[bytes, bytes] | None:
        """An added or rewritten file as it was and as it is, verified (R3); None where what it was is not kept."""
        then, before, now = difference.then.approval.skill, difference.before, difference.now
        server, loading = self._host.server_of(then.server), self._host.loading
        old: bytes | None = b""
        if uri not in difference.change.added:
            old = None if before is None else await loading.fetching.kept_file(server, then, before, uri)
        if old is None:
            return None
        skill = SkillId(server=server.label, uri=now.identity)
        if is_packed(now):
            return old, (await loading.fetching.file(server, skill, now, uri)).data
        return old, await loading.inspected(server, skill, now, now.root.relative(uri))

    async def approvals(self) -> list[Kept]:
        """Every answer that is kept, ended ones included."""
        return await to_thread.run_sync(self._host.consent.store.approvals)

    async def names(self, skills: Iterable[SkillId]) -> dict[SkillId, str]:
        """What to call skills: those of this folder as they are shown here, among all that is known without asking."""
        wanted = set(skills)
        workspace, store = self._host.workspace, self._host.consent.store
        trusted = workspace.folder is not None and await to_thread.run_sync(store.is_trusted, workspace.folder)
        around = await to_thread.run_sync(partial(workspace.look, trusted=trusted))
        kept = _names_kept(await self.approvals())
        known: dict[Local | SkillId, str] = {
            skill: kept.get(skill) or _name_of(skill) for skill in wanted if self._is_here(skill)
        }
        known |= {entry.identity: entry.name for entry in around.skills}
        known |= {each.identity: _plain_name(each) for each in self._host.skills}
        here = Registry(Registered(name=name, identity=identity) for identity, name in known.items())
        every = {
            found.identity: name for registry in (_names_of(wanted, kept), here) for name, found in registry.named()
        }
        return {skill: every[skill] for skill in wanted}

    async def audit(self, *, limit: int, name: str | None = None) -> list[Event]:
        """What was decided, loaded and refused, the newest first."""
        audit = self._host.consent.store.audit
        if name is None:
            return await to_thread.run_sync(partial(audit, limit=limit))
        events = await to_thread.run_sync(partial(audit, limit=_MOST_EVENTS))
        skill = await self.find_answered(name, (skill for event in events if (skill := _skill_of(event)) is not None))
        return await to_thread.run_sync(partial(audit, limit=limit, skill=skill))

    async def trust(self, *, yes: bool) -> str:
        """Trust the folder, or do not any more. The next look around goes by it."""
        folder = self._host.workspace.folder
        if folder is None:
            raise StateError("There is no folder to trust.", rule="P6")
        store = self._host.consent.store
        await to_thread.run_sync(partial(store.trust if yes else store.distrust, folder, at=time.time()))
        return folder

    async def find_answered(self, name: str, others: Iterable[SkillId] = ()) -> SkillId:
        """The skill that answers are kept about under this name; those of this folder's servers come first."""
        answers = await self.approvals()
        kept = _names_kept(answers)
        skills = list(dict.fromkeys((*(each.approval.skill for each in answers), *others)))
        here = [skill for skill in skills if self._is_here(skill)]
        for among in (here, skills):
            found = _names_of(among, kept).find(name.removeprefix("/"))
            if isinstance(found, Ambiguous):
                candidates = ", ".join(found.candidates[:20])
                raise UnknownSkillError(f'"{shorten(name)}" means several skills. Say which: {candidates}.')
            if isinstance(found, Registered) and isinstance(found.identity, SkillId):
                return found.identity
        raise UnknownSkillError(f'Nothing is kept about a skill "{shorten(name)}".')

    def _is_here(self, skill: SkillId) -> bool:
        """True for a skill of a server that this folder names."""
        return skill.server.scope == self._host.workspace.configuration_path

    async def _switchable(
        self, names: Sequence[str], labels: Sequence[ServerLabel], *, on: bool
    ) -> list[ServerLabel | KnownSkill]:
        """What the names mean. Servers that are to be enabled are asked for their skills first: these may be meant."""
        meant: dict[str, ServerLabel | KnownSkill] = {}
        for name in names:
            with suppress(UnknownSkillError):
                meant[name] = self._meant(name)
        woken: list[SkillServer] = []
        if on and len(meant) < len(set(names)):
            disabled = await to_thread.run_sync(self._host.consent.store.disabled)
            of_names = (what for what in meant.values() if isinstance(what, ServerLabel))
            woken = [self._host.server_of(each) for each in (*labels, *of_names) if key_of(each) in disabled]
            await self._wake(woken)
        try:
            return [meant[name] if name in meant else self._meant(name) for name in dict.fromkeys(names)]
        except UnknownSkillError:
            for server in woken:
                server.rest()
            await self._host.survey()
            raise

    async def _wake(self, servers: Sequence[SkillServer]) -> None:
        """Ask servers that are disabled what they have; they stay disabled, and all they have with them."""
        async with anyio.create_task_group() as asking:
            for server in servers:
                asking.start_soon(server.discover)
        for server in servers:
            entries = (received.entry for received in server.skills.values())
            await self._host.consent.observe(server.label, entries, server.refused_uris)
        await self._host.survey()

    def _meant(self, name: str) -> ServerLabel | KnownSkill:
        """The skill or the server of this name; one that could be either is nobody's to choose."""
        is_label = any(label.label == name for label in self._host.servers)
        same = [known.name for known in self._host.skills if _plain_name(known) == name]
        try:
            known = self._host.find(name)
        except UnknownSkillError as error:
            if not is_label:
                message = f"{error.message} No server that is configured here has this label either."
                raise UnknownSkillError(message) from None
            if not same:
                return self._host.server_named(name).label
        else:
            if not is_label:
                return known
            same = [self._other_name(known, name)]
        said = ", ".join(f'"{each}"' for each in same[:20])
        raise UnknownSkillError(
            f'"{shorten(name)}" is the name of a skill and of a server. For the skill say {said}, for the server '
            f'"--server {shorten(name)}".'
        )

    def _other_name(self, known: KnownSkill, name: str) -> str:
        """Another name of the same skill."""
        identity, plain = known.identity, _plain_name(known)
        if isinstance(identity, SkillId):
            forms = [f"{identity.server}:{plain}", f"{identity.server}:{identity.uri}"]
        else:
            mark = "." if identity.scope is LocalScope.PROJECT else "~"
            forms = [f"{mark}/{plain}", f"{mark}/{identity.directory}/{plain}"]
        for form in (known.name, *forms):
            with suppress(UnknownSkillError):
                if form != name and self._host.find(form) is known:
                    return form
        return known.name

    async def _served(self, name: str) -> tuple[SkillId, SkillEntry, SkillServer]:
        known: KnownSkill = self._host.find(name)
        if known.entry is None or not isinstance(known.identity, SkillId):
            raise RefusedError(f'The skill "{known.name}" is on your own disk; it needs no approval.', rule="A5")
        return known.identity, known.entry, self._host.server_of(known.identity.server)


def _pairs(entry: SkillEntry) -> tuple[tuple[str, str], ...] | None:
    """The files that an entry lists, once its archive was opened, with their digests."""
    return entry.resources.pairs if isinstance(entry.resources, Manifest) else None


def _names_of(skills: Iterable[SkillId], kept: Mapping[SkillId, str]) -> Registry:
    """Names that tell served skills apart, found or not: a skill is called like its directory (U2, N2)."""
    return Registry(Registered(name=kept.get(skill) or _name_of(skill), identity=skill) for skill in skills)


def _names_kept(answers: Iterable[Kept]) -> dict[SkillId, str]:
    """What skills were called when they were answered: the URL of an archive does not tell its name (I13)."""
    return {each.approval.skill: each.entry.name for each in answers if each.entry is not None}


def _name_of(skill: SkillId) -> str:
    return skill.uri.root.segments[-1] if skill.uri.is_skill else skill.uri.name


def _plain_name(known: KnownSkill) -> str:
    """What the skill is called where nothing else is."""
    if known.local is not None:
        return known.local.name
    assert known.entry is not None, "it is local or served"
    return known.entry.name


def _skill_of(event: Event) -> SkillId | None:
    try:
        return SkillId(server=ServerLabel(label=event.server, scope=event.scope), uri=SkillUri(event.uri))
    except (LabelError, UriError):
        return None
