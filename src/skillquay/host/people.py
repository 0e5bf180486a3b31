"""What people do of their own accord: look, approve, deny, take back, compare, switch on and off, trust (A5, P6)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from skillquay.core.approvals import Answer, Grant
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.questions import About, Question
from skillquay.core.registry import Ambiguous, Registered, Registry
from skillquay.core.uris import SkillUri
from skillquay.errors import LabelError, RefusedError, StateError, UnknownSkillError, UriError
from skillquay.host import local
from skillquay.host.consent import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillquay.core.changes import ManifestChange
    from skillquay.core.entries import SkillEntry
    from skillquay.core.questions import Reply
    from skillquay.host.directory import KnownSkill
    from skillquay.host.host import SkillHost
    from skillquay.host.servers import SkillServer
    from skillquay.host.store import Event, Kept

__all__ = ["Difference", "People", "names_of"]

_MOST_EVENTS = 10_000  # of the audit, looked through for a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a skill was when it was last answered, what it is now, and what moved between the two."""

    then: Kept
    now: SkillEntry
    change: ManifestChange


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
            (SkillId(server=server.label, uri=received.entry.uri), received.entry)
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
        try:
            known = self._host.find(name)
            what, shown = key_of(known.identity), f'skill "{known.name}"'
        except UnknownSkillError as unknown:
            try:
                server = self._host.server_named(name)
            except UnknownSkillError:
                message = f"{unknown.message} No server that is configured here has this label either."
                raise UnknownSkillError(message) from None
            what, shown = key_of(server.label), f'server "{visible(server.label.label)}"'
        store = self._host.consent.store
        await to_thread.run_sync(partial(store.enable if on else store.disable, what, at=time.time()))
        await (self._host.refresh() if on else self._host.survey())
        return shown

    async def difference(self, name: str) -> Difference | None:
        """What changed since the skill was last answered; None when it never was."""
        skill, entry, _ = await self._served(name)
        then = await to_thread.run_sync(self._host.consent.store.last_answered, skill, Grant.LOAD)
        return None if then is None else Difference(then=then, now=entry, change=then.approval.change_to(entry))

    async def approvals(self) -> list[Kept]:
        """Every answer that is kept, ended ones included."""
        return await to_thread.run_sync(self._host.consent.store.approvals)

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
        skills = list(dict.fromkeys((*(kept.approval.skill for kept in await self.approvals()), *others)))
        here = [skill for skill in skills if os.path.dirname(skill.server.scope) == self._host.workspace.folder]
        for among in (here, skills):
            found = names_of(among).find(name.removeprefix("/"))
            if isinstance(found, Ambiguous):
                candidates = ", ".join(found.candidates[:20])
                raise UnknownSkillError(f'"{shorten(name)}" means several skills. Say which: {candidates}.')
            if isinstance(found, Registered) and isinstance(found.identity, SkillId):
                return found.identity
        raise UnknownSkillError(f'Nothing is kept about a skill "{shorten(name)}".')

    async def _served(self, name: str) -> tuple[SkillId, SkillEntry, SkillServer]:
        known: KnownSkill = self._host.find(name)
        if known.entry is None or not isinstance(known.identity, SkillId):
            raise RefusedError(f'The skill "{known.name}" is on your own disk; it needs no approval.', rule="A5")
        return known.identity, known.entry, self._host.server_of(known.identity.server)


def names_of(skills: Iterable[SkillId]) -> Registry:
    """Names that tell served skills apart, found or not: a skill is called like its directory (U2, N2)."""
    return Registry(Registered(name=skill.uri.root.segments[-1], identity=skill) for skill in skills)


def _skill_of(event: Event) -> SkillId | None:
    try:
        return SkillId(server=ServerLabel(label=event.server, scope=event.scope), uri=SkillUri(event.uri))
    except (LabelError, UriError):
        return None
