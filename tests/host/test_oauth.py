"""Logins, against a real authorization server and a real browser's part: what is kept, where it goes, who is asked."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import stat
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, Field
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from skillquay.errors import ConfigurationError, StateError, UnavailableError
from skillquay.host.configuration import HttpServer
from skillquay.host.host import SkillHost
from skillquay.host.logins import KeptLogin, LoginFile
from skillquay.host.oauth import Logins
from skillquay.host.server_tools import server_tools
from skillquay.host.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

pytestmark = pytest.mark.anyio

PATIENCE = 60.0


class Issuer:
    """An authorization server that asks nobody: whoever opens its page has agreed. It remembers what it gave out."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.logins = 0
        self.renewals = 0
        self.refuses = False
        self.lifetime: int | None = 3600

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.refuses:
            raise AuthorizeError("access_denied", "Not you\u202e.")
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.logins += 1
        return self._issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.renewals += 1
        return self._issue(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    async def exchange_identity_assertion(self, client: OAuthClientInformationFull, params: Any) -> OAuthToken:
        raise NotImplementedError

    def _issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=self.lifetime, refresh_token=refresh)


class Site:
    """An application on a socket of its own, and the requests it saw."""

    def __init__(self, listening: socket.socket) -> None:
        self.base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.url = f"{self.base}/mcp"
        self.seen: list[tuple[str, str]] = []

    def watching(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                headers = {key.decode(): value.decode() for key, value in scope["headers"]}
                self.seen.append((scope["path"], headers.get("authorization", "")))
            await app(scope, receive, send)

        return watched


@contextlib.contextmanager
def site(make: Callable[[Site], ASGIApp]) -> Iterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Site(listening)
        config = uvicorn.Config(made.watching(make(made)), log_config=None, timeout_graceful_shutdown=1, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        deadline = time.monotonic() + PATIENCE
        while not server.started:
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.005)
        try:
            yield made
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "it does not end"


def open_app(_: Site) -> ASGIApp:
    mcp = MCPServer("open")
    return mcp.streamable_http_app()


class World:
    """A server that wants a login, and the authorization server, elsewhere, that gives it."""

    def __init__(self, issuer: Issuer, at: Site, server: Site, directory: Path) -> None:
        self.issuer = issuer
        self.at = at
        self.server = server
        self.directory = directory
        self.shown: list[str] = []

    @property
    def logins(self) -> Logins:
        return Logins(self.directory)

    @property
    def file(self) -> Path:
        (file,) = self.directory.iterdir()
        return file

    @property
    def kept(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text())
        return found

    def keep(self, **changes: Any) -> None:
        self.file.write_text(json.dumps(self.kept | changes))

    async def browse(self, url: str) -> None:
        """What a browser does with the URL."""
        self.shown.append(url)
        async with httpx2.AsyncClient(follow_redirects=True, timeout=PATIENCE) as browser:
            response = await browser.get(url)
            assert response.status_code == 200
            assert "close this page" in response.text

    async def login(
        self, label: str = "acme", show: Callable[[str], Awaitable[None]] | None = None, patience: float = PATIENCE
    ) -> bool:
        server = HttpServer(url=self.server.url)
        return await self.logins.login(label, server, show=show or self.browse, patience=patience)

    @contextlib.asynccontextmanager
    async def host(self, **servers: Any) -> AsyncIterator[SkillHost]:
        """A host started anew, with the server of this world unless others are given."""
        async with SkillHost(
            servers=servers or {"acme": self.server.url},
            auth=self.logins,
            state=":memory:",
            cache=self.directory.parent / "cache",
            user_skills=(),
        ) as host:
            yield host


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    issuer = Issuer()

    def authorization(at: Site) -> ASGIApp:
        options = ClientRegistrationOptions(enabled=True)
        return Starlette(routes=create_auth_routes(issuer, AnyHttpUrl(at.base), client_registration_options=options))

    with contextlib.ExitStack() as stack:
        at = stack.enter_context(site(authorization))

        def resource(server: Site) -> ASGIApp:
            settings = AuthSettings(
                issuer_url=AnyHttpUrl(at.base),
                resource_server_url=AnyHttpUrl(server.url),
                validate_token_resource=True,
            )
            mcp = MCPServer("acme", auth=settings, token_verifier=ProviderTokenVerifier(issuer))

            @mcp.tool()
            def greet(name: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Name"})]) -> str:
                """Greet."""
                return f"hello {name}"

            return mcp.streamable_http_app()

        server = stack.enter_context(site(resource))
        yield World(issuer, at, server, tmp_path / "state" / "logins")


async def greet(host: SkillHost) -> None:
    """Call a tool whose argument a server of the current revision wants in a header, too."""
    (tool,) = await server_tools(host)
    result = await tool.call({"name": "you"})
    assert not result.is_error, result.text
    assert "\nhello you\n" in result.text


# Logging in


async def test_a_person_logs_in_once_and_the_login_is_kept_for_them_alone(world: World) -> None:
    assert await world.login() is True
    assert len(world.shown) == len(world.issuer.clients) == world.issuer.logins == 1
    assert stat.S_IMODE(world.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.directory.stat().st_mode) == 0o700
    assert world.kept["label"] == "acme"
    assert world.kept["url"] == world.server.url
    assert world.kept["tokens"]["access_token"] in world.issuer.access


async def test_a_kept_login_is_used_after_a_restart_without_asking_anyone(world: World) -> None:
    await world.login()
    for _ in range(2):
        async with world.host() as host:
            assert host.problems == ()
            await greet(host)
    assert world.issuer.logins == 1
    assert world.issuer.renewals == 0


async def test_a_login_that_is_over_is_renewed_where_it_was_made_and_only_there(world: World) -> None:
    await world.login()
    before = world.kept["tokens"]
    world.keep(expires=time.time() - 10)
    world.server.seen.clear()
    async with world.host() as host:
        assert host.problems == ()
        await greet(host)
    assert (world.issuer.logins, world.issuer.renewals) == (1, 1)
    assert {path for path, _ in world.server.seen} == {"/mcp"}
    assert world.kept["tokens"]["access_token"] != before["access_token"]
    assert world.kept["tokens"]["refresh_token"] != before["refresh_token"]
    assert world.kept["expires"] > time.time()


async def test_a_token_the_server_forgot_before_its_time_is_renewed_too(world: World) -> None:
    world.issuer.lifetime = None
    await world.login()
    world.issuer.access.clear()
    async with world.host() as host:
        assert host.problems == ()
        await greet(host)
    assert (world.issuer.logins, world.issuer.renewals) == (1, 1)


async def test_many_requests_at_once_renew_a_login_once(world: World) -> None:
    await world.login()
    async with world.host() as host:
        await greet(host)
        world.keep(expires=time.time() - 10)
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(greet, host)
    assert world.issuer.renewals == 1


async def test_a_login_that_another_process_renewed_is_taken_from_it(world: World) -> None:
    await world.login()
    async with world.host() as first, world.host() as second:
        world.keep(expires=time.time() - 10)
        await greet(first)
        await greet(second)
        assert second.problems == ()
    assert world.issuer.renewals == 1


async def test_a_login_that_cannot_be_renewed_is_a_problem_and_a_new_login_ends_it(world: World) -> None:
    await world.login()
    world.issuer.access.clear()
    world.issuer.refresh.clear()
    async with world.host() as host:
        (problem,) = host.problems
        assert problem.message == 'The server "acme" wants you to log in; run "skillquay login acme".'
        await world.login()
        await host.refresh()
        assert host.problems == ()
        await greet(host)


async def test_a_login_that_is_over_and_cannot_be_renewed_is_tried_once(world: World) -> None:
    await world.login()
    world.keep(expires=time.time() - 10)
    world.issuer.refresh.clear()
    world.at.seen.clear()
    async with world.host() as host:
        (problem,) = host.problems
        assert "wants you to log in" in problem.message
        asked = len(world.at.seen)
        assert {path for path, _ in world.at.seen} == {"/token"}
        server = host.server_named("acme")
        with pytest.raises(UnavailableError):
            await server.connection.connect()
        assert len(world.at.seen) == 2 * asked


async def test_a_login_lost_in_the_middle_of_a_session_says_so(world: World) -> None:
    await world.login()
    async with world.host() as host:
        (tool,) = await server_tools(host)
        assert world.logins.logout("acme", HttpServer(url=world.server.url)) is True
        result = await tool.call({"name": "you"})
        assert result.is_error
        assert result.text.startswith('The server "acme" wants you to log in; run "skillquay login acme".')


async def test_logging_in_again_replaces_the_login_only_when_it_is_complete(world: World) -> None:
    await world.login()
    before = world.kept
    world.issuer.refuses = True
    with pytest.raises(UnavailableError):
        await world.login()
    assert world.kept == before
    world.issuer.refuses = False
    assert await world.login() is True
    assert world.kept["tokens"] != before["tokens"]


async def test_a_server_that_asks_for_no_login_gets_none(world: World) -> None:
    with site(open_app) as free:
        assert await world.logins.login("free", HttpServer(url=free.url), show=world.browse) is False
    assert world.shown == []
    assert list(world.directory.iterdir()) == []


# Nobody there


@pytest.mark.rule("B2")
async def test_without_a_login_the_server_is_a_problem_the_others_work_and_nobody_is_asked(world: World) -> None:
    with site(open_app) as free:
        async with world.host(acme=world.server.url, free=free.url) as host:
            (problem,) = host.problems
            assert problem.subject == 'server "acme"'
            assert problem.message == 'The server "acme" wants you to log in; run "skillquay login acme".'
            assert host.server_named("free").connection.is_connected
    assert world.issuer.clients == {}
    assert world.at.seen == []


async def test_the_command_to_log_in_can_be_copied_whatever_the_label_is(world: World) -> None:
    async with world.host(**{"my server": world.server.url}) as host:
        (problem,) = host.problems
        assert "run \"skillquay login 'my server'\"" in problem.message


# What goes wrong


async def test_an_answer_with_another_state_is_refused_and_nothing_is_kept(world: World) -> None:
    async def forge(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        async with httpx2.AsyncClient() as browser:
            await browser.get(query["redirect_uri"][0], params={"code": "stolen", "state": "guessed"})

    with pytest.raises(UnavailableError, match="does not let you log in: State parameter mismatch"):
        await world.login(show=forge)
    assert list(world.directory.iterdir()) == []
    assert world.issuer.logins == 0


async def test_a_refusal_with_another_state_does_not_put_words_into_the_servers_mouth(world: World) -> None:
    async def forge(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        async with httpx2.AsyncClient() as browser:
            await browser.get(query["redirect_uri"][0], params={"error": "Send your password", "state": "guessed"})

    with pytest.raises(UnavailableError) as caught:
        await world.login(show=forge)
    assert "password" not in caught.value.message


async def test_a_refusal_is_told_in_the_servers_words_with_nothing_hidden(world: World) -> None:
    world.issuer.refuses = True
    with pytest.raises(UnavailableError) as caught:
        await world.login()
    assert caught.value.message == 'The server "acme" did not let you log in: "access_denied: Not you⟨U+202E⟩.".'
    assert len(world.shown) == 1


async def test_nobody_waits_for_ever_for_a_person_to_log_in(world: World) -> None:
    ports: list[int | None] = []

    async def ignore(url: str) -> None:
        ports.append(urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0]).port)

    with pytest.raises(UnavailableError, match=r'^Nobody logged in to the server "acme" within 3 seconds'):
        await world.login(show=ignore, patience=3)
    for port in ports:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE).close()


async def test_where_nothing_can_be_kept_nobody_is_asked_to_log_in(world: World) -> None:
    world.directory.parent.mkdir()
    world.directory.write_text("a file in its place")
    with pytest.raises(StateError, match=r"cannot be written: (file exists|not a directory)\. Correct that"):
        await world.login()
    assert world.shown == []
    async with world.host() as host:
        (problem,) = host.problems
        assert "cannot be read: not a directory" in problem.message


async def test_where_nothing_can_be_read_servers_without_logins_work(world: World) -> None:
    world.directory.parent.mkdir()
    world.directory.write_text("a file in its place")
    with site(open_app) as free:
        async with world.host(free=free.url) as host:
            assert host.problems == ()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"label": "acme"}', "[" * 100_000])
