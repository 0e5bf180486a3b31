"""The servers of a host, kept in step with what is configured and what was given in code (N1, K3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from skillquay.core.hidden import shorten, visible
from skillquay.errors import UnavailableError, UnknownSkillError
from skillquay.host.configuration import Problem
from skillquay.host.servers import SkillServer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import httpx2
    from anyio.abc import TaskGroup

    from skillquay.core.identity import ServerLabel
    from skillquay.host.budgets import Budgets
    from skillquay.host.connection import Handshake, Target

__all__ = ["Roster"]


class Roster:
    """Every server under one label that no other server has, or looks like having."""

    def __init__(
        self,
        *,
        tasks: TaskGroup,
        budgets: Budgets,
        auth: Callable[[str, str], httpx2.Auth | None] | None,
        handshake: Handshake,
        scan: Collection[str] = (),
    ) -> None:
        self.problems: tuple[Problem, ...] = ()
        self._servers: dict[ServerLabel, SkillServer] = {}
        self._targets: dict[ServerLabel, Target] = {}
        self._tasks, self._budgets, self._auth, self._handshake = tasks, budgets, auth, handshake
        self._scan = frozenset(scan)
        self._parsing = anyio.CapacityLimiter(1)  # listings take turns

    def __iter__(self) -> Iterator[SkillServer]:
        return iter(tuple(self._servers.values()))

    @property
    def labels(self) -> tuple[ServerLabel, ...]:
        """The labels, in order."""
        return tuple(sorted(self._servers))

    def update(
        self, given: Mapping[ServerLabel, Target], configured: Mapping[ServerLabel, Target]
    ) -> list[ServerLabel]:
        """Have these servers and no others; gives back those that are gone. One whose target changed begins anew.

        A configured server whose label looks like that of another is not used: nobody could tell the two apart.
        """
        wanted = dict(given)
        taken = {label.looks for label in wanted}
        problems = []
        for label, target in configured.items():
            if label.looks in taken:
                message = "Another server here has this label, or one that looks like it. Give it another label."
                problems.append(Problem(subject=f'server "{visible(label.label)}"', message=message, rule="N1"))
            else:
                taken.add(label.looks)
                wanted[label] = target
        self.problems = tuple(problems)
        gone = [label for label in self._servers if label not in wanted]
        for label in [label for label in self._servers if label not in wanted or self._targets[label] != wanted[label]]:
            self._servers.pop(label).connection.close()
            del self._targets[label]
        for label, target in wanted.items():
            if label not in self._servers:
                self._targets[label] = target
                self._servers[label] = self._made(label, target)
        return gone

    def of(self, label: ServerLabel) -> SkillServer:
        """The server of this label. One that was removed is not asked any more."""
        if label not in self._servers:
            raise UnavailableError(f'The server "{label}" is not configured any more.')
        return self._servers[label]

    def named(self, label: str) -> SkillServer:
        """The server of this name."""
        for each, server in self._servers.items():
            if each.label == label:
                return server
        known = ", ".join(each.label for each in self.labels) or "none"
        raise UnknownSkillError(f'There is no server "{shorten(label)}". There are: {known}.', rule="N1")

    async def close(self) -> None:
        """Let all of them go, each in its own time."""
        async with anyio.create_task_group() as closing:
            for server in self._servers.values():
                closing.start_soon(server.connection.closed)

    def _made(self, label: ServerLabel, target: Target) -> SkillServer:
        auth = None if self._auth is None else self._auth(label.label, getattr(target, "url", ""))
        return SkillServer(
            label,
            target,
            tasks=self._tasks,
            budgets=self._budgets,
            auth=auth,
            handshake=self._handshake,
            parsing=self._parsing,
            may_scan=label.label in self._scan,
        )
