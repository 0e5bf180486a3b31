"""Our own host, driven by the hostile publisher's cases."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skillquay import Budgets, CallbackApprover, Question, Reply, SkillHost, SkillquayError
from skillquay.core.hidden import visible
from skillquay.core.identity import SkillId
from skillquay.testing import Ability, Answer, Asked, Outcome, Setup, Shown, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

__all__ = ["SkillHostDriver"]

_REPLIES = {Answer.KEEP: Reply.KEEP, Answer.ONCE: Reply.ONCE, Answer.DENY: Reply.DENY}


class SkillHostDriver:
    """Starts `SkillHost` with the servers, the state and the person of a case."""

    abilities = frozenset(Ability)

    @asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[_Running]:
        async def ask(question: Question) -> Reply:
            answer = await setup.ask(
                Asked(
                    subject=Subject(question.about),
                    server=question.skill.server.label,
                    uri=str(question.skill.uri),
                    text="\n".join(question.lines()),
                )
            )
            return _REPLIES[answer]

        async with SkillHost(
            servers=dict(setup.servers),
            approver=CallbackApprover(ask),
            state=setup.state / "state.sqlite3",
            cache=setup.state / "content",
            user_skills=(str(setup.local_skills),),
            budgets=Budgets(discovery=setup.deadline, call=setup.deadline),
        ) as host:
            yield _Running(host)


class _Running:
    def __init__(self, host: SkillHost) -> None:
        self._host = host

    async def listing(self) -> Sequence[Shown]:
        await self._host.refresh(anew=True)
        return [
            Shown(
                server=skill.identity.server.label if isinstance(skill.identity, SkillId) else None,
                name=skill.name,
                description=visible(skill.description),
                uri=str(skill.identity.uri) if isinstance(skill.identity, SkillId) else None,
            )
            for skill in self._host.skills
        ]

    async def load(self, server: str, uri: str) -> Outcome:
        outcome = await _outcome(self._host.read_skill_uri(server, uri))
        for loaded in self._host.loaded:  # what is in the context already is not given again (P5)
            identity = loaded.identity
            if isinstance(identity, SkillId) and (identity.server.label, str(identity.uri)) == (server, uri):
                return Outcome(text=loaded.text, refused=outcome.refused) if outcome.text else outcome
        return outcome

    async def load_named(self, name: str) -> Outcome:
        return await _outcome(self._host.read_skill(name))

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        try:
            name = (await self._host.find_uri(server, uri)).name
            text = await self._host.read_skill_file(name, path)
            return Outcome(text=text, data=await self._host.read_skill_bytes(name, path))
        except SkillquayError as error:
            return Outcome(refused=error.message)

    async def files(self, server: str, uri: str) -> Sequence[str]:
        try:
            return [path for path, _ in await self._host.skill_files((await self._host.find_uri(server, uri)).name)]
        except SkillquayError:
            return []

    async def read_resource(self, server: str, uri: str) -> Outcome:
        return await _outcome(self._host.read_resource(server, uri))

    async def may_execute(self, tool: str, arguments: Mapping[str, str]) -> bool:
        return (await self._host.may_execute(tool, arguments)).allowed

    async def granted_tools(self, server: str, uri: str) -> str:
        return await self._host.granted_tools((await self._host.find_uri(server, uri)).name)

    async def prompt(self) -> str:
        return self._host.prompt_block()


async def _outcome(text: Awaitable[str]) -> Outcome:
    try:
        return Outcome(text=await text)
    except SkillquayError as error:
        return Outcome(refused=error.message)
