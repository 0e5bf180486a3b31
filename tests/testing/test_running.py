"""Whatever a host does, the author is told in a sentence, and nothing waits forever."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2 as httpx
import pytest

from skillquay.testing import Ability, Breach, Case, HostUnderTest, Outcome, Publisher, Setup
from skillquay.testing.skills import make_skill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from skillquay.testing import Shown
    from skillquay.testing.publisher import Reply, Request
    from skillquay.testing.running import Running
    from skillquay.testing.stage import Stage

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Odd(HostUnderTest):
    """A host that goes wrong in one way."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.background = anyio.Event()

    async def listing(self) -> Sequence[Shown]:
        if self.way == "raises":
            raise ExceptionGroup("several", [ValueError("no\n such  thing")])
        if self.way == "is silent":
            await anyio.sleep_forever()
        if self.way == "falls apart":
            self.background.set()
            await anyio.sleep_forever()
        return []

    async def load(self, server: str, uri: str) -> Outcome:
        return Outcome()

    async def read_file(self, server: str, uri: str, path: str) -> Outcome:
        return Outcome(refused="no")

    async def fall_apart(self) -> None:
        if self.way != "dies":
            await self.background.wait()
        raise OSError("the disk is gone")


class OddDriver:
    abilities = frozenset(Ability)

    def __init__(self, way: str) -> None:
        self.way = way

    @asynccontextmanager
    async def start(self, setup: Setup) -> AsyncIterator[Odd]:
        if self.way == "does not start":
            raise OSError("no disk")
        if self.way == "starts slowly":
            await anyio.sleep_forever()
        async with anyio.create_task_group() as tasks:
            host = Odd(self.way)
            tasks.start_soon(host.fall_apart)
            yield host
            if self.way == "ends slowly":
                await anyio.sleep_forever()
            if self.way == "ends badly":
                raise OSError("cannot save")
            tasks.cancel_scope.cancel()


def made_case(*steps: str) -> Case:
    async def play(stage: Stage) -> None:
        skill = make_skill()
        async with stage.host(acme=Publisher(skill)) as host:
            if "wait" in steps:
                running: Running = host._take.__self__  # type: ignore[attr-defined]
                await running.ended.wait()
            await host.listing()
            if "load" in steps:
                await host.load("acme", skill.uri)
            if "prompt" in steps:
                await host.prompt()

    return Case(id="made", rules=("V1",), title="A title.", why="A reason.", needs=frozenset(), play=play)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("does not start", "Your host raised OSError: no disk when it was to start."),
        ("starts slowly", "Your host did not start within 0.2 seconds."),
        ("raises", "Your host raised ValueError: no such thing when it was to list skills."),
        ("is silent", "Your host did not list skills within 0.2 seconds."),
        ("falls apart", "Your host raised OSError: the disk is gone when it was to list skills."),
        ("ends slowly", "Your host did not end within 0.2 seconds."),
        ("ends badly", "Your host raised OSError: cannot save when it was to end."),
    ],
)
async def test_the_author_is_told_what_the_host_did(way: str, told: str) -> None:
    with pytest.raises(Breach) as breach:
        await made_case().run(OddDriver(way), patience=0.2 if "slow" in way or "silent" in way else 30.0)
    assert str(breach.value) == f"made: {told} That breaks V1. A title. A reason."


async def test_a_host_that_gives_neither_a_text_nor_a_reason_is_told_so() -> None:
    with pytest.raises(Breach, match=r"Your host neither gave a text nor said why not, loading skill://refunds"):
        await made_case("load").run(OddDriver("is quiet"))


async def test_a_host_that_died_is_told_so_at_the_next_step() -> None:
    with pytest.raises(Breach, match="Your host ended before it was to list skills: OSError: the disk is gone"):
        await made_case("wait").run(OddDriver("dies"))


async def test_an_ability_that_was_declared_and_is_not_there_is_a_breach() -> None:
    with pytest.raises(Breach, match="The host declares an ability whose method it does not have"):
        await made_case("prompt").run(OddDriver("is quiet"))
    host = Odd("is quiet")
    for lacking in (
        host.load_named("a"),
        host.files("acme", "skill://a/SKILL.md"),
        host.read_resource("acme", "skill://a/SKILL.md"),
        host.may_execute("bash", {}),
        host.granted_tools("acme", "skill://a/SKILL.md"),
    ):
        with pytest.raises(NotImplementedError, match="The host declares an ability"):
            await lacking


def test_what_the_package_does_not_offer_is_not_there() -> None:
    import skillquay.testing

    with pytest.raises(AttributeError, match="no attribute 'Hostility'"):
        skillquay.testing.Hostility  # noqa: B018


async def test_a_fault_of_the_publisher_is_not_held_against_the_host() -> None:
    def fail(_: Request) -> Reply:
        raise ZeroDivisionError

    async def play(stage: Stage) -> None:
        publisher = Publisher(on={"ping": fail})
        url = stage.serve(publisher)
        assert stage.serve(publisher) == url
        async with httpx.AsyncClient(trust_env=False) as http:
            with pytest.raises(httpx.TransportError):
                await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})

    case = Case(id="made", rules=("V1",), title="A title.", why="A reason.", needs=frozenset(), play=play)
    with pytest.raises(RuntimeError, match=r"made: the publisher itself failed:\n(.*\n)*ZeroDivisionError"):
        await case.run(OddDriver("is quiet"))
