"""`skillquay trust`: show what trusting a folder would start and load, then remember the answer (P6)."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from anyio import to_thread
from rich.text import Text

from skillquay.cli.hosting import Place, agree, can_ask, problem_json, run_host, write_json
from skillquay.cli.messages import fail
from skillquay.cli.output import Screen
from skillquay.core.hidden import shorten, visible
from skillquay.core.registry import LocalScope
from skillquay.host.configuration import HttpServer, StdioServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillquay.core.identity import ServerLabel
    from skillquay.host.configuration import Problem
    from skillquay.host.host import SkillHost
    from skillquay.host.local import LocalEntry

__all__ = ["run", "show_offer"]

_MOST_SHOWN: Final = 10  # arguments of a command, and variables
_LONGEST_SHOWN: Final = 60
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_AUTHORITY: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


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
        if not all(map(_is_shown_whole, servers.values())):
            screen.line("  Not all of this could be shown. Read .mcp.json before you agree.")
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
        await show_offer(host, Screen(stderr=True))
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
    """How a server is reached, as the file says it, and the names of the variables it gets; nothing is expanded.

    What variables hold, headers, and all of a URL but its host are left out: secrets are there (P4).
    """
    if isinstance(server, StdioServer):
        words = [server.command, *server.args[:_MOST_SHOWN]]
        shown = f"runs {' '.join(shlex.quote(shorten(word, _LONGEST_SHOWN)) for word in words)}"
        if len(server.args) > _MOST_SHOWN:
            shown += f" … and {len(server.args) - _MOST_SHOWN:,} more arguments"
        if server.cwd is not None:
            shown += f", in {shlex.quote(shorten(server.cwd, _LONGEST_SHOWN))}"
        if server.env:
            shown += f", with {_names(server.env)} set"
    else:
        shown = f"is asked at {visible(_host(server) or 'a host that variables decide')}"
    variables = _variables(server)
    return shown + (f", and is given {_names(variables)} of your environment" if variables else "")


def _is_shown_whole(server: StdioServer | HttpServer) -> bool:
    """False when `_reached` leaves out something a person should see."""
    counted = [_variables(server)]
    texts: tuple[str, ...] = ()
    if isinstance(server, StdioServer):
        counted += [list(server.args), list(server.env)]
        texts = (server.command, *server.args, server.cwd or "")
    names = (name for each in counted for name in each)
    if isinstance(server, HttpServer) and _host(server) is None:
        return False
    is_short = all(len(text) <= _LONGEST_SHOWN for text in (*texts, *names))
    return is_short and all(len(each) <= _MOST_SHOWN for each in counted)


def _variables(server: StdioServer | HttpServer) -> list[str]:
    """The variables of the user's environment that the server would be told."""
    if isinstance(server, StdioServer):
        texts = [server.command, *server.args, *server.env.values(), server.cwd or ""]
    else:
        texts = [server.url, *server.headers.values()]
    return list(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text)))


def _names(names: Iterable[str]) -> str:
    """Names of variables, as many as there is room for."""
    shown = [shorten(name, _LONGEST_SHOWN) for name in names]
    more = f" and {len(shown) - _MOST_SHOWN:,} more" if len(shown) > _MOST_SHOWN else ""
    return ", ".join(shown[:_MOST_SHOWN]) + more


def _reached_json(server: StdioServer | HttpServer) -> dict[str, object]:
    reached: dict[str, object]
    if isinstance(server, HttpServer):
        reached = {"host": _host(server)}
    else:
        reached = {"command": server.command, "args": server.args, "env": list(server.env), "cwd": server.cwd}
    return {**reached, "variables": _variables(server)}


def _host(server: HttpServer) -> str | None:
    """The host; None where variables make it another than is written."""
    authority = _AUTHORITY.match(server.url)
    if authority is None or "${" in authority[0]:
        return None
    try:
        return urlsplit(server.url).hostname
    except ValueError:
        return None
