"""What is answered without the SDK's machinery is what the SDK would have answered, and nothing else is."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2 as httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

from skillquay.server.app import make_server
from skillquay.server.express import Express
from skillquay.server.extension import Skills

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
}


class Counted:
    """An application that counts the requests that reach it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.count += 1
        await self.app(scope, receive, send)


class Both:
    """One server, reached with and without the express way; `passed_on` counts what did not go by express."""

    def __init__(self, sdk: ASGIApp, skills: Skills, server: Any) -> None:
        self.skills = skills
        self.behind = Counted(sdk)
        self._apps: list[ASGIApp] = [sdk, Express(self.behind, skills.publisher, server)]

    async def send(self, content: bytes, headers: dict[str, str]) -> tuple[int, object]:
        """The answer both ways, which is the same."""
        answers: list[tuple[int, object]] = []
        for app in self._apps:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                response = await client.post("/mcp", content=content, headers=headers)
            is_json = response.headers.get("content-type", "").startswith("application/json")
            answers.append((response.status_code, response.json() if is_json else response.text))
        assert answers[0] == answers[1]
        return answers[1]

    async def ask(self, method: str, params: dict[str, Any], **changes: Any) -> tuple[object, bool]:
        """The result or error of a request, and whether it went by express."""
        before = self.behind.count
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": META}, **changes}
        headers = HEADERS | {"mcp-method": method}
        if isinstance(name := params.get("uri"), str) and method == "resources/read" and name.isascii():
            headers["mcp-name"] = name
        _, answer = await self.send(json.dumps(message).encode(), headers)
        assert isinstance(answer, dict)
        return answer.get("result") or answer["error"], self.behind.count == before


@asynccontextmanager
async def both(root: Path, **options: Any) -> AsyncIterator[Both]:
    skills = Skills(root, watch=False, **options)
    server = make_server("both", skills)
    manager = StreamableHTTPSessionManager(app=server, json_response=True)
    async with manager.run():
        await skills.load()
        yield Both(StreamableHTTPASGIApp(manager), skills, server)
    skills.close()


