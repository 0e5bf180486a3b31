"""`skillquay verify`: is everything a server publishes as it lists it? It needs no approvals and keeps nothing."""

from __future__ import annotations

import math
import os
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import anyio
from rich.text import Text

from skillquay.cli.hosting import Place, run_task, waiting, write_json
from skillquay.cli.messages import fail, human_size, path_problem, plural
from skillquay.cli.output import Screen
from skillquay.core.drafts import Assurance
from skillquay.core.findings import Level
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError, LabelError, SkillquayError, UnavailableError
from skillquay.sources.collector import collector_paused

with collector_paused():  # the SDK makes very many objects that stay
    from skillquay.cli.checking import Failure, Report, check_skills
    from skillquay.host.budgets import Budgets
    from skillquay.host.client import SkillsClient
    from skillquay.host.configuration import HttpServer, StdioServer, read_mcp_json
    from skillquay.host.connection import Connection
    from skillquay.host.dialects import Dialects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from skillquay.host.connection import Target

__all__ = ["run"]

_HEADER: Final = re.compile(r"([A-Za-z0-9_-]+):\s*(\S(?:.*\S)?)\s*")
_BUDGETS: Final = Budgets(server_bytes=sys.maxsize)
_MOST_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is to be verified: a directory, or a server; how it is called in messages, and in the document."""

    shown: str
    may_scan: bool = False
    target: str = ""
    directory: str | None = None
    server: StdioServer | HttpServer | None = field(default=None, repr=False)


def run(
    place: Place, target: str | None, command: list[str] | None, *, headers: list[str], scan: bool, yes: bool
) -> int:
    """Verify all that is listed; 1 when something is not as listed, 2 when nothing could be looked at."""
    try:
        wanted = _wanted(place, target, command, headers, yes=yes)
    except SkillquayError as error:
        return fail(error.message)
    wanted = replace(wanted, may_scan=scan or wanted.may_scan)
    return run_task(partial(_verify, wanted, place))


def _wanted(place: Place, target: str | None, command: list[str] | None, headers: list[str], *, yes: bool) -> _Wanted:
    is_url = target is not None and target.lower().startswith(("http://", "https://"))
    if headers and not is_url:
        raise ConfigurationError("--header is for servers at a URL.")
    if (target is None) == (command is None) or command == []:
        raise ConfigurationError("name one thing to verify: a directory, a URL, a server in .mcp.json, or -- COMMAND.")
    if command is not None:
        return _Wanted(
            shown=os.path.basename(command[0]), server=StdioServer(command=command[0], args=tuple(command[1:]))
        )
    assert target is not None
    if is_url:
        asked = HttpServer(url=target, headers=dict(map(_header, headers)))
        return _Wanted(shown=_host(target), target=_bare(target), server=asked)
    configured = read_mcp_json(os.path.join(place.workspace, ".mcp.json"))
    if path_problem(target) is None:
        if any(label.label == target for label in configured.servers):
            sys.stderr.write(
                f'skillquay: "{visible(target)}" is a directory, and a server in .mcp.json; the directory is verified. '
                "For the server, run this from another folder, and name this one with --workspace.\n"
            )
        return _Wanted(shown=target, directory=target)
    for label, server in configured.servers.items():
        if label.label == target:
            if not yes and not _is_trusted(place):
                raise ConfigurationError(
                    f'the folder of this .mcp.json is not trusted, so its server "{target}" is not started. Look at '
                    'the file, then run "skillquay trust", or add --yes for this once.',
                    rule="P6",
                )
            return _Wanted(shown=target, server=server, may_scan=server.may_scan)
    known = ", ".join(label.label for label in configured.servers) or "none"
    told = "".join(f" {problem.message}" for problem in configured.problems[:1])
    raise ConfigurationError(
        f'"{shorten(target)}" is no directory of skills, no http:// or https:// URL, and no server in .mcp.json. '
        f"Servers there: {known}.{told}"
    )


def _header(text: str) -> tuple[str, str]:
    """A header as it is written. Its value may be a secret, and is not shown."""
    match = _HEADER.fullmatch(text)
    if match is None:
        raise ConfigurationError('a --header cannot be used. Write it as "Name: value".')
    return match[1], match[2]


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "URL"
    except ValueError:
        return "URL"


def _bare(url: str) -> str:
    """A URL without what is most often secret in it: user, password, query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _is_trusted(place: Place) -> bool:
    from skillquay.host.host import default_state
    from skillquay.host.store import Store

    store = Store.open(place.state or default_state())
    try:
        return store.is_trusted(os.path.realpath(place.workspace))
    finally:
        store.close()


async def _verify(wanted: _Wanted, place: Place) -> int:
    report = Report()
    failed: SkillquayError | None = None
    with waiting("Connecting") as status:
        progress = _say_nothing if status is None else status.update
        async with _opened(wanted, report) as target, anyio.create_task_group() as tasks:
            connection = Connection(_label(wanted.shown), target, tasks=tasks, budgets=_BUDGETS)
            try:
                asked = _Punctual(connection)
                await asked.connect()
                client = SkillsClient(asked, budgets=_BUDGETS)
                dialects = Dialects(asked, client, budgets=_BUDGETS, may_scan=wanted.may_scan)
                await check_skills(client, dialects, report, progress)
            except SkillquayError as error:
                failed = error
            with anyio.CancelScope(shield=True):
                await connection.closed()
            tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed
    if place.as_json:
        write_json({"target": wanted.target or wanted.shown, **_document(report)})
    else:
        _show(Screen(), report)
    return 1 if report.failures or report.unseen else 0


