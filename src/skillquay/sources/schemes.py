"""The schemes that skills may be published under: `skill`, or one that their source has of its own (I6, X3)."""

from __future__ import annotations

import re
from typing import Final

from skillquay.core.hidden import shorten
from skillquay.core.uris import LOCAL_SCHEMES
from skillquay.errors import UriError

__all__ = ["check_scheme"]

_FORM: Final = re.compile(r"[a-z][a-z0-9+.-]{0,63}")
# A client would follow these itself, past the server that names them.
_OPENED_BY_CLIENTS: Final = frozenset(
    {"dns", "ftp", "ftps", "gopher", "http", "https", "ldap", "ldaps", "mailto", "mcp", "news", "sftp", "sms", "ssh"}
    | {"tel", "telnet", "ui", "urn", "ws", "wss"}
)


def check_scheme(scheme: str) -> str:
    """The scheme, if a server may publish skills under it."""
    shown = shorten(scheme)
    if not _FORM.fullmatch(scheme):
        raise UriError(f'"{shown}" is not a scheme. Give its name alone, in lowercase, such as github.', rule="I6")
    parts = {scheme, *scheme.split("+")}
    if not parts.isdisjoint(LOCAL_SCHEMES):
        raise UriError(
            f'"{shown}" names something on the reader\'s own machine. Use skill, or a scheme of your own.', rule="X3"
        )
    if not parts.isdisjoint(_OPENED_BY_CLIENTS):
        raise UriError(f'Clients would open "{shown}" URIs themselves. Use skill, or a scheme of your own.', rule="I6")
    return scheme
