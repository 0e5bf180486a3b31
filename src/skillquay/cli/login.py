"""`skillquay login` and `logout`: let a person log in to a server in their browser, or forget the login (P4)."""

from __future__ import annotations

import sys
import webbrowser
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import to_thread

from skillquay.cli.hosting import Place, run_host, run_task
from skillquay.core.hidden import shorten, visible
from skillquay.core.identity import ServerLabel
from skillquay.errors import ConfigurationError
from skillquay.host.configuration import HttpServer
from skillquay.host.oauth import Logins

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillquay.host.host import SkillHost

__all__ = ["run_login", "run_logout"]


def run_login(place: Place, target: str, *, label: str | None, browser: bool) -> int:
    """Log in to a server of the folder by its label, or to any by its URL; `browser` says whether one may be opened."""

    async def login(name: str, server: HttpServer) -> int:
        async def show(url: str) -> None:
            where = visible(urlsplit(url).hostname or "")
            sys.stderr.write(
                f'The server "{name}" has you log in at {where}. Open this in your browser:\n{visible(url)}\n'
            )
            sys.stderr.flush()
            if browser and sys.stderr.isatty():
                await to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)

        if await Logins().login(name, server, show=show):
            sys.stdout.write(f'You are logged in to the server "{name}".\n')
        else:
            sys.stdout.write(f'The server "{name}" asks for no login.\n')
        return 0

    return _run(place, target, label, login)


def run_logout(place: Place, target: str, *, label: str | None) -> int:
    """Forget a login."""

    async def logout(name: str, server: HttpServer) -> int:
        if await to_thread.run_sync(Logins().logout, name, server):
            sys.stdout.write(
                f'The login to the server "{name}" is forgotten here. Programs that were let in by it before may still '
                "be known to the server: its own settings can end that.\n"
            )
        else:
            sys.stdout.write(f'There is no login to the server "{name}".\n')
        return 0

    return _run(place, target, label, logout)


def _run(place: Place, target: str, label: str | None, do: Callable[[str, HttpServer], Awaitable[int]]) -> int:
    if not target.lower().startswith(("http://", "https://")):
        return run_host(place, partial(_of_folder, label=target, do=do), ask_servers=False)

    async def by_url() -> int:
        name = ServerLabel(label=label or urlsplit(target).hostname or "", scope="login").label
        return await do(name, HttpServer(url=target))

    return run_task(by_url)


async def _of_folder(host: SkillHost, *, label: str, do: Callable[[str, HttpServer], Awaitable[int]]) -> int:
    """With a server of the folder, once the folder is trusted (P6)."""
    folder = host.workspace.folder or ""
    if not await to_thread.run_sync(host.consent.store.is_trusted, folder):
        message = (
            'You have not trusted this folder, so its servers are not used. Look at them, then run "skillquay trust".'
        )
        raise ConfigurationError(message, rule="P6")
    around = await to_thread.run_sync(partial(host.workspace.look, trusted=True))
    servers = {each.label: server for each, server in around.configuration.servers.items()}
    server = servers.get(label)
    if server is None:
        known = ", ".join(sorted(servers)) or "none"
        raise ConfigurationError(f'This folder has no server "{shorten(label)}". It has: {known}. A URL is fine, too.')
    if not isinstance(server, HttpServer):
        raise ConfigurationError(f'The server "{label}" is a program on this machine: it needs no login.')
    return await do(label, server)
