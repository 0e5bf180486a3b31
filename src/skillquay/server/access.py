"""Who may talk to the HTTP server: a Host header nobody could have forged, an Origin of our own, a token (B3)."""

from __future__ import annotations

import hmac
import ipaddress
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["HostGuard", "TokenFileError", "Tokens", "is_loopback", "parse_tokens"]

_HOST: Final = re.compile(r"(?:(?P<name>[a-z0-9._-]+)|\[(?P<address>[0-9a-f:.]+)\])(?::[0-9]{1,5})?")
_SHORTEST_TOKEN: Final = 16
_VISIBLE_ASCII: Final = re.compile("[!-~]+")


class TokenFileError(ValueError):
    """A token file cannot be used; the message says what to do."""


class Tokens:
    """A verifier of static bearer tokens, which compares in constant time and keeps no token in memory."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._digests = [sha256(token.encode()).digest() for token in tokens]

    async def verify_token(self, token: str) -> AccessToken | None:
        """The caller, named by a digest of the token, or None. Every token is compared, whether or not one fits."""
        given = sha256(token.encode("utf-8", "surrogateescape")).digest()
        fits = [hmac.compare_digest(given, digest) for digest in self._digests]
        return AccessToken(token="", client_id=given.hex()[:16], scopes=[]) if any(fits) else None


def parse_tokens(text: str) -> list[str]:
    """One token a line; empty lines and lines that begin with `#` do not count."""
    tokens = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not tokens:
        raise TokenFileError("It holds no token. Write one a line, such as the output of: openssl rand -hex 32")
    if any(len(token) < _SHORTEST_TOKEN or not _VISIBLE_ASCII.fullmatch(token) for token in tokens):
        raise TokenFileError(f"A token is at least {_SHORTEST_TOKEN} ASCII characters without spaces.")
    return tokens


def is_loopback(host: str) -> bool:
    """True for an address that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HostGuard:
    """Refuse requests that a web page smuggled in through a name of its own (DNS rebinding).

    An address cannot be rebound, so every one is fine as a Host; of names, only `localhost` and the allowed ones are.
    An Origin, which only browsers send, must be of the same host.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str] = ()) -> None:
        self._app = app
        self._allowed = {"localhost", *(name.lower() for name in allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may come in."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            hosts, origins = headers.getlist("host"), headers.getlist("origin")
            host = hosts[0] if len(hosts) == 1 else ""
            if not self._is_allowed(host):
                hint = "If this name is meant to lead here, start the server with --allow-host and the name."
                await PlainTextResponse(f"This Host is not served. {hint}\n", 421)(scope, receive, send)
                return
            if any(origin.partition("://")[2].lower() != host.lower() for origin in origins):
                await PlainTextResponse("This Origin is not served.\n", 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        match = _HOST.fullmatch(host.lower())
        if match is None:
            return False
        if (name := match["name"]) in self._allowed:
            return True
        try:
            ipaddress.ip_address(name or match["address"])
        except ValueError:
            return False
        return True
