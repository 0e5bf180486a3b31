"""Every question of permission: what was answered is in the store, the rest is asked of the approver (A, E6, O, X)."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from anyio import to_thread

from skillquay.core.approvals import Answer, Approval, Grant
from skillquay.core.decisions import (
    Ask,
    Policy,
    Proceed,
    Refuse,
    decide,
    decide_execution,
    decide_read,
    decide_recovery,
    granted_tools,
)
from skillquay.core.hidden import shorten
from skillquay.core.identity import ServerLabel, SkillId
from skillquay.core.questions import About, Question, Reply
from skillquay.errors import RefusedError
from skillquay.host.store import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from skillquay.core.approvals import Revocation
    from skillquay.core.changes import ManifestChange
    from skillquay.core.decisions import Decision
    from skillquay.core.entries import SkillEntry
    from skillquay.core.registry import Local
    from skillquay.core.uris import SkillUri
    from skillquay.host.approver import Approver, Inspect
    from skillquay.host.store import Store

__all__ = ["Consent", "key_of", "keys_of"]

Value = TypeVar("Value")
_WHAT: Final = {
    About.LOAD: "Loading",
    About.EXECUTE: "Running code during the use of",
    About.TOOLS: "The grant of tools to",
    About.READ: "A read elsewhere during the use of",
}
_OPTIONS: Final = {About.LOAD: "", About.EXECUTE: " --execute", About.TOOLS: " --tools", About.READ: ""}


def key_of(what: SkillId | ServerLabel | Local) -> str:
    """The name under which something is remembered as disabled."""
    if isinstance(what, SkillId):
        return json.dumps(["skill", what.server.scope, what.server.label, *what.key])
    if isinstance(what, ServerLabel):
        return json.dumps(["server", what.scope, what.label])
    return json.dumps(["local", what.directory])


def keys_of(skill: SkillId, entry: SkillEntry) -> frozenset[str]:
    """The names under which a served skill may be remembered as disabled, whichever address it had then (I13)."""
    others = (SkillId(server=skill.server, uri=uri) for uri in entry.other_identities)
    return frozenset(map(key_of, (skill, *others)))


class Consent:
    """Decides from what is kept, asks where that says nothing, and keeps each answer before anyone acts on it."""

    def __init__(self, store: Store, approver: Approver, *, dynamic: bool) -> None:
        self.store = store
        self._approver = approver
        self._dynamic = dynamic
        self._asking = anyio.Lock()  # a person is asked one thing at a time
        self._passed: dict[SkillId, tuple[tuple[int, int], SkillEntry]] = {}
        self._declined: set[tuple[SkillId, About]] = set()  # of generated skills nothing is kept (A3)

    async def observe(
        self, server: ServerLabel, entries: Iterable[SkillEntry], refused: Iterable[SkillUri] = ()
    ) -> list[Revocation]:
        """Entries were seen: answers about other content end now, for good (A2)."""
        return await self._kept(partial(self.store.observe, server, tuple(entries), refused=tuple(refused), at=_now()))

    async def may_load(
        self, skill: SkillId, entry: SkillEntry, inspect: Inspect, *, in_use: Sequence[SkillId] = ()
    ) -> None:
        """Raise `RefusedError` unless this very content may be loaded.

        `in_use` are skills of other servers. One of them may be why the model asks for it: the question names them.
        """

        async def decision() -> Decision:
            approval = await self.approval(skill, Grant.LOAD)
            change = await self.change(skill, entry)
            decided = decide(skill, entry, approval, await self.policy(skill, entry), change=change)
            if isinstance(decided, Ask) and in_use:
                others = ", ".join(f'"{server}"' for server in sorted({each.server for each in in_use}))
                decided = replace(decided, question=f"{decided.question} A skill from {others} is in use.")
            return decided

        await self._settled(About.LOAD, skill, entry, decision, inspect)

    async def check_held(self, skill: SkillId, entry: SkillEntry) -> None:
        """Raise `RefusedError` when what is in use was denied or switched off meanwhile, here or in another process.

        A denial of this very content counts although the skill has changed since: that ends the answer, not its sense.
        """

        def refusal() -> str | None:
            version = self.store.version()
            passed = self._passed.get(skill)
            if version is not None and passed is not None and passed[0] == version and passed[1] is entry:
                return None  # nothing that is kept has changed since
            disabled = self.store.disabled()
            if not disabled.isdisjoint((*keys_of(skill, entry), key_of(skill.server))):
                return f"{skill} is disabled."
            last = self.store.last_answered(skill, Grant.LOAD)
            if last is not None and last.approval.answer is Answer.DENY and last.approval.covers(entry):
                return f"{skill} was denied."
            if version is not None:
                self._passed[skill] = (version, entry)
            return None

        if reason := await self._kept(refusal):
            await self.note("refused", skill, reason)
            raise RefusedError(reason, rule="A5")

    async def may_recover(self, skill: SkillId, held: SkillEntry, fresh: SkillEntry, inspect: Inspect) -> None:
        """After content did not fit the held entry: may it go on with the fresh one? (V3)"""

        async def decision() -> Decision:
            policy = await self.policy(skill, fresh)
            approval = await self.approval(skill, Grant.LOAD)
            if approval is not None and held.says != fresh.says and approval.covers(fresh):
                return decide(skill, fresh, approval, policy)  # answered for the fresh entry since
            return decide_recovery(skill, held, fresh, policy)

        await self._settled(About.LOAD, skill, fresh, decision, inspect)

    async def may_execute(self, skill: SkillId, entry: SkillEntry, what: str, inspect: Inspect) -> None:
        """Raise `RefusedError` unless code may run while this skill is acted on (X1)."""

        async def decision() -> Decision:
            return decide_execution([(skill, entry, await self.approval(skill, Grant.EXECUTE))])

        await self._settled(About.EXECUTE, skill, entry, decision, inspect, detail=what)

    async def may_grant_tools(self, skill: SkillId, entry: SkillEntry, inspect: Inspect) -> None:
        """Raise `RefusedError` unless the tools the skill asks for are granted to it (X2)."""

        async def decision() -> Decision:
            approval = await self.approval(skill, Grant.TOOLS)
            if granted_tools(skill, entry, approval):
                return Proceed()
            return Ask(question=f"Grant {skill} the tools it asks for?", can_be_kept=entry.pairs is not None)

        await self._settled(About.TOOLS, skill, entry, decision, inspect)

    async def may_read(
        self, acting: Sequence[tuple[SkillId, SkillEntry]], server: ServerLabel, uri: str, inspect: Inspect
    ) -> None:
        """Raise `RefusedError` unless a resource may be read while these skills are acted on; asked each time (O2)."""
        decision = decide_read((skill for skill, _ in acting), server)
        if isinstance(decision, Ask):
            skill, entry = next(each for each in acting if each[0].server != server)
            text = f"{decision.question} It would read {shorten(uri, 200)}."
            if not await self._asked_once(skill, entry, text, server, uri, inspect):
                message = f'Reading from "{server}" while {skill} is in use was not allowed.'
                raise RefusedError(f"{message} It needs no leave once that skill has left the context.", rule="O2")

    async def may_fetch(self, skill: SkillId, entry: SkillEntry, uri: str, inspect: Inspect) -> None:
        """Raise `RefusedError` unless a file of a skill may come from elsewhere; asked each time (I14)."""
        text = f"Let {skill} have its server fetch a file from elsewhere this once? It would read {shorten(uri, 200)}."
        if not await self._asked_once(skill, entry, text, skill.server, uri, inspect):
            raise RefusedError(f"Fetching {shorten(uri, 200)} for {skill} was not allowed.", rule="I14")

    async def answer_all(
        self, skills: Sequence[tuple[SkillId, SkillEntry]], inspect: Callable[[Question], Inspect]
    ) -> dict[SkillId, Reply]:
        """Ask about a server's whole list at once. Skills that need no answer are not asked about."""
        questions = []
        async with self._asking:
            for skill, entry in skills:
                change = await self.change(skill, entry)
                approval = await self.approval(skill, Grant.LOAD)
                decision = decide(skill, entry, approval, await self.policy(skill, entry), change=change)
                if isinstance(decision, Ask) and decision.can_be_kept:
                    questions.append(_question(About.LOAD, skill, entry, decision))
            replies = [_reply(each) for each in await self._approver.ask_all(questions, inspect)] if questions else []
        for question, reply in zip(questions, replies, strict=True):
            await self._take(question, reply)
        return {question.skill: reply for question, reply in zip(questions, replies, strict=True)}

    async def answer(self, about: About, skill: SkillId, entry: SkillEntry, answer: Answer) -> None:
        """Keep what a person said of their own accord. Of a generated skill nothing can be kept (A3)."""
        approval = Approval.of(skill, entry, grant=Grant(about), answer=answer)
        await self._kept(partial(self.store.record, approval, entry, at=_now()))

    async def approval(self, skill: SkillId, grant: Grant) -> Approval | None:
        """The standing answer."""
        return await self._kept(partial(self.store.approval, skill, grant))

    async def has_allowed(self, skill: SkillId, entry: SkillEntry, grant: Grant) -> bool:
        """True when a standing answer allows this for this very content."""
        approval = await self.approval(skill, grant)
        return approval is not None and approval.answer is Answer.ALLOW and approval.covers(entry)

    async def change(self, skill: SkillId, entry: SkillEntry) -> ManifestChange | None:
        """What moved since the skill was last answered; None when it never was."""
        last = await self._kept(partial(self.store.last_answered, skill, Grant.LOAD))
        if last is None:
            return None
        change = last.approval.change_to(entry)
        if last.entry is None or last.entry.dialect is entry.dialect:
            return change
        is_other = dict(last.entry.frontmatter) != dict(entry.frontmatter)
        return replace(change, served_as=last.entry.dialect, frontmatter_changed=is_other)

    async def policy(self, skill: SkillId, entry: SkillEntry) -> Policy:
        """What the user settled beforehand about this skill and its server."""
        disabled = await self._kept(self.store.disabled)
        return Policy(
            dynamic=self._dynamic,
            disabled_skills=frozenset(() if disabled.isdisjoint(keys_of(skill, entry)) else {skill}),
            disabled_servers=frozenset({skill.server} if key_of(skill.server) in disabled else ()),
        )

    async def note(self, kind: str, skill: SkillId | None, detail: str = "") -> None:
        """Write what happened into the audit."""
        server, scope, uri = ("", "", "") if skill is None else (skill.server.label, skill.server.scope, str(skill.uri))
        event = Event(at=_now(), kind=kind, server=server, scope=scope, uri=uri, detail=shorten(detail, 2000))
        await self._kept(partial(self.store.note, event))

    async def _asked_once(
        self, skill: SkillId, entry: SkillEntry, text: str, server: ServerLabel, uri: str, inspect: Inspect
    ) -> bool:
        """One question about one read; nothing of the answer is kept but a line in the audit."""
        question = Question(
            about=About.READ, text=text, skill=skill, entry=entry, can_be_kept=False, server=server, detail=uri
        )
        async with self._asking:
            reply = _reply(await self._approver.ask(question, inspect))
        await self.note("read", skill, f"{reply}: {server}: {uri}")
        return reply in {Reply.ONCE, Reply.KEEP}

    async def _settled(
        self,
        about: About,
        skill: SkillId,
        entry: SkillEntry,
        decide_now: Callable[[], Awaitable[Decision]],
        inspect: Inspect,
        *,
        detail: str = "",
    ) -> None:
        decision = await decide_now()
        if isinstance(decision, Ask):
            async with self._asking:
                decision = await decide_now()
                if isinstance(decision, Ask):
                    if (skill, about) in self._declined:
                        decision = Refuse(reason=f"{skill} was denied in this session.", rule="A3")
                    else:
                        question = _question(about, skill, entry, decision, detail=detail)
                        decision = await self._take(question, _reply(await self._approver.ask(question, inspect)))
        if isinstance(decision, Refuse):
            await self.note("refused", skill, f"{about}: {decision.reason}")
            raise RefusedError(decision.reason, rule=decision.rule)

    async def _take(self, question: Question, reply: Reply) -> Decision:
        """Keep an answer, and what follows from it."""
        skill, about = question.skill, question.about
        if reply is Reply.LATER:
            return Refuse(reason=_unanswered(question), rule="A5" if about is About.LOAD else "X1")
        if reply is Reply.DENY and question.can_be_kept:
            await self.answer(about, skill, question.entry, Answer.DENY)
        elif reply is Reply.DENY:
            self._declined.add((skill, about))
        elif reply is Reply.KEEP and question.can_be_kept:
            await self.answer(about, skill, question.entry, Answer.ALLOW)
        else:
            await self.note("allowed-once", skill, about)
        if reply is Reply.DENY:
            return Refuse(reason=f"{_WHAT[about]} {skill} was denied.", rule="A1")
        return Proceed()

    @staticmethod
    async def _kept(work: Callable[[], Value]) -> Value:
        return await to_thread.run_sync(work)


def _unanswered(question: Question) -> str:
    """What is told when nobody answered, and what a person can do where the command line knows the server."""
    reason = f"{_WHAT[question.about]} {question.skill} was not approved."
    if not os.path.isabs(question.skill.server.scope):
        return reason
    return f'{reason} A person can do so with "skillquay approve{_OPTIONS[question.about]}".'


def _reply(said: object) -> Reply:
    """What an approver said. Whatever is not a reply is no answer, and never a yes."""
    return said if isinstance(said, Reply) else Reply.LATER


def _question(about: About, skill: SkillId, entry: SkillEntry, ask: Ask, *, detail: str = "") -> Question:
    return Question(
        about=about,
        text=ask.question,
        skill=skill,
        entry=entry,
        change=ask.change,
        can_be_kept=ask.can_be_kept,
        detail=detail,
    )


def _now() -> float:
    return time.time()
