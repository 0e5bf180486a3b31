"""The official conformance suite finds nothing to say against our host, at both protocol revisions.

Its servers lie, and its only question is what the client asks for afterwards, so that a client which never loads
anything would pass. The honest server at the end is the counterpart: what is refused there must arrive here.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.peers import Done, peer, run
from tests.conformance.tampering import tampering
from tests.serving import serve

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peers

VERSIONS = ["2026-07-28", "2025-11-25"]
LIES = {
    "sep-2640-client-verify-digest": ("V1", "sep-2640-host-verify-digest"),
    "sep-2640-client-verify-size": ("V1", "sep-2640-host-size-mismatch-failure"),
    "sep-2640-client-verify-frontmatter": ("V2", "sep-2640-host-frontmatter-comparison"),
}


def judge(scenario: str, version: str, home: Path) -> tuple[Done, list[dict[str, Any]]]:
    """Run one scenario against tests/conformance/client.py, and give what the suite wrote about each check."""
    results = home / "results"
    done = run(
        home,
        peer("fastmcp", "bin", "node"),
        peer("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"),
        *("client", "--command", f"{sys.executable} {os.path.dirname(__file__)}/client.py"),
        *("--scenario", scenario, "--spec-version", version, "--force", "--output-dir", results),
    )
    (written,) = results.rglob("checks.json")
    return done, json.loads(written.read_text(encoding="utf-8"))


@pytest.mark.rule("R3")
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_fetched_ahead_of_need(tmp_path: Path, version: str) -> None:
    done, checks = judge("sep-2640-client-no-prefetch", version, tmp_path)
    assert [(check["id"], check["status"]) for check in checks] == [("sep-2640-host-no-prefetch", "SUCCESS")], done
    assert done.status == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("scenario", "rule", "check"),
    [pytest.param(name, *about, marks=pytest.mark.rule(about[0])) for name, about in LIES.items()],
)
def test_a_lie_is_refused(tmp_path: Path, scenario: str, rule: str, check: str, version: str) -> None:
    done, checks = judge(scenario, version, tmp_path)
    assert [(each["id"], each["status"]) for each in checks] == [(check, "SUCCESS")], done
    assert checks[0]["details"]["reads"] == ["skill://pdf-processing/SKILL.md"]
    assert done.status == 0


@pytest.mark.rule("V1", "V2")
@pytest.mark.parametrize("version", VERSIONS)
def test_from_an_honest_server_the_supporting_file_arrives(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = tmp_path / "skills" / "pdf-processing"
    (skill / "references").mkdir(parents=True)
    text = "---\nname: pdf-processing\ndescription: Extract, fill, and assemble PDF documents\n---\n\nSkill body.\n"
    (skill / "SKILL.md").write_text(text, encoding="utf-8")
    (skill / "references" / "FORMS.md").write_text("Supporting content.\n", encoding="utf-8")
    environment = {"MCP_CONFORMANCE_SCENARIO": "honest", "MCP_CONFORMANCE_PROTOCOL_VERSION": version}
    with serve(tmp_path / "skills") as serving, tampering(serving.url, b"never in it", b"") as middle:
        done = run(tmp_path, sys.executable, f"{os.path.dirname(__file__)}/client.py", middle.url, **environment)
        assert (done.status, done.err) == (0, "")
        assert "Skill body.\n" in done.out
        assert "Supporting content.\n" in done.out
        assert middle.versions == {version}
