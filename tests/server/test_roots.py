"""Which directories are published, and where: several roots, prefixes, single skills, and what cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from skillquay.errors import UriError
from skillquay.server.extension import Skills
from tests.server.asking import MODERN, asking, low_level, write_skill

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Publish

pytestmark = pytest.mark.anyio


async def published(skills: Skills) -> list[str]:
    async with asking(low_level(skills), MODERN) as asker:
        uris = await asker.skills()
        for uri in uris:
            assert f"name: {uri.split('/')[-2]}\n" in await asker.text(uri)
    return uris


@pytest.mark.rule("U1", "U2")
async def test_several_roots_are_published_together_each_below_its_prefix(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path / "one", "a")
    write_skill(tmp_path / "two", "deep/er/b")
    write_skill(tmp_path / "three", "a")
    skills = publish(tmp_path / "one", str(tmp_path / "two"))
    skills.add(tmp_path / "three", prefix="/acme/billing/")
    assert await published(skills) == [
        "skill://a/SKILL.md",
        "skill://acme/billing/a/SKILL.md",
        "skill://deep/er/b/SKILL.md",
    ]


@pytest.mark.rule("U1")
async def test_one_prefix_holds_for_every_path_given_at_once(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path / "one", "a")
    write_skill(tmp_path / "two", "b")
    skills = publish(tmp_path / "one", tmp_path / "two", prefix="acme")
    assert await published(skills) == ["skill://acme/a/SKILL.md", "skill://acme/b/SKILL.md"]


@pytest.mark.rule("U1", "U2")
@pytest.mark.parametrize("path", ["refunds", "refunds/", "refunds/SKILL.md"])
@pytest.mark.parametrize("prefix", ["", "acme"])
async def test_a_single_skill_keeps_its_own_name(tmp_path: Path, publish: Publish, path: str, prefix: str) -> None:
    write_skill(tmp_path, "refunds", {"a.md": b"a"})
    write_skill(tmp_path, "other")
    skills = publish(f"{tmp_path}/{path}", prefix=prefix)
    at = f"skill://{prefix}/refunds" if prefix else "skill://refunds"
    assert await published(skills) == [f"{at}/SKILL.md"]


@pytest.mark.rule("U1")
async def test_paths_are_looked_at_from_where_they_were_given(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "here/refunds")
    monkeypatch.chdir(tmp_path / "here")
    skills = publish(".", "./refunds/SKILL.md", b"refunds")  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    assert await published(skills) == ["skill://refunds/SKILL.md"]


@pytest.mark.rule("G1", "N3")
async def test_of_two_directories_for_one_uri_the_first_is_served_and_the_operator_told(
    tmp_path: Path, publish: Publish
) -> None:
    write_skill(tmp_path / "one", "a", {"first.md": b""})
    write_skill(tmp_path / "two", "a", {"second.md": b""})
    skills = publish(tmp_path / "one", tmp_path / "two")
    assert await published(skills) == ["skill://a/SKILL.md"]
    async with asking(low_level(skills), MODERN) as asker:
        assert (await asker.ask("resources/read", {"uri": "skill://a/first.md"}))["contents"]
        assert (await asker.refusal("resources/read", {"uri": "skill://a/second.md"})).code == -32602
    (remark,) = skills.publisher.live.remarks
    assert remark.finding.kind == "published-twice"
    assert remark.location == str(tmp_path / "two/a")


@pytest.mark.parametrize("missing", ["gone", "file.txt", "gone/SKILL.md"])
def test_a_path_that_holds_no_skills_is_refused_when_it_is_given(tmp_path: Path, missing: str) -> None:
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(FileNotFoundError, match="is not a directory") as failure:
        Skills(tmp_path / missing)
    assert str(tmp_path / missing) in str(failure.value)


@pytest.mark.rule("U3")
@pytest.mark.parametrize("prefix", ["/", "//", "a//b", "..", "a/../b", "a/./b", "a\0b", "a\\b", "a\nb", "\ud800"])
def test_a_prefix_that_could_walk_is_refused_when_it_is_given(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(UriError):
        Skills(tmp_path, prefix=prefix)
    with pytest.raises(UriError):
        Skills().skill(prefix)


@pytest.mark.rule("U3")
async def test_a_prefix_of_any_alphabet_is_encoded_once(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "a")
    assert await published(publish(tmp_path, prefix="é &%20/b")) == ["skill://%C3%A9%20&%2520/b/a/SKILL.md"]


@pytest.mark.parametrize(
    "options", [{"page_size": 0}, {"page_size": -1}, {"ttl": -1}, {"ttl": float("nan")}, {"ttl": float("inf")}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="page_size is at least 1, and ttl a number of seconds"):
        Skills(**options)


async def test_nothing_is_added_once_the_skills_are_served(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "a")
    skills = publish(tmp_path)
    await skills.load()
    for add in (
        lambda: skills.add(tmp_path),
        lambda: skills.include(Skills(tmp_path)),
        lambda: skills.skill("made")(lambda: "x"),
    ):
        with pytest.raises(RuntimeError, match="before the first request"):
            add()
    assert await published(skills) == ["skill://a/SKILL.md"]


async def test_no_skills_at_all_are_an_empty_listing(tmp_path: Path, publish: Publish) -> None:
    assert await published(publish()) == []
    assert await published(publish(tmp_path)) == []


@pytest.mark.rule("F1", "F3")
async def test_with_strict_a_field_out_of_format_keeps_a_skill_out(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path, "good")
    write_skill(tmp_path, "odd", {}, "license: [MIT]")
    assert await published(publish(tmp_path)) == ["skill://good/SKILL.md", "skill://odd/SKILL.md"]
    assert await published(publish(tmp_path, strict=True)) == ["skill://good/SKILL.md"]


@pytest.mark.rule("U8")
async def test_nothing_outside_a_root_is_served_through_a_link(tmp_path: Path, publish: Publish) -> None:
    (tmp_path / "secret.txt").write_text("TOP SECRET")
    write_skill(tmp_path / "outside", "stolen")
    refunds = write_skill(tmp_path / "root", "refunds", {"real.md": b"real"})
    (refunds / "link.txt").symlink_to(tmp_path / "secret.txt")
    (refunds / "up").symlink_to(tmp_path)
    (tmp_path / "root/stolen").symlink_to(tmp_path / "outside/stolen")
    (refunds / "inner.md").symlink_to("real.md")
    async with asking(low_level(publish(tmp_path / "root")), MODERN) as asker:
        (entry,) = await asker.listing()
        files = [record["uri"] for record in entry["resources"]]
        assert files == [f"skill://refunds/{name}" for name in ("SKILL.md", "inner.md", "real.md")]
        assert await asker.text("skill://refunds/inner.md") == "real"
        for uri in ("skill://refunds/link.txt", "skill://refunds/up/secret.txt", "skill://stolen/SKILL.md"):
            assert (await asker.refusal("resources/read", {"uri": uri})).code == -32602


async def test_what_another_would_publish_can_be_included(tmp_path: Path, publish: Publish) -> None:
    write_skill(tmp_path / "one", "a")
    write_skill(tmp_path / "two", "b")
    other = publish(tmp_path / "two", prefix="other")
    other.skill("made")(lambda: "---\nname: made\ndescription: Made.\n---\n")
    skills = publish(tmp_path / "one")
    skills.include(other)
    assert await published(skills) == ["skill://a/SKILL.md", "skill://made/SKILL.md", "skill://other/b/SKILL.md"]


@pytest.mark.rule("L2")
async def test_what_is_included_may_be_kept_no_longer_than_where_it_comes_from(publish: Publish) -> None:
    skills = publish(ttl=60)
    skills.include(publish(ttl=5, private=True))
    skills.include(publish(ttl=30))
    async with asking(low_level(skills), MODERN) as asker:
        page = await asker.ask("skills/list")
        assert (page["ttlMs"], page["cacheScope"]) == (5000, "private")


async def test_an_author_finds_in_the_log_what_is_not_published_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(25):
        broken = tmp_path / f"broken-{number:02}"
        broken.mkdir()
        (broken / "SKILL.md").write_text("no frontmatter\n")
    write_skill(tmp_path, "good")
    skills = Skills(tmp_path, watch=False)
    await skills.load()
    skills.close()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 21
    assert lines[0].startswith(f"Not published: {tmp_path}/broken-00: ")
    assert lines[-1] == '… and 5 more reasons. "skillquay lint" tells them all.'
