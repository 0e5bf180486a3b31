"""Run a server of skills in this process, from settings that can be handed to another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from skillquay.server.access import Tokens
from skillquay.server.app import HttpServer, http_app, make_server, serve_stdio
from skillquay.server.extension import Skills
from skillquay.server.python_file import is_python, load_skills

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp

    from skillquay.server.extension import Dialect
    from skillquay.sources.headstart import HeadStart

__all__ = ["Settings", "run_http", "run_stdio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator chose."""

    paths: tuple[str, ...]
    name: str = "skillquay"
    prefix: str = ""
    scheme: str = "skill"
    page_size: int = 250
    ttl: float = 60
    watch: bool = True
    strict: bool = False
    index: bool = True
    dialect: Dialect = "v1"
    tokens: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    index_directory: str | None = None

    def make(self, ahead: HeadStart | None = None) -> tuple[Server[Any], Skills]:
        """The server and its skills, which are not read yet, or are being read by another process."""
        skills = Skills(
            page_size=self.page_size,
            ttl=self.ttl,
            watch=self.watch,
            strict=self.strict,
            private=bool(self.tokens),
            index=self.index,
            dialect=self.dialect,
            index_directory=self.index_directory,
        )
        for path in self.paths:
            if is_python(path):
                skills.include(load_skills(path))
            else:
                skills.add(path, prefix=self.prefix, scheme=self.scheme)
        if ahead is not None:
            skills.publisher.begin_with(ahead)
        return make_server(self.name, skills), skills


def run_http(
    settings: Settings,
    listening: Sequence[socket.socket],
    on_ready: Callable[[Skills], None],
    *,
    ahead: HeadStart | None = None,
    wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> None:
    """Serve over HTTP on sockets that listen already, until a signal comes."""
    server, skills = settings.make(ahead)
    app = http_app(
        server,
        skills,
        tokens=Tokens(settings.tokens) if settings.tokens else None,
        allowed_hosts=settings.allowed_hosts,
        on_ready=lambda: on_ready(skills),
        wrap=wrap,
    )
    HttpServer(app, server).run(sockets=list(listening))


def run_stdio(settings: Settings, on_ready: Callable[[Skills], None], *, ahead: HeadStart | None = None) -> None:
    """Serve over standard input and output, until the client leaves."""
    server, skills = settings.make(ahead)
    anyio.run(serve_stdio, server, skills, lambda: on_ready(skills))
