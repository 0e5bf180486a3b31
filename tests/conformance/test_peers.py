"""The judges are asked, or the tests fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.peers import peer

if TYPE_CHECKING:
    from pathlib import Path


def test_without_the_judges_the_tests_fail_and_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conformance.peers.PEERS", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="make peers"):
        peer("fastmcp", "bin", "node")
    (tmp_path / "node").touch()
    assert peer("node") == tmp_path / "node"
