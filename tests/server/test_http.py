"""The server over real HTTP: whom it lets in, what it makes of anything, and whom it remembers."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx2 as httpx
import pytest
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourcesListChanged
from mcp_types import EmptyResult, SubscribeRequest, SubscribeRequestParams

from skillquay.server.access import HostGuard, TokenFileError, Tokens, is_loopback, parse_tokens
from skillquay.server.extension import Skills
from tests.server.asking import MODERN, OLDER, rewrite, until, write_skill
from tests.server.over_http import Running, message, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.conftest import Publish

URI = "skill://refunds/SKILL.md"
TOKENS = ["a-token-of-the-red-team", "another-token-for-blue"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("http") / "skills"
    write_skill(root, "refunds", {"a.md": b"one"})
    return root


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Running]:
    with running(Skills(root, watch=False), allowed_hosts=["Skills.Example"]) as served:
        yield served


@pytest.fixture(scope="module")
def guarded(root: Path) -> Iterator[Running]:
    with running(Skills(root, watch=False, private=True), tokens=TOKENS) as served:
        yield served


def is_serving(served: Running) -> bool:
    answer = served.post(message("skills/list"))
    return bool(answer.status_code == 200 and answer.json()["result"]["skills"])


# B3: bad requests

NOT_REQUESTS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "half JSON": b'{"jsonrpc":"2.0","id":1,"method":"skills/li',
    "not UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "NUL": b"\0",
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "a huge number": b'{"jsonrpc":"2.0","id":' + b"9" * 10_000 + b',"method":"skills/list"}',
}
NOT_MESSAGES: dict[str, Any] = {
    "null": None,
    "a number": 5,
    "a text": "skills/list",
    "a batch": [message("skills/list"), message("skills/list")],
    "an empty batch": [],
    "no version": {"id": 1, "method": "skills/list"},
    "another version": {"jsonrpc": "1.0", "id": 1, "method": "skills/list"},
    "no method": {"jsonrpc": "2.0", "id": 1},
    "a method that is a number": {"jsonrpc": "2.0", "id": 1, "method": 5},
    "params that are a list": {"jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": [1]},
    "an id that is a list": {"jsonrpc": "2.0", "id": [], "method": "skills/list"},
    "an answer": {"jsonrpc": "2.0", "id": 1, "result": {}},
}


@pytest.mark.rule("B3")
@pytest.mark.parametrize("revision", [MODERN, *OLDER])
@pytest.mark.parametrize("what", [*NOT_REQUESTS, *NOT_MESSAGES])
def test_what_is_no_message_is_refused_and_the_server_goes_on(served: Running, what: str, revision: str) -> None:
    body = NOT_REQUESTS[what] if what in NOT_REQUESTS else json.dumps(NOT_MESSAGES[what]).encode()
    answer = served.post(body, mcp_protocol_version=revision)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in {-32700, -32600, -32602}
    assert is_serving(served)


@pytest.mark.rule("B3")
def test_requests_the_protocol_forbids_have_the_status_and_code_it_says(served: Running) -> None:
    unknown = served.post(message("skills/unknown"))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, -32601)
    refused: list[tuple[str, dict[str, Any]]]
    refused = [("skills/get", {}), ("skills/get", {"uri": 5}), ("skills/list", {"cursor": "x"})]
    for method, params in refused:
        answer = served.post(message(method, **params))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)
    for revision in ("1999-01-01", "x" * 5_000):
        answer = served.post(message("skills/list"), mcp_protocol_version=revision)
        assert answer.status_code == 400
    without_envelope = {"jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": {}}
    assert served.post(without_envelope).status_code == 400
    assert served.post(message("skills/list"), mcp_method="skills/get").status_code == 400
    assert is_serving(served)


@pytest.mark.rule("B3")
@pytest.mark.parametrize("revision", [MODERN, *OLDER])
def test_a_body_of_more_than_four_mebibytes_is_not_read(served: Running, revision: str) -> None:
    limit = 4 * 1024 * 1024
    head = message("skills/get", uri="")
    padding = limit - len(json.dumps(head))
    fits = served.post(message("skills/get", uri="x" * padding), mcp_protocol_version=revision)
    assert fits.status_code == 400
    assert len(fits.content) < 2_000
    too_much = served.post(message("skills/get", uri="x" * (padding + 1)), mcp_protocol_version=revision)
    assert too_much.status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(6):
            yield b" " * (1024 * 1024)

    headers = {"content-type": "application/json", "accept": "application/json", "mcp-protocol-version": revision}
    assert served.http.post(served.url, content=endless(), headers=headers).status_code == 413
    assert is_serving(served)


@pytest.mark.rule("B3")
def test_a_hostile_uri_is_refused_over_http_too(served: Running, root: Path) -> None:
    secret = root.parent / "secret.txt"
    secret.write_text("the secret outside the root")
    for uri in ("skill://refunds/../../secret.txt", "skill://refunds/%2e%2e/%2e%2e/secret.txt", f"file://{secret}"):
        for method in ("resources/read", "skills/get", "resources/directory/read"):
            answer = served.post(message(method, uri=uri))
            assert answer.status_code == 400
            assert "the secret" not in answer.text
    for path in ("/mcp/../secret.txt", "/mcp/refunds/SKILL.md", "/", "/secret.txt", "/healthz/x", "/%2e%2e/secret.txt"):
        assert served.http.get(served.base + path).status_code == 404


@pytest.mark.rule("B3")
def test_the_wrong_content_type_or_accept_is_refused(served: Running) -> None:
    for wrong in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert served.post(message("skills/list"), content_type=wrong).status_code == 400
        older = served.post(message("skills/list"), content_type=wrong, mcp_protocol_version=OLDER[0])
        assert older.status_code == 400
    assert served.post(message("skills/list"), accept="text/html").status_code == 406
    assert served.post(message("skills/list"), content_type="application/json; charset=utf-8").status_code == 200
    assert is_serving(served)


@pytest.mark.rule("B3")
def test_other_verbs_are_refused(served: Running) -> None:
    modern = {"mcp-protocol-version": MODERN, "accept": "application/json, text/event-stream"}
    for verb in ("GET", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE"):
        assert served.http.request(verb, served.url, headers=modern).status_code == 405
    for verb in ("GET", "DELETE", "PUT"):
        assert served.http.request(verb, served.url).status_code in {400, 404, 405, 406}
    assert is_serving(served)


def test_health_and_readiness_can_be_asked(served: Running, guarded: Running) -> None:
    for server in (served, guarded):
        health, ready = (server.http.get(server.base + path) for path in ("/healthz", "/readyz"))
        assert (health.status_code, health.text) == (200, "ok\n")
        assert (ready.status_code, ready.text) == (200, "ready\n")


# Who may come in


@pytest.mark.rule("B3")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "2130706433",
        "127.0.0.1:80@evil.example",
        "[::1]evil.example",
        "skills.example:80:evil.example",
        "localhost.",
    ],
)
def test_a_name_that_is_not_ours_is_misdirected(served: Running, host: str) -> None:
    answer = served.post(message("skills/list"), host=host)
    assert answer.status_code == 421
    assert "--allow-host" in answer.text


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "192.0.2.1", "skills.example", "SKILLS.example:80"],
)
def test_addresses_and_allowed_names_are_served(served: Running, host: str) -> None:
    assert served.post(message("skills/list"), host=host).status_code == 200
    assert served.post(message("skills/list"), host=host, origin=f"http://{host}").status_code == 200
    assert served.post(message("skills/list"), host=host, origin=f"https://{host.upper()}").status_code == 200


@pytest.mark.rule("B3")
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "x", "file://"]
)
def test_a_web_page_from_elsewhere_is_refused(served: Running, origin: str) -> None:
    assert served.post(message("skills/list"), host="127.0.0.1:8000", origin=origin).status_code == 403


def test_what_is_not_http_is_not_for_the_guard() -> None:
    """Such as the messages an application starts and ends with."""
    passed: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    async def unused(*_: Any) -> Any:
        raise AssertionError

    anyio.run(HostGuard(app), {"type": "lifespan"}, unused, unused)
    assert passed == ["lifespan"]


def test_a_request_without_a_host_is_refused() -> None:
    """As HTTP/1.0 allows; it is asked of the guard itself, since clients always send one."""
    sent: list[dict[str, Any]] = []

    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it was let in")

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event)

    async def ask() -> None:
        await HostGuard(never)({"type": "http", "method": "POST", "path": "/mcp", "headers": []}, receive, send)

    anyio.run(ask)
    assert sent[0]["status"] == 421


@pytest.mark.rule("B3")
@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer wrong-token-of-nobody",
        f"Bearer {TOKENS[0]}x",
        f"Bearer {TOKENS[0][:-1]}",
        f"Bearer {TOKENS[0].upper()}",
        f"Bearer {TOKENS[0]} {TOKENS[1]}",
        f"Basic {TOKENS[0]}",
        TOKENS[0],
        "Bearer " + "x" * 10_000,
        "Bearer \u00e9",
    ],
)
@pytest.mark.parametrize("revision", [MODERN, OLDER[0]])
def test_without_one_of_the_tokens_nobody_is_let_in(guarded: Running, authorization: str, revision: str) -> None:
    headers = [(b"authorization", authorization.encode("latin-1"))] if authorization else []
    headers += [(b"content-type", b"application/json"), (b"accept", b"application/json")]
    headers += [(b"mcp-protocol-version", revision.encode()), (b"mcp-method", b"skills/list")]
    answer = guarded.http.post(guarded.url, content=json.dumps(message("skills/list")), headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "refunds" not in answer.text


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_each_of_the_tokens_lets_in_and_answers_are_private(guarded: Running, token: str, scheme: str) -> None:
    answer = guarded.post(message("skills/list"), authorization=f"{scheme} {token}")
    assert answer.status_code == 200
    assert answer.json()["result"]["cacheScope"] == "private"


@pytest.mark.rule("B3")
def test_a_session_belongs_to_the_token_that_opened_it(guarded: Running) -> None:
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": OLDER[0],
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
    }
    older = {"mcp_protocol_version": OLDER[0], "mcp_method": ""}
    opened = guarded.post(opening, authorization=f"Bearer {TOKENS[0]}", **older)
    assert opened.status_code == 200
    session = {"mcp_session_id": opened.headers["mcp-session-id"], **older}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "skills/list"}
    assert guarded.post(listing, authorization=f"Bearer {TOKENS[0]}", **session).status_code == 200
    assert guarded.post(listing, authorization=f"Bearer {TOKENS[1]}", **session).status_code == 404
    assert guarded.post(listing, **session).status_code == 401


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("0123456789abcdef\n", ["0123456789abcdef"]),
        ("# red\n  0123456789abcdef  \n\n\t# blue\nfedcba9876543210", ["0123456789abcdef", "fedcba9876543210"]),
        ("0123456789abcde#\r\n", ["0123456789abcde#"]),
    ],
)
def test_a_token_file_has_one_token_a_line(text: str, tokens: list[str]) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no token"),
        ("\n# only a remark\n", "holds no token"),
        ("0123456789abcde\n", "at least 16"),
        ("0123456789abcdef\nshort\n", "at least 16"),
        ("0123456789 abcdef\n", "without spaces"),
        ("0123456789\tabcdef\n", "without spaces"),
        ("0123456789\x01abcdef\n", "at least 16"),
        ("0123456789abcdefé\n", "ASCII"),
        ("\ufeff0123456789abcdef\n", "ASCII"),
    ],
)
def test_a_token_file_that_would_let_nobody_or_everybody_in_is_refused(text: str, message: str) -> None:
    with pytest.raises(TokenFileError, match=message):
        parse_tokens(text)


def test_a_verifier_knows_its_callers_and_keeps_no_token() -> None:
    verifier = Tokens(TOKENS)

    async def verify(token: str) -> str | None:
        found = await verifier.verify_token(token)
        assert found is None or found.token == ""
        return found.client_id if found else None

    async def run() -> None:
        red, blue = await verify(TOKENS[0]), await verify(TOKENS[1])
        assert red
        assert blue
        assert red != blue
        assert red == await verify(TOKENS[0])
        for wrong in ("", "x", TOKENS[0] + " ", "\udcff", "\u00e9" * 16):
            assert await verify(wrong) is None

    anyio.run(run)
    assert not any(token in repr(vars(verifier)) for token in TOKENS)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("example.com", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# Clients


@pytest.mark.rule("C1", "C2", "R1", "U7")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdks_client_finds_and_reads_skills(served: Running, root: Path, mode: str) -> None:
    async with Client(served.url, mode=mode) as client:
        assert (client.server_capabilities.extensions or {})["io.modelcontextprotocol/skills"] == {
            "directoryRead": True
        }
        read = await client.read_resource(URI)
        assert read.contents[0].model_dump()["text"] == (root / "refunds/SKILL.md").read_text()
        assert [each.uri for each in (await client.list_resources()).resources] == ["skill://index.json", URI]


@pytest.mark.rule("L2", "R4")
@pytest.mark.parametrize("revision", OLDER)
def test_older_revisions_get_none_of_the_newer_members_over_http(served: Running, revision: str) -> None:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    older = {"mcp_protocol_version": revision, "mcp_method": "", "mcp_name": ""}
    opened = served.post(opening, **older)
    assert opened.json()["result"]["protocolVersion"] == revision
    older["mcp_session_id"] = opened.headers["mcp-session-id"]
    assert served.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **older).status_code == 202
    for method, uri in {
        "skills/list": None,
        "skills/get": URI,
        "resources/read": URI,
        "resources/directory/read": "skill://refunds",
        "resources/list": None,
    }.items():
        request = {"jsonrpc": "2.0", "id": 2, "method": method, "params": {} if uri is None else {"uri": uri}}
        result = served.post(request, **older).json()["result"]
        assert result.keys().isdisjoint({"resultType", "ttlMs", "cacheScope", "_meta"})
    request = {"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": "skill://refunds/gone"}}
    assert served.post(request, **older).json()["error"]["code"] == -32002
    assert served.http.delete(served.url, headers={"mcp-session-id": older["mcp_session_id"]}).status_code == 200
    assert served.post(request, **older).status_code == 404


@pytest.mark.anyio
async def test_a_predicate_may_look_at_the_headers_of_a_request(root: Path, publish: Publish) -> None:
    def visible(ctx: Any) -> Any:
        is_known = ctx.request.headers.get("x-team") == "red"
        return lambda entry: is_known

    skills = publish(root, visible=visible)
    with running(skills) as served:
        for team, expected in {"red": 1, "blue": 0}.items():
            ask = partial(served.post, message("skills/list"), x_team=team)
            answer = await anyio.to_thread.run_sync(ask)
            assert len(answer.json()["result"]["skills"]) == expected
            assert answer.json()["result"]["cacheScope"] == "private"
            async with (
                httpx.AsyncClient(headers={"x-team": team}) as http,
                streamable_http_client(served.url, http_client=http) as (read, write),
                ClientSession(read, write) as session,
            ):
                await session.initialize()
                assert len((await session.list_resources()).resources) == 1 + expected


@pytest.mark.rule("I10")
@pytest.mark.anyio
async def test_changes_are_told_over_http_and_sessions_that_left_are_forgotten(
    tmp_path: Path, publish: Publish
) -> None:
    directory = write_skill(tmp_path, "refunds", {"a.md": b"one"})
    skills = publish(tmp_path, watch=True)
    uri = "skill://refunds/a.md"
    with running(skills) as served:
        told: list[str] = []

        async def note(message: Any) -> None:
            told.append(type(message).__name__ + getattr(message.params, "uri", ""))

        async with (
            Client(served.url, mode="legacy", message_handler=note) as older,
            Client(served.url, mode="legacy") as other,
            Client(served.url) as modern,
            modern.listen(resources_list_changed=True) as listening,
        ):
            await until(lambda: len(skills.sessions) == 2, "the older clients are known")
            subscribe = SubscribeRequest(params=SubscribeRequestParams(uri=uri))
            await older.session.send_request(subscribe, EmptyResult)
            assert await other.list_resources()
            rewrite(directory / "a.md", "two")
            with anyio.fail_after(20):
                assert await anext(listening) == ResourcesListChanged()
            await until(lambda: len(told) == 2, "the older client is told")
            assert told == ["ResourceListChangedNotification", f"ResourceUpdatedNotification{uri}"]
        await until(lambda: len(skills.sessions) == 0, "they are forgotten")


@pytest.mark.rule("I10")
def test_a_session_that_was_never_opened_is_not_remembered(root: Path, publish: Publish) -> None:
    skills = publish(root)
    with running(skills) as served:
        older = {"mcp_protocol_version": OLDER[0], "mcp_method": ""}
        for request in (
            {"jsonrpc": "2.0", "id": 1, "method": "skills/list"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        ):
            served.post(request, **older)
        assert served.post(message("skills/list")).status_code == 200
        assert len(skills.sessions) == 0


def test_no_redirect_names_a_host_that_was_only_asked_for(served: Running) -> None:
    answer = httpx.get(f"{served.url}/", headers={"host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 404
    assert "evil.example" not in str(answer.headers)
