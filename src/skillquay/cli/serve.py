"""`skillquay serve`: publish directories of skills, over HTTP or standard input and output.

The SDK takes longer to import than a few thousand skills to read, so that another process reads them in the meantime.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from skillquay.cli.messages import fail, path_problem, plural
from skillquay.core.catalog import name_findings, nesting_note
from skillquay.core.findings import Level
from skillquay.core.hidden import visible
from skillquay.core.uris import SkillUri
from skillquay.errors import UriError
from skillquay.server.python_file import PythonFileError, is_python
from skillquay.sources.collector import collector_paused
from skillquay.sources.headstart import HeadStart
from skillquay.sources.live import LiveCatalog
from skillquay.sources.schemes import check_scheme
from skillquay.sources.tree import DirectorySource

if TYPE_CHECKING:
    from skillquay.server.extension import Dialect, Skills
    from skillquay.server.run import Settings

__all__ = ["run"]

_MOST_REMARKS = 20


def run(
    paths: list[str],
    *,
    http: str,
    stdio: bool,
    name: str,
    prefix: str,
    scheme: str,
    page_size: int,
    ttl: float,
    watch: bool,
    index: bool,
    dialect: Dialect,
    workers: int,
    token_file: str | None,
    allowed_hosts: list[str],
    insecure: bool,
    strict: bool,
) -> int:
    """Check what was asked for, say what is served, and serve it."""
    segments: tuple[str, ...] = ()
    for path in paths:
        if path.endswith(".py"):
            return fail(f'"{path}" is a Python file. Name the Skills object in it, such as {path}:skills.')
        if not is_python(path) and (problem := path_problem(path)):
            return fail(problem)
    if not math.isfinite(ttl):
        return fail("--ttl is a number of seconds.")
    if prefix:
        try:
            segments = SkillUri.build(prefix.strip("/").split("/")).segments
        except UriError as error:
            return fail(f"--prefix cannot be used: {error.message}")
    try:
        check_scheme(scheme)
    except UriError as error:
        return fail(f"--scheme cannot be used: {error.message}")
    _log_to_stderr()
    ahead = None
    index_directory = _index_directory()
    if workers == 1 and not any(map(is_python, paths)):
        sources = [DirectorySource(path, prefix=segments, scheme=scheme, strict=strict) for path in paths]
        ahead = HeadStart(LiveCatalog(sources, index_directory=index_directory))
    try:
        with collector_paused():  # the SDK makes very many objects that stay
            from skillquay.server.run import Settings, run_stdio

        settings = Settings(
            paths=tuple(paths),
            name=name,
            prefix=prefix,
            scheme=scheme,
            page_size=page_size,
            ttl=ttl,
            watch=watch,
            strict=strict,
            index=index,
            dialect=dialect,
            tokens=_tokens(token_file),
            allowed_hosts=tuple(allowed_hosts),
            index_directory=index_directory,
        )
        if not stdio:
            return _serve_http(settings, http, workers=workers, insecure=insecure, ahead=ahead)
        run_stdio(settings, partial(_report, settings=settings, client=_stdio_line(settings)), ahead=ahead)
        return 0
    except _UnusableTokensError as error:
        return fail(str(error))
    except PythonFileError as error:
        return fail(str(error))
    finally:
        if ahead is not None:
            ahead.abandon()


class _UnusableTokensError(Exception):
    """The token file cannot be used; the message says why."""


def _tokens(path: str | None) -> tuple[str, ...]:
    from skillquay.server.access import TokenFileError, parse_tokens

    if path is None:
        return ()
    try:
        with open(path, encoding="utf-8") as file:
            return tuple(parse_tokens(file.read()))
    except (OSError, UnicodeDecodeError, TokenFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _UnusableTokensError(f'the token file "{path}" cannot be used: {reason}') from None


def _serve_http(settings: Settings, http: str, *, workers: int, insecure: bool, ahead: HeadStart | None) -> int:
    from skillquay.server.access import is_loopback
    from skillquay.server.run import run_http

    address = _address(http)
    if address is None:
        return fail(f'"{http}" is not an address. Write it as HOST:PORT, such as 127.0.0.1:8000.')
    host, port = address
    if not is_loopback(host) and not settings.tokens and not insecure:
        return fail(
            f"{host} can be reached from other machines. Give the tokens that clients must send with --token-file, or "
            "say --insecure if everybody who can reach it may read the skills."
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        return fail(f"cannot listen on {http}: {(error.strerror or str(error)).lower()}. Choose another with --http.")
    bound = listening.getsockname()[1]
    url = f"http://{f'[{host}]' if ':' in host else host}:{bound}/mcp"
    report = partial(_report, settings=settings, client=_http_line(settings, url))
    if workers > 1:
        from skillquay.server.workers import run_workers

        settings.make()  # what is wrong with a Python file is told once, here
        return run_workers(settings, listening, workers, begin=_log_to_stderr, on_ready=report)
    run_http(settings, [listening], report, ahead=ahead)
    return 0


def _address(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        return None
    return host, int(port)


def _http_line(settings: Settings, url: str) -> dict[str, object]:
    server: dict[str, object] = {"type": "http", "url": url}
    if settings.tokens:
        server["headers"] = {"Authorization": "Bearer ${SKILLQUAY_TOKEN}"}
    return server


def _stdio_line(settings: Settings) -> dict[str, object]:
    from skillquay.server.run import Settings

    arguments = ["serve", *(os.path.abspath(path) for path in settings.paths), "--stdio"]
    default = Settings(paths=())
    if settings.name != default.name:
        arguments += ["--name", settings.name]
    if settings.prefix:
        arguments += ["--prefix", settings.prefix]
    if settings.scheme != default.scheme:
        arguments += ["--scheme", settings.scheme]
    if settings.page_size != default.page_size:
        arguments += ["--page-size", str(settings.page_size)]
    if settings.ttl != default.ttl:
        arguments += ["--ttl", f"{settings.ttl:g}"]
    arguments += ["--no-watch"] * (not settings.watch) + ["--strict"] * settings.strict
    arguments += ["--no-index"] * (not settings.index)
    if settings.dialect != default.dialect:
        arguments += ["--dialect", settings.dialect]
    return {"command": "skillquay", "args": arguments}


def _report(skills: Skills, settings: Settings, client: dict[str, object]) -> None:
    """Say what is served, what is not and why, and how a client gets it. Standard output is the protocol's on stdio."""
    live = skills.publisher.live
    catalog = live.catalog
    named = skills.sep2076
    count = len(catalog) if named is None else len(named)
    lines = [f"Serving {plural(count, 'skill')} from {', '.join(visible(path) for path in settings.paths)}."]
    refused = [remark for remark in live.remarks if remark.finding.level is Level.ERROR]
    warned = len(live.remarks) - len(refused)
    if refused:
        lines.append(f"Not published ({len({remark.location for remark in refused}):,}):")
        lines += [
            f"  {visible(remark.location)}: {visible(remark.finding.message)} [{remark.finding.rule}]"
            for remark in refused[:_MOST_REMARKS]
        ]
        if len(refused) > _MOST_REMARKS:
            lines.append(f"  … and {len(refused) - _MOST_REMARKS:,} more reasons.")
    lines += [
        f"Warning: {visible(finding.message)}"
        for finding in name_findings(each.uri for each in catalog.listed)
        if named is None or finding.kind != "same-name"  # what that means by name is told below
    ]
    if skills.publisher.has_index and (note := nesting_note(catalog)):
        lines.append(f"Note: {note}")
    if named is not None:
        told = named.remarks()
        lines += [f"Warning: {visible(remark)}" for remark in told[:_MOST_REMARKS]]
        if len(told) > _MOST_REMARKS:
            lines.append(f"  … and {len(told) - _MOST_REMARKS:,} more reasons.")
    if refused or warned:
        hint = " ".join(visible(path) for path in settings.paths)
        lines.append(f'See all {plural(len(live.remarks), "finding")} with "skillquay lint {hint}".')
    lines.append("For a client's .mcp.json:")
    lines.append(f"  {json.dumps({'mcpServers': {settings.name: client}}, ensure_ascii=False)}")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


class _Visible(logging.Formatter):
    """Log lines that no text from outside can break or forge."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """One line."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        """A traceback, each line of it set off."""
        return "\n".join(f"  {visible(line)}" for line in super().formatException(ei).splitlines())


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Visible("skillquay: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("skillquay").setLevel(logging.INFO)


def _index_directory() -> str | None:
    from platformdirs import user_cache_dir

    try:
        return os.path.join(user_cache_dir("skillquay"), "served")
    except RuntimeError:  # a user without a home
        logging.getLogger(__name__).warning("There is no cache directory; set XDG_CACHE_HOME for faster starts.")
        return None
