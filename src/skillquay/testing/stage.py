"""A case, and the stage it plays on: publishers, hosts started and restarted, the person, what counts as a breach."""

from __future__ import annotations

import inspect
import tempfile
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import SkipTest

from skillquay.testing.driver import Ability, Answer, Asked, Outcome, Setup, Shown, Subject
from skillquay.testing.running import Breach, running
from skillquay.testing.skills import EVIL, GOOD, Skill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from skillquay.testing.driver import HostDriver
    from skillquay.testing.publisher import Publisher
    from skillquay.testing.running import Running

__all__ = ["Case", "Host", "Stage", "Theme"]

_UNHURRIED: Final = 60.0
_HIDES_BREACHES: Final = methodcaller("errisinstance", Breach)
"""What pytest asks of a frame: the sentence of a breach says it all, and where it was written helps nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One lie, and what a host must make of it. `rules` are ids of the table in docs/rules.md."""

    id: str
    rules: tuple[str, ...]
    title: str
    why: str
    needs: frozenset[Ability]
    play: Callable[[Stage], Awaitable[None]] = field(repr=False)

    def __str__(self) -> str:
        return self.id

    async def run(
        self, driver: HostDriver, *, deadline: float = 1.0, patience: float = 30.0, version: str | None = None
    ) -> None:
        """Play the case: `Breach` when the host fails it, `unittest.SkipTest` when it lacks what the case needs.

        `deadline` is what the host is told, in seconds, where a server is going to be silent; `patience` is how many
        seconds more one step may take. With a `version`, servers speak that revision of the protocol and no other.
        """
        __tracebackhide__ = _HIDES_BREACHES
        if missing := sorted(self.needs - driver.abilities):
            raise SkipTest(f"Not judged: {self.id} needs a host with the ability {', '.join(missing)}. {self.title}")
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            stage = Stage(driver, directory, stack, deadline, patience, version)
            try:
                await self.play(stage)
            except Breach as breach:
                rules = ", ".join(self.rules)
                message = f"{self.id}: {breach} That breaks {rules}. {self.title} {self.why}"
                raise Breach(message) from breach.__cause__
            if faults := [fault for publisher in stage.publishers for fault in publisher.faults]:
                raise RuntimeError(f"{self.id}: the publisher itself failed:\n{faults[0]}")


class Theme(list[Case]):
    """Cases of one theme, in order."""

    def case(
        self, name: str, *rules: str, needs: Iterable[Ability] = ()
    ) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
        """Make a case of a function: the first line of its text is the title, the rest says why it matters."""

        def add(play: Callable[[Stage], Awaitable[None]]) -> None:
            title, _, why = inspect.cleandoc(play.__doc__ or "").partition("\n")
            self.add(name, *rules, needs=needs, title=title, why=" ".join(why.split()), play=play)

        return add

    def add(
        self,
        name: str,
        *rules: str,
        title: str,
        why: str,
        play: Callable[[Stage], Awaitable[None]],
        needs: Iterable[Ability] = (),
    ) -> None:
        """Add a case."""
        self.append(Case(id=name, rules=rules, title=title, why=why, needs=frozenset(needs), play=play))


class Stage:
    """Where a case is played. `asked` is every question to the person, `answers` what they say to each subject."""

    def __init__(
        self,
        driver: HostDriver,
        directory: Path,
        stack: ExitStack,
        deadline: float,
        patience: float,
        version: str | None,
    ) -> None:
        self.driver = driver
        self.deadline = deadline
        self.patience = patience
        self.version = version
        self.asked: list[Asked] = []
        self.answers: dict[Subject, Answer] = dict.fromkeys(Subject, Answer.KEEP)
        self.person: Callable[[Asked], Awaitable[Answer]] = self.answer
        self.publishers: list[Publisher] = []
        self.directory = directory
        self._stack = stack
        self._urls: dict[Publisher, str] = {}
        self._open: dict[Publisher, ExitStack] = {}
        for name in ("state", "local"):
            (directory / name).mkdir()
        self.local_skills = directory / "local"

    def serve(self, publisher: Publisher) -> str:
        """Have a publisher listen until the case ends; gives its URL."""
        if publisher not in self._urls:
            self.publishers.append(publisher)
            if self.version is not None and len(publisher.versions) > 1:
                publisher.versions = (self.version,)
            self._open[publisher] = self._stack.enter_context(ExitStack())
            self._urls[publisher] = self._open[publisher].enter_context(publisher.serving())
        return self._urls[publisher]

    def crash(self, publisher: Publisher) -> None:
        """End a publisher; its URL leads nowhere from now on."""
        self._open[publisher].close()

    def add_local(self, skill: Skill) -> None:
        """Put a skill on the person's own disk."""
        for path, data in skill.files.items():
            file = self.local_skills / str(skill.frontmatter["name"]) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def secret(self) -> Path:
        """A file of the person's own, outside everything that was shared."""
        file = self.directory / "secret.txt"
        file.write_text(f"The word is {EVIL}.\n", encoding="utf-8")
        return file

    def questions(self, subject: Subject) -> list[Asked]:
        """What the person was asked of one subject."""
        return [asked for asked in self.asked if asked.subject is subject]

    @asynccontextmanager
    async def host(self, *, in_a_hurry: bool = False, **servers: Publisher) -> AsyncIterator[Host]:
        """Start the host with these servers, by label; in a hurry where one is silent. A second start is a restart."""
        deadline = self.deadline if in_a_hurry else _UNHURRIED
        setup = Setup(
            servers={label: self.serve(publisher) for label, publisher in servers.items()},
            state=self.directory / "state",
            local_skills=self.local_skills,
            deadline=deadline,
            ask=self.person,
        )
        patience = self.patience + (deadline if in_a_hurry else 0)
        async with running(self.driver.start(setup), patience) as under_test:
            yield Host(under_test)

    async def answer(self, asked: Asked) -> Answer:
        """Note a question, and answer it."""
        self.asked.append(asked)
        return self.answers[asked.subject]


