"""FastMCP's client lists and gets the skills of a real server, and reads their files to the byte."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.catalog import BINARY, DYNAMIC, DYNAMIC_SKILL_MD, FILES, STATIC, TEXT
from tests.conformance.peers import peer, run

if TYPE_CHECKING:
    from tests.serving import Serving

pytestmark = pytest.mark.peers

SCRIPT = Path(__file__).parent / "ask_fastmcp_client.py"
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}

Answers = dict[str, Any]


@pytest.fixture(scope="module")
def answers(server: Serving, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """What the client got, in each of its modes."""
    python, home = peer("fastmcp", "bin", "python"), tmp_path_factory.mktemp("fastmcp")
    got = {}
    for mode in MODES:
        done = run(home, python, SCRIPT, server.url, mode, *FILES, DYNAMIC)
        assert done.status == 0, done.err
        got[mode] = json.loads(done.out)
    return got


def data(answers: Answers, uri: str) -> bytes:
    """The bytes that were read at a URI."""
    (item,) = answers["contents"][uri]
    assert item["uri"] == uri
    assert ("text" in item) != ("blob" in item)
    return item["text"].encode() if "text" in item else base64.b64decode(item["blob"], validate=True)


def test_the_client_speaks_both_revisions(answers: dict[str, Answers]) -> None:
    assert {mode: said["version"] for mode, said in answers.items()} == MODES


@pytest.mark.rule("C1", "E1", "E6", "E7", "G1", "L1")
def test_the_client_lists_every_skill_and_gets_the_same_entries_one_by_one(answers: dict[str, Answers]) -> None:
    listed = answers["auto"]["listed"]
    assert [skill["uri"] for skill in listed] == [*STATIC, DYNAMIC]
    assert answers["auto"]["got"] == listed
    assert [skill["uri"] for skill in listed if skill["resources"] == "dynamic"] == [DYNAMIC]


@pytest.mark.rule("F4")
def test_the_client_gets_the_frontmatter_as_the_author_wrote_it(answers: dict[str, Answers]) -> None:
    by_uri = {skill["uri"]: skill["frontmatter"] for skill in answers["auto"]["listed"]}
    assert by_uri["skill://berth/SKILL.md"] == {
        "name": "berth",
        "description": "Moor a ship: bow first, or stern first. Use when a ship comes in.",
        "license": "Apache-2.0",
        "compatibility": "Needs a quay.",
        "allowed-tools": "Read Bash(ls:*)",
        "metadata": {"version": "1.10", "example.com/reviewed": "2026-01-02"},
        "x-order": ["bow", 2, None, True, {"stern": 1.5}],
    }
    assert by_uri[DYNAMIC] == {"name": "daily", "description": "The report of the day."}


@pytest.mark.rule("E2", "E3", "U1", "U7")
@pytest.mark.parametrize("mode", MODES)
def test_what_the_client_reads_has_the_digests_that_were_listed(answers: dict[str, Answers], mode: str) -> None:
    listed = [skill for skill in answers["auto"]["listed"] if skill["uri"] != DYNAMIC]
    assert len(listed) == len(STATIC)
    for skill in listed:
        inside = sorted(uri for uri in FILES if uri.startswith(skill["uri"].removesuffix("SKILL.md")))
        assert [file["uri"] for file in skill["resources"]] == inside
        for file in skill["resources"]:
            read = data(answers[mode], file["uri"])
            assert read == FILES[file["uri"]]
            assert file["digest"] == f"sha256:{sha256(read).hexdigest()}"
            assert file["size"] == len(read)


@pytest.mark.rule("R1", "U6", "U7")
@pytest.mark.parametrize("mode", MODES)
def test_the_client_reads_text_as_text_and_other_bytes_as_a_blob(answers: dict[str, Answers], mode: str) -> None:
    contents = answers[mode]["contents"]
    assert contents[TEXT] == [{"uri": TEXT, "mimeType": "text/markdown", "text": FILES[TEXT].decode()}]
    blob = base64.b64encode(FILES[BINARY]).decode()
    assert contents[BINARY] == [{"uri": BINARY, "mimeType": "application/octet-stream", "blob": blob}]
    assert contents[DYNAMIC] == [{"uri": DYNAMIC, "mimeType": "text/markdown", "text": DYNAMIC_SKILL_MD}]


@pytest.mark.rule("U6")
@pytest.mark.parametrize("mode", MODES)
def test_the_client_finds_each_skill_md_among_the_resources(answers: dict[str, Answers], mode: str) -> None:
    entries = {skill["uri"]: skill["frontmatter"] for skill in answers["auto"]["listed"]}
    resources = {resource.pop("uri"): resource for resource in map(dict, answers[mode]["resources"])}
    assert resources.pop("skill://index.json") == {"name": "index.json", "mimeType": "application/json"}
    assert list(resources) == [*STATIC, DYNAMIC]
    for uri, resource in resources.items():
        about = {key: entries[uri][key] for key in ("name", "description")}
        size = {} if uri == DYNAMIC else {"size": len(FILES[uri])}
        assert resource == {**about, "mimeType": "text/markdown", **size}