async def test_a_damaged_login_counts_as_none(world: World, content: str) -> None:
    await world.login()
    world.file.write_text(content)
    async with world.host() as host:
        (problem,) = host.problems
        assert "wants you to log in" in problem.message


async def test_a_link_in_the_place_of_a_login_is_not_followed(world: World, tmp_path: Path) -> None:
    await world.login()
    place = world.file
    elsewhere = place.rename(tmp_path / "elsewhere")
    place.symlink_to(elsewhere)
    async with world.host() as host:
        (problem,) = host.problems
        assert "cannot be read" in problem.message


async def test_what_is_no_file_of_the_user_is_no_login_and_is_told_of(world: World) -> None:
    await world.login()
    place = world.file
    place.unlink()
    os.mkfifo(place)
    async with world.host() as host:
        (problem,) = host.problems
        assert "is not a file of yours" in problem.message
    place.unlink()
    place.mkdir()
    with pytest.raises(StateError, match="cannot be removed"):
        world.logins.logout("acme", HttpServer(url=world.server.url))


async def test_a_directory_that_others_can_look_into_is_closed_to_them(world: World) -> None:
    world.directory.mkdir(parents=True, mode=0o755)
    await world.login()
    assert stat.S_IMODE(world.directory.stat().st_mode) == 0o700


