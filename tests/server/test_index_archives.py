"""The archives of skills hold what is served file by file, always the same bytes, and only when they are asked for."""

from __future__ import annotations

import base64
import io
import json
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import pack
from skillquay.archives.unpacking import unpack
from skillquay.core.digests import Digest
from skillquay.server import archive_shelf
from tests.server.asking import MODERN, asking, low_level, rewrite, until, write_skill
from tests.server.test_changes import watching

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.asking import Asker
    from tests.server.conftest import Make, Publish

pytestmark = pytest.mark.anyio

FILES = {
    "scripts/run.sh": b"#!/bin/sh\necho\n",
    "scripts/data.bin": bytes(range(256)),
    "Q&A #1.md": "ä".encode(),
    "empty": b"",
    "docs/deep/er/a.txt": b"a" * 100_000,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    directory = write_skill(root, "acme/refunds", FILES)
    (directory / "scripts/run.sh").chmod(0o755)
    (directory / "docs/deep/er/a.txt").chmod(0o654)  # the group may run it, its owner may not
    write_skill(root, "acme/refunds/inner", {"x.md": b"x", "more/y.md": b"y"})
    (root / "acme/refunds/inner/x.md").chmod(0o755)
    write_skill(root, "acme/refunds/inner-not", {}).joinpath("SKILL.md").rename(root / "acme/refunds/inner-not/a.md")
    write_skill(root, "plain")
    return root


async def archive(asker: Asker, uri: str) -> bytes:
    (contents,) = (await asker.ask("resources/read", {"uri": uri}))["contents"]
    assert contents.keys() == {"uri", "mimeType", "blob"}
    assert contents["uri"] == uri
    assert contents["mimeType"] == ("application/zip" if uri.endswith(".zip") else "application/gzip")
    return base64.b64decode(contents["blob"], validate=True)


async def announced(asker: Asker) -> dict[str, str]:
    """The digests of all archives in the index."""
    document: dict[str, Any] = json.loads(await asker.text("skill://index.json"))
    return {each["url"]: each["digest"] for entry in document["skills"] for each in entry["archives"]}


@pytest.mark.rule("I3", "I12")
async def test_an_archive_holds_what_is_served_singly_but_no_nested_skill(
    root: Path, publish: Publish, make: Make, version: str
) -> None:
    async with asking(make(publish(root)), version) as asker:
        entry = (await asker.ask("skills/get", {"uri": "skill://acme/refunds/SKILL.md"}))["skill"]
        singly: dict[str, bytes] = {}
        for record in entry["resources"]:
            (contents,) = (await asker.ask("resources/read", {"uri": record["uri"]}))["contents"]
            path = record["uri"].removeprefix("skill://acme/refunds/").replace("%20", " ").replace("%23", "#")
            singly[path] = contents["text"].encode() if "text" in contents else base64.b64decode(contents["blob"])
        inner = {path for path in singly if path.startswith("inner/")}
        assert inner == {"inner/SKILL.md", "inner/x.md", "inner/more/y.md"}
        for archive_format in ArchiveFormat:
            data = await archive(asker, f"skill://acme/refunds{archive_format.suffix}")
            files = unpack(data, archive_format)
            assert {path: file.data for path, file in files.items()} == {
                path: data for path, data in singly.items() if path not in inner
            }
            assert "inner-not/a.md" in files
            assert [path for path, file in files.items() if file.is_executable] == ["scripts/run.sh"]


@pytest.mark.rule("I3")
async def test_the_standard_library_reads_the_archives(root: Path, publish: Publish) -> None:
    async with asking(low_level(publish(root)), MODERN) as asker:
        with tarfile.open(fileobj=io.BytesIO(await archive(asker, "skill://acme/refunds.tar.gz"))) as tar:
            modes = {member.name: member.mode for member in tar}
        with zipfile.ZipFile(io.BytesIO(await archive(asker, "skill://acme/refunds.zip"))) as packed:
            assert packed.testzip() is None
            zipped = {each.filename: stat.S_IMODE(each.external_attr >> 16) for each in packed.infolist()}
    assert modes == zipped
    assert modes["SKILL.md"] == 0o644
    assert modes["scripts/run.sh"] == 0o755


@pytest.mark.rule("I1", "I3")
async def test_each_archive_has_the_digest_in_the_index_and_the_same_bytes_everywhere(
    root: Path, publish: Publish, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_shelf, "_MOST_KEPT", 0)  # each reading packs anew
    read: list[dict[str, bytes]] = []
    for _ in range(2):
        async with asking(low_level(publish(root)), version) as asker:
            digests = await announced(asker)
            assert len(digests) == 4
            read.append({url: await archive(asker, url) for url in digests})
            assert {url: Digest.of(data) for url, data in read[-1].items()} == digests
    assert read[0] == read[1]


async def test_the_shelf_is_bounded_and_keeps_what_is_asked_for_often(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write_skill(tmp_path, f"s{number:02}", {"a.bin": number.to_bytes(2, "big") * 10})
    monkeypatch.setattr(archive_shelf, "_MOST_KEPT", 4000)
    skills = publish(tmp_path)
    shelf = skills.publisher._shelf
    async with asking(low_level(skills), MODERN) as asker:
        digests = await announced(asker)
        assert 0 < len(shelf._kept) < 40
        for url, digest in digests.items():
            assert Digest.of(await archive(asker, url)) == digest
            await archive(asker, "skill://s00.zip")
            assert shelf._size == sum(len(data) for _, data in shelf._kept.values()) <= 4000
            assert any(uri == "skill://s00/SKILL.md" for uri, _ in shelf._kept)


@pytest.mark.rule("I3")
async def test_an_archive_that_is_on_the_shelf_is_not_packed_again(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[ArchiveFormat] = []

    def noting(files: Any, archive_format: ArchiveFormat) -> bytes:
        packed.append(archive_format)
        return pack(files, archive_format)

    monkeypatch.setattr(archive_shelf, "pack", noting)
    async with asking(low_level(publish(root)), MODERN) as asker:
        first = await archive(asker, "skill://plain.zip")
        assert packed == [ArchiveFormat.ZIP]
        assert await archive(asker, "skill://plain.zip") == first
        assert packed == [ArchiveFormat.ZIP]
        digests = await announced(asker)
        assert len(packed) == len(digests) == 4
        for url in digests:
            await archive(asker, url)
        assert len(packed) == 4


async def test_an_archive_larger_than_the_shelf_is_packed_once_while_nobody_asks_for_another(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[ArchiveFormat] = []

    def noting(files: Any, archive_format: ArchiveFormat) -> bytes:
        packed.append(archive_format)
        return pack(files, archive_format)

    monkeypatch.setattr(archive_shelf, "_MOST_KEPT", 100)
    monkeypatch.setattr(archive_shelf, "pack", noting)
    skills = publish(root)
    async with asking(low_level(skills), MODERN) as asker:
        data = [await archive(asker, "skill://acme/refunds.zip") for _ in range(3)]
        assert data[0] == data[1] == data[2]
        assert packed == [ArchiveFormat.ZIP]
        await archive(asker, "skill://plain.zip")
        assert len(skills.publisher._shelf._kept) == 1


@pytest.mark.rule("I3")
async def test_an_archive_can_be_read_without_the_index(root: Path, publish: Publish, version: str) -> None:
    skills = publish(root)
    async with asking(low_level(skills), version) as asker:
        assert unpack(await archive(asker, "skill://plain.zip"), ArchiveFormat.ZIP).keys() == {"SKILL.md"}
        assert len(skills.publisher._shelf._kept) == 1
        assert skills.publisher._index._thread is None
        spelling = "skill://pl%61in%2Ezip"
        assert await asker.ask("resources/read", {"uri": spelling})


WRONG = [
    "skill://acme/refunds/inner.zip",
    "skill://acme/refunds/inner.tar.gz",
    "skill://acme/refunds.tar",
    "skill://acme/refunds.gz",
    "skill://acme/refunds.tgz",
    "skill://acme/refunds.ZIP",
    "skill://acme/refunds.zip.zip",
    "skill://acme/refunds.tar.gz.zip",
    "skill://acme/refunds.zip/",
    "skill://acme/refunds/.zip",
    "skill://acme/refunds/SKILL.md.zip",
    "skill://acme/refunds%2F.zip",
    "skill://acme.zip",
    "skill://.zip",
    "skill://.tar.gz",
    "skill://zip",
    "skill://other.zip",
    "skill://acme/../plain.zip",
    "skill://made.zip",
    "github://plain.zip",
]


@pytest.mark.rule("I3", "I12", "U3")
async def test_there_is_no_archive_at_any_other_uri(root: Path, publish: Publish, make: Make, version: str) -> None:
    skills = publish(root)
    skills.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\nNow.\n")
    async with asking(make(skills), version) as asker:
        for uri in WRONG:
            print(uri)
            await asker.refusal("resources/read", {"uri": uri})
        assert skills.publisher._shelf._kept == {}
        assert await archive(asker, "skill://plain.zip")


async def test_a_file_with_the_name_of_an_archive_is_that_file(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "one", {"two.zip": b"PK, not", "two/SKILL.md.zip": b"nor this"})
    async with asking(low_level(publish(tmp_path)), MODERN) as asker:
        assert await asker.text("skill://one/two.zip") == "PK, not"
        assert await asker.text("skill://one/two/SKILL.md.zip") == "nor this"


# Changes


@pytest.mark.rule("I3")
async def test_that_a_file_can_be_run_is_noticed_when_nothing_else_changed(root: Path, publish: Publish) -> None:
    skills = publish(root, watch=True)
    async with asking(low_level(skills), MODERN) as asker:
        await watching(skills)
        before = await announced(asker)
        (root / "acme/refunds/scripts/data.bin").chmod(0o755)
        live = skills.publisher.live
        await until(lambda: "scripts/data.bin" in live.catalog.listed[0].executable, "it is noticed")
        after = await announced(asker)
        assert {url for url in after if after[url] != before[url]} == {
            "skill://acme/refunds.zip",
            "skill://acme/refunds.tar.gz",
        }
        files = unpack(await archive(asker, "skill://acme/refunds.zip"), ArchiveFormat.ZIP)
        assert files["scripts/data.bin"].is_executable


@pytest.mark.rule("I3", "E3")
async def test_an_archive_is_of_what_was_published_not_of_what_lies_there_now(root: Path, publish: Publish) -> None:
    skills = publish(root)
    async with asking(low_level(skills), MODERN) as asker:
        digests = await announced(asker)
        skills.publisher._shelf._kept.clear()
        rewrite(root / "plain/SKILL.md", "not published yet")
        assert Digest.of(await archive(asker, "skill://plain.zip")) == digests["skill://plain.zip"]


@pytest.mark.rule("I3")
async def test_without_room_for_published_bytes_a_changed_skill_is_read_again_and_packed_as_it_is_now(
    root: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    skills = publish(root)
    async with asking(low_level(skills), MODERN) as asker:
        await asker.listing()
        rewrite(root / "plain/SKILL.md", "---\nname: plain\ndescription: Something else.\n---\n")
        files = unpack(await archive(asker, "skill://plain.zip"), ArchiveFormat.ZIP)
        assert b"Something else" in files["SKILL.md"].data
        assert (await asker.ask("skills/get", {"uri": "skill://plain/SKILL.md"}))["skill"]["frontmatter"] == {
            "name": "plain",
            "description": "Something else.",
        }
        (root / "plain/SKILL.md").unlink()
        await asker.refusal("resources/read", {"uri": "skill://plain.tar.gz"})
        rewrite(root / "acme/refunds/empty", "not empty")
        assert [entry["name"] for entry in json.loads(await asker.text("skill://index.json"))["skills"]] == ["refunds"]
