"""Several processes look like one server: workers on one socket, and replicas on one directory."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import anyio
import httpx2 as httpx
import pytest

from tests.server.asking import MODERN, asking, until, write_skill
from tests.serving import serve

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.asking import Asker

OLD = "2025-11-25"


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    for name in ("a", "b", "c"):
        write_skill(root, name, {"notes.md": name.encode()})
    return root


async def open_session(client: httpx.AsyncClient) -> str:
    """Begin a session of an older revision; its id."""
    params = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    response = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    assert response.status_code == 200
    session = response.headers["mcp-session-id"]
    await post(client, session, "notifications/initialized", None)
    return session


async def ask(client: httpx.AsyncClient, session: str, method: str, **params: str) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    headers = {"mcp-session-id": session, "mcp-protocol-version": OLD}
    result: dict[str, Any] = (await client.post("/mcp", json=request, headers=headers)).json()["result"]
    return result


async def post(client: httpx.AsyncClient, session: str, method: str, number: int | None) -> httpx.Response:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        message |= {"id": number, "params": {}}
    headers = {"mcp-session-id": session, "mcp-protocol-version": OLD}
    return await client.post("/mcp", json=message, headers=headers)


def client_of(base: str) -> httpx.AsyncClient:
    """A client whose every request is a new connection, which any worker may accept."""
    headers = {"accept": "application/json, text/event-stream", "connection": "close"}
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=base, headers=headers, limits=limits, timeout=30)


@pytest.mark.rule("I1", "I3")
def test_a_session_is_answered_by_its_worker_whichever_worker_accepts_the_connection(skills: Path) -> None:
    async def main(base: str) -> None:
        async with client_of(base) as client:
            sessions: list[str] = []
            with anyio.fail_after(30):  # the second worker starts when the first is ready
                while {session.partition(".")[0] for session in sessions} != {"0", "1"}:
                    sessions.append(await open_session(client))
            for session in sessions[-8:]:
                for number in range(2, 8):
                    answer = (await post(client, session, "skills/list", number)).json()
                    assert answer["id"] == number
                    assert len(answer["result"]["skills"]) == 3
            for uri in ("skill://index.json", "skill://a.zip"):
                answers = [await ask(client, each, "resources/read", uri=uri) for each in (sessions[0], sessions[-1])]
                assert answers[0]["contents"]
                assert answers[0] == answers[1]
            for unknown in ("0.none", "1.none", "7.none", "none", "x.y", "../1.sock", "00000000000000000001.x"):
                assert (await post(client, unknown, "skills/list", 2)).status_code == 404
            owner, _, rest = sessions[0].partition(".")
            stolen = f"{1 - int(owner)}.{rest}"
            assert (await post(client, stolen, "skills/list", 2)).status_code == 404

    with serve(skills, "--workers", "2") as serving:
        anyio.run(main, serving.base)


def test_a_client_may_open_its_stream_again_and_a_stream_that_was_left_is_closed_at_every_worker(skills: Path) -> None:
    async def main(base: str) -> None:
        async with client_of(base) as client:
            sessions: list[str] = []
            with anyio.fail_after(30):
                while {session.partition(".")[0] for session in sessions} != {"0", "1"}:
                    sessions.append(await open_session(client))
            for session in (sessions[0], sessions[-1]):
                headers = {"accept": "text/event-stream", "mcp-session-id": session, "mcp-protocol-version": OLD}
                for _ in range(8):  # by either worker
                    with anyio.fail_after(20):
                        while True:
                            async with client.stream("GET", "/mcp", headers=headers) as response:
                                if response.status_code == 200:
                                    break
                                assert response.status_code == 409  # the one before is being closed
                            await anyio.sleep(0.05)

    with serve(skills, "--workers", "2") as serving:
        anyio.run(main, serving.base)
        assert "Traceback" not in serving.said


def test_nobody_without_a_token_reaches_another_worker(skills: Path, tmp_path: Path) -> None:
    async def main(base: str) -> None:
        async with client_of(base) as client:
            for path in ("/mcp", "/mcp%00", "/mcp%0d%0aX", "/mcp%3Fx", "/mcp/"):
                for owner in "01":
                    response = await client.post(path, content=b"{}", headers={"mcp-session-id": f"{owner}.x"})
                    assert response.status_code == (401 if path == "/mcp" else 404), path

    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-that-is-long-enough\n")
    with serve(skills, "--workers", "2", "--token-file", tokens) as serving:
        anyio.run(main, serving.base)
        assert "Traceback" not in serving.said


@pytest.mark.rule("I10")
def test_every_session_of_every_worker_is_told_of_a_change(skills: Path) -> None:
    async def main(url: Any) -> None:
        async with anyio.create_task_group() as group:
            askers: list[Asker] = []
            leave = anyio.Event()

            async def stay() -> None:
                async with asking(url, OLD) as asker:
                    await asker.ask("resources/subscribe", {"uri": "skill://a/notes.md"})
                    askers.append(asker)
                    await leave.wait()

            for _ in range(6):
                group.start_soon(stay)
            await until(lambda: len(askers) == 6, "six sessions")
            # A stream for notices is opened in the background; a change before that reaches nobody.
            told = 0
            with anyio.fail_after(30):
                while not all(asker.updated and asker.lists_changed for asker in askers):
                    told += 1
                    (skills / "a" / "notes.md").write_text(f"changed {told}")
                    await anyio.sleep(1)
            assert {uri for asker in askers for uri in asker.updated} <= {"skill://a/notes.md"}
            leave.set()

    with serve(skills, "--workers", "2") as serving:
        anyio.run(main, serving.url)


def test_a_worker_that_dies_is_started_again_and_the_others_serve_on(skills: Path) -> None:
    async def answers(base: str) -> None:
        async with client_of(base) as client:
            for _ in range(4):
                session = await open_session(client)
                assert len((await post(client, session, "skills/list", 2)).json()["result"]["skills"]) == 3

    with serve(skills, "--workers", "2") as serving:
        victim = next(
            int(pid)
            for pid in os.listdir("/proc")
            if pid.isdecimal() and parent_of(int(pid)) == serving.process.pid and "spawn_main" in command_of(int(pid))
        )
        os.kill(victim, signal.SIGKILL)
        serving.wait_for_line(lambda line: "is started again" in line)
        anyio.run(answers, serving.base)


def parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


@pytest.mark.rule("L1", "E3")
def test_a_listing_begun_on_one_replica_goes_on_at_another_and_files_come_from_either(skills: Path) -> None:
    async def main(urls: list[Any]) -> None:
        async with asking(urls[0], MODERN) as one, asking(urls[1], MODERN) as two:
            first = await one.ask("skills/list")
            rest = await two.ask("skills/list", {"cursor": first["nextCursor"]})
            entries = first["skills"] + rest["skills"]
            assert [entry["uri"] for entry in entries] == [f"skill://{name}/SKILL.md" for name in "abc"]
            assert entries == await one.listing() == await two.listing()
            write_skill(skills, "d")
            with anyio.fail_after(20):
                while len(await one.skills()) != 4 or len(await two.skills()) != 4:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            assert await one.listing() == await two.listing()

    with serve(skills, "--page-size", "2") as first, serve(skills, "--page-size", "2") as second:
        anyio.run(main, [first.url, second.url])


@pytest.mark.rule("I7")
def test_every_worker_speaks_sep_2076(skills: Path) -> None:
    async def main(base: str) -> None:
        async with client_of(base) as client:
            sessions: dict[str, str] = {}
            with anyio.fail_after(30):
                while len(sessions) < 2:
                    session = await open_session(client)
                    sessions[session.partition(".")[0]] = session
            for session in sessions.values():
                listed = await ask(client, session, "skills/list")
                assert [each["name"] for each in listed["skills"]] == ["a", "b", "c"]
                got = await ask(client, session, "skills/get", name="b")
                assert got["files"][0]["uri"] == "skill://b/notes.md"

    with serve(skills, "--workers", "2", "--dialect", "sep-2076") as serving:
        anyio.run(main, serving.base)
        assert serving.said.count("Serving 3 skills") == 1