def test_a_login_of_a_megabyte_is_not_kept(tmp_path: Path) -> None:
    tokens = OAuthToken(access_token="x" * 1024 * 1024)
    kept = KeptLogin(tokens=tokens, expires=None, client=None, metadata=None, resource=None)
    with pytest.raises(UnavailableError, match="1,048,576 bytes"):
        LoginFile(str(tmp_path / "logins"), "acme", "https://skills.example/mcp").write(kept)
    assert not (tmp_path / "logins").exists()


# Where a token goes


@pytest.mark.rule("N1")
async def test_a_login_never_goes_to_another_server_of_the_same_label(world: World) -> None:
    await world.login()
    with site(open_app) as other:
        async with world.host(acme=other.url):
            pass
        world.file.rename(
            world.file.with_name(os.path.basename(LoginFile(str(world.directory), "acme", other.url).path))
        )
        async with world.host(acme=other.url):
            pass
        assert other.seen
        assert {authorization for _, authorization in other.seen} == {""}


async def test_two_labels_of_one_server_are_two_logins(world: World) -> None:
    await world.login("work")
    await world.login("home")
    assert len(list(world.directory.iterdir())) == 2
    assert world.logins.logout("work", HttpServer(url=world.server.url)) is True
    assert world.logins.logout("work", HttpServer(url=world.server.url)) is False
    assert world.kept["label"] == "home"


