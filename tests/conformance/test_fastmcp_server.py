"""A FastMCP server publishes skills beside its own tools and resources, as the documents say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.peers import peer, run

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(__file__).parent / "install_on_fastmcp.py"
SKILLS = ROOT / "examples" / "skills"
URIS = [f"skill://{name}/SKILL.md" for name in ("git-workflow", "refunds", "release-notes")]


@pytest.mark.peers
@pytest.mark.rule("C2", "U7")
def test_skills_are_installed_on_a_fastmcp_server_and_seen_on_both_eras(tmp_path: Path) -> None:
    done = run(tmp_path, "env", f"PYTHONPATH={ROOT / 'src'}", peer("fastmcp", "bin", "python"), SCRIPT, SKILLS)
    assert done.status == 0, done.err
    seen = json.loads(done.out)
    assert {mode: said["version"] for mode, said in seen.items()} == {"auto": "2026-07-28", "legacy": "2025-11-25"}
    assert seen["auto"]["skills"] == URIS
    for said in seen.values():
        assert said["resources"] == ["data://own", "skill://index.json", *URIS]
        assert (said["own"], said["sum"]) == ("own", 5)
        assert said["read"].encode() == (SKILLS / "refunds" / "SKILL.md").read_bytes()
