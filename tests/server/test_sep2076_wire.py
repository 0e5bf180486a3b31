"""SEP-2076 as it travels: the capability and the notices, over HTTP and standard input and output, in both eras."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.asking import MODERN, OLDER, PATIENCE, write_skill
from tests.server.over_http import META, message, running
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.server.conftest import Publish

CAPABILITIES = json.loads((Path(__file__).parent / "golden/sep-2076-capabilities.json").read_text(encoding="utf-8"))
CHANGED = "notifications/skills/list_changed"
INFO = {"name": "tests", "version": "1"}
INITIALIZE = {"protocolVersion": OLDER[0], "capabilities": {}, "clientInfo": INFO}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills", "plain")
    return tmp_path / "skills"


class Talking:
    """A server on standard input and output, and every line it has written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def say(self, method: str, number: int | None = None, **params: Any) -> None:
        assert self._process.stdin is not None
        request = {"jsonrpc": "2.0", "method": method, "params": params}
        self._process.stdin.write(json.dumps(request if number is None else {**request, "id": number}) + "\n")
        self._process.stdin.flush()

    def wait_for(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            said: dict[str, Any] = json.loads(self._lines.get(timeout=PATIENCE))
            if fits(said):
                return said

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self.say(method, number, **params)
        result: dict[str, Any] = self.wait_for(lambda said: said.get("id") == number)["result"]
        return result


@contextlib.contextmanager
def talking(root: Path, cache: Path) -> Iterator[Talking]:
    with subprocess.Popen(
        [sys.executable, "-m", "skillquay", "serve", str(root), "--dialect", "sep-2076", "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"XDG_CACHE_HOME": str(cache)},
        encoding="utf-8",
    ) as process:
        try:
            yield Talking(process)
        finally:
            process.kill()


@pytest.mark.rule("I7")
def test_on_stdio_an_older_client_sees_the_capability_and_is_told_of_changes(root: Path, tmp_path: Path) -> None:
    with talking(root, tmp_path / "cache") as server:
        declared = server.ask(1, "initialize", **INITIALIZE)["capabilities"]
        assert {key: declared[key] for key in declared if key != "experimental"} == CAPABILITIES[OLDER[0]]
        server.say("notifications/initialized")
        assert [each["name"] for each in server.ask(2, "skills/list")["skills"]] == ["plain"]
        write_skill(root, "more")
        assert server.wait_for(lambda said: said.get("method") == CHANGED)["method"] == CHANGED
        assert [each["name"] for each in server.ask(3, "skills/list")["skills"]] == ["more", "plain"]


@pytest.mark.rule("I7")
def test_on_stdio_a_current_client_sees_the_capability_and_listens_for_changes(root: Path, tmp_path: Path) -> None:
    with talking(root, tmp_path / "cache") as server:
        discovered = server.ask(1, "server/discover", _meta=META)
        assert discovered["capabilities"] == CAPABILITIES[MODERN]
        server.say("subscriptions/listen", 2, notifications={"skillsListChanged": True}, _meta=META)
        acknowledged = server.wait_for(lambda said: "method" in said)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"] == {"notifications": {"skillsListChanged": True}, "_meta": {SUBSCRIPTION: 2}}
        write_skill(root, "more")
        told = server.wait_for(lambda said: "method" in said)
        assert (told["method"], told["params"]) == (CHANGED, {"_meta": {SUBSCRIPTION: 2}})


@pytest.mark.rule("I7")
def test_over_http_the_capability_is_declared_in_both_eras(root: Path, publish: Publish) -> None:
    with running(publish(root, dialect="sep-2076", watch=True)) as served:
        result = served.post(message("server/discover")).json()["result"]
        assert result["capabilities"] == CAPABILITIES[MODERN]
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        answer = served.post(opening, mcp_protocol_version="", mcp_method="").json()["result"]
        declared = answer["capabilities"]
        assert {key: declared[key] for key in declared if key != "experimental"} == CAPABILITIES[OLDER[0]]


@pytest.mark.rule("I7")
def test_a_server_that_does_not_look_for_changes_does_not_promise_notices(root: Path, publish: Publish) -> None:
    with running(publish(root, dialect="sep-2076")) as served:
        result = served.post(message("server/discover")).json()["result"]
        assert result["capabilities"]["skills"] == {"listChanged": False}


@pytest.mark.rule("I7")
def test_over_http_the_express_path_does_not_answer_for_the_other_dialect(root: Path, publish: Publish) -> None:
    with running(publish(root, dialect="sep-2076")) as served:
        for _ in range(2):
            (skill,) = served.post(message("skills/list")).json()["result"]["skills"]
            assert skill == {"name": "plain", "description": "What plain is for."}
        error = served.post(message("skills/get", uri="skill://plain/SKILL.md")).json()["error"]
        assert error["code"] == -32602


@pytest.mark.rule("I7", "I10")
@pytest.mark.parametrize(
    ("wanted", "honored", "expected"),
    [
        ({"skillsListChanged": True}, {"skillsListChanged": True}, {CHANGED}),
        (
            {"skillsListChanged": True, "resourcesListChanged": True},
            {"skillsListChanged": True, "resourcesListChanged": True},
            {CHANGED, "notifications/resources/list_changed"},
        ),
        (
            {"skillsListChanged": True, "resourceSubscriptions": ["skill://plain/a.md"]},
            {"skillsListChanged": True, "resourceSubscriptions": ["skill://plain/a.md"]},
            {CHANGED, "notifications/resources/updated"},
        ),
        ({"resourcesListChanged": True}, {"resourcesListChanged": True}, {"notifications/resources/list_changed"}),
        (
            {"skillsListChanged": False, "resourcesListChanged": True},
            {"resourcesListChanged": True},
            {"notifications/resources/list_changed"},
        ),
        (
            {"skillsListChanged": "yes", "resourcesListChanged": True},
            {"resourcesListChanged": True},
            {"notifications/resources/list_changed"},
        ),
    ],
)
def test_over_http_a_stream_tells_what_was_asked_for_and_nothing_else(
    root: Path, publish: Publish, wanted: dict[str, Any], honored: dict[str, Any], expected: set[str]
) -> None:
    skills = publish(root, dialect="sep-2076", watch=True)
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "subscriptions/listen",
    }
    with running(skills) as served:
        body = message("subscriptions/listen", notifications=wanted)
        with served.http.stream("POST", served.url, json=body, headers=headers) as stream:
            frames = (
                json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:") and line[5:].strip()
            )
            assert next(frames)["params"] == {"notifications": honored, "_meta": {SUBSCRIPTION: 1}}
            write_skill(root, "plain", {"a.md": b"new"})
            told = [next(frames) for _ in expected]
    assert {frame["method"] for frame in told} == expected
    assert all(frame["params"]["_meta"] == {SUBSCRIPTION: 1} for frame in told)


@pytest.mark.rule("I7")
@pytest.mark.parametrize("wanted", [5, [], {"skillsListChanged": True, "resourceSubscriptions": 5}])
def test_a_filter_that_is_none_is_refused(root: Path, publish: Publish, wanted: Any) -> None:
    with running(publish(root, dialect="sep-2076")) as served:
        error = served.post(message("subscriptions/listen", notifications=wanted)).json()["error"]
        assert error["code"] == -32602


@pytest.mark.rule("I7")
def test_the_command_says_which_skills_are_not_served_and_how_a_client_gets_the_rest(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "a/same")
    write_skill(tmp_path / "skills", "b/same")
    write_skill(tmp_path / "skills", "needy", None, "dependencies: {tools: [read_pdf]}")
    with serve(tmp_path / "skills", "--dialect", "sep-2076", cache=tmp_path / "cache") as serving:
        said = serving.said
    assert said.startswith("Serving 1 skill from ")
    assert said.count('skills are named "same"') == 1
    assert 'skill://needy/SKILL.md is not listed: this server does not offer the tool "read_pdf".' in said
    assert "skill://a/same/SKILL.md is served, skill://b/same/SKILL.md not." in said
    assert "index.json" not in said


@pytest.mark.rule("I7")
def test_the_line_for_a_client_over_stdio_names_the_dialect() -> None:
    from skillquay.cli.serve import _stdio_line
    from skillquay.server.run import Settings

    line = _stdio_line(Settings(paths=("/skills",), dialect="sep-2076"))
    assert line == {"command": "skillquay", "args": ["serve", "/skills", "--stdio", "--dialect", "sep-2076"]}
