"""Servers in child processes: what they may send, why they are gone, and that they are."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import tracemalloc
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import Request
from pydantic import RootModel

from skillquay.errors import BudgetError, ConfigurationError, UnavailableError
from skillquay.host.configuration import StdioServer
from skillquay.host.failures import Ending, describe
from skillquay.host.stdio import stdio_transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

ODD = Path(__file__).parent / "servers" / "odd.py"
EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "skills"
MIB = 1024 * 1024
PATIENCE = 60.0


class Anything(RootModel[dict[str, Any]]):
    pass


async def ask(client: Client, method: str = "odd/ask", **params: Any) -> dict[str, Any]:
    with anyio.fail_after(PATIENCE):
        return (await client.session.send_request(Request(method=method, params=params), Anything)).root


def odd(does: str, **more: Any) -> StdioServer:
    return StdioServer(command=sys.executable, args=(str(ODD), does), **more)


@asynccontextmanager
async def connected(
    server: StdioServer, ending: Ending, *, cap: int = MIB, mode: str = "legacy", grace: float = 10.0
) -> AsyncIterator[Client]:
    async with Client(stdio_transport(server, cap=lambda: cap, ending=ending, grace=grace), mode=mode) as client:
        yield client


async def failure(does: str, ending: Ending, *, cap: int = MIB, grace: float = 0.1) -> str:
    """What a person is told when this server is asked."""
    async with connected(odd(does), ending, cap=cap, grace=grace) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client)
    return describe(caught.value, ending)


def is_alive(pid: int) -> bool:
    """True while it runs; one that only waits to be noticed by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pids: list[int]) -> None:
    """Wait until none of them runs: a signal that kills takes a moment to do so."""
    with anyio.fail_after(PATIENCE):
        while any(map(is_alive, pids)):  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_server_is_asked_in_both_eras(mode: str, tmp_path: Path) -> None:
    server = StdioServer(
        command=sys.executable,
        args=("-m", "skillquay", "serve", "--stdio", str(EXAMPLES)),
        env={"XDG_CACHE_HOME": str(tmp_path)},
    )
    ending = Ending()
    async with connected(server, ending, mode=mode) as client:
        assert client.server_capabilities.extensions is not None
        listing = await ask(client, "skills/list")
        assert [skill["frontmatter"]["name"] for skill in listing["skills"]]
        uri = listing["skills"][0]["uri"]
        assert (await client.read_resource(uri)).contents
    assert ending.exit_status == 0
    assert ending.reason is None
    assert ending.dropped_lines == 0


async def test_the_child_has_its_own_session_a_small_environment_and_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "a secret of the host")
    server = odd("tells_environment", env={"GIVEN": "yes"}, cwd=str(tmp_path))
    async with connected(server, Ending()) as client:
        told = await ask(client)
    assert told["environment"]["GIVEN"] == "yes"
    assert told["environment"]["PATH"] == os.environ["PATH"]
    assert "SOME_TOKEN" not in told["environment"]
    assert told["pid"] == told["group"] == told["session"]
    assert told["cwd"] == str(tmp_path)


# B1: what it may send


