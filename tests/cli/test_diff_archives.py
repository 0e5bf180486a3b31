"""`skillquay diff` of a skill that comes in an archive: what changed in it, file by file (A2, I13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from skillquay.archives.formats import ArchiveFormat
from skillquay.core.drafts import Dialect
from skillquay.wire.index_json import INDEX_URI
from tests.cli.conftest import configure
from tests.cli.draft_servers import ARCHIVE, FRONTMATTER, make, publish_archive, running
from tests.interop.skills import SKILLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Run
    from tests.interop.plain_server import PlainServer

REFUNDS = SKILLS["refunds"]
NEW = {
    "SKILL.md": REFUNDS["SKILL.md"],
    "references/letter.md": b"Dear customer,\n\nhere are your \x1b[2J20.\n",
    "scripts/amount.py": REFUNDS["scripts/amount.py"],
    "scripts/new.py": b"print(20)\n",
}
LETTER = "skill://refunds/references/letter.md"


@pytest.fixture
def server(host: Run, tmp_path: Path) -> Iterator[PlainServer]:
    """A server of one skill in an archive, which a folder has, and the user trusts."""
    server = make("archive")
    with running({"acme": server}) as urls:
        configure(tmp_path, **urls)
        assert host("trust", "--yes").status == 0
        yield server


@pytest.mark.rule("A2", "I13", "R3", "B4")
def test_the_files_of_an_archive_that_changed_are_compared(host: Run, server: PlainServer) -> None:
    assert host("approve", "refunds", "--yes").status == 0
    assert "Nothing changed since." in host("diff", "refunds").out
    host("read", "refunds")
    publish_archive(server, NEW)
    assert 'see what changed with "skillquay diff refunds"' in host("show", "refunds").out
    before = server.reads.count(ARCHIVE)
    done = host("diff", "refunds", "--content")
    assert (done.status, done.err) == (1, "")
    assert server.reads.count(ARCHIVE) == before + 1
    for part in (
        "  added      scripts/new.py        10 B\n",
        "  removed    assets/logo.bin       256 B\n",
        "  rewritten  references/letter.md  38 B → ",
        "-here are your 10 €.\n+here are your ⟨U+001B⟩[2J20.\n",
        "! line 3 of the new file: control characters",
        "+print(20)",
        'It is not loaded until you approve it again: "skillquay approve refunds".',
    ):
        assert part in done.out
    assert "SKILL.md" not in done.out.split("approved", 1)[1]
    assert "archive" not in done.out
    document = json.loads(host("diff", "refunds", "--content", "--json").out)
    assert (document["changed"], document["not_compared"]) == (True, None)
    assert document["change"]["rewritten"] == [LETTER]
    assert "-here are your 10 €." in document["content"][LETTER]


@pytest.mark.rule("A2", "I13")
def test_where_the_approved_archive_was_never_opened_that_is_said_and_both_are_named(
    host: Run, server: PlainServer
) -> None:
    old = publish_archive(server, REFUNDS)
    assert host("approve", "refunds", "--yes").status == 0
    new = publish_archive(server, NEW, description="Something else.")
    done = host("diff", "refunds", "--content")
    assert (done.status, done.err) == (1, "")
    for part in (
        "  Which of its files changed cannot be told. What was in its archive is not in the cache: it was never loaded",
        f"  archive then  {ARCHIVE}  {old}\n  archive now   {ARCHIVE}  {new}\n",
        '      + "Something else."\n',
    ):
        assert part in done.out
    assert "rewritten" not in done.out
    assert ARCHIVE not in server.reads
    document = json.loads(host("diff", "refunds", "--content", "--json").out)
    assert "not in the cache" in document["not_compared"]
    assert document["archives"] == {"old": {"url": ARCHIVE, "digest": old}, "new": {"url": ARCHIVE, "digest": new}}
    assert document["content"] == {}


@pytest.mark.rule("A2", "I13", "K1")
def test_what_is_gone_from_the_cache_or_cannot_be_opened_is_said(host: Run, server: PlainServer) -> None:
    assert host("approve", "refunds", "--yes").status == 0
    host("read", "refunds")
    publish_archive(server, NEW)
    server.files[ARCHIVE] = b"forged"
    forged = host("diff", "refunds")
    assert forged.status == 1
    assert f"What it is now cannot be opened: {ARCHIVE} does not match" in forged.out
    host("cache", "--clear")
    assert "What was in its archive is not in the cache" in host("diff", "refunds").out


@pytest.mark.rule("A2", "I13")
def test_an_archive_that_was_only_packed_anew_is_told_from_one_with_other_files(host: Run, server: PlainServer) -> None:
    old = publish_archive(server, REFUNDS)
    assert host("approve", "refunds", "--yes").status == 0
    host("read", "refunds")
    new = publish_archive(server, REFUNDS, ArchiveFormat.ZIP)
    done = host("diff", "refunds", "--content")
    assert done.status == 1
    assert done.out.splitlines()[1:] == [
        "  Every file is the same.",
        f"  archive then  {ARCHIVE}  {old}",
        f"  archive now   {ARCHIVE}  {new}",
        'It is not loaded until you approve it again: "skillquay approve refunds".',
    ]


@pytest.mark.rule("A2", "I9", "I13")
def test_a_skill_whose_archive_lost_its_digest_is_said_to_be_served_in_another_way(
    host: Run, server: PlainServer
) -> None:
    assert host("approve", "refunds", "--yes").status == 0
    host("read", "refunds")
    may = {"type": "archive", **FRONTMATTER, "url": ARCHIVE}
    server.files[INDEX_URI] = json.dumps({"skills": [may]}).encode()
    assert "it is not covered whole any more: no digest covers its files" in host("show", "refunds").out
    done = host("diff", "refunds")
    assert done.status == 1
    for part in (
        f"  It was served as {Dialect.JUNE}, and is now served as {Dialect.MAY}.\n",
        "  It is not covered whole any more: no digest covers its files.",
        "  Every file is the same.",
        f"  archive now   {ARCHIVE}  without a digest\n",
    ):
        assert part in done.out
