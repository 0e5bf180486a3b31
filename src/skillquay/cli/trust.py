"""`skillquay trust`: show what trusting a folder would start and load, then remember the answer (P6)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import to_thread
from rich.text import Text

from skillquay.cli.hosting import Place, agree, can_ask, problem_json, run_host, write_json
from skillquay.cli.messages import fail
from skillquay.cli.output import Screen
from skillquay.core.hidden import visible
from skillquay.core.registry import LocalScope
from skillquay.host.configuration import StdioServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillquay.core.identity import ServerLabel
    from skillquay.host.configuration import HttpServer, Problem
    from skillquay.host.host import SkillHost
    from skillquay.host.local import LocalEntry

__all__ = ["run", "show_offer"]


def run(place: Place, *, no: bool, yes: bool) -> int:
    """Trust the folder, or take it back; 1 when the person says no. No server is started for it."""
    do = _take_back if no else partial(_trust, yes=yes)
    return run_host(place, partial(do, place=place), ask_servers=False)


async def show_offer(host: SkillHost, screen: Screen) -> None:
    """What trusting the folder means: the servers it would start or ask, the skills it would load."""
    servers, skills, problems = await _offer(host)
    screen.line(("Trusting ", ""), (visible(host.workspace.folder or ""), "bold"), (" means:", ""))
    if not servers and not skills:
        screen.line("  Nothing yet: it has no servers and no skills.")
    if servers:
        screen.line("  These servers are started or asked, with the rights you have:")
        screen.rows(
            ((Text(label.label, "bold"), Text(_reached(server))) for label, server in servers.items()), indent=4
        )
    if skills:
        screen.line("  These skills count as your own, and are loaded without asking you:")
        screen.rows(
            (
                (Text(visible(skill.name), "bold"), Text(visible(" ".join(skill.description.split()))))
                for skill in skills
            ),
            indent=4,
        )
    for problem in problems:
        screen.line(f"  {visible(problem.subject)}: {visible(problem.message)} [{problem.rule}]")


async def _trust(host: SkillHost, *, place: Place, yes: bool) -> int:
    store, folder = host.consent.store, host.workspace.folder or ""
    trusted = await to_thread.run_sync(store.is_trusted, folder)
    if not trusted and not yes and not can_ask(place):
        return fail(
            "there is nobody to ask: this is not a terminal. Look at the folder's .mcp.json and its skills, then add "
            "--yes."
        )
    asked = not trusted
    if not place.as_json and not trusted:
        await show_offer(host, Screen())
    if not trusted and (yes or await agree("Trust this folder?")):
        await host.people.trust(yes=True)
        trusted = True
    if place.as_json:
        await _write_json(host, trusted=trusted)
    elif trusted:
        Screen().line(
            f'{visible(folder)} is trusted{"" if asked else " already"}. See its skills with "skillquay skills".'
        )
    else:
        Screen().line(f"{visible(folder)} is not trusted.")
    return 0 if trusted else 1


async def _take_back(host: SkillHost, *, place: Place) -> int:
    folder = await host.people.trust(yes=False)
    if place.as_json:
        await _write_json(host, trusted=False)
    else:
        Screen().line(f"{visible(folder)} is not trusted. Its servers are not started, and its skills not loaded.")
    return 0


async def _write_json(host: SkillHost, *, trusted: bool) -> None:
    servers, skills, problems = await _offer(host)
    write_json(
        {
            "folder": host.workspace.folder,
            "trusted": trusted,
            "servers": [{"label": label.label, **_reached_json(server)} for label, server in servers.items()],
            "skills": [{"name": skill.name, "description": skill.description} for skill in skills],
            "problems": [problem_json(problem) for problem in problems],
        }
    )


async def _offer(
    host: SkillHost,
) -> tuple[Mapping[ServerLabel, StdioServer | HttpServer], list[LocalEntry], tuple[Problem, ...]]:
    """What the folder holds, read and nothing more."""
    around = await to_thread.run_sync(partial(host.workspace.look, trusted=True))
    project = [skill for skill in around.skills if skill.identity.scope is LocalScope.PROJECT]
    return around.configuration.servers, project, around.configuration.problems


def _reached(server: StdioServer | HttpServer) -> str:
    """How a server is reached. Arguments, headers and most of a URL may hold secrets (P4)."""
    if isinstance(server, StdioServer):
        return f"runs the command {visible(server.command)}"
    return f"is asked at {visible(_host(server))}"


def _reached_json(server: StdioServer | HttpServer) -> dict[str, str]:
    return {"command": server.command} if isinstance(server, StdioServer) else {"host": _host(server)}


def _host(server: HttpServer) -> str:
    try:
        host = urlsplit(server.url).hostname
    except ValueError:
        host = None
    return host or "a host that a variable names"
