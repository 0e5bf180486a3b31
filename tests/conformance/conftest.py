"""One server for all judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.catalog import PAGE_SIZE, write_catalog
from tests.serving import Serving, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    paths = write_catalog(tmp_path_factory.mktemp("catalog"))
    with serve(*paths, "--page-size", str(PAGE_SIZE)) as serving:
        yield serving
    assert "Traceback" not in serving.said