@pytest.mark.rule("B1")
async def test_a_line_without_end_ends_the_connection_and_takes_no_more_memory_than_its_cap() -> None:
    ending = Ending()
    tracemalloc.start()
    try:
        said = await failure("endless_line", ending, cap=2 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said == "sent a message of more than 2,097,152 bytes"
    assert isinstance(ending.error, BudgetError)
    assert peak < 8 * MIB


@pytest.mark.rule("B1")
async def test_the_cap_is_asked_while_a_message_arrives() -> None:
    caps = {"now": 100_000}
    ending = Ending()
    async with Client(
        stdio_transport(odd("long_answer"), cap=lambda: caps["now"], ending=ending), mode="legacy"
    ) as client:
        caps["now"] = 65 * MIB
        assert len((await ask(client))["text"]) == 64 * MIB
        caps["now"] = 100_000
        with pytest.raises(MCPError) as caught:
            await ask(client)
    assert describe(caught.value, ending) == "sent a message of more than 100,000 bytes"


@pytest.mark.rule("B1")
async def test_a_long_line_is_read_in_linear_time() -> None:
    async with connected(odd("long_answer"), Ending(), cap=65 * MIB) as client:
        before = time.process_time()
        answer = await ask(client)
        taken = time.process_time() - before
    assert len(answer["text"]) == 64 * MIB
    assert taken < 10  # each of the thousand chunks copied onto what came before: 32 GiB moved


@pytest.mark.rule("B1")
async def test_a_few_lines_that_are_no_messages_are_dropped_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    ending = Ending()
    async with connected(odd("chatters"), ending) as client:
        assert await ask(client) == {"text": "at last"}
    assert ending.dropped_lines == 13
    assert ending.dropped == 'wrote 13 lines that are not MCP messages; the first begins with "Welcome!"'
    assert capfd.readouterr() == ("", "")


@pytest.mark.rule("B1")
async def test_a_number_of_a_million_digits_is_no_message() -> None:
    ending = Ending()
    before = time.process_time()
    async with connected(odd("huge_numbers"), ending) as client:
        assert (await ask(client)) == {"text": "at last"}
    assert time.process_time() - before < 10
    assert ending.dropped_lines == 1


@pytest.mark.rule("B1")
@pytest.mark.parametrize(
    ("does", "lines", "beginning"),
    [("babbles", "1,000", "⟨U+001B⟩[31mloading⟨U+FFFD⟩..."), ("babbles_in_long_lines", "11", "z" * 40)],
)
async def test_a_server_that_babbles_is_left(
    does: str, lines: str, beginning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said = await failure(does, Ending())
    assert said == f'babbles: it wrote {lines} lines that are not MCP messages; the first begins with "{beginning}"'
    assert capfd.readouterr() == ("", "")


@pytest.mark.rule("B1")
async def test_a_server_that_asks_without_taking_in_the_answers_is_left() -> None:
    said = await failure("asks", Ending())
    assert said == "asks more than 100 questions without taking in the answers"


@pytest.mark.rule("B1")
async def test_a_question_that_is_repeated_without_end_is_one_question() -> None:
    async with connected(odd("repeats_a_question"), Ending(), grace=0.1) as client:
        assert await ask(client) == {"text": "done"}
        assert len(asyncio.all_tasks()) < 100


@pytest.mark.parametrize("does", ["takes_back_questions", "asks_and_listens"])
async def test_a_server_may_ask_as_often_as_it_takes_in_the_answers(does: str) -> None:
    ending = Ending()
    async with connected(odd(does), ending) as client:
        assert await ask(client) == {"text": "done"}
    assert ending.reason is None


@pytest.mark.rule("B1")
async def test_standard_error_never_blocks_is_kept_in_part_and_is_never_passed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ending = Ending()
    async with connected(odd("noisy"), ending) as client:
        assert await ask(client) == {"text": "heard"}
    tail = ending.stderr_tail()
    assert tail.endswith("cdef\nthe ⟨U+001B⟩[2Jlast line")
    assert len(tail) <= 8 * 1024 + 10
    assert capfd.readouterr() == ("", "")


# Why it is gone


async def test_a_server_that_ends_says_how_and_its_last_words() -> None:
    ending = Ending()
    assert await failure("exits", ending) == (
        'ended with exit status 3; its last words were "no licence ⟨U+001B⟩[2Jfound"'
    )
    assert ending.exit_status == 3
    assert isinstance(ending.error, UnavailableError)


async def test_a_server_that_is_killed_says_by_what() -> None:
    assert await failure("dies", Ending()) == "was ended by SIGKILL"


async def test_a_server_that_closes_its_output_and_lives_on_is_ended() -> None:
    assert await failure("closes_output", Ending()) == "closed its standard input or output"


async def test_a_server_that_ends_at_once_cannot_be_connected() -> None:
    ending = Ending()
    server = StdioServer(command=sys.executable, args=("-c", "import nothing_of_that_name"))
    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with connected(server, ending, mode="auto"):
            pass
    said = describe(caught.value, ending)
    assert said.startswith("ended with exit status 1; its last words were \"ModuleNotFoundError: No module named 'noth")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            StdioServer(command="no-such-\u202ecommand"),
            'The command "no-such-⟨U+202E⟩command" was not found. Install it, or configure its full path.',
        ),
        (
            StdioServer(command=str(ODD), args=("a secret",)),
            f'The command "{ODD}" may not be executed. Look at its permissions.',
        ),
        (
            StdioServer(command="cat", cwd="/no/such/directory"),
            'The command "cat" cannot run in the directory /no/such/directory: no such file or directory.',
        ),
        (
            StdioServer(command="cat", cwd=str(ODD)),
            f'The command "cat" cannot run in the directory {ODD}: not a directory.',
        ),
        (
            StdioServer(command="cat", args=("a\0b",)),
            'The command "cat", its arguments or its environment hold a NUL character. Take it out.',
        ),
    ],
)
async def test_a_command_that_cannot_be_run_is_an_error_of_the_configuration(server: StdioServer, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with stdio_transport(server, cap=lambda: MIB, ending=Ending()):
            pass
    assert caught.value.message == message
    assert describe(ExceptionGroup("many", [caught.value])) == f"cannot be used: {message.rstrip('.')}"


async def test_a_command_that_the_system_does_not_take_is_not_available() -> None:
    server = StdioServer(command="cat", args=("x" * 4 * MIB,))
    with pytest.raises(UnavailableError, match='The command "cat" cannot be started: Argument list too long'):
        async with stdio_transport(server, cap=lambda: MIB, ending=Ending()):
            pass


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    ending = Ending()
    ending.exited(-250)
    assert ending.reason == "was ended by signal 250"


# That it is gone


@pytest.mark.rule("B2")
async def test_a_server_that_ignores_everything_is_gone_afterwards_with_its_children() -> None:
    ending = Ending()
    async with connected(odd("stubborn"), ending, grace=0.1) as client:
        pids = (await ask(client))["pids"]
        assert all(map(is_alive, pids))
    await gone(pids)
    assert ending.exit_status == -9


@pytest.mark.rule("B2")
async def test_a_child_that_outlives_its_server_is_gone_afterwards_and_nobody_waits_for_its_pipes() -> None:
    ending = Ending()
    async with connected(odd("leaves_a_child"), ending) as client:
        pids = (await ask(client))["pids"]
    await gone(pids)
    assert ending.exit_status == 0


@pytest.mark.rule("B2")
async def test_cancelling_ends_the_server_all_the_same() -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with connected(odd("stubborn"), Ending(), grace=0.1) as client:
            pids = (await ask(client))["pids"]
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert pids
    await gone(pids)


@pytest.mark.rule("B2")
async def test_a_server_that_never_answers_holds_nobody_beyond_the_deadline() -> None:
    async with connected(odd("never_answers"), Ending()) as client:
        with anyio.move_on_after(0.2) as deadline:
            await ask(client)
    assert deadline.cancelled_caught


async def test_many_connections_leave_no_open_files_behind() -> None:
    async with connected(odd("never_answers"), Ending()):
        pass
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        async with connected(odd("never_answers"), Ending()):
            pass
        await failure("exits", Ending())
    assert len(os.listdir("/proc/self/fd")) <= before
