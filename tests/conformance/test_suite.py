"""The official conformance suite finds nothing to say against a real server, at both protocol revisions.

The suite ends with status 0 on warnings and on checks it skipped, so that what it wrote about each check is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.catalog import PAGE_SIZE, STATIC
from tests.conformance.peers import Done, peer, run
from tests.conformance.tampering import tampering

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serving import Serving

pytestmark = pytest.mark.peers

MODERN = "2026-07-28"
OLDER = "2025-11-25"
ENUMERATION = "sep-2640-skills-enumeration"
MANIFEST = "sep-2640-skills-manifest"
DIRECTORY = "sep-2640-skills-directory"
CHECKS = {ENUMERATION: 32, MANIFEST: 6, DIRECTORY: 7}
NOT_DEFINED_YET = {"sep-2640-skills-list-cache-attributes", "sep-2640-skills-get-cache-attributes"}

Check = dict[str, Any]


def judge(url: str, scenario: str, version: str, home: Path) -> tuple[Done, list[Check]]:
    """Run one scenario, and give what the suite wrote about each check."""
    results = home / "results"
    done = run(
        home,
        peer("fastmcp", "bin", "node"),
        peer("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"),
        *("server", "--url", url, "--scenario", scenario, "--spec-version", version, "--force"),
        *("--output-dir", results),
    )
    written = list(results.rglob("checks.json"))
    assert len(written) == 1, done
    checks: list[Check] = json.loads(written[0].read_text(encoding="utf-8"))
    return done, checks


def statuses(checks: list[Check]) -> dict[str, set[str]]:
    """The checks by their status."""
    by_status: dict[str, set[str]] = {}
    for check in checks:
        by_status.setdefault(check["status"], set()).add(check["id"])
    return by_status


def details(checks: list[Check], name: str) -> dict[str, Any]:
    (found,) = (check for check in checks if check["id"] == name)
    about: dict[str, Any] = found["details"]
    return about


@pytest.mark.parametrize("version", [MODERN, OLDER])
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(ENUMERATION, marks=pytest.mark.rule("C1", "C2", "E1", "E2", "G1", "G2", "L1", "U2")),
        pytest.param(MANIFEST, marks=pytest.mark.rule("U6")),
        pytest.param(DIRECTORY, marks=pytest.mark.rule("C3", "D1")),
    ],
)
def test_every_check_of_the_suite_succeeds(server: Serving, tmp_path: Path, scenario: str, version: str) -> None:
    done, checks = judge(server.url, scenario, version, tmp_path)
    skipped = NOT_DEFINED_YET if (scenario, version) == (ENUMERATION, OLDER) else set()
    by_status = statuses(checks)
    assert by_status.pop("SKIPPED", set()) == skipped
    assert by_status.keys() == {"SUCCESS"}
    assert Counter(check["status"] for check in checks)["SUCCESS"] == CHECKS[scenario] - len(skipped)
    assert done.status == 0


@pytest.mark.rule("E6", "E7", "L1")
@pytest.mark.parametrize("version", [MODERN, OLDER])
def test_the_suite_sees_every_skill_on_more_than_one_page(server: Serving, tmp_path: Path, version: str) -> None:
    _, checks = judge(server.url, ENUMERATION, version, tmp_path)
    skills = len(STATIC) + 1
    assert details(checks, "sep-2640-skills-list-implemented")["entries"] == skills
    assert details(checks, "sep-2640-skills-list-pagination")["pages"] == -(-skills // PAGE_SIZE) > 1
    assert details(checks, "sep-2640-entry-resources-required")["dynamicEntries"] == 1
    assert details(checks, "sep-2640-resources-complete")["entriesChecked"] == len(STATIC)


@pytest.mark.rule("D1")
@pytest.mark.parametrize("version", [MODERN, OLDER])
def test_the_suite_lists_a_directory_on_more_than_one_page(server: Serving, tmp_path: Path, version: str) -> None:
    _, checks = judge(server.url, DIRECTORY, version, tmp_path)
    said = details(checks, "sep-2640-directory-read-pagination")["paginationDetail"]
    assert said.startswith("nextCursor round-tripped")


@pytest.mark.parametrize(
    ("scenario", "version", "old", "new", "fallen", "status"),
    [
        (ENUMERATION, MODERN, b"sha256:", b"sha255:", "sep-2640-resources-digest-format", "FAILURE"),
        (ENUMERATION, OLDER, b'"Apache-2.0"', b'"MIT"', "sep-2640-entry-frontmatter-identical", "FAILURE"),
        (MANIFEST, MODERN, b"text/markdown", b"text/plain", "sep-2640-skillmd-mimetype", "WARNING"),
        (DIRECTORY, OLDER, b"inode/directory", b"text/plain", "sep-2640-directory-read-subdir-mimetype", "FAILURE"),
    ],
)
def test_the_suite_notices_a_dishonest_server(
    server: Serving, tmp_path: Path, scenario: str, version: str, old: bytes, new: bytes, fallen: str, status: str
) -> None:
    with tampering(server.url, old, new) as middle:
        done, checks = judge(middle.url, scenario, version, tmp_path)
    assert statuses(checks)[status] == {fallen}
    assert done.status == (status == "FAILURE")
    assert middle.versions == {version}
