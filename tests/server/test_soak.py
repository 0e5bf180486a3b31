"""Entries and bytes agree while files change under load; `make soak` does the same for five minutes."""

from __future__ import annotations

import pytest
from bench.soak import soak


@pytest.mark.rule("E3")
def test_every_read_fits_the_entry_that_announced_it_while_files_change() -> None:
    soaked = soak(5)
    assert soaked.mismatches == 0
    assert soaked.reads > 500
    assert soaked.changes > 20
    assert len(soaked.contents) > 40 * 5  # more than were there at the beginning: changes were seen
