"""`skillquay serve`: what it says before and while it serves, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import httpx2 as httpx
import pytest
from mcp import Client, StdioServerParameters

from tests.cli.conftest import COMMAND, PLAIN
from tests.server.over_http import Running, message
from tests.serving import PATIENCE, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Run

OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
}


# Wrong use


@pytest.fixture
def busy() -> Iterator[int]:
    """A port somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


# Starting takes longer than refusing: many commands are given to one process, each as if it were the only one.
GIVE_ALL = """
import contextlib, io, json, sys
from skillquay.cli.app import app

for arguments in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            app(["serve", *arguments])
        except SystemExit as end:
            print(json.dumps([end.code, said.getvalue()]))
"""


def test_a_command_that_cannot_work_says_why_and_what_to_do(skills: Path, tmp_path: Path, busy: int) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "short.txt").write_text("secret\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\0")
    (tmp_path / "bad.py").write_text("skills = 1\nraise RuntimeError('no database')\n")
    (tmp_path / "none.py").write_text("skills = 1\n")
    served = str(skills)
    cases = [
        (["gone"], 'there is nothing at "gone". Give a directory of skills'),
        ([served, "--scheme", "file"], '--scheme cannot be used: "file" names something on the reader\'s own machine.'),
        ([served, "--scheme", "https"], '--scheme cannot be used: Clients would open "https" URIs themselves.'),
        ([served, "--scheme", "git hub:"], '--scheme cannot be used: "git hub:" is not a scheme. Give its name alone'),
        (["empty.txt"], '"empty.txt" is a file. Give a directory of skills'),
        ([served, "gone"], 'there is nothing at "gone"'),
        ([served, "--http", "8000"], '"8000" is not an address. Write it as HOST:PORT, such as 127.0.0.1:8000.'),
        ([served, "--http", "127.0.0.1:99999"], "is not an address"),
        ([served, "--http", ":8000"], "is not an address"),
        ([served, "--http", "127.0.0.1:http"], "is not an address"),
        ([served, "--http", "0.0.0.0:0"], "0.0.0.0 can be reached from other machines. Give the tokens"),
        ([served, "--http", "[::]:0"], ":: can be reached from other machines"),
        ([served, "--http", f"127.0.0.1:{busy}"], f"cannot listen on 127.0.0.1:{busy}: address already in use"),
        ([served, "--token-file", "gone"], 'the token file "gone" cannot be used: No such file'),
        ([served, "--token-file", "empty.txt"], 'the token file "empty.txt" cannot be used: It holds no token'),
        ([served, "--token-file", "short.txt"], "A token is at least 16 ASCII characters"),
        ([served, "--token-file", "binary.txt"], 'the token file "binary.txt" cannot be used: '),
        ([served, "--token-file", "."], 'the token file "." cannot be used: Is a directory'),
        ([served, "--prefix", ".."], '--prefix cannot be used: ".." has a ".." segment'),
        ([served, "--prefix", "a//b"], "--prefix cannot be used: "),
        ([served, "--ttl", "inf"], "--ttl is a number of seconds."),
        (["bad.py"], '"bad.py" is a Python file. Name the Skills object in it, such as bad.py:skills.'),
        (["bad.py:skills", "--workers", "2"], '"bad.py" cannot be run: RuntimeError: no database (line 2)'),
        (["gone.py:skills"], 'there is no file "gone.py"'),
        (["none.py:skills"], '"none.py" has no Skills object named "skills"'),
        (["bad.py:skills"], '"bad.py" cannot be run: RuntimeError: no database (line 2)'),
        (["bad.py:skills", "--stdio"], '"bad.py" cannot be run: RuntimeError: no database (line 2)'),
    ]
    done = subprocess.run(
        [sys.executable, "-c", GIVE_ALL],
        input=json.dumps([arguments for arguments, _ in cases]),
        capture_output=True,
        cwd=tmp_path,
        env=PLAIN | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        encoding="utf-8",
        timeout=PATIENCE,
        check=True,
    )
    for (arguments, reason), line in zip(cases, done.stdout.splitlines(), strict=True):
        status, said = json.loads(line)
        assert status == 2, arguments
        assert said.startswith("skillquay: ")
        assert reason in said
        assert "Traceback" not in said
        assert said.count("\n") == 1


def test_a_wrong_command_ends_with_status_two_and_nothing_on_standard_output(run: Run) -> None:
    outcome = run("serve", "gone")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith('skillquay: there is nothing at "gone".')


# What it says


