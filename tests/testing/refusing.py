"""Hosts that are safe and useless: one refuses everything, the other shows skills and then loads none of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from skillquay.testing import Ability, HostUnderTest, Outcome
from tests.testing.careful import Careful, CarefulDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from skillquay.testing import Setup, Shown

__all__ = ["RefusingDriver", "ShowingDriver"]


class RefusingDriver:
    abilities = frozenset(Ability)

    @contextlib.asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[Refusing]:
        yield Refusing()


class ShowingDriver:
    abilities = frozenset(Ability)

    @contextlib.asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[Showing]:
        async with CarefulDriver().start(setup) as careful:
            yield Showing(careful)


class Refusing(HostUnderTest):
    async def listing(self) -> Sequence[Shown]:
        return []

    async def load(self, server: str, uri: str) -> Outcome:
        return Outcome(refused="That could be dangerous.")

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        return Outcome(refused="That could be dangerous.")

    async def load_named(self, name: str) -> Outcome:
        return Outcome(refused="That could be dangerous.")

    async def files(self, server: str, uri: str) -> Sequence[str]:
        return []

    async def read_resource(self, server: str, uri: str) -> Outcome:
        return Outcome(refused="That could be dangerous.")

    async def may_execute(self, tool: str, arguments: Mapping[str, str]) -> bool:
        return False

    async def granted_tools(self, server: str, uri: str) -> str:
        return ""

    async def prompt(self) -> str:
        return ""


class Showing(Refusing):
    def __init__(self, careful: Careful) -> None:
        self.careful = careful

    async def listing(self) -> Sequence[Shown]:
        return await self.careful.listing()

    async def prompt(self) -> str:
        return await self.careful.prompt()