async def test_credentials_of_the_configuration_are_sent_as_they_are(world: World) -> None:
    await world.login()
    world.server.seen.clear()
    server = HttpServer(url=world.server.url, headers={"Authorization": "Bearer own"})
    async with world.host(acme=server) as host:
        (problem,) = host.problems
        assert "HTTP status 401" in problem.message
    assert {authorization for _, authorization in world.server.seen} == {"Bearer own"}
    with pytest.raises(ConfigurationError, match="credentials of its own"):
        await world.logins.login("acme", server, show=world.browse)


def test_a_login_is_not_used_over_plain_http_to_another_machine(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    assert logins("acme", "http://skills.example/mcp") is None
    assert logins("acme", "https://skills.example/mcp") is not None
    assert logins("acme", "https://user:secret@skills.example/mcp") is None
    assert logins("acme", "") is None
    assert logins("acme", "https://${NO_SUCH_VARIABLE}/mcp") is None
    with pytest.raises(ConfigurationError, match="plain http://"):
        logins.logout("acme", HttpServer(url="http://skills.example/mcp"))


def test_a_url_with_variables_is_the_server_it_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLS_AT", "http://skills.example")
    assert Logins(tmp_path)("acme", "${SKILLS_AT}/mcp") is None
    monkeypatch.setenv("SKILLS_AT", "https://skills.example")
    assert Logins(tmp_path)("acme", "${SKILLS_AT}/mcp") is not None


def _unauthorized(at: str) -> Response:
    return Response(status_code=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{at}"'})


async def test_a_login_that_would_go_over_plain_http_to_another_machine_is_refused(world: World) -> None:
    def app(own: Site) -> ASGIApp:
        async def mcp(_: Request) -> Response:
            return _unauthorized(f"{own.base}/resource")

        async def resource(_: Request) -> Response:
            return JSONResponse({"resource": own.url, "authorization_servers": ["http://login.example"]})

        return Starlette(routes=[Route("/mcp", mcp, methods=["POST"]), Route("/resource", resource)])

    with site(app) as own, pytest.raises(UnavailableError, match=r"log in at login\.example over plain http://"):
        await world.logins.login("acme", HttpServer(url=own.url), show=world.browse)
    assert world.shown == []


@pytest.mark.parametrize("where", ["first", "metadata"])
async def test_an_endless_stream_in_the_place_of_an_answer_about_logins_is_not_read(world: World, where: str) -> None:
    def app(own: Site) -> ASGIApp:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"data: x\n\n"
                await anyio.sleep(0.01)

        async def mcp(_: Request) -> Response:
            if where == "first":
                return StreamingResponse(endless(), status_code=401, media_type="text/event-stream")
            return _unauthorized(f"{own.base}/resource")

        async def resource(_: Request) -> Response:
            return StreamingResponse(endless(), media_type="text/event-stream")

        return Starlette(routes=[Route("/mcp", mcp, methods=["POST"]), Route("/resource", resource)])

    with site(app) as own:
        with pytest.raises(UnavailableError, match="answers a login with a stream of events"):
            await world.logins.login("acme", HttpServer(url=own.url), show=world.browse, patience=PATIENCE)
        if where == "first":
            async with world.host(acme=own.url) as host:
                (problem,) = host.problems
                assert "stream of events" in problem.message


async def test_a_server_whose_tokens_are_not_text_is_told_of_in_a_sentence(world: World) -> None:
    def app(own: Site) -> ASGIApp:
        async def mcp(_: Request) -> Response:
            return _unauthorized(f"{own.base}/nothing")

        async def register(_: Request) -> Response:
            uris = ["http://127.0.0.1/callback"]
            return JSONResponse({"client_id": "x", "redirect_uris": uris}, status_code=201)

        async def authorize(request: Request) -> Response:
            there = construct_redirect_uri(
                request.query_params["redirect_uri"], code="x", state=request.query_params["state"]
            )
            return Response(status_code=302, headers={"Location": there})

        async def token(_: Request) -> Response:
            return Response(b"\xff\xfe", status_code=400)

        return Starlette(
            routes=[
                Route("/mcp", mcp, methods=["POST"]),
                Route("/register", register, methods=["POST"]),
                Route("/authorize", authorize),
                Route("/token", token, methods=["POST"]),
            ]
        )

    with site(app) as own, pytest.raises(UnavailableError, match="does not let you log in: 'utf-8' codec"):
        await world.logins.login("acme", HttpServer(url=own.url), show=world.browse)


# The way back of the browser


async def test_strays_on_the_way_back_neither_end_nor_hold_up_a_login(world: World) -> None:
    async def browse(url: str) -> None:
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        place = urlsplit(back)
        async with await anyio.connect_tcp("127.0.0.1", place.port or 0) as idle, httpx2.AsyncClient() as stray:
            base = f"http://127.0.0.1:{place.port}"
            for path in ("/favicon.ico", "/", "/callback", "/callback?state=x", "//callback?code=x"):
                assert (await stray.get(base + path)).status_code == 404
            assert (await stray.post(back, params={"code": "x", "state": "x"})).status_code == 404
            assert (await stray.get(back, params=[("code", str(each)) for each in range(50)])).status_code == 400
            with contextlib.suppress(httpx2.HTTPError):
                await stray.get(back, headers={"x": "x" * 100_000})
            async with await anyio.connect_tcp("127.0.0.1", place.port or 0) as binary:
                await binary.send(b"\x16\x03\x01\xff\r\n\r\n")
                assert b"404" in await binary.receive()
            await world.browse(url)
            assert (await stray.get(back, params={"code": "late", "state": "late"})).status_code == 200
            assert idle

    assert await world.login(show=browse) is True


# The command line


@pytest.fixture
def command(world: World, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `skillquay login` or `logout`, with a state directory of its own."""

    def start(function: str, target: str, **more: Any) -> subprocess.Popen[str]:
        code = (
            "import json, sys; from skillquay.cli import login; from skillquay.cli.hosting import Place\n"
            f"place = Place(workspace={str(tmp_path)!r}, state=None, as_json=False)\n"
            f"sys.exit(login.{function}(place, {target!r}, **json.loads({json.dumps(more)!r})))"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state-home")},
        )

    return start


def _finished(process: subprocess.Popen[str], status: int = 0) -> str:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, err
    return out + err


def test_the_command_shows_the_url_and_ends_when_the_browser_was_there(
    world: World, command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = command("run_login", world.server.url, label="acme", browser=True)
    assert process.stderr is not None
    assert process.stderr.readline() == ('The server "acme" has you log in at 127.0.0.1. Open this in your browser:\n')
    anyio.run(world.browse, process.stderr.readline().strip())
    assert _finished(process) == 'You are logged in to the server "acme".\n'
    (file,) = (tmp_path / "state-home" / "skillquay" / "logins").iterdir()
    assert file.stat().st_size
    assert "is forgotten here" in _finished(command("run_logout", world.server.url, label="acme"))
    assert "There is no login" in _finished(command("run_logout", world.server.url, label="acme"))
    assert not file.exists()


@pytest.mark.rule("P6")
def test_the_command_uses_a_server_of_a_folder_only_once_the_folder_is_trusted(
    world: World, command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    servers = {"acme": {"url": world.server.url}, "here": {"command": "true"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert "You have not trusted this folder" in _finished(command("run_logout", "acme", label=None), 2)
    _trust(tmp_path)
    assert 'There is no login to the server "acme".' in _finished(command("run_logout", "acme", label=None))
    assert "It has: acme, here." in _finished(command("run_logout", "nobody", label=None), 2)
    assert "needs no login" in _finished(command("run_login", "here", label=None, browser=False), 2)


def test_the_command_says_when_a_server_asks_for_no_login(command: Callable[..., subprocess.Popen[str]]) -> None:
    with site(open_app) as free:
        process = command("run_login", free.url, label=None, browser=False)
        assert _finished(process) == 'The server "127.0.0.1" asks for no login.\n'


def _trust(folder: Path) -> None:
    store = Store.open(folder / "state-home" / "skillquay" / "state.sqlite3")
    try:
        store.trust(os.path.realpath(folder), at=time.time())
    finally:
        store.close()