def _document(report: Report) -> dict[str, Any]:
    """The report for machines, with the short names of dialects and assurances."""
    assert report.dialect is not None, "there was a listing"
    return {
        "ok": not (report.failures or report.unseen),
        **asdict(report),
        "dialect": report.dialect.name.lower(),
        "assurances": {each.name.lower(): report.assurances[each] for each in Assurance if report.assurances[each]},
    }


def _say_nothing(_: str) -> None:
    """Nobody waits at a terminal."""


@asynccontextmanager
async def _opened(wanted: _Wanted, report: Report) -> AsyncIterator[Target]:
    """The server to ask. A directory is served in this process; what cannot be published of it is a failure."""
    if wanted.server is not None:
        yield wanted.server
        return
    from skillquay.server.app import make_server
    from skillquay.server.extension import Skills

    assert wanted.directory is not None
    skills = Skills(wanted.directory, watch=False)
    try:
        await skills.load(log=False)
        report.failures += [
            Failure(skill=remark.location, rule=remark.finding.rule, reason=remark.finding.message)
            for remark in skills.publisher.live.remarks
            if remark.finding.level is Level.ERROR
        ]
        yield make_server("verify", skills)
    finally:
        skills.close()


class _Punctual:
    """A server that must connect, and give its first answer, within the deadline of discovery: it may be hung (B2)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_answered = False

    @property
    def capabilities(self) -> dict[str, Any]:
        """The extensions the server declares."""
        return self._connection.capabilities

    @property
    def announced(self) -> dict[str, Any]:
        """All that it announces."""
        return self._connection.announced

    async def connect(self) -> None:
        """Be connected, soon."""
        with anyio.move_on_after(_BUDGETS.discovery):
            await self._connection.connect()
            return
        raise self._too_late("did not connect")

    async def declared(self) -> dict[str, Any]:
        """The same, of a server that is connected now."""
        return await self._connection.declared()

    async def request(self, method: str, params: Mapping[str, Any], *, cap: int) -> dict[str, Any]:
        """One request; only the first one is hurried."""
        deadline = math.inf if self._has_answered else _BUDGETS.discovery
        with anyio.move_on_after(deadline):
            answer = await self._connection.request(method, params, cap=cap)
            self._has_answered = True
            return answer
        raise self._too_late(f"did not answer {method}")

    def _too_late(self, what: str) -> UnavailableError:
        return UnavailableError(
            f'The server "{self._connection.server}" {what} within {_BUDGETS.discovery:g} seconds. If it needs longer '
            "only the first time, as a command that is downloaded does, start it once by hand."
        )


def _label(shown: str) -> ServerLabel:
    try:
        return ServerLabel(label=shown, scope="verify")
    except LabelError:
        return ServerLabel(label="to verify", scope="verify")


def _show(screen: Screen, report: Report) -> None:
    for assurance in Assurance:
        if count := report.assurances[assurance]:
            screen.line(f"Served as {report.dialect}, {plural(count, 'skill')}: {assurance}.")
    _show_rows(
        screen,
        [
            (_place(each.skill, each.file, "bold"), Text(each.rule, "red"), Text(visible(each.reason)))
            for each in report.failures
        ],
    )
    if report.unread:
        screen.line("Not read:")
        _show_rows(screen, [(_place(each.skill, each.file), Text(visible(each.reason))) for each in report.unread])
    if report.dynamic:
        screen.line(
            f"Generated: {plural(len(report.dynamic), 'skill')}, of which only SKILL.md was read; no digest vouches "
            "for its bytes."
        )
    if report.unlisted:
        screen.line(
            f"Of {plural(len(report.unlisted), 'skill')} only SKILL.md was read: the server does not list other files."
        )
    if report.unseen:
        screen.line(f"The server stopped answering: {plural(report.unseen, 'answer')} were not asked for any more.")
    counts = f"{plural(report.skills, 'skill')}, {plural(report.files, 'file')}, {human_size(report.size)}"
    verdict = plural(len(report.failures), "failure") if report.failures or report.unseen else _verdict(report)
    screen.line(f"{counts}: ", (f"{verdict}.", "bold red" if report.failures or report.unseen else "green"))


def _show_rows(screen: Screen, rows: list[tuple[Text, ...]]) -> None:
    screen.rows(rows[:_MOST_SHOWN])
    if len(rows) > _MOST_SHOWN:
        screen.line(f"  … and {len(rows) - _MOST_SHOWN:,} more; --json has them all.")


def _place(skill: str, file: str, style: str = "") -> Text:
    return Text(visible(skill) + (f" {visible(file)}" if file else ""), style)


def _verdict(report: Report) -> str:
    """What was found where nothing is wrong: only what has a digest can be as listed (I9)."""
    if set(report.assurances) == {Assurance.WHOLE}:
        return "all as listed"
    return "read" if set(report.assurances) == {Assurance.NONE} else "read; what has a digest is as listed"