@pytest.mark.rule("E4", "F3", "F4", "N3")
def test_it_says_what_is_served_what_is_not_and_why_and_how_a_client_gets_it(skills: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for path in (other / "deep/good", other / "a b/c"):
        path.mkdir(parents=True)
        (path / "SKILL.md").write_text(f"---\nname: {path.name}\ndescription: Another.\n---\n")
    big = other / "big"
    big.mkdir()
    (big / "SKILL.md").write_text("---\nname: big\ndescription: Too much.\n---\n")
    for number in range(512):
        (big / f"{number}.md").touch()
    with serve(skills, other, "--name", "acme") as serving:
        said = serving.said.splitlines()
        assert serving.client == {"type": "http", "url": f"{serving.base}/mcp"}
        assert said[0] == f"Serving 4 skills from {skills}, {other}."
        assert said[1] == "Not published (2):"
        assert said[2] == f"  {other}/big: The skill has 513 files; at most 512 are allowed. [E4]"
        assert said[3].startswith(f"  {skills}/broken: ")
        assert said[3].endswith("[F4]")
        assert said[4] == 'Warning: The first segment "a b" of a path is not a plain URI name.'
        assert said[5].startswith('Warning: 2 skills are named "good": ')
        assert said[6].startswith("See all ")
        assert said[6].endswith(f'with "skillquay lint {skills} {other}".')
        assert said[7] == "For a client's .mcp.json:"
        assert list(json.loads(said[8])["mcpServers"]) == ["acme"]
        assert len(said) == 9
        with Running(serving.base) as running:
            assert len(running.post(message("skills/list")).json()["result"]["skills"]) == 4


@pytest.mark.rule("I1", "I6", "I12")
def test_the_index_names_skills_under_the_scheme_that_was_chosen_and_it_says_which_are_not_in_it(
    skills: Path,
) -> None:
    inner = skills / "good/inner"
    inner.mkdir()
    (inner / "SKILL.md").write_text("---\nname: inner\ndescription: Within.\n---\n")
    with serve(skills, "--scheme", "github", "--prefix", "o/r") as serving, Running(serving.base) as running:
        notes = [line for line in serving.said.splitlines() if line.startswith("Note: ")]
        assert len(notes) == 1
        assert notes[0].startswith("Note: 1 skill that lies in another one is not in skill://index.json, ")
        assert serving.said.count("skill://index.json") == 1
        answer = running.post(message("resources/read", uri="skill://index.json")).json()["result"]
        entries = json.loads(answer["contents"][0]["text"])["skills"]
        assert [entry["url"] for entry in entries] == ["github://o/r/good/SKILL.md", "github://o/r/warned/SKILL.md"]
        archive = running.post(message("resources/read", uri=entries[0]["archives"][1]["url"])).json()["result"]
        assert archive["contents"][0]["mimeType"] == "application/zip"


@pytest.mark.rule("B3", "L2")
def test_with_a_token_file_the_clients_line_asks_for_a_token_and_so_does_the_server(
    skills: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokens.txt").write_text("# red\nred-red-red-red-red\nblue-blue-blue-blue\n")
    with (
        serve(skills, "--token-file", tmp_path / "tokens.txt", "--prefix", "acme", http="0.0.0.0:0") as serving,
        Running(serving.base.replace("0.0.0.0", "127.0.0.1")) as running,
    ):
        assert serving.client["headers"] == {"Authorization": "Bearer ${SKILLQUAY_TOKEN}"}
        assert "red-red" not in serving.said
        assert running.post(message("skills/list")).status_code == 401
        for token in ("red-red-red-red-red", "blue-blue-blue-blue"):
            answer = running.post(message("skills/list"), authorization=f"Bearer {token}").json()["result"]
            assert answer["cacheScope"] == "private"
            assert [entry["uri"] for entry in answer["skills"]] == [
                "skill://acme/good/SKILL.md",
                "skill://acme/warned/SKILL.md",
            ]
        for path in ("/healthz", "/readyz"):
            assert httpx.get(running.base + path).status_code == 200


# How it ends

WAITS = """
import pathlib, time
from skillquay.server.extension import Skills

skills = Skills()
here = pathlib.Path(__file__).parent
calls = 0

@skills.skill("slow")
def slow():
    global calls
    calls += 1
    if calls > 1:
        (here / "begun").touch()
        while not (here / "go").exists():
            time.sleep(0.01)
    return "---\\nname: slow\\ndescription: Slow.\\n---\\nAt last.\\n"
""".replace("\\\\", "\\")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.rule("B3")
def test_a_request_in_flight_is_finished_after_the_signal_to_end(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    answers: list[httpx.Response] = []
    with serve(f"{tmp_path}/waits.py:skills") as serving, Running(serving.base) as running:

        def ask() -> None:
            answers.append(running.post(message("resources/read", uri="skill://slow/SKILL.md")))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_for(tmp_path / "begun")
        serving.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        with contextlib.suppress(httpx.TransportError):
            while time.monotonic() < deadline:  # no new client is let in
                httpx.get(f"{serving.base}/healthz")
        assert not answers
        (tmp_path / "go").touch()
        assert serving.process.wait(PATIENCE) == 0
        asking.join(PATIENCE)
    assert answers[0].status_code == 200
    assert answers[0].json()["result"]["contents"][0]["text"].endswith("At last.\n")
    assert "Traceback" not in serving.said


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order_whoever_listens(skills: Path, with_signal: signal.Signals) -> None:
    """Neither a stream of the current revision nor one of an older session keeps the server from ending."""
    accept = {"accept": "text/event-stream"}
    with serve(skills) as serving, contextlib.ExitStack() as stack:
        http = stack.enter_context(httpx.Client(timeout=PATIENCE))
        running = stack.enter_context(Running(serving.base))
        older = {"mcp_protocol_version": "2025-11-25", "mcp_method": ""}
        session = running.post(OPENING, **older).headers["mcp-session-id"]
        stack.enter_context(http.stream("GET", serving.url, headers={**accept, "mcp-session-id": session}))
        listen = message("subscriptions/listen", notifications={"resourcesListChanged": True})
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        listening = stack.enter_context(http.stream("POST", serving.url, content=json.dumps(listen), headers=headers))
        lines = listening.iter_lines()
        assert "acknowledged" in next(line for line in lines if line.startswith("data: "))
        begun = time.monotonic()
        serving.process.send_signal(with_signal)
        goodbye = next(line for line in lines if line.startswith("data: "))
        assert json.loads(goodbye.removeprefix("data: "))["result"]
        assert serving.process.wait(PATIENCE) == 0
        assert time.monotonic() - begun < 9, "it waited for the streams"
    assert "Traceback" not in serving.said


# Standard input and output


@contextlib.contextmanager
def on_stdio(*arguments: str | Path, cache: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, "serve", *map(str, arguments), "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=PLAIN | {"XDG_CACHE_HOME": str(cache)},
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_on_stdio_standard_output_is_the_protocols_and_the_end_of_input_the_end(skills: Path, tmp_path: Path) -> None:
    requests: list[dict[str, Any]] = [
        OPENING,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "skills/list"},
    ]
    with on_stdio(skills, cache=tmp_path / "cache") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for request in requests[:1]:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["protocolVersion"] == "2025-11-25"
        process.stdin.write("this is no JSON\n")
        for request in requests[1:]:
            process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert [entry["uri"] for entry in answer["result"]["skills"]] == [
            "skill://good/SKILL.md",
            "skill://warned/SKILL.md",
        ]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == ""
        said = process.stderr.read()
    assert said.startswith(f"Serving 2 skills from {skills}.\nNot published (1):\n")
    client = json.loads(said[said.index('{"mcpServers"') :].splitlines()[0])["mcpServers"]["skillquay"]
    assert client == {"command": "skillquay", "args": ["serve", str(skills), "--stdio"]}
    assert "Traceback" not in said


def test_the_line_for_a_client_over_stdio_serves_the_same(skills: Path, tmp_path: Path) -> None:
    options = ["--name", "acme", "--prefix", "a/b", "--page-size", "7", "--ttl", "1.5", "--no-watch", "--strict"]
    options[4:4] = ["--scheme", "github"]
    options.append("--no-index")
    done = subprocess.run(
        [*COMMAND, "serve", str(skills), "--stdio", *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=PLAIN | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        encoding="utf-8",
        timeout=PATIENCE,
        check=True,
    )
    client = json.loads(done.stderr[done.stderr.index('{"mcpServers"') :].splitlines()[0])["mcpServers"]["acme"]
    assert client == {"command": "skillquay", "args": ["serve", str(skills), "--stdio", *options]}


@pytest.mark.rule("C1", "I10")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_client_speaks_to_it_over_stdio_in_either_era(skills: Path, tmp_path: Path, mode: str) -> None:
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "serve", str(skills), "--stdio"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    told = 0

    async def note(message: Any) -> None:
        nonlocal told
        told += type(message).__name__ == "ResourceListChangedNotification"

    async def run() -> None:
        with anyio.fail_after(PATIENCE):
            async with Client(parameters, mode=mode, message_handler=note) as client:
                assert "io.modelcontextprotocol/skills" in (client.server_capabilities.extensions or {})
                assert len((await client.list_resources()).resources) == 3
                uri = "skill://good/SKILL.md"
                before = (await client.read_resource(uri)).contents[0]
                assert before.model_dump()["text"] == (skills / "good/SKILL.md").read_text()
                async with contextlib.AsyncExitStack() as stack:
                    if mode == "auto":
                        await stack.enter_async_context(client.listen(resources_list_changed=True))
                    while not told:  # the watcher may be only about to begin
                        (skills / "good/more.md").write_text(str(time.monotonic()))
                        await anyio.sleep(0.5)

    anyio.run(run)
