"""What the author of a host writes so that the cases can drive it: start, list, load, read, and ask the person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

__all__ = ["Ability", "Answer", "Asked", "HostDriver", "HostUnderTest", "Outcome", "Setup", "Shown", "Subject"]


class Ability(StrEnum):
    """What not every host has. A case that needs a missing one is skipped, and the report says so."""

    APPROVAL = "approval"
    """Asks a person before a served skill is loaded."""
    KEEPS = "keeps"
    """Keeps such an answer after a restart."""
    NAMES = "names"
    """Loads a skill by a name."""
    LOCAL = "local"
    """Has skills from the person's own disk."""
    FILES = "files"
    """Tells the model which files a skill has."""
    BYTES = "bytes"
    """Gives files that are not text."""
    RESOURCES = "resources"
    """Has a general tool to read resources."""
    EXECUTION = "execution"
    """Has tools that run code or write files."""
    TOOLS = "tools"
    """Knows `allowed-tools`."""
    PROMPT = "prompt"
    """Tells the model beforehand which skills there are."""
    DYNAMIC = "dynamic"
    """Loads skills whose content is generated."""


class Subject(StrEnum):
    """What a person is asked about."""

    LOAD = "load"
    EXECUTE = "execute"
    TOOLS = "tools"
    READ = "read"


class Answer(StrEnum):
    """What the person says: yes and remember it, yes this once, or no."""

    KEEP = "keep"
    ONCE = "once"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question. `text` is everything the person is shown with it; `server` and `uri` are those of the skill."""

    subject: Subject
    server: str
    uri: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One skill as the host shows it to a person; `name` is what one says to have exactly this one.

    A skill from the person's own disk has no server.
    """

    server: str | None
    name: str
    description: str
    uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a request: the text that enters the model's context, or why there is none.

    `data` are the bytes of a file where the host can give them.
    """

    text: str | None = None
    refused: str | None = None
    data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a host is started.

    `servers` are URLs by the label the person gave them. `state` is a directory for all that outlives the process: a
    second start with the same one is a restart. `local_skills` is a directory of skills of the person's own. `deadline`
    is how many seconds a server has for one answer and for discovery. `ask` is the person.
    """

    servers: Mapping[str, str]
    state: Path
    local_skills: Path
    deadline: float
    ask: Callable[[Asked], Awaitable[Answer]]


class HostUnderTest(Protocol):
    """A running host. A refusal is an `Outcome`; an exception counts as a crash.

    Derive from this class and leave out what belongs to abilities that your host does not have: it is never called.
    """

    async def listing(self) -> Sequence[Shown]:
        """Ask the servers for their skills anew, and give all that a person would see."""
        ...

    async def load(self, server: str, uri: str) -> Outcome:
        """Load a served skill into the model's context, whether it was listed or not."""
        ...

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        """Have the model read one file of a loaded skill, by its path inside the skill."""
        ...

    async def load_named(self, name: str) -> Outcome:
        """Load a skill by a name (`Ability.NAMES`)."""
        _lacking(f"load {name}")

    async def files(self, server: str, uri: str) -> Sequence[str]:
        """The paths of a loaded skill's files, as the model is told (`Ability.FILES`)."""
        _lacking(f"tell the files of {uri} of {server}")

    async def read_resource(self, server: str, uri: str) -> Outcome:
        """Have the model read any resource (`Ability.RESOURCES`)."""
        _lacking(f"read {uri} of {server}")

    async def may_execute(self, tool: str, arguments: Mapping[str, str]) -> bool:
        """Would this call of one of the host's own tools go through now? (`Ability.EXECUTION`)"""
        _lacking(f"judge a call of {tool} with {arguments}")

    async def granted_tools(self, server: str, uri: str) -> str:
        """The tools a loaded skill was granted by its `allowed-tools` (`Ability.TOOLS`)."""
        _lacking(f"tell the tools of {uri} of {server}")

    async def prompt(self) -> str:
        """What the model is told of skills before one is loaded (`Ability.PROMPT`)."""
        _lacking("write the prompt")


def _lacking(what: str) -> NoReturn:
    raise NotImplementedError(f"The host declares an ability whose method it does not have: it cannot {what}.")


class HostDriver(Protocol):
    """Starts hosts. `abilities` says what they can do."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What these hosts can do beyond listing, loading and reading."""
        ...

    def start(self, setup: Setup) -> AbstractAsyncContextManager[HostUnderTest]:
        """Start a host; the end of the context ends it in good order."""
        ...