@pytest.fixture(params=["the library's JSON", "orjson"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are read by either of the two."""
    loads = json.loads if request.param == "the library's JSON" else orjson.loads
    monkeypatch.setattr("skillquay.server.express._read_json", loads)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("express")
    for name in ("a", "b", "c"):
        directory = root / "team" / name
        (directory / "docs").mkdir(parents=True)
        fields = f'name: {name}\ndescription: What ä \\ "{name}" does\nbig: 123456789012345678901\n'
        text = f"---\n{fields}---\n\u2028 </script> \U0001f600\n"
        (directory / "SKILL.md").write_text(text, encoding="utf-8")
        (directory / "docs" / "x y.txt").write_bytes(b"\xef\xbb\xbfcr\r\nlf\n\x00\x7f")
        (directory / "logo.png").write_bytes(b"\x89PNG\xff\xfe")
        (directory / "none").write_bytes(b"")
    return root


@pytest.mark.rule("G2", "L2", "R1", "U7")
def test_plain_requests_go_by_express_and_are_answered_as_the_sdk_answers_them(root: Path) -> None:
    async def main() -> None:
        async with both(root, page_size=2) as server:
            listing, went_by_express = await server.ask("skills/list", {})
            assert went_by_express
            assert isinstance(listing, dict)
            assert len(listing["skills"]) == 2
            rest, went_by_express = await server.ask("skills/list", {"cursor": listing["nextCursor"]})
            assert went_by_express
            assert isinstance(rest, dict)
            assert "nextCursor" not in rest
            for entry in listing["skills"] + rest["skills"]:
                got, went_by_express = await server.ask("skills/get", {"uri": entry["uri"]})
                assert went_by_express
                assert isinstance(got, dict)
                assert got["skill"] == entry
                assert got["cacheScope"] == "public"
                for record in entry["resources"]:
                    for _ in range(2):  # the second time from what was kept
                        contents, went_by_express = await server.ask("resources/read", {"uri": record["uri"]})
                        assert went_by_express
                        assert isinstance(contents, dict)
                        assert contents["contents"][0]["uri"] == record["uri"]

    anyio.run(main)


@pytest.mark.rule("B3")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("skills/get", {"uri": "skill://team/a"}),
        ("skills/get", {"uri": "skill://team/z/SKILL.md"}),
        ("skills/get", {"uri": 7}),
        ("skills/get", {}),
        ("skills/list", {"cursor": "x"}),
        ("skills/list", {"cursor": 7}),
        ("resources/read", {"uri": "skill://team/a/../b/SKILL.md"}),
        ("resources/read", {"uri": "skill://team/a/%2e%2e/b/SKILL.md"}),
        ("resources/read", {"uri": "file:///etc/passwd"}),
        ("resources/read", {"uri": "skill://team/a/none/"}),
        ("resources/list", {}),
        ("resources/directory/read", {"uri": "skill://team/a"}),
        ("server/discover", {}),
        ("tools/list", {}),
    ],
)
def test_what_is_not_plain_goes_on_to_the_sdk(root: Path, method: str, params: dict[str, Any]) -> None:
    async def main() -> None:
        async with both(root) as server:
            _, went_by_express = await server.ask(method, params)
            assert not went_by_express

    anyio.run(main)


@pytest.mark.rule("B3")
@pytest.mark.parametrize(
    "headers",
    [
        {"accept": "text/html"},
        {"content-type": "text/plain"},
        {"mcp-method": "skills/get"},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-protocol-version": "1999-01-01"},
        {"mcp-session-id": "x"},
    ],
)
def test_headers_are_checked_as_the_sdk_checks_them(root: Path, headers: dict[str, str]) -> None:
    async def main() -> None:
        async with both(root) as server:
            message = {"jsonrpc": "2.0", "id": 7, "method": "skills/list", "params": {"_meta": META}}
            await server.send(json.dumps(message).encode(), HEADERS | {"mcp-method": "skills/list"} | headers)

    anyio.run(main)


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}), st.just(2**70)
)


@pytest.mark.rule("B3")
@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "extra"]), values, max_size=3),
    st.dictionaries(st.sampled_from(["uri", "cursor", "_meta", "other"]), values, max_size=2),
    st.binary(max_size=3),
)
def test_no_message_however_odd_is_answered_differently(
    root: Path, changes: dict[str, Any], params: dict[str, Any], noise: bytes
) -> None:
    async def main() -> None:
        async with both(root) as server:
            inside = {"uri": "skill://team/a/SKILL.md", "_meta": META, **params}
            message = {"jsonrpc": "2.0", "id": 7, "method": "skills/get", "params": inside, **changes}
            await server.send(json.dumps(message).encode() + noise, HEADERS | {"mcp-method": "skills/get"})

    anyio.run(main)


@pytest.mark.rule("B3")
@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "number", ['"\\ud800"', '"é"', "-1", "1e3", "1.5", "null", "true", "123456789012345678901234567890"]
)
@pytest.mark.parametrize("token", ["7", '"t"', "{}", "null", "[]", "1.5"])
def test_odd_ids_and_progress_tokens_are_answered_as_the_sdk_answers_them(root: Path, number: str, token: str) -> None:
    async def main() -> None:
        async with both(root) as server:
            meta = json.dumps(META)[:-1] + f', "progressToken": {token}}}'
            params = f'{{"uri": "skill://team/a/SKILL.md", "_meta": {meta}}}'
            message = f'{{"jsonrpc": "2.0", "id": {number}, "method": "skills/get", "params": {params}}}'
            await server.send(message.encode(), HEADERS | {"mcp-method": "skills/get"})

    anyio.run(main)


@pytest.mark.rule("L2")
def test_a_changed_skill_is_not_answered_from_what_was_kept(tmp_path: Path) -> None:
    directory = tmp_path / "one"
    directory.mkdir()

    async def main() -> None:
        async with both(tmp_path) as server:
            uri = {"uri": "skill://one/SKILL.md"}
            for body in ("first", "second"):
                (directory / "SKILL.md").write_text(f"---\nname: one\ndescription: d\n---\n{body}\n")
                server.skills.publisher.live.refresh([str(directory / "SKILL.md")])
                contents, went_by_express = await server.ask("resources/read", uri)
                assert went_by_express
                assert isinstance(contents, dict)
                assert contents["contents"][0]["text"].endswith(f"{body}\n")

    anyio.run(main)
