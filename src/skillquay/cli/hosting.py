"""What the commands of the host share: where they work, how they begin and fail, how they ask and print."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from skillquay.cli.messages import fail
from skillquay.core.hidden import visible
from skillquay.errors import (
    BudgetError,
    EntryError,
    RefusedError,
    SkillquayError,
    StateError,
    UnknownSkillError,
    UnlistedFileError,
    VerificationError,
)
from skillquay.sources.collector import collector_paused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from rich.status import Status

    from skillquay.core.changes import ManifestChange
    from skillquay.host.approver import Approver
    from skillquay.host.configuration import Problem
    from skillquay.host.directory import KnownSkill
    from skillquay.host.host import SkillHost

__all__ = [
    "Place",
    "agree",
    "can_ask",
    "change_json",
    "exact_time",
    "find",
    "find_all",
    "find_any",
    "problem_json",
    "quiet",
    "run_host",
    "run_task",
    "short_time",
    "state_problem",
    "waiting",
    "write_json",
]

_NO = (RefusedError, VerificationError, EntryError, BudgetError)
_STATE = "approvals"  # what the host says a problem with its own state is about


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command works, and for whom it prints."""

    workspace: str
    state: str | None
    as_json: bool


def run_host(
    place: Place,
    do: Callable[[SkillHost], Awaitable[int]],
    *,
    approver: Approver | None = None,
    ask_servers: bool = True,
    needs_state: bool = True,
) -> int:
    """Start a host, let a command use it, and give the exit status.

    Without `ask_servers` no server is started or asked, and nothing of the folder is read. A command that `needs_state`
    does not run where what was answered cannot be read: it would take the folder for one that is not trusted.
    """
    if not os.path.isdir(place.workspace):
        return fail(f'"{place.workspace}" is not a directory. Name the folder you work in with --workspace.')
    with collector_paused():  # the SDK makes very many objects that stay
        from skillquay.host.host import SkillHost
        from skillquay.host.oauth import Logins

    async def use() -> int:
        trust = None if ask_servers else False
        host = SkillHost(place.workspace, state=place.state, approver=approver, trust=trust, auth=Logins())
        with waiting("Looking for skills"):
            await host.__aenter__()
        try:
            if needs_state and (problem := state_problem(host)) is not None:
                raise StateError(problem.message, rule=problem.rule)
            return await do(host)
        finally:
            await host.__aexit__(None, None, None)

    return run_task(use)


def run_task(task: Callable[[], Awaitable[int]]) -> int:
    """Run a task, and give the exit status: 1 where the answer is no, 2 where there is none."""
    quiet()
    try:
        return anyio.run(task)
    except SkillquayError as error:
        fail(error.message)
        return 1 if isinstance(error, _NO) and not isinstance(error, UnlistedFileError) else 2


def quiet() -> None:
    """Let nobody but skillquay write log lines; what goes wrong is told in sentences."""
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("skillquay: %(message)s"))
    own = logging.getLogger("skillquay")
    own.setLevel(logging.WARNING)
    own.addHandler(handler)
    own.propagate = False


class _OneLine(logging.Formatter):
    """Log lines that no text from outside can break."""

    def format(self, record: logging.LogRecord) -> str:
        """The message alone."""
        return visible(super().format(record))


def state_problem(host: SkillHost) -> Problem | None:
    """Why what was answered cannot be read or written; None when it can."""
    return next((problem for problem in host.problems if problem.subject == _STATE), None)


def find(host: SkillHost, name: str) -> KnownSkill:
    """The skill of this name; who asks for one that is not there is told why that may be."""
    try:
        return host.find(name)
    except UnknownSkillError as error:
        rules = {problem.rule for problem in host.problems}
        hint = 'See those there are with "skillquay skills".'
        if "P6" in rules:
            hint = 'This folder is not trusted: see "skillquay trust".'
        elif any(server.problems for server in map(host.server_of, host.servers)):
            hint = 'Not every server could be asked for all it has: see "skillquay skills".'
        raise UnknownSkillError(f"{error.message} {hint}", rule=error.rule) from None


async def find_any(host: SkillHost, name: str) -> KnownSkill:
    """The same, listed or not: of `label:skill://docs/router/SKILL.md` that server alone is asked (L3, L7, I6)."""
    for server in sorted(host.servers, key=lambda server: len(server.label), reverse=True):
        uri = name.removeprefix(f"{server.label}:")
        if uri != name and "://" in uri:
            with waiting("Asking for the skill"):
                return await host.find_uri(server.label, uri)
    return find(host, name)


async def find_all(host: SkillHost, names: list[str]) -> list[KnownSkill]:
    """The same for several. One that is not listed may give another of its name a longer one."""
    found = [await find_any(host, name) for name in names]
    return [host.get(skill.identity) or skill for skill in found]


def can_ask(place: Place) -> bool:
    """True when a person sees what is printed, and can answer."""
    return not place.as_json and sys.stdin.isatty() and sys.stdout.isatty()


async def agree(question: str) -> bool:
    """Ask a person at the terminal. Anything but yes is no."""
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    line: str = await to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return line.strip().lower() in {"y", "yes"}


@contextmanager
def waiting(text: str) -> Iterator[Status | None]:
    """Tell a person at a terminal that something takes its time."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False, markup=False, emoji=False).status(text) as status:
        yield status


def write_json(document: object) -> None:
    """The one JSON document of a command; whatever is not plain ASCII in it is escaped."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def problem_json(problem: Problem) -> dict[str, str]:
    """Something the user should know of."""
    return {"subject": problem.subject, "rule": problem.rule, "message": problem.message}


def change_json(change: ManifestChange) -> dict[str, Any]:
    """What moved between two manifests."""
    return {
        "added": list(change.added),
        "removed": list(change.removed),
        "rewritten": list(change.rewritten),
        "became_dynamic": change.became_dynamic,
        "frontmatter_changed": change.frontmatter_changed,
        "served_as": change.served_as or None,
    }


def exact_time(at: float | None) -> str | None:
    """A moment for machines, in UTC."""
    if at is None:
        return None
    moment = _moment(partial(datetime.fromtimestamp, at, UTC))
    return None if moment is None else moment.isoformat()


def short_time(at: float) -> str:
    """A moment for people, on their own clock."""
    moment = _moment(lambda: datetime.fromtimestamp(at, UTC).astimezone())
    return "some time" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def _moment(make: Callable[[], datetime]) -> datetime | None:
    """A damaged row may hold any number."""
    try:
        return make()
    except (OverflowError, ValueError, OSError):
        return None
