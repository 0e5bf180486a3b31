"""One server: connected when needed, lost, connected again; what goes wrong is told in one sentence."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from skillquay.core.identity import ServerLabel
from skillquay.core.questions import Reply
from skillquay.errors import BudgetError, RefusedError, UnavailableError
from skillquay.host.budgets import Budgets
from skillquay.host.client import SkillsClient
from skillquay.host.configuration import HttpServer, StdioServer
from skillquay.host.connection import Connection
from tests.core.builders import publish
from tests.host.scripted import EXTENSION, PATIENT, Person, Scripted, failure, hosting
from tests.server.asking import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp import Client

pytestmark = pytest.mark.anyio

LABEL = ServerLabel(label="acme", scope="tests")
SKILL = publish({"a.md": b"alpha"})


@asynccontextmanager
async def connecting(target: Any, budgets: Budgets = PATIENT, **options: Any) -> AsyncIterator[Connection]:
    async with anyio.create_task_group() as tasks:
        connection = Connection(LABEL, target, tasks=tasks, budgets=budgets, **options)
        yield connection
        await connection.closed()


def is_up(connection: Connection) -> bool:
    return connection.is_connected


async def forever(_: Any) -> dict[str, Any]:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("handshake", ["auto", "legacy"])
async def test_a_server_is_connected_when_it_is_first_asked_and_knows_what_it_declares(handshake: Any) -> None:
    server = Scripted(SKILL, directories=True)
    async with connecting(server.server, handshake=handshake) as connection:
        assert not is_up(connection)
        assert connection.capabilities == {}
        assert server.asked == []
        answer = await connection.request("skills/list", {}, cap=1000)
        assert len(answer["skills"]) == 1
        assert is_up(connection)
        assert connection.capabilities == {EXTENSION: {"directoryRead": True}}
        assert await connection.declared() == connection.capabilities
    assert not is_up(connection)


async def test_many_who_ask_at_once_share_one_connection() -> None:
    server = Scripted(SKILL)
    async with connecting(server.server) as connection, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(connection.declared)
    assert server.count("server/discover") == 1


@pytest.mark.rule("B2")
async def test_a_server_that_does_not_answer_is_given_up_after_the_deadline_and_can_be_asked_again() -> None:
    server = Scripted(SKILL)
    server.on["skills/get"] = forever
    async with connecting(server.server, Budgets(call=0.3)) as connection:
        with pytest.raises(UnavailableError, match=r'The server "acme" did not answer skills/get within 0.3 seconds\.'):
            await connection.request("skills/get", {"uri": "x"}, cap=1000)

        async def use(client: Client) -> None:
            await anyio.sleep_forever()

        with pytest.raises(UnavailableError, match=r"did not answer within 0.3 seconds\."):
            await connection.call(use)
        assert connection._caps == []
        connection._budgets = PATIENT
        assert len((await connection.request("skills/list", {}, cap=1000))["skills"]) == 1


@pytest.mark.rule("B2")
async def test_a_server_that_hangs_in_the_handshake_is_given_up_and_nothing_is_left_of_it() -> None:
    server = Scripted(SKILL)
    server.on["server/discover"] = forever
    async with connecting(server.server, Budgets(call=0.3)) as connection:
        with pytest.raises(UnavailableError, match=r"did not connect within 0.3 seconds\."):
            await connection.declared()
        with pytest.raises(UnavailableError, match=r"did not answer skills/list within 0.3 seconds\."):
            await SkillsClient(connection)._asked.request("skills/list", {}, cap=1)
        server.on.clear()
        connection._budgets = PATIENT
        assert EXTENSION in await connection.declared()


async def test_what_a_server_says_in_an_error_is_shortened_and_shown() -> None:
    server = Scripted(SKILL)
    server.on["skills/list"] = lambda _: (_ for _ in ()).throw(failure(-32099, "\x1b[31m" + "x" * 5000))
    async with connecting(server.server) as connection:
        with pytest.raises(UnavailableError, match="error -32099") as failed:
            await connection.request("skills/list", {}, cap=1000)
        assert failed.value.code == -32099
        assert "\x1b" not in failed.value.message
        assert len(failed.value.message) < 400
        assert connection.is_connected


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "did not answer in time"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (ValueError("odd\u202e"), "odd⟨U+202E⟩"),
        (RecursionError("deep"), "deep"),
        (ExceptionGroup("several", [KeyError("x")]), "cannot be used"),
    ],
    ids=str,
)
async def test_whatever_fails_on_the_way_is_told_in_a_sentence(error: Exception, said: str) -> None:
    async def use(client: Client) -> None:
        raise error

    async with connecting(Scripted(SKILL).server) as connection:
        with pytest.raises(UnavailableError) as failed:
            await connection.call(use)
        assert said in failed.value.message
        assert failed.value.message.startswith('The server "acme" ')


async def test_our_own_errors_pass_as_they_are() -> None:
    async def use(client: Client) -> None:
        raise BudgetError("too much")

    async with connecting(Scripted(SKILL).server) as connection:
        with pytest.raises(BudgetError, match="too much"):
            await connection.call(use)


@pytest.mark.rule("B2")
@pytest.mark.parametrize("code", [CONNECTION_CLOSED, REQUEST_TIMEOUT])
async def test_a_lost_connection_is_made_anew_by_the_next_question(code: int) -> None:
    server = Scripted(SKILL)

    async def use(client: Client) -> None:
        raise MCPError(code=code, message="lost")

    async with connecting(server.server) as connection:
        await connection.declared()
        with pytest.raises(UnavailableError):
            await connection.call(use)
        assert not connection.is_connected
        await connection.request("skills/list", {}, cap=1000)
        assert server.count("server/discover") == 2


@pytest.mark.rule("B2")
async def test_a_server_that_cannot_be_started_says_why_each_time_and_is_tried_again(tmp_path: Path) -> None:
    target = StdioServer(command=str(tmp_path / "server"))
    async with connecting(target) as connection:
        for _ in range(2):
            with pytest.raises(UnavailableError, match='The server "acme" cannot be'):
                await connection.declared()
        assert connection.capabilities == {}


@pytest.mark.rule("B2")
@pytest.mark.rule("L3")
async def test_a_server_that_was_away_for_a_while_serves_again_without_looking_around_anew(tmp_path: Path) -> None:
    server, person = Scripted(SKILL), Person()
    server.ttl = None
    async with hosting(tmp_path, {"acme": server}, person) as host:
        connection = host.server_named("acme").connection
        connection.rest()
        await until(lambda: not connection.is_connected, "it is gone")
        server.on["server/discover"] = lambda _: (_ for _ in ()).throw(RuntimeError("away"))
        server.on["initialize"] = server.on["server/discover"]
        assert "politely" not in await attempt(host.read_skill_uri("acme", "skill://unlisted/SKILL.md"))
        assert connection.capabilities == {}
        server.on.clear()
        assert "politely" in await host.read_skill("refunds")
        assert "alpha" in await host.read_skill_file("refunds", "a.md")


async def attempt(reading: Any) -> str:
    with pytest.raises(UnavailableError) as failed:
        await reading
    return failed.value.message


@pytest.mark.rule("V3")
async def test_a_server_that_vanishes_between_listing_and_reading_is_told_of_and_nothing_is_loaded(
    tmp_path: Path,
) -> None:
    server, person = Scripted(SKILL), Person()
    async with hosting(tmp_path, {"acme": server}, person) as host:
        connection = host.server_named("acme").connection
        connection.rest()
        await until(lambda: not connection.is_connected, "it is gone")
        connection._target = StdioServer(command="/no/such/program")
        with pytest.raises(UnavailableError):
            await host.read_skill("refunds")
        assert host.loaded == ()
        with pytest.raises(RefusedError):
            await host.read_skill_file("refunds", "a.md")


@pytest.mark.rule("K3")
@pytest.mark.rule("O1")
async def test_content_from_the_cache_of_a_server_that_is_gone_still_counts_as_its_content(tmp_path: Path) -> None:
    server, person = Scripted(SKILL), Person(otherwise=Reply.ONCE)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        await host.read_skill("refunds")
        await host.read_skill_file("refunds", "a.md")
        await until(lambda: [use.files for use in host.cache.usage()] == [2], "both files are in the cache")
        host.release("refunds")
        connection = host.server_named("acme").connection
        connection.rest()
        connection._target = StdioServer(command="/no/such/program")
        assert 'origin="MCP server acme"' in await host.read_skill("refunds")
        assert 'origin="MCP server acme"' in await host.read_skill_file("refunds", "a.md")
        assert len(person.asked) == 2, "it is asked about like any served skill"
        assert len((await host.may_execute("bash", {})).skills) == 1


@pytest.mark.rule("C4")
async def test_a_server_that_takes_back_its_declaration_is_not_asked_for_skills_any_more(tmp_path: Path) -> None:
    server = Scripted(SKILL, directories=True)
    server.ttl = None
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        connection = host.server_named("acme").connection
        connection.rest()
        await until(lambda: not connection.is_connected, "it is gone")
        server.declared = False
        with pytest.raises(UnavailableError) as refused:
            await host.read_skill_uri("acme", "skill://unlisted/SKILL.md")
        assert refused.value.rule == "C4"
        await host.refresh()
        assert host.skills == ()
        assert server.count("skills/get") == 0
        assert server.count("skills/list") == 1


@pytest.mark.rule("L6")
@pytest.mark.parametrize("answer", [{}, {"resultType": 7}, {"x": "garbage"}], ids=str)
async def test_a_server_whose_notices_make_no_sense_is_used_without_them(tmp_path: Path, answer: Any) -> None:
    server = Scripted(SKILL)
    server.changes = True
    server.on["subscriptions/listen"] = lambda _: answer
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        assert "politely" in await host.read_skill("refunds")
        await until(lambda: server.count("subscriptions/listen") == 1, "the host asks for notices")
        assert "alpha" in await host.read_skill_file("refunds", "a.md")
        assert host.server_named("acme").connection.is_connected
        assert server.count("server/discover") == 1


async def test_a_server_that_fails_while_it_is_listened_to_is_used_without_notices(tmp_path: Path) -> None:
    server = Scripted(SKILL)
    server.changes = True
    server.on["subscriptions/listen"] = lambda _: (_ for _ in ()).throw(failure(-32601, "no"))
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await until(lambda: server.count("subscriptions/listen") == 1, "the host asks for notices")
        assert "politely" in await host.read_skill("refunds")


async def test_a_connection_that_was_never_made_is_closed_at_once() -> None:
    async with connecting(Scripted(SKILL).server) as connection:
        connection.close()
        await connection.closed()


@pytest.mark.rule("A5")
@pytest.mark.rule("P6")
async def test_a_closed_connection_is_not_made_again_and_one_at_rest_is() -> None:
    server = Scripted(SKILL)
    async with connecting(server.server) as connection:
        await connection.declared()
        connection.rest()
        assert not connection.is_connected
        await connection.declared()
        assert server.count("server/discover") == 2
        connection.close()
        for question in (connection.declared(), connection.request("skills/list", {}, cap=1000), connection.connect()):
            with pytest.raises(UnavailableError, match=r'The server "acme" is not used any more\.'):
                await question
        assert server.count("server/discover") == 2


@pytest.mark.rule("A5")
@pytest.mark.parametrize("end", ["rest", "close"])
async def test_a_handshake_under_way_is_given_up_when_the_server_is_let_go(end: str) -> None:
    server = Scripted(SKILL)
    server.on["server/discover"] = forever
    async with connecting(server.server) as connection:
        failed: list[UnavailableError] = []

        async def ask() -> None:
            with pytest.raises(UnavailableError) as caught:
                await connection.declared()
            failed.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: server.count("server/discover") == 1, "the handshake is under way")
            getattr(connection, end)()
        assert len(failed) == 1
        assert not connection.is_connected


@pytest.mark.rule("P4")
async def test_what_variables_hold_is_not_told_when_a_server_cannot_be_started(tmp_path: Path) -> None:
    environment = {"SECRET": "hunter2", "DIRECTORY": str(tmp_path / "hunter2"), "PROGRAM": sys.executable}
    for target, shown in (
        (StdioServer(command="/no/such/${SECRET}"), "/no/such/${SECRET}"),
        (StdioServer(command="${PROGRAM}", cwd="${DIRECTORY}"), "the directory ${DIRECTORY}"),
    ):
        async with connecting(target, environment=environment) as connection:
            with pytest.raises(UnavailableError) as failed:
                await connection.declared()
        assert shown in failed.value.message
        assert "hunter2" not in failed.value.message


@pytest.mark.rule("P4")
@pytest.mark.parametrize(
    "value", ["Bearer hunter2 ", " hunter2", "hunter2\u00e9", "hunter2\x80", "hunter2\n", "\thunter2"]
)
async def test_a_header_that_cannot_be_sent_is_told_without_what_it_holds(value: str) -> None:
    target = HttpServer(url="http://127.0.0.1:9/mcp", headers={"Authorization": "${TOKEN}"})
    async with connecting(target, environment={"TOKEN": value}) as connection:
        with pytest.raises(UnavailableError, match='The header "Authorization" would hold') as failed:
            await connection.declared()
    assert "hunter2" not in failed.value.message


@pytest.mark.rule("P4")
async def test_variables_are_expanded_when_a_server_is_started_and_not_before() -> None:
    target = StdioServer(command="${NOT_SET_ANYWHERE}")
    async with connecting(target, environment={}) as connection:
        with pytest.raises(UnavailableError, match="NOT_SET_ANYWHERE"):
            await connection.declared()
    target = StdioServer(command="${PROGRAM}", args=("-c", "raise SystemExit('${WORDS:-my words}')"))
    async with connecting(target, environment={"PROGRAM": sys.executable}) as connection:
        with pytest.raises(UnavailableError, match="my words"):
            await connection.declared()


@pytest.mark.rule("B2")
async def test_a_server_that_will_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillquay.host.connection._FAREWELL", 0.01)
    stubborn = StdioServer(command="/bin/sh", args=("-c", "trap '' TERM; while :; do sleep 1; done"))
    async with connecting(stubborn, Budgets(call=0.3)) as connection:
        with pytest.raises(UnavailableError):
            await connection.declared()
    assert not connection.is_connected


@pytest.mark.rule("B2")
async def test_a_server_over_http_that_is_not_there_says_so() -> None:
    async with connecting(HttpServer(url="http://127.0.0.1:9/mcp")) as connection:
        with pytest.raises(UnavailableError, match='The server "acme" cannot be reached'):
            await connection.declared()
