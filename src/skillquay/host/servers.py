"""The servers of a host: each asked on its own, so that one that fails is told of and the others work (B2)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

from skillquay.archives.budgets import Allowance
from skillquay.core.hidden import shorten
from skillquay.core.identity import ServerLabel
from skillquay.core.lookalikes import Places
from skillquay.errors import ConfigurationError, SkillquayError
from skillquay.host.client import SkillsClient
from skillquay.host.configuration import HttpServer, Problem, StdioServer
from skillquay.host.connection import Connection
from skillquay.host.dialects import Dialects
from skillquay.host.listing import Listing, Received

if TYPE_CHECKING:
    import httpx2
    from anyio.abc import TaskGroup

    from skillquay.core.uris import SkillUri
    from skillquay.host.budgets import Budgets
    from skillquay.host.connection import Handshake, Target

__all__ = ["SkillServer", "given_server"]


class SkillServer:
    """One server as the host knows it: its label, what it listed last, and what is the matter with it."""

    def __init__(
        self,
        label: ServerLabel,
        target: Target,
        *,
        tasks: TaskGroup,
        budgets: Budgets,
        auth: httpx2.Auth | None = None,
        handshake: Handshake = "auto",
        parsing: anyio.CapacityLimiter | None = None,
        may_scan: bool = False,
    ) -> None:
        self.label = label
        self.target = target
        self.connection = Connection(label, target, tasks=tasks, budgets=budgets, auth=auth, handshake=handshake)
        self.client = SkillsClient(self.connection, budgets=budgets, parsing=parsing)
        self.dialects = Dialects(
            self.connection, self.client, budgets=budgets, may_scan=may_scan or getattr(target, "may_scan", False)
        )
        self.unpacking = Allowance(budgets.server_bytes)
        self.problems: tuple[Problem, ...] = ()
        self.declares_skills = False
        self.skills: dict[tuple[str, ...], Received] = {}
        self.refused_uris: tuple[SkillUri, ...] = ()
        self._budgets = budgets
        self._parsing = parsing
        self._current_until = 0.0
        self._unlisted: dict[tuple[str, ...], None] = {}
        self._places: Places | None = None

    @property
    def places(self) -> Places:
        """Where its skills are; found out once for each listing."""
        if self._places is None:
            self._places = Places.of(received.entry for received in self.skills.values())
        return self._places

    @property
    def is_stale(self) -> bool:
        """True when the listing is not known to be current: never made, failed, ended, or told to have changed (L6)."""
        return self.connection.changed or time.monotonic() >= self._current_until

    async def discover(self) -> None:
        """List what the server publishes, within the deadline of discovery; whatever fails becomes a problem.

        The pages of a listing that breaks off are used. Nothing that failed or came back empty counts as current (B2).
        """
        listing = Listing()
        problems: list[Problem] = []
        self.connection.changed = False
        self.unpacking.renew()
        with anyio.move_on_after(self._budgets.discovery) as deadline:
            try:
                await self.connection.connect()
                self.declares_skills = self.client.declares_skills
                await self.dialects.list_skills(listing)
            except SkillquayError as error:
                problems.append(self._problem(error.message, error.rule))
        if deadline.cancelled_caught:
            seconds = f"{self._budgets.discovery:g} seconds"
            problems.append(self._problem(f"It did not answer within {seconds}, and is left out.", "B2"))
        self.declares_skills = self.declares_skills or self.dialects.spoken.dialect is not None
        await to_thread.run_sync(listing.settle, limiter=self._parsing)
        if (problems or deadline.cancelled_caught) and (listing.pages or listing.received):
            problems.append(self._problem("Its listing broke off; the skills that came before are used.", "L3"))
        problems.extend(self._problem(remark, "L4") for remark in listing.remarks)
        problems.extend(self._problem(f"{each.uri} is refused: {each.reason}", each.rule) for each in listing.refused)
        self._current_until = 0.0
        if listing.received and not problems:
            self._current_until = min(each.expires for each in listing.received)
        self.skills = {each.entry.identity.key: each for each in listing.received}
        self._unlisted.clear()
        self._places = await to_thread.run_sync(Places.of, [each.entry for each in listing.received])
        self.refused_uris = listing.refused_uris
        self.problems = tuple(problems)

    def rest(self) -> None:
        """Its user switched it off: it is not asked, nor left running."""
        self.connection.rest()
        self.skills, self.refused_uris, self.declares_skills, self._current_until = {}, (), False, 0.0
        self._unlisted.clear()
        self._places = None
        self.problems = (self._problem(f'It is disabled. Enable it with "skillquay enable {self.label}".', "A5"),)

    def hold(self, received: Received) -> None:
        """Put a fresh entry in place of the one that was known.

        Of skills that are not listed, the oldest make room for this one where there would be too many (L4).
        """
        key = received.entry.identity.key
        if key in self._unlisted or key not in self.skills:
            self._unlisted.pop(key, None)
            self._unlisted[key] = None
        self.skills[key] = received
        self._places = self.places.plus(received.entry)
        while len(self.skills) > self._budgets.entries and len(self._unlisted) > 1:
            oldest = next(iter(self._unlisted))
            del self._unlisted[oldest], self.skills[oldest]

    def _problem(self, message: str, rule: str) -> Problem:
        return Problem(subject=f'server "{self.label}"', message=message, rule=rule)


def given_server(label: str, target: object) -> tuple[ServerLabel, Target]:
    """A server given in code: a URL, a command with its arguments, a configuration, or a server in this process.

    Its label is tied to what it was given as, so that another program's server of the same label is another one (N1).
    """
    match target:
        case Server() | MCPServer():
            return ServerLabel(label=label, scope="in this process"), target
        case StdioServer() | HttpServer():
            return ServerLabel(label=label, scope=_scope(label, target)), target
        case str() if target.lower().startswith(("http://", "https://")):
            return given_server(label, HttpServer(url=target))
        case Sequence() if target and not isinstance(target, str) and all(isinstance(part, str) for part in target):
            return given_server(label, StdioServer(command=target[0], args=tuple(target[1:])))
        case _:
            raise ConfigurationError(
                f'The server "{label}" is given as {type(target).__name__}. Give a URL that begins with http:// or '
                "https://, a list of a command and its arguments, or a server object."
            )


def _scope(label: str, target: StdioServer | HttpServer) -> str:
    """What the label is tied to. Arguments and URLs may hold secrets: only their hash is kept and shown."""
    if isinstance(target, HttpServer):
        try:
            shown, whole = urlsplit(target.url).hostname or "", [target.url]
        except ValueError:
            message = f'The URL of the server "{shorten(label)}" has no host that can be read. Correct it.'
            raise ConfigurationError(message) from None
    else:
        shown, whole = target.command, [target.command, *target.args, target.cwd or ""]
    return f"given in code: {shown} #{sha256(json.dumps(whole).encode()).hexdigest()[:16]}"