class Host:
    """The host under test: each step has its time, what it raises is a breach, and common checks are made here."""

    def __init__(self, running: Running) -> None:
        self._take = running.take

    async def listing(self) -> Sequence[Shown]:
        """All skills that are shown."""
        return await self._take(lambda host: host.listing(), "list skills")

    async def load(self, server: str, uri: str) -> Outcome:
        """Load a served skill."""
        return _judged(await self._take(lambda host: host.load(server, uri), f"load {uri}"), f"loading {uri}")

    async def read_file(self, server: str, skill: Skill, path: str) -> Outcome:
        """Read a file of a skill."""
        outcome = await self._take(lambda host: host.read_file(server, skill.uri, path), f"read {path}")
        return _judged(outcome, f"reading {path}")

    async def load_named(self, name: str) -> Outcome:
        """Load a skill by its name."""
        return _judged(await self._take(lambda host: host.load_named(name), f"load {name}"), f"loading {name}")

    async def files(self, server: str, skill: Skill) -> Sequence[str]:
        """The files of a skill."""
        return await self._take(lambda host: host.files(server, skill.uri), "tell a skill's files")

    async def read_resource(self, server: str, uri: str) -> Outcome:
        """Read a resource."""
        outcome = await self._take(lambda host: host.read_resource(server, uri), f"read the resource {uri}")
        return _judged(outcome, f"reading the resource {uri}")

    async def may_execute(self, tool: str, **arguments: str) -> bool:
        """Would a tool call go through?"""
        return await self._take(lambda host: host.may_execute(tool, arguments), "judge a tool call")

    async def granted_tools(self, server: str, skill: Skill) -> str:
        """What a skill was granted."""
        return await self._take(lambda host: host.granted_tools(server, skill.uri), "tell the granted tools")

    async def prompt(self) -> str:
        """What the model is told beforehand."""
        return await self._take(lambda host: host.prompt(), "write the prompt")

    # What most cases expect.

    async def shows(self, server: str, skill: Skill) -> None:
        """The skill is listed."""
        if not any((shown.server, shown.uri) == (server, skill.uri) for shown in await self.listing()):
            raise Breach(f"Your host did not show {skill.uri} of {server}, which is as it should be.")

    async def loads(self, server: str, skill: Skill, word: str = GOOD) -> str:
        """The skill is loaded, with this word in it."""
        outcome = await self.load(server, skill.uri)
        if outcome.text is None:
            raise Breach(f"Your host did not load {skill.uri}, which is as it should be: {outcome.refused}")
        if word not in outcome.text:
            raise Breach(f"Your host loaded {skill.uri} without the text of its SKILL.md.")
        return outcome.text

    async def reads(self, server: str, skill: Skill, path: str) -> str:
        """The file arrives as it is."""
        outcome = await self.read_file(server, skill, path)
        if outcome.text is None:
            raise Breach(f"Your host did not read {path}, which is as it should be: {outcome.refused}")
        data = skill.files[path]
        exact = outcome.data == data if outcome.data is not None else data.decode("utf-8", "replace") in outcome.text
        if not exact:
            raise Breach(f"Your host gave other bytes for {path} than the server sent.")
        return outcome.text

    async def never_loads(self, server: str, skill: Skill, word: str = EVIL) -> Outcome:
        """The skill is refused, or loaded without this word."""
        return _without(await self.load(server, skill.uri), word, f"loaded {skill.uri}")

    async def refuses(self, server: str, skill: Skill) -> None:
        """The skill is not loaded at all."""
        if (await self.load(server, skill.uri)).text is not None:
            raise Breach(f"Your host loaded {skill.uri}.")

    async def never_reads(self, server: str, skill: Skill, path: str, word: str = EVIL) -> Outcome:
        """The file is refused, or given without this word."""
        return _without(await self.read_file(server, skill, path), word, f"read {path}")

    async def asks_again(self, stage: Stage, server: str, skill: Skill) -> None:
        """The skill is loaded only after the person was asked once more."""
        before = len(stage.questions(Subject.LOAD))
        if (await self.load(server, skill.uri)).text is not None and len(stage.questions(Subject.LOAD)) == before:
            raise Breach(f"Your host loaded {skill.uri} of {server} without asking the person.")

    async def works(self, server: str, skill: Skill) -> None:
        """An honest server beside a bad one is listed and loaded as if it were alone."""
        await self.shows(server, skill)
        await self.loads(server, skill)


def _judged(outcome: Outcome, what: str) -> Outcome:
    if outcome.text is None and not outcome.refused:
        raise Breach(f"Your host neither gave a text nor said why not, {what}.")
    return outcome


def _without(outcome: Outcome, word: str, what: str) -> Outcome:
    if word in (outcome.text or "") or word.encode() in (outcome.data or b""):
        raise Breach(f"Your host {what} and gave the model what the server had put there in its place.")
    return outcome
