"""The skills that every peer is shown, and the mark that puts a test into the table of docs/dialects.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop.skills import write_skills

if TYPE_CHECKING:
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    line = "interop(peer, direction, dialect, result): this test shows a row of the table in docs/dialects.md"
    config.addinivalue_line("markers", line)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A directory of skills that a test may change."""
    return write_skills(tmp_path / "published")
