"""Skills that are closed after the test, asked on every revision and of both kinds of server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from skillquay.server.extension import Skills
from tests.server.asking import VERSIONS, low_level, mcp_server

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    Make = Callable[[Skills], Server[Any] | MCPServer]


class Publish(Protocol):
    def __call__(self, *paths: str | os.PathLike[str], **options: Any) -> Skills: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each revision in turn."""
    chosen: str = request.param
    return chosen


@pytest.fixture(params=[low_level, mcp_server], ids=["low-level", "MCPServer"])
def make(request: pytest.FixtureRequest) -> Make:
    """Each kind of server in turn."""
    chosen: Make = request.param
    return chosen


@pytest.fixture
def publish() -> Iterator[Publish]:
    """Skills that do not watch unless told, and that are closed in the end."""
    with contextlib.ExitStack() as stack:

        def publish(*paths: str | os.PathLike[str], **options: Any) -> Skills:
            skills = Skills(*paths, **{"watch": False, **options})
            stack.callback(skills.close)
            return skills

        yield publish
