"""Read `.mcp.json`: its servers one by one, with nothing of them expanded before the folder is trusted (P4, P6, N1)."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError, LabelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Configuration", "HttpServer", "Problem", "StdioServer", "expand", "read_mcp_json"]

MAX_FILE: Final = 1024 * 1024
_SERVERS: Final = "mcpServers"
_TRANSPORTS: Final = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
}
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_VALUE: Final = re.compile("[\x00\ud800-\udfff]")
_HEADER_VALUE: Final = re.compile(r"(?:[!-~]+(?:[ \t]+[!-~]+)*+)?")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something the user should know of: what it is about, what is the matter and what to do, and by which rule."""

    subject: str
    message: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A server that is a process. Arguments and the environment may hold secrets and are never shown."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    cwd: str | None = None
    may_scan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server at a URL. Headers, and all of the URL but its host, may hold secrets and are never shown."""

    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    may_scan: bool = False

    def __repr__(self) -> str:
        return f"HttpServer(host={_host(self.url)!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The servers of one file, and what of it could not be used."""

    servers: Mapping[ServerLabel, StdioServer | HttpServer]
    problems: tuple[Problem, ...] = ()


def read_mcp_json(path: str) -> Configuration:
    """The servers a file configures, as written: no variable is looked up. One bad server never loses the others.

    A file that is not there configures nothing. The label of a server is its key, tied to this file (N1).
    """
    try:
        listed = _listed(path)
    except FileNotFoundError:
        return Configuration(servers=MappingProxyType({}))
    except (ConfigurationError, OSError) as error:
        reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        problem = Problem(subject=visible(path), message=f"The file {reason}. No server of it is used.", rule="P4")
        return Configuration(servers=MappingProxyType({}), problems=(problem,))
    scope = os.path.realpath(path)
    servers: dict[ServerLabel, StdioServer | HttpServer] = {}
    problems: list[Problem] = []
    for key, raw in listed.items():
        try:
            label = ServerLabel(label=key, scope=scope)
            if key in listed.repeated:
                raise ConfigurationError("is configured more than once")
            servers[label] = _server(raw)
        except LabelError as error:
            problems.append(Problem(subject=shorten(key), message=f"{error.message} It is not used.", rule=error.rule))
        except ConfigurationError as error:
            message = f'The server "{shorten(key)}" {error.message}. It is not used.'
            problems.append(Problem(subject=shorten(key), message=message, rule=error.rule))
    return Configuration(servers=MappingProxyType(servers), problems=tuple(problems))


def expand(server: StdioServer | HttpServer, environment: Mapping[str, str]) -> StdioServer | HttpServer:
    """The server with `${VAR}` and `${VAR:-default}` replaced, once: what a variable holds is not expanded again.

    Only for a configuration the user trusts (P6): a value may carry a secret to wherever the file says.
    """
    missing: dict[str, None] = {}

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        if name not in environment and default is None:
            missing[name] = None
        return environment.get(name, default or "")

    def expanded(text: str) -> str:
        return _VARIABLE.sub(value_of, text)

    def all_of(texts: Mapping[str, str]) -> Mapping[str, str]:
        return MappingProxyType({name: expanded(text) for name, text in texts.items()})

    result: StdioServer | HttpServer
    if isinstance(server, StdioServer):
        result = replace(
            server,
            command=expanded(server.command),
            args=tuple(map(expanded, server.args)),
            env=all_of(server.env),
            cwd=None if server.cwd is None else expanded(server.cwd),
        )
    else:
        result = replace(server, url=expanded(server.url), headers=all_of(server.headers))
    if missing:
        names = ", ".join(missing)
        what = f"variable {names} is" if len(missing) == 1 else f"variables {names} are"
        first = next(iter(missing))
        raise ConfigurationError(f"The environment {what} not set. Set it, or write ${{{first}:-default}}.")
    if isinstance(result, HttpServer):
        _check_url(result.url)
        _check_headers(result.headers)
    elif not result.command:
        raise ConfigurationError("The command is empty once its variables are replaced. Check what they hold.")
    return result


class _Object(dict[str, object]):
    """A JSON object that remembers which of its keys were written more than once."""

    repeated: frozenset[str]

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        super().__init__()
        repeated: set[str] = set()
        for key, value in pairs:
            if key in self:
                repeated.add(key)
            self[key] = value
        self.repeated = frozenset(repeated)


