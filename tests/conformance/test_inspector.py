"""The MCP Inspector verifies every skill and every byte of a real server, in both protocol eras."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.catalog import DYNAMIC, FILES, STATIC, TAMPERED
from tests.conformance.peers import Done, peer, run
from tests.conformance.tampering import tampering

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serving import Serving

pytestmark = pytest.mark.peers

ERAS = {"modern": "2026-07-28", "legacy": "2025-11-25"}
NON_CONFORMANT = 7

Report = dict[str, Any]


def verify(url: str, era: str, home: Path) -> tuple[Done, dict[str, Report]]:
    """Have all skills verified, and give the Inspector's report on each by its URI."""
    done = run(
        home,
        peer("fastmcp", "bin", "node"),
        peer("node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"),
        *("--cli", "--server-url", url, "--transport", "http", "--protocol-era", era),
        *("--method", "skills/list", "--verify"),
    )
    reports = [json.loads(line) for line in done.out.splitlines()]
    return done, {report["uri"]: report for report in reports}


def verified(uri: str) -> Report:
    """What the Inspector should say of a file, by our own reckoning."""
    digest = f"sha256:{sha256(FILES[uri]).hexdigest()}"
    size = len(FILES[uri])
    about = {"expectedDigest": digest, "actualDigest": digest, "expectedSize": size, "actualSize": size}
    return {"uri": uri, "status": "verified", **about}


def files_of(skill: str) -> list[str]:
    return sorted(uri for uri in FILES if uri.startswith(skill.removesuffix("SKILL.md")))


@pytest.mark.rule("C1", "E2", "E3", "F4", "U7")
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_verifies_every_file_of_every_skill(server: Serving, tmp_path: Path, era: str) -> None:
    done, reports = verify(server.url, era, tmp_path)
    assert done.status == 0
    assert list(reports) == [*STATIC, DYNAMIC]
    for uri in STATIC:
        report = reports[uri]
        assert (report["ok"], report["outcome"]) == (True, "verified")
        assert report["conformance"] == report["frontmatter"] == []
        assert sorted(report["files"], key=lambda file: file["uri"]) == list(map(verified, files_of(uri)))
    files = sum(len(files_of(uri)) for uri in STATIC)
    assert f"Checked {len(reports)} skills and {files} files: no conformance errors." in done.err


@pytest.mark.rule("E6")
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_takes_a_generated_skill_as_one_without_digests(
    server: Serving, tmp_path: Path, era: str
) -> None:
    done, reports = verify(server.url, era, tmp_path)
    report = reports[DYNAMIC]
    assert (report["ok"], report["outcome"], report["files"]) == (True, "unverifiable", [])
    assert [finding["code"] for finding in report["conformance"]] == ["dynamic-resources"]
    assert f"1 of {len(reports)} skills advertised no digests" in done.err


@pytest.mark.parametrize(("era", "version"), ERAS.items())
def test_the_inspector_notices_one_changed_word_in_one_file(
    server: Serving, tmp_path: Path, era: str, version: str
) -> None:
    with tampering(server.url, b"this harbour", b"that harbour") as middle:
        done, reports = verify(middle.url, era, tmp_path)
    assert done.status == NON_CONFORMANT
    assert "1 digest/size mismatch" in done.err
    mismatches = [
        (uri, file["uri"])
        for uri, report in reports.items()
        for file in report["files"]
        if file["status"] != "verified"
    ]
    assert mismatches == [(STATIC[0], TAMPERED)]
    assert [uri for uri, report in reports.items() if not report["ok"]] == [STATIC[0]]
    assert middle.versions == {version}


@pytest.mark.parametrize(("era", "version"), ERAS.items())
def test_the_inspector_notices_an_entry_that_is_not_what_the_file_says(
    server: Serving, tmp_path: Path, era: str, version: str
) -> None:
    with tampering(server.url, b'"Apache-2.0"', b'"MIT"') as middle:
        done, reports = verify(middle.url, era, tmp_path)
    assert done.status == NON_CONFORMANT
    assert [finding["code"] for finding in reports[STATIC[0]]["frontmatter"]] == ["frontmatter-mismatch"]
    assert [uri for uri, report in reports.items() if not report["ok"]] == [STATIC[0]]
    assert middle.versions == {version}
