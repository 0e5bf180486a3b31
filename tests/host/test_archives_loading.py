"""Skills that come as archives: verified before they are unpacked, read from what came out, and never live (I13)."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skillquay.archives.formats import ArchiveFormat
from skillquay.archives.packing import PackedFile, pack
from skillquay.core.approvals import Answer
from skillquay.core.changes import ManifestChange
from skillquay.core.digests import Digest
from skillquay.core.drafts import Assurance
from skillquay.core.identity import SkillId
from skillquay.core.questions import About, Reply
from skillquay.core.uris import SkillUri
from skillquay.errors import (
    BudgetError,
    DigestMismatchError,
    FrontmatterMismatchError,
    RefusedError,
    UnavailableError,
    UnlistedFileError,
    VerificationError,
)
from skillquay.host.budgets import Budgets
from skillquay.host.directory import State
from skillquay.wire.index_json import INDEX_URI
from tests.archives.hostile import repeated
from tests.archives.raw import Member, gzip, tar_member, zip_of
from tests.core.builders import publish, skill_md
from tests.host.scripted import PATIENT, Person, Scripted, failure, hosting, of_draft

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillquay.host.host import SkillHost
    from skillquay.host.people import Difference

pytestmark = pytest.mark.anyio

TAR_GZ, ZIP = ArchiveFormat
SKILL = publish({"a.md": b"the word is heron", "docs/b.md": b"beta"})
CHANGED = publish({"a.md": b"the word is boar"})
FRONT = dict(SKILL.entry.frontmatter)
URI = str(SKILL.entry.uri)
MIB = 1024 * 1024


def packed(files: Mapping[str, bytes] = SKILL.files, kind: ArchiveFormat = TAR_GZ) -> bytes:
    return pack({path: PackedFile(data) for path, data in files.items()}, kind)


def digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def june(archive: bytes, *, url: str = "skill://refunds.tar.gz", alone: bool = False, **more: Any) -> dict[str, Any]:
    """An index of one skill with an archive, whose files are also listed singly unless it is all there is."""
    item: dict[str, Any] = {"frontmatter": FRONT, "archives": [{"url": url, "digest": digest(archive)}]}
    if not alone:
        item |= {"url": URI, "digest": digest(SKILL.skill_md)}
    return {"skills": [item | more]}


def may(url: str = "skill://refunds.tar.gz") -> dict[str, Any]:
    return {"skills": [{"type": "archive", **FRONT, "url": url}]}


def serving(index: dict[str, Any], archive: bytes, *, at: str = "skill://refunds.tar.gz") -> Scripted:
    """A server of this index and archive, which says something else wherever a file is read live."""
    lies = {str(SKILL.uri(path)): b"evil" for path in SKILL.files}
    return of_draft({**lies, at: archive}, index=index)


def republish(server: Scripted, index: dict[str, Any], archive: bytes, *, at: str = "skill://refunds.tar.gz") -> None:
    server.files |= {INDEX_URI: json.dumps(index).encode(), at: archive}


def fetched(server: Scripted) -> list[str]:
    """All that was read beside the index."""
    return [uri for uri in server.reads if uri != INDEX_URI]


def forget(host: SkillHost) -> None:
    """As if there had been no room for archives and what came out of them."""
    host.loading.fetching._opened.clear()
    host.cache.clear()


def cached(host: SkillHost) -> list[Path]:
    return list(Path(host.cache.directory).glob("*/*/*"))


def windows(host: SkillHost) -> list[str]:
    return [str(skill) for skill in host.loading.windows.open_windows]


# I13, R3: one fetch, when it is needed, and everything from it


@pytest.mark.rule("I1", "I3", "I9", "I13", "R3")
@pytest.mark.parametrize("handshake", ["auto", "legacy"])
@pytest.mark.parametrize("alone", [False, True], ids=["beside files", "alone"])
@pytest.mark.parametrize(
    ("kind", "url", "media_type"),
    [
        (TAR_GZ, "skill://refunds.tar.gz", None),
        (ZIP, "skill://refunds.zip", None),
        (ZIP, "acme://packed/7", "application/zip"),
        (TAR_GZ, "skill://refunds.zip", "application/gzip"),
    ],
)
async def test_all_of_a_june_archive_is_read_from_the_verified_copy(
    tmp_path: Path, handshake: str, alone: bool, kind: ArchiveFormat, url: str, media_type: str | None
) -> None:
    data = packed(kind=kind)
    index = june(data, url=url, alone=alone)
    index["skills"][0]["archives"][0]["mimeType"] = media_type
    server, person = serving(index, data, at=url), Person()
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake) as host:
        known = host.find("refunds")
        assert known.entry is not None
        assert known.entry.assurance is Assurance.WHOLE
        assert known.entry.identity == (url if alone else URI)
        await host.people.question("refunds")
        await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        await host.people.revoke("refunds")
        assert fetched(server) == [], "neither listing nor answers fetch anything"
        text = await host.read_skill("refunds")
        assert 'uri="skill://refunds/SKILL.md" content="as listed by that server; a digest covers every file"' in text
        assert "Refund politely." in text
        assert "a.md (17 bytes)\ndocs/b.md (4 bytes)" in text
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        assert await host.read_skill_bytes("refunds", "docs/b.md") == b"beta"
        assert "heron" in await host.read_resource("acme", "skill://refunds/a.md")
        assert "b.md" in await host.read_resource("acme", "skill://refunds/docs")
        assert "Refund politely." in await host.read_skill_file("refunds", "SKILL.md")
        assert await host.people.content("refunds", "a.md") == b"the word is heron"
        assert fetched(server) == [url]
        for path in ("c.md", "docs/c.md"):
            with pytest.raises(UnlistedFileError):
                await host.read_skill_file("refunds", path)
        with pytest.raises(UnlistedFileError):
            await host.read_resource("acme", "skill://refunds/c.md")
        assert fetched(server) == [url]
        assert len(person.asked) == 1
        assert f"in the archive {url}" in person.shown


@pytest.mark.rule("I9", "I13", "A1")
@pytest.mark.parametrize("alone", [False, True], ids=["beside files", "alone"])
async def test_an_answer_about_a_june_archive_holds_after_a_restart_and_for_this_archive_alone(
    tmp_path: Path, alone: bool
) -> None:
    data, other = packed(), packed(CHANGED.files)
    server, person = serving(june(data, alone=alone), data), Person()
    for _ in range(2):
        async with hosting(tmp_path, {"acme": server}, person) as host:
            assert "Refund politely." in await host.read_skill("refunds")
            await host.survey()
            assert host.find("refunds").state is State.APPROVED
    assert len(person.asked) == 1
    assert fetched(server) == ["skill://refunds.tar.gz"], "the archive is kept, and hashed again"
    person.otherwise = Reply.LATER
    republish(server, june(other, alone=alone), other)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        assert host.find("refunds").state is State.CHANGED
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        assert "its archive is another one" in person.shown
    republish(server, june(data, alone=alone), data)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
    assert len(person.asked) == 3, "A, B, A revives nothing"


@pytest.mark.rule("I13", "K1")
@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: bytes(len(data)), lambda _: b""])
async def test_a_kept_archive_that_was_spoiled_is_fetched_again_and_that_is_told(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    data = packed()
    server = serving(june(data, alone=True), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        identity = host.find("refunds").identity
        assert isinstance(identity, SkillId)
        (kept,) = cached(host)
        assert kept.parts[-3:] == identity.cache_path(Digest(digest(data)))
        kept.write_bytes(spoil(data))
        host.loading.fetching._opened.clear()
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        assert fetched(server) == ["skill://refunds.tar.gz"] * 2
        assert [problem.rule for problem in host.problems] == ["K1"]
        assert kept.read_bytes() == data


@pytest.mark.rule("I9", "I13", "K1")
async def test_an_archive_without_a_digest_or_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    refused = HOSTILE["traversal"][0]
    for index, data in ((may(), packed()), (june(refused, alone=True), refused)):
        async with hosting(tmp_path, {"acme": serving(index, data)}, Person()) as host:
            with suppress(VerificationError):
                await host.read_skill("refunds")
            assert cached(host) == []


@pytest.mark.rule("I2", "I9", "I13", "A3")
@pytest.mark.parametrize("handshake", ["auto", "legacy"])
async def test_a_may_archive_is_unpacked_asked_about_each_time_and_proves_nothing(
    tmp_path: Path, handshake: str
) -> None:
    server, person = serving(may(), packed()), Person()
    async with hosting(tmp_path, {"acme": server}, person, handshake=handshake) as host:
        assert host.find("refunds").state is State.UNPROVEN
        text = await host.read_skill("refunds")
        assert 'content="not verified; no digest covers its files"' in text
        assert 'content="not verified; no digest covers its files"' in await host.read_skill_file("refunds", "a.md")
        assert fetched(server) == ["skill://refunds.tar.gz"]
        with pytest.raises(VerificationError):
            await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        await host.read_skill("refunds")
        assert [question.can_be_kept for question in person.asked] == [False, False]
        assert await host.people.approvals() == []


@pytest.mark.rule("I13", "W1")
async def test_a_may_archive_that_changes_is_not_mixed_with_what_is_in_use(tmp_path: Path) -> None:
    server = serving(may(), packed())
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        server.files["skill://refunds.tar.gz"] = packed(CHANGED.files)
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        assert await host.people.content("refunds", "a.md") == b"the word is boar", "a person sees what is there now"
        with pytest.raises(VerificationError):
            await host.read_skill_file("refunds", "a.md")
        assert "boar" not in await host.list_skill_files("refunds")


@pytest.mark.rule("I13")
async def test_a_may_skill_that_is_also_an_archive_is_read_file_by_file(tmp_path: Path) -> None:
    index = {"skills": [*may()["skills"], {"type": "skill-md", **FRONT, "url": URI}]}
    files = {str(SKILL.uri(path)): data for path, data in SKILL.files.items()}
    server = of_draft({**files, "skill://refunds.tar.gz": packed()}, index=index)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        assert len(host.skills) == 1
        await host.read_skill("refunds")
        assert fetched(server) == [URI]


@pytest.mark.rule("I9", "A2", "I13")
async def test_an_answer_of_v1_about_the_same_content_is_none_for_its_archive_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    data, person = packed(), Person()
    for server in (Scripted(SKILL), serving(june(data), data), Scripted(SKILL)):
        async with hosting(tmp_path, {"acme": server}, person) as host:
            assert "Refund politely." in await host.read_skill("refunds")
    assert len(person.asked) == 3


@pytest.mark.rule("I13", "N1")
async def test_a_skill_of_an_archive_alone_is_one_skill_by_its_place_as_by_its_archive(tmp_path: Path) -> None:
    data, person = packed(), Person()
    server = serving(june(data, alone=True), data)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        assert "Refund politely." in await host.read_skill_uri("acme", URI)
        assert windows(host) == ["acme: skill://refunds.tar.gz"]
        assert "already loaded" in await host.read_skill_uri("acme", "skill://refunds.tar.gz")
        assert fetched(server) == ["skill://refunds.tar.gz"], "its SKILL.md is not read live"
        assert len(person.asked) == 1
        host.release("refunds")
        assert windows(host) == []


@pytest.mark.rule("I12", "W2", "I13")
@pytest.mark.parametrize("in_use", [False, True], ids=["not in use", "in use"])
async def test_what_lies_in_the_directory_of_an_archive_is_no_skill_that_could_be_read_live(
    tmp_path: Path, in_use: bool
) -> None:
    data = packed({**SKILL.files, "inner/SKILL.md": skill_md("inner", body="As packed.\n")})
    server = serving(june(data, alone=True), data)
    server.files["skill://refunds/inner/SKILL.md"] = skill_md("inner", body="Evil.\n")
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        if in_use:
            await host.read_skill("refunds")
            assert "As packed." in await host.read_skill_file("refunds", "inner/SKILL.md")
        with pytest.raises(UnavailableError, match="has no skill at"):
            await host.read_skill_uri("acme", "skill://refunds/inner/SKILL.md")
        assert "skill://refunds/inner/SKILL.md" not in server.reads


@pytest.mark.rule("N1", "I13")
async def test_a_skill_that_becomes_one_of_an_archive_alone_is_another_skill(tmp_path: Path) -> None:
    data = packed()
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        republish(server, june(data, alone=True), data)
        with pytest.raises(UnavailableError, match="another skill at that place"):
            await host.read_skill("refunds")
        await host.refresh(anew=True)
        assert "Refund politely." in await host.read_skill("refunds")
        assert windows(host) == ["acme: skill://refunds.tar.gz"]


@pytest.mark.rule("N2", "I13")
async def test_skills_of_one_name_are_told_apart_by_where_they_are_or_by_their_archives(tmp_path: Path) -> None:
    data = packed()
    items = [
        june(data, url="skill://packed/v1.zip", alone=True)["skills"][0],
        may("skill://b/refunds.zip")["skills"][0],
    ]
    server = serving({"skills": items}, data, at="skill://packed/v1.zip")
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        names = [skill.name for skill in host.skills]
        assert names == ["acme:b/refunds.zip", "acme:packed/v1.zip"]
        assert {host.find(name).name for name in names} == set(names)


# R3: a person may look


@pytest.mark.rule("R3", "A5", "I13")
async def test_a_person_may_look_into_an_archive_before_they_answer_and_that_opens_no_window(tmp_path: Path) -> None:
    data, person = packed(), Person(Reply.LATER, looks_at=("SKILL.md", "docs/b.md"))
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        assert person.seen == [SKILL.skill_md.decode(), "beta"]
        assert ("a.md", 17) in await host.people.files("refunds")
        assert (windows(host), fetched(server)) == ([], ["skill://refunds.tar.gz"])
        with pytest.raises(RefusedError):
            await host.read_skill_file("refunds", "a.md")


# A2: what changed


async def changed(host: SkillHost) -> Difference:
    difference = await host.people.difference("refunds")
    assert difference is not None
    return difference


@pytest.mark.rule("A2", "R3", "I13")
@pytest.mark.parametrize("alone", [False, True], ids=["beside files", "alone"])
async def test_what_changed_in_an_archive_is_told_file_by_file(tmp_path: Path, alone: bool) -> None:
    data = packed()
    now = packed({"SKILL.md": SKILL.skill_md, "a.md": b"the word is boar", "c.md": b"new"}, ZIP)
    server = serving(june(data, alone=alone), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        same = await changed(host)
        assert (same.is_changed, same.change, same.not_compared) == (False, ManifestChange(), "")
    index = june(now, alone=alone)
    index["skills"][0]["archives"][0]["mimeType"] = "application/zip"
    republish(server, index, now)
    async with hosting(tmp_path, {"acme": server}, Person(Reply.LATER)) as host:
        before = len(fetched(server))
        found = await changed(host)
        a, b, c = (f"skill://refunds/{path}" for path in ("a.md", "docs/b.md", "c.md"))
        assert found.change == ManifestChange(added=(c,), removed=(b,), rewritten=(a,))
        assert (found.is_changed, found.not_compared) == (True, "")
        assert await host.people.compared(found, SkillUri(a)) == (b"the word is heron", b"the word is boar")
        assert await host.people.compared(found, SkillUri(c)) == (b"", b"new")
        assert fetched(server)[before:] == ["skill://refunds.tar.gz"], "what it was is not asked of the server"
        assert windows(host) == []
        assert host.find("refunds").state is State.CHANGED, "looking answers nothing"


@pytest.mark.rule("A2", "I13")
async def test_of_an_archive_that_was_approved_and_never_opened_nobody_can_tell_what_changed(tmp_path: Path) -> None:
    data, other = packed(), packed(CHANGED.files)
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        republish(server, june(other), other)
        await host.refresh(anew=True)
        found = await changed(host)
        assert "not in the cache" in found.not_compared
        assert found.change == ManifestChange(rewritten=("skill://refunds.tar.gz",))
        assert fetched(server) == [], "there is nothing to compare it with"


@pytest.mark.rule("A2", "I13")
async def test_an_archive_that_cannot_be_opened_any_more_is_a_change_with_its_reason(tmp_path: Path) -> None:
    data = packed()
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        republish(server, june(b"not an archive"), b"not an archive")
        await host.refresh(anew=True)
        found = await changed(host)
        assert found.is_changed
        assert "What it is now cannot be opened: The archive of" in found.not_compared


def repacked() -> Scripted:
    again = packed(kind=ZIP)
    index = june(again)
    index["skills"][0]["archives"][0]["mimeType"] = "application/zip"
    return serving(index, again)


@pytest.mark.rule("A2", "I9", "I13")
@pytest.mark.parametrize(
    ("serve", "alone", "change"),
    [
        (repacked, False, ManifestChange()),
        (lambda: Scripted(SKILL), False, ManifestChange(frontmatter_changed=True)),
        (
            lambda: serving(may(), packed(CHANGED.files)),
            True,
            ManifestChange(
                removed=("skill://refunds/docs/b.md",),
                rewritten=("skill://refunds/a.md",),
                became_dynamic=True,
                frontmatter_changed=True,
            ),
        ),
    ],
    ids=["packed anew", "v1", "April-May"],
)
async def test_files_are_compared_although_they_come_in_another_way(
    tmp_path: Path, serve: Callable[[], Scripted], alone: bool, change: ManifestChange
) -> None:
    data = packed()
    async with hosting(tmp_path, {"acme": serving(june(data, alone=alone), data)}, Person()) as host:
        await host.read_skill("refunds")
    async with hosting(tmp_path, {"acme": serve()}, Person()) as host:
        found = await changed(host)
        assert (found.is_changed, found.not_compared, found.change) == (True, "", change)


@pytest.mark.rule("A2", "I9", "I13")
async def test_where_one_side_has_no_list_of_files_nobody_can_tell_what_changed(tmp_path: Path) -> None:
    data, other = packed(), packed(CHANGED.files)
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        republish(server, june(data, archives=[]), data)
        await host.refresh(anew=True)
        found = await changed(host)
        assert found.not_compared == "Its server does not list its files any more."
        assert (found.change.became_dynamic, found.change.added) == (True, ())
        republish(server, june(other), other)
        await host.refresh(anew=True)
        host.loading.fetching._opened.clear()
        host.server_named("acme").unpacking.left = 0
        assert (await changed(host)).not_compared.startswith("What it was cannot be opened: The archive of skill://")
        with host.consent.store._database.transaction(write=True) as transaction:
            transaction.execute("UPDATE skillquay_answers SET entry = 'spoiled'")
        found = await changed(host)
        assert found.not_compared == "What it was cannot be read any more."
        assert found.change == ManifestChange(rewritten=("skill://refunds.tar.gz",))


@pytest.mark.rule("A2", "I9")
async def test_files_of_v1_are_compared_with_those_of_an_archive(tmp_path: Path) -> None:
    data = packed(CHANGED.files)
    async with hosting(tmp_path, {"acme": Scripted(SKILL)}, Person()) as host:
        await host.read_skill("refunds")
        await host.read_skill_file("refunds", "a.md")
    async with hosting(tmp_path, {"acme": serving(june(data), data)}, Person(Reply.LATER)) as host:
        found = await changed(host)
        a, b = (f"skill://refunds/{path}" for path in ("a.md", "docs/b.md"))
        assert found.change == ManifestChange(removed=(b,), rewritten=(a,), frontmatter_changed=True)
        assert await host.people.compared(found, SkillUri(a)) == (b"the word is heron", b"the word is boar")
        shown = "\n".join((await host.people.question("refunds")).lines())
        assert "its files come in this archive now, and did not then" in shown
        assert "removed" not in shown


# R2, W2: no way round


@pytest.mark.rule("R2", "W2", "I13")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://refunds.tar.gz",
        "SKILL://Refunds.TAR.gz",
        "skill://refunds.tar%2Egz",
        "skill://refunds.zip",
        "https://acme.example/refunds.zip",
        "HTTPS://acme.example:443/refunds.zip",
        "skill://refunds/a.md",
        "skill://refunds/SKILL.md",
    ],
)
@pytest.mark.parametrize("alone", [False, True], ids=["beside files", "alone"])
@pytest.mark.parametrize("in_use", [False, True], ids=["not in use", "in use"])
async def test_an_archive_is_no_resource_that_could_be_read_past_its_approval(
    tmp_path: Path, uri: str, alone: bool, in_use: bool
) -> None:
    data, zipped = packed(), packed(kind=ZIP)
    index = june(data, alone=alone)
    index["skills"][0]["archives"] += [
        {"url": url, "digest": digest(zipped)} for url in ("skill://refunds.zip", "https://acme.example/refunds.zip")
    ]
    server = serving(index, data)
    server.on["resources/read"] = lambda params: server._resources_read(
        params if params["uri"] in {INDEX_URI, "skill://refunds.tar.gz"} else {"uri": URI}
    )
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        if in_use:
            await host.read_skill("refunds")
        before = len(server.reads)
        if in_use and uri.startswith("skill://refunds/"):
            assert "evil" not in await host.read_resource("acme", uri)
        else:
            with pytest.raises(RefusedError):
                await host.read_resource("acme", uri)
        assert len(server.reads) == before


@pytest.mark.rule("R2")
async def test_the_archive_beside_a_may_skill_is_not_read_past_its_approval_either(tmp_path: Path) -> None:
    index = {"skills": [*may()["skills"], {"type": "skill-md", **FRONT, "url": URI}]}
    server = serving(index, packed())
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(RefusedError, match="archive of a skill"):
            await host.read_resource("acme", "skill://refunds.tar.gz")
        assert "skill-md" in await host.read_resource("acme", INDEX_URI), "the index has no content of skills"


# V1, V3: archives that do not fit


@pytest.mark.rule("I13", "V1", "V3")
async def test_an_archive_that_does_not_fit_its_digest_leads_to_the_index_once_and_is_not_unpacked(
    tmp_path: Path,
) -> None:
    bomb = repeated(tar_member("SKILL.md", SKILL.skill_md), bytes(MIB), 64)
    server, person = serving(june(packed()), bomb), Person()
    async with hosting(tmp_path, {"acme": server}, person) as host:
        before = len(server.reads)
        with pytest.raises(DigestMismatchError):
            await host.read_skill("refunds")
        assert server.reads[before:].count("skill://refunds.tar.gz") == 1
        assert server.reads[-1] == INDEX_URI
        assert len(person.asked) == 1
        assert windows(host) == []
        assert host.server_named("acme").unpacking.left == PATIENT.server_bytes, "nothing of it was inflated"


@pytest.mark.rule("I13", "V3", "A2", "D3")
async def test_an_archive_that_was_swapped_with_its_index_is_asked_about_again(tmp_path: Path) -> None:
    data, other = packed(), packed(CHANGED.files)
    server, person = serving(june(data, alone=True), data), Person()
    server.on["resources/read"] = lambda params: {**server._resources_read(params), "ttlMs": 60_000}
    async with hosting(tmp_path, {"acme": server}, person) as host:
        await host.people.answer("refunds", About.LOAD, Answer.ALLOW)
        republish(server, june(other, alone=True), other)
        await host.read_skill("refunds")
        assert len(person.asked) == 1
        assert "its archive is another one" in person.shown
        assert "boar" in await host.read_skill_file("refunds", "a.md")
        host.release("refunds")
        person.otherwise = Reply.DENY
        republish(server, june(data, alone=True), data)
        await host.refresh(anew=True)
        with pytest.raises(RefusedError):
            await host.read_skill("refunds")
        assert windows(host) == []


@pytest.mark.rule("I13", "W1")
async def test_an_archive_swapped_after_approval_does_not_reach_a_skill_in_use(tmp_path: Path) -> None:
    data = packed()
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")
        server.files["skill://refunds.tar.gz"] = packed(CHANGED.files)
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        forget(host)
        with pytest.raises(DigestMismatchError):
            await host.read_skill_file("refunds", "a.md")
        server.files["skill://refunds.tar.gz"] = data
        assert "heron" in await host.read_skill_file("refunds", "a.md"), "fetched and verified again"


@pytest.mark.rule("I13", "V3", "D3")
@pytest.mark.parametrize("reply", [Reply.KEEP, Reply.DENY])
async def test_an_archive_swapped_with_its_index_during_use_is_asked_about_before_anything_of_it_is_read(
    tmp_path: Path, reply: Reply
) -> None:
    data, other = packed(), packed(CHANGED.files)
    server, person = serving(june(data), data), Person(Reply.KEEP, reply)
    async with hosting(tmp_path, {"acme": server}, person) as host:
        await host.read_skill("refunds")
        republish(server, june(other), other)
        assert "heron" in await host.read_skill_file("refunds", "a.md")
        forget(host)
        if reply is Reply.DENY:
            with pytest.raises(RefusedError, match="has changed on its server and needs approval again"):
                await host.read_skill_file("refunds", "a.md")
        else:
            assert "boar" in await host.read_skill_file("refunds", "a.md")
        assert "its archive is another one" in person.shown


@pytest.mark.rule("V3")
async def test_an_archive_that_is_gone_leads_to_the_index_once(tmp_path: Path) -> None:
    server = serving(june(packed()), b"")
    del server.files["skill://refunds.tar.gz"]
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(UnavailableError, match="Unknown resource"):
            await host.read_skill("refunds")
        assert fetched(server) == ["skill://refunds.tar.gz"]


@pytest.mark.rule("A2", "B2", "I13")
async def test_an_index_that_fails_for_a_while_ends_no_answer_and_one_that_is_invalid_does(tmp_path: Path) -> None:
    data = packed()
    server = serving(june(data, alone=True), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        await host.read_skill("refunds")

        def refuse(_: Mapping[str, Any]) -> dict[str, Any]:
            raise failure(-32603, "Not now.")

        server.on["resources/read"] = refuse
        await host.refresh(anew=True)
        assert "already loaded" in await host.read_skill("refunds"), "it is in use"
        del server.on["resources/read"]
        await host.refresh(anew=True)
        assert host.find("refunds").state is State.APPROVED
        spoiled = june(data, alone=True)
        spoiled["skills"][0]["archives"][0]["digest"] = "md5:0"
        republish(server, spoiled, data)
        await host.refresh(anew=True)
        republish(server, june(data, alone=True), data)
        await host.refresh(anew=True)
        assert host.find("refunds").state is State.NEW


# I4, V2: hostile archives, each with a digest that fits it

HOSTILE: dict[str, tuple[bytes, str, str]] = {
    "bomb": (
        repeated(tar_member("SKILL.md", SKILL.skill_md) + tar_member("x", size=64 * MIB), bytes(MIB), 64),
        "",
        "larger than 16,777,216 bytes",
    ),
    "bomb of many files": (
        gzip(tar_member("SKILL.md", SKILL.skill_md) + b"".join(tar_member(f"{n}.md") for n in range(600))),
        "",
        "more than 512 files",
    ),
    "traversal": (gzip(tar_member("SKILL.md", SKILL.skill_md) + tar_member("../x.md", b"evil")), "", "x.md"),
    "absolute": (zip_of(Member("/etc/x.md", b"evil")), "application/zip", "x.md"),
    "symlink": (
        gzip(tar_member("SKILL.md", SKILL.skill_md) + tar_member("x.md", kind=b"2", link="../../secret")),
        "",
        "x.md",
    ),
    "no SKILL.md": (gzip(tar_member("docs/SKILL.md", SKILL.skill_md) + bytes(1024)), "", "no SKILL.md at its root"),
    "not an archive": (b"not an archive", "", "archive"),
    "empty": (b"", "application/zip", "archive"),
    "the other format": (packed(kind=ZIP), "application/gzip", "archive"),
}


@pytest.mark.rule("I4")
@pytest.mark.parametrize(("data", "media_type", "words"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("draft", ["June", "May"])
async def test_a_hostile_archive_is_refused_whole_and_the_host_goes_on(
    tmp_path: Path, data: bytes, media_type: str, words: str, draft: str
) -> None:
    index = june(data, alone=True) if draft == "June" else may()
    item = index["skills"][0]
    (item["archives"][0] if draft == "June" else item)["mimeType"] = media_type
    index["skills"].append({"type": "skill-md", "name": "other", "description": "x", "url": "skill://other/SKILL.md"})
    server = serving(index, data)
    server.files["skill://other/SKILL.md"] = skill_md("other").replace(b"What other is for.", b"x")
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(VerificationError, match=r"The archive of .* cannot be used") as told:
            await host.read_skill("refunds")
        assert words in told.value.message
        assert (windows(host), host.loaded) == ([], ())
        assert "Refund politely." in await host.read_skill("other")


@pytest.mark.rule("V2", "I13")
@pytest.mark.parametrize(
    "data",
    [
        skill_md("refunds", "allowed-tools: Bash"),
        skill_md("returns"),
        b"no frontmatter",
        b"---\nname: [\n---\n",
    ],
    ids=["another field", "another name", "none", "no YAML"],
)
async def test_an_archive_whose_frontmatter_is_not_the_indexs_is_refused(tmp_path: Path, data: bytes) -> None:
    archive = packed({"SKILL.md": data})
    server = serving(june(archive, alone=True), archive)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(FrontmatterMismatchError):
            await host.read_skill("refunds")
        assert windows(host) == []


@pytest.mark.rule("I13")
async def test_an_archive_with_another_skill_md_than_the_index_has_a_digest_of_is_refused(tmp_path: Path) -> None:
    archive = packed({"SKILL.md": skill_md(body="Refund rudely.\n")})
    server = serving(june(archive), archive)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(DigestMismatchError):
            await host.read_skill("refunds")
        assert windows(host) == []


@pytest.mark.rule("I4", "B1")
async def test_the_archives_of_one_server_together_have_an_allowance(tmp_path: Path) -> None:
    data = packed({**SKILL.files, "big.bin": bytes(MIB)})
    servers = {label: serving(may(), data) for label in ("acme", "other")}
    budgets = Budgets(discovery=30, server_bytes=2 * MIB + MIB // 2)
    async with hosting(tmp_path, servers, Person(), budgets=budgets) as host:
        for _ in range(2):
            await host.read_skill("acme:refunds")
        with pytest.raises(VerificationError, match=r"2,621,440 bytes that are unpacked .* Refresh, or load fewer"):
            await host.read_skill("acme:refunds")
        await host.read_skill("other:refunds")
        await host.refresh()
        await host.read_skill("acme:refunds")


@pytest.mark.rule("B1")
async def test_an_archive_that_is_too_large_is_not_taken(tmp_path: Path) -> None:
    data = bytes(33 * MIB)
    server = serving(june(data), data)
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        with pytest.raises(BudgetError, match="larger than the 33,554,432 bytes"):
            await host.read_skill("refunds")
        assert windows(host) == []


async def test_what_came_out_of_archives_is_held_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillquay.host.fetching._MOST_HELD", MIB + MIB // 2)
    names = ("one", "two")
    archives = {n: packed({"SKILL.md": skill_md(n), "big.bin": bytes(MIB)}) for n in names}
    items = [june(archives[n], url=f"skill://{n}.tar.gz", alone=True)["skills"][0] for n in names]
    for name, item in zip(names, items, strict=True):
        item["frontmatter"] = {"name": name, "description": f"What {name} is for."}
    server = of_draft({f"skill://{n}.tar.gz": archives[n] for n in names}, index={"skills": items})
    async with hosting(tmp_path, {"acme": server}, Person()) as host:
        for name in ("one", "two", "two", "one"):
            await host.read_skill(name)
            assert await host.read_skill_bytes(name, "big.bin") == bytes(MIB)
        assert fetched(server) == ["skill://one.tar.gz", "skill://two.tar.gz"], "the rest is from the cache"
        assert host.loading.fetching._held <= MIB + MIB // 2