def _listed(path: str) -> _Object:
    """What stands under `mcpServers`, each server still unchecked."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ConfigurationError("is not a regular file")
        with open(fd, "rb", closefd=False) as file:
            data = file.read(MAX_FILE + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_FILE:
        raise ConfigurationError(f"has more than {MAX_FILE:,} bytes")
    try:
        whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Object)
    except UnicodeDecodeError:
        raise ConfigurationError("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"is not JSON: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError):
        raise ConfigurationError("is not JSON that can be read: a number is too long, or it is too deep") from None
    if not isinstance(whole, _Object) or not isinstance(servers := whole.get(_SERVERS), _Object):
        raise ConfigurationError(f'has no object "{_SERVERS}" at its top')
    if _SERVERS in whole.repeated:
        raise ConfigurationError(f'has "{_SERVERS}" more than once')
    return servers


def _server(raw: object) -> StdioServer | HttpServer:
    if not isinstance(raw, _Object):
        raise ConfigurationError("is not an object")
    if raw.repeated:
        raise ConfigurationError(f'has "{shorten(min(raw.repeated))}" more than once')
    if "command" in raw and "url" in raw:
        raise ConfigurationError('has both a "command" and a "url"; keep one of them')
    if "command" not in raw and "url" not in raw:
        raise ConfigurationError('has neither a "command" nor a "url"')
    transport = raw.get("type")
    if transport is not None:
        wanted = _TRANSPORTS.get(transport) if isinstance(transport, str) else None
        if wanted is None:
            shown = shorten(transport) if isinstance(transport, str) else "something else than text"
            raise ConfigurationError(f'is of the type "{shown}", which is not spoken here; use "stdio" or "http"')
        if wanted not in raw:
            raise ConfigurationError(f'is of the type "{transport}" and has no "{wanted}"')
    if "url" in raw:
        return _http(raw)
    command = _text(raw["command"], "command")
    if not command:
        raise ConfigurationError('has an empty "command"')
    env = _texts(raw, "env")
    for name in env:
        if not name or "=" in name:
            raise ConfigurationError(f'has "{shorten(name)}" in "env", which cannot name a variable')
    args = raw.get("args")
    if not isinstance(args, list | None):
        raise ConfigurationError('has "args" that are not an array')
    return StdioServer(
        command=command,
        args=tuple(_text(each, f"args[{index}]") for index, each in enumerate(args or ())),
        env=env,
        cwd=None if raw.get("cwd") is None else _text(raw["cwd"], "cwd"),
        may_scan=_may_scan(raw),
    )


def _http(raw: _Object) -> HttpServer:
    url = _text(raw["url"], "url")
    if not _VARIABLE.search(url):
        try:
            _check_url(url)
        except ConfigurationError:
            raise ConfigurationError('has a "url" that is not one of http:// or https:// with a host') from None
    headers = _texts(raw, "headers")
    for name in headers:
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f'has "{shorten(name)}" in "headers", which cannot name a header')
    return HttpServer(url=url, headers=headers, may_scan=_may_scan(raw))


def _may_scan(raw: _Object) -> bool:
    """May the server's resources be searched for bare `SKILL.md` files? Not unless it says so (I11)."""
    value = raw.get("scanForSkills", False)
    if not isinstance(value, bool):
        raise ConfigurationError('has "scanForSkills" that is neither true nor false')
    return value


def _texts(raw: _Object, key: str) -> Mapping[str, str]:
    values = raw.get(key)
    if values is None:
        return _NOTHING
    if not isinstance(values, _Object):
        raise ConfigurationError(f'has "{key}" that is not an object')
    if values.repeated:
        raise ConfigurationError(f'has "{shorten(min(values.repeated))}" more than once in "{key}"')
    for name in values:
        _text(name, key)
    return MappingProxyType({name: _text(value, f"{key}.{shorten(name)}") for name, value in values.items()})


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f'has "{place}" that is not text; put it in quotes')
    if _NOT_IN_A_VALUE.search(value):
        raise ConfigurationError(f'has a character in "{place}" that no process and no server can be given')
    return value


def _check_url(url: str) -> None:
    """The URL is not shown: it may hold a secret, or a variable's value."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and visible(url) == url and " " not in url
        usable = usable and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError("The URL of the server is not one of http:// or https:// with a host. Correct it.")


def _check_headers(headers: Mapping[str, str]) -> None:
    """Refuse what cannot be sent, without showing it: an error that comes later might quote the secret."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(
                f'There is "{shorten(name)}" among the headers, which cannot name one. Correct it.'
            )
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(
                f'The header "{shorten(name)}" would hold a line break, a control character, a letter that is not '
                "ASCII, or a blank before or after its value. Correct it."
            )


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
